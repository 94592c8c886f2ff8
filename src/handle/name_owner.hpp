// src/handle/name_owner.hpp: whose a name is that goes when its handle is closed.
//
// That of the process that opened it: a child of fork has a copy of the handle, and its parent the file.
// Noted with the descriptor, as in sys/descriptors.hpp: the last bits of fork_generation().

#pragma once

#include "sys/descriptors.hpp"

namespace unio::inline v0_1::detail {

inline constexpr std::uint32_t owner_bits = 7U << 21;

inline std::uint32_t this_owner() noexcept { return sys::fork_generation() << 21 & owner_bits; }
inline void note_owner(int fd) noexcept { sys::note_waited(fd, this_owner(), true); }
inline bool owns_name(int fd) noexcept {
  return (std::atomic_ref(sys::state_of(fd).waited).load(std::memory_order_relaxed) & owner_bits) ==
         this_owner();
}

} // namespace unio::detail
