// run, async_run, sync_wait, run_on: where chains of coroutines begin, and change places.

#include "support/failing_calls.hpp"
#include "support/forwarding.hpp"
#include "support/other_thread.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <latch>

namespace {

using namespace test;
using test::failure;

task<int> waits_a_little(int value) {
  unio::timer_handle timer(100us);
  (void)co_await timer.co_wait();
  co_return value;
}
task<int> throws_late() {
  unio::timer_handle timer(100us);
  (void)co_await timer.co_wait();
  throw failure(9);
}
task<std::thread::id> says_where() {
  co_await std::suspend_never();
  co_return std::this_thread::get_id();
}

// ---- run --------------------------------------------------------------------------------------------------

TEST(run, yields_the_value_or_throws) {
  EXPECT_EQ(unio::run(waits_a_little(3)), 3);
  EXPECT_THROW((void)unio::run(throws_late()), failure);
  auto const m = a_multiplexer();
  EXPECT_EQ(unio::run(*m, waits_a_little(4)), 4);
  EXPECT_THROW((void)unio::run(*m, throws_late()), failure);
  EXPECT_EQ(unio::run(*m, says_where()), std::this_thread::get_id());
}

TEST(run, takes_whatever_can_be_awaited) {
  auto const m = a_multiplexer();
  auto pipe = unio::pipe_handle::anonymous().value();
  std::array<char, 4> room{};
  (void)pipe.writer.write(std::string_view("abc"));
  unio::io_result<unio::mutable_buffers> const r =
      unio::run(*m, pipe.reader.co_read(unio::mutable_buffer(room)));
  EXPECT_EQ(r.bytes_transferred(), 3u);
  auto const [a, b] = unio::run(unio::when_all(waits_a_little(1), waits_a_little(2)));
  EXPECT_EQ(a + b, 3);
  unio::result<int> const bounded = unio::run(unio::timeout(1h, waits_a_little(3)));
  EXPECT_EQ(bounded.value(), 3);
  EXPECT_THROW((void)unio::run(unio::when_all(throws_late())), failure);
  foreign_event ready; // an lvalue is referred to
  (void)ready.set();
  EXPECT_EQ(unio::run(ready), 7);
  unio::stop_source stop;
  stop.request_stop();
  auto const stopped = unio::run(unio::co_sleep(1h), {.stop = stop.get_token()});
  EXPECT_EQ(stopped.error(), condition::canceled);
}

// Resumes when a multiplexer runs what was posted.
struct reposts {
  unio::io_multiplexer& on;
  unio::resumption r{};
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h, unio::environment const& e) noexcept {
    r = unio::resumption(h, &e);
    on.post(r);
  }
  static void await_resume() noexcept {}
};

TEST(run, runs_on_a_multiplexer_for_several_threads_whoever_ends_the_task) {
  auto const m = a_multiplexer(2);
  std::atomic<bool> ends{false};
  std::thread helps([&] {
    (void)m->try_run(); // it runs what it starts
    unio::timer_handle never(unio::deadline::none(), m.get());
    started const sleep{unio::async_wait(never)};
    while (!ends) (void)m->try_run_for(1ms);
  });
  auto hops = [](unio::io_multiplexer& on) -> task<int> {
    int threads_seen = 0;
    auto const begun = std::this_thread::get_id();
    for (int i = 0; i < 50; ++i) {
      co_await reposts{on};
      if (std::this_thread::get_id() != begun) ++threads_seen;
    }
    co_return threads_seen;
  };
  for (int i = 0; i < 40; ++i) {
    EXPECT_GE(unio::run(*m, hops(*m)), 0);
    EXPECT_GE(unio::sync_wait(m->executor(), hops(*m)), 0);
  }
  ends = true;
  helps.join();
}

// Posted work that runs is not pending, so m.run() says 0 meanwhile.
TEST(run, on_several_threads_goes_on_on_each_though_nothing_is_pending) {
  auto const m = a_multiplexer(3);
  unio::event over;
  auto begins_late = [](unio::event& e) -> task<> {
    std::this_thread::sleep_for(2ms);
    unio::timer_handle t(1ms);
    (void)co_await t.co_wait();
    e.set();
  };
  for (int i = 0; i != 10; ++i) {
    over.reset();
    unio::async_run(m->executor(), begins_late(over));
    threads users(3, [&] {
      unio::run(*m, over.co_wait()).value();
      EXPECT_TRUE(over.is_set());
    });
    users.join();
  }
}

