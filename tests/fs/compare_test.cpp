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

} // namespace
