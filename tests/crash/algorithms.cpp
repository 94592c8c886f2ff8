// The table of algorithms.

#include "crash/algorithms.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/lock_files.hpp>
#include <unio/locks/memory_map.hpp>

#include <sys/stat.h>

#include <utility>

namespace crash {

namespace {

using unio::fs::shared_fs_mutex;

template <class Mutex> std::unique_ptr<shared_fs_mutex> made_of(unio::result<Mutex> m, std::string& why) {
  if (m) return std::make_unique<Mutex>(std::move(*m));
  why = m.error().message();
  return nullptr;
}

template <class Mutex>
unio::result<unio::fs::entities_guard> lock_as(shared_fs_mutex& m, std::span<unio::fs::entity const> entities,
                                               unio::deadline d, bool spin) {
  return static_cast<Mutex&>(m).lock(entities, d, spin);
}

// So few slots that entities collide, three at most: deaths of so many are reported exactly.
using small_map = unio::fs::memory_map<unio::fs::fibonacci_hash, 5>;

unsigned itself(std::uint64_t value) { return static_cast<unsigned>(value); }

// clang-format off
algorithm const all[] = {
    {"memory_map",
     [](std::string const& d, unsigned, std::string& why) {
       return made_of(small_map::open(d + "/lock"), why);
     },
     lock_as<small_map>, itself, telling::once, 2},
    {"memory_map_with_one_from_afar",
     [](std::string const& d, unsigned user, std::string& why) {
       auto const sees = user % 3 == 1 ? unio::fs::map_visibility::none : unio::fs::map_visibility::automatic;
       return made_of(small_map::open(d + "/lock", sees), why);
     },
     lock_as<small_map>, itself, telling::never_by_all, 2},
    {"atomic_append",
     [](std::string const& d, unsigned, std::string& why) {
       return made_of(unio::fs::atomic_append::open(d + "/lock"), why);
     },
     lock_as<unio::fs::atomic_append>, itself, telling::once, 1},
    {"byte_ranges",
     [](std::string const& d, unsigned, std::string& why) {
       return made_of(unio::fs::byte_ranges::open(d + "/lock"), why);
     },
     lock_as<unio::fs::byte_ranges>, itself, telling::once, 2},
    {"lock_files",
     [](std::string const& d, unsigned, std::string& why) {
       return made_of(unio::fs::lock_files::open(d), why);
     },
     lock_as<unio::fs::lock_files>, itself, telling::once, 0},
};
// clang-format on

} // namespace

std::span<algorithm const> algorithms() { return all; }

algorithm const* find_algorithm(std::string const& name) {
  for (algorithm const& a : all)
    if (name == a.name) return &a;
  return nullptr;
}

} // namespace crash
