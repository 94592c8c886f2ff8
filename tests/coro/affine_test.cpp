// A coroutine resumes on its executor: wherever and however what it awaits is completed; and it can be
// destroyed at each of these points.

#include "support/other_thread.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using test::failure;

// Where it is resumed is what these tests are about.
#define EXPECT_AT_HOME(id, executor_before)                          \
  do {                                                               \
    EXPECT_EQ(std::this_thread::get_id(), id);                       \
    unio::executor_ref const e = co_await unio::this_coro::executor; \
    EXPECT_EQ(e, executor_before);                                   \
  } while (false)

// ---- happy ------------------------------------------------------------------------------------------------

TEST(affine, this_coro_tells_of_the_environment) {
  auto const m = a_multiplexer();
  unio::stop_source stop;
  auto body = [](unio::io_multiplexer& runs, unio::stop_token given) -> task<bool> {
    unio::environment const& e = co_await unio::this_coro::environment;
    unio::executor_ref const executor = co_await unio::this_coro::executor;
    unio::stop_token const token = co_await unio::this_coro::stop_token;
    unio::multiplexer_executor const expected(runs);
    EXPECT_EQ(e.multiplexer, &runs);
    EXPECT_EQ(e.executor, executor);
    EXPECT_EQ(executor, unio::executor_ref(expected));
    EXPECT_EQ(token, given);
    co_return token.stop_requested();
  };
  EXPECT_FALSE(unio::run(*m, body(*m, stop.get_token()), {.stop = stop.get_token()}));
  stop.request_stop();
  EXPECT_TRUE(unio::run(*m, body(*m, stop.get_token()), {.stop = stop.get_token()}));
}

TEST(affine, resumes_here_after_inline_completion_and_after_waiting) {
  auto body = []() -> task<> {
    auto const here = std::this_thread::get_id();
    unio::executor_ref const executor = co_await unio::this_coro::executor;
    auto pipe = unio::pipe_handle::anonymous().value();
    std::array<char, 4> buffer{};
    for (int i = 0; i < 200; ++i) { // more than complete inline in a row
      (void)pipe.writer.write(unio::const_buffer("x", 1));
      auto const r = co_await pipe.reader.co_read(unio::mutable_buffer(buffer));
      EXPECT_EQ(r.bytes_transferred(), 1u);
      EXPECT_AT_HOME(here, executor);
    }
    auto const late = co_await pipe.reader.co_read(unio::mutable_buffer(buffer), 2ms);
    EXPECT_EQ(late.error(), condition::timed_out);
    EXPECT_AT_HOME(here, executor);
  };
  unio::run(body());
}

TEST(affine, resumes_here_when_another_thread_runs_the_operation) {
  other_thread other;
  auto body = [](unio::io_multiplexer& elsewhere) -> task<> {
    auto const here = std::this_thread::get_id();
    unio::executor_ref const executor = co_await unio::this_coro::executor;
    auto pipe = unio::pipe_handle::anonymous().value();
    pipe.reader.set_multiplexer(&elsewhere);
    std::array<char, 4> buffer{};
    for (int i = 0; i < 200; ++i) {
      bool const before = i % 2 == 0;
      if (before) (void)pipe.writer.write(unio::const_buffer("x", 1));
      std::thread late([&pipe, before] {
        if (!before) (void)pipe.writer.write(unio::const_buffer("y", 1));
      });
      auto const r = co_await pipe.reader.co_read(unio::mutable_buffer(buffer));
      late.join();
      EXPECT_EQ(r.bytes_transferred(), 1u);
      EXPECT_AT_HOME(here, executor);
    }
    pipe.reader.set_multiplexer(nullptr);
  };
  unio::run(body(other.multiplexer()));
}

// All forms of await_suspend, with and without operator co_await, resumed at once, here, or on another
// thread.
std::atomic<int> resumed_elsewhere{0};
std::vector<std::thread> threads;
void resume_elsewhere(std::coroutine_handle<> h) {
  threads.emplace_back([h] {
    ++resumed_elsewhere;
    h.resume();
  });
}
struct through_member {
  suspends_with<void (*)(std::coroutine_handle<>)> operator co_await() const { return {&resume_elsewhere}; }
};
struct through_free {};
suspends_with<void (*)(std::coroutine_handle<>)> operator co_await(through_free) {
  return {&resume_elsewhere};
}