TEST(run, on_a_multiplexer_of_another_thread_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        other_thread other;
        (void)unio::run(other.multiplexer(), waits_a_little(1));
      },
      "another thread runs this multiplexer");
}

TEST(run, where_no_multiplexer_can_be_made_throws_why) {
  failing_calls calls;
  calls.fail<&unio::sys::table::io_uring_setup>(EMFILE, {.times = which_calls::all});
  calls.fail<&unio::sys::table::epoll_create>(EMFILE, {.times = which_calls::all});
  std::thread fresh([] { // a thread that has no multiplexer yet
    std::atomic<int> alive{0};
    auto body = [](counted) -> task<> {
      unio::timer_handle timer(1ms);
      (void)(co_await timer.co_wait()).value();
    };
    EXPECT_THROW(unio::run(body(counted(alive))), std::system_error);
    EXPECT_EQ(alive, 0);
    auto waits_elsewhere = [](counted, foreign_event& e) -> task<> { (void)co_await e; };
    foreign_event never;
    try {
      unio::run(waits_elsewhere(counted(alive), never));
      ADD_FAILURE() << "nothing was thrown";
    } catch (std::system_error const& e) {
      EXPECT_EQ(e.code().value(), EMFILE);
    }
    EXPECT_EQ(alive, 0);
    try {
      unio::sync_wait(unio::this_thread::multiplexer().executor(), waits_elsewhere(counted(alive), never));
      ADD_FAILURE() << "nothing was thrown";
    } catch (std::system_error const&) {
    }
    EXPECT_EQ(alive, 0);
  });
  fresh.join();
}

TEST(run, can_be_stopped_by_its_options) {
  auto body = []() -> task<std::error_code> {
    unio::timer_handle timer(1h);
    auto const r = co_await timer.co_wait();
    co_return r.error();
  };
  unio::stop_source stop;
  auto const m = a_multiplexer();
  (void)m->post([&stop] { stop.request_stop(); });
  EXPECT_EQ(unio::run(*m, body(), {.stop = stop.get_token()}), condition::canceled);
  EXPECT_EQ(unio::run(*m, body(), {.stop = stop.get_token()}), condition::canceled)
      << "stopped before its start";
}

TEST(run, within_a_coroutine_runs_the_others_meanwhile) {
  auto const m = a_multiplexer();
  int others = 0;
  auto other = [](int& n) -> task<> {
    for (int i = 0; i < 3; ++i) {
      unio::timer_handle timer(100us);
      (void)co_await timer.co_wait();
      ++n;
    }
  };
  auto outer = [](unio::io_multiplexer& on) -> task<int> {
    co_await std::suspend_never();
    int const inner = unio::run(on, waits_a_little(5));
    int const again = unio::sync_wait(on.executor(), waits_a_little(6));
    co_return inner + again;
  };
  unio::async_run(*m, other(others));
  EXPECT_EQ(unio::run(*m, outer(*m)), 11);
  while (m->run().value_or(0) != 0) continue;
  EXPECT_EQ(others, 3);
}

// ---- async_run --------------------------------------------------------------------------------------------

TEST(async_run, tells_its_handler_of_values_references_and_exceptions) {
  auto const m = a_multiplexer();
  int value = 0, caught = 0;
  bool ended = false;
  std::string text = "text";
  std::string* referred = nullptr;
  auto takes_value = [&value](unio::task_outcome<int> o) { value = o.value(); };
  auto takes_exception = [&caught](unio::task_outcome<int> o) {
    try {
      std::rethrow_exception(o.error());
    } catch (failure const& f) {
      caught = f.number;
    }
  };
  auto takes_end = [&ended](unio::task_outcome<void> o) { ended = o.has_value(); };
  auto takes_reference = [&referred](unio::task_outcome<std::string&> o) { referred = *o; };
  auto refers = [](std::string& s) -> task<std::string&> { co_return s; };
  auto nothing = []() -> task<> { co_return; };
  unio::async_run(*m, waits_a_little(8), takes_value);
  unio::async_run(*m, throws_late(), takes_exception);
  unio::async_run(*m, nothing(), takes_end);
  unio::async_run(*m, refers(text), takes_reference);
  unio::async_run(*m, refers(text)); // without a handler
  EXPECT_EQ(value, 0) << "it starts later";
  while (m->run().value_or(0) != 0) continue;
  EXPECT_EQ(value, 8);
  EXPECT_EQ(caught, 9);
  EXPECT_TRUE(ended);
  EXPECT_EQ(referred, &text);
}

