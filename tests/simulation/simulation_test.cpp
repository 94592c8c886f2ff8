// The simulation itself: what it installs, its clock, its faults, its numbers, and what it says when nothing
// can happen.

#include "support.hpp"
#include "support/test.hpp"
#include "sys/calls.hpp"

namespace {

using namespace test;

TEST(simulation, replaces_the_system_calls_only_while_it_lives) {
  unio::sys::table const* const before = unio::sys::current;
  {
    simulation s;
    EXPECT_NE(unio::sys::current, before);
    EXPECT_STREQ(s.multiplexer().capabilities().driver, "simulated");
  }
  EXPECT_EQ(unio::sys::current, before);
}

TEST(simulation, leaves_real_descriptors_and_the_time_of_other_threads_alone) {
  auto real = unio::pipe_handle::anonymous().value();
  simulation s;
  EXPECT_EQ(real.writer.write(unio::const_buffer("abc", 3)).bytes_transferred(), 3u);
  std::array<char, 4> buffer{};
  EXPECT_EQ(real.reader.read(unio::mutable_buffer(buffer)).bytes_transferred(), 3u);
  EXPECT_EQ(s.open_descriptors(), 0u);
  std::int64_t elsewhere = 0;
  std::thread([&] { elsewhere = unio::sys::steady_now(); }).join();
  EXPECT_GE(elsewhere, 0);
  EXPECT_EQ(unio::sys::steady_now(), s.now().time_since_epoch().count());
}

TEST(simulation, gives_out_the_lowest_free_number) {
  simulation s;
  auto first = s.pipe();
  auto second = s.pipe();
  EXPECT_GE(first.reader.native_handle(), 1 << 28);
  int const number = first.writer.native_handle();
  ASSERT_TRUE(first.writer.close().has_value());
  auto file = s.file();
  EXPECT_EQ(file.native_handle(), number);
  EXPECT_EQ(s.open_descriptors(), 4u);
}

TEST(simulation, moves_time_only_when_it_sleeps_or_is_told_to) {
  simulation s(simulation_options::orderly());
  auto [reader, writer] = s.pipe();
  auto const begun = s.now();
  char byte = 0;
  for (int i = 0; i != 100; ++i) (void)s.multiplexer().try_run();
  EXPECT_EQ(s.now(), begun);
  EXPECT_EQ(reader.read(unio::mutable_buffer(&byte, 1), 3ms).error(), condition::timed_out);
  EXPECT_EQ(s.now() - begun, 3ms);
  s.advance(1h);
  EXPECT_EQ(s.now() - begun, 1h + 3ms);
  reader.set_multiplexer(nullptr);
  EXPECT_EQ(reader.read(unio::mutable_buffer(&byte, 1), 3ms).error(), condition::timed_out);
  EXPECT_EQ(s.now() - begun, 1h + 6ms);
}

SEEDED_TEST(simulation, gives_timers_its_own_clock, 1000) {
  auto const begun = s.now();
  unio::timer_handle timer({}, &s.multiplexer());
  timer.expires_after(5ms);
  EXPECT_TRUE(timer.wait().has_value());
  EXPECT_EQ(s.now() - begun, 5ms);
  timer.set_multiplexer(nullptr);
  EXPECT_TRUE(timer.wait().has_value()); // a moment, and it has come
  EXPECT_EQ(s.now() - begun, 5ms);
  timer.expires_at(s.now() + 5ms);
  EXPECT_EQ(timer.wait(2ms).error(), condition::timed_out);
  EXPECT_TRUE(timer.wait().has_value());
  EXPECT_EQ(s.now() - begun, 10ms);
}

SEEDED_TEST(simulation, runs_events_at_their_moment_and_in_their_order, 1000) {
  auto [reader, writer] = s.pipe();
  auto const begun = s.now();
  std::vector<int> order;
  s.after(2ms, [&] { order.push_back(2); });
  s.after(1ms, [&] { order.push_back(1); });
  s.after(2ms, [&, &out = writer] {
    order.push_back(3);
    (void)out.write(unio::const_buffer("x", 1));
  });
  char byte = 0;
  if (s.seed() % 2 == 0) {
    reader.set_multiplexer(nullptr);
    writer.set_multiplexer(nullptr);
  }
  EXPECT_EQ(reader.read(unio::mutable_buffer(&byte, 1)).bytes_transferred(), 1u);
  EXPECT_EQ(order, (std::vector{1, 2, 3}));
  EXPECT_GE(s.now() - begun, 2ms);
  EXPECT_LT(s.now() - begun, 3ms);
}

TEST(simulation, never_runs_what_is_later_than_its_clock_can_show) {
  simulation s(simulation_options::orderly());
  bool happened = false;
  s.after(std::chrono::nanoseconds::max(), [&] { happened = true; });
  s.after(std::chrono::nanoseconds::max() - 1s, [&] { happened = true; });
  auto const begun = s.now();
  unio::run([]() -> unio::task<> { (void)co_await unio::co_sleep(1ms); }());
  EXPECT_EQ(s.now() - begun, 1ms);
  s.advance(std::chrono::nanoseconds::max());
  s.advance(1h); // there is no later moment
  EXPECT_EQ(s.now(), std::chrono::steady_clock::time_point::max());
  (void)s.multiplexer().try_run();
  EXPECT_FALSE(happened);
}

SEEDED_TEST(simulation, says_so_when_nothing_can_ever_happen, 1000) {
  auto [reader, writer] = s.pipe();
  char byte = 0;
  started op{async_read(reader, unio::mutable_buffer(&byte, 1))};
  unio::result<int> r = s.multiplexer().run();
  for (int i = 0; i != 5 && r.has_value(); ++i) r = s.multiplexer().run();
  EXPECT_EQ(r.error(), std::errc::resource_deadlock_would_occur);
  auto blocking = s.pipe();
  blocking.reader.set_multiplexer(nullptr);
  EXPECT_EQ(blocking.reader.read(unio::mutable_buffer(&byte, 1)).error(),
            std::errc::resource_deadlock_would_occur);
}

TEST(simulation_death_test, of_a_blocking_call_that_would_never_return_ends_with_a_message) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        simulation s;
        auto p = s.pipe();
        char byte = 0;
        (void)p.reader.read(unio::mutable_buffer(&byte, 1));
      },
      "sleep for ever");
}

