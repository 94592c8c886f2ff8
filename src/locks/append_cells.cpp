// The records in the file of atomic_append.

#include "locks/append_cells.hpp"

namespace unio::inline v0_1::fs::append_layout {

int was_cut_off(int fd, std::uint64_t size) noexcept {
  constexpr std::uint64_t up_to_state = offsetof(cell, state) + sizeof(cell::state);
  if (size < sizeof(cell)) return 0;
  cell c;
  if (int const e = read_at(fd, &c, sizeof c, 0); e != 0) return e;
  if (is_valid(c)) return 1;
  char page[cells_at];
  if (size < sizeof page) return 0;
  if (int const e = read_at(fd, page, sizeof page, 0); e != 0) return e;
  if (!is_zero(page, sizeof page)) return 0;
  if (size == sizeof page) return 1;
  if (size < sizeof page + up_to_state) return 0;
  // Behind the state of another the record does not lie where one may begin.
  if (int const e = read_at(fd, &c, sizeof c, size - sizeof c); e != 0) return e;
  if (is_valid(c)) return 1;
  if (size % sizeof(cell) != up_to_state) return 0;
  std::uint64_t last = 0;
  int const e = read_at(fd, &last, sizeof last, size - sizeof last);
  return e != 0 ? e : last == done ? 1 : 0;
}

int list(std::span<cell const> of, wanted which, detail::entity_list& to) noexcept {
  std::size_t n = 0;
  std::unique_ptr<entity[]> const some(new (std::nothrow) entity[of.size() * entities_in_cell]);
  if (some == nullptr) return -ENOMEM;
  for (cell const& c : of)
    for (std::size_t i = 0; i != std::min<std::size_t>(c.count, entities_in_cell); ++i)
      if (which == wanted::all || (c.told >> i & 1) == 0) some[n++] = c.entities[i];
  int const e = to.assign(std::span<entity const>(some.get(), n));
  to.canonicalize();
  return e;
}

int write_state(int fd, std::uint64_t at, state s) noexcept {
  std::uint64_t const value = s;
  return write_at(fd, &value, sizeof value, at + offsetof(cell, state));
}

} // namespace unio::fs::append_layout
