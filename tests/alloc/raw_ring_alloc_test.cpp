// No allocation and no lock for an entry that the caller fills in, in each style, once warm.

#include "alloc/counting.hpp"
#include "support/coroutine.hpp"
#include "support/test.hpp"

#include <unio/extend/raw_ring.hpp>

#include <linux/io_uring.h>

namespace {

using namespace test;

struct receiver {
  void set_value(unio::io_result<unio::ring_completion>&& r) { fine = r.has_value(); }
  void set_done() {}
  bool fine = false;
};

test::coroutine await_many(unio::io_multiplexer& m, int times, bool& fine) {
  for (int i = 0; i != times; ++i) {
    auto const r = co_await unio::co_raw_ring([](io_uring_sqe& e) { e.opcode = IORING_OP_NOP; }, 10s, &m);
    fine = fine && r.has_value();
  }
}

TEST(raw_ring_costs, are_nothing_once_warm) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  // Without a ring each ends with an error, which costs nothing either.
  bool const is_ring = std::string_view(m->capabilities().driver) == "io_uring";
  auto const nothing = [](io_uring_sqe& e) { e.opcode = IORING_OP_NOP; };
  auto const rounds = [&](int times) {
    for (int i = 0; i != times; ++i) {
      EXPECT_EQ(unio::raw_ring(nothing, 10s, m.get()).has_value(), is_ring);
      auto op = unio::connect(unio::async_raw_ring(nothing, {}, m.get()), receiver{});
      op.start();
      while (!op.finished()) (void)m->run();
      EXPECT_EQ(op.receiver().fine, is_ring);
    }
  };
  rounds(100);
  costs before = test::costs_so_far();
  rounds(200);
  EXPECT_EQ(test::costs_so_far() - before, costs{}) << "blocking, connected";
  bool fine = true;
  test::coroutine c = await_many(*m, 300, fine);
  while (m->counters().finished < 700) (void)m->run();
  before = test::costs_so_far();
  while (!c.done()) (void)m->run();
  EXPECT_EQ(test::costs_so_far() - before, costs{}) << "awaited";
  EXPECT_EQ(fine, is_ring);
}

} // namespace
