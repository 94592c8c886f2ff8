// The table of system calls while threads are simulated: a point before and after each call. What answers
// below, the kernel or a simulated system, is called by the thread that has the baton alone, and never waits.

#include "sys/calls.hpp"

#include "testing/thread_hooks.hpp"
#include "testing/threads/scheduler.hpp"

#include <poll.h>

#include <cerrno>
#include <utility>

namespace unio::inline v0_1::testing::threads {
namespace {

constinit sys::table const* below = &sys::kernel;
constinit bool is_world = false; // a simulated system answers below

// After others a descriptor may be ready, or an arrival due.
constexpr bool changes_nothing(at c) noexcept {
  return c == at::call_steady_now || c == at::call_system_now || c == at::call_poll ||
         c == at::call_epoll_wait || c == at::call_fcntl || c == at::call_fstat || c == at::call_getrandom ||
         c == at::call_mmap || c == at::call_munmap || c == at::call_madvise || c == at::call_ask_libc;
}

template <class F> std::int64_t around(at c, F f) noexcept {
  if (!is_simulated()) return f();
  current->point(c);
  std::int64_t r = 0;
  {
    guard const here;
    r = f();
    if (!is_world && !changes_nothing(c)) current->system_changed(); // a simulated one says so itself
  }
  current->point(c);
  return r;
}

// A call that waits: `look` does what it does without waiting.
template <class Look> std::int64_t wait(at c, timespec const* timeout, Look look) noexcept {
  current->point(c);
  std::int64_t r = 0;
  {
    guard const here;
    std::int64_t const span =
        timeout == nullptr ? never : std::int64_t{timeout->tv_sec} * 1'000'000'000 + timeout->tv_nsec;
    std::int64_t const until = span < never - current->now ? current->now + span : never;
    me->looked = false;
    for (r = look(); r == 0 && current->now < until; r = look())
      (void)current->block(need::system, nullptr, until);
  }
  current->point(c);
  return r;
}

template <auto Entry, at Where> struct pointed;
template <class... A, std::int64_t (*sys::table::*Entry)(A...) noexcept, at Where>
struct pointed<Entry, Where> {
  static std::int64_t answer(A... a) noexcept {
    return around(Where, [&]() noexcept { return (below->*Entry)(a...); });
  }
};

sys::table made() noexcept {
  sys::table t{};
#define UNIO_POINT(name, parameters, arguments) t.name = pointed<&sys::table::name, at::call_##name>::answer;
  UNIO_SYSTEM_CALLS(UNIO_POINT)
#undef UNIO_POINT
  static constexpr timespec at_once{};
  t.poll = [](pollfd* fds, unsigned n, timespec const* timeout) noexcept {
    if (!is_simulated()) return below->poll(fds, n, timeout);
    if (is_world) return around(at::call_poll, [&]() noexcept { return below->poll(fds, n, timeout); });
    return wait(at::call_poll, timeout, [&]() noexcept { return below->poll(fds, n, &at_once); });
  };
  t.epoll_wait = [](int epoll, epoll_event* e, int n, timespec const* timeout) noexcept {
    if (!is_simulated()) return below->epoll_wait(epoll, e, n, timeout);
    return wait(at::call_epoll_wait, timeout,
                [&]() noexcept { return below->epoll_wait(epoll, e, n, &at_once); });
  };
  t.futex = [](std::uint32_t* word, int operation, std::uint32_t value, timespec const* timeout) noexcept {
    if (!is_simulated()) return below->futex(word, operation, value, timeout);
    return futex(word, operation, value, timeout, ~0U);
  };
  t.sched_yield = []() noexcept -> std::int64_t {
    if (!is_simulated()) return below->sched_yield();
    current->yield();
    return 0;
  };
  t.steady_now = []() noexcept -> std::int64_t {
    if (me == nullptr) return below->steady_now();
    point(at::call_steady_now);
    return current->now += inside == 0 ? 100 : 0;
  };
  t.system_now = []() noexcept -> std::int64_t {
    if (me == nullptr) return below->system_now();
    point(at::call_system_now);
    return (current->now += inside == 0 ? 100 : 0) + year_2020;
  };
  // A ring's kernel would run beside the threads.
  t.io_uring_setup = [](unsigned entries, io_uring_params* p) noexcept -> std::int64_t {
    return me == nullptr ? below->io_uring_setup(entries, p) : -ENOSYS;
  };
  t.futex_waitv = [](sys::waited_word* words, unsigned n) noexcept -> std::int64_t {
    return me == nullptr ? below->futex_waitv(words, n) : -ENOSYS;
  };
  return t;
}

sys::table ours;

constinit thread_hooks hooks{
    .clock = nullptr,
    .answer_with =
        [](sys::table const* t) noexcept {
          is_world = t != &sys::kernel;
          return std::exchange(below, t);
        },
    .enter =
        []() noexcept {
          point(at::system);
          ++inside;
        },
    .leave =
        []() noexcept {
          --inside;
          point(at::system);
        },
    .hold = [](bool begins) noexcept { inside += begins ? 1 : -1; },
    .sleep =
        [](std::int64_t until) noexcept {
          if (current->now >= until) return current->point(at::system);
          me->looked = true; // who changes something says so
          (void)current->block(need::system, nullptr, until);
        },
    .changed =
        []() noexcept {
          if (me != nullptr) current->system_changed();
        },
    .this_thread = []() noexcept { return me != nullptr ? me->number : -1; },
    .is_waiting = [](int number) noexcept { return current->is_waiting(number); },
    .waits_in =
        [](char const* what) noexcept {
          if (me != nullptr) me->waits_in = what;
        },
};

} // namespace

void answer_system_calls() noexcept {
  below = sys::answering();
  ours = made();
  sys::answer_with(&ours);
  hooks.clock = &current->now;
  simulated_threads = &hooks;
}

} // namespace unio::testing::threads
