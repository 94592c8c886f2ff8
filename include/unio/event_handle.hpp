// unio/event_handle.hpp: a counter that one thread signals and another waits for.

#pragma once

#include <unio/handle.hpp>

namespace unio {

class event_handle;

/// Waits until an event is signalled, and takes the signals.
///
/// Returns       how often the event was signalled since the last wait (at least 1)
/// Errors        condition::timed_out, would_block, canceled
/// Cancellation  signals that were taken are returned
/// Runs as       io_uring READ · read(2) on readiness
class UNIO_API async_wait_event : public io_operation, public detail::standard_sender<async_wait_event> {
 public:
  using result_type = io_result<std::uint64_t>;
  async_wait_event() = default;
  explicit async_wait_event(event_handle& h, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    int const r = outcome_value();
    if (r < 0) return detail::to_error_code(r);
    return count_;
  }

 private:
  friend struct detail::operation_access;
  std::uint64_t count_ = 0;
};

/// A counter that can be waited for (eventfd(2)).
///
/// Thread safety  signal() from any thread and from signal handlers; waiting as io_handle
class UNIO_API event_handle : public handle {
 public:
  event_handle() = default;
  /// Errors: EMFILE, ENFILE.
  static result<event_handle> create() noexcept;

  /// wait, try_wait, …, co_wait, …: see async_wait_event.
  UNIO_VERB_FORMS(wait, async_wait_event, ())

  /// Wakes the waiting operation. Never waits: a full counter stays full.
  result<void> signal(std::uint64_t count = 1) noexcept;

 private:
  explicit event_handle(int fd) noexcept : handle(fd, handle_kind::event) {}
};

inline async_wait_event::async_wait_event(event_handle& h, unio::deadline d) noexcept
    : io_operation(detail::wait_event_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d) {}
UNIO_SENDER_FORMS(async_wait_event, (event_handle & h), h)

} // namespace unio
