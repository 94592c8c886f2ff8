// The part of senders and receivers that is no template.

#include "sys/calls.hpp"

#include <unio/execution.hpp>

namespace unio::inline v0_1::detail {

bool stop_gate::open() noexcept {
  return (state_.fetch_or(bit_open, std::memory_order_acq_rel) & bit_stop) == 0;
}

void stop_gate::stop(io_operation& op) noexcept {
  if ((state_.fetch_or(bit_stop, std::memory_order_acq_rel) & bit_open) == 0) return; // open() will see it
  while (!op.started()) sys::sched_yield(); // another thread is starting it
  op.cancel();
}

std::exception_ptr canceled_exception() noexcept {
  return std::make_exception_ptr(std::system_error(ECANCELED, std::system_category()));
}

} // namespace unio::detail
