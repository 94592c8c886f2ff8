// src/locks/append_cells.hpp: the records in the file of atomic_append: what is one, and reading and marking
// them. atomic_append.cpp has what is done with them.

#pragma once

#include "locks/append_layout.hpp"
#include "locks/lock_file.hpp"
#include "sys/descriptors.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>

namespace unio::inline v0_1::fs::append_layout {

inline std::uint64_t mix(std::uint64_t h) noexcept {
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return h ^ (h >> 31);
}

inline std::uint64_t raw(entity e) noexcept {
  return std::uint64_t{e.value} | std::uint64_t{e.exclusive} << 63;
}

inline std::uint64_t checksum_of(cell const& c) noexcept {
  std::uint64_t h = mix(c.id ^ 0x756e696f20617070);
  h = mix(h ^ (std::uint64_t{c.cells} << 16 | c.number) ^ c.count << 32);
  for (std::size_t i = 0; i != std::min<std::size_t>(c.count, entities_in_cell); ++i)
    h = mix(h ^ raw(c.entities[i]));
  return h;
}

/// A record that was cut off behind its entities has zeros from there on: see fill_up().
inline bool is_whole(cell const& c) noexcept {
  static constexpr entity none[entities_in_cell] = {};
  return std::memcmp(c.entities + c.count, none, (entities_in_cell - c.count) * sizeof(entity)) == 0;
}

inline bool is_valid(cell const& c) noexcept {
  return c.count != 0 && c.count <= entities_in_cell && c.number < c.cells && c.id <= id_mask &&
         c.checksum == checksum_of(c) && (c.state == done || is_whole(c));
}

/// The entity of that value in the sorted list, or null.
inline entity const* find(detail::entity_list const& in, std::uint64_t value) noexcept {
  auto const* const at =
      std::ranges::lower_bound(in, value, {}, [](entity e) { return std::uint64_t{e.value}; });
  return at != in.end() && at->value == value ? at : nullptr;
}

/// Whether the sorted list conflicts with an entity in the cell.
inline bool conflicts(cell const& c, detail::entity_list const& with) noexcept {
  return std::any_of(c.entities, c.entities + c.count, [&](entity e) {
    entity const* const same = find(with, e.value);
    return same != nullptr && (same->exclusive != 0 || e.exclusive != 0);
  });
}

/// Nothing was ever written here but perhaps the state: the storage was given back, or the file was cut off.
inline bool is_blank(cell const& c) noexcept { return c.checksum == 0 && c.id == 0 && c.count == 0; }

/// Whether a file without a header is a lock file that was cut off while it was in use, and has grown since:
/// it begins with a record, or with a page of zeros and ends with a record or with the state of one that is
/// done; or one page of zeros, of which a power loss came before the disk had the header. 1, 0, or a negative
/// native code.
int was_cut_off(int fd, std::uint64_t size) noexcept;

/// All cells of a record of another user.
class cells_of_one {
 public:
  int read(int fd, std::uint64_t at, std::size_t n) noexcept {
    n_ = n;
    if (n > 1) {
      many_.reset(new (std::nothrow) cell[n]);
      if (many_ == nullptr) return -ENOMEM;
    }
    return read_at(fd, get().data(), bytes(), at);
  }
  [[nodiscard]] std::span<cell> get() noexcept { return {many_ != nullptr ? many_.get() : &one_, n_}; }
  [[nodiscard]] std::size_t bytes() const noexcept { return n_ * sizeof(cell); }

 private:
  std::size_t n_ = 0;
  cell one_;
  std::unique_ptr<cell[]> many_;
};

enum class wanted { all, untold };
int list(std::span<cell const> of, wanted which, detail::entity_list& to) noexcept;

int write_state(int fd, std::uint64_t at, state s) noexcept;

/// Calls f(offset, cell) for each valid cell that begins in [from, to), until it returns false or the file
/// ends. `gaps` becomes true if it found cells without content, or the file has ended before `to`.
template <class F>
int for_each_cell(int fd, std::uint64_t from, std::uint64_t to, F&& f, bool* gaps = nullptr) noexcept {
  cell some[32];
  while (from < to) {
    std::size_t const most = std::min<std::uint64_t>(std::size(some), (to - from) / sizeof(cell));
    iovec const v{.iov_base = some, .iov_len = most * sizeof(cell)};
    auto const got =
        sys::uninterrupted([&] { return sys::preadv2(fd, &v, 1, static_cast<std::int64_t>(from), 0); });
    if (got < 0) return static_cast<int>(got);
    std::size_t const n = static_cast<std::size_t>(got) / sizeof(cell);
    for (std::size_t i = 0; i != n; ++i, from += sizeof(cell)) {
      if (gaps != nullptr && is_blank(some[i])) *gaps = true;
      if (is_valid(some[i]) && !f(from, some[i])) return 0;
    }
    if (n == 0 || n != most) {
      if (gaps != nullptr) *gaps = true;
      return 0;
    }
  }
  return 0;
}

} // namespace unio::fs::append_layout
