// src/locks/map_layout.hpp: the lock file of memory_map, on disk and in memory. Shared only by little-endian
// machines (docs/explanation/shared-fs-mutexes.md).
//
//   0        map_header, one page
//   4096     map_user × 320
//   12288    map_slot × slots
//   …        map_notes × slots: rarely used fields
//
// Kernel locks on its bytes, far behind its end: init_byte and in_use_byte (lock_file.hpp), and

#pragma once

#include <unio/detail/map_slot.hpp>

namespace unio::inline v0_1::fs::map_layout {

inline constexpr char magic[16] = "unio memory_map";
inline constexpr std::uint32_t version = 2;

inline constexpr std::uint64_t lock_base = std::uint64_t{1} << 62;
inline constexpr std::uint64_t sync_byte = lock_base + 3;     // exclusive: reads the map from afar
inline constexpr std::uint64_t user_bytes = lock_base + 16;   // + number of the user, exclusive: it is alive
inline constexpr std::uint64_t slot_bytes = lock_base + 4096; // + number of the slot: degraded

// A slot's word, see map_protocol.hpp.
inline constexpr std::uint64_t owner_mask = 0xffff;
inline constexpr std::uint64_t waiting_bit = 1u << 16;
inline constexpr std::uint64_t reserved_bit = 1u << 17;
inline constexpr std::uint64_t died_bit = 1u << 18;
inline constexpr std::uint64_t noted_bit = 1u << 19;
inline constexpr unsigned told_shift = 32;
inline constexpr std::uint64_t told_mask = owner_mask << told_shift;
inline constexpr std::uint64_t kept_mask = died_bit | noted_bit | told_mask; // kept when the owner changes

constexpr std::uint64_t owner_of(std::uint64_t word) noexcept { return word & owner_mask; }
constexpr std::uint64_t told_of(std::uint64_t word) noexcept { return (word & told_mask) >> told_shift; }

/// Fields of a slot that are used only if there are waiters or deaths. `More` and `Dead` are bounds, see
/// map_protocol.hpp.
template <template <class> class Atomic, std::size_t More, std::size_t Dead> struct alignas(64) basic_notes {
  static_assert(Dead <= 4);
  Atomic<std::uint64_t> fair_at_ns; // steady clock: from then on a release is for a sleeper
  Atomic<std::uint64_t> told_of; // 16 bits for each of `dead`: a sharer that got the report, as in the word
  Atomic<std::uint64_t> more[More]; // as basic_slot::held: further entities of the owner's; or any_entity
  Atomic<std::uint64_t> dead[Dead]; // notes of entities whose owner died
};
using map_notes = basic_notes<std::atomic, 2, 4>;
static_assert(sizeof(map_notes) == 64);

/// In `more`: there are more entities than room. Never a note, because notes have their highest bit set.
inline constexpr std::uint64_t any_entity = 1;

constexpr std::uint64_t teller_of(std::uint64_t told_of, std::size_t i) noexcept {
  return told_of >> (16 * i) & owner_mask;
}
constexpr std::uint64_t teller(std::uint64_t user, std::size_t i) noexcept { return user << (16 * i); }

struct map_header {
  char magic[16];
  std::uint32_t version;
  std::uint32_t slots;
  std::uint32_t users;
  std::uint32_t slot_size;
  std::uint64_t hash_id;
  std::uint64_t device; // of the lock file: a copy is not valid. any_device: it was made from another machine
  std::uint64_t inode;
  std::uint64_t map_id; // random, of the map; the lock file has the id that its users use. 0: none
  std::uint8_t unused[64];
  alignas(64) std::atomic<std::uint64_t> epoch; // even: the map is in use; odd: degraded
};
static_assert(offsetof(map_header, epoch) == 128);

inline constexpr std::uint64_t any_device = 0;

struct map_user {
  std::atomic<std::uint32_t> in_use; // from opening until an orderly close
  std::uint32_t pid;                 // for people, in the namespace of the user: nothing depends on it
  std::uint64_t unused;
};
static_assert(sizeof(map_user) == 16);

inline constexpr std::size_t users_at = 4096;
inline constexpr std::size_t slots_at = 12288;
static_assert(users_at + users * sizeof(map_user) <= slots_at);

constexpr std::size_t file_size(std::uint32_t slots) noexcept {
  return slots_at + std::size_t{slots} * (sizeof(map_slot) + sizeof(map_notes));
}
constexpr std::size_t notes_at(std::uint32_t slots) noexcept { return slots_at + slots * sizeof(map_slot); }

} // namespace unio::fs::map_layout
