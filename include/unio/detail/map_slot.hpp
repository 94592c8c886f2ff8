// unio/detail/map_slot.hpp: a slot of memory_map's file, and what it takes to own one that is free. Here because that should cost a
// few instructions where it is asked for; all else is in src/fs/memory_map.cpp, the file's other parts in src/fs/map_layout.hpp.

#pragma once

#include <unio/fs/shared_fs_mutex.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unio::fs::map_layout {

inline constexpr std::uint32_t users = 320;

struct alignas(64) map_slot {
  std::atomic<std::uint64_t> word;  // see memory_map.cpp
  std::atomic<std::uint32_t> turn;  // changes at each release that somebody may sleep for
  std::atomic<std::uint32_t> drain; // changes when a reader leaves that an owner waits for
  std::atomic<std::uint64_t> readers[users / 64];
  std::atomic<std::uint64_t> fair_at_ns; // steady clock: from then on a release goes to one that sleeps
};
static_assert(sizeof(map_slot) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

inline bool has_readers(map_slot const& s) noexcept {
  static_assert(users == 5 * 64);
  auto const at = [&](std::size_t i) { return s.readers[i].load(std::memory_order_seq_cst); };
  return (at(0) | at(1) | at(2) | at(3) | at(4)) != 0;
}

inline bool is_odd(std::atomic<std::uint64_t> const& epoch) noexcept {
  return (epoch.load(std::memory_order_seq_cst) & 1) != 0;
}

} // namespace unio::fs::map_layout

namespace unio::fs::detail {

/// The map, as the quick way sees it.
struct quick_map {
  map_layout::map_slot* slots = nullptr; // none: there is no quick way
  std::atomic<std::uint64_t> const* epoch = nullptr;
  word_owner me;
};

} // namespace unio::fs::detail
