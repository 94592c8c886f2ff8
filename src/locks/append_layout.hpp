// src/locks/append_layout.hpp: the lock file of atomic_append (docs/explanation/shared-fs-mutexes.md).
//
//   0        append_header, one page
//   4096     cells of 128 bytes; a request is one or more that follow each other
//
// Kernel locks on its bytes, far behind its end: init_byte and in_use_byte (lock_file.hpp), and

#pragma once

#include <unio/locks/shared_fs_mutex.hpp>

namespace unio::inline v0_1::fs::append_layout {

inline constexpr char magic[16] = "unio append";
inline constexpr std::uint32_t version = 1;

// Exclusive: changes records of others.
inline constexpr std::uint64_t recovery_byte = (std::uint64_t{1} << 62) + 2;
// + id, exclusive: the request lives, and is not done.
inline constexpr std::uint64_t request_bytes = std::uint64_t{1} << 61;
inline constexpr std::uint64_t id_mask = request_bytes - 1;

struct append_header {
  char magic[16];
  std::uint32_t version;
  std::uint32_t cell_size;
  std::uint64_t device; // of this very file: a copy is not valid
  std::uint64_t inode;
  std::uint64_t first; // nothing before this counts any more: a hint, never too large
};

enum state : std::uint64_t {
  waiting_or_held = 0, // while the byte of its id is locked; otherwise its owner died
  done = 1,
  died = 2, // its death is still to be reported to owners of its entities
};

constexpr std::size_t entities_in_cell = 10;
constexpr unsigned was_told_shift = 16;

struct cell {
  std::uint64_t checksum; // of the fields that do not change
  std::uint64_t id;
  std::uint32_t pid; // for people: nothing depends on it
  std::uint16_t cells;
  std::uint16_t number; // of this cell, from 0
  std::uint64_t count;  // of its entities
  std::uint64_t state;  // of the request: that of the first cell counts
  std::uint64_t told;   // a bit for each entity whose death was reported; 16 higher: reported to this request
  entity entities[entities_in_cell];
};
static_assert(sizeof(cell) == 128 && std::is_trivially_copyable_v<cell>);

inline constexpr std::uint64_t cells_at = 4096;

} // namespace unio::fs::append_layout
