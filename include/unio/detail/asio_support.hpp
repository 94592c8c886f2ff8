// unio/detail/asio_support.hpp: what the classes of unio/asio.hpp share: errors, results, memory.

#pragma once

#include <unio/buffer_pool.hpp>
#include <unio/detail/asio_nodes.hpp>
#include <unio/detail/operations.hpp>
#include <unio/frames.hpp>
#include <unio/io_request.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

template <class Allocator, bool Tracks> class basic_asio_executor;

} // namespace unio

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

// ---- errors -----------------------------------------------------------------------------------------------

/// Asio's code for an error of unio's.
inline asio_error_code asio_error(std::error_code const& why) noexcept {
  if (!why) return {};
  if (why == condition::canceled) return net::error::make_error_code(net::error::operation_aborted);
  if (why == condition::end_of_stream) return net::error::make_error_code(net::error::eof);
  if (why == condition::timed_out) return net::error::make_error_code(net::error::timed_out);
  if (why == condition::would_block) return net::error::make_error_code(net::error::would_block);
  if (why.category() == std::system_category()) return {why.value(), net::error::get_system_category()};
  return why;
}

/// Calls f(ec). Throws the error, if there is one.
template <class F> auto asio_thrown(F f) {
  asio_error_code ec;
  auto value = f(ec);
  if (ec) throw asio_system_error(ec);
  return value;
}
template <class T> T asio_value(result<T> r) {
  if (!r.has_value()) throw asio_system_error(asio_error(r.error()));
  return *std::move(r);
}

template <class Executor> struct asio_default_token_of {
  using type = typename net::default_completion_token<Executor>::type;
};
template <class Executor> using asio_default_token = typename asio_default_token_of<Executor>::type;

// ---- results ----------------------------------------------------------------------------------------------

/// What a handler is called with for a result of unio's. `was_asked`: bytes were.
template <class Result> struct asio_result;
template <class T> struct asio_result<result<T>> {
  using signature = void(asio_error_code, T);
  static std::tuple<asio_error_code, T> arguments(result<T>&& r, bool) {
    if (r.has_value()) return {asio_error_code(), *std::move(r)};
    return {asio_error(r.error()), T()};
  }
};
template <> struct asio_result<result<void>> {
  using signature = void(asio_error_code);
  static std::tuple<asio_error_code> arguments(result<void>&& r, bool) noexcept {
    return {asio_error(r.error())};
  }
};
template <class T> struct asio_result<io_result<T>> : asio_result<result<T>> {};
template <class Buffer> struct asio_result<io_result<buffer_list<Buffer>>> {
  using signature = void(asio_error_code, std::size_t);
  static std::tuple<asio_error_code, std::size_t> arguments(io_result<buffer_list<Buffer>> const& r,
                                                            bool was_asked) noexcept {
    if (!r.has_value()) return {asio_error(r.error()), r.bytes_transferred()};
    if (was_asked && r.bytes_transferred() == 0)
      return {net::error::make_error_code(net::error::eof), std::size_t{0}};
    return {asio_error_code(), r.bytes_transferred()};
  }
};
template <> struct asio_result<io_result<lent_buffer>> {
  using signature = void(asio_error_code, lent_buffer);
  static std::tuple<asio_error_code, lent_buffer> arguments(io_result<lent_buffer>&& r, bool was_asked) {
    if (!r.has_value()) return {asio_error(r.error()), lent_buffer()};
    if (was_asked && r.bytes_transferred() == 0)
      return {net::error::make_error_code(net::error::eof), lent_buffer()};
    return {asio_error_code(), *std::move(r)};
  }
};
template <class T> struct asio_result<std::tuple<asio_error_code, T>> {
  using signature = void(asio_error_code, T);
  static std::tuple<asio_error_code, T> arguments(std::tuple<asio_error_code, T>&& r, bool) {
    return std::move(r);
  }
};

/// Whether no byte means that the stream has ended.
template <class Sender> bool asio_expects_bytes([[maybe_unused]] Sender const& s) noexcept {
  if constexpr (std::derived_from<Sender, async_read>) {
    return s.request().buffers.bytes() != 0;
  } else {
    return std::derived_from<Sender, async_receive>;
  }
}

/// Copies what a stream has returned in other memory than the request's.
inline void asio_settle(mutable_buffers const& wanted, mutable_buffers const& got) noexcept {
  if (got.empty() || wanted.empty() || got.front().data() == wanted.front().data()) return;
  std::size_t at = 0;
  auto to = wanted.begin();
  mutable_buffer room = *to;
  for (mutable_buffer const from : got) {
    for (at = 0; at != from.size();) {
      if (room.empty()) {
        if (++to == wanted.end()) return;
        room = *to;
        continue;
      }
      std::size_t const n = std::min(room.size(), from.size() - at);
      std::memmove(room.data(), from.data() + at, n);
      room = mutable_buffer(room.data() + n, room.size() - n);
      at += n;
    }
  }
}

