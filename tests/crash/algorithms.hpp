// The mutexes that the harnesses of this folder look at. Another one takes part by a line in algorithms.cpp.

#pragma once

#include <unio/locks/shared_fs_mutex.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace crash {

/// Which users report deaths.
enum class telling {
  never,
  never_by_all, ///< not while some users cannot
  once,
};

struct algorithm {
  char const* name;
  /// In `directory`, which is empty at first. `user` differs for each that opens it. Null, with `why`, if
  /// that fails.
  std::unique_ptr<unio::fs::shared_fs_mutex> (*open)(std::string const& directory, unsigned user,
                                                     std::string& why);
  /// As the class itself locks, which may be another way than that of the base.
  unio::result<unio::fs::entities_guard> (*lock)(unio::fs::shared_fs_mutex& m,
                                                 std::span<unio::fs::entity const> entities, unio::deadline d,
                                                 bool spin);
  /// What really is locked, below 64: two entities of the same key exclude each other.
  unsigned (*key)(std::uint64_t value);
  telling tells;
  /// How many names may be left in the directory when nothing is held.
  int files_left;
};

/// Entities of the scripts have values below this.
inline constexpr std::uint64_t values = 12;

std::span<algorithm const> algorithms();
/// Null if there is none of that name.
algorithm const* find_algorithm(std::string const& name);

} // namespace crash