TEST(async_run, starts_several_at_once) {
  auto const m = a_multiplexer();
  std::atomic<int> ran{0};
  auto body = [](std::atomic<int>& n) -> task<> {
    ++n;
    co_return;
  };
  unio::async_run(*m, body(ran), body(ran), body(ran));
  unio::async_run(m->executor(), body(ran), body(ran));
  (void)m->run();
  EXPECT_EQ(ran, 5);
}

TEST(async_run, an_exception_that_nobody_is_told_of_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto throws = []() -> task<> {
    throw std::runtime_error("so it was");
    co_return;
  };
  EXPECT_DEATH(
      {
        unio::async_run(unio::this_thread::multiplexer(), throws());
        (void)unio::this_thread::multiplexer().run();
      },
      "an exception left a task that nobody waits for: so it was");
}

TEST(async_run, frees_the_task_before_its_handler_is_called) {
  auto const m = a_multiplexer();
  std::atomic<int> alive{0};
  int at_end = -1;
  auto body = [](counted) -> task<> {
    unio::timer_handle timer(100us);
    (void)co_await timer.co_wait();
  };
  auto handler = [&](unio::task_outcome<void> const&) { at_end = alive; };
  unio::async_run(*m, body(counted(alive)), handler);
  EXPECT_EQ(alive, 1);
  while (m->run().value_or(0) != 0) continue;
  EXPECT_EQ(at_end, 0);
}

TEST(async_run, tasks_on_a_multiplexer_that_ends_do_so_before_wherever_they_are) {
  for (int turns = 0; turns < 3; ++turns) {
    auto m = a_multiplexer();
    std::atomic<int> alive{0}, told{0};
    auto pipe = unio::pipe_handle::anonymous().value();
    pipe.reader.set_multiplexer(m.get());
    std::array<char, 4> buffer{};
    std::error_code read_error;
    auto reads = [](counted, unio::pipe_handle& from, std::array<char, 4>& to, std::error_code& e) -> task<> {
      auto const r = co_await from.co_read(unio::mutable_buffer(to));
      e = r.error();
    };
    auto waits_for_turn = [](counted, unio::io_multiplexer& on) -> task<> {
      for (;;) co_await reposts{on};
    };
    auto handler = [&told](unio::task_outcome<void> const&) { ++told; };
    unio::async_run(*m, reads(counted(alive), pipe.reader, buffer, read_error), handler);
    unio::async_run(*m, waits_for_turn(counted(alive), *m), handler);
    for (int i = 0; i < turns; ++i) (void)m->try_run();
    EXPECT_EQ(alive, 2);
    m.reset();
    EXPECT_EQ(alive, 0) << turns;
    EXPECT_EQ(told, turns == 0 ? 0 : 1) << "of the read; what waited for its turn was destroyed";
    if (turns != 0) {
      EXPECT_EQ(read_error, condition::canceled);
    }
    pipe.reader.set_multiplexer(nullptr);
  }
}

TEST(async_run, takes_whatever_can_be_awaited) {
  auto const m = a_multiplexer();
  int told = 0;
  unio::async_run(*m, unio::co_sleep(1us), [&](unio::task_outcome<unio::io_result<void>> const& o) {
    told += o.has_value() && o->has_value() ? 1 : 0;
  });
  foreign_event ready; // an lvalue is referred to
  (void)ready.set();
  unio::async_run(m->executor(), ready, [&](unio::task_outcome<int> const& o) { told += *o; });
  while (told != 8) (void)m->run();
  auto counts = [](int& n) -> task<> {
    (void)co_await unio::co_no_op();
    ++n;
  };
  unio::async_run(*m, unio::timeout(1h, counts(told)));
  unio::async_run(*m, unio::when_all(counts(told), counts(told)), unio::co_sleep(1us), counts(told));
  while (told != 12) (void)m->run();
}

