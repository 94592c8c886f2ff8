// No allocation and no lock of a generator's, once warm: neither for its frame nor for an item.

#include "alloc/counting.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

generator<int> below(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
async_generator<int> waiting_below(int n) {
  for (int i = 0; i < n; ++i) {
    if (i % 16 == 0) (co_await unio::co_no_op()).value();
    co_yield i;
  }
}

TEST(generator_costs, are_nothing_once_warm) {
  long long sum = 0;
  costs before;
  for (int round = 0; round != 200; ++round) {
    if (round == 100) before = test::costs_so_far();
    for (int const i : below(100)) sum += i;
  }
  EXPECT_EQ(test::costs_so_far() - before, costs{});
  EXPECT_EQ(sum, 200 * 4950);
}

task<long long> consume(int rounds, costs& spent) {
  long long sum = 0;
  costs before;
  for (int round = 0; round != 2 * rounds; ++round) {
    if (round == rounds) before = test::costs_so_far();
    async_generator<int> g = waiting_below(100);
    while (int const* i = co_await g.co_next()) sum += *i;
  }
  spent = test::costs_so_far() - before;
  co_return sum;
}

TEST(async_generator_costs, are_nothing_once_warm) {
  costs spent{1, 1};
  EXPECT_EQ(unio::run(consume(100, spent)), 200 * 4950);
  EXPECT_EQ(spent, costs{});
}

} // namespace
