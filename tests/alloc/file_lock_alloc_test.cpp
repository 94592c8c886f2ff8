// Locking a file and unlocking it allocates nothing, whether it has to wait or not. (It does lock a mutex:
// guards are listed for the whole process.)

#include "alloc/counting.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

TEST(file_lock, allocates_nothing) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  auto file = unio::file_handle::temp_file().value();
  auto other = unio::file_handle::file({}, file.current_path().value(), unio::handle::mode::write).value();
  for (unio::io_multiplexer* const on : {static_cast<unio::io_multiplexer*>(nullptr), m.get()}) {
    file.set_multiplexer(on);
    bool fine = true;
    std::uint64_t allocations = 0;
    for (int i = 0; i != 20; ++i) {
      std::uint64_t const before = test::costs_so_far().allocations;
      {
        auto lock = file.lock_range(0, 10, unio::lock_kind::exclusive, 10s);
        fine = fine && lock.has_value();
        unio::file_lock const moved = std::move(*lock);
        fine = fine && other.lock_file(unio::lock_kind::shared, 2ms).error() == unio::condition::timed_out;
      }
      {
        unio::file_lock const theirs = other.lock_file(unio::lock_kind::exclusive).value();
        fine = fine && file.lock_file(unio::lock_kind::shared, 2ms).error() == unio::condition::timed_out;
      }
      if (i >= 5) allocations += test::costs_so_far().allocations - before; // once warm
    }
    EXPECT_TRUE(fine);
    EXPECT_EQ(allocations, 0U) << (on != nullptr ? "on a multiplexer" : "blocking");
  }
}

} // namespace
