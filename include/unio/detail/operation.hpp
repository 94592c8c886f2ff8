// unio/detail/operation.hpp: what is inlined of the state of an operation.

#pragma once

#include <unio/operation.hpp>

namespace unio::inline v0_1 {

inline io_status io_operation::poll() noexcept {
  std::uint32_t const s = load();
  if ((s & bit_completed) != 0) [[likely]]
    return io_status::completed;
  return (s & bit_started) != 0 ? look() : io_status::not_started;
}

inline void io_operation::reset() noexcept {
  (void)state_at_rest("an operation in flight cannot be reset");
  state().store(0, std::memory_order_relaxed);
}

inline void io_operation::deliver(unsigned stages) noexcept {
  if ((stages & value) != 0) set(bit_completed);
  if (is_atomic() && (load() & bit_abandoned) != 0) [[unlikely]]
    return told_after_abandon(*this, stages);
  notify_(*this, stages);
}

inline bool io_operation::ask(request r) noexcept {
  std::uint32_t const before = state().fetch_or(r | bit_asked, std::memory_order_acq_rel);
  return (before & (bit_asked | bit_closing | bit_finished)) == 0;
}

inline std::uint32_t io_operation::take_requests() noexcept {
  return state().fetch_and(~(bit_asked | request_start | request_cancel), std::memory_order_acq_rel);
}

inline bool io_operation::close_to_requests() noexcept {
  if (!is_atomic()) return true;
  std::uint32_t const before = state().fetch_or(bit_closing, std::memory_order_acq_rel);
  if ((before & bit_asked) == 0) return true;
  state().fetch_and(~bit_closing, std::memory_order_acq_rel);
  return false;
}

inline io_operation::io_operation(io_operation&& other) noexcept
    : faces_(other.faces_),
      own_multiplexer_(other.own_multiplexer_),
      notify_(other.notify_),
      deadline_(other.deadline_),
      kind_(other.kind_),
      quiet_(other.quiet_),
      multishot_(other.multishot_), // message_link_ is about an object's own members
      fd_(other.fd_),
      result_(other.result_),
      state_(other.state_at_rest("an operation in flight cannot be moved")) {
  other.fd_ = -1;
}

inline io_operation::~io_operation() {
  if (is_in_flight(state_)) [[unlikely]]
    misused_in_flight("an operation in flight was destroyed");
}

inline void io_operation::set_atomic(io_operation*& link) noexcept {
  auto const bytes = reinterpret_cast<std::intptr_t>(&link) - reinterpret_cast<std::intptr_t>(this);
  auto const pointers = bytes / static_cast<std::intptr_t>(sizeof(io_operation*));
  message_link_ = static_cast<std::int8_t>(pointers);
  UNIO_EXPECTS(message_link_ == pointers, "the link of an atomic form is too far from its operation");
}

inline void io_operation::set(std::uint32_t bits) noexcept {
  if (is_atomic()) {
    state().fetch_or(bits, std::memory_order_acq_rel);
  } else {
    state().store(state().load(std::memory_order_relaxed) | bits, std::memory_order_release);
  }
}

} // namespace unio
