// unio/detail/async_task.hpp: implements unio/async_task.hpp.

#pragma once

#include <unio/async_task.hpp>

namespace unio::inline v0_1 {

template <class T, class Receiver> task_connection<T, Receiver>::~task_connection() {
  if (!started() || finished_) return;
  tells_ = false;
  stop_.request_stop();
  while (!finished_)
    if (!multiplexer_->run().has_value()) break; // it ends, and with it the task
}

template <class T, class Receiver> void task_connection<T, Receiver>::start(io_multiplexer* m) {
  UNIO_EXPECTS(!started(), "a connected task was started twice");
  multiplexer_ = m != nullptr ? m : &this_thread::multiplexer();
  async_run(*multiplexer_, static_cast<task<T>&&>(task_),
            [this](task_outcome<T> outcome) noexcept { ended(static_cast<task_outcome<T>&&>(outcome)); },
            {.stop = stop_.get_token()});
}

template <class T, class Receiver> io_status task_connection<T, Receiver>::poll() noexcept {
  if (!started()) return io_status::not_started;
  if (!finished_) (void)multiplexer_->try_run();
  return finished_ ? io_status::completed : io_status::pending;
}

template <class T, class Receiver>
void task_connection<T, Receiver>::ended(task_outcome<T> outcome) noexcept {
  if (!outcome.has_value()) detail::unhandled(outcome.error());
  finished_ = true;
  if (!tells_) return;
  receiver_.set_value(static_cast<T&&>(*outcome));
  receiver_.set_done(); // may have destroyed this object
}

} // namespace unio
