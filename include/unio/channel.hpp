// unio/channel.hpp: passes values between coroutines.
//
//   channel<T>   bounded, closable; any number of senders and receivers, on any threads
//
//   unio::channel<std::string> lines(16);
//   (co_await lines.co_send(std::move(line))).value();                 // waits while there are 16
//   while (auto line = co_await lines.co_receive()) use(*line);        // until it is closed and empty

#pragma once

#include <unio/detail/channel.hpp>

namespace unio::inline v0_1 {

/// A queue of at most `capacity` values. With a capacity of zero a send completes once a coroutine waits to
/// receive. Fairness, resumption, cancellation, lifetime, awaiting: see sync.hpp.
///
/// Values         of a type that moves and is destroyed without exceptions; neither may use the channel. Each
///                sender's values arrive once, in the order it sent them
/// Cancellation   a send or receive that reports condition::canceled has not happened
/// Thread safety  everything but construction and destruction from any thread
/// Failed sends   leave the value with the caller: `co_await c.co_send(std::move(v))` moves from `v` only if
///                it is sent, also when the send is cancelled or its coroutine destroyed
/// Destruction    of a waiting coroutine takes it out of the queue; a value meant for it goes to the next
///                receiver. On the thread of its executor. The channel's destructor destroys its values
/// Cost           one allocation, when it is made. A send and a receive: one atomic compare-and-swap each and
///                two moves in all, three where the receiver need not wait; a post for each that had to wait
/// Size           104 bytes
template <class T> class channel {
  static_assert(std::is_object_v<T> && std::is_nothrow_move_constructible_v<T> &&
                    std::is_nothrow_destructible_v<T>,
                "a value must be movable without exceptions: it moves where none could be reported");

 public:
  using value_type = T;

  /// Throws  std::bad_alloc
  explicit channel(std::size_t capacity) : queue_(capacity, detail::channel_values_of<T>) {}

  /// `co_await c.co_send(std::move(v))` waits until there is room for `v`.
  ///
  /// Returns   nothing; `v` has been moved from
  /// Errors    EPIPE (std::errc::broken_pipe) once it is closed; condition::canceled. `v` is unchanged
  /// Lifetime  `v` outlives the co_await, as a temporary in it does
  [[nodiscard]] detail::channel_send co_send(T&& v) noexcept { return {queue_, std::addressof(v)}; }
  /// The same with a copy, which is made now.
  [[nodiscard]] detail::channel_send_copy<T> co_send(T const& v)
    requires std::is_copy_constructible_v<T>
  {
    return {queue_, v};
  }
  /// As co_send(), of which it is the old name.
  [[deprecated("use co_send"), nodiscard]] detail::channel_send send(T&& v) noexcept {
    return co_send(std::move(v));
  }
  [[deprecated("use co_send"), nodiscard]] detail::channel_send_copy<T> send(T const& v)
    requires std::is_copy_constructible_v<T>
  {
    return co_send(v);
  }
  /// Sends without waiting.
  ///
  /// Errors  condition::would_block if there is no room, or other senders wait; EPIPE. Then `v` is unchanged
  result<void> try_send(T&& v) noexcept { return detail::sent(queue_.try_send(std::addressof(v))); }
  result<void> try_send(T const& v)
    requires std::is_copy_constructible_v<T>
  {
    T copy(v);
    return detail::sent(queue_.try_send(std::addressof(copy)));
  }

  /// `co_await c.co_receive()` waits until there is a value.
  ///
  /// Returns  the oldest
  /// Errors   error::end_of_stream once the channel is closed and empty; condition::canceled
  [[nodiscard]] detail::channel_receive<T> co_receive() noexcept {
    return detail::channel_receive<T>(queue_);
  }
  /// As co_receive(), of which it is the old name.
  [[deprecated("use co_receive"), nodiscard]] detail::channel_receive<T> receive() noexcept {
    return co_receive();
  }
  /// Receives without waiting.
  ///
  /// Returns  the oldest
  /// Errors   condition::would_block if there is none, or all are kept for waiters; error::end_of_stream
  [[nodiscard]] result<T> try_receive() noexcept { return detail::received_at_once<T>(queue_); }

  /// Nothing more can be sent. Waiting senders fail with EPIPE and keep their values; values already sent can
  /// still be received. A second call does nothing.
  void close() noexcept { queue_.close(); }
  [[nodiscard]] bool is_closed() const noexcept { return queue_.is_closed(); }
  /// How many values were sent and not received; a snapshot, if other threads use it.
  [[nodiscard]] std::size_t size() noexcept { return queue_.size(); }
  [[nodiscard]] std::size_t capacity() const noexcept { return queue_.capacity(); }

 private:
  detail::channel_queue queue_;
};
} // namespace unio