// Others that run it would go on with what this one has begun, and destroys.
TEST(run, begins_nothing_on_a_multiplexer_of_several_threads_that_this_one_cannot_run) {
  auto const m = a_multiplexer(2);
  std::atomic<bool> ends{false}, begun{false};
  std::latch runs(1), calls_are_as_before(1);
  std::thread other([&] {
    m->join_in();
    runs.count_down();
    calls_are_as_before.wait();
    while (!ends) (void)m->try_run_for(1ms);
    (void)m->try_run_for(1ms);
  });
  runs.wait();
  auto const begins = [](std::atomic<bool>& b) -> task<> {
    b = true;
    (void)co_await unio::co_sleep(1h);
  };
  {
    failing_calls calls;
    calls.fail<&unio::sys::table::io_uring_setup>(EMFILE, {.times = which_calls::all});
    calls.fail<&unio::sys::table::epoll_create>(EMFILE, {.times = which_calls::all});
    EXPECT_THROW(unio::run(*m, begins(begun)), std::system_error);
  }
  calls_are_as_before.count_down();
  ends = true;
  other.join();
  EXPECT_FALSE(begun);
}

// ---- sync_wait --------------------------------------------------------------------------------------------

TEST(sync_wait, waits_for_another_thread) {
  other_thread other;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(unio::sync_wait(other.executor(), says_where()), other.id());
    EXPECT_EQ(unio::sync_wait(other.executor(), waits_a_little(i)), i);
  }
  EXPECT_THROW((void)unio::sync_wait(other.executor(), throws_late()), failure);
}

TEST(sync_wait, runs_what_this_thread_runs) {
  auto const m = a_multiplexer();
  EXPECT_EQ(unio::sync_wait(m->executor(), says_where()), std::this_thread::get_id());
  EXPECT_EQ(unio::sync_wait(m->executor(), waits_a_little(2)), 2);
  EXPECT_THROW((void)unio::sync_wait(m->executor(), throws_late()), failure);
  EXPECT_EQ(unio::sync_wait(waits_a_little(2)), 2);
  EXPECT_EQ(unio::sync_wait(unio::inline_executor(), says_where()), std::this_thread::get_id());
}

TEST(sync_wait, takes_whatever_can_be_awaited) {
  other_thread other;
  EXPECT_TRUE(unio::sync_wait(other.executor(), unio::co_sleep(1us)).has_value());
  EXPECT_TRUE(unio::sync_wait(unio::co_sleep(1us)).has_value());
}

TEST(sync_wait, takes_no_place_among_the_threads_of_a_multiplexer_for_several) {
  auto const m = a_multiplexer(2);
  std::atomic<bool> ends{false};
  test::threads pool(2, [&] {
    (void)m->try_run(); // it runs what it starts
    unio::timer_handle never(unio::deadline::none(), m.get());
    started const sleep{unio::async_wait(never)};
    EXPECT_TRUE(sleep.in_flight());
    while (!ends) (void)m->try_run_for(1ms);
  });
  for (int i = 0; i < 50; ++i)
    EXPECT_NE(unio::sync_wait(m->executor(), says_where()), std::this_thread::get_id());
  ends = true;
  pool.join();
}

class cannot_run final : public forwarding_multiplexer {
 public:
  explicit cannot_run(unio::io_multiplexer& m) noexcept : forwarding_multiplexer(m) {}

 private:
  unio::result<int> do_run(int, std::int64_t) noexcept override {
    return std::make_error_code(std::errc::bad_file_descriptor);
  }
};

// What is posted stays queued.
struct queues_all {
  std::vector<unio::work*>* queue;
  unio::io_multiplexer* m;
  [[nodiscard]] std::coroutine_handle<> dispatch(unio::resumption& r) const noexcept {
    post(r);
    return std::noop_coroutine();
  }
  void post(unio::work& w) const noexcept { queue->push_back(&w); }
  [[nodiscard]] bool withdraw(unio::work& w) const noexcept { return std::erase(*queue, &w) != 0; }
  [[nodiscard]] unio::io_multiplexer* multiplexer() const noexcept { return m; }
  bool operator==(queues_all const&) const = default;
};

