// unio/event_handle.hpp: a counter that one thread signals and another waits for.

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1 {

/// Waits until an event is signalled, and takes the signals.
///
/// Returns       how often the event was signalled since the last wait (at least 1)
/// Errors        condition::timed_out, would_block, canceled
/// Cancellation  signals that were taken are returned
/// Runs as       io_uring READ · read(2) on readiness
class async_wait_event;

/// A counter that can be waited for (eventfd(2)).
///
/// Thread safety  signal() from any thread and from signal handlers; waiting as io_handle
class UNIO_API event_handle : public handle {
 public:
  event_handle() = default;
  /// Errors: EMFILE, ENFILE.
  static result<event_handle> create() noexcept;
  /// Takes over a descriptor made elsewhere, as io_handle::adopt. Errors: EBADF; EINVAL if it is no eventfd;
  /// as fcntl(2). On failure the descriptor is still the caller's.
  static result<event_handle> adopt(int fd) noexcept;

  /// wait, try_wait, …, co_wait, …: see async_wait_event.
  UNIO_VERB_FORMS(wait, async_wait_event, ())

  /// Wakes the waiting operation. Never waits: a full counter stays full. Errors: EINVAL for the largest
  /// count, 2^64 - 1; EBADF if it is closed.
  result<void> signal(std::uint64_t count = 1) noexcept;

 private:
  explicit event_handle(int fd) noexcept : handle(fd, handle_kind::event) {}
};

} // namespace unio

#include <unio/detail/event_handle.hpp>
