// Awaited operations and the stop: before, while, after; from here and from elsewhere. Bytes that moved are
// reported.

#include "support/other_thread.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

struct seen {
  std::error_code error;
  std::size_t bytes = 0;
  int ends = 0;
};

task<> reads_once(unio::pipe_handle& from, seen& s, unio::deadline d = {}) {
  std::array<char, 8> buffer{};
  auto const r = co_await from.co_read(unio::mutable_buffer(buffer), d);
  s.error = r.error();
  s.bytes = r.bytes_transferred();
  ++s.ends;
}

std::size_t left_in(unio::anonymous_pipe& p) {
  std::array<char, 64> rest{};
  p.reader.set_multiplexer(nullptr);
  auto const r = p.reader.try_read(unio::mutable_buffer(rest));
  return r.has_value() ? r.bytes_transferred() : 0;
}

// ---- cancel -----------------------------------------------------------------------------------------------

TEST(awaiting, after_a_stop_starts_nothing) {
  auto const m = a_multiplexer();
  auto pipe = unio::pipe_handle::anonymous().value();
  pipe.reader.set_multiplexer(m.get());
  (void)pipe.writer.write(unio::const_buffer("abc", 3));
  unio::stop_source stop;
  stop.request_stop();
  seen s;
  auto const before = m->counters().started;
  unio::run(*m, reads_once(pipe.reader, s), {.stop = stop.get_token()});
  EXPECT_EQ(m->counters().started, before);
  EXPECT_EQ(s.error, condition::canceled);
  EXPECT_EQ(left_in(pipe), 3u);
}

TEST(awaiting, stopped_while_it_waits_is_canceled) {
  auto const m = a_multiplexer();
  auto pipe = unio::pipe_handle::anonymous().value();
  pipe.reader.set_multiplexer(m.get());
  unio::stop_source stop;
  seen s;
  unio::async_run(*m, reads_once(pipe.reader, s), {.stop = stop.get_token()});
  (void)m->try_run();
  EXPECT_EQ(s.ends, 0);
  stop.request_stop();
  EXPECT_EQ(s.ends, 0) << "a stop resumes nobody itself";
  while (s.ends == 0) (void)m->run();
  EXPECT_EQ(s.error, condition::canceled);
  pipe.reader.set_multiplexer(nullptr);
}

// P3: between the completion and the resumption a stop changes nothing.
TEST(awaiting, stopped_after_its_completion_reports_the_bytes) {
  auto const m = a_multiplexer();
  for (int turns = 0; turns < 3; ++turns) {
    auto pipe = unio::pipe_handle::anonymous().value();
    pipe.reader.set_multiplexer(m.get());
    unio::stop_source stop;
    seen s;
    unio::async_run(*m, reads_once(pipe.reader, s), {.stop = stop.get_token()});
    (void)m->try_run();
    (void)pipe.writer.write(unio::const_buffer("abc", 3));
    for (int i = 0; i < turns; ++i) (void)m->try_run();
    stop.request_stop();
    while (s.ends == 0) (void)m->run();
    EXPECT_EQ(s.ends, 1);
    EXPECT_TRUE(!s.error || s.error == condition::canceled);
    if (turns == 2) {
      EXPECT_FALSE(s.error);
    }
    EXPECT_EQ(s.bytes + left_in(pipe), 3u);
  }
}

// Cases 4, 7, 14: a stop and a completion from other threads, at once, and a deadline: one result each, no
// byte lost.
void race_often(unio::io_multiplexer& m, unio::io_multiplexer& runs_the_pipe, unio::deadline d) {
  for (int i = 0; i < 300; ++i) {
    auto pipe = unio::pipe_handle::anonymous().value();
    pipe.reader.set_multiplexer(&runs_the_pipe);
    unio::stop_source stop;
    seen s;
    std::atomic<int> go{0};
    auto wait = [&go] {
      ++go;
      while (go < 2) std::this_thread::yield();
    };
    std::thread writes([&] {
      wait();
      (void)pipe.writer.write(unio::const_buffer("abc", 3));
    });
    std::thread stops([&] {
      wait();
      stop.request_stop();
    });
    unio::run(m, reads_once(pipe.reader, s, d), {.stop = stop.get_token()});
    writes.join();
    stops.join();
    EXPECT_EQ(s.ends, 1);
    EXPECT_TRUE(!s.error || s.error == condition::canceled || s.error == condition::timed_out) << s.error;
    EXPECT_EQ(s.bytes + left_in(pipe), 3u);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(awaiting, a_stop_against_a_completion_ends_once_and_loses_no_byte) {
  auto const m = a_multiplexer();
  race_often(*m, *m, {});
}
TEST(awaiting, a_stop_against_a_completion_and_a_deadline_ends_once_and_loses_no_byte) {
  auto const m = a_multiplexer();
  race_often(*m, *m, 100us);
}
TEST(awaiting, a_stop_against_a_completion_on_another_threads_multiplexer_ends_once_and_loses_no_byte) {
  auto const m = a_multiplexer();
  other_thread other;
  race_often(*m, other.multiplexer(), {});
  race_often(*m, other.multiplexer(), 100us);
}

// ---- lifetime ---------------------------------------------------------------------------------------------

// Case 9: destroyed while another thread completes or stops what it waits for.
TEST(awaiting, destroyed_against_a_completion_and_a_stop_from_other_threads_is_gone) {
  auto const m = a_multiplexer();
  (void)m->try_run();
  other_thread other;
  for (int i = 0; i < 300; ++i) {
    auto pipe = unio::pipe_handle::anonymous().value();
    pipe.reader.set_multiplexer(i % 2 == 0 ? &other.multiplexer() : m.get());
    unio::stop_source stop;
    seen s;
    unio::multiplexer_executor const executor(*m);
    unio::environment const with{.executor = executor, .stop = stop.get_token(), .multiplexer = m.get()};
    std::thread acts;
    {
      task<> t = reads_once(pipe.reader, s);
      t.child().promise().set_environment(with);
      t.child().promise().set_continuation(std::noop_coroutine());
      unio::detail::resume(t.child());
      acts = std::thread([&] {
        if (i % 3 != 0) (void)pipe.writer.write(unio::const_buffer("abc", 3));
        if (i % 3 != 1) stop.request_stop();
      });
      if (i % 5 == 0) acts.join();
    }
    if (acts.joinable()) acts.join();
    EXPECT_EQ(s.ends, 0);
    pipe.reader.set_multiplexer(nullptr);
    (void)m->try_run();
    EXPECT_EQ(s.ends, 0);
  }
  EXPECT_EQ(m->counters().started, m->counters().finished);
}

} // namespace
