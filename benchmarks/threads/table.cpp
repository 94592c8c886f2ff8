// threads: what several threads do together: an echo server, many small tasks on a pool, posts from one
// thread to another.

#include "runner/table.hpp"

#include "echo/servers.hpp"
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

constexpr int connections_of_echo = 128;
constexpr int connections_beside = 16;
constexpr int busy_ms = 10;

// Of what echo_load says: the value in ns, and what else is of interest.
sample sample_of(sample const& loaded, std::string_view value, std::vector<std::string> const& extra) {
  sample s{.elapsed_ns = loaded.elapsed_ns, .value = figure_of(loaded, value) * 1000};
  for (std::string const& name : extra) s.extra.push_back({name, figure_of(loaded, name)});
  return s;
}

struct loading {
  echo_load load;
  std::uint64_t run_ms;
  std::vector<parameter> parameters;
  std::string value; // in µs
  std::vector<std::string> extra;
};

void add_server(std::vector<benchmark_case>& to, settings const& s, echo_server const& one,
                loading const& l) {
  benchmark_case c = echo_case(s, one, l.load, l.run_ms, l.parameters);
  if (c.run)
    c.run = [run = std::move(c.run), value = l.value, extra = l.extra](std::uint64_t ms) {
      return sample_of(run(ms), value, extra);
    };
  to.push_back(std::move(c));
}

bool is_wanted(echo_server const& one) {
  const auto has = [&](std::string_view what) { return one.subject.starts_with(what); };
  return has("asio") || has("unio awaited") || has("unio multiplexed") || has("epoll, C") ||
         has("liburing, C");
}

void add_servers(std::vector<benchmark_case>& to, settings const& s) {
  const loading requests{
      .load = {.connections = connections_of_echo, .bytes = 64, .warm_up_ms = 50, .anywhere = true},
      .run_ms = s.quick ? 50u : 300u,
      .parameters = {{"work", "echo"}},
      .value = "server µs per request",
      .extra = {"requests/s", "p99 µs", "fewest", "most", "load CPU %"}};
  const auto round_trips = [&](bool is_beside_a_busy_one) -> loading {
    return {.load = {.connections = connections_beside,
                     .bytes = 64,
                     .warm_up_ms = 50,
                     .anywhere = true,
                     .every_ms = 4,
                     .busy_ms = is_beside_a_busy_one ? busy_ms : 0u},
            .run_ms = s.quick ? 100u : 600u,
            .parameters = {{"work", "round trips"},
                           {"beside", is_beside_a_busy_one ? "a busy thread" : "nothing"}},
            .value = "p99 µs",
            .extra = {"p50 µs", "worst connection's p99 µs", "max µs"}};
  };
  const auto add_shared = [&](echo_server const& one) {
    add_server(to, s, one, requests);
    for (const bool busy : {false, true}) add_server(to, s, one, round_trips(busy));
  };
  for (echo_server const& one : echo_servers(s)) {
    if (!is_wanted(one)) continue;
    if (const auto shared = on_threads(one, threads_bench::threads, true)) add_shared(*shared);
    auto each = on_threads(one, threads_bench::threads, false);
    if (!each) continue;
    each->subject += ", one each";
    add_server(to, s, *each, requests);
  }
  add_shared(
      {.subject = "tokio",
       .driver = "epoll",
       .command = {s.programs + "/echo_tokio", "0", "--threads", std::to_string(threads_bench::threads)}});
}

} // namespace

table threads_table(settings const& s) {
  // The threads of a subject need a processor each: --pin, which gives a subject one, is not for them.
  settings anywhere = s;
  anywhere.subject_cpu = -1;
  anywhere.helper_cpu = -1;
  table t{
      .name = "threads",
      .title = fmt::format("{} threads that share a multiplexer or a pool, on all processors",
                           threads_bench::threads),
      .unit = "ns: see work",
      .reference = "asio callbacks",
      .counted = {counting::allocations},
      .run_ms = 60,
      .rounds = 3,
      .notes =
          {fmt::format(
               "echo: processor time of a server for a request of 64 bytes; {} connections, each of which "
               "sends again when it was answered. One multiplexer or context for both threads, or one "
               "each, with a listening socket each (SO_REUSEPORT); the load generator has the same "
               "processors.",
               connections_of_echo),
           fmt::format(
               "round trips: p99 of the same servers, with one multiplexer or context for both threads; "
               "{} connections that ask every 4 ms. Beside a busy thread: a timer's handler in the "
               "server computes for {} of each {} ms.",
               connections_beside, busy_ms, 2 * busy_ms),
           "skynet: a tree of a million leaves, in which each task starts ten others and adds up what they "
           "yield. fib: fib(30), of whose two halves each task starts one and does the other itself. ring of "
           "channels: a token that 500 coroutines pass on by channels of one value. All on a pool of two "
           "threads; each run does the work once before it is measured.",
           "callbacks: functions that are posted, in one source for all; their sums lie in memory from "
           "unio::frame_pool, from asio::recycling_allocator. coroutines: a task that others may take begins "
           "with co_fork(), with asio::post; unio waits by when_all, Asio by "
           "experimental::make_parallel_group, with channels of experimental::concurrent_channel.",
           "post: so many producers, each a thread with a window of 1,024 posts, to one thread or to a pool "
           "of two. unio post: a node that the producer has; function: one that is allocated. queue, C++: a "
           "floor, which calls no kernel and never sleeps: each producer has a ring, consumers take up to 32 "
           "at a time.",
           "CPU ns: processor time of all threads. --pin is not for this table: subjects use all processors. "
           "tokio: two workers, only the servers, and only where cargo had its crates when this was built."},
  };
  add_servers(t.cases, s);
  for (char const* const program : {"threads_tasks_asio", "threads_tasks_unio", "threads_posts_queue",
                                    "threads_posts_asio", "threads_posts_unio"})
    t.cases += program_cases(anywhere, program);
  set_sizes(t.cases, s.quick);
  return t;
}

} // namespace benchmarks
