// unio/detail/stream.hpp: references to streams.
//
//   awaits             what co_await of something yields
//   stream_reference   the base of any_read_stream, any_write_stream and any_stream
//   stream_awaitable   what their co_read and co_write return

#pragma once

#include <unio/handle.hpp>
#include <unio/task.hpp>

#include <concepts>
#include <coroutine>
#include <new>
#include <utility>

namespace unio::inline v0_1::detail {

template <class A> using awaited_t = decltype(awaiter_of(std::declval<A>()).await_resume());
template <class A, class T>
concept awaits = requires { requires std::convertible_to<awaited_t<A>, T>; };

using read_result = io_result<mutable_buffers>;
using write_result = io_result<const_buffers>;

/// How to read and write a stream that is no handle of unio's.
struct stream_operations {
  task<read_result> (*read)(void* stream, io_request<mutable_buffers>, deadline);
  task<write_result> (*write)(void* stream, io_request<const_buffers>, deadline);
};

template <class S> task<read_result> await_read(S& s, io_request<mutable_buffers> request, deadline d) {
  if constexpr (requires { s.co_read(request, d); }) {
    co_return co_await s.co_read(request, d);
  } else {
    co_return co_await s.co_read(request);
  }
}
template <class S> task<write_result> await_write(S& s, io_request<const_buffers> request, deadline d) {
  if constexpr (requires { s.co_write(request, d); }) {
    co_return co_await s.co_write(request, d);
  } else {
    co_return co_await s.co_write(request);
  }
}

template <class S> struct erased_stream {
  // If the stream's own function returns a task, no second one is needed around it.
  static task<read_result> read(void* p, io_request<mutable_buffers> request, deadline d) {
    S& s = *static_cast<S*>(p);
    if constexpr (requires {
                    { s.co_read(request, d) } -> std::same_as<task<read_result>>;
                  }) {
      return s.co_read(request, d);
    } else if constexpr (requires {
                           { s.co_read(request) } -> awaits<read_result>;
                         }) {
      return await_read(s, request, d);
    } else {
      return {};
    }
  }
  static task<write_result> write(void* p, io_request<const_buffers> request, deadline d) {
    S& s = *static_cast<S*>(p);
    if constexpr (requires {
                    { s.co_write(request, d) } -> std::same_as<task<write_result>>;
                  }) {
      return s.co_write(request, d);
    } else if constexpr (requires {
                           { s.co_write(request) } -> awaits<write_result>;
                         }) {
      return await_write(s, request, d);
    } else {
      return {};
    }
  }
  static constexpr stream_operations operations{&read, &write};
};

/// What the three kinds of reference share: an io_handle (no operations), or anything else with its
/// operations.
class stream_reference {
 public:
  stream_reference() = default;
  explicit operator bool() const noexcept { return object_ != nullptr; }
  /// The handle that it refers to; null if it refers to something else.
  [[nodiscard]] io_handle* handle() const noexcept {
    return operations_ == nullptr ? static_cast<io_handle*>(object_) : nullptr;
  }

 protected:
  template <class S>
    requires(!std::derived_from<S, stream_reference>)
  explicit stream_reference(S& s) noexcept {
    if constexpr (std::derived_from<S, io_handle>) {
      object_ = static_cast<io_handle*>(&s);
    } else {
      object_ = static_cast<void*>(__builtin_addressof(s));
      operations_ = &erased_stream<S>::operations;
    }
  }
  void* object_ = nullptr;
  stream_operations const* operations_ = nullptr;
};

/// A transfer on a reference: the operation of a handle, awaited directly, or a task.
template <class Sender> class UNIO_TO_AWAIT stream_awaitable {
  using result_type = typename Sender::result_type;

 public:
  explicit stream_awaitable(Sender sender) : operation_(static_cast<Sender&&>(sender)), is_operation_(true) {}
  explicit stream_awaitable(task<result_type> t) noexcept
      : task_(static_cast<task<result_type>&&>(t)), is_operation_(false) {}
  stream_awaitable(stream_awaitable&& other) : is_operation_(other.is_operation_) {
    if (is_operation_) {
      ::new (static_cast<void*>(&operation_))
          io_awaitable<Sender>(static_cast<io_awaitable<Sender>&&>(other.operation_));
    } else {
      ::new (static_cast<void*>(&task_)) task<result_type>(static_cast<task<result_type>&&>(other.task_));
    }
  }
  stream_awaitable& operator=(stream_awaitable&&) = delete;
  ~stream_awaitable() {
    if (is_operation_) {
      operation_.~io_awaitable<Sender>();
    } else {
      task_.~task<result_type>();
    }
  }

  static constexpr bool await_ready() noexcept { return false; }
  bool await_ready(environment const& e) noexcept { return is_operation_ && operation_.await_ready(e); }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    if (!is_operation_) return task_awaiter<result_type>(task_.child()).await_suspend(h, e);
    return operation_.await_suspend(h, e) ? std::noop_coroutine() : h;
  }
  result_type await_resume() {
    return is_operation_ ? operation_.await_resume() : task_.child().promise().take();
  }

 private:
  union {
    io_awaitable<Sender> operation_;
    task<result_type> task_;
  };
  bool is_operation_;
};

/// How a dynamic_buffer grows its type-erased container.
struct container_functions {
  std::byte* (*data)(void*) noexcept;
  std::size_t (*size)(void*) noexcept;
  std::size_t (*capacity)(void*) noexcept;
  void (*resize)(void*, std::size_t);
};
template <class C>
inline constexpr container_functions container_functions_of{
    [](void* c) noexcept { return reinterpret_cast<std::byte*>(static_cast<C*>(c)->data()); },
    [](void* c) noexcept { return static_cast<std::size_t>(static_cast<C*>(c)->size()); },
    [](void* c) noexcept { return static_cast<std::size_t>(static_cast<C*>(c)->capacity()); },
    [](void* c, std::size_t n) { static_cast<C*>(c)->resize(n); }};

} // namespace unio::detail
