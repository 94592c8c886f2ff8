// src/locks/ranges_layout.hpp: the lock file of byte_ranges (docs/explanation/shared-fs-mutexes.md).
//
//   0        ranges_header, one page, never changed. Anything more is the notes of earlier versions
//
// The file beside it, ".NAME.notes", mapped by all users; none on remote filesystems:
//
//   0        notes_header, one page
//   4096     death notes: buckets of words
//
// Kernel locks: on the byte at the value of each entity, though the file does not reach as far; on
// making_byte while it is made.

#pragma once

#include <unio/locks/byte_ranges.hpp>

namespace unio::inline v0_1::fs::ranges_layout {

inline constexpr char magic[] = "unio byte_ranges"; // the first 16
inline constexpr std::uint32_t version = 1;

inline constexpr std::uint64_t making_byte = byte_ranges::greatest_value + 1;

inline constexpr std::uint32_t bucket_bits = 13;
inline constexpr std::uint32_t words_in_bucket = 8;
inline constexpr std::size_t notes_at = 4096;
inline constexpr std::size_t notes_bytes =
    (std::size_t{1} << bucket_bits) * words_in_bucket * sizeof(std::uint64_t);
inline constexpr std::size_t file_bytes = notes_at + notes_bytes;

struct ranges_header {
  char magic[16];
  std::uint32_t version;
  std::uint32_t header_size;
  std::uint32_t buckets;
  std::uint32_t words;
  std::uint64_t checksum; // FNV-1a of the bytes before
  char zero[notes_at - 40];
};
static_assert(sizeof(ranges_header) == notes_at);

inline constexpr char notes_magic[16] = "unio br. notes";
struct notes_header {
  char magic[16];
  std::uint64_t device; // of the lock file
  std::uint64_t inode;
  std::uint32_t buckets;
  std::uint32_t words;
};

// A note is the value of an entity + 1, so that 0 is none, and perhaps this bit: a shared owner got the
// report.
inline constexpr std::uint64_t told_bit = std::uint64_t{1} << 63;

} // namespace unio::fs::ranges_layout
