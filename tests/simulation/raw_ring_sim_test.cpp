// An entry that only a kernel understands is refused in the simulation, by its name.

#include "simulation/support.hpp"
#include "support/test.hpp"

#include <unio/extend/raw_ring.hpp>

#include <linux/io_uring.h>

namespace {

TEST(simulated_raw_ring, is_refused_by_name) {
  for (std::uint64_t seed = 1; seed != 9; ++seed) {
    SCOPED_TRACE(seed);
    test::simulation s({.seed = seed});
    test::started op(unio::async_raw_ring([](io_uring_sqe& e) { e.opcode = IORING_OP_URING_CMD; }),
                     &s.multiplexer());
    ASSERT_TRUE(test::run_until(s, [&] { return op.ended(); }));
    EXPECT_EQ(op.error, std::errc::function_not_supported);
    EXPECT_NE(s.refused().find("io_uring's URING_CMD is not simulated"), std::string::npos) << s.refused();
    test::expect_at_rest(s);
  }
}

} // namespace
