// No allocation and no lock of pthreads: neither for what need not wait, nor for waiting, handing over and
// being stopped.

#include "alloc/counting.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

constexpr int warm_up = 50, measured = 200;

// Runs `round` until it is warm, and then some more: what the latter cost.
template <class Round> costs costs_of(Round round) {
  costs before;
  for (int i = 0; i != warm_up + measured; ++i) {
    if (i == warm_up) before = test::costs_so_far();
    unio::run(round());
  }
  return test::costs_so_far() - before;
}

TEST(sync_costs, are_nothing_for_who_need_not_wait) {
  unio::async_mutex m;
  unio::semaphore s(3);
  unio::event e(true);
  unio::auto_reset_event a;
  unio::channel<int> c(4);
  EXPECT_EQ(costs_of([&]() -> task<> {
              auto g = co_await m.co_lock();
              EXPECT_TRUE(g.has_value());
              (co_await s.co_acquire(2)).value();
              s.release(2);
              (co_await e.co_wait()).value();
              a.set();
              (co_await a.co_wait()).value();
              unio::latch l(1);
              (co_await l.co_arrive_and_wait()).value();
              unio::rendezvous<> b(1);
              (co_await b.co_arrive_and_wait()).value();
              (co_await c.co_send(1)).value();
              EXPECT_EQ((co_await c.co_receive()).value(), 1);
            }),
            costs{});
}

task<> ends(unio::latch& done, task<> t) {
  co_await std::move(t);
  done.count_down();
}

// Two at once, and waits for both.
using body =
    std::function<task<>()>; // no template: GCC 12 loses the type of what a coroutine lambda in one captures
costs costs_of_two(body const& first, body const& second) {
  return costs_of([&]() -> task<> {
    unio::latch done(2);
    unio::io_multiplexer& m = unio::this_thread::multiplexer();
    unio::async_run(m, ends(done, first()));
    unio::async_run(m, ends(done, second()));
    (co_await done.co_wait()).value();
  });
}

TEST(sync_costs, are_nothing_for_who_waits_for_a_mutex) {
  unio::async_mutex m;
  auto const turns = [&]() -> task<> {
    for (int i = 0; i != 20; ++i) {
      auto g = co_await m.co_lock();
      EXPECT_TRUE(g.has_value());
      (void)co_await unio::co_no_op();
    }
  };
  EXPECT_EQ(costs_of_two(turns, turns), costs{});
}

TEST(sync_costs, are_nothing_for_what_goes_through_a_channel) {
  for (std::size_t const capacity : {std::size_t(0), std::size_t(1), std::size_t(8)}) {
    unio::channel<int> c(capacity);
    EXPECT_EQ(costs_of_two(
                  [&]() -> task<> {
                    for (int i = 0; i != 50; ++i) (co_await c.co_send(i)).value();
                  },
                  [&]() -> task<> {
                    for (int i = 0; i != 50; ++i) EXPECT_EQ((co_await c.co_receive()).value(), i);
                  }),
              costs{});
  }
}

TEST(sync_costs, are_nothing_for_who_is_stopped) {
  unio::event never;
  unio::channel<int> c(1);
  costs before;
  for (int i = 0; i != warm_up + measured; ++i) {
    if (i == warm_up) before = test::costs_so_far();
    unio::stop_source stop;
    unio::latch done(2);
    unio::io_multiplexer& m = unio::this_thread::multiplexer();
    auto const first = [&]() -> task<> { EXPECT_FALSE((co_await never.co_wait()).has_value()); };
    auto const second = [&]() -> task<> { EXPECT_FALSE((co_await c.co_receive()).has_value()); };
    unio::async_run(m, ends(done, first()), {.stop = stop.get_token()});
    unio::async_run(m, ends(done, second()), {.stop = stop.get_token()});
    auto const all = [&]() -> task<> {
      (void)co_await unio::co_no_op(); // they wait now
      stop.request_stop();
      (co_await done.co_wait()).value();
    };
    unio::run(all());
  }
  EXPECT_EQ(test::costs_so_far() - before, costs{});
}

TEST(sync_costs, of_a_channel_are_one_allocation_when_it_is_made) {
  costs const before = test::costs_so_far();
  {
    unio::channel<std::unique_ptr<int>> const c(100);
  }
  EXPECT_EQ(test::costs_so_far() - before, (costs{1, 0}));
}

} // namespace
