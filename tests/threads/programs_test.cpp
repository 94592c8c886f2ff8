// Whole programs of several threads in a simulated system: the examples, word for word. And what such a
// system owes to threads: one clock, one set of descriptors, a driver of its own for each of them.

#ifndef __clang__ // types of an anonymous namespace in a file that is included: only here
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

#include "support/posix.hpp"
#include "support/test.hpp"
#include "threads/support.hpp"

#include <unio/future.hpp>
#include <unio/unio.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <future>
#include <list>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// Each in a namespace of its own. Their includes stand above. Of the examples with threads are left out:
// offload computes for seconds; atomic_replacement, hash_tree and socket_activation use the real filesystem
// or inherited descriptors besides unio; echo_server_awaited ends by a signal; epoll_loop and glib_loop wait
// in loops that enter the kernel by themselves; tcp_reader and library_with_task are several files, and
// senders, dns_lookup, http_client and tls_client need other libraries.
#define main program
namespace run_on {
#include "../../examples/coroutine_first_7_run_on/main.cpp"
}
namespace affine_awaitable {
#include "../../examples/coroutine_first_6_affine_awaitable/main.cpp"
}
namespace coroutine_pipe_read {
#include "../../examples/d2052_4_2_coroutine_pipe_read/main.cpp"
}
namespace post {
#include "../../examples/d2052_4_3_2_post/main.cpp"
}
namespace complete_io {
#include "../../examples/d2052_4_3_complete_io/main.cpp"
}
namespace run {
#include "../../examples/d2052_4_3_run/main.cpp"
}
namespace echo_server {
#include "../../examples/echo_server/main.cpp"
}
namespace echo_server_on_threads {
#include "../../examples/echo_server_on_threads/main.cpp"
}
namespace future_of_a_task {
#include "../../examples/future/main.cpp"
}
namespace multishot_accept {
#include "../../examples/multishot_accept/main.cpp"
}
namespace own_multiplexer_per_thread {
#include "../../examples/own_multiplexer_per_thread/main.cpp"
}
namespace priority_executor_example {
#include "../../examples/priority_executor/main.cpp"
}
namespace reuse_port_workers {
#include "../../examples/reuse_port_workers/main.cpp"
}
namespace several_handles {
#include "../../examples/several_handles/main.cpp"
}
namespace shared_multiplexer {
#include "../../examples/shared_multiplexer/main.cpp"
}
namespace thread_pool {
#include "../../examples/thread_pool/main.cpp"
}
namespace wrapped_callback {
#include "../../examples/wrapped_callback/main.cpp"
}
namespace zero_copy_send {
#include "../../examples/zero_copy_send/main.cpp"
}
#undef main

