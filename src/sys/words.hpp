// src/sys/words.hpp: words of memory as futex(2) takes them.

#pragma once

#include "sys/calls.hpp"

#include <linux/futex.h>

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1::sys {

inline std::uint32_t* address_of(std::atomic<std::uint32_t>& word) noexcept {
  static_assert(sizeof(word) == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free);
  return reinterpret_cast<std::uint32_t*>(&word);
}

/// Wakes up to `n`. By the kernel itself and not by the table in use, which another thread may be changing.
inline int wake_word(std::atomic<std::uint32_t>* word, bool is_shared, std::uint32_t n) noexcept {
  std::int64_t const r = past_tests::futex(reinterpret_cast<std::uint32_t*>(word),
                                           is_shared ? FUTEX_WAKE : FUTEX_WAKE_PRIVATE, n, nullptr);
  return r > 0 ? static_cast<int>(r) : 0;
}

} // namespace unio::sys
