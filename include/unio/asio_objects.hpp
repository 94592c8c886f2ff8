// unio/asio_objects.hpp: what else of Asio's objects has a counterpart in unio.
//
//   asio_acceptor          accepts connections as streams
//   asio_datagram_socket   exchanges datagrams
//   asio_timer             waits for a moment
//
// Part of unio/asio.hpp, which says what holds for handlers, errors, threads and lifetimes.

#pragma once

#include <unio/asio_stream.hpp>
#include <unio/datagram_handle.hpp>
#include <unio/timer_handle.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <utility>

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

/// Accepts connections as streams.
///
/// Everything that is not said here, as asio_stream.
///
/// Errors         as async_accept
/// Lifetime       the context outlives it
/// Thread safety  one accept at a time; see unio/asio.hpp
/// Cancellation   by the associated slot, by cancel(), and by closing or destroying it
/// Cost           as async_start()
template <class Executor = asio_executor> class basic_asio_acceptor {
 public:
  using executor_type = Executor;
  using stream_type = asio_stream<socket_handle, Executor>;
  template <class Other> struct rebind_executor {
    using other = basic_asio_acceptor<Other>;
  };

  basic_asio_acceptor(Executor const& executor, listening_socket_handle h)
      : executor_(executor), pending_(detail::asio_group_of(executor)), handle_(std::move(h)) {
    detail::asio_give_multiplexer(handle_, pending_);
  }
  basic_asio_acceptor(asio_context& c, listening_socket_handle h)
      : basic_asio_acceptor(Executor(c.get_executor()), std::move(h)) {}
  /// Listens at `at`. Throws Asio's system_error with the errors of listening_socket_handle::listen().
  basic_asio_acceptor(asio_context& c, endpoint const& at, listen_options options = {})
      : basic_asio_acceptor(c, detail::asio_value(listening_socket_handle::listen(at, options))) {}
  /// The same with another type of executor.
  template <class Other>
    requires(!std::same_as<Other, Executor> && std::convertible_to<Other, Executor>)
  explicit basic_asio_acceptor(basic_asio_acceptor<Other>&& other)
      : executor_(other.executor_), pending_(std::move(other.pending_)), handle_(std::move(other.handle_)) {}

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] listening_socket_handle& wrapped() noexcept { return handle_; }
  /// Where it listens. Throws Asio's system_error.
  [[nodiscard]] endpoint local_endpoint() const { return detail::asio_value(handle_.local_endpoint()); }

  /// Accepts one connection. Completes with (error_code, stream_type). Returns what the token says.
  template <class Token = detail::asio_default_token<Executor>> auto async_accept(Token&& token = Token());
  /// The same, waiting. Returns a closed stream with an error.
  stream_type accept(asio_error_code& ec);
  stream_type accept() {
    return detail::asio_thrown([&](asio_error_code& ec) { return accept(ec); });
  }
  /// Cancels what is pending. Returns how many operations that are.
  std::size_t cancel() noexcept { return pending_.cancel(); }
  [[nodiscard]] bool is_open() const noexcept { return handle_.is_open(); }
  /// Closes it.
  void close() noexcept { (void)handle_.close(); }

 private:
  template <class> friend class basic_asio_acceptor;
  struct initiates;
  Executor executor_;
  detail::asio_group pending_;
  listening_socket_handle handle_;
};
using asio_acceptor = basic_asio_acceptor<>;

