// unio/when.hpp: when_all, when_all_outcomes, when_all_succeed, when_any and race, of tasks, other awaitables
// and ranges.

#include "coro/waiting.hpp"
#include "support/other_thread.hpp"
#include "support/tasks.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

std::error_code const canceled(ECANCELED, std::system_category());

task<> nothing_later() { (co_await co_no_op()).value(); }
task<int> throws_later(char const* what) {
  (co_await co_no_op()).value();
  throw std::runtime_error(what);
}
// Says whether it was asked to stop.
task<bool> was_stopped() {
  auto const r = co_await co_sleep(1h);
  co_return r.error() == condition::canceled;
}

TASK_TEST(when_all, yields_the_values_in_the_order_of_its_arguments) {
  auto const me = std::this_thread::get_id();
  auto [a, b, c] = co_await when_all(later(1), ready(2), later(3));
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 2);
  EXPECT_EQ(c, 3);
  EXPECT_EQ(std::this_thread::get_id(), me);
}

task<> note(std::string& order, char c, bool waits) {
  order += c;
  if (waits) (co_await co_no_op()).value();
  order += static_cast<char>(c - 'a' + 'A');
}

TEST(when_all, starts_them_in_order_each_until_it_suspends) {
  std::string order;
  run([](std::string& o) -> task<> {
    co_await when_all(note(o, 'a', true), note(o, 'b', false), note(o, 'c', true));
  }(order));
  EXPECT_EQ(order.substr(0, 4), "abBc");
  EXPECT_EQ(order.size(), 6u);
}

task<> is_passed(std::shared_ptr<int>) { co_return; }
task<> looks_at(std::shared_ptr<int> const& p, long& users) {
  co_await co_yield_now();
  users = p.use_count();
}

TASK_TEST(when_all, keeps_what_a_task_was_passed_until_all_have_ended) {
  auto const passed = std::make_shared<int>();
  long users = 0;
  co_await when_all(is_passed(passed), looks_at(passed, users));
  EXPECT_EQ(users, 2);
  EXPECT_EQ(passed.use_count(), 1);
  task_group group(co_await this_coro::environment);
  group.start(is_passed(passed));
  EXPECT_EQ(passed.use_count(), 1) << "which a group does not keep";
  (void)co_await group.co_join();
}

TASK_TEST(when_all, leaves_out_what_yields_nothing) {
  auto const all = co_await when_all(nothing_later(), ready(1), nothing_later());
  static_assert(std::is_same_v<decltype(all), std::tuple<int> const>);
  EXPECT_EQ(std::get<0>(all), 1);
  co_await when_all(nothing_later(), nothing_later());
}

TASK_TEST(when_all, takes_other_awaitables_and_references) {
  int x = 7;
  auto refer = [](int& i) -> task<int&> { co_return i; };
  auto [slept, ref] = co_await when_all(co_sleep(1us), refer(x));
  static_assert(std::is_same_v<decltype(slept), io_result<void>>);
  EXPECT_TRUE(slept.has_value());
  EXPECT_EQ(&ref, &x);
}

TASK_TEST(when_all, moves_values_that_cannot_be_copied) {
  auto make = [](int i) -> task<std::unique_ptr<int>> { co_return std::make_unique<int>(i); };
  auto [a, b] = co_await when_all(make(1), make(2));
  EXPECT_EQ(*a + *b, 3);
}

TASK_TEST(when_all, of_nothing_goes_on_at_once) {
  co_await when_all();
  std::vector<task<int>> none;
  auto const values = co_await when_all(none);
  EXPECT_TRUE(values.begin() == values.end());
}

