// unio/fs/compare.hpp: what is not compared is never taken for equal. That differences are found is in
// copy_test.cpp, which compares each copy.

#include "fs/tree_fixture.hpp"
#include "support/failing_calls.hpp"
#include "support/test.hpp"

#include <unio/fs/compare.hpp>

#include <sys/mount.h>

namespace {

using namespace unio::fs;

class compare_ : public ::testing::Test {
 protected:
  compare_() {
    for (auto const* tree : {"a", "b"}) test::make_bushy(directory / tree, 2, 1, 1);
  }
  unio::result<compare_report> compared(tree_options const& o) const {
    return compare(directory.handle(), "a", directory.handle(), "b", nullptr, {o, difference::contents});
  }

  test::temporary_directory directory;
};

TEST_F(compare_, names_the_mounts_that_it_leaves_alone) {
  for (auto const* mounted : {"a/dir0", "b/dir0"}) {
    SCOPED_TRACE(mounted);
    std::string const at = directory / mounted;
    if (::mount("none", at.c_str(), "tmpfs", 0, "size=64k") != 0)
      GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
    test::make_file(at + "/precious", "text");
    auto const r = compared({});
    auto const across = compared({.cross_mounts = true});
    ::umount(at.c_str());
    ASSERT_TRUE(r && across);
    EXPECT_EQ(r->differences, 0U);
    ASSERT_EQ(r->failures.count(), 1U) << "the trees are taken to be the same";
    EXPECT_EQ(r->failures[0].path, "dir0");
    EXPECT_EQ(r->failures[0].what, "open");
    EXPECT_EQ(r->failures[0].why.value(), EXDEV);
    EXPECT_EQ(across->differences, 2U) << "the file that is there, and the one that it hides";
    EXPECT_TRUE(across->failures.empty());
  }
}

TEST_F(compare_, of_two_files_that_was_ended_says_so) {
  unio::stop_source stop;
  stop.request_stop();
  auto const files = [&](tree_options const& o, unio::deadline d) {
    return compare({}, directory / "a/file0", {}, directory / "b/file0", nullptr, {o}, d);
  };
  test::make_file(directory / "a/file0", "one");
  test::make_file(directory / "b/file0", "two");
  EXPECT_EQ(files({.stop = stop.get_token()}, {})->ended, unio::condition::canceled);
  EXPECT_EQ(files({}, std::chrono::nanoseconds(1))->ended, unio::condition::timed_out);
  auto const whole = files({}, {});
  ASSERT_TRUE(whole);
  EXPECT_FALSE(whole->ended);
  EXPECT_NE(whole->differences, 0U);
}

// Of the first tree or the second; what could not be listed may be there all the same.
TEST_F(compare_, calls_nothing_different_in_a_directory_that_it_could_not_list) {
  for (int const at : {1, 3}) {
    test::failing_calls calls;
    calls.fail<&unio::sys::table::getdents64>(EIO, {.at = at});
    auto const r = compared({.threads = 1});
    ASSERT_TRUE(r);
    EXPECT_EQ(r->differences, 0U) << at;
    ASSERT_EQ(r->failures.count(), 1U) << at;
    EXPECT_EQ(r->failures[0].path, "");
    EXPECT_EQ(r->failures[0].why, std::errc::io_error);
  }
}

// So that files which this user may not read can be compared in all else.
TEST_F(compare_, opens_no_file_of_which_nothing_is_read) {
  ::chmod((directory / "a/file0").c_str(), 0600);
  ASSERT_EQ(::truncate((directory / "a/dir0/file0").c_str(), 1 << 20), 0);
  test::failing_calls calls;
  calls.answer<&unio::sys::table::openat>([](int dir, char const* name, int flags, unsigned mode) noexcept {
    bool const is_file = std::string_view(name).ends_with("file0");
    return is_file ? std::int64_t{-EACCES} : unio::sys::kernel.openat(dir, name, flags, mode);
  });
  auto const r = compare(directory.handle(), "a", directory.handle(), "b", nullptr,
                         {{}, difference::mode | difference::holes});
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->failures.empty());
  EXPECT_EQ(r->differences, 2U);
}

} // namespace
