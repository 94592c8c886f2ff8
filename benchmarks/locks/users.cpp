// The parent's side of a run.

#include "users.hpp"

#include "support/helper_process.hpp"
#include "support/placement.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <system_error>

namespace locks_bench {
namespace {

constexpr std::uint64_t longest_wait_ns = 20'000'000'000;

[[noreturn]] void fail(std::string const& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// std::atomic::wait is for the threads of one process.
long futex(std::atomic<std::uint32_t> const& word, int what, std::uint32_t value) noexcept {
  static_assert(sizeof word == sizeof(std::uint32_t) && std::atomic<std::uint32_t>::is_always_lock_free);
  return ::syscall(SYS_futex, &word, what, value, nullptr, nullptr, 0);
}

// Beside this program: on the build directory's filesystem.
class run_folder {
 public:
  run_folder() {
    path_ = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "locks_XXXXXX";
    if (::mkdtemp(path_.data()) == nullptr) fail(path_);
    std::filesystem::create_directory(path_ + "/files");
    std::filesystem::permissions(path_ + "/files", std::filesystem::perms::owner_all);
  }
  ~run_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  run_folder(run_folder const&) = delete;
  run_folder& operator=(run_folder const&) = delete;
  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  std::string path_;
};

// A T in memory that is shared with children. No destructor is run: a process that was killed may still be in
// it.
template <class T> class shared_memory {
 public:
  explicit shared_memory(std::string const& file = "") {
    int fd = -1;
    if (!file.empty()) {
      fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      if (fd < 0 || ::posix_fallocate(fd, 0, sizeof(T)) != 0) fail(file);
    }
    void* const at =
        ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
    if (at == MAP_FAILED) fail("mmap");
    if (fd >= 0) ::close(fd);
    object_ = new (at) T;
  }
  ~shared_memory() { ::munmap(object_, sizeof(T)); }
  shared_memory(shared_memory const&) = delete;
  shared_memory& operator=(shared_memory const&) = delete;
  T& operator*() const noexcept { return *object_; }
  T* operator->() const noexcept { return object_; }

 private:
  T* object_;
};

void make_mutexes(lock_memory& memory) {
  pthread_mutexattr_t a;
  ::pthread_mutexattr_init(&a);
  ::pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  ::pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  for (auto& line : memory.mutexes)
    if ((errno = ::pthread_mutex_init(&line.mutex, &a)) != 0) fail("pthread_mutex_init");
  ::pthread_mutexattr_destroy(&a);
}

// With --pin: in turns on the two processors that it names.
void move_user(unsigned self) {
  char const* const cpu =
      std::getenv(self % 2 == 0 ? benchmarks::subject_cpu_variable : benchmarks::helper_cpu_variable);
  if (cpu != nullptr) benchmarks::move_to_cpu(std::atoi(cpu));
}

void check_failures(run_memory const& all, scene const& s) {
  for (unsigned i = 0; i < s.users; ++i)
    if (all.users[i].has_failed.load()) throw std::runtime_error(all.users[i].failure);
}

struct moment {
  std::uint64_t ns;
  std::array<std::uint64_t, most_users> locks;
};

// Time and counts of one moment: if this process lost its processor between them, once more.
moment look(run_memory const& all) {
  constexpr std::uint64_t longest_ns = 20'000;
  moment m{};
  for (int attempt = 0; attempt < 100; ++attempt) {
    m.ns = clock_ns(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < most_users; ++i) m.locks[i] = all.users[i].locks.load(std::memory_order_relaxed);
    if (clock_ns(CLOCK_MONOTONIC) - m.ns < longest_ns) break;
  }
  return m;
}

std::uint64_t sum(moment const& m) {
  std::uint64_t n = 0;
  for (std::uint64_t const locks : m.locks) n += locks;
  return n;
}

void check_counters(run_memory const& all, scene const& s) {
  for (unsigned user = 0; user < s.users; ++user) {
    const std::uint64_t locks = s.is_contended ? sum(look(all)) : all.users[user].locks.load();
    for (unsigned i = 0; i < s.entities; ++i) {
      const std::uint64_t counted = all.counters[s.is_contended ? 0 : user][i];
      if (counted != locks)
        throw std::runtime_error("does not exclude: " + std::to_string(locks) + " locks, but " +
                                 std::to_string(counted) + " were counted");
    }
  }
}

// Smallest share over largest.
double fairness(moment const& from, moment const& to, unsigned users) {
  std::uint64_t least = UINT64_MAX;
  std::uint64_t most = 0;
  for (unsigned i = 0; i < users; ++i) {
    const std::uint64_t n = to.locks[i] - from.locks[i];
    least = std::min(least, n);
    most = std::max(most, n);
  }
  return most != 0 ? static_cast<double>(least) / static_cast<double>(most) : 0;
}

void add_waits(benchmarks::sample& to, run_memory const& all, unsigned users) {
  benchmarks::histogram waits;
  std::uint64_t waited_ns = 0;
  for (unsigned i = 0; i < users; ++i) {
    waits.merge(all.users[i].waits);
    waited_ns += all.users[i].waited_ns;
  }
  to.extra.push_back(
      {"mean wait µs", static_cast<double>(waited_ns) / 1e3 / static_cast<double>(waits.total())});
  to.extra.push_back({"p99 µs", waits.percentile_ns(99) / 1e3});
  to.extra.push_back({"worst wait µs", static_cast<double>(waits.largest_ns()) / 1e3});
}

void add_waiting_cpu(benchmarks::sample& to, run_memory const& all, unsigned users) {
  double ns = 0;
  double cpu_ns = 0;
  for (unsigned i = 1; i < users; ++i) {
    ns += static_cast<double>(all.users[i].held_up_ns);
    cpu_ns += static_cast<double>(all.users[i].held_up_cpu_ns);
  }
  to.extra.push_back({"waiting CPU %", 100 * cpu_ns / ns});
}

} // namespace

void sleep_ns(std::uint64_t ns) {
  timespec t{.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
             .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
  while (::nanosleep(&t, &t) != 0 && errno == EINTR) {
  }
}

void wait_while(std::atomic<std::uint32_t> const& word, std::uint32_t value) {
  while (word.load() == value) futex(word, FUTEX_WAIT, value);
}

void set_and_wake(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  word.store(value);
  futex(word, FUTEX_WAKE, INT32_MAX);
}

void wait_until(std::function<bool()> const& is_so, char const* what) {
  const std::uint64_t due = clock_ns(CLOCK_MONOTONIC) + longest_wait_ns;
  while (!is_so()) {
    if (clock_ns(CLOCK_MONOTONIC) > due) throw std::runtime_error(what);
    sleep_ns(50'000);
  }
}

benchmarks::sample run_users(scene const& s, std::uint64_t ms,
                             void (*use)(run_memory&, place const&, scene const&, unsigned) noexcept) {
  const run_folder folder;
  const shared_memory<run_memory> all;
  const shared_memory<lock_memory> memory(folder.path() + "/memory");
  make_mutexes(*memory);

  std::array<std::optional<benchmarks::helper_process>, most_users>
      users; // killed before what they use goes away
  for (unsigned i = 0; i < s.users; ++i)
    users[i].emplace([&, i] {
      move_user(i);
      use(*all,
          {.folder = folder.path(),
           .memory = &*memory,
           .first = s.is_contended ? 0 : i * most_entities,
           .count = s.entities},
          s, i);
    });
  const auto all_are = [&](std::atomic<std::uint32_t> const& what) {
    check_failures(*all, s);
    return what.load() == s.users;
  };
  wait_until([&] { return all_are(all->ready); }, "a user does not begin");

  const std::uint64_t half_ns = std::max<std::uint64_t>(ms * 1'000'000 / 2, 1);
  const moment start = look(*all);
  set_and_wake(all->now, counting);
  sleep_ns(half_ns);
  const moment middle = look(*all);
  all->now.store(timing);
  sleep_ns(half_ns);
  const moment end = look(*all);
  all->now.store(holding);
  wait_until([&] { return all_are(all->finished); }, "a user does not come to its end");
  check_counters(*all, s);

  const auto counted_ns = static_cast<double>(middle.ns - start.ns);
  benchmarks::sample result{.elapsed_ns = static_cast<double>(end.ns - start.ns),
                            .value = static_cast<double>(sum(middle) - sum(start)) * 1e9 / counted_ns};
  add_waits(result, *all, s.users);
  if (s.is_contended && s.users > 1) {
    result.extra.push_back({"fairness", fairness(start, end, s.users)});
    add_waiting_cpu(result, *all, s.users);
  }
  return result;
}

} // namespace locks_bench