TEST(affine, resumes_here_after_foreign_awaitables_of_every_form) {
  auto body = []() -> task<> {
    auto const here = std::this_thread::get_id();
    unio::executor_ref const executor = co_await unio::this_coro::executor;
    auto by_void = [](std::coroutine_handle<> h) { resume_elsewhere(h); };
    co_await suspends_with{by_void};
    EXPECT_AT_HOME(here, executor);
    auto by_true = [](std::coroutine_handle<> h) {
      resume_elsewhere(h);
      return true;
    };
    co_await suspends_with{by_true};
    EXPECT_AT_HOME(here, executor);
    auto by_false = [](std::coroutine_handle<>) { return false; };
    co_await suspends_with{by_false};
    EXPECT_AT_HOME(here, executor);
    auto by_handle = [](std::coroutine_handle<> h) -> std::coroutine_handle<> {
      resume_elsewhere(h);
      return std::noop_coroutine();
    };
    co_await suspends_with{by_handle};
    EXPECT_AT_HOME(here, executor);
    auto by_own_handle = [](std::coroutine_handle<> h) { return h; };
    co_await suspends_with{by_own_handle};
    EXPECT_AT_HOME(here, executor);
    auto at_once = [](std::coroutine_handle<> h) { h.resume(); };
    co_await suspends_with{at_once};
    EXPECT_AT_HOME(here, executor);
    through_member const member;
    co_await member;
    EXPECT_AT_HOME(here, executor);
    through_free const free;
    co_await free;
    EXPECT_AT_HOME(here, executor);
    co_await std::suspend_never();
    EXPECT_AT_HOME(here, executor);
  };
  resumed_elsewhere = 0;
  unio::run(body());
  for (std::thread& t : threads) t.join();
  threads.clear();
  EXPECT_EQ(resumed_elsewhere, 5);
}

// An awaitable of the protocol that asks for the environment from the start, and has no other await_ready.
struct asks_first {
  bool ready;
  unio::environment const* seen = nullptr;
  bool await_ready(unio::environment const& e) noexcept {
    seen = &e;
    return ready;
  }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, unio::environment const& e) noexcept {
    EXPECT_EQ(seen, &e);
    return h;
  }
  int await_resume() noexcept { return 3; }
};
struct is_asked_first {
  asks_first operator co_await() const { return {false}; }
};

TEST(affine, awaitables_may_ask_for_the_environment_from_the_start) {
  auto body = []() -> task<int> {
    asks_first ready{true}, suspends{false};
    int const a = co_await ready;
    int const b = co_await suspends;
    int const c = co_await is_asked_first();
    co_return a + b + c;
  };
  EXPECT_EQ(unio::run(body()), 9);
}

// ---- error ------------------------------------------------------------------------------------------------

TEST(affine, resumes_here_when_a_foreign_awaitable_throws) {
  auto body = []() -> task<int> {
    auto const here = std::this_thread::get_id();
    int caught = 0;
    try {
      auto throws = [](std::coroutine_handle<>) { throw failure(5); };
      co_await suspends_with{throws};
    } catch (failure const& f) {
      caught = f.number;
    }
    EXPECT_EQ(std::this_thread::get_id(), here);
    struct fails_to_resume {
      static bool await_ready() { return false; }
      static void await_suspend(std::coroutine_handle<> h) { resume_elsewhere(h); }
      [[noreturn]] static void await_resume() { throw failure(6); }
    };
    try {
      co_await fails_to_resume();
    } catch (failure const& f) {
      caught += f.number;
    }
    EXPECT_EQ(std::this_thread::get_id(), here);
    co_return caught;
  };
  EXPECT_EQ(unio::run(body()), 11);
  for (std::thread& t : threads) t.join();
  threads.clear();
}

