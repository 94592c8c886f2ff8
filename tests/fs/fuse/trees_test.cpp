// walk, reduce, clone_or_copy and compare on a filesystem of a server that fails: each failure is reported
// with its path, the rest is done, nothing hangs and nothing is lost.

#include "fs/fuse/filesystem.hpp"
#include "fs/tree_fixture.hpp"
#include "support/test.hpp"

#include <unio/fs/compare.hpp>
#include <unio/fs/copy.hpp>
#include <unio/fs/reduce.hpp>
#include <unio/fs/walk.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

using namespace unio::fs;
using test::fuse::switches;
using strings = std::vector<std::string>;

// Path, what was done, and errno, of each.
strings described(tree_failures const& all) {
  std::multiset<std::string> sorted;
  for (std::size_t i = 0; i != all.kept(); ++i)
    sorted.insert(std::string(all[i].path) + ": " + std::string(all[i].what) + ": " +
                  std::to_string(all[i].why.value()));
  return {sorted.begin(), sorted.end()};
}

std::string failure(std::string const& path, std::string const& what, int error) {
  return path + ": " + what + ": " + std::to_string(error);
}

struct paths : walk_visitor {
  walk_step entry(walk_entry const& e) noexcept override {
    std::lock_guard const lock(mutex);
    EXPECT_TRUE(all.emplace(e.path()).second) << e.path();
    if (all.size() == 4 && server != nullptr) server->kill_server();
    return walk_step::go_on;
  }
  std::mutex mutex;
  std::set<std::string> all;
  test::fuse::filesystem* server = nullptr;
};

std::set<std::string> names_below(std::string const& path) {
  std::set<std::string> all{""};
  for (auto const& e : std::filesystem::recursive_directory_iterator(path))
    all.insert(e.path().string().substr(path.size() + 1));
  return all;
}

