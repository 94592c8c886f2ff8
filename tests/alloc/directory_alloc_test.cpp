// Listing a directory, asking for metadata and opening allocate nothing, however many entries there are.

#include "alloc/counting.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

TEST(directory, allocates_nothing_per_entry) {
  test::temporary_directory const directory;
  for (int i = 0; i != 500; ++i) directory.write("entry-" + std::to_string(i), "");
  auto const m = unio::io_multiplexer::best_available(1).value();
  std::vector<std::byte> memory(4096);
  unio::path_handle in = unio::path_handle::path(directory.path()).value();
  for (unio::io_multiplexer* const on : {static_cast<unio::io_multiplexer*>(nullptr), m.get()}) {
    in.set_multiplexer(on);
    std::uint64_t allocations = 0;
    int seen = 0;
    bool fine = true;
    for (int round = 0; round != 10; ++round) {
      std::uint64_t const before = test::costs_so_far().allocations;
      auto listed = unio::detail::blocking(unio::async_open_directory(in, "."));
      fine = fine && listed.has_value();
      listed->set_multiplexer(on);
      for (bool at_end = false; !at_end && fine;) {
        auto const listing = listed->read(memory);
        fine = fine && listing.has_value();
        for (unio::directory_entry const e : *listing) {
          fine = fine && unio::stat(in, e.c_str()).has_value();
          ++seen;
        }
        at_end = listing->at_end();
      }
      if (round >= 3) allocations += test::costs_so_far().allocations - before; // once warm
    }
    EXPECT_TRUE(fine);
    EXPECT_EQ(seen, 5000);
    EXPECT_EQ(allocations, 0U) << (on != nullptr ? "on a multiplexer" : "blocking");
  }
}

} // namespace