TASK_TEST(when_all, of_a_range_yields_its_values_in_order) {
  std::vector<task<int>> tasks;
  for (int i = 0; i != 100; ++i) tasks.push_back(i % 2 == 0 ? ready(i) : later(i));
  auto const values = co_await when_all(tasks);
  std::vector<int> const all(values.begin(), values.end());
  EXPECT_EQ(all.size(), 100u);
  for (int i = 0; i != 100; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
  std::vector<task<>> voids;
  voids.push_back(nothing_later());
  co_await when_all(std::span(voids));
}

TASK_TEST(when_all, nests) {
  auto [a, b] = co_await when_all(when_all(later(1), later(2)), when_all(ready(3)));
  EXPECT_EQ(std::get<0>(a) + std::get<1>(a) + std::get<0>(b), 6);
}

TASK_TEST(when_all, runs_in_constant_stack) {
  for (int i = 0; i != 200'000; ++i) {
    auto [a, b] = co_await when_all(ready(1), ready(2));
    if (a + b != 3) std::abort();
  }
}

TASK_TEST(when_all, throws_the_first_exception_after_all_have_ended) {
  bool stopped = false;
  auto watch = [](bool& s) -> task<> { s = co_await was_stopped(); };
  std::string what;
  try {
    co_await when_all(watch(stopped), throws_later("first"), throws_later("second"));
  } catch (std::runtime_error const& e) {
    what = e.what();
  }
  EXPECT_EQ(what, "first");
  EXPECT_TRUE(stopped);
}

TASK_TEST(when_all, of_a_range_throws_the_first_exception) {
  std::vector<task<int>> tasks;
  tasks.push_back(later(1));
  tasks.push_back(throws_later("first"));
  bool thrown = false;
  try {
    (void)co_await when_all(tasks);
  } catch (std::runtime_error const&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
  EXPECT_EQ(take_outcome(tasks[0]).value(), 1);
}

TASK_TEST(when_all_outcomes, has_every_exception_and_stops_nobody) {
  auto [a, b, c] = co_await when_all_outcomes(throws_later("x"), later(2), throws_later("y"));
  EXPECT_FALSE(a.has_value());
  EXPECT_EQ(b.value(), 2);
  EXPECT_FALSE(c.has_value());
}

TEST(when_all, passes_a_stop_on_to_all) {
  stop_source stop;
  run(
      [](stop_source& s) -> task<> {
        auto const me = std::this_thread::get_id();
        auto [a, b] = co_await when_all(was_stopped(), was_stopped(), asks_to_stop(s));
        EXPECT_TRUE(a && b);
        EXPECT_EQ(std::this_thread::get_id(), me);
        auto [c] = co_await when_all(was_stopped()); // requested already
        EXPECT_TRUE(c);
      }(stop),
      {.stop = stop.get_token()});
}

TEST(when_all, is_stopped_from_another_thread_at_any_moment) {
  for (int i = 0; i != 300; ++i) {
    stop_source stop;
    std::thread other([&] { stop.request_stop(); });
    run(
        []() -> task<> {
          auto [a, b] = co_await when_all(was_stopped(), was_stopped());
          EXPECT_TRUE(a && b);
        }(),
        {.stop = stop.get_token()});
    other.join();
  }
}

task<> holds(std::atomic<int>& alive, int& ended) {
  test::counted const here(alive);
  (void)co_await co_sleep(1h);
  ++ended;
}

TEST(when_all, that_is_destroyed_destroys_its_children) {
  std::atomic<int> alive = 0;
  int ended = 0;
  {
    auto waits = [](std::atomic<int>& a, int& e) -> task<> {
      co_await when_all(holds(a, e), holds(a, e), holds(a, e));
    };
    test::chain s(this_thread::multiplexer(), waits(alive, ended));
    s.start();
    EXPECT_EQ(alive, 3);
  }
  EXPECT_EQ(alive, 0);
  {
    auto waits = [](std::atomic<int>& a, int& e) -> task<> {
      std::vector<task<>> tasks;
      for (int i = 0; i != 3; ++i) tasks.push_back(holds(a, e));
      co_await when_all(tasks);
    };
    test::chain s(this_thread::multiplexer(), waits(alive, ended));
    s.start();
    EXPECT_EQ(alive, 3);
  }
  EXPECT_EQ(alive, 0);
  {
    auto const never = when_all(holds(alive, ended), holds(alive, ended));
    (void)never;
  }
  EXPECT_EQ(alive, 0);
}

TASK_TEST(when_any, yields_the_first_that_succeeds_and_stops_the_others) {
  auto r = co_await when_any(was_stopped(), later(2));
  EXPECT_EQ(r.index, 1u);
  EXPECT_EQ(std::get<1>(r.outcomes).value(), 2);
  EXPECT_TRUE(std::get<0>(r.outcomes).value()); // it was asked to stop, and waited for
  auto same = co_await when_any(later(1), ready(5));
  EXPECT_EQ(same.index, 1u);
  EXPECT_EQ(same.value(), 5);
  EXPECT_EQ(same.visit([](int i) { return i + 1; }), 6);
  auto none = co_await when_any(nothing_later());
  EXPECT_EQ(none.index, 0u);
  EXPECT_EQ(none.visit([] { return 4; }), 4);
}

task<result<int>> fails(std::error_code e) {
  (co_await co_no_op()).value();
  co_return e;
}
task<result<int>> succeeds_late(int i) {
  for (int n = 0; n != 5; ++n) (co_await co_no_op()).value();
  co_return i;
}

task<result<>> ends_well() {
  (co_await co_no_op()).value();
  co_return {};
}
task<result<>> sleeps_until_stopped(bool& stopped) {
  auto const r = co_await co_sleep(1h);
  stopped = r.error() == condition::canceled;
  co_return r;
}
std::error_code const broken = std::make_error_code(std::errc::io_error);
task<result<>> ends_badly() {
  (co_await co_no_op()).value();
  co_return broken;
}

TASK_TEST(when_all_succeed, yields_the_values_in_the_results) {
  auto const all = co_await when_all_succeed(succeeds_late(1), later(2), ends_well(), nothing_later());
  static_assert(std::is_same_v<decltype(all), result<std::tuple<int, int>> const>);
  EXPECT_EQ(all.value(), std::tuple(1, 2));
  result<void> const voids = co_await when_all_succeed(ends_well(), nothing_later(), co_sleep(1us));
  EXPECT_TRUE(voids.has_value());
  result<void> const none = co_await when_all_succeed();
  EXPECT_TRUE(none.has_value());
}

TASK_TEST(when_all_succeed, moves_values_that_cannot_be_copied_and_keeps_references) {
  int x = 7;
  auto refer = [](int& i) -> task<int&> { co_return i; };
  auto make = [](int i) -> task<result<std::unique_ptr<int>>> { co_return std::make_unique<int>(i); };
  auto all = co_await when_all_succeed(make(1), refer(x), make(2));
  auto [a, ref, b] = std::move(all).value();
  EXPECT_EQ(*a + *b, 3);
  EXPECT_EQ(&ref, &x);
}

TASK_TEST(when_all_succeed, stops_the_others_at_the_first_error_and_waits_for_them) {
  bool stopped = false;
  auto const r = co_await when_all_succeed(sleeps_until_stopped(stopped), fails(broken), later(1));
  static_assert(std::is_same_v<decltype(r), result<std::tuple<int, int>> const>);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(r.error(), broken);
  stopped = false;
  auto const voids = co_await when_all_succeed(sleeps_until_stopped(stopped), timeout(1us, co_sleep(1h)));
  EXPECT_TRUE(stopped);
  EXPECT_EQ(voids.error(), condition::timed_out);
}

TASK_TEST(when_all_succeed, takes_another_expected_whose_error_is_a_code) {
  auto fails_as = [](std::errc e) -> task<std::expected<int, std::error_code>> {
    co_return std::unexpected(std::make_error_code(e));
  };
  auto const r = co_await when_all_succeed(later(1), fails_as(std::errc::io_error));
  EXPECT_EQ(r.error(), broken);
}

TASK_TEST(when_all_succeed, throws_the_first_failure_if_it_is_an_exception_and_drops_later_ones) {
  bool stopped = false;
  std::string what;
  try {
    (void)co_await when_all_succeed(sleeps_until_stopped(stopped), throws_later("first"), fails(broken),
                                    throws_later("second"));
  } catch (std::runtime_error const& e) {
    what = e.what();
  }
  EXPECT_EQ(what, "first");
  EXPECT_TRUE(stopped);
  auto const r = co_await when_all_succeed(fails(broken), fails(canceled), throws_later("later"));
  EXPECT_EQ(r.error(), broken);
}

TASK_TEST(when_all_succeed, of_a_range_yields_the_values_in_order) {
  std::vector<task<result<int>>> tasks;
  for (int i = 0; i != 50; ++i) tasks.push_back(succeeds_late(i));
  auto const values = co_await when_all_succeed(tasks);
  EXPECT_TRUE(values.has_value());
  std::vector<int> const all(values->begin(), values->end());
  EXPECT_EQ(all.size(), 50u);
  for (int i = 0; i != 50; ++i) EXPECT_EQ(all[static_cast<std::size_t>(i)], i);
  std::vector<task<int>> plain;
  plain.push_back(later(4));
  auto const one = co_await when_all_succeed(std::span(plain));
  EXPECT_EQ(*one->begin(), 4);
  std::vector<task<result<>>> voids;
  voids.push_back(ends_well());
  result<void> const ended = co_await when_all_succeed(voids);
  EXPECT_TRUE(ended.has_value());
  voids.clear();
  result<void> const none = co_await when_all_succeed(voids);
  EXPECT_TRUE(none.has_value());
}

TASK_TEST(when_all_succeed, of_a_range_leaves_what_each_yielded_in_its_task_if_one_has_failed) {
  auto counts_until_stopped = []() -> task<result<int>> {
    auto const r = co_await co_sleep(1h);
    co_return r.error() == condition::canceled ? 1 : 0;
  };
  std::vector<task<result<int>>> tasks;
  tasks.push_back(counts_until_stopped());
  tasks.push_back(fails(broken));
  auto const r = co_await when_all_succeed(tasks);
  EXPECT_EQ(r.error(), broken);
  EXPECT_EQ(take_outcome(tasks[0]).value().value(), 1);
  EXPECT_EQ(take_outcome(tasks[1]).value().error(), broken);
  tasks.clear();
  tasks.push_back(fails(canceled));
  tasks.push_back([]() -> task<result<int>> {
    throw std::runtime_error("at once");
    co_return 1;
  }());
  bool thrown = false;
  try {
    (void)co_await when_all_succeed(tasks);
  } catch (std::runtime_error const&) {
    thrown = true;
  }
  EXPECT_TRUE(thrown);
}

TEST(when_all_succeed, passes_a_stop_on_to_all) {
  stop_source stop;
  run(
      [](stop_source& s) -> task<> {
        bool a = false, b = false;
        auto const r =
            co_await when_all_succeed(sleeps_until_stopped(a), sleeps_until_stopped(b), asks_to_stop(s));
        EXPECT_TRUE(a && b);
        EXPECT_EQ(r.error(), condition::canceled);
      }(stop),
      {.stop = stop.get_token()});
}

TEST(when_all_succeed, is_stopped_from_another_thread_at_any_moment) {
  for (int i = 0; i != 300; ++i) {
    stop_source stop;
    std::thread other([&] { stop.request_stop(); });
    run(
        []() -> task<> {
          bool a = false, b = false;
          auto const r = co_await when_all_succeed(sleeps_until_stopped(a), sleeps_until_stopped(b));
          EXPECT_TRUE(a && b);
          EXPECT_EQ(r.error(), condition::canceled);
        }(),
        {.stop = stop.get_token()});
    other.join();
  }
}

TASK_TEST(when_any, passes_over_failures) {
  auto r = co_await when_any(fails(canceled), succeeds_late(3), fails(canceled));
  EXPECT_EQ(r.index, 1u);
  EXPECT_EQ(r.value().value(), 3);
  auto thrown = co_await when_any(throws_later("x"), later(3));
  EXPECT_EQ(thrown.value(), 3);
}

TASK_TEST(when_any, of_which_none_succeeds_does_as_the_first_to_fail) {
  auto r = co_await when_any(fails(canceled), fails(std::make_error_code(std::errc::io_error)));
  EXPECT_EQ(r.index, 0u);
  EXPECT_EQ(r.value().error(), condition::canceled);
  std::string what;
  try {
    (void)co_await when_any(throws_later("first"), throws_later("second"));
  } catch (std::runtime_error const& e) {
    what = e.what();
  }
  EXPECT_EQ(what, "first");
}

TASK_TEST(when_any, of_a_range_leaves_what_the_losers_did_in_their_tasks) {
  std::vector<task<int>> tasks;
  tasks.push_back(later(1));
  tasks.push_back(ready(2));
  auto const r = co_await when_any(tasks);
  EXPECT_EQ(r.index, 1u);
  EXPECT_EQ(r.value, 2);
  EXPECT_EQ(take_outcome(tasks[0]).value(), 1);
}

TEST(when_any, keeps_the_bytes_that_a_loser_has_read) {
  auto [r1, w1] = pipe_handle::anonymous().value();
  auto [r2, w2] = pipe_handle::anonymous().value();
  run([](pipe_handle& a, pipe_handle& wa, pipe_handle& b, pipe_handle& wb) -> task<> {
    std::array<char, 8> room_a{}, room_b{};
    // Both have bytes before either reader is asked to stop.
    auto both = [](pipe_handle& x, pipe_handle& y) -> task<result<int>> {
      (void)x.write(std::string_view("abc"));
      (void)y.write(std::string_view("defg"));
      co_return canceled;
    };
    auto r =
        co_await when_any(a.co_read(mutable_buffer(room_a)), b.co_read(mutable_buffer(room_b)), both(wa, wb));
    auto const& one = std::get<0>(r.outcomes).value();
    auto const& two = std::get<1>(r.outcomes).value();
    EXPECT_LT(r.index, 2u);
    for (auto* const p : {&one, &two})
      if (!p->has_value()) {
        EXPECT_EQ(p->error(), condition::canceled);
        EXPECT_EQ(p->bytes_transferred(), 0u);
      }
    // What was not read is still there.
    std::array<char, 8> rest{};
    std::size_t total = one.bytes_transferred() + two.bytes_transferred();
    for (pipe_handle* p : {&a, &b})
      if (auto const more = p->try_read(mutable_buffer(rest)); more.has_value())
        total += more.bytes_transferred();
    EXPECT_EQ(total, 7u);
  }(r1, w1, r2, w2));
}

TASK_TEST(race, is_won_by_the_first_to_end_with_or_without_success) {
  auto const lost = co_await race(was_stopped(), fails(broken));
  EXPECT_EQ(lost.index, 1u);
  EXPECT_EQ(std::get<1>(lost.outcomes).value().error(), broken);
  EXPECT_TRUE(std::get<0>(lost.outcomes).value()); // it was asked to stop, and waited for
  auto const won = co_await race(was_stopped(), later(2));
  EXPECT_EQ(won.index, 1u);
  EXPECT_EQ(std::get<1>(won.outcomes).value(), 2);
  auto const none = co_await race(nothing_later());
  EXPECT_EQ(none.index, 0u);
}

TASK_TEST(race, throws_what_the_first_to_end_has_thrown_once_all_have_ended) {
  bool stopped = false;
  std::string what;
  try {
    (void)co_await race(sleeps_until_stopped(stopped), throws_later("first"));
  } catch (std::runtime_error const& e) {
    what = e.what();
  }
  EXPECT_EQ(what, "first");
  EXPECT_TRUE(stopped);
  auto const r = co_await race(later(1), throws_later("too late"), ready(3));
  EXPECT_EQ(r.index, 2u);
  EXPECT_FALSE(std::get<1>(r.outcomes).has_value());
}

// when_any would wait for a signal that does not come.
TASK_TEST(race, ends_with_a_time_limit) {
  bool stopped = false;
  auto const r = co_await race(timeout(1ms, sleeps_until_stopped(stopped)), co_sleep(1h));
  EXPECT_EQ(r.index, 0u);
  EXPECT_TRUE(stopped);
  EXPECT_FALSE(std::get<0>(r.outcomes).value().has_value());
  EXPECT_EQ(std::get<1>(r.outcomes).value().error(), condition::canceled);
}

TASK_TEST(race, of_a_range_leaves_what_the_losers_did_in_their_tasks) {
  std::vector<task<result<>>> tasks;
  bool stopped = false;
  tasks.push_back(sleeps_until_stopped(stopped));
  tasks.push_back(ends_badly());
  auto const r = co_await race(tasks);
  EXPECT_EQ(r.index, 1u);
  EXPECT_EQ(r.value.error(), broken);
  EXPECT_TRUE(stopped);
  EXPECT_EQ(take_outcome(tasks[0]).value().error(), condition::canceled);
}

TASK_TEST(race, passes_a_stop_on) {
  bool a = false, b = false;
  auto const both = [&]() -> task<result<>> {
    co_return (co_await race(sleeps_until_stopped(a), sleeps_until_stopped(b))).value();
  };
  EXPECT_FALSE((co_await timeout(1ms, both())).has_value());
  EXPECT_TRUE(a && b);
}

} // namespace