// ---- buffers ----------------------------------------------------------------------------------------------

/// The first buffers of a sequence, in place, as one call takes them.
template <class Buffer> class asio_buffers {
 public:
  template <class Sequence> explicit asio_buffers(Sequence const& s) noexcept {
    auto const end = net::buffer_sequence_end(s);
    for (auto i = net::buffer_sequence_begin(s); i != end && size_ != capacity; ++i) {
      auto const b = as_buffer(*i);
      if (b.size() != 0) first()[size_++] = b;
    }
  }
  [[nodiscard]] buffer_list<Buffer> list() const noexcept {
    if (size_ == 0) return {};
    if (size_ == 1) return *first();
    return std::span<Buffer const>(first(), size_);
  }

 private:
  static constexpr std::size_t capacity = 64;
  static Buffer as_buffer(net::mutable_buffer const& b) noexcept { return {b.data(), b.size()}; }
  static Buffer as_buffer(net::const_buffer const& b) noexcept
    requires std::same_as<Buffer, const_buffer>
  {
    return {b.data(), b.size()};
  }
  Buffer* first() noexcept { return reinterpret_cast<Buffer*>(room_); }
  Buffer const* first() const noexcept { return reinterpret_cast<Buffer const*>(room_); }
  std::size_t size_ = 0;
  alignas(Buffer) std::byte room_[capacity * sizeof(Buffer)]; // what is not used is not touched
};
/// Of a sequence that has one buffer.
template <class Buffer> class asio_one_buffer {
 public:
  template <class Sequence> explicit asio_one_buffer(Sequence const& s) noexcept : one_(s.data(), s.size()) {}
  [[nodiscard]] buffer_list<Buffer> list() const noexcept {
    if (one_.empty()) return {};
    return one_;
  }

 private:
  Buffer one_;
};
template <class Buffer, class Sequence>
using asio_buffers_of = std::conditional_t<std::convertible_to<Sequence const&, net::const_buffer>,
                                           asio_one_buffer<Buffer>, asio_buffers<Buffer>>;

// ---- memory -----------------------------------------------------------------------------------------------

/// A block for a T, of an associated allocator. Where there is none: of the frame pool.
template <class Allocator, class T> struct asio_memory {
  using allocator = typename std::allocator_traits<Allocator>::template rebind_alloc<T>;
  static constexpr bool is_pooled =
      std::same_as<allocator, std::allocator<T>> && alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__;

  template <class... A> static T* make(Allocator const& with, A&&... arguments) {
    T* const p = allocate(with);
    try {
      return ::new (static_cast<void*>(p)) T(static_cast<A&&>(arguments)...);
    } catch (...) {
      free(with, p);
      throw;
    }
  }
  static T* allocate([[maybe_unused]] Allocator const& with) {
    if constexpr (is_pooled) {
      return static_cast<T*>(frame_pool::allocate(sizeof(T)));
    } else {
      allocator a(with);
      return std::to_address(std::allocator_traits<allocator>::allocate(a, 1));
    }
  }
  static void free([[maybe_unused]] Allocator const& with, T* p) noexcept {
    if constexpr (is_pooled) {
      frame_pool::deallocate(p, sizeof(T));
    } else {
      allocator a(with);
      using pointer = typename std::allocator_traits<allocator>::pointer;
      std::allocator_traits<allocator>::deallocate(a, std::pointer_traits<pointer>::pointer_to(*p), 1);
    }
  }
};

// ---- where ------------------------------------------------------------------------------------------------

template <class Allocator, bool Tracks>
std::true_type asio_executor_test(basic_asio_executor<Allocator, Tracks> const*);
std::false_type asio_executor_test(void const*);
/// An executor of an asio_context, or derived from one.
template <class Executor>
inline constexpr bool is_asio_executor =
    decltype(asio_executor_test(static_cast<Executor const*>(nullptr)))::value;

/// The service of the executor's context.
template <class Executor> asio_service& asio_service_of(Executor const& e);
/// A group in it, for an object.
template <class Executor> asio_group asio_group_of(Executor const& e) {
  asio_service& s = asio_service_of(e);
  return asio_group(s, s.is_shared());
}
/// A handle without a multiplexer gets that of the context.
template <class Handle> void asio_give_multiplexer(Handle& h, asio_group const& g) noexcept {
  if (!h.has_multiplexer()) h.set_multiplexer(g.service().multiplexer());
}

} // namespace unio::detail
