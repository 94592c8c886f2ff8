// threads: what several threads do together: many small tasks on a pool, posts from one thread to another.

#include "runner/table.hpp"

#include "threads/threads.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace benchmarks {
namespace {

bool is_work(benchmark_case const& c, std::string_view what) {
  const auto p = std::ranges::find(c.parameters, "work", &parameter::name);
  return p != c.parameters.end() && p->value == what;
}

// Of what is not calibrated: see threads/tasks.hpp.
void set_sizes(std::vector<benchmark_case>& cases, bool quick) {
  for (benchmark_case& c : cases) {
    if (is_work(c, "skynet")) c.operations = quick ? 10'000 : 1'000'000;
    if (is_work(c, "fib")) c.operations = quick ? 15 : 30;
  }
}

} // namespace

table threads_table(settings const& s) {
  // The threads of a subject need a processor each: --pin, which gives a subject one, is not for them.
  settings anywhere = s;
  anywhere.subject_cpu = -1;
  anywhere.helper_cpu = -1;
  table t{
      .name = "threads",
      .title = fmt::format("{} threads that share a multiplexer or a pool, on all processors: tasks, posts",
                           threads_bench::threads),
      .unit = "ns per task, per post",
      .reference = "asio callbacks",
      .counted = {counting::allocations},
      .run_ms = 60,
      .rounds = 5,
      .notes =
          {"skynet: a tree of a million leaves, in which each task starts ten others and adds up what they "
           "yield. fib: fib(30), of whose two halves each task starts one and does the other itself. ring of "
           "channels: a token that 500 coroutines pass on by channels of one value. All on a pool of two "
           "threads; each run does the work once before it is measured.",
           "callbacks: functions that are posted, in one source for all; their sums lie in memory from "
           "unio::frame_pool, from asio::recycling_allocator. coroutines: a task that others may take begins "
           "with co_yield_now(), with asio::post; unio waits by when_all, Asio by "
           "experimental::make_parallel_group, with channels of experimental::concurrent_channel.",
           "post: so many producers, each a thread with a window of 1,024 posts, to one thread or to a pool "
           "of two. unio post: a node that the producer has; function: one that is allocated. queue, C++: a "
           "floor, which calls no kernel and never sleeps: each producer has a ring, consumers take up to 32 "
           "at a time.",
           "CPU ns: processor time of all threads. --pin is not for this table: subjects use all processors. "
           "tokio is not measured: nothing here is built by cargo."},
  };
  for (char const* const program : {"threads_tasks_asio", "threads_tasks_unio", "threads_posts_queue",
                                    "threads_posts_asio", "threads_posts_unio"})
    t.cases += program_cases(anywhere, program);
  set_sizes(t.cases, s.quick);
  return t;
}

} // namespace benchmarks
