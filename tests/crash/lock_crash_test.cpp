// The harnesses of harness.hpp, small: each algorithm must pass, and each planted defect must be noticed by
// one of them at least.
//
//   lock_crash_tests                          what CI runs: a part of the cases, in less than two minutes
//   lock_crash_tests --full                   all of them
//   lock_crash_tests --seed N                 other random scripts
//   lock_crash_tests --soak SECONDS [--algorithm NAME]   eight processes, random scripts, SIGKILL every few
//                                                        milliseconds
//     [--elsewhere DIRECTORY]...                           where others of them see the directory of
//                                                          temporary files ($TMPDIR): on a filesystem of
//                                                          other machines, mounted twice (scripts/check-nfs)

#include "crash/algorithms.hpp"
#include "crash/harness.hpp"
#include "crash/hook_modes.hpp"
#include "crash/processes.hpp"
#include "locks/lock_file.hpp"
#include "support/test.hpp"

#include <unistd.h>

#include <filesystem>

namespace {

using crash::algorithm;

struct {
  bool is_full = false;
  std::uint64_t seed = 1;
  long soak_seconds = 0;
  std::string only;
  std::vector<std::string> elsewhere;
} arguments;

// Which part of the cases: all of them have been seen to pass.
crash::thoroughness thoroughness() {
  if (arguments.is_full) return {};
  return {.one_of = 4, .preemptions = 2, .most_schedules = 40};
}

std::uint64_t next_seed() {
  std::uint64_t const seed = arguments.seed++;
  ::testing::Test::RecordProperty("seed", std::to_string(seed));
  return seed;
}

std::string by_threads_and_processes(algorithm const& a) {
  std::uint64_t const seed = next_seed();
  std::string wrong = check_at_random(a, {.seed = seed, .processes = 4, .threads = 3});
  return wrong.empty() ? wrong : wrong + " (--seed " + std::to_string(seed) + ")";
}
std::string by_processes_that_die(algorithm const& a) {
  std::uint64_t const seed = next_seed();
  std::string wrong = check_at_random(a, {.seed = seed, .processes = 6, .threads = 1, .kill_every_ms = 4});
  return wrong.empty() ? wrong : wrong + " (--seed " + std::to_string(seed) + ")";
}
std::string at_kill_points(algorithm const& a) { return check_kill_points(a, thoroughness()); }
std::string at_double_faults(algorithm const& a) { return check_double_faults(a, thoroughness()); }
std::string at_pause_points(algorithm const& a) { return check_pause_points(a, thoroughness()); }
std::string step_by_step(algorithm const& a) {
  crash::thoroughness t = thoroughness();
  t.seed = next_seed();
  return check_interleavings(a, t);
}

using harness = std::string (*)(algorithm const&);

// ── each algorithm passes ──────────────────────────────────────────────────────────────────────────────────

class lock_crash : public ::testing::TestWithParam<algorithm> {};

TEST_P(lock_crash, excludes_threads_and_processes_that_ask_at_random) {
  EXPECT_EQ(by_threads_and_processes(GetParam()), "");
}
TEST_P(lock_crash, survives_processes_that_are_killed_at_random) {
  EXPECT_EQ(by_processes_that_die(GetParam()), "");
}
TEST_P(lock_crash, is_had_by_others_wherever_a_process_is_killed) {
  EXPECT_EQ(at_kill_points(GetParam()), "");
}
TEST_P(lock_crash, is_had_by_others_wherever_the_one_that_recovers_is_killed) {
  EXPECT_EQ(at_double_faults(GetParam()), "");
}
TEST_P(lock_crash, is_never_stolen_from_a_stopped_process_nor_waited_for_too_long) {
  EXPECT_EQ(at_pause_points(GetParam()), "");
}
TEST_P(lock_crash, excludes_in_every_order_of_steps) { EXPECT_EQ(step_by_step(GetParam()), ""); }
TEST_P(lock_crash, joins_the_file_that_is_there_now) { EXPECT_EQ(crash::check_late_joiner(GetParam()), ""); }
TEST_P(lock_crash, tells_errors_and_does_not_take_them_for_contention) {
  EXPECT_EQ(crash::check_refusals(GetParam()), "");
}

INSTANTIATE_TEST_SUITE_P(of, lock_crash,
                         ::testing::ValuesIn(crash::algorithms().begin(), crash::algorithms().end()),
                         [](auto const& p) { return std::string(p.param.name); });

// ── each planted defect is noticed ─────────────────────────────────────────────────────────────────────────

struct control {
  char const* defect;
  char const* algorithm;
  char const* by;
  harness notices;
};

// The ids L1 … L14 are those of the published implementations' defects.
control const controls[] = {
#define CONTROL(defect, algorithm, harness) {defect, #algorithm, #harness, harness}
    // clang-format off
    CONTROL("L1", memory_map, by_threads_and_processes),
    CONTROL("L1", memory_map, step_by_step),
    CONTROL("L1", atomic_append, at_kill_points),
    CONTROL("L2", memory_map, by_threads_and_processes),
    CONTROL("L2", atomic_append, by_threads_and_processes),
    CONTROL("L2", byte_ranges, by_threads_and_processes),
    CONTROL("L2", lock_files, by_threads_and_processes),
    CONTROL("L3", byte_ranges, at_pause_points),
    CONTROL("L4", byte_ranges, crash::check_refusals),
    CONTROL("L5", atomic_append, by_threads_and_processes),
    CONTROL("L6", atomic_append, by_threads_and_processes),
    CONTROL("L8", atomic_append, crash::check_refusals),
    CONTROL("L9", memory_map, by_threads_and_processes),
    CONTROL("L10", byte_ranges, by_threads_and_processes),
    CONTROL("L10", byte_ranges, step_by_step),
    CONTROL("L10", atomic_append, by_threads_and_processes),
    CONTROL("L13", memory_map, at_kill_points),
    CONTROL("L14", memory_map, crash::check_late_joiner),
    CONTROL("L14", atomic_append, crash::check_late_joiner),
    CONTROL("untold", memory_map, at_kill_points),
    CONTROL("untold", memory_map, by_processes_that_die),
    CONTROL("untold", atomic_append, at_kill_points),
    CONTROL("told again", memory_map, at_kill_points),
    CONTROL("told by slot", memory_map, by_processes_that_die),
    CONTROL("told again", atomic_append, at_double_faults),
    CONTROL("stolen", memory_map, at_pause_points),
    CONTROL("no second look", memory_map, step_by_step),
    CONTROL("unverified", lock_files, step_by_step),
// clang-format on
#undef CONTROL
};

class planted_defect : public ::testing::TestWithParam<control> {};

TEST_P(planted_defect, is_noticed) {
  control const& c = GetParam();
  algorithm const* const a = crash::find_algorithm(c.algorithm);
  ASSERT_NE(a, nullptr);
  crash::planted const defect(c.defect);
  std::string wrong;
  for (int attempts = 0; attempts != 20 && wrong.empty(); ++attempts)
    wrong = c.notices(*a); // chance has a part in some: another seed each time
  EXPECT_TRUE(crash::was_asked_for_defect());
  EXPECT_NE(wrong, "");
  RecordProperty("noticed", wrong);
}

INSTANTIATE_TEST_SUITE_P(of, planted_defect, ::testing::ValuesIn(controls), [](auto const& p) {
  std::string name = std::string(p.param.defect) + "_in_" + p.param.algorithm + "_" + p.param.by;
  std::replace_if(name.begin(), name.end(), [](char c) { return c == ' ' || c == ':'; }, '_');
  return name;
});

// ── the soak ───────────────────────────────────────────────────────────────────────────────────────────────

// What `a` promises to those that see its file from several machines; nothing if it is refused there.
std::optional<algorithm> as_elsewhere(algorithm a) {
  if (arguments.elsewhere.empty()) return a;
  bool all_are_remote = true;
  std::vector<std::string> all = arguments.elsewhere;
  all.push_back(std::filesystem::temp_directory_path());
  for (std::string const& directory : all)
    all_are_remote &= unio::fs::lock_file::open({}, directory, {.directory = true}).value().is_remote();
  std::string_view const name = a.name;
  if (name == "atomic_append") return std::nullopt;
  if (name != "lock_files") a.tells = all_are_remote ? crash::telling::never : crash::telling::never_by_all;
  return a;
}

int soak() {
  std::int64_t const until = crash::now_ms() + arguments.soak_seconds * 1000;
  std::uint64_t rounds = 0;
  std::uint64_t grants = 0;
  while (crash::now_ms() < until) {
    for (algorithm const& any : crash::algorithms()) {
      if (!arguments.only.empty() && arguments.only != any.name) continue;
      std::optional<algorithm> const promised = as_elsewhere(any);
      if (!promised) continue;
      algorithm const& a = *promised;
      std::uint64_t here = 0;
      std::uint64_t const seed = arguments.seed++;
      std::int64_t const left = std::max<std::int64_t>(until - crash::now_ms(), 100);
      std::string const wrong = check_at_random(a,
                                                {.seed = seed,
                                                 .processes = 8,
                                                 .threads = 1 + static_cast<int>(seed % 2),
                                                 .span_ms = std::min<std::int64_t>(left, 10'000),
                                                 .kill_every_ms = arguments.elsewhere.empty() ? 3 : 30,
                                                 .elsewhere = arguments.elsewhere},
                                                &here);
      std::printf("%s, seed %lu: %lu requests granted%s%s\n", a.name, static_cast<unsigned long>(seed),
                  static_cast<unsigned long>(here), wrong.empty() ? "" : ": ", wrong.c_str());
      std::fflush(stdout);
      if (!wrong.empty()) return 1;
      grants += here;
      ++rounds;
    }
  }
  std::printf("%lu rounds, %lu requests granted, nothing lost\n", static_cast<unsigned long>(rounds),
              static_cast<unsigned long>(grants));
  return 0;
}

int wrong_usage(char const* what) {
  std::fprintf(stderr,
               "lock_crash_tests: %s: --full, --seed N, --soak SECONDS, --algorithm NAME or --elsewhere "
               "DIRECTORY expected\n",
               what);
  return 2;
}

} // namespace

int main(int argc, char** argv) {
  if (::access("/dev/shm", W_OK) == 0) ::setenv("TMPDIR", "/dev/shm", 0); // a disk has delays of its own
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i != argc; ++i) {
    std::string const name = argv[i];
    if (name == "--full") {
      arguments.is_full = true;
      continue;
    }
    if (name != "--seed" && name != "--soak" && name != "--algorithm" && name != "--elsewhere")
      return wrong_usage(argv[i]);
    if (i + 1 == argc) return wrong_usage(argv[i]);
    char const* const value = argv[++i];
    char* end = nullptr;
    unsigned long const number = std::strtoul(value, &end, 10);
    if (name == "--algorithm") {
      if (crash::find_algorithm(value) == nullptr) return wrong_usage(value);
      arguments.only = value;
    } else if (name == "--elsewhere") {
      arguments.elsewhere.emplace_back(value);
    } else if (*end != '\0' || end == value) {
      return wrong_usage(value);
    } else if (name == "--seed") {
      arguments.seed = number;
    } else {
      arguments.soak_seconds = static_cast<long>(number);
    }
  }
  return arguments.soak_seconds != 0 ? soak() : RUN_ALL_TESTS();
}
