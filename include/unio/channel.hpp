// unio/channel.hpp: values from coroutines to coroutines.
//
//   channel<T>   bounded, closable; any number of senders and receivers, on any threads
//
//   unio::channel<std::string> lines(16);
//   (co_await lines.send(std::move(line))).value();                    // waits while there are 16
//   while (auto line = co_await lines.receive()) use(*line);           // until it is closed and empty

#pragma once

#include <unio/detail/channel.hpp>

namespace unio {

/// A queue of at most `capacity` values between coroutines. With a capacity of zero a value is sent once a
/// coroutine waits to receive it.
///
/// Values         of a type that can be moved and destroyed without exceptions, which must not use the
///                channel. Each sender's arrive in the order in which it sent them; each arrives once
/// Fairness       first come, first served, senders and receivers; nobody overtakes those who wait
/// Resumes        on the executor of the coroutine's environment, by posting: never inside the call that lets
///                it go on
/// Cancellation   by the environment's stop token, from any thread. Sent is sent, and received is received:
///                who is told of the stop has not sent, or has not received
/// Failed sends   leave the value with the caller: `co_await c.send(std::move(v))` moves from `v` only if it
///                is sent. So does one that is cancelled, or whose coroutine is destroyed before
/// Destruction    of a coroutine that waits forgets it. A value that was meant for it stays where it is in
///                the queue, for the next. On the thread of its executor
/// Lifetime       outlives the waiting: each co_await, until it has returned. Its destructor destroys what
///                was not received
/// Awaited by     coroutines that have an environment, as task<T> has
/// Thread safety  all of it from any thread, but for construction and destruction; also by who is no
///                coroutine, but for co_await
/// Cost           one allocation, when it is made. A send and a receive: one atomic compare-and-swap each and
///                two moves in all, three where the receiver need not wait; a post for each who had to wait
/// Size           104 bytes
template <class T> class channel {
  static_assert(std::is_object_v<T> && std::is_nothrow_move_constructible_v<T> &&
                    std::is_nothrow_destructible_v<T>,
                "a value must be movable without exceptions: it moves where nobody could be told of one");

 public:
  using value_type = T;

  /// Throws  std::bad_alloc
  explicit channel(std::size_t capacity) : queue_(capacity, detail::channel_values_of<T>) {}

  /// `co_await c.send(std::move(v))` waits until there is room for `v`.
  ///
  /// Returns   nothing; `v` has been moved from
  /// Errors    EPIPE (std::errc::broken_pipe) once the channel is closed, as for a pipe that nobody will
  ///           read; condition::canceled. Then `v` is as it was
  /// Lifetime  `v` outlives the co_await, as a temporary in it does
  [[nodiscard]] detail::channel_send send(T&& v) noexcept { return {queue_, std::addressof(v)}; }
  /// The same with a copy, which is made now.
  [[nodiscard]] detail::channel_send_copy<T> send(T const& v)
    requires std::is_copy_constructible_v<T>
  {
    return {queue_, v};
  }
  /// Sends without waiting.
  ///
  /// Errors  condition::would_block if there is no room, or somebody waits for it; EPIPE. Then `v` is as it
  ///         was
  result<void> try_send(T&& v) noexcept { return detail::sent(queue_.try_send(std::addressof(v))); }
  result<void> try_send(T const& v)
    requires std::is_copy_constructible_v<T>
  {
    T copy(v);
    return detail::sent(queue_.try_send(std::addressof(copy)));
  }

  /// `co_await c.receive()` waits until there is a value.
  ///
  /// Returns  the oldest
  /// Errors   error::end_of_stream once the channel is closed and empty; condition::canceled
  [[nodiscard]] detail::channel_receive<T> receive() noexcept { return detail::channel_receive<T>(queue_); }
  /// Receives without waiting.
  ///
  /// Errors  condition::would_block if there is none, or none that is not kept for somebody who has waited;
  ///         error::end_of_stream
  [[nodiscard]] result<T> try_receive() noexcept {
    union place {
      place() noexcept {}
      ~place() {}
      T value;
    } p;
    detail::wait_outcome const o = queue_.try_receive(std::addressof(p.value));
    if (o == detail::wait_outcome::granted) {
      result<T> r(std::in_place, std::move(p.value));
      p.value.~T();
      return r;
    }
    return result<T>(std::unexpect, detail::receive_error(o));
  }

  /// Nothing more can be sent. Those who wait to send are told so and keep their values; what was sent can
  /// still be received. Again: nothing.
  void close() noexcept { queue_.close(); }
  [[nodiscard]] bool is_closed() const noexcept { return queue_.is_closed(); }
  /// How many values were sent and not received: a moment ago, if others use it.
  [[nodiscard]] std::size_t size() noexcept { return queue_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return queue_.capacity(); }

 private:
  detail::channel_queue queue_;
};

} // namespace unio
