// unio/asio.hpp, asio_context and its executor: what Asio and programs expect of an execution context.

#include "asio_flavour.hpp"

#include <unio/when.hpp>

#include <unistd.h>

#include <atomic>
#include <deque>

namespace {

using namespace asio_tests;

TEST(asio_context, runs_what_was_posted_in_order) {
  unio::asio_context context;
  std::string order;
  for (char const c : {'a', 'b', 'c'}) asio::post(context, [&order, c] { order += c; });
  EXPECT_EQ(context.run(), 3u);
  EXPECT_EQ(order, "abc");
}

TEST(asio_context, calls_nothing_inside_of_post) {
  unio::asio_context context;
  bool inside = false, called = false;
  asio::post(context, [&] {
    inside = true;
    asio::post(context, [&] {
      EXPECT_FALSE(inside);
      called = true;
    });
    asio::defer(context, [&] { EXPECT_FALSE(inside); });
    inside = false;
  });
  EXPECT_EQ(context.run(), 3u);
  EXPECT_TRUE(called);
}

TEST(asio_context, calls_what_is_dispatched_from_its_handlers_at_once) {
  unio::asio_context context;
  bool called = false;
  asio::dispatch(context, [&] { called = true; });
  EXPECT_FALSE(called); // not inside of run()
  asio::post(context, [&] {
    called = false;
    asio::dispatch(context, [&] { called = true; });
    EXPECT_TRUE(called);
  });
  context.run();
}

TEST(asio_context, returns_from_run_when_there_is_no_work_and_stays_stopped) {
  unio::asio_context context;
  EXPECT_EQ(context.run(), 0u);
  EXPECT_TRUE(context.stopped());
  bool called = false;
  asio::post(context, [&] { called = true; });
  EXPECT_EQ(context.run(), 0u);
  EXPECT_FALSE(called);
  context.restart();
  EXPECT_EQ(context.run(), 1u);
  EXPECT_TRUE(called);
}

TEST(asio_context, stays_in_run_while_there_is_a_work_guard) {
  unio::asio_context context(2);
  auto work = std::make_optional(asio::make_work_guard(context));
  std::atomic<bool> left = false;
  std::jthread runner([&] {
    context.run();
    left = true;
  });
  std::this_thread::sleep_for(20ms);
  EXPECT_FALSE(left);
  work.reset();
  runner.join();
  EXPECT_TRUE(left);
}

TEST(asio_context, counts_each_copy_of_an_executor_that_tracks_work) {
  unio::asio_context context;
  auto const plain = context.get_executor();
  {
    auto tracked = asio::require(plain, asio::execution::outstanding_work.tracked);
    auto copy = tracked;
    auto moved = std::move(tracked);
    copy = moved;
    context.poll();
    EXPECT_FALSE(context.stopped());
    asio::any_io_executor any = moved;
    auto preferred = asio::prefer(any, asio::execution::outstanding_work.tracked);
    context.poll();
    EXPECT_FALSE(context.stopped());
  }
  context.run();
  EXPECT_TRUE(context.stopped());
}

TEST(asio_context, runs_one_handler_in_run_one) {
  unio::asio_context context;
  int n = 0;
  for (int i = 0; i != 3; ++i) asio::post(context, [&] { ++n; });
  EXPECT_EQ(context.run_one(), 1u);
  EXPECT_EQ(n, 1);
  EXPECT_EQ(context.poll_one(), 1u);
  EXPECT_EQ(n, 2);
  EXPECT_EQ(context.run(), 1u);
}

TEST(asio_context, runs_one_operation_in_run_one) {
  unio::asio_context context;
  std::vector<std::unique_ptr<ends>> all;
  std::array<char, 4> each{};
  int n = 0;
  for (std::size_t i = 0; i != 4; ++i) {
    all.push_back(std::make_unique<ends>(context));
    all[i]->a.async_read_some(asio::buffer(&each[i], 1), [&](asio_error_code, std::size_t) { ++n; });
  }
  EXPECT_EQ(context.poll(), 0u);
  for (auto& e : all) e->b.write_some(asio::buffer("x", 1));
  for (int i = 1; i <= 4; ++i) {
    EXPECT_EQ(context.run_one(), 1u);
    EXPECT_EQ(n, i);
  }
}

TEST(asio_context, does_not_wait_in_poll) {
  unio::asio_context context;
  auto const work = asio::make_work_guard(context);
  EXPECT_EQ(context.poll(), 0u);
  EXPECT_EQ(context.poll_one(), 0u);
  EXPECT_FALSE(context.stopped());
}

TEST(asio_context, waits_no_longer_than_run_for_says) {
  unio::asio_context context;
  auto const work = asio::make_work_guard(context);
  auto const begin = std::chrono::steady_clock::now();
  EXPECT_EQ(context.run_for(15ms), 0u);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, 14ms);
  EXPECT_EQ(context.run_one_for(1ms), 0u);
  EXPECT_EQ(context.run_until(std::chrono::system_clock::now() + 1ms), 0u);
  EXPECT_FALSE(context.stopped());
}

