// unio/asio.hpp: tasks of unio's awaited by Asio's coroutines, and operations of Asio's awaited by tasks.

#include "asio_flavour.hpp"

#include <unio/unio.hpp>

namespace {

using namespace asio_tests;

unio::task<int> seven() { co_return 7; }
unio::task<> fails() {
  throw std::runtime_error("mine");
  co_return;
}
unio::task<unio::io_result<void>> sleeps(std::chrono::milliseconds d) {
  co_return co_await unio::co_sleep(d);
}

TEST(asio_task, is_awaited_by_a_coroutine_of_asios) {
  unio::asio_context context;
  int got = 0;
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    got = co_await unio::async_start(context, seven(), asio::use_awaitable);
  });
  context.run();
  EXPECT_EQ(got, 7);
}

TEST(asio_task, needs_no_executor_inside_of_run) {
  unio::asio_context context;
  int got = 0;
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> { got = co_await unio::async_start(seven(), asio::use_awaitable); },
      asio::detached);
  context.run();
  EXPECT_EQ(got, 7);
}

TEST(asio_task, passes_its_exception_on) {
  unio::asio_context context;
  std::string what;
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    try {
      co_await unio::async_start(context, fails(), asio::use_awaitable);
    } catch (std::runtime_error const& e) {
      what = e.what();
    }
  });
  context.run();
  EXPECT_EQ(what, "mine");
}

TEST(asio_task, takes_use_future_and_handlers) {
  unio::asio_context context;
  auto future = unio::async_start(context, seven(), asio::use_future);
  int got = 0;
  unio::async_start(context, seven(), [&](std::exception_ptr e, int n) {
    EXPECT_EQ(e, nullptr);
    got = n;
  });
  EXPECT_EQ(got, 0);
  context.run();
  EXPECT_EQ(got, 7);
  EXPECT_EQ(future.get(), 7);
}

TEST(asio_task, is_stopped_by_the_slot_of_its_handler) {
  unio::asio_context context;
  asio::cancellation_signal signal;
  std::optional<unio::io_result<void>> got;
  unio::async_start(context, sleeps(1h),
                    asio::bind_cancellation_slot(
                        signal.slot(), [&](std::exception_ptr, unio::io_result<void> r) { got = r; }));
  context.poll();
  signal.emit(asio::cancellation_type::terminal);
  context.run();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->error(), unio::condition::canceled);
}

TEST(asio_task, completes_on_the_executor_of_its_handler) {
  unio::asio_context context;
  asio::io_context other;
  int got = 0;
  unio::async_start(context, seven(),
                    asio::bind_executor(other, [&](std::exception_ptr, int n) { got = n; }));
  context.run();
  EXPECT_EQ(got, 0);
  other.run();
  EXPECT_EQ(got, 7);
}

TEST(asio_task, gives_memory_back_before_the_call) {
  unio::asio_context context;
  counted_memory memory;
  bool called = false;
  unio::async_start(context, seven(),
                    asio::bind_allocator(counting_allocator<char>(memory), [&](std::exception_ptr, int) {
                      EXPECT_EQ(memory.blocks, 0);
                      called = true;
                    }));
  EXPECT_EQ(memory.blocks, 1);
  context.run();
  EXPECT_TRUE(called);
}

// ---- use_task ---------------------------------------------------------------------------------------------

struct use_task : ::testing::Test {
  unio::asio_context context;
  template <class F> void run(F f, unio::run_options const& options = {}) {
    unio::async_run(context.multiplexer(), f(), options);
    context.run();
  }
};

TEST_F(use_task, awaits_a_timer_of_asios) {
  asio::steady_timer timer(context, 2ms);
  bool done = false;
  run([&]() -> unio::task<> {
    unio::result<void> const r = co_await timer.async_wait(unio::use_task);
    done = r.has_value();
  });
  EXPECT_TRUE(done);
}

