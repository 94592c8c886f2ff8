// What a multiplexer knows of a descriptor (src/driver/descriptor_table.hpp).

#include "driver/descriptor_table.hpp"

#include "support/test.hpp"

namespace {

using namespace test;
using driver::descriptor_table;

constexpr int low = 1000;
constexpr int high = low + static_cast<int>(sys::descriptor_table_size);

TEST(descriptor_table, forgets_a_number_that_stands_for_something_else) {
  descriptor_table table;
  table.find(low)->registered = true;
  ASSERT_EQ(table.find_known(low), table.find(low));
  sys::bump_generation(low);
  EXPECT_EQ(table.find_known(low), nullptr);
  EXPECT_FALSE(table.find(low)->registered);
}

// Or epoll would never be told of the second one, and an operation on it would wait for ever.
TEST(descriptor_table, does_not_take_a_number_above_a_million_for_the_one_whose_entry_it_shares) {
  descriptor_table table;
  table.find(low)->registered = true;
  EXPECT_EQ(table.find_known(high), nullptr);
  EXPECT_FALSE(table.find(high)->registered);
  table.find(high)->registered = true;
  EXPECT_FALSE(table.find(low)->registered);
  EXPECT_NE(table.find_known(low), nullptr);
}

TEST(descriptor_table, keeps_what_is_in_flight_on_either) {
  descriptor_table table;
  auto* const op = reinterpret_cast<io_operation*>(std::uintptr_t{64}); // is not looked at
  table.find(low)->in_flight = op;
  EXPECT_EQ(table.find(high)->in_flight, op);
  EXPECT_EQ(table.find(low)->in_flight, op);
}

} // namespace