/// Exchanges datagrams.
///
/// Everything that is not said here, as asio_stream; a datagram may be empty.
///
/// Completes      with (error_code, std::size_t)
/// Errors         as async_receive_from, async_send_to
/// Thread safety  see unio/asio.hpp
/// Cancellation   by the associated slot, by cancel(), and by closing or destroying it
/// Buffers        the caller's, and so is `from`, until the handler is called
/// Cost           as async_start()
template <class Executor = asio_executor> class basic_asio_datagram_socket {
 public:
  using executor_type = Executor;
  template <class Other> struct rebind_executor {
    using other = basic_asio_datagram_socket<Other>;
  };

  basic_asio_datagram_socket(Executor const& executor, datagram_handle h)
      : executor_(executor), pending_(detail::asio_group_of(executor)), handle_(std::move(h)) {
    detail::asio_give_multiplexer(handle_, pending_);
  }
  basic_asio_datagram_socket(asio_context& c, datagram_handle h)
      : basic_asio_datagram_socket(Executor(c.get_executor()), std::move(h)) {}
  /// Bound to `at`. Throws Asio's system_error with the errors of datagram_handle::bind().
  basic_asio_datagram_socket(asio_context& c, endpoint const& at, datagram_options options = {})
      : basic_asio_datagram_socket(c, detail::asio_value(datagram_handle::bind(at, options))) {}
  /// The same with another type of executor.
  template <class Other>
    requires(!std::same_as<Other, Executor> && std::convertible_to<Other, Executor>)
  explicit basic_asio_datagram_socket(basic_asio_datagram_socket<Other>&& other)
      : executor_(other.executor_), pending_(std::move(other.pending_)), handle_(std::move(other.handle_)) {}

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] datagram_handle& wrapped() noexcept { return handle_; }
  /// The address that it is bound to. Throws Asio's system_error.
  [[nodiscard]] endpoint local_endpoint() const { return detail::asio_value(handle_.local_endpoint()); }

  /// Receives one datagram; what does not fit the buffers is lost. Returns what the token says; without a
  /// token the number of bytes.
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_receive_from(Buffers const& buffers, endpoint& from, Token&& token = Token());
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_receive(Buffers const& buffers, Token&& token = Token());
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers>
  std::size_t receive_from(Buffers const& buffers, endpoint& from, asio_error_code& ec);
  /// Sends one datagram. Returns as async_receive_from().
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_send_to(Buffers const& buffers, endpoint const& to, Token&& token = Token());
  /// The same, to the peer that it is connected to.
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_send(Buffers const& buffers, Token&& token = Token()) {
    return async_send_to(buffers, endpoint(), static_cast<Token&&>(token));
  }
  template <class Buffers>
  std::size_t send_to(Buffers const& buffers, endpoint const& to, asio_error_code& ec);
  /// Cancels what is pending. Returns how many operations that are.
  std::size_t cancel() noexcept { return pending_.cancel(); }
  [[nodiscard]] bool is_open() const noexcept { return handle_.is_open(); }
  /// Closes it.
  void close() noexcept { (void)handle_.close(); }

 private:
  template <class> friend class basic_asio_datagram_socket;
  struct initiates_receive;
  struct initiates_send;
  Executor executor_;
  detail::asio_group pending_;
  datagram_handle handle_;
};
using asio_datagram_socket = basic_asio_datagram_socket<>;

/// Waits for a moment: no descriptor, no thread.
///
/// Completes      with (error_code): operation_aborted if it was cancelled, set anew or destroyed
/// Errors         none of its own
/// Lifetime       the context outlives it
/// Thread safety  see unio/asio.hpp
/// Cancellation   by the associated slot, and as above
/// Cost           as async_start(), async_wait
template <class Executor = asio_executor> class basic_asio_timer {
 public:
  using executor_type = Executor;
  using clock_type = std::chrono::steady_clock;
  using duration = clock_type::duration;
  using time_point = clock_type::time_point;
  template <class Other> struct rebind_executor {
    using other = basic_asio_timer<Other>;
  };

  explicit basic_asio_timer(Executor const& executor)
      : executor_(executor), pending_(detail::asio_group_of(executor)) {
    timer_.set_multiplexer(pending_.service().multiplexer());
  }
  explicit basic_asio_timer(asio_context& c) : basic_asio_timer(Executor(c.get_executor())) {}
  basic_asio_timer(asio_context& c, duration from_now) : basic_asio_timer(c) { expires_after(from_now); }
  basic_asio_timer(asio_context& c, time_point at) : basic_asio_timer(c) { expires_at(at); }
  basic_asio_timer(basic_asio_timer&&) = default;
  basic_asio_timer& operator=(basic_asio_timer&& other) noexcept;
  ~basic_asio_timer() { pending_.cancel(); }
  /// The same with another type of executor.
  template <class Other>
    requires(!std::same_as<Other, Executor> && std::convertible_to<Other, Executor>)
  explicit basic_asio_timer(basic_asio_timer<Other>&& other)
      : executor_(other.executor_), pending_(std::move(other.pending_)), timer_(std::move(other.timer_)) {}

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  /// The moment that was set.
  [[nodiscard]] time_point expiry() const noexcept {
    return time_point(std::chrono::nanoseconds(timer_.moment().nanoseconds()));
  }
  /// Sets the moment. Cancels what waits; returns how many waits that are.
  std::size_t expires_at(time_point at) noexcept {
    timer_.expires_at(at);
    return cancel();
  }
  std::size_t expires_after(duration from_now) noexcept {
    timer_.expires_after(from_now);
    return cancel();
  }
  /// Waits until the moment has come. Returns what the token says.
  template <class Token = detail::asio_default_token<Executor>> auto async_wait(Token&& token = Token());
  /// The same, waiting here.
  void wait() noexcept { (void)timer_.wait(); }
  /// Cancels what waits, or the first that does. Returns how many waits that are.
  std::size_t cancel() noexcept { return pending_.cancel(); }
  std::size_t cancel_one() noexcept { return pending_.cancel_one(); }

 private:
  template <class> friend class basic_asio_timer;
  struct initiates;
  Executor executor_;
  detail::asio_group pending_;
  timer_handle timer_{deadline(time_point())};
};
using asio_timer = basic_asio_timer<>;

} // namespace unio

#include <unio/detail/asio_objects.hpp>