TEST(simulation_death_test, of_a_second_simulation_ends_with_a_message) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        simulation first;
        simulation second;
      },
      "one simulation at a time");
}

TEST(simulation, fails_the_nth_call_of_a_name) {
  simulation s(simulation_options::orderly());
  auto file = s.file();
  std::array<char, 4> buffer{};
  s.fail("write*", 2, ENOSPC);
  EXPECT_EQ(file.write({unio::const_buffer(buffer), 0}).bytes_transferred(), 4u);
  EXPECT_TRUE(is(file.write({unio::const_buffer(buffer), 4}).error(), ENOSPC));
  EXPECT_EQ(file.write({unio::const_buffer(buffer), 4}).bytes_transferred(), 4u);
  EXPECT_EQ(s.calls("write*"), 3u);
  s.fail("fsync", 1, EIO);
  EXPECT_TRUE(is(file.barrier(unio::barrier_kind::wait_all).error(), EIO));
  EXPECT_TRUE(file.barrier(unio::barrier_kind::wait_all).has_value());
  s.fail("close", 1, EIO);
  EXPECT_TRUE(is(file.close().error(), EIO));
  EXPECT_EQ(s.open_descriptors(), 0u);
}

TEST(simulation, fails_as_many_calls_as_were_to_fail_at_once) {
  simulation s(simulation_options::orderly());
  auto file = s.file();
  s.fail("write*", 1, EIO);
  s.fail("pwritev2", 1, ENOSPC);
  s.fail("pwritev2", 2, EFBIG);
  for (int const error : {EIO, ENOSPC, EFBIG})
    EXPECT_TRUE(is(file.write({unio::const_buffer("x", 1), 0}).error(), error)) << error;
  EXPECT_EQ(file.write({unio::const_buffer("x", 1), 0}).bytes_transferred(), 1u);
}

TEST(simulation, fails_a_splice_that_it_would_refuse) {
  simulation s(simulation_options::orderly());
  auto from = s.pipe();
  auto to = s.pipe();
  ASSERT_TRUE(from.writer.write(unio::const_buffer("x", 1)).has_value());
  s.fail("splice", 2, EIO);
  EXPECT_TRUE(is(unio::splice(from.reader, to.writer, {.bytes = 1}).error(), ENOSYS));
  EXPECT_TRUE(is(unio::splice(from.reader, to.writer, {.bytes = 1}).error(), EIO));
  EXPECT_TRUE(is(unio::splice(from.reader, to.writer, {.bytes = 1}).error(), ENOSYS));
  EXPECT_EQ(s.calls("splice"), 3u);
  EXPECT_EQ(s.refused(), "splice(2) is not simulated\n");
}

