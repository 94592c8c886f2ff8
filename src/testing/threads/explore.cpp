// A child for each seed, and what it tells its parent in memory that they share.

#include "sys/barrier.hpp"
#include "testing/threads/scheduler.hpp"

#include <unio/detail/config.hpp>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <string_view>

namespace unio::inline v0_1::testing {
namespace {

using namespace threads;

[[noreturn]] void cannot(char const* what) noexcept {
  std::fprintf(stderr, "unio::testing::explore: %s: %s\n", what, std::strerror(errno));
  std::abort();
}

run_record& shared_record() noexcept {
  void* const p =
      ::mmap(nullptr, sizeof(run_record), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) cannot("mmap");
  return *static_cast<run_record*>(p);
}

[[noreturn]] void run_child(thread_options const& o, std::uint64_t seed, strategy s, std::uint64_t expected,
                            std::function<void()> const& program, run_record& r) noexcept {
  begin_run(o, seed, s, expected, r);
#if UNIO_HAS_EXCEPTIONS
  try {
    program();
  } catch (std::exception const& e) {
    current->end(run_end::exception, e.what());
  } catch (...) {
    current->end(run_end::exception, "an exception of another type");
  }
#else
  program();
#endif
  current->end(run_end::returned, "");
}

void run_once(thread_options const& o, std::uint64_t seed, strategy s, std::uint64_t expected,
              std::function<void()> const& program, run_record& r) {
  std::memset(static_cast<void*>(&r), 0, sizeof r);
  r.end = run_end::ended;
  pid_t const child = ::fork();
  if (child < 0) cannot("fork");
  if (child == 0) run_child(o, seed, s, expected, program, r);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) cannot("waitpid");
  if (WIFSIGNALED(status)) {
    int const by = WTERMSIG(status);
    r.end = by == SIGPROF || by == SIGALRM ? run_end::stuck : run_end::ended;
    std::snprintf(r.why, sizeof r.why, "%s\n", ::strsignal(by));
  } else if (WEXITSTATUS(status) != 0 || r.end == run_end::ended) {
    r.end = run_end::ended;
    std::snprintf(r.why, sizeof r.why, "exit status %d\n", WEXITSTATUS(status));
  }
}

std::string report_of(std::uint64_t seed, run_record const& r) {
  char line[256];
  std::snprintf(line, sizeof line, "seed %llu: %s after %llu steps, %llu switches, %.6f s\n",
                static_cast<unsigned long long>(seed), ends[static_cast<std::size_t>(r.end)],
                static_cast<unsigned long long>(r.steps), static_cast<unsigned long long>(r.switches),
                static_cast<double>(r.now) / 1e9);
  std::string text = line;
  text += r.why;
  text += "the last switches (step, seconds, from, where, to):\n";
  std::uint64_t const first = r.switches > run_record::kept ? r.switches - run_record::kept : 0;
  for (std::uint64_t i = first; i != r.switches; ++i) {
    run_record::turn const& t = r.last[i % run_record::kept];
    std::snprintf(line, sizeof line, "  %6llu %.6f T%d %s T%d\n", static_cast<unsigned long long>(t.step),
                  static_cast<double>(t.now) / 1e9, t.from, name_of(t.where), t.to);
    text += line;
  }
  text += "again: UNIO_THREADS_SEED=" + std::to_string(seed);
  char arguments[512];
  std::FILE* const f = std::fopen("/proc/self/cmdline", "re");
  std::size_t const n = f != nullptr ? std::fread(arguments, 1, sizeof arguments, f) : 0;
  if (f != nullptr) std::fclose(f);
  for (std::size_t i = 0; i < n; i += std::strlen(arguments + i) + 1) {
    arguments[n < sizeof arguments ? n : sizeof arguments - 1] = '\0';
    text += ' ';
    text += arguments + i;
  }
  return text + '\n';
}

std::optional<std::uint64_t> only_seed() noexcept {
  char const* const text = std::getenv("UNIO_THREADS_SEED");
  if (text == nullptr || *text == '\0') return std::nullopt;
  std::string_view const all(text);
  std::uint64_t n = 0;
  auto const [stop, e] = std::from_chars(all.data(), all.data() + all.size(), n);
  if (e == std::errc() && stop == all.data() + all.size()) return n;
  errno = EINVAL;
  cannot("UNIO_THREADS_SEED is not a number");
}

} // namespace

exploration explore(thread_options const& options, std::function<void()> const& program) {
  static run_record& record = shared_record();
  UNIO_EXPECTS(current == nullptr, "a program that explore() runs does not explore");
  thread_options o = options;
  std::optional<std::uint64_t> const only = only_seed();
  if (only.has_value()) o.first_seed = *only, o.seeds = 1;
  exploration all;
  std::fflush(nullptr);      // or each child would have it as well
  (void)sys::has_barriers(); // children inherit it; with threads each would wait some 10 ms
  // How long a run is: the changes of priorities are spread over it. A seed that is run again finds the same.
  run_once(o, options.first_seed, strategy{}, 0, program, record);
  std::uint64_t const expected = record.steps;
  timespec begin{};
  ::clock_gettime(CLOCK_MONOTONIC, &begin);
  for (std::uint64_t i = 0; i != o.seeds; ++i) {
    std::uint64_t const seed = o.first_seed + i;
    run_once(o, seed, strategy::of_seed(seed, o.slow_threads), expected, program, record);
    ++all.runs;
    all.steps += record.steps;
    all.fingerprint = (all.fingerprint ^ record.fingerprint) * 0x100000001b3 ^ record.steps;
    if (only.has_value()) std::fputs(report_of(seed, record).c_str(), stderr);
    if (record.end != run_end::returned && ++all.failures == 1) {
      all.seed = seed;
      all.end = record.end;
      all.report = report_of(seed, record);
    }
    if (all.failures != 0 && o.stop_at_first) break;
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    std::chrono::nanoseconds const passed = std::chrono::seconds(now.tv_sec - begin.tv_sec) +
                                            std::chrono::nanoseconds(now.tv_nsec - begin.tv_nsec);
    if (passed > o.max_real_time) break;
  }
  return all;
}

void require(bool is_met, char const* what) noexcept {
  if (is_met) return;
  if (current != nullptr) current->end(run_end::failed, what);
  std::fprintf(stderr, "unio::testing::require: %s\n", what);
  std::abort();
}

std::uint64_t schedule_seed() noexcept { return current != nullptr ? current->seed() : 0; }

} // namespace unio::testing
