// locks_bench: the four mutexes of unio::fs, and the primitives that they are made of.

#include "primitives.hpp"
#include "users.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/lock_files.hpp>
#include <unio/locks/memory_map.hpp>

#include <array>
#include <concepts>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace locks_bench {
namespace {

namespace fs = unio::fs;

// All four alike: opened by each process, and all entities at once.
template <class M> class unio_mutex {
 public:
  explicit unio_mutex(place const& where) : mutex_(open(where.folder)) {
    for (unsigned i = 0; i < where.count; ++i)
      entities_[i] = fs::entity(place::entity_value(where.first + i));
    wanted_ = std::span(entities_).first(where.count);
  }

  unio::result<fs::entities_guard> acquire() {
    unio::result<fs::entities_guard> held = mutex_.lock(wanted_);
    if (!held) throw std::runtime_error(held.error().message());
    return held;
  }

 private:
  static M open(std::string const& folder) {
    auto m = M::open(folder + (std::same_as<M, fs::lock_files> ? "/files" : "/files/lock"));
    if (!m) throw std::runtime_error(m.error().message());
    return std::move(*m);
  }

  M mutex_;
  std::array<fs::entity, most_entities> entities_;
  std::span<fs::entity const> wanted_;
};

template <class L> void add_cases(std::vector<benchmarks::benchmark_case>& to, std::string const& subject) {
  // Up to eight processes with each number of entities, as the slides have it; more of them with one entity.
  for (const bool is_contended : {false, true})
    for (const unsigned users : {1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U, 16U, most_users})
      for (unsigned entities = 1; entities <= (users <= 8 ? most_entities : 1); ++entities)
        to.push_back({.subject = subject,
                      .parameters = {{"entities are", is_contended ? "contended" : "uncontended"},
                                     {"processes", std::to_string(users)},
                                     {"entities", std::to_string(entities)}},
                      .run = [=](std::uint64_t ms) {
                        return run_users({.users = users, .entities = entities, .is_contended = is_contended},
                                         ms, use<L>);
                      }});
}

std::vector<benchmarks::benchmark_case> cases() {
  std::vector<benchmarks::benchmark_case> all;
  add_cases<flock_files>(all, "flock");
  add_cases<ofd_ranges>(all, "OFD lock");
  add_cases<excl_files>(all, "O_EXCL file");
  add_cases<robust_mutexes>(all, "robust mutex");
  add_cases<words>(all, "atomics");
  add_cases<unio_mutex<fs::byte_ranges>>(all, "unio byte_ranges");
  add_cases<unio_mutex<fs::lock_files>>(all, "unio lock_files");
  add_cases<unio_mutex<fs::atomic_append>>(all, "unio atomic_append");
  add_cases<unio_mutex<fs::memory_map<>>>(all, "unio memory_map");
  return all;
}

} // namespace
} // namespace locks_bench

int main(int argc, char** argv) { return benchmarks::subject_main(argc, argv, locks_bench::cases()); }
