// src/op/registered.hpp: operations that a ring performs cheaper on memory that is registered with it.

#pragma once

#include "driver/registered_memory.hpp"

#include <linux/io_uring.h>

namespace unio::inline v0_1::op {

/// Whether the memory of an entry is registered; then the entry says which it is.
inline bool names_registered(io_uring_sqe& sqe, driver::registered_memory& memory) noexcept {
  int const number = memory.find(sqe.addr, sqe.len);
  if (number == driver::registered_memory::none) return false;
  sqe.buf_index = static_cast<std::uint16_t>(number);
  return true;
}

/// use_registered of an operation whose entry has another opcode then. Others that it prepares stay as they
/// are.
template <std::uint8_t From, std::uint8_t To>
void use_registered(io_uring_sqe& sqe, driver::registered_memory& memory) noexcept {
  if (sqe.opcode == From && names_registered(sqe, memory)) sqe.opcode = To;
}

} // namespace unio::op
