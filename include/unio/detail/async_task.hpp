// unio/detail/async_task.hpp: implements unio/async_task.hpp.

#pragma once

#include <unio/async_task.hpp>

namespace unio::inline v0_1 {
namespace detail {

/// Whether it is std::bad_alloc.
[[nodiscard]] UNIO_API bool is_bad_alloc(std::exception_ptr const& e) noexcept;

} // namespace detail

template <class T, class Receiver> task_connection<T, Receiver>::~task_connection() {
  if (!started() || finished_) return;
  tells_ = false;
  stop_.request_stop();
  while (!finished_)
    if (!multiplexer_->run().has_value()) break; // it ends, and with it the task
}

template <class T, class Receiver> void task_connection<T, Receiver>::start(io_multiplexer* m) {
  UNIO_EXPECTS(!started(), "a connected task was started twice");
  if (m == nullptr) m = &this_thread::multiplexer();
  async_run(*m, static_cast<task<T>&&>(task_),
            [this](task_outcome<T> outcome) noexcept { ended(static_cast<task_outcome<T>&&>(outcome)); },
            {.stop = stop_.get_token()});
  multiplexer_ = m; // async_run() may have thrown
}

template <class T, class Receiver> io_status task_connection<T, Receiver>::poll() noexcept {
  if (!started()) return io_status::not_started;
  if (finished_) return io_status::completed;
  bool ended = false; // then this object may be destroyed
  bool* const outer = std::exchange(ended_in_poll_, &ended);
  (void)multiplexer_->try_run();
  if (!ended) {
    ended_in_poll_ = outer;
    return io_status::pending;
  }
  if (outer != nullptr) *outer = true;
  return io_status::completed;
}

template <class T, class Receiver>
void task_connection<T, Receiver>::ended(task_outcome<T> outcome) noexcept {
  if (!outcome.has_value()) {
    if constexpr (std::constructible_from<T, std::error_code>) {
      if (!detail::is_bad_alloc(outcome.error())) detail::unhandled(outcome.error());
      outcome = T(std::make_error_code(std::errc::not_enough_memory));
    } else {
      detail::unhandled(outcome.error());
    }
  }
  finished_ = true;
  if (ended_in_poll_ != nullptr) *ended_in_poll_ = true;
  if (!tells_) return;
  receiver_.set_value(static_cast<T&&>(*outcome));
  receiver_.set_done(); // may have destroyed this object
}

} // namespace unio
