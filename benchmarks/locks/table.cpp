// locks: AFIO v2's tables of shared_fs_mutex: four algorithms, one to eight entities, one to 32 processes.

#include "runner/table.hpp"

#include <fmt/format.h>

#include <linux/magic.h>
#include <sys/vfs.h>

#include <algorithm>

namespace benchmarks {
namespace {

std::string value_of(benchmark_case const& c, std::string const& name) {
  const auto p = std::ranges::find(c.parameters, name, &parameter::name);
  return p != c.parameters.end() ? p->value : std::string();
}

bool is_quick(benchmark_case const& c) {
  const std::string processes = value_of(c, "processes");
  const std::string entities = value_of(c, "entities");
  return (processes == "1" || processes == "2") && (entities == "1" || entities == "8");
}

bool is_crowd(benchmark_case const& c) {
  return value_of(c, "entities are") == "contended" && std::stoi(value_of(c, "processes")) >= 8 &&
         value_of(c, "entities") == "1";
}

std::string filesystem_of(std::string const& folder) {
  struct statfs s;
  if (::statfs(folder.c_str(), &s) != 0) return "unknown";
  const auto type = static_cast<unsigned long>(s.f_type);
  switch (type) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case XFS_SUPER_MAGIC:
      return "XFS";
    case BTRFS_SUPER_MAGIC:
      return "Btrfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlayfs";
    default:
      return fmt::format("of type {:#x}", type);
  }
}

} // namespace

table locks_table(settings const& s) {
  // A run's operations are milliseconds here: how many locks they hold is what is measured.
  const std::uint64_t run_ms = s.quick ? 40 : 180;
  // Eight processes and more on two processors: in less than seconds their shares are those of the
  // scheduler's slices.
  constexpr std::uint64_t fair_run_ms = 2000;
  table t{
      .name = "locks",
      .title =
          "processes that lock 1 … 8 entities as one and let them go: all the same ones (contended), or each "
          "its own",
      .unit = "locks per second of all processes",
      .higher_is_better = true,
      .reference = "OFD lock",
      .counted = {},
      .curves_over = {"entities", "processes"},
      .run_ms = static_cast<double>(run_ms),
      .rounds = s.quick ? 1 : 2,
      .notes =
          {fmt::format(
               "Lock files and the files that are mapped are on the build directory's filesystem ({}).",
               filesystem_of(s.programs)),
           "Peers have one primitive for each entity, taken in ascending order: flock, O_EXCL: a file "
           "each; OFD lock: a "
           "byte each of one file, let go all at once; robust mutex, atomics: a cache line each. "
           "Compare byte_ranges with "
           "OFD lock, lock_files with O_EXCL file, atomic_append with four OFD locks and a write, "
           "memory_map with robust "
           "mutex.",
           "Who finds an O_EXCL file yields 16 times, then sleeps 50 µs to 0.8 ms; atomics never sleep, "
           "but yield after "
           "128 looks.",
           "A run counts locks without a clock in its first half, and times each wait in its second, "
           "the clock's 20 to 50 "
           "ns included. Under the lock each process increments a counter for each entity, not "
           "atomically, and a lost "
           "update fails the row.",
           "fairness: the smallest share of the locks over the largest; of eight processes and more with one "
           "entity in two seconds, else in 0.18, in which the scheduler's slices are most of it. waiting "
           "CPU %: of a processor, by each process that waits while another holds for 20 ms."},
  };
  t.cases += program_cases(s, "locks_bench");
  for (benchmark_case& c : t.cases) c.operations = !s.quick && is_crowd(c) ? fair_run_ms : run_ms;
  if (s.quick) std::erase_if(t.cases, [](benchmark_case const& c) { return c.run && !is_quick(c); });
  return t;
}

} // namespace benchmarks
