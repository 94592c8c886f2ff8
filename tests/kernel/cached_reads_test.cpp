// Reads of cached files by the shortest way, which the kernel's own table of system calls alone takes: at the
// end of the file, of what has left the cache, and what fails, they are as all others.

#include "support/calls.hpp"
#include "support/direct_io.hpp"
#include "support/drivers.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using mode = unio::handle::mode;
using creation = unio::handle::creation;

constexpr std::size_t block_size = 4096;

class cached_reads : public test::on_each_driver {
 protected:
  void SetUp() override {
    on_each_driver::SetUp();
    if (IsSkipped()) return;
    directory_.write("a", std::string(block_size, 'a') + std::string(block_size, 'b') + "end");
    file_ = unio::file_handle::file(directory_.handle(), "a").value();
    file_.set_multiplexer(m_.get());
  }
  // What a read that is alone brings, or its error.
  std::string read(std::uint64_t at, std::size_t bytes = block_size, unio::deadline d = {}) {
    std::string memory(bytes, '.');
    std::vector<unio::io_result<unio::mutable_buffers>> got;
    auto one =
        unio::connect(unio::async_read(file_, {unio::mutable_buffer(memory.data(), memory.size()), at}, d),
                      test::keep{&got});
    one.start();
    while (!one.finished()) (void)m_->run();
    if (!got.at(0)) return "error " + std::to_string(got[0].error().value());
    return memory.substr(0, got[0].bytes_transferred());
  }
  // From here on an attempt is made at once, and at once again.
  void make_sure() {
    for (int i = 0; i != 8; ++i) ASSERT_EQ(read(0), std::string(block_size, 'a'));
  }

  test::temporary_directory const directory_;
  unio::file_handle file_;
};

TEST_P(cached_reads, end_where_the_file_does) {
  make_sure();
  std::uint64_t const before = m_->counters().inline_hits;
  EXPECT_EQ(read(2 * block_size), "end");
  EXPECT_EQ(read(2 * block_size + 1, 100), "nd");
  EXPECT_EQ(read(2 * block_size + 3), "");
  EXPECT_EQ(read(100 * block_size), "");
  EXPECT_EQ(read(block_size - 1, 2), "ab");
  EXPECT_EQ(m_->counters().inline_hits, before + 5) << "none needs a thread, of the kernel's or ours";
}

TEST_P(cached_reads, of_what_has_left_the_cache_are_whole) {
  make_sure();
  ASSERT_EQ(::fsync(file_.native_handle()), 0); // what is not written yet stays
  ASSERT_EQ(::posix_fadvise(file_.native_handle(), block_size, block_size, POSIX_FADV_DONTNEED), 0);
  EXPECT_EQ(read(block_size), std::string(block_size, 'b'));
  make_sure();
  ASSERT_EQ(::posix_fadvise(file_.native_handle(), block_size, block_size, POSIX_FADV_DONTNEED), 0);
  EXPECT_EQ(read(0, 3 * block_size), std::string(block_size, 'a') + std::string(block_size, 'b') + "end");
}

TEST_P(cached_reads, that_are_only_tried_bring_what_is_there) {
  make_sure();
  EXPECT_EQ(read(2 * block_size, block_size, unio::deadline::zero()), "end");
  EXPECT_EQ(read(0, block_size, unio::deadline::zero()), std::string(block_size, 'a'));
}

TEST_P(cached_reads, at_the_files_position_follow_each_other) {
  make_sure();
  EXPECT_EQ(read(unio::no_offset), std::string(block_size, 'a'));
  EXPECT_EQ(read(unio::no_offset), std::string(block_size, 'b'));
  EXPECT_EQ(read(unio::no_offset), "end");
  EXPECT_EQ(read(unio::no_offset), "");
}

TEST_P(cached_reads, at_an_offset_that_no_file_has_fail_as_preadv2_does) {
  make_sure();
  EXPECT_EQ(read(std::uint64_t{1} << 63), "error " + std::to_string(EINVAL));
}

TEST_P(cached_reads, of_many_at_once_are_whole) {
  make_sure();
  std::array<std::string, 32> memory;
  std::deque<test::started<unio::async_read>> all;
  for (std::size_t i = 0; i != memory.size(); ++i) {
    memory[i].assign(block_size, '.');
    all.emplace_back(
        unio::async_read(file_, {unio::mutable_buffer(memory[i].data(), block_size), i % 3 * block_size}));
  }
  while (!test::all_ended(all)) (void)m_->try_run_for(100ms);
  for (std::size_t i = 0; i != memory.size(); ++i) {
    std::string const wanted =
        std::array{std::string(block_size, 'a'), std::string(block_size, 'b'), std::string("end")}[i % 3];
    EXPECT_EQ(memory[i].substr(0, all[i].bytes), wanted) << i;
  }
}

// The cache has the first half of one read: the kernel's attempt moves that, and a call that may wait reads
// all of it.
TEST_P(cached_reads, of_what_is_cached_by_half_are_whole) {
  constexpr std::size_t half = std::size_t{2} << 20; // no page of the cache is larger
  directory_.write("large", std::string(half, 'a') + std::string(half, 'b'));
  file_ = unio::file_handle::file(directory_.handle(), "large").value();
  file_.set_multiplexer(m_.get());
  make_sure();
  ASSERT_EQ(::fsync(file_.native_handle()), 0);
  ASSERT_EQ(::posix_fadvise(file_.native_handle(), half, half, POSIX_FADV_DONTNEED), 0);
  if (test::cached_pages(directory_ / "large") > static_cast<std::ptrdiff_t>(half / block_size))
    GTEST_SKIP() << "the second half stays in the cache";
  EXPECT_TRUE(read(half - block_size, 2 * block_size) ==
              std::string(block_size, 'a') + std::string(block_size, 'b'));
}

UNIO_ON_BOTH_DRIVERS(cached_reads);

// A blocking call takes one system call, and no operation is made.
TEST(blocking_read_of_a_file, is_the_same_by_its_shortest_way) {
  test::temporary_directory const directory;
  directory.write("a", "text");
  auto const opened = [&](mode m) {
    return unio::file_handle::file(directory.handle(), "a", m, creation::open_existing).value();
  };
  auto const read = [](unio::file_handle& file, std::uint64_t at, std::size_t bytes) {
    std::string memory(bytes, '.');
    auto const r = file.read({unio::mutable_buffer(memory.data(), memory.size()), at});
    return r ? memory.substr(0, r.bytes_transferred()) : std::string(r.error().message());
  };
  auto const all = [&] {
    unio::file_handle file = opened(mode::read);
    unio::file_handle written = opened(mode::append);
    std::vector<std::string> told;
    for (std::uint64_t const at : {std::uint64_t{0}, std::uint64_t{2}, std::uint64_t{9}, unio::no_offset,
                                   unio::no_offset, std::uint64_t{1} << 63})
      told.push_back(read(file, at, 3));
    told.push_back(read(file, 0, 0));
    told.push_back(read(written, 0, 3));
    return told;
  };
  std::vector<std::string> const shortest = all();
  test::replaced_calls const calls; // which takes the longer one
  EXPECT_EQ(shortest, all());
  EXPECT_EQ(shortest[1], "xt");
  EXPECT_EQ(shortest[3], "tex");
  EXPECT_EQ(shortest[4], "t");
}

} // namespace