TEST(asio_context, stops_after_the_handler_that_runs) {
  unio::asio_context context;
  int n = 0;
  for (int i = 0; i != 3; ++i)
    asio::post(context, [&] {
      ++n;
      context.stop();
    });
  for (int i = 1; i <= 3; ++i) {
    context.restart();
    EXPECT_EQ(context.run(), 1u);
    EXPECT_EQ(n, i);
  }
}

TEST(asio_context, keeps_the_order_of_handlers_after_an_exception_and_after_a_stop) {
  for (bool const stops : {false, true}) {
    unio::asio_context context;
    std::vector<int> order;
    asio::post(context, [&] {
      asio::post(context, [&] { order.push_back(3); });
      if (!stops) throw std::runtime_error("x");
      context.stop();
    });
    for (int const i : {1, 2}) asio::post(context, [&, i] { order.push_back(i); });
    if (stops) {
      EXPECT_EQ(context.run(), 1u);
      context.restart();
    } else {
      EXPECT_THROW(context.run(), std::runtime_error);
    }
    context.run();
    EXPECT_EQ(order, (std::vector{1, 2, 3}));
  }
}

TEST(asio_context, stops_all_threads) {
  unio::asio_context context(3);
  auto const work = asio::make_work_guard(context);
  std::vector<std::jthread> threads;
  for (int i = 0; i != 3; ++i) threads.emplace_back([&] { context.run(); });
  std::this_thread::sleep_for(10ms);
  context.stop();
  threads.clear();
  EXPECT_TRUE(context.stopped());
}

TEST(asio_context, ends_all_threads_when_the_work_ends) {
  unio::asio_context context(3);
  auto work = std::make_optional(asio::make_work_guard(context));
  std::vector<std::jthread> threads;
  for (int i = 0; i != 3; ++i) threads.emplace_back([&] { context.run(); });
  std::this_thread::sleep_for(10ms);
  work.reset();
  threads.clear();
  EXPECT_TRUE(context.stopped());
}

