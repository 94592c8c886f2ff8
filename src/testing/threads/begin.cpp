// How a run begins, in a process of its own.

#include "testing/threads/scheduler.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include <csignal>

namespace unio::inline v0_1::testing::threads {
namespace {

constexpr int seconds_of_work = 10, seconds_of_all = 60; // without a verdict, of real time

} // namespace

// A processor alone: the baton then costs half.
void use_one_processor() noexcept {
  cpu_set_t one;
  CPU_ZERO(&one);
  int const here = ::sched_getcpu();
  CPU_SET(here >= 0 ? here : 0, &one);
  (void)::sched_setaffinity(0, sizeof one, &one);
}

void watch() noexcept {
  itimerval const work{.it_interval = {}, .it_value = {.tv_sec = seconds_of_work, .tv_usec = 0}};
  (void)::signal(SIGPROF, SIG_DFL);
  (void)::signal(SIGALRM, SIG_DFL);
  (void)::setitimer(ITIMER_PROF, &work, nullptr);
  (void)::alarm(seconds_of_all);
}

void begin_run(thread_options const& o, std::uint64_t seed, strategy s, std::uint64_t expected_steps,
               run_record& r) {
  use_one_processor();
  watch();
  rlimit const no_core{0, 0};
  (void)::setrlimit(RLIMIT_CORE, &no_core);
  current = new scheduler(o, seed, s, expected_steps, r);
  watch_ends();
  answer_system_calls();
  link_interposed();
  link_atomics();
  me = current->find(pthread_self());
}

} // namespace unio::testing::threads