TEST_F(use_task, awaits_streams_and_composed_operations) {
  ends e(context);
  std::string got(100'000, ' ');
  std::string const sent(100'000, 'x');
  std::size_t bytes = 0;
  asio::async_write(e.b, asio::buffer(sent), asio::detached);
  run([&]() -> unio::task<> {
    unio::result<std::size_t> const r = co_await asio::async_read(e.a, asio::buffer(got), unio::use_task);
    bytes = r.value();
  });
  EXPECT_EQ(bytes, sent.size());
  EXPECT_EQ(got, sent);
}

TEST_F(use_task, yields_the_error_as_a_result) {
  ends e(context);
  char c;
  std::error_code seen;
  e.b.close();
  run([&]() -> unio::task<> {
    auto const r = co_await e.a.async_read_some(asio::buffer(&c, 1), unio::use_task);
    seen = r.error();
  });
  EXPECT_EQ(seen, std::error_code(asio::error::make_error_code(asio::error::eof)));
}

TEST_F(use_task, is_adapted_by_other_tokens) {
  asio::steady_timer timer(context, 1ms);
  ends e(context);
  char c = 0;
  bool done = false;
  run([&]() -> unio::task<> {
    auto const [ec] = co_await timer.async_wait(tokens::as_tuple(unio::use_task));
    EXPECT_FALSE(ec);
    e.b.write_some(asio::buffer("x", 1));
    auto const [read, bytes] =
        co_await asio::async_read(e.a, asio::buffer(&c, 1), tokens::as_tuple(unio::use_task));
    EXPECT_FALSE(read);
    EXPECT_EQ(bytes, 1u);
    done = true;
  });
  EXPECT_TRUE(done);
}

TEST_F(use_task, is_redirected) {
  ends e(context);
  char c = 0;
  asio_error_code read = asio::error::fault, waited = asio::error::fault, at_the_end;
  std::size_t bytes = 0, no_bytes = 1;
  run([&]() -> unio::task<> {
    asio::steady_timer timer(context, 1ms);
    co_await timer.async_wait(asio::redirect_error(unio::use_task, waited));
    e.b.write_some(asio::buffer("x", 1));
    bytes = co_await asio::async_read(e.a, asio::buffer(&c, 1), asio::redirect_error(unio::use_task, read));
    e.b.close();
    no_bytes =
        co_await e.a.async_read_some(asio::buffer(&c, 1), asio::redirect_error(unio::use_task, at_the_end));
  });
  EXPECT_FALSE(waited);
  EXPECT_FALSE(read);
  EXPECT_EQ(bytes, 1u);
  EXPECT_EQ(at_the_end, asio::error::eof);
  EXPECT_EQ(no_bytes, 0u);
}

TEST_F(use_task, is_stopped_where_it_is_redirected) {
  ends e(context);
  char c;
  asio_error_code seen;
  unio::stop_source stop;
  asio::post(context, [&] { stop.request_stop(); });
  run(
      [&]() -> unio::task<> {
        (void)co_await e.a.async_read_some(asio::buffer(&c, 1), asio::redirect_error(unio::use_task, seen));
      },
      {.stop = stop.get_token()});
  EXPECT_EQ(seen, asio::error::operation_aborted);
}

TEST_F(use_task, resumes_on_the_executor_of_the_task) {
  asio::thread_pool other(1);
  asio::steady_timer timer(other, 2ms);
  std::thread::id where;
  auto work = std::make_optional(asio::make_work_guard(context)); // the operation is another context's
  run([&]() -> unio::task<> {
    (co_await timer.async_wait(unio::use_task)).value();
    where = std::this_thread::get_id();
    work.reset();
  });
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST_F(use_task, awaits_a_coroutine_of_asios) {
  int got = 0;
  run([&]() -> unio::task<> {
    got = co_await asio::co_spawn(context, []() -> asio::awaitable<int> { co_return 8; }, unio::use_task);
  });
  EXPECT_EQ(got, 8);
}

TEST_F(use_task, throws_what_leaves_a_coroutine_of_asios) {
  std::string what;
  run([&]() -> unio::task<> {
    try {
      co_await asio::co_spawn(
          context,
          []() -> asio::awaitable<void> {
            throw std::runtime_error("theirs");
            co_return;
          },
          unio::use_task);
    } catch (std::runtime_error const& e) {
      what = e.what();
    }
  });
  EXPECT_EQ(what, "theirs");
}

TEST_F(use_task, cancels_the_operation_when_the_task_is_stopped) {
  asio::steady_timer timer(context, 1h);
  unio::stop_source stop;
  std::error_code seen;
  asio::post(context, [&] { stop.request_stop(); });
  run(
      [&]() -> unio::task<> {
        auto const r = co_await timer.async_wait(unio::use_task);
        seen = r.error();
      },
      {.stop = stop.get_token()});
  EXPECT_EQ(seen, std::error_code(asio::error::make_error_code(asio::error::operation_aborted)));
}

TEST_F(use_task, cancels_an_operation_that_is_unios_when_the_task_is_stopped_elsewhere) {
  ends e(context);
  char c;
  unio::stop_source stop;
  std::error_code seen;
  std::jthread other([&] {
    std::this_thread::sleep_for(5ms);
    stop.request_stop();
  });
  run(
      [&]() -> unio::task<> {
        auto const r = co_await e.a.async_read_some(asio::buffer(&c, 1), unio::use_task);
        seen = r.error();
      },
      {.stop = stop.get_token()});
  EXPECT_EQ(seen, std::error_code(asio::error::make_error_code(asio::error::operation_aborted)));
}

unio::task<> reads_one(unio::asio_stream<unio::socket_handle>& from, char& into) {
  (void)co_await from.async_read_some(asio::buffer(&into, 1), unio::use_task);
}

TEST_F(use_task, cancels_the_operation_when_a_timeout_stops_the_task) {
  ends e(context);
  char c;
  run([&]() -> unio::task<> { (void)co_await unio::timeout(2ms, reads_one(e.a, c)); });
  EXPECT_EQ(e.a.cancel(), 0u);
}

TEST_F(use_task, ends_with_an_abort_when_its_context_ends) {
  std::error_code seen;
  auto m = unio::io_multiplexer::best_available(1).value();
  {
    unio::asio_context inner(*m);
    auto timer = std::make_unique<unio::asio_timer>(inner, 1h);
    unio::async_run(*m, [](unio::asio_timer& t, std::error_code& to) -> unio::task<> {
      auto const r = co_await t.async_wait(unio::use_task);
      to = r.error();
    }(*timer, seen));
    inner.poll();
    timer.reset();
    (void)m->try_run();
  }
  while (m->try_run().value() > 0) continue;
  EXPECT_EQ(seen, std::error_code(asio::error::make_error_code(asio::error::operation_aborted)));
}

TEST_F(use_task, yields_tuples_and_plain_values) {
  auto const initiate = [](auto handler, auto... values) { std::move(handler)(values...); };
  run([&]() -> unio::task<> {
    auto const two = co_await asio::async_initiate<unio::use_task_t const, void(int, std::string)>(
        initiate, unio::use_task, 1, std::string("x"));
    EXPECT_EQ(std::get<0>(two), 1);
    EXPECT_EQ(std::get<1>(two), "x");
    int const one =
        co_await asio::async_initiate<unio::use_task_t const, void(int)>(initiate, unio::use_task, 5);
    EXPECT_EQ(one, 5);
    unio::result<std::tuple<int, int>> const r =
        co_await asio::async_initiate<unio::use_task_t const, void(asio_error_code, int, int)>(
            initiate, unio::use_task, asio_error_code(), 2, 3);
    EXPECT_EQ(std::get<1>(r.value()), 3);
  });
}

TEST_F(use_task, passes_on_what_an_initiation_throws) {
  bool caught = false;
  auto const initiate = [](auto) { throw std::runtime_error("not begun"); };
  run([&]() -> unio::task<> {
    try {
      (void)co_await asio::async_initiate<unio::use_task_t const, void(asio_error_code)>(initiate,
                                                                                         unio::use_task);
    } catch (std::runtime_error const&) {
      caught = true;
    }
  });
  EXPECT_TRUE(caught);
}

} // namespace
