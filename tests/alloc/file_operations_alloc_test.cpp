// The operations on files and maps allocate nothing once a multiplexer is warm.

#include "alloc/counting.hpp"
#include "support/test.hpp"

#include <unio/map_handle.hpp>

namespace {

TEST(file_operations, allocate_nothing) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  auto file = unio::file_handle::temp_inode().value();
  auto other = unio::file_handle::temp_inode().value();
  std::string const text(10'000, 'x');
  ASSERT_TRUE(file.write({unio::const_buffer(text), 0}));
  auto map = unio::map_handle::section(file, 0, 0, unio::map_access::write).value();
  std::array<unio::file_extent, 4> found;
  for (unio::io_multiplexer* const on : {static_cast<unio::io_multiplexer*>(nullptr), m.get()}) {
    file.set_multiplexer(on);
    map.set_multiplexer(on);
    bool fine = true;
    std::uint64_t allocations = 0;
    for (int i = 0; i != 20; ++i) {
      std::uint64_t const before = test::costs_so_far().allocations;
      fine = fine && file.maximum_extent().has_value();
      fine = fine && file.truncate(9'000).has_value();
      fine = fine && file.truncate(10'000).has_value();
      fine = fine && file.allocate(0, 8192, unio::allocation::keep_size).has_value();
      fine = fine && file.advise(0, 0, unio::access_advice::will_need).has_value();
      fine = fine && file.write_back(0, 0).has_value();
      fine = fine && file.extents(found, 0).has_value();
      fine = fine && file.clone_extents_to(0, 10'000, other, 0).has_value();
      fine = fine && file.zero(4096, 100).has_value();
      fine = fine && map.advise(0, 0, unio::access_advice::will_need).has_value();
      fine = fine && map.barrier(0, 0).has_value();
      if (i >= 5) allocations += test::costs_so_far().allocations - before; // once warm
    }
    EXPECT_TRUE(fine);
    EXPECT_EQ(allocations, 0U) << (on != nullptr ? "on a multiplexer" : "blocking");
  }
}

} // namespace
