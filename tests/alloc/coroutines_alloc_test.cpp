// Coroutines cost no allocation and no lock once they are warm: run, async_run, run_on, awaited operations,
// nested tasks.

#include "alloc/counting.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

constexpr int warm_up = 300, measured = 1000;

task<int> nested(int depth) {
  if (depth == 0) co_return 1;
  int const below = co_await nested(depth - 1);
  co_return below + 1;
}

template <class Round> void expect_free(Round round) {
  for (int i = 0; i < warm_up; ++i) round();
  costs const before = test::costs_so_far();
  for (int i = 0; i < measured; ++i) round();
  EXPECT_EQ(test::costs_so_far() - before, costs{});
}

TEST(coroutines, run_costs_nothing) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  expect_free([&] { EXPECT_EQ(unio::run(*m, nested(20)), 21); });
  auto waits = []() -> task<> { (void)co_await unio::co_no_op(); };
  expect_free([&] { unio::run(*m, waits()); });
}

TEST(coroutines, running_an_operation_costs_nothing) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  expect_free([&] { (void)unio::run(*m, unio::co_no_op()); });
  expect_free([&] { (void)unio::run(*m, unio::when_all(nested(1), unio::co_no_op())); });
}

TEST(coroutines, async_run_costs_nothing) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  int told = 0;
  auto handler = [&told](unio::task_outcome<int> const& o) { told += *o; };
  expect_free([&] {
    unio::async_run(*m, nested(3), handler);
    unio::async_run(*m, nested(3));
    (void)m->run();
  });
  EXPECT_EQ(told, 4 * (warm_up + measured));
}

TEST(coroutines, awaited_operations_with_a_stop_cost_nothing) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  auto pipe = unio::pipe_handle::anonymous().value();
  pipe.reader.set_multiplexer(m.get());
  pipe.writer.set_multiplexer(m.get());
  unio::stop_source stop;
  auto ping = [](unio::anonymous_pipe& p) -> task<bool> {
    std::array<char, 4> buffer{};
    auto const w = co_await p.writer.co_write(unio::const_buffer("abc", 3));
    auto const r = co_await p.reader.co_read(unio::mutable_buffer(buffer));
    co_return w.has_value() && r.bytes_transferred() == 3;
  };
  auto waits = [](unio::anonymous_pipe& p) -> task<> {
    std::array<char, 4> buffer{};
    (void)co_await p.reader.co_read(unio::mutable_buffer(buffer));
  };
  expect_free([&] { EXPECT_TRUE(unio::run(*m, ping(pipe), {.stop = stop.get_token()})); });
  expect_free([&] {
    unio::async_run(*m, waits(pipe), {.stop = stop.get_token()});
    (void)m->try_run();
    (void)pipe.writer.try_write(unio::const_buffer("abc", 3));
    (void)m->run();
  });
}

TEST(coroutines, run_on_costs_nothing) {
  auto const here = unio::io_multiplexer::best_available(1).value();
  auto const there = unio::io_multiplexer::best_available(1).value();
  (void)there->try_run();
  auto hops = [](unio::multiplexer_executor to) -> task<int> {
    co_return co_await unio::run_on(to, nested(2));
  };
  expect_free([&] { EXPECT_EQ(unio::run(*here, hops(there->executor())), 3); });
  expect_free([&] { EXPECT_EQ(unio::run(*here, hops(here->executor())), 3); });
}

} // namespace
