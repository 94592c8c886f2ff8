// sys/clone_extents.hpp: the ladder, each of its rungs, holes, and what ends a copy.

#include "sys/clone_extents.hpp"

#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/fs.h>

#include <tuple>

namespace {

using unio::sys::copy_extents;
using unio::sys::copy_rung;
using unio::sys::extents_copy;
using namespace test;

class clone_extents : public ::testing::Test {
 protected:
  clone_extents()
      : from(::open((directory / "from").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)),
        to(::open((directory / "to").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {}
  ~clone_extents() override {
    ::close(from);
    ::close(to);
  }
  static void write(int fd, std::string const& text, off_t at) {
    ASSERT_EQ(::pwrite(fd, text.data(), text.size(), at), static_cast<ssize_t>(text.size()));
  }
  static std::string text(int fd) {
    struct stat s{};
    EXPECT_EQ(::fstat(fd, &s), 0);
    std::string all(static_cast<std::size_t>(s.st_size), '?');
    EXPECT_EQ(::pread(fd, all.data(), all.size(), 0), s.st_size);
    return all;
  }
  extents_copy whole() const { return {.from = from, .to = to, .to_is_empty = true}; }
  // The rungs above `r` refused, as by filesystems that do not have them.
  static void refuse_above(test::failing_calls& calls, copy_rung r) {
    if (r > copy_rung::cloned) calls.fail<&table::ioctl>(EOPNOTSUPP, {.times = test::which_calls::all});
    if (r > copy_rung::in_kernel)
      calls.fail<&table::copy_file_range>(EXDEV, {.times = test::which_calls::all});
  }

  test::temporary_directory directory;
  int from;
  int to;
};

TEST_F(clone_extents, each_rung_copies_all_bytes) {
  std::string data(3000000, 'x');
  for (std::size_t i = 0; i != data.size(); ++i) data[i] = static_cast<char>(i * i >> 7);
  write(from, data, 0);
  for (copy_rung const r : {copy_rung::in_kernel, copy_rung::buffered}) {
    test::failing_calls calls;
    refuse_above(calls, r);
    ASSERT_EQ(::ftruncate(to, 0), 0);
    extents_copy c = whole();
    ASSERT_EQ(copy_extents(c), 0);
    EXPECT_EQ(c.rung, r);
    EXPECT_EQ(c.copied, 3000000);
    EXPECT_TRUE(text(to) == data);
  }
}

TEST_F(clone_extents, holes_are_kept_and_made) {
  write(from, "head", 0);
  write(from, "middle", 1 << 20);
  ASSERT_EQ(::ftruncate(from, 3 << 20), 0);
  for (bool const is_empty : {true, false}) {
    ASSERT_EQ(::ftruncate(to, 0), 0);
    if (!is_empty) write(to, std::string(2 << 20, 'o'), 0);
    extents_copy c = whole();
    c.to_is_empty = is_empty;
    ASSERT_EQ(copy_extents(c), 0);
    EXPECT_EQ(c.copied, 3 << 20);
    EXPECT_TRUE(text(to) == text(from));
    EXPECT_TRUE(c.rung == copy_rung::cloned || c.holes > 2 << 20);
    struct stat a{};
    struct stat b{};
    ::fstat(from, &a);
    ::fstat(to, &b);
    EXPECT_EQ(a.st_size, b.st_size);
    if (a.st_blocks < 3 << 11) {
      EXPECT_LE(b.st_blocks, a.st_blocks + 16);
    }
  }
}

TEST_F(clone_extents, a_hole_is_written_where_none_can_be_made) {
  ASSERT_EQ(::ftruncate(from, 100000), 0);
  write(to, std::string(100000, 'o'), 0);
  test::failing_calls calls;
  refuse_above(calls, copy_rung::in_kernel);
  calls.fail<&table::fallocate>(EOPNOTSUPP, {.times = test::which_calls::all});
  extents_copy c{.from = from, .to = to};
  ASSERT_EQ(copy_extents(c), 0);
  EXPECT_TRUE(text(to) == std::string(100000, '\0'));
}

TEST_F(clone_extents, an_error_of_the_disk_ends_it_on_every_rung) {
  write(from, std::string(10000, 'x'), 0);
  for (int const error : {EIO, ENOSPC, EDQUOT, EFBIG}) {
    test::failing_calls calls;
    calls.fail<&table::ioctl>(error);
    extents_copy c = whole();
    EXPECT_EQ(copy_extents(c), -error);
    refuse_above(calls, copy_rung::in_kernel);
    calls.fail<&table::copy_file_range>(error);
    c = whole();
    EXPECT_EQ(copy_extents(c), -error);
    refuse_above(calls, copy_rung::buffered);
    calls.fail<&table::pwritev2>(error);
    c = whole();
    EXPECT_EQ(copy_extents(c), -error);
    EXPECT_EQ(calls.failures<&table::pwritev2>(), 1);
    EXPECT_EQ(c.copied, 0);
  }
  EXPECT_EQ(text(to), "");
}

TEST_F(clone_extents, a_copy_in_the_kernel_that_moves_nothing_is_read_instead) {
  write(from, std::string(10000, 'x'), 0);
  test::failing_calls calls;
  refuse_above(calls, copy_rung::in_kernel);
  calls.answer<&table::copy_file_range>([](int, std::int64_t*, int, std::int64_t*, std::size_t,
                                           unsigned) noexcept -> std::int64_t { return 0; });
  extents_copy c = whole();
  ASSERT_EQ(copy_extents(c), 0);
  EXPECT_EQ(c.rung, copy_rung::buffered);
  EXPECT_TRUE(text(to) == text(from));
}

TEST_F(clone_extents, a_file_of_procfs_is_read_to_its_end) {
  int const status = ::open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  extents_copy c = whole();
  c.from = status;
  EXPECT_EQ(copy_extents(c), 0);
  ::close(status);
  EXPECT_NE(text(to).find("Name:"), std::string::npos);
}

TEST_F(clone_extents, overlapping_ranges_of_one_file_are_copied_as_if_read_first) {
  for (auto const& [a, b] : {std::tuple(0, 1000), std::tuple(1000, 0), std::tuple(300, 300)}) {
    std::string expected(1500000, ' ');
    for (std::size_t i = 0; i != expected.size(); ++i) expected[i] = static_cast<char>(i >> 3);
    ASSERT_EQ(::ftruncate(from, 0), 0);
    write(from, expected, 0);
    extents_copy c{.from = from, .to = from, .from_at = a, .to_at = b, .bytes = 1200000};
    c.progress = [](void*, std::int64_t n) { return n == 1200000 ? -ECANCELED : -EIO; }; // at the end
    ASSERT_EQ(copy_extents(c), -ECANCELED);
    EXPECT_EQ(c.copied, 1200000);
    std::string const moved = expected.substr(static_cast<std::size_t>(a), 1200000);
    expected.replace(static_cast<std::size_t>(b), moved.size(), moved);
    EXPECT_TRUE(text(from) == expected);
  }
}

TEST_F(clone_extents, its_caller_can_end_it_between_two_pieces) {
  write(from, std::string(3000000, 'x'), 0);
  test::failing_calls calls;
  refuse_above(calls, copy_rung::buffered);
  int pieces = 0;
  extents_copy c = whole();
  c.context = &pieces;
  c.progress = [](void* n, std::int64_t) { return ++*static_cast<int*>(n) == 2 ? -ECANCELED : 0; };
  EXPECT_EQ(copy_extents(c), -ECANCELED);
  EXPECT_EQ(pieces, 2);
  EXPECT_EQ(static_cast<std::size_t>(c.copied), text(to).size());
}

TEST_F(clone_extents, what_does_not_work_between_two_filesystems_is_tried_once) {
  write(from, std::string(10000, 'x'), 0);
  unio::sys::copy_hints hints;
  test::failing_calls calls;
  refuse_above(calls, copy_rung::buffered);
  for (int i = 0; i != 3; ++i) {
    ASSERT_EQ(::ftruncate(to, 0), 0);
    extents_copy c = whole();
    c.hints = &hints;
    ASSERT_EQ(copy_extents(c), 0);
  }
  EXPECT_EQ(calls.count<&table::ioctl>(), 1);
  EXPECT_EQ(calls.count<&table::copy_file_range>(), 1);
}

TEST_F(clone_extents, a_part_is_copied_to_where_it_was_asked_for) {
  write(from, "0123456789", 0);
  write(to, "abcdefghij", 0);
  extents_copy c{.from = from, .to = to, .from_at = 2, .to_at = 5, .bytes = 3};
  ASSERT_EQ(copy_extents(c), 0);
  EXPECT_EQ(text(to), "abcde234ij");
  c = {.from = from, .to = to, .from_at = 8, .to_at = 12, .bytes = 100};
  ASSERT_EQ(copy_extents(c), 0);
  EXPECT_EQ(text(to), std::string("abcde234ij\0\0"
                                  "89",
                                  14));
}

} // namespace