TEST(asio_context, is_run_by_several_threads) {
  unio::asio_context context(4);
  std::atomic<int> n = 0;
  auto work = std::make_optional(asio::make_work_guard(context));
  std::vector<std::jthread> threads;
  for (int i = 0; i != 4; ++i) threads.emplace_back([&] { context.run(); });
  for (int i = 0; i != 10'000; ++i) asio::post(context, [&] { n.fetch_add(1); });
  work.reset();
  threads.clear();
  EXPECT_EQ(n, 10'000);
}

TEST(asio_context, keeps_strands_serial_on_several_threads) {
  unio::asio_context context(4);
  auto strand = asio::make_strand(context);
  int n = 0;
  auto work = std::make_optional(asio::make_work_guard(context));
  std::vector<std::jthread> threads;
  for (int i = 0; i != 4; ++i) threads.emplace_back([&] { context.run(); });
  for (int i = 0; i != 10'000; ++i) asio::post(strand, [&] { ++n; });
  work.reset();
  threads.clear();
  EXPECT_EQ(n, 10'000);
}

TEST(asio_context, throws_what_a_posted_function_throws_and_goes_on) {
  unio::asio_context context;
  int n = 0;
  asio::post(context, [] { throw std::runtime_error("first"); });
  asio::post(context, [&] { ++n; });
  EXPECT_THROW(context.run(), std::runtime_error);
  EXPECT_EQ(n, 0);
  EXPECT_EQ(context.run(), 1u);
  EXPECT_EQ(n, 1);
}

TEST(asio_context, throws_what_a_dispatched_function_throws_out_of_run) {
  unio::asio_context context;
  bool went_on = false;
  asio::post(context, [&] {
    asio::dispatch(context, [] { throw std::runtime_error("inner"); });
    went_on = true;
  });
  EXPECT_THROW(context.run(), std::runtime_error);
  EXPECT_TRUE(went_on);
}

TEST(asio_context, may_be_run_again_inside_of_a_handler) {
  unio::asio_context context;
  std::string order;
  asio::post(context, [&] {
    order += "a";
    context.poll();
    order += "c";
  });
  asio::post(context, [&] { order += "b"; });
  context.run();
  EXPECT_EQ(order, "abc");
}

TEST(asio_context, calls_no_handler_inside_of_a_blocking_call_of_another) {
  unio::asio_context context;
  ends e(context);
  std::string order;
  asio::post(context, [&] {
    asio::post(context, [&] { order += "c"; });
    char c;
    order += "a";
    std::jthread writer([&] {
      std::this_thread::sleep_for(5ms);
      (void)::write(e.b.wrapped().native_handle(), "x", 1);
    });
    e.a.read_some(asio::buffer(&c, 1)); // waits, and runs the multiplexer meanwhile
    order += "b";
  });
  context.run();
  EXPECT_EQ(order, "abc");
}

TEST(asio_context, runs_tasks_of_unios_too) {
  unio::asio_context context;
  bool done = false;
  unio::async_run(context.multiplexer(), [](bool& d) -> unio::task<> {
    (void)co_await unio::co_sleep(1ms);
    d = true;
  }(done));
  context.run();
  EXPECT_TRUE(done);
}

TEST(asio_context, calls_handlers_inside_of_run_alone) {
  unio::asio_context context;
  bool called = false;
  asio::post(context, [&] { called = true; });
  unio::run([]() -> unio::task<> { (void)co_await unio::co_sleep(1ms); }());
  EXPECT_FALSE(called);
  EXPECT_EQ(context.run(), 1u);
  EXPECT_TRUE(called);
}

TEST(asio_context, serves_timers_of_asios_own) {
  unio::asio_context context;
  asio::steady_timer timer(context, 2ms);
  bool called = false;
  timer.async_wait([&](asio_error_code ec) {
    EXPECT_FALSE(ec);
    called = true;
  });
  context.run();
  EXPECT_TRUE(called);
}

TEST(asio_executor, has_the_properties_of_asios_executors) {
  unio::asio_context context;
  auto const e = context.get_executor();
  namespace ex = asio::execution;
  EXPECT_EQ(&asio::query(e, ex::context), &context);
  EXPECT_EQ(asio::query(e, ex::blocking), ex::blocking.possibly);
  EXPECT_EQ(asio::query(asio::require(e, ex::blocking.never), ex::blocking), ex::blocking.never);
  EXPECT_EQ(asio::query(e, ex::mapping), ex::mapping.thread);
  EXPECT_EQ(asio::query(e, ex::relationship), ex::relationship.fork);
  EXPECT_EQ(asio::query(asio::prefer(e, ex::relationship.continuation), ex::relationship),
            ex::relationship.continuation);
  EXPECT_EQ(asio::query(e, ex::outstanding_work), ex::outstanding_work.untracked);
  auto const tracked = asio::require(e, ex::outstanding_work.tracked);
  EXPECT_EQ(asio::query(tracked, ex::outstanding_work), ex::outstanding_work.tracked);
  EXPECT_EQ(asio::require(tracked, ex::outstanding_work.untracked), e);
  EXPECT_EQ(e, context.get_executor());
  EXPECT_NE(e, asio::require(e, ex::blocking.never));
  unio::asio_context other(2);
  EXPECT_NE(e, other.get_executor());
  static_assert(ex::is_executor<unio::asio_executor>::value);
}

TEST(asio_executor, is_an_any_io_executor) {
  unio::asio_context context;
  asio::any_io_executor any = context.get_executor();
  EXPECT_EQ(any, asio::any_io_executor(context.get_executor()));
  EXPECT_EQ(&asio::query(any, asio::execution::context), &context);
  bool called = false;
  asio::post(any, [&] { called = true; });
  context.run();
  EXPECT_TRUE(called);
}

TEST(asio_executor, takes_memory_from_the_allocator_and_gives_it_back_before_the_call) {
  unio::asio_context context;
  counted_memory memory;
  bool called = false;
  asio::post(context, asio::bind_allocator(counting_allocator<char>(memory), [&] {
               EXPECT_EQ(memory.blocks, 0);
               called = true;
             }));
  EXPECT_EQ(memory.blocks, 1);
  context.run();
  EXPECT_TRUE(called);
  EXPECT_EQ(memory.blocks, 0);
}

TEST(asio_executor, knows_where_it_runs) {
  unio::asio_context context;
  auto const e = context.get_executor();
  EXPECT_FALSE(e.running_in_this_thread());
  asio::post(context, [&] { EXPECT_TRUE(e.running_in_this_thread()); });
  context.run();
}

// The driver's turn has not begun when they run: only the context knows that one follows another.
TEST(asio_context, gives_what_posted_handlers_start_to_a_ring_together) {
  unio::asio_context context;
  std::deque<ends> all;
  constexpr unsigned n = 16;
  for (unsigned i = 0; i < n; ++i) all.emplace_back(context);
  context.poll();
  context.restart();
  unsigned written = 0;
  for (ends& e : all)
    asio::post(context, [&] {
      e.a.async_write_some(asio::buffer("abc", 3), [&](asio_error_code ec, std::size_t bytes) {
        written += !ec && bytes == 3 ? 1 : 0;
      });
    });
  unio::counters const before = context.multiplexer().counters();
  context.run();
  unio::counters const after = context.multiplexer().counters();
  EXPECT_EQ(written, n);
  bool const is_ring = std::string_view(context.multiplexer().capabilities().driver) == "io_uring";
  EXPECT_EQ(after.inline_hits - before.inline_hits, is_ring ? 1 : n);
  if (is_ring) {
    EXPECT_EQ(after.submissions - before.submissions, n - 1);
  }
  for (ends& e : all) {
    std::array<char, 8> got{};
    EXPECT_EQ(e.b.read_some(asio::buffer(got)), 3u);
  }
}

} // namespace
