// unio/fs/tree.hpp: where descriptors are scarce, the algorithms on trees use fewer threads.

#include "fs/tree_fixture.hpp"
#include "support/test.hpp"

#include <unio/fs/compare.hpp>
#include <unio/fs/copy.hpp>
#include <unio/fs/reduce.hpp>
#include <unio/fs/walk.hpp>

#include <fcntl.h>

namespace {

using namespace unio::fs;

/// While it lives the process may have `n` more descriptors than it has open.
class more_descriptors {
 public:
  explicit more_descriptors(int n) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    int const lowest = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    ::close(lowest);
    rlimit const few{static_cast<rlim_t>(lowest + n), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  more_descriptors(more_descriptors const&) = delete;
  more_descriptors& operator=(more_descriptors const&) = delete;
  ~more_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

std::string first(tree_failures const& f) {
  return f.empty() ? "" : std::string(f[0].path) + ": " + std::string(f[0].what) + ": " + f[0].why.message();
}

TEST(scarce_, as_many_threads_as_descriptors_do_all_that_one_would) {
  test::quick_directory const quick;
  test::make_bushy(quick / "a", 100, 2, 1);
  for (int d = 0; d != 100; ++d) test::make_bushy((quick / "a/dir") + std::to_string(d) + "/below", 1, 2, 2);
  std::uint64_t const all = 1 + 2 + 100 * (1 + 2 + 3 * 3);
  for (int const n : {13, 16, 24, 40, 64}) {
    SCOPED_TRACE(n);
    more_descriptors const few(n);
    tree_options const many{.threads = 64};
    auto const copied = clone_or_copy({}, quick / "a", {}, quick / "b", {many});
    ASSERT_TRUE(copied);
    EXPECT_EQ(copied->failures.count(), 0U) << first(copied->failures);
    EXPECT_EQ(copied->entries, all);
    auto const same = compare({}, quick / "a", {}, quick / "b", nullptr, {many});
    ASSERT_TRUE(same);
    EXPECT_EQ(same->failures.count(), 0U) << first(same->failures);
    EXPECT_EQ(same->differences, 0U);
    auto const sum = summarize({}, quick / "b", {many});
    ASSERT_TRUE(sum);
    EXPECT_EQ(sum->failures.count(), 0U) << first(sum->failures);
    EXPECT_EQ(sum->files + sum->directories, all);
    auto const removed = reduce({}, quick / "b", {many});
    ASSERT_TRUE(removed);
    EXPECT_EQ(removed->failures.count(), 0U) << first(removed->failures);
    EXPECT_TRUE(removed->is_gone);
  }
}

} // namespace