// ---- cancel -----------------------------------------------------------------------------------------------

TEST(affine, resumes_here_after_a_stop_from_another_thread) {
  auto body = []() -> task<bool> {
    auto const here = std::this_thread::get_id();
    unio::executor_ref const executor = co_await unio::this_coro::executor;
    auto pipe = unio::pipe_handle::anonymous().value();
    std::array<char, 4> buffer{};
    auto const r = co_await pipe.reader.co_read(unio::mutable_buffer(buffer));
    EXPECT_AT_HOME(here, executor);
    co_return r.error() == condition::canceled;
  };
  for (int i = 0; i < 100; ++i) {
    unio::stop_source stop;
    std::thread asks([&] { stop.request_stop(); });
    EXPECT_TRUE(unio::run(body(), {.stop = stop.get_token()}));
    asks.join();
  }
}

// ---- lifetime ---------------------------------------------------------------------------------------------

TEST(affine, a_chain_on_its_way_back_from_another_thread_can_be_destroyed) {
  auto const m = a_multiplexer();
  for (int i = 0; i < 300; ++i) {
    foreign_event event;
    std::atomic<int> alive{0};
    unio::multiplexer_executor const executor(*m);
    unio::environment with{.executor = executor, .multiplexer = m.get()};
    bool resumed = false;
    {
      auto body = [](counted, foreign_event& e, bool& r) -> task<> {
        (void)co_await e;
        r = true;
      };
      task<> t = body(counted(alive), event, resumed);
      struct nobody : unio::detail::end_listener {
        nobody()
            : end_listener(
                  [](end_listener&) noexcept -> std::coroutine_handle<> { return std::noop_coroutine(); }) {}
      } listener;
      (void)m->try_run(); // this thread runs it
      t.child().promise().set_environment(with);
      t.child().promise().set_continuation(listener);
      unio::detail::resume(t.child());
      std::thread sets([&] { EXPECT_TRUE(event.set()); });
      sets.join(); // it is queued now, and not resumed
      EXPECT_FALSE(resumed);
    }
    (void)m->try_run();
    EXPECT_FALSE(resumed);
    EXPECT_EQ(alive, 0);
  }
}

TEST(affine, a_chain_that_waits_for_something_foreign_can_be_destroyed) {
  auto const m = a_multiplexer();
  foreign_event event;
  unio::multiplexer_executor const executor(*m);
  unio::environment with{.executor = executor, .multiplexer = m.get()};
  {
    auto body = [](foreign_event& e) -> task<> { (void)co_await e; };
    task<> t = body(event);
    t.child().promise().set_environment(with);
    t.child().promise().set_continuation(std::noop_coroutine());
    unio::detail::resume(t.child());
    EXPECT_TRUE(event.has_waiter());
  }
  EXPECT_FALSE(event.set());
}

// What resumes coroutines from the middle of a coroutine: with compilers that make no tail calls, all that
// was set going has gone on when it returns.
TEST(affine, a_chain_within_a_running_coroutine_is_not_left_behind) {
  auto inner = []() -> task<int> {
    auto level = [](int n) -> task<int> { co_return n; };
    int sum = 0;
    for (int i = 0; i < 10; ++i) {
      int const one = co_await level(i);
      sum += one;
    }
    co_return sum;
  };
  using inner_type = decltype(inner);
  auto outer = [](inner_type const& make) -> task<int> {
    co_await std::suspend_never();
    int const waited = unio::sync_wait(unio::inline_executor(), make());
    auto const m = a_multiplexer();
    int const ran = unio::run(*m, make());
    int told = 0;
    auto handler = [&told](unio::task_outcome<int> const& o) { told = *o; };
    unio::async_run(unio::inline_executor(), make(), handler);
    EXPECT_EQ(told, 45) << "it needed to wait for nothing";
    co_return waited + ran;
  };
  using outer_type = decltype(outer);
  auto chain = [](outer_type const& make, inner_type const& with) -> task<int> {
    co_return co_await make(with);
  };
  EXPECT_EQ(unio::run(chain(outer, inner)), 90);
}

} // namespace
