// Channels: what is sent arrives once and in order, also if tasks are stopped or destroyed. On one thread,
// and between several.

#include "coro/waiting.hpp"
#include "support/test.hpp"
#include "sys/sanitizer.hpp"

namespace {

using namespace test;

// A value that cannot be copied, and is counted.
struct parcel {
  inline static int alive = 0;
  std::unique_ptr<int> content;
  explicit parcel(int n) : content(std::make_unique<int>(n)) { ++alive; }
  parcel(parcel&& other) noexcept : content(std::move(other.content)) { ++alive; }
  parcel& operator=(parcel&&) = delete;
  ~parcel() { --alive; }
};

constexpr int stopped = -1, at_end = -2;

void expect_closed(std::error_code e) {
  EXPECT_EQ(e, std::errc::broken_pipe);
  EXPECT_EQ(e, std::error_code(EPIPE, std::system_category()));
}

task<> sends(channel<parcel>& c, int n, std::string& told) {
  unio::environment const& e = co_await unio::this_coro::environment;
  parcel p(n);
  result<void> const r = co_await c.co_send(std::move(p));
  EXPECT_TRUE(is_at_home(e));
  EXPECT_EQ(p.content == nullptr, r.has_value()) << "moved from without having been sent, or the reverse";
  if (r.has_value()) {
    told += "+" + std::to_string(n);
  } else if (r.error() == condition::canceled) {
    told += "?" + std::to_string(n);
  } else {
    expect_closed(r.error());
    told += "!" + std::to_string(n);
  }
}

task<> receives(channel<parcel>& c, std::string& told) {
  unio::environment const& e = co_await unio::this_coro::environment;
  result<parcel> const r = co_await c.co_receive();
  EXPECT_TRUE(is_at_home(e));
  if (r.has_value()) {
    told += "-" + std::to_string(*r->content);
  } else {
    EXPECT_TRUE(r.error() == condition::canceled || r.error() == condition::end_of_stream);
    told += r.error() == condition::canceled ? "?" : ".";
  }
}

struct one_channel : ::testing::Test {
  std::unique_ptr<io_multiplexer> m = make_multiplexer();
  std::string told;
  void SetUp() override {
    (void)m->try_run().value(); // this thread runs it
    parcel::alive = 0;
  }
  void TearDown() override { EXPECT_EQ(parcel::alive, 0); }
  std::string run() {
    run_posted(*m);
    return std::exchange(told, "");
  }
};

// ---- happy ------------------------------------------------------------------------------------------------

TEST_F(one_channel, keeps_values_in_order_up_to_its_capacity) {
  channel<parcel> c(2);
  EXPECT_EQ(c.capacity(), 2u);
  for (int round = 0; round != 3; ++round) {
    parcel spare(9);
    EXPECT_TRUE(c.try_send(parcel(1)).has_value());
    EXPECT_TRUE(c.try_send(parcel(2)).has_value());
    EXPECT_EQ(c.size(), 2u);
    EXPECT_EQ(c.try_send(std::move(spare)).error(), condition::would_block);
    EXPECT_NE(spare.content, nullptr); // NOLINT: still there, that is the point
    EXPECT_EQ(*c.try_receive().value().content, 1);
    EXPECT_TRUE(c.try_send(std::move(spare)).has_value());
    EXPECT_EQ(*c.try_receive().value().content, 2);
    EXPECT_EQ(*c.try_receive().value().content, 9);
    EXPECT_EQ(c.try_receive().error(), condition::would_block);
    EXPECT_EQ(c.size(), 0u);
  }
}

TEST_F(one_channel, suspends_nobody_who_need_not_wait) {
  channel<parcel> c(1);
  chain s(*m, sends(c, 1, told)), r(*m, receives(c, told));
  s.start();
  EXPECT_TRUE(s.ended());
  r.start();
  EXPECT_TRUE(r.ended());
  EXPECT_EQ(told, "+1-1");
}

TEST_F(one_channel, sends_copies_of_what_stays) {
  channel<std::string> c(4);
  std::string const line(40, 'x');
  auto body = [&]() -> task<> {
    std::string other(50, 'y');
    (co_await c.co_send(line)).value();
    (co_await c.co_send(other)).value();
    (co_await c.co_send(std::string(60, 'z'))).value(); // a temporary in the expression
    EXPECT_EQ(other, std::string(50, 'y'));
    EXPECT_TRUE(c.try_send(line).has_value());
    EXPECT_EQ(c.try_send(line).error(), condition::would_block);
  };
  chain a(*m, body());
  a.start();
  EXPECT_TRUE(a.ended());
  EXPECT_EQ(c.try_receive().value(), line);
  EXPECT_EQ(c.try_receive().value(), std::string(50, 'y'));
  EXPECT_EQ(c.try_receive().value(), std::string(60, 'z'));
  EXPECT_EQ(c.try_receive().value(), line);
}

TEST_F(one_channel, lets_senders_in_in_the_order_in_which_they_came) {
  channel<parcel> c(1);
  EXPECT_TRUE(c.try_send(parcel(0)).has_value());
  chain a(*m, sends(c, 1, told)), b(*m, sends(c, 2, told));
  a.start(), b.start();
  EXPECT_EQ(run(), "");
  EXPECT_EQ(*c.try_receive().value().content, 0);
  EXPECT_EQ(c.try_send(parcel(9)).error(), condition::would_block) << "overtook those who wait";
  EXPECT_EQ(run(), "+1");
  EXPECT_EQ(*c.try_receive().value().content, 1);
  EXPECT_EQ(run(), "+2");
  EXPECT_EQ(*c.try_receive().value().content, 2);
}

TEST_F(one_channel, serves_receivers_in_the_order_in_which_they_came) {
  channel<parcel> c(2);
  chain a(*m, receives(c, told)), b(*m, receives(c, told)), d(*m, receives(c, told));
  a.start(), b.start(), d.start();
  EXPECT_TRUE(c.try_send(parcel(1)).has_value());
  EXPECT_FALSE(a.ended()) << "resumed inside the send";
  EXPECT_EQ(c.try_receive().error(), condition::would_block) << "took what was kept for another";
  EXPECT_TRUE(c.try_send(parcel(2)).has_value());
  EXPECT_EQ(run(), "-1-2");
  EXPECT_TRUE(c.try_send(parcel(3)).has_value());
  EXPECT_EQ(run(), "-3");
}

TEST_F(one_channel, without_capacity_sends_when_somebody_receives) {
  channel<parcel> c(0);
  EXPECT_EQ(c.try_send(parcel(0)).error(), condition::would_block);
  chain a(*m, sends(c, 1, told)), b(*m, sends(c, 2, told));
  a.start(), b.start();
  EXPECT_EQ(run(), "");
  EXPECT_EQ(*c.try_receive().value().content, 1);
  EXPECT_EQ(run(), "+1");
  chain d(*m, receives(c, told)), e(*m, receives(c, told)), f(*m, receives(c, told));
  d.start();
  EXPECT_EQ(run(), "-2+2");
  e.start(), f.start();
  EXPECT_TRUE(c.try_send(parcel(3)).has_value());
  chain g(*m, sends(c, 4, told));
  g.start(); // the place is taken until e continues
  EXPECT_FALSE(g.ended());
  EXPECT_EQ(run(), "-3+4-4");
  EXPECT_EQ(c.try_send(parcel(5)).error(), condition::would_block);
}

TEST_F(one_channel, holds_values_of_any_alignment) {
  struct alignas(128) wide {
    int n;
  };
  channel<wide> c(3);
  for (int i = 0; i != 10; ++i) {
    EXPECT_TRUE(c.try_send(wide{i}).has_value());
    EXPECT_EQ(c.try_receive().value().n, i);
  }
}

TEST_F(one_channel, of_more_bytes_than_there_can_be_is_not_made) {
  if (unio::sys::is_sanitized) GTEST_SKIP() << "a sanitizer ends what asks for so much";
  struct alignas(64) wide {
    std::byte content[64];
  };
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
  for (std::size_t const capacity : {most, most / 2, most / 32, most / 64})
    EXPECT_THROW(channel<wide>{capacity}, std::bad_alloc) << capacity;
  EXPECT_THROW(channel<parcel>{most}, std::bad_alloc);
}

// ---- closing ----------------------------------------------------------------------------------------------

TEST_F(one_channel, that_is_closed_is_drained_and_takes_no_more) {
  channel<parcel> c(2);
  EXPECT_TRUE(c.try_send(parcel(1)).has_value());
  EXPECT_FALSE(c.is_closed());
  c.close(), c.close();
  EXPECT_TRUE(c.is_closed());
  parcel p(2);
  expect_closed(c.try_send(std::move(p)).error());
  EXPECT_NE(p.content, nullptr); // NOLINT
  chain s(*m, sends(c, 3, told)), r(*m, receives(c, told)), q(*m, receives(c, told));
  s.start(), r.start(), q.start();
  EXPECT_EQ(told, "!3-1.");
  EXPECT_EQ(c.try_receive().error(), condition::end_of_stream);
}

TEST_F(one_channel, closing_ends_the_waiting_of_both_sides) {
  channel<parcel> full(1), empty(1), rendezvous(0);
  EXPECT_TRUE(full.try_send(parcel(0)).has_value());
  chain a(*m, sends(full, 1, told)), b(*m, receives(empty, told)), d(*m, sends(rendezvous, 2, told));
  a.start(), b.start(), d.start();
  full.close(), empty.close(), rendezvous.close();
  EXPECT_EQ(told, "");
  EXPECT_EQ(run(), "!1.!2");
  EXPECT_EQ(*full.try_receive().value().content, 0);
}

TEST_F(one_channel, tells_the_end_only_when_nothing_can_come_back) {
  channel<parcel> c(1);
  chain a(*m, receives(c, told)), b(*m, receives(c, told));
  a.start(), b.start();
  EXPECT_TRUE(c.try_send(parcel(1)).has_value()); // kept for a
  c.close();
  a.destroy();
  EXPECT_EQ(run(), "-1");
}

TEST_F(one_channel, tells_the_end_to_those_who_waited_behind_the_last_value) {
  channel<parcel> c(1);
  chain a(*m, receives(c, told)), b(*m, receives(c, told));
  a.start(), b.start();
  EXPECT_TRUE(c.try_send(parcel(1)).has_value());
  c.close();
  EXPECT_EQ(run(), "-1.");
}

// ---- stops ------------------------------------------------------------------------------------------------

TEST_F(one_channel, does_nothing_for_those_who_come_after_a_stop) {
  channel<parcel> c(2);
  EXPECT_TRUE(c.try_send(parcel(1)).has_value());
  stop_source stop;
  stop.request_stop();
  chain s(*m, sends(c, 2, told), stop.get_token()), r(*m, receives(c, told), stop.get_token());
  s.start(), r.start();
  EXPECT_EQ(told, "?2?");
  EXPECT_EQ(c.size(), 1u);
}

TEST_F(one_channel, leaves_the_value_with_a_sender_that_was_stopped) {
  channel<parcel> c(1);
  EXPECT_TRUE(c.try_send(parcel(0)).has_value());
  stop_source stop;
  chain a(*m, sends(c, 1, told), stop.get_token()), b(*m, sends(c, 2, told));
  a.start(), b.start();
  stop.request_stop();
  EXPECT_EQ(told, "") << "resumed inside the stop";
  EXPECT_EQ(run(), "?1");
  (void)c.try_receive().value();
  EXPECT_EQ(run(), "+2");
}

TEST_F(one_channel, what_was_sent_or_received_beats_the_stop) {
  channel<parcel> c(1);
  stop_source stop;
  chain r(*m, receives(c, told), stop.get_token());
  r.start();
  EXPECT_TRUE(c.try_send(parcel(1)).has_value());
  stop.request_stop();
  EXPECT_EQ(run(), "-1");
  stop_source stop_sender;
  EXPECT_TRUE(c.try_send(parcel(2)).has_value());
  chain s(*m, sends(c, 3, told), stop_sender.get_token());
  s.start();
  (void)c.try_receive().value();
  stop_sender.request_stop();
  EXPECT_EQ(run(), "+3");
}

// ---- destruction ------------------------------------------------------------------------------------------

TEST_F(one_channel, forgets_those_who_are_destroyed_while_they_wait) {
  channel<parcel> full(1), empty(1);
  EXPECT_TRUE(full.try_send(parcel(0)).has_value());
  chain a(*m, sends(full, 1, told)), b(*m, receives(empty, told));
  a.start(), b.start();
  a.destroy(), b.destroy();
  EXPECT_EQ(*full.try_receive().value().content, 0);
  EXPECT_EQ(full.try_receive().error(), condition::would_block);
  EXPECT_TRUE(empty.try_send(parcel(5)).has_value());
  EXPECT_EQ(run(), "");
  EXPECT_EQ(*empty.try_receive().value().content, 5);
}

TEST_F(one_channel, keeps_what_was_meant_for_a_receiver_that_is_destroyed_in_its_place) {
  channel<parcel> c(2);
  chain a(*m, receives(c, told)), b(*m, receives(c, told));
  a.start(), b.start();
  EXPECT_TRUE(c.try_send(parcel(1)).has_value());
  EXPECT_TRUE(c.try_send(parcel(2)).has_value());
  chain s(*m, sends(c, 3, told));
  s.start();
  a.destroy(), b.destroy();
  EXPECT_EQ(run(), "") << "there is no more room than before";
  EXPECT_EQ(*c.try_receive().value().content, 1);
  EXPECT_EQ(*c.try_receive().value().content, 2);
  EXPECT_EQ(*c.try_receive().value().content, 3);
  EXPECT_EQ(run(), "+3");
}

TEST_F(one_channel, shows_what_was_meant_for_a_receiver_that_is_destroyed_to_who_does_not_wait) {
  channel<parcel> c(1);
  chain a(*m, receives(c, told));
  a.start();
  EXPECT_TRUE(c.try_send(parcel(1)).has_value());
  a.destroy();
  EXPECT_EQ(*c.try_receive().value().content, 1);
  EXPECT_EQ(run(), "");
}

TEST_F(one_channel, lets_nobody_take_a_senders_value_before_those_that_are_kept) {
  channel<parcel> c(1);
  chain a(*m, receives(c, told)), s(*m, sends(c, 2, told));
  a.start();
  EXPECT_TRUE(c.try_send(parcel(1)).has_value()); // kept for a
  s.start();
  EXPECT_EQ(c.try_receive().error(), condition::would_block);
  EXPECT_EQ(run(), "-1+2");
  chain b(*m, receives(c, told));
  b.start();
  EXPECT_EQ(told, "-2");
  chain d(*m, receives(c, told));
  d.start();
  EXPECT_TRUE(c.try_send(parcel(3)).has_value()); // kept for d
  c.close();
  EXPECT_EQ(c.try_receive().error(), condition::would_block) << "may still be returned";
  d.destroy();
  EXPECT_EQ(*c.try_receive().value().content, 3);
  EXPECT_EQ(c.try_receive().error(), condition::end_of_stream);
  EXPECT_EQ(run(), "-2");
}

TEST_F(one_channel, keeps_the_value_of_a_sender_that_is_destroyed_after_it_was_sent) {
  channel<parcel> c(1);
  EXPECT_TRUE(c.try_send(parcel(0)).has_value());
  chain s(*m, sends(c, 1, told));
  s.start();
  EXPECT_EQ(*c.try_receive().value().content, 0);
  s.destroy(); // before it has resumed
  EXPECT_EQ(run(), "");
  EXPECT_EQ(*c.try_receive().value().content, 1);
}

TEST_F(one_channel, gives_the_next_receiver_what_was_meant_for_one_that_is_destroyed) {
  for (std::size_t const capacity : {std::size_t(0), std::size_t(1)}) {
    channel<parcel> c(capacity);
    chain a(*m, receives(c, told)), b(*m, receives(c, told));
    a.start(), b.start();
    EXPECT_TRUE(c.try_send(parcel(1)).has_value());
    a.destroy();
    EXPECT_EQ(run(), "-1");
  }
}

TEST_F(one_channel, destroys_what_was_not_received) {
  {
    channel<parcel> c(3);
    EXPECT_TRUE(c.try_send(parcel(1)).has_value());
    (void)c.try_receive().value();
    EXPECT_TRUE(c.try_send(parcel(2)).has_value());
    EXPECT_TRUE(c.try_send(parcel(3)).has_value());
    EXPECT_TRUE(c.try_send(parcel(4)).has_value()); // around the end of the ring
    EXPECT_EQ(parcel::alive, 3);
  }
  EXPECT_EQ(parcel::alive, 0);
}

// ---- many -------------------------------------------------------------------------------------------------

class capacities : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(, capacities, ::testing::Values(0, 1, 3, 1024), ::testing::PrintToStringParamName());

TEST_P(capacities, pass_a_million_values_between_two_coroutines_in_constant_stack) {
  constexpr int n = often(1'000'000);
  auto m = make_multiplexer();
  channel<int> c(GetParam());
  std::uint64_t sum = 0;
  auto send = [&]() -> task<> {
    for (int i = 0; i != n; ++i) (co_await c.co_send(i)).value();
    c.close();
  };
  auto receive = [&]() -> task<> {
    int expected = 0;
    while (auto const r = co_await c.co_receive()) {
      EXPECT_EQ(*r, expected++);
      sum += static_cast<std::uint64_t>(*r);
    }
  };
  chain s(*m, send()), r(*m, receive());
  (void)m->try_run().value();
  r.start(), s.start();
  run_posted(*m);
  EXPECT_TRUE(s.ended() && r.ended());
  EXPECT_EQ(sum, std::uint64_t(n) * (n - 1) / 2);
}

struct item {
  int from, number;
};

task<> produces(channel<item>& c, int who, int n, std::atomic<int>& left) {
  unio::environment const& e = co_await unio::this_coro::environment;
  for (int i = 0; i != n; ++i) {
    (co_await c.co_send(item{who, i})).value();
    EXPECT_TRUE(is_at_home(e));
    if (i % 64 == 0) (void)co_await unio::co_no_op();
  }
  if (left.fetch_sub(1) == 1) c.close();
}

task<> consumes(channel<item>& c, std::atomic<std::uint64_t>& sum) {
  unio::environment const& e = co_await unio::this_coro::environment;
  std::vector<int> last(4, -1);
  while (auto const r = co_await c.co_receive()) {
    EXPECT_TRUE(is_at_home(e));
    int& l = last[static_cast<std::size_t>(r->from)];
    EXPECT_LT(l, r->number) << "out of order";
    l = r->number;
    sum += static_cast<std::uint64_t>(r->number);
  }
}

TEST_P(capacities, deliver_each_value_once_between_four_threads) {
  constexpr int n = 5000;
  channel<item> c(GetParam());
  std::atomic<int> left{2};
  std::atomic<std::uint64_t> sum{0};
  on_threads(4, [&](int i) { return i < 2 ? produces(c, i, n, left) : consumes(c, sum); });
  EXPECT_EQ(sum.load(), 2 * std::uint64_t(n) * (n - 1) / 2);
}

TEST_P(capacities, deliver_each_value_once_between_two_threads) {
  constexpr int n = 5000;
  channel<item> c(GetParam());
  std::atomic<int> left{1};
  std::atomic<std::uint64_t> sum{0};
  on_threads(2, [&](int i) { return i < 1 ? produces(c, i, n, left) : consumes(c, sum); });
  EXPECT_EQ(sum.load(), std::uint64_t(n) * (n - 1) / 2);
}

TEST_P(capacities, deliver_from_threads_that_are_no_coroutines) {
  constexpr int n = 3000;
  channel<item> c(GetParam());
  std::atomic<std::uint64_t> sum{0};
  std::jthread producer([&] {
    for (int i = 0; i != n; ++i)
      while (!c.try_send(item{0, i}).has_value()) std::this_thread::yield();
    c.close();
  });
  on_threads(2, [&](int) { return consumes(c, sum); });
  EXPECT_EQ(sum.load(), std::uint64_t(n) * (n - 1) / 2);
}

// ---- a stop against a hand-over, from two other threads ---------------------------------------------------

constexpr int races = 1500;

TEST_P(capacities, lose_no_value_to_a_receiver_that_is_stopped_meanwhile) {
  channel<std::unique_ptr<int>> c(GetParam());
  int got = 0, ended = 0;
  bool sent = false;
  race_grant_against_stop(
      races,
      [&] {
        got = stopped;
        sent = false;
      },
      [&] {
        return [](channel<std::unique_ptr<int>>& ch, int& g, int& n) -> task<> {
          auto const r = co_await ch.co_receive();
          if (r.has_value()) {
            g = **r;
          } else {
            EXPECT_EQ(r.error(), condition::canceled);
          }
          ++n;
        }(c, got, ended);
      },
      [&] { sent = c.try_send(std::make_unique<int>(7)).has_value(); },
      [&] {
        auto const rest = c.try_receive();
        EXPECT_EQ((got == 7 ? 1 : 0) + (rest.has_value() ? 1 : 0), sent ? 1 : 0);
      });
  EXPECT_EQ(ended, races);
}

TEST(channel, takes_a_value_from_a_sender_that_is_stopped_meanwhile_or_leaves_it_there) {
  channel<std::unique_ptr<int>> c(0);
  int outcome = 0, ended = 0;
  bool received = false;
  race_grant_against_stop(
      races, [&] { outcome = 0; },
      [&] {
        return [](channel<std::unique_ptr<int>>& ch, int& o, int& n) -> task<> {
          auto value = std::make_unique<int>(7);
          auto const r = co_await ch.co_send(std::move(value));
          EXPECT_EQ(value == nullptr, r.has_value());
          o = r.has_value() ? 1 : stopped;
          ++n;
        }(c, outcome, ended);
      },
      [&] { received = c.try_receive().has_value(); },
      [&] {
        EXPECT_EQ(outcome, received ? 1 : stopped);
        EXPECT_EQ(c.size(), 0u);
      });
  EXPECT_EQ(ended, races);
}

TEST(channel, closed_while_a_receiver_is_stopped_tells_it_one_of_both) {
  std::optional<channel<int>> c;
  int outcome = 0, ended = 0;
  race_grant_against_stop(
      races, [&] { c.emplace(1u); },
      [&] {
        return [](channel<int>& ch, int& o, int& n) -> task<> {
          auto const r = co_await ch.co_receive();
          EXPECT_FALSE(r.has_value());
          o = r.error() == condition::end_of_stream ? at_end : stopped;
          EXPECT_TRUE(o == at_end || r.error() == condition::canceled);
          ++n;
        }(*c, outcome, ended);
      },
      [&] { c->close(); }, [&] { EXPECT_TRUE(outcome == at_end || outcome == stopped); });
  EXPECT_EQ(ended, races);
}

} // namespace
