// src/driver/uring/slots.hpp: names for operations that the kernel can hold without holding a pointer.
//
// user_data is a slot's number and its generation. A completion whose generation is not the slot's current
// one is of an operation that has gone, and is dropped (tokio#8112, mio CVE-2024-27308).

#pragma once

#include "sys/reservation.hpp"

#include <unio/operation.hpp>

#include <cstdint>

namespace unio::inline v0_1::driver {

class slot_table {
 public:
  static constexpr std::uint32_t none = 0;

  /// The user_data of a slot for `op`, or `none` if four million operations are in flight or there is no
  /// address space for the table. The slot is its lower half.
  std::uint64_t take(io_operation& op) noexcept {
    std::uint32_t i = free_;
    if (i != none) {
      free_ = slots_[i].next_free;
    } else {
      if (!slots_ || used_ == slots_.size()) return none;
      i = used_++;
    }
    slots_[i].op = &op;
    ++slots_[i].generation;
    return user_data(i);
  }
  void give_back(std::uint32_t i) noexcept {
    slot& s = slots_[i];
    ++s.generation;
    s.next_free = free_;
    free_ = i;
  }
  [[nodiscard]] std::uint64_t user_data(std::uint32_t i) noexcept {
    return std::uint64_t{slots_[i].generation} << 32 | i;
  }
  template <class F> void for_each(F f) noexcept {
    for (std::uint32_t i = 1; i < used_; ++i)
      if (slots_[i].generation % 2 != 0) f(*slots_[i].op);
  }
  /// The operation that `user_data` names, or null if it has gone.
  [[nodiscard]] io_operation* find(std::uint64_t user_data) noexcept {
    auto const i = static_cast<std::uint32_t>(user_data);
    if (i >= used_) return nullptr;
    slot const& s = slots_[i];
    return s.generation == user_data >> 32 ? s.op : nullptr; // only of one that is taken a name is known
  }

 private:
  struct slot {
    union {
      io_operation* op;
      std::uint32_t next_free;
    };
    std::uint32_t generation; // odd while it is taken
  };
  sys::reservation<slot, std::size_t{1} << 22> slots_;
  std::uint32_t used_ = 1; // slot 0 is none
  std::uint32_t free_ = none;
};

} // namespace unio::driver