TEST(sync_wait, takes_back_what_is_queued_where_it_cannot_run_the_multiplexer) {
  auto const m = a_multiplexer();
  (void)m->try_run();
  cannot_run fails(*m);
  std::vector<unio::work*> queue;
  std::atomic<int> alive{0};
  auto const never = [](counted) -> task<> {
    ADD_FAILURE() << "it was to be run";
    co_return;
  };
  EXPECT_THROW(unio::sync_wait(queues_all{&queue, &fails}, never(counted(alive))), std::system_error);
  EXPECT_EQ(alive, 0);
  EXPECT_TRUE(queue.empty());
}

TEST(sync_wait, throws_when_the_multiplexer_ends_first) {
  auto other = std::make_unique<other_thread>();
  std::atomic<int> alive{0};
  std::atomic<bool> begun{false};
  auto forever = [](counted, std::atomic<bool>& b) -> task<> {
    unio::io_multiplexer* const on = (co_await unio::this_coro::environment).multiplexer;
    for (;;) {
      b = true;
      co_await reposts{*on};
    }
  };
  std::thread ends([&] {
    while (!begun) std::this_thread::yield();
    other->end();
  });
  try {
    unio::sync_wait(other->executor(), forever(counted(alive), begun));
    ADD_FAILURE() << "nothing was thrown";
  } catch (std::system_error const& e) {
    EXPECT_EQ(e.code(), make_error_code(unio::error::multiplexer_destroyed));
  }
  ends.join();
  EXPECT_EQ(alive, 0);
}

task<> yields_for_ever(counted, std::atomic<bool>& begun) {
  for (;; begun = true) co_await unio::co_yield_now();
}

// The thread that ends it takes back the others of the chain, not the one that waits.
TEST(sync_wait, throws_when_the_multiplexer_ends_first_though_several_of_it_are_queued) {
  other_thread other;
  std::atomic<int> alive{0};
  std::atomic<bool> begun{false};
  std::thread ends([&] {
    while (!begun) std::this_thread::yield();
    other.end();
  });
  auto const three = [&] { return yields_for_ever(counted(alive), begun); };
  EXPECT_THROW(unio::sync_wait(other.executor(), unio::when_all(three(), three(), three())),
               std::system_error);
  ends.join();
  EXPECT_EQ(alive, 0);
}

// ---- run_on -----------------------------------------------------------------------------------------------

TEST(run_on, goes_there_and_comes_back_in_both_directions) {
  other_thread other;
  auto const m = a_multiplexer();
  auto body = [](unio::multiplexer_executor there, unio::multiplexer_executor here,
                 std::thread::id away) -> task<> {
    auto const home = std::this_thread::get_id();
    auto returns_home = [](unio::multiplexer_executor to) -> task<std::thread::id> {
      auto const before = std::this_thread::get_id();
      auto const at_home = co_await unio::run_on(to, says_where());
      EXPECT_EQ(std::this_thread::get_id(), before);
      co_return at_home;
    };
    for (int i = 0; i < 100; ++i) {
      auto const where = co_await unio::run_on(there, says_where());
      EXPECT_EQ(where, away);
      EXPECT_EQ(std::this_thread::get_id(), home);
      auto const back = co_await unio::run_on(there, returns_home(here));
      EXPECT_EQ(back, home);
      EXPECT_EQ(std::this_thread::get_id(), home);
    }
    int caught = 0;
    try {
      (void)co_await unio::run_on(there, throws_late());
    } catch (failure const& f) {
      caught = f.number;
    }
    EXPECT_EQ(caught, 9);
    EXPECT_EQ(std::this_thread::get_id(), home);
  };
  unio::run(*m, body(other.executor(), m->executor(), other.id()));
}

TEST(run_on, takes_whatever_can_be_awaited) {
  other_thread other;
  unio::run([](other_thread& there) -> task<> {
    auto const here = std::this_thread::get_id();
    auto const ids = co_await unio::run_on(there.executor(), unio::when_all(says_where()));
    EXPECT_EQ(std::get<0>(ids), there.id());
    EXPECT_EQ(std::this_thread::get_id(), here);
  }(other));
}

TEST(run_on, with_an_equal_executor_stays) {
  auto const m = a_multiplexer();
  auto body = [](unio::multiplexer_executor here) -> task<int> {
    auto const where = co_await unio::run_on(here, says_where());
    EXPECT_EQ(where, std::this_thread::get_id());
    int const value = co_await unio::run_on(here, waits_a_little(6));
    co_return value;
  };
  EXPECT_EQ(unio::run(*m, body(m->executor())), 6);
}