std::string text_of(std::string const& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

struct fault {
  char const* name;
  std::atomic<int> switches::* what;
  char const* victim; // "bad": a directory with a file; "evil": a file
  char const* done;   // what the report says
};

void PrintTo(fault const& f, std::ostream* out) { *out << f.name; }

constexpr int errors[] = {EIO, ESTALE, ENOENT};

// In "a": dir0 and dir1, with two files each; bad, a directory with two; evil, a file in dir0.
class fuse_tree : public ::testing::Test {
 protected:
  static void make(std::string const& root) {
    test::make_bushy(root, 2, 2, 1);
    test::make_bushy(root + "/bad", 0, 2, 0);
    test::make_file(root + "/dir0/evil", "text");
  }
  void SetUp() override {
    if (!fs.is_mounted()) GTEST_SKIP() << fs.why_not();
    make(a);
  }
  test::fuse::filesystem fs;
  std::string const a = fs.path() + "/a";
  test::quick_directory quick;
};

class fuse_trees : public fuse_tree, public ::testing::WithParamInterface<fault> {
 protected:
  [[nodiscard]] bool is_directory() const { return GetParam().victim == std::string_view("bad"); }
  [[nodiscard]] std::string path_of_victim() const { return is_directory() ? "bad" : "dir0/evil"; }
};

std::string name_of(::testing::TestParamInfo<fault> const& p) { return p.param.name; }

// ── walk ───────────────────────────────────────────────────────────────────────────────────────────────────

class fuse_walk : public fuse_trees {};

INSTANTIATE_TEST_SUITE_P(when, fuse_walk,
                         ::testing::Values(fault{"lookups_fail", &switches::lookup_error, "bad", "open"},
                                           fault{"opening_fails", &switches::open_directory_error, "bad",
                                                 "open"},
                                           fault{"listing_fails", &switches::list_error, "bad", "read"},
                                           fault{"metadata_fail", &switches::lookup_error, "evil", "stat"}),
                         name_of);

TEST_P(fuse_walk, names_what_fails_and_shows_the_rest) {
  std::set<std::string> expected = names_below(a);
  if (is_directory()) expected.erase("bad/file0");
  if (is_directory()) expected.erase("bad/file1");
  for (int const error : errors) {
    fs.fail(GetParam().what, error, GetParam().victim);
    for (int const threads : {1, 2}) {
      paths all;
      walk_options how{{.threads = threads}};
      how.with_status = !is_directory();
      auto const r = walk({}, a, all, how);
      ASSERT_TRUE(r);
      EXPECT_FALSE(r->ended);
      bool const is_gone = error == ENOENT; // as if removed meanwhile
      std::set<std::string> shown = expected;
      if (is_gone && !is_directory()) shown.erase("dir0/evil");
      EXPECT_EQ(all.all, shown) << error;
      EXPECT_EQ(described(r->failures),
                is_gone ? strings{} : strings{failure(path_of_victim(), GetParam().done, error)});
    }
    fs.fail(GetParam().what, 0);
  }
}

// ── reduce ─────────────────────────────────────────────────────────────────────────────────────────────────

class fuse_reduce : public fuse_trees {};

INSTANTIATE_TEST_SUITE_P(
    when, fuse_reduce,
    ::testing::Values(fault{"lookups_fail", &switches::lookup_error, "evil", "remove"},
                      fault{"removing_a_file_fails", &switches::unlink_error, "evil", "remove"},
                      fault{"removing_a_directory_fails", &switches::rmdir_error, "bad", "remove"},
                      fault{"opening_fails", &switches::open_directory_error, "bad", "open"},
                      fault{"listing_fails", &switches::list_error, "bad", "read"}),
    name_of);

TEST_P(fuse_reduce, names_what_fails_and_removes_the_rest) {
  for (int const error : errors) {
    make(a);
    fs.fail(GetParam().what, error, GetParam().victim);
    auto const r = reduce({}, a, {{.threads = 2}});
    fs.fail(GetParam().what, 0);
    ASSERT_TRUE(r);
    EXPECT_FALSE(r->is_gone);
    EXPECT_FALSE(r->ended);
    std::set<std::string> left{"", "dir0", "dir0/evil"};
    if (is_directory()) left = {"", "bad"};
    if (GetParam().what == &switches::open_directory_error || GetParam().what == &switches::list_error)
      left.insert({"bad/file0", "bad/file1"});
    EXPECT_EQ(names_below(a), left) << error;
    // What is listed but said not to be there keeps its directory from being removed.
    strings expected{failure(path_of_victim(), GetParam().done, error)};
    if (error == ENOENT) {
      bool const is_own =
          GetParam().what == &switches::open_directory_error || GetParam().what == &switches::list_error;
      expected = {failure(is_own ? "bad" : is_directory() ? "" : "dir0", "remove", ENOTEMPTY)};
    }
    EXPECT_EQ(described(r->failures), expected);
    EXPECT_TRUE(reduce({}, a)->is_gone) << "nothing is in the way of another try";
    EXPECT_TRUE(std::filesystem::is_empty(fs.path()));
  }
}

// ── clone_or_copy ──────────────────────────────────────────────────────────────────────────────────────────

class fuse_copy_from : public fuse_trees {};

INSTANTIATE_TEST_SUITE_P(
    when, fuse_copy_from,
    ::testing::Values(fault{"lookups_fail", &switches::lookup_error, "evil", "copy"},
                      fault{"opening_a_file_fails", &switches::open_error, "evil", "copy"},
                      fault{"reading_fails", &switches::read_error, "evil", "copy"},
                      fault{"opening_fails", &switches::open_directory_error, "bad", "open"},
                      fault{"listing_fails", &switches::list_error, "bad", "read"}),
    name_of);

TEST_P(fuse_copy_from, names_what_fails_and_copies_the_rest) {
  std::set<std::string> const whole = names_below(a);
  for (int const error : errors) {
    SCOPED_TRACE(error);
    fs.fail(GetParam().what, error, GetParam().victim);
    auto const r = clone_or_copy({}, a, {}, quick / "b", {{.threads = 2}});
    fs.fail(GetParam().what, 0);
    ASSERT_TRUE(r);
    EXPECT_FALSE(r->ended);
    EXPECT_TRUE(r->is_in_place);
    // A name that is not there, and a directory that was removed while it was open, were removed by others.
    bool const is_gone = error == ENOENT && (GetParam().what == &switches::lookup_error ||
                                             GetParam().what == &switches::list_error);
    EXPECT_EQ(described(r->failures),
              is_gone ? strings{} : strings{failure(path_of_victim(), GetParam().done, error)});
    std::set<std::string> expected = whole;
    if (is_directory()) {
      expected.erase("bad/file0");
      expected.erase("bad/file1");
      if (GetParam().what == &switches::open_directory_error) expected.erase("bad");
    } else {
      expected.erase("dir0/evil");
    }
    EXPECT_EQ(names_below(quick / "b"), expected);
    EXPECT_EQ(text_of(quick / "b/dir0/file0"), "text");
    EXPECT_TRUE(reduce({}, quick / "b")->is_gone);
  }
  EXPECT_EQ(names_below(a), whole);
}

class fuse_copy_to : public fuse_trees {};

INSTANTIATE_TEST_SUITE_P(
    when, fuse_copy_to,
    ::testing::Values(fault{"making_a_file_fails", &switches::open_error, "evil", "copy"},
                      fault{"writing_fails", &switches::write_error, "evil", "copy"},
                      fault{"making_a_directory_fails", &switches::mkdir_error, "bad", "make"}),
    name_of);

TEST_P(fuse_copy_to, names_what_fails_and_copies_the_rest) {
  make(quick / "a");
  std::string const b = fs.path() + "/b";
  for (int const error : {EIO, ESTALE}) {
    SCOPED_TRACE(error);
    fs.fail(GetParam().what, error, GetParam().victim);
    auto const r = clone_or_copy({}, quick / "a", {}, b, {{.threads = 2}});
    fs.fail(GetParam().what, 0);
    ASSERT_TRUE(r);
    EXPECT_FALSE(r->ended) << r->ended.message();
    EXPECT_TRUE(r->is_in_place);
    EXPECT_EQ(described(r->failures), strings{failure(path_of_victim(), GetParam().done, error)});
    std::set<std::string> expected = names_below(quick / "a");
    for (auto const* name : {"bad", "bad/file0", "bad/file1"})
      if (is_directory()) expected.erase(name);
    if (!is_directory()) expected.erase("dir0/evil");
    EXPECT_EQ(names_below(b), expected);
    EXPECT_EQ(text_of(b + "/dir0/file0"), "text");
    EXPECT_TRUE(reduce({}, b)->is_gone);
  }
}

TEST_F(fuse_tree, a_verified_copy_finds_what_was_stored_wrong_and_not_only_what_is_cached) {
  make(quick / "a");
  test::make_file(quick / "large", std::string(600000, 'x'));
  fs->spoils_writes = true;
  auto const file = clone_or_copy({}, quick / "large", {}, fs.path() + "/file", {.verify = true});
  auto const tree = clone_or_copy({}, quick / "a", {}, fs.path() + "/tree", {.verify = true});
  fs->spoils_writes = false;
  ASSERT_TRUE(file && tree);
  EXPECT_EQ(file->ended, std::errc::io_error);
  EXPECT_FALSE(test::exists(fs.path() + "/file"));
  EXPECT_EQ(tree->failures.count(), 9u) << "each file";
  EXPECT_EQ(tree->missing, 9u);
  ASSERT_TRUE(clone_or_copy({}, quick / "large", {}, fs.path() + "/file", {.verify = true})->is_in_place);
}

// ── compare ────────────────────────────────────────────────────────────────────────────────────────────────

class fuse_compare : public fuse_trees {};

INSTANTIATE_TEST_SUITE_P(
    when, fuse_compare,
    ::testing::Values(fault{"lookups_fail", &switches::lookup_error, "evil", "compare"},
                      fault{"opening_a_file_fails", &switches::open_error, "evil", "compare"},
                      fault{"reading_fails", &switches::read_error, "evil", "compare"},
                      fault{"opening_fails", &switches::open_directory_error, "bad", "open"},
                      fault{"listing_fails", &switches::list_error, "bad", "compare"}),
    name_of);

TEST_P(fuse_compare, names_what_fails_and_compares_the_rest) {
  make(quick / "a");
  test::make_file(quick / "a/dir1/more");
  struct : compare_sink {
    void differs(std::string_view path, difference what) noexcept override {
      all.emplace_back(std::string(path) + ": " + std::string(to_string(what)));
    }
    strings all;
  } sink;
  compare_options contents_only;
  contents_only.what = difference::contents;
  for (int const error : {EIO, ESTALE}) {
    sink.all.clear();
    fs.fail(GetParam().what, error, GetParam().victim);
    auto const r = compare({}, a, {}, quick / "a", &sink, contents_only);
    fs.fail(GetParam().what, 0);
    ASSERT_TRUE(r);
    EXPECT_FALSE(r->ended);
    EXPECT_EQ(described(r->failures), strings{failure(path_of_victim(), GetParam().done, error)});
    EXPECT_EQ(sink.all, strings{"dir1/more: only in the second"});
  }
}

// ── a server that ends ─────────────────────────────────────────────────────────────────────────────────────

TEST_F(fuse_tree, a_walk_ends_when_the_server_does) {
  paths all;
  all.server = &fs;
  auto const r = walk({}, a, all, {{.threads = 2}});
  ASSERT_TRUE(r);
  EXPECT_FALSE(r->failures.empty());
  EXPECT_FALSE(reduce({}, a));
  EXPECT_FALSE(clone_or_copy({}, a, {}, quick / "b"));
  EXPECT_FALSE(test::exists(quick / "b"));
}

// ── what other filesystems do not do ───────────────────────────────────────────────────────────────────────

// FUSE, vfat, exFAT and NTFS have names of more than 255 bytes. One whose length is cut to a byte would be
// another directory's.
TEST_F(fuse_tree, with_names_beyond_255_bytes_is_walked_copied_compared_and_removed) {
  ASSERT_EQ(::mkdir((a + "/" + std::string(44, 'n')).c_str(), 0755), 0);
  for (std::size_t const n : {256, 300, 700, 1000}) {
    std::string const name = a + "/" + std::string(n, 'n');
    ASSERT_EQ(::mkdir(name.c_str(), 0755), 0) << std::strerror(errno);
    test::make_file(name + "/file", std::to_string(n));
    ASSERT_EQ(::mkdir((name + "/" + std::string(n, 'm')).c_str(), 0755), 0);
  }
  for (int const threads : {1, 4}) {
    paths all;
    auto const walked = walk({}, a, all, {{.threads = threads}});
    ASSERT_TRUE(walked);
    EXPECT_EQ(described(walked->failures), strings{});
    EXPECT_EQ(all.all, names_below(a));
    std::string const b = fs.path() + "/b";
    auto const copied = clone_or_copy({}, a, {}, b, {{.threads = threads}});
    ASSERT_TRUE(copied);
    EXPECT_EQ(described(copied->failures), strings{});
    auto const same = compare({}, a, {}, b, nullptr, {{.threads = threads}});
    ASSERT_TRUE(same);
    EXPECT_EQ(same->differences, 0U);
    EXPECT_EQ(same->entries, all.all.size());
    auto const removed = reduce({}, b, {{.threads = threads}});
    ASSERT_TRUE(removed);
    EXPECT_TRUE(removed->is_gone);
    EXPECT_EQ(removed->removed, all.all.size());
  }
}

// NFS and many servers take what is written, and say only when the file is closed that there is no room.
TEST(fuse_closing, that_fails_is_no_copy) {
  test::fuse::filesystem const fs({.flushes = true});
  if (!fs.is_mounted()) GTEST_SKIP() << fs.why_not();
  test::quick_directory const quick;
  test::make_bushy(quick / "a", 2, 2, 1);
  fs.fail(&switches::flush_error, ENOSPC);
  auto const file = clone_or_copy({}, quick / "a/file0", {}, fs.path() + "/file");
  ASSERT_TRUE(file);
  EXPECT_EQ(file->ended.value(), ENOSPC);
  EXPECT_FALSE(file->is_in_place);
  std::string const b = fs.path() + "/b";
  auto const tree = clone_or_copy({}, quick / "a", {}, b);
  ASSERT_TRUE(tree);
  EXPECT_EQ(tree->ended.value(), ENOSPC);
  EXPECT_FALSE(tree->is_in_place);
  EXPECT_EQ(names_below(fs.path()), std::set<std::string>{""}) << "nothing is left";

  copy_options kept;
  kept.keep_partial = true;
  EXPECT_EQ(clone_or_copy({}, quick / "a", {}, b, kept)->ended.value(), ENOSPC);
  fs.fail(&switches::flush_error, 0);
  kept.resume = true;
  auto const again = clone_or_copy({}, quick / "a", {}, b, kept);
  ASSERT_TRUE(again && again->is_in_place);
  EXPECT_EQ(again->unchanged, 0U) << "what is in the files whose closing failed is not known";

  fs.fail(&switches::flush_error, EIO, "file1");
  auto const rest = clone_or_copy({}, quick / "a", {}, fs.path() + "/c");
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->missing, 3U);
  EXPECT_EQ(described(rest->failures),
            (strings{failure("dir0/file1", "copy", EIO), failure("dir1/file1", "copy", EIO),
                     failure("file1", "copy", EIO)}));
  EXPECT_FALSE(std::filesystem::exists(fs.path() + "/c/file1"));
}

} // namespace
