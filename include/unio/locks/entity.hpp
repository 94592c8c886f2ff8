// unio/locks/entity.hpp: what a shared_fs_mutex locks.
//
//   entity          63 bits that the program chooses, and whether they are locked exclusively
//   entity_of       the entity of a name
//   random_entity   one that is different from all others
//
// Thread safety  the functions from any thread

#pragma once

#include <unio/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace unio::inline v0_1::fs {

/// What is locked: a number of the program's choice.
///
/// Thread safety  distinct: safe; shared: any number of readers
/// Size    8 bytes
/// Source  AFIO v2, shared_fs_mutex::entity_type
struct entity {
  std::uint64_t value : 63;
  std::uint64_t exclusive : 1;

  constexpr entity() noexcept : value(0), exclusive(1) {}
  /// Only the low 63 bits of `v` count.
  explicit constexpr entity(std::uint64_t v, bool alone = true) noexcept
      : value(v & ~(std::uint64_t{1} << 63)), exclusive(alone) {}

  /// The same, to be locked shared.
  [[nodiscard]] constexpr entity shared() const noexcept { return entity(value, false); }

  bool operator==(entity const&) const = default;
};
static_assert(sizeof(entity) == 8);

/// The entity of a name: the same for the same bytes, in all processes and versions. Two names get the same
/// one by chance once in 2^63; then they exclude each other, which is slow but right.
///
/// Cost  FNV-1a and a mixing step: some 1 ns a byte; no allocation
[[nodiscard]] UNIO_API entity entity_of(std::string_view name, bool exclusive = true) noexcept;
[[nodiscard]] UNIO_API entity entity_of(std::span<std::byte const> bytes, bool exclusive = true) noexcept;
/// A random one, different from all others. Errors: as getrandom(2). Cost: one system call.
[[nodiscard]] UNIO_API result<entity> random_entity(bool exclusive = true) noexcept;

} // namespace unio::fs