// An executor that notices if it is used after its end.
class mortal {
 public:
  explicit mortal(unio::multiplexer_executor on) noexcept : on_(on), self_(this) {}
  mortal(mortal const& other) noexcept : on_(other.on_), self_(this) {}
  mortal& operator=(mortal const&) = delete;
  ~mortal() { self_ = nullptr; }

  [[nodiscard]] std::coroutine_handle<> dispatch(unio::resumption& r) const noexcept {
    return on_.dispatch(r);
  }
  void post(unio::work& w) const noexcept { on_.post(w); }
  [[nodiscard]] bool withdraw(unio::work& w) const noexcept {
    EXPECT_EQ(self_, this);
    return on_.withdraw(w);
  }
  [[nodiscard]] unio::io_multiplexer* multiplexer() const noexcept { return on_.multiplexer(); }
  bool operator==(mortal const& other) const noexcept { return on_ == other.on_; }

 private:
  unio::multiplexer_executor on_;
  mortal const* volatile self_;
};

TEST(async_run, and_run_on_destroy_a_task_before_its_executor) {
  std::atomic<int> alive{0};
  std::atomic<bool> begun{false};
  {
    auto const m = a_multiplexer();
    auto const one = [&] { return yields_for_ever(counted(alive), begun); };
    unio::async_run(mortal(m->executor()), [](auto make, std::atomic<int>& a) -> task<> {
      unio::environment const& e = co_await unio::this_coro::environment;
      {
        unio::task_group g(e);
        g.start(unio::run_on(mortal(e.multiplexer->executor()), make()));
        EXPECT_EQ(a, 1);
      }
      EXPECT_EQ(a, 0);
      co_await unio::when_all(make(), make()); // until the multiplexer ends
    }(one, alive));
    while (alive != 2) (void)m->try_run();
  }
  EXPECT_EQ(alive, 0);
}

TEST(run_on, hands_the_stop_on) {
  other_thread other;
  auto sleeps = []() -> task<std::error_code> {
    unio::timer_handle timer(1h);
    auto const r = co_await timer.co_wait();
    co_return r.error();
  };
  using sleeps_type = decltype(sleeps);
  auto body = [](unio::multiplexer_executor there, sleeps_type const& make) -> task<std::error_code> {
    auto const home = std::this_thread::get_id();
    std::error_code const e = co_await unio::run_on(there, make());
    EXPECT_EQ(std::this_thread::get_id(), home);
    co_return e;
  };
  for (int i = 0; i < 100; ++i) {
    unio::stop_source stop;
    std::thread asks([&] { stop.request_stop(); });
    EXPECT_EQ(unio::run(body(other.executor(), sleeps), {.stop = stop.get_token()}), condition::canceled);
    asks.join();
  }
}

// What asks for the stop is still on the stack then, with a source that may be the caller's.
TEST(run_on, comes_back_later_if_the_task_ends_inside_of_the_request_to_stop) {
  class until_stopped { // resumes where the stop is requested
   public:
    static constexpr bool await_ready() noexcept { return false; }
    void await_suspend(std::coroutine_handle<> h, unio::environment const& e) {
      stopped_.emplace(e.stop, resume_it{h});
    }
    static constexpr void await_resume() noexcept {}

   private:
    struct resume_it {
      std::coroutine_handle<> h;
      void operator()() const noexcept { h.resume(); }
    };
    std::optional<unio::stop_callback<resume_it>> stopped_;
  };
  auto const m = a_multiplexer();
  bool task_ended = false, came_back = false;
  auto away = [](bool& ended) -> task<> {
    co_await until_stopped();
    ended = true;
  };
  using away_type = decltype(away);
  auto body = [](away_type const& make, bool& ended, bool& back) -> task<> {
    co_await unio::run_on(unio::inline_executor(), make(ended));
    back = true;
  };
  unio::stop_source stop;
  auto asks = [](unio::stop_source& source, bool& ended, bool& back) -> task<> {
    co_await unio::co_yield_now();
    source.request_stop();
    EXPECT_TRUE(ended);
    EXPECT_FALSE(back);
  };
  unio::async_run(*m, body(away, task_ended, came_back), unio::detail::let_it_end(),
                  {.stop = stop.get_token()});
  unio::async_run(*m, asks(stop, task_ended, came_back));
  EXPECT_TRUE(m->run().has_value());
  EXPECT_TRUE(came_back);
}

