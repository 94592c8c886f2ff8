// unio/asio_stream.hpp: streams of unio's as Asio, its ssl::stream and Beast want one.
//
// Part of unio/asio.hpp, which says what holds for handlers, errors, threads and lifetimes.

#pragma once

#include <unio/asio_context.hpp>
#include <unio/socket_handle.hpp>
#include <unio/stream.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

/// A stream of unio's as Asio wants one: AsyncReadStream, AsyncWriteStream, SyncReadStream, SyncWriteStream.
/// asio::async_read(), ssl::stream, Beast's HTTP and websockets work on it.
///
/// `S` is a handle (a socket, a pipe), any other stream of unio's (a tls_stream), or a reference to one.
///
/// Completes      as Asio's streams: (error_code, std::size_t); operations on no bytes at once, without an
///                error; one with more than 64 buffers takes the first 64
/// Errors         asio::error::eof at the end of the stream; the stream's own, as async_start()
/// Throws         functions without an error code: Asio's system_error
/// Blocking       functions without a token, as those of handles; on a stream that is none, the thread runs
///                the multiplexer until then (its own, if the context is no asio_context)
/// Cancellation   by the associated slot, by cancel(), and by closing or destroying the stream
/// Buffers        the caller's until the handler is called
/// Thread safety  one read and one write at a time; see unio/asio.hpp
/// Lifetime       neither moved nor destroyed while a read or write of a stream that is no handle is pending
/// Moved-from     as S
/// Cost           as async_start()
template <class S, class Executor = asio_executor> class asio_stream {
 public:
  using executor_type = Executor;
  using wrapped_type = std::remove_reference_t<S>;
  using lowest_layer_type = asio_stream;
  template <class Other> struct rebind_executor {
    using other = asio_stream<S, Other>;
  };

  /// Makes the stream of `arguments`. A handle without a multiplexer gets that of the context. Throws what
  /// making S throws.
  template <class... Arguments>
    requires std::constructible_from<S, Arguments...>
  explicit asio_stream(Executor const& executor, Arguments&&... arguments)
      : executor_(executor),
        pending_(detail::asio_group_of(executor)),
        stream_(static_cast<Arguments&&>(arguments)...) {
    set_multiplexer();
  }
  template <class... Arguments>
    requires std::constructible_from<S, Arguments...>
  explicit asio_stream(asio_context& c, Arguments&&... arguments)
      : asio_stream(Executor(c.get_executor()), static_cast<Arguments&&>(arguments)...) {}
  /// The same stream with another type of executor.
  template <class Other>
    requires(!std::same_as<Other, Executor> && std::convertible_to<Other, Executor>)
  explicit asio_stream(asio_stream<S, Other>&& other)
      : executor_(other.executor_),
        pending_(std::move(other.pending_)),
        stream_(static_cast<S&&>(other.stream_)) {}
  asio_stream(asio_stream&&) = default;
  asio_stream& operator=(asio_stream&&) = default;
  ~asio_stream() = default;

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] wrapped_type& wrapped() noexcept { return stream_; }
  [[nodiscard]] wrapped_type const& wrapped() const noexcept { return stream_; }
  [[nodiscard]] lowest_layer_type& lowest_layer() noexcept { return *this; }
  [[nodiscard]] lowest_layer_type const& lowest_layer() const noexcept { return *this; }

  /// Reads at least one byte. Returns what the token says; without a token the number of bytes. See the
  /// class.
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_read_some(Buffers const& buffers, Token&& token = Token());
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers> std::size_t read_some(Buffers const& buffers, asio_error_code& ec);
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers> std::size_t read_some(Buffers const& buffers) {
    return detail::asio_thrown([&](asio_error_code& ec) { return read_some(buffers, ec); });
  }
  /// Writes at least one byte. Returns as async_read_some(). See the class.
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_write_some(Buffers const& buffers, Token&& token = Token());
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers> std::size_t write_some(Buffers const& buffers, asio_error_code& ec);
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers> std::size_t write_some(Buffers const& buffers) {
    return detail::asio_thrown([&](asio_error_code& ec) { return write_some(buffers, ec); });
  }
  /// Connects a socket. Completes with (error_code). Returns what the token says.
  template <class Token = detail::asio_default_token<Executor>>
    requires std::derived_from<wrapped_type, socket_handle>
  auto async_connect(endpoint const& to, Token&& token = Token());

  /// Cancels what is pending. Returns how many operations that are.
  std::size_t cancel() noexcept { return pending_.cancel(); }
  [[nodiscard]] bool is_open() const noexcept
    requires requires(wrapped_type const& s) { s.is_open(); }
  {
    return wrapped().is_open();
  }
  /// Closes the handle; what is pending ends with operation_aborted. Returns the error.
  asio_error_code close(asio_error_code& ec) noexcept
    requires std::derived_from<wrapped_type, handle>;
  void close() noexcept
    requires std::derived_from<wrapped_type, handle>
  {
    asio_error_code ignored;
    close(ignored);
  }

 private:
  template <class, class> friend class asio_stream;
  template <class Buffer> struct initiates;
  void set_multiplexer() noexcept;

  Executor executor_;
  detail::asio_group pending_; // outlives the stream, whose end ends what is pending
  S stream_;
};

template <class S> asio_stream(asio_context&, S&&) -> asio_stream<std::remove_cvref_t<S>>;
template <class Executor, class S>
  requires(!std::derived_from<Executor, detail::net::execution_context>)
asio_stream(Executor const&, S&&) -> asio_stream<std::remove_cvref_t<S>, Executor>;

} // namespace unio

#include <unio/detail/asio_stream.hpp>