TEST(simulation, passes_every_error_of_a_call_to_the_caller_once) {
  for (int const error : {EIO, ECONNRESET, ENOBUFS, ENOMEM, EPERM, EPIPE, ETIMEDOUT}) {
    for_seeds(100, [&](simulation& s) {
      auto [a, b] = s.stream_pair();
      a.set_multiplexer(s.seed() % 2 == 0 ? nullptr : &s.multiplexer());
      std::array<char, 4> buffer{};
      ASSERT_GT(b.write(unio::const_buffer("x", 1)).bytes_transferred(), 0u);
      s.fail("recv", 1, error);
      EXPECT_TRUE(is(a.read(unio::mutable_buffer(buffer)).error(), error));
      EXPECT_EQ(a.read(unio::mutable_buffer(buffer)).bytes_transferred(), 1u);
      s.fail("send", 1, error);
      EXPECT_TRUE(is(a.write(unio::const_buffer(buffer)).error(), error));
      EXPECT_GT(a.write(unio::const_buffer(buffer)).bytes_transferred(), 0u);
    });
  }
}

SEEDED_TEST(simulation, never_shows_an_interrupted_call, 1000) {
  auto [reader, writer] = s.pipe();
  char byte = 0;
  for (int i = 1; i != 4; ++i) s.fail("read", i, EINTR);
  ASSERT_EQ(writer.write(unio::const_buffer("x", 1)).bytes_transferred(), 1u);
  EXPECT_EQ(reader.read(unio::mutable_buffer(&byte, 1)).bytes_transferred(), 1u);
}

TEST(simulation, completes_a_zero_copy_send_before_it_finishes_it) {
  bool apart = false;
  for_seeds(1000, [&](simulation& s) {
    auto [a, b] = s.stream_pair();
    std::vector<char> const data(1000);
    std::array<unio::const_buffer, 2> const parts = {unio::const_buffer(data.data(), 300),
                                                     unio::const_buffer(data.data() + 300, 700)};
    bool const gathers = s.seed() % 2 == 0;
    started op{async_send_zero_copy(
        a, gathers ? unio::const_buffers(parts) : unio::const_buffers(unio::const_buffer(data)))};
    EXPECT_TRUE(run_until(s, [&] {
      apart = apart || (op.values == 1 && op.ends == 0);
      if (op.values == 1 && s.seed() % 3 == 0) op.cancel(); // changes nothing any more
      return op.ended();
    }));
    expect_ended_once(op);
    EXPECT_FALSE(op.error);
    EXPECT_GT(op.bytes, 0u);
  });
  EXPECT_TRUE(apart || std::getenv("UNIO_SEED") != nullptr);
}

SEEDED_TEST(simulation, shuts_a_direction_down_behind_what_was_written, 1000) {
  auto [a, b] = s.stream_pair();
  ASSERT_EQ(a.write(unio::const_buffer("x", 1)).bytes_transferred(), 1u);
  bool const fails = s.seed() % 4 == 0;
  if (fails) s.fail("shutdown", 1, ENOTCONN);
  started op{unio::async_shutdown(a, unio::socket_side::send)};
  EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
  expect_ended_once(op);
  EXPECT_EQ(op.error.value(), fails ? ENOTCONN : 0);
  if (fails) return;
  char byte = 0;
  EXPECT_EQ(b.read(unio::mutable_buffer(&byte, 1)).bytes_transferred(), 1u);
  EXPECT_EQ(b.read(unio::mutable_buffer(&byte, 1)).bytes_transferred(), 0u);
  EXPECT_EQ(a.write(unio::const_buffer("x", 1)).error().value(), EPIPE);
}

SEEDED_TEST(simulation, accepts_many_until_it_is_cancelled, 1000) {
  auto listener = s.listener();
  std::vector<unio::socket_handle> clients;
  if (s.seed() % 4 == 0) s.fail("accept4", 2, EMFILE);
  started op{async_accept_many(listener)};
  for (int i = 0; i != 10; ++i) {
    clients.push_back(s.connect_to(listener));
    (void)s.multiplexer().try_run();
  }
  EXPECT_TRUE(run_until(s, [&] { return op.accepted.size() == clients.size(); }));
  op.cancel();
  EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
  EXPECT_EQ(op.error, condition::canceled);
  EXPECT_EQ(op.ends, 1);
  for (std::size_t i = 0; i != clients.size(); ++i) {
    ASSERT_GT(clients[i].write(unio::const_buffer("x", 1)).bytes_transferred(), 0u);
    char byte = 0;
    EXPECT_EQ(op.accepted[i].read(unio::mutable_buffer(&byte, 1)).bytes_transferred(), 1u);
  }
}

} // namespace