namespace {

using namespace test;
using namespace threads_tests;

// The programs take for granted that a connection lives, and that what is written together is read together.
unio::testing::simulation_options options() {
  auto o = unio::testing::simulation_options::from_seed(unio::testing::schedule_seed());
  o.resets = o.short_transfers = false;
  return o;
}

void print_nothing() {
  int const nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  (void)::dup2(nowhere, STDOUT_FILENO);
}

// ---- what a simulated system owes to threads ----

TEST(simulated_system, is_that_of_all_threads) {
  expect_no_failure(100, [] {
    unio::testing::simulation s(options());
    auto pipe = unio::pipe_handle::anonymous().value();
    std::thread writer([&] {
      require(unio::io_multiplexer::best_available(1).value()->capabilities().driver ==
                  std::string_view("simulated"),
              "another thread's multiplexer is simulated");
      require(unio::io_multiplexer::best_available(2).value()->capabilities().driver ==
                  std::string_view("simulated"),
              "so is one of several threads");
      std::this_thread::sleep_for(1s);
      require(pipe.writer.write(std::string_view("x")).has_value(), "a write to a simulated pipe");
    });
    auto const begin = std::chrono::steady_clock::now();
    auto const at = s.now();
    char byte = 0;
    auto const got = pipe.reader.read(unio::mutable_buffer(reinterpret_cast<std::byte*>(&byte), 1), 10s);
    require(got.has_value() && byte == 'x', "what the other thread has written");
    require(std::chrono::steady_clock::now() - begin >= 1s && s.now() - at >= 1s, "one clock");
    writer.join();
    require(s.refused().empty(), s.refused().c_str());
  });
}

TEST(simulated_system, says_that_all_threads_wait_for_ever) {
  exploration const e = expect_end(run_end::deadlock, 1, [] {
    unio::testing::simulation const s(options());
    auto pipe = unio::pipe_handle::anonymous().value();
    std::byte room[1];
    (void)pipe.reader.read(unio::mutable_buffer(room));
  });
  EXPECT_NE(e.report.find("T0 at poll, waits for system"), std::string::npos) << e.report;
}

// As docs/course/10-simulation.md shows it.
TEST(simulated_system, is_explored_with_a_pool_of_threads) {
  unio::testing::exploration const found = unio::testing::explore({.seeds = 100}, [] {
    unio::testing::simulation const s(
        unio::testing::simulation_options::from_seed(unio::testing::schedule_seed()));
    unio::thread_pool pool(2);
    std::atomic<int> answered{0};
    for (int i = 0; i != 3; ++i) pool.post([&] { ++answered; });
    pool.join();
    unio::testing::require(answered == 3, "each request is answered");
  });
  EXPECT_TRUE(found.passed()) << found.report;
}

// Posts, timers, a lock of coroutines and I/O, on a pool.
unio::task<> count(unio::async_mutex& m, int& n, unio::socket_handle& s) {
  for (int i = 0; i != 3; ++i) {
    auto const lock = co_await m.co_lock();
    int const before = n;
    (void)co_await unio::co_sleep(1us);
    (void)co_await s.co_write(std::string_view("x"));
    n = before + 1;
  }
}

void count_on_a_pool() {
  unio::testing::simulation const s(options());
  unio::async_mutex m;
  int n = 0;
  auto a = unio::socket_handle::pair().value();
  auto b = unio::socket_handle::pair().value();
  {
    unio::thread_pool pool(2);
    for (auto* const end : {&a.first, &b.first}) {
      end->set_multiplexer(&pool.multiplexer());
      unio::async_run(pool.executor(), count(m, n, *end));
    }
    pool.join();
  }
  require(n == 6, "no count is lost");
}

TEST(simulated_system, runs_a_pool_of_threads) { expect_no_failure(100, count_on_a_pool); }

TEST(simulated_system, offloads_to_a_pool) {
  expect_no_failure(100, [] {
    unio::testing::simulation const s(options());
    unio::thread_pool pool(2);
    auto const here = std::this_thread::get_id();
    auto const work = [](unio::thread_pool& there) -> unio::task<bool> {
      auto const compute = []() -> unio::task<std::thread::id> { co_return std::this_thread::get_id(); };
      std::thread::id const id = co_await unio::run_on(there.executor(), compute());
      co_return id != std::this_thread::get_id();
    };
    require(unio::run(work(pool)), "the computation ran on another thread");
    require(here == std::this_thread::get_id(), "the coroutine came back");
  });
}

TEST(simulated_system, goes_the_same_way_each_time) {
  exploration const first = explore({.seeds = 50}, count_on_a_pool);
  exploration const second = explore({.seeds = 50}, count_on_a_pool);
  EXPECT_EQ(first.fingerprint, second.fingerprint);
  EXPECT_EQ(first.steps, second.steps);
}

// ---- the examples ----

struct example {
  char const* name;
  int (*program)();
  bool has_status = true; ///< main() needs no return statement
};

class example_with_threads : public ::testing::TestWithParam<example> {};

TEST_P(example_with_threads, runs_in_a_simulated_system) {
  example const one = GetParam();
  exploration const e = explore({.seeds = seeds(10), .max_steps = 2'000'000}, [one] {
    print_nothing();
    unio::testing::simulation const s(options());
    require(one.program() == 0 || !one.has_status, "the program has succeeded");
    require(s.refused().empty(), s.refused().c_str());
  });
  EXPECT_TRUE(e.passed()) << e.report;
}

INSTANTIATE_TEST_SUITE_P(
    all, example_with_threads,
    ::testing::Values(
        example{"run_on", run_on::program}, example{"affine_awaitable", affine_awaitable::program},
        example{"coroutine_pipe_read", coroutine_pipe_read::program}, example{"post", post::program, false},
        example{"complete_io", complete_io::program, false}, example{"run", run::program, false},
        example{"echo_server", [] { return echo_server::program(1, nullptr); }, false},
        example{"echo_server_on_threads", [] { return echo_server_on_threads::program(1, nullptr); }},
        example{"future", future_of_a_task::program, false},
        example{"multishot_accept", multishot_accept::program},
        example{"own_multiplexer_per_thread", own_multiplexer_per_thread::program, false},
        example{"priority_executor", priority_executor_example::program},
        example{"reuse_port_workers", reuse_port_workers::program},
        example{"several_handles", several_handles::program},
        example{"shared_multiplexer", shared_multiplexer::program, false},
        example{"thread_pool", ::thread_pool::program},
        example{"wrapped_callback", wrapped_callback::program},
        example{"zero_copy_send", zero_copy_send::program}),
    [](::testing::TestParamInfo<example> const& one) { return one.param.name; });

} // namespace
