// Walking and removing a tree allocates nothing for a name: as much for 20 names as for 4,000.

#include "alloc/counting.hpp"
#include "fs/tree_fixture.hpp"
#include "support/test.hpp"

#include <unio/fs/reduce.hpp>
#include <unio/fs/walk.hpp>

namespace {

struct : unio::fs::walk_visitor {
  unio::fs::walk_step entry(unio::fs::walk_entry const& e) noexcept override {
    sum += e.path().size();
    return unio::fs::walk_step::go_on;
  }
  std::atomic<std::size_t> sum = 0;
} visitor;

TEST(trees, allocate_nothing_for_a_name) {
  test::quick_directory const quick;
  std::uint64_t walked[2] = {};
  std::uint64_t removed[2] = {};
  for (int const i : {0, 1}) {
    std::string const root = quick / std::to_string(i);
    test::make_bushy(root, 3, i == 0 ? 1 : 300, 2);
    std::uint64_t const a = test::costs_so_far().allocations;
    bool const has_walked = unio::fs::walk({}, root, visitor).has_value();
    std::uint64_t const b = test::costs_so_far().allocations;
    bool const is_gone = unio::fs::reduce({}, root)->is_gone;
    std::uint64_t const c = test::costs_so_far().allocations;
    EXPECT_TRUE(has_walked && is_gone);
    walked[i] = b - a;
    removed[i] = c - b;
  }
  EXPECT_LT(walked[0], 12U);
  EXPECT_LE(walked[1],
            walked[0] + 8); // a chunk for each thread that helps, which may be fewer the first time
  EXPECT_LE(removed[1], removed[0] + 8);
}

} // namespace