// The caller is destroyed while its task is away: that one is called back, even if it needs the caller's
// thread to end.
TEST(run_on, calls_the_task_back_when_its_caller_is_destroyed) {
  other_thread other;
  auto const m = a_multiplexer();
  (void)m->try_run();
  for (int i = 0; i < 100; ++i) {
    std::atomic<int> alive{0};
    auto away = [](counted, unio::multiplexer_executor home, bool visits) -> task<> {
      unio::timer_handle timer(1h);
      (void)co_await timer.co_wait();
      if (visits) (void)co_await unio::run_on(home, says_where());
    };
    using away_type = decltype(away);
    auto body = [](counted c, unio::multiplexer_executor there, unio::multiplexer_executor here, bool visits,
                   away_type const& make) -> task<> { co_await unio::run_on(there, make(c, here, visits)); };
    {
      unio::multiplexer_executor const executor(*m);
      unio::environment const with{.executor = executor, .multiplexer = m.get()};
      task<> t = body(counted(alive), other.executor(), executor, i % 2 == 0, away);
      t.child().promise().set_environment(with);
      t.child().promise().set_continuation(std::noop_coroutine());
      unio::detail::resume(t.child());
      if (i % 3 != 0) std::this_thread::yield();
    }
    EXPECT_EQ(alive, 0);
  }
}

TEST(run_on, throws_at_home_when_the_multiplexer_there_ends) {
  for (int i = 0; i < 20; ++i) {
    other_thread other;
    std::atomic<bool> begun{false};
    auto forever = [](std::atomic<bool>& b) -> task<> {
      unio::io_multiplexer* const on = (co_await unio::this_coro::environment).multiplexer;
      for (;;) {
        reposts again{*on};
        b = true;
        co_await again;
      }
    };
    using forever_type = decltype(forever);
    auto body = [](unio::multiplexer_executor there, forever_type const& make,
                   std::atomic<bool>& b) -> task<bool> {
      auto const home = std::this_thread::get_id();
      bool thrown = false;
      try {
        co_await unio::run_on(there, make(b));
      } catch (std::system_error const& e) {
        thrown = e.code() == make_error_code(unio::error::multiplexer_destroyed);
      }
      EXPECT_EQ(std::this_thread::get_id(), home);
      co_return thrown;
    };
    std::thread ends([&] {
      while (!begun) std::this_thread::yield();
      other.end();
    });
    EXPECT_TRUE(unio::run(body(other.executor(), forever, begun)));
    ends.join();
  }
}

// As sync_wait: the task is destroyed where it was.
TEST(run_on, throws_at_home_though_several_of_its_task_are_queued) {
  other_thread other;
  std::atomic<int> alive{0};
  std::atomic<bool> begun{false};
  auto body = [](unio::multiplexer_executor there, std::atomic<int>& a, std::atomic<bool>& b) -> task<> {
    auto const one = [&] { return yields_for_ever(counted(a), b); };
    bool thrown = false;
    try {
      co_await unio::run_on(there, unio::when_all(one(), one(), one()));
    } catch (std::system_error const& e) {
      thrown = e.code() == make_error_code(unio::error::multiplexer_destroyed);
    }
    EXPECT_TRUE(thrown);
    EXPECT_EQ(a, 0);
  };
  std::thread ends([&] {
    while (!begun) std::this_thread::yield();
    other.end();
  });
  unio::run(body(other.executor(), alive, begun));
  ends.join();
}

// Whoever posts the last that a multiplexer runs must have left it before it ends.
TEST(run_on, coming_back_does_not_outlive_the_multiplexer_that_it_comes_back_to) {
  other_thread other;
  for (int i = 0; i < 300; ++i) {
    auto const m = a_multiplexer();
    auto body = [](unio::multiplexer_executor there) -> task<> {
      (void)co_await unio::run_on(there, says_where());
    };
    unio::run(*m, body(other.executor()));
  }
}

} // namespace
