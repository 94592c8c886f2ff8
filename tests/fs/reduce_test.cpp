// unio/fs/reduce.hpp: trees of every shape are removed, nothing else is; what others do meanwhile; what
// cannot be removed is named, and the rest goes.

#include "fs/tree_fixture.hpp"
#include "support/failing_calls.hpp"
#include "support/process.hpp"
#include "support/test.hpp"

#include <unio/fs/reduce.hpp>

#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

#include <csignal>
#include <filesystem>

namespace {

using namespace test;
using namespace unio::fs;

class reduce_ : public ::testing::Test {
 protected:
  test::temporary_directory directory;
};

TEST_F(reduce_, removes_a_tree_whatever_its_threads) {
  for (int const threads : {1, 2, 8}) {
    for (bool const renames : {true, false}) {
      test::make_bushy(directory / "a", 3, 4, 3);
      ::symlink("/", (directory / "a/root").c_str());
      ::mkfifo((directory / "a/pipe").c_str(), 0600);
      auto const r = reduce(directory.handle(), "a", {{.threads = threads}, renames});
      ASSERT_TRUE(r);
      EXPECT_TRUE(r->is_gone);
      EXPECT_EQ(r->removed, 40u + 160 + 2);
      EXPECT_TRUE(r->failures.empty());
      EXPECT_EQ(directory.count(), 0);
    }
  }
}

TEST_F(reduce_, removes_a_file_and_a_link_but_not_what_the_link_leads_to) {
  test::make_file(directory / "f", "text");
  test::make_bushy(directory / "d", 0, 1, 0);
  ::symlink("d", (directory / "l").c_str());
  EXPECT_TRUE(reduce(directory.handle(), "l")->is_gone);
  EXPECT_TRUE(test::exists(directory / "d/file0"));
  auto const r = reduce(directory.handle(), "f", {.count_bytes = true});
  EXPECT_EQ(r->removed, 1u);
  EXPECT_EQ(directory.count(), 1);
}

TEST_F(reduce_, refuses_what_has_no_name_of_its_own) {
  test::make_bushy(directory / "d", 1, 1, 1);
  for (auto const* path : {"/", "//", ".", "..", "d/.", "d/..", "./", "../"})
    EXPECT_EQ(reduce(directory.handle(), path).error(), std::errc::invalid_argument) << path;
  EXPECT_EQ(reduce(directory.handle(), "").error(), std::errc::no_such_file_or_directory);
  EXPECT_EQ(reduce(directory.handle(), "none").error().message(), "reduce none: No such file or directory");
  EXPECT_EQ(reduce(directory.handle(), "d/file0/").error(), std::errc::not_a_directory);
  EXPECT_TRUE(test::exists(directory / "d/dir0/file0"));
}

TEST_F(reduce_, counts_the_storage_that_it_gives_back) {
  test::make_bushy(directory / "a", 0, 0, 0);
  test::make_file(directory / "a/f", std::string(100000, 'x'));
  test::make_file(directory / "a/g", std::string(100000, 'x'));
  ::link((directory / "a/g").c_str(), (directory / "kept").c_str());
  int const fd = ::open((directory / "a/f").c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(fd);
  struct stat s{};
  ::fstat(fd, &s);
  ::close(fd);
  auto const r = reduce(directory.handle(), "a", {.count_bytes = true});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->bytes, static_cast<std::uint64_t>(s.st_blocks) * 512);
}

TEST_F(reduce_, is_deeper_than_paths_and_stacks) {
  test::quick_directory const quick;
  ASSERT_EQ(::mkdir((quick / "a").c_str(), 0755), 0);
  test::make_deep(quick / "a", test::deep, true);
  test::few_descriptors const few;
  auto const r = reduce({}, quick / "a", {{.threads = 2}});
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->failures.empty()) << r->failures[0].what << r->failures[0].why.message();
  EXPECT_EQ(r->removed, 3u * test::deep + 1);
  EXPECT_FALSE(test::exists(quick / "a"));
}

TEST_F(reduce_, is_wide) {
  test::quick_directory const quick;
  test::make_bushy(quick / "a", 0, test::many(), 0);
  auto const r = reduce({}, quick / "a");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->removed, static_cast<unsigned>(test::many()) + 1);
}

// A table of hashes has neighbours that are strangers on the disk.
TEST_F(reduce_, removes_names_in_the_order_of_their_inodes) {
  static std::vector<std::string> removed;
  removed.clear();
  static constexpr auto inode = [](std::string_view name) {
    return name.back() * 251U % 31 << 8 | name[name.size() - 2];
  };
  test::make_bushy(directory / "a", 0, 100, 0);
  test::failing_calls calls;
  calls.answer<&table::getdents64>([](int fd, void* entries, std::size_t n) noexcept {
    auto const r = unio::sys::kernel.getdents64(fd, entries, n);
    for (std::int64_t at = 0; at < r;) {
      auto* const record = static_cast<unsigned char*>(entries) + at;
      std::string_view const name(reinterpret_cast<char const*>(record) + 19);
      std::uint64_t const number = name.size() < 2 ? 1 : inode(name);
      std::memcpy(record, &number, sizeof number);
      at += record[16] | record[17] << 8;
    }
    return r;
  });
  calls.answer<&table::unlinkat>([](int dir, char const* name, int flags) noexcept {
    if (flags == 0) removed.emplace_back(name);
    return unio::sys::kernel.unlinkat(dir, name, flags);
  });
  auto const r = reduce(directory.handle(), "a");
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_gone);
  ASSERT_EQ(removed.size(), 100u);
  EXPECT_TRUE(std::is_sorted(removed.begin(), removed.end(),
                             [](std::string const& a, std::string const& b) { return inode(a) < inode(b); }));
}

TEST_F(reduce_, needs_few_descriptors) {
  test::quick_directory const quick;
  test::make_bushy(quick / "a", 6, 1, 4);
  test::make_deep(quick / "a", 2000);
  test::few_descriptors const few;
  auto const r = reduce({}, quick / "a", {{.threads = 4}});
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->failures.empty());
  EXPECT_TRUE(r->is_gone);
}

TEST_F(reduce_, what_cannot_be_removed_is_named_and_gets_its_name_back) {
  test::make_bushy(directory / "a", 3, 2, 2);
  for (int const error : {EACCES, EPERM, EIO, EROFS, EBUSY}) {
    test::make_bushy(directory / "a", 3, 2, 2);
    test::failing_calls calls;
    calls.fail<&table::unlinkat>(error, {.at = 2});
    auto const r = reduce(directory.handle(), "a", {{.threads = 1}});
    ASSERT_TRUE(r);
    EXPECT_FALSE(r->is_gone);
    ASSERT_EQ(r->failures.count(), 1u) << error;
    EXPECT_EQ(r->failures[0].why.value(), error);
    EXPECT_EQ(r->failures[0].reason, error == EBUSY ? "in use" : "");
    EXPECT_TRUE(test::exists(directory / ("a/" + std::string(r->failures[0].path))));
    EXPECT_EQ(r->left_as[0], '\0');
    EXPECT_EQ(directory.count(), 1);
  }
  // Only what was reported, and the directories above it.
  EXPECT_LE(std::distance(std::filesystem::recursive_directory_iterator(directory / "a"),
                          std::filesystem::recursive_directory_iterator()),
            3);
}

TEST_F(reduce_, an_error_of_any_call_leaves_a_tree_that_can_be_removed) {
  for (int const error : {EACCES, EIO, ENOENT, ENOMEM, EMFILE, EINTR, ENOTDIR, ELOOP, ESTALE}) {
    for (int at = 1; at != 5; ++at) {
      test::make_bushy(directory / "a", 2, 2, 2);
      test::failing_calls calls;
      calls.fail<&table::openat2>(error, {.at = at});
      (void)reduce(directory.handle(), "a");
      calls.fail<&table::openat2>(0);
      calls.fail<&table::getdents64>(error, {.at = at});
      (void)reduce(directory.handle(), "a");
      calls.fail<&table::getdents64>(0);
      calls.fail<&table::openat>(error, {.at = at});
      (void)reduce(directory.handle(), "a");
      calls.fail<&table::openat>(0);
      calls.fail<&table::renameat>(error);
      (void)reduce(directory.handle(), "a");
      calls.fail<&table::renameat>(0);
      (void)reduce(directory.handle(), "a");
      EXPECT_FALSE(test::exists(directory / "a")) << error << " " << at;
    }
  }
}

TEST_F(reduce_, works_without_openat2) {
  test::make_bushy(directory / "a", 3, 2, 2);
  test::failing_calls calls;
  calls.fail<&table::openat2>(EPERM, {.times = test::which_calls::all});
  EXPECT_TRUE(reduce(directory.handle(), "a")->is_gone);
}

TEST_F(reduce_, goes_on_while_others_create) {
  test::make_bushy(directory / "a", 3, 3, 2);
  std::atomic<bool> done = false;
  std::atomic<int> made = 0;
  std::thread creator([&] {
    int const fd = ::open((directory / "a").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    // Until the directory is gone: ENOENT. One that never paused could be a step ahead for ever.
    for (int i = 0; !done && i != 2000; ++i) {
      int const f = ::openat(fd, ("new" + std::to_string(i)).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
      if (f < 0) break;
      ::close(f);
      ::mkdirat(fd, ("newdir" + std::to_string(i)).c_str(), 0755);
      ++made;
    }
    ::close(fd);
  });
  while (made < 20) std::this_thread::yield();
  auto const r = reduce(directory.handle(), "a");
  done = true;
  creator.join();
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_gone);
  EXPECT_TRUE(r->failures.empty());
  EXPECT_EQ(directory.count(), 0);
}

TEST_F(reduce_, others_who_remove_the_same_are_no_failure) {
  for (int i = 0; i != 20; ++i) {
    test::make_bushy(directory / "a", 3, 3, 2);
    std::thread other([&] { (void)reduce(directory.handle(), "a", {.rename_first = false}); });
    auto const r = reduce(directory.handle(), "a", {.rename_first = false});
    other.join();
    EXPECT_EQ(directory.count(), 0);
    EXPECT_TRUE(!r || r->failures.empty());
  }
}

// Another thread exchanges directories and links to a directory outside of the tree throughout.
TEST_F(reduce_, touches_nothing_outside_while_others_exchange_directories_and_links) {
  test::make_bushy(directory / "outside", 3, 3, 2);
  test::make_bushy(directory / "same", 3, 3, 2);
  for (int round = 0; round != 60; ++round) {
    test::make_bushy(directory / "tree", 3, 2, 2);
    for (int i = 0; i != 3; ++i)
      ::symlink((directory / "outside").c_str(), (directory / ("tree/link" + std::to_string(i))).c_str());
    int const tree = ::open((directory / "tree").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    std::atomic<bool> done = false;
    std::thread attacker([&] {
      for (int i = 0; !done; ++i) {
        std::string const a = "dir" + std::to_string(i % 3);
        std::string const b = "link" + std::to_string(i % 3);
        ::renameat2(tree, a.c_str(), tree, b.c_str(), RENAME_EXCHANGE);
      }
    });
    auto const r = reduce(directory.handle(), "tree", {{.threads = round % 3 + 1}});
    done = true;
    attacker.join();
    ::close(tree);
    ASSERT_TRUE(r);
    EXPECT_TRUE(r->is_gone) << r->failures[0].path << r->failures[0].why.message();
  }
  auto const count = [](std::string const& path) {
    return std::distance(std::filesystem::recursive_directory_iterator(path),
                         std::filesystem::recursive_directory_iterator());
  };
  EXPECT_EQ(count(directory / "outside"), count(directory / "same"));
}

TEST_F(reduce_, a_stop_and_a_deadline_leave_what_can_be_removed_later) {
  test::make_bushy(directory / "a", 3, 3, 3);
  unio::stop_source stop;
  stop.request_stop();
  auto const r = reduce(directory.handle(), "a", {{.stop = stop.get_token()}});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->ended, condition::canceled);
  EXPECT_FALSE(r->is_gone);
  EXPECT_TRUE(test::exists(directory / "a"));
  auto const s = reduce(directory.handle(), "a", {}, unio::deadline::zero());
  ASSERT_TRUE(s);
  EXPECT_EQ(s->ended, condition::timed_out);
  EXPECT_TRUE(unio::sync_wait(co_reduce(directory.handle(), "a"))->is_gone);
  EXPECT_EQ(directory.count(), 0);
}

// ── killed, and called again ───────────────────────────────────────────────────────────────────────────────

// A call in a process that kills itself after some names.
void reduce_killed(unio::path_handle const& in, char const* name, bool rename_first, int after = 5) {
  static int left;
  test::process killed([&](test::process::channel&) {
    left = after;
    test::failing_calls calls;
    calls.answer<&table::unlinkat>([](int dir, char const* entry, int flags) noexcept {
      if (left-- == 0) ::raise(SIGKILL);
      return unio::sys::kernel.unlinkat(dir, entry, flags);
    });
    (void)reduce(in, name, {{.threads = 1}, rename_first});
    return 0;
  });
  EXPECT_EQ(killed.wait(), -1);
}

TEST_F(reduce_, what_a_killed_call_has_hidden_is_removed_by_the_next) {
  for (bool const renames : {true, false}) {
    for (bool const is_made_again : {false, true}) {
      test::make_bushy(directory / "a", 3, 2, 2);
      reduce_killed(directory.handle(), "a", true);
      EXPECT_FALSE(test::exists(directory / "a"));
      EXPECT_TRUE(test::exists(directory / ".a.unio-removed"));
      if (is_made_again) test::make_bushy(directory / "a", 1, 2, 1);
      auto const r = reduce(directory.handle(), "a", {.rename_first = renames});
      ASSERT_TRUE(r) << r.error().message();
      EXPECT_TRUE(r->is_gone);
      EXPECT_EQ(r->removed, 1U + 2 + 3 * (1 + 2 + 3 * (1 + 2)) - 5 + (is_made_again ? 6 : 0));
      EXPECT_EQ(r->left_as[0], '\0');
      EXPECT_EQ(directory.count(), 0);
      EXPECT_EQ(reduce(directory.handle(), "a").error(), std::errc::no_such_file_or_directory);
    }
  }
}

TEST_F(reduce_, has_its_name_until_it_is_empty_if_that_is_asked_for) {
  test::make_bushy(directory / "a", 3, 2, 2);
  reduce_killed(directory.handle(), "a", false);
  EXPECT_TRUE(test::exists(directory / "a"));
  EXPECT_EQ(directory.count(), 1);
  EXPECT_TRUE(reduce(directory.handle(), "a")->is_gone);
  EXPECT_EQ(directory.count(), 0);
}

TEST_F(reduce_, what_remains_of_a_killed_call_is_named) {
  test::make_bushy(directory / "a", 2, 2, 1);
  reduce_killed(directory.handle(), "a", true, 2);
  test::make_file(directory / "a");
  test::failing_calls calls;
  calls.fail<&table::unlinkat>(EIO);
  auto const r = reduce(directory.handle(), "a");
  ASSERT_TRUE(r);
  EXPECT_FALSE(r->is_gone);
  EXPECT_EQ(r->failures.count(), 1U);
  EXPECT_STREQ(r->left_as, ".a.unio-removed");
  EXPECT_FALSE(test::exists(directory / "a"));
  EXPECT_TRUE(reduce(directory.handle(), "a")->is_gone);
}

TEST_F(reduce_, only_a_directory_is_taken_for_what_a_killed_call_has_hidden) {
  test::make_bushy(directory / "kept", 1, 1, 1);
  for (bool const is_link : {false, true}) {
    std::string const hidden = directory / ".a.unio-removed";
    if (is_link) {
      ::symlink("kept", hidden.c_str());
    } else {
      test::make_file(hidden);
    }
    EXPECT_EQ(reduce(directory.handle(), "a").error(), std::errc::no_such_file_or_directory);
    test::make_bushy(directory / "a", 1, 1, 1);
    EXPECT_TRUE(reduce(directory.handle(), "a")->is_gone);
    EXPECT_TRUE(test::exists(hidden));
    ::unlink(hidden.c_str());
  }
  EXPECT_TRUE(test::exists(directory / "kept/dir0/file0"));
}

TEST_F(reduce_, two_calls_at_once_leave_nothing) {
  for (int i = 0; i != 20; ++i) {
    test::make_bushy(directory / "a", 3, 3, 2);
    std::thread other([&] { (void)reduce(directory.handle(), "a"); });
    auto const r = reduce(directory.handle(), "a");
    other.join();
    EXPECT_EQ(directory.count(), 0);
    EXPECT_TRUE(!r || r->failures.empty());
  }
}

TEST_F(reduce_, a_name_that_is_too_long_to_be_hidden_is_removed) {
  for (std::size_t const size : {241, 242, 255}) {
    std::string const name(size, 'n');
    test::make_bushy(directory / name, 2, 2, 1);
    EXPECT_TRUE(reduce(directory.handle(), name)->is_gone) << size;
    EXPECT_EQ(directory.count(), 0);
  }
}

TEST_F(reduce_, its_sink_hears_of_failures_and_progress) {
  test::make_bushy(directory / "a", 3, 3, 2);
  struct : tree_sink {
    void failed(tree_failure const& f) noexcept override { path = f.path; }
    void progress(tree_progress const& p) noexcept override { entries = p.entries; }
    std::string path;
    std::uint64_t entries = 0;
  } sink;
  test::failing_calls calls;
  calls.fail<&table::unlinkat>(EIO);
  auto const r = reduce(directory.handle(), "a", {}, {}, &sink);
  ASSERT_TRUE(r);
  EXPECT_EQ(sink.path, r->failures[0].path);
  EXPECT_EQ(sink.entries, r->removed);
}

TEST_F(reduce_, mounts_are_refused_unless_told) {
  test::make_bushy(directory / "a", 2, 1, 1);
  if (::mount("none", (directory / "a/dir0").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  test::make_file(directory / "a/dir0/inside");
  auto const direct = reduce(directory.handle(), "a/dir0");
  auto const r = reduce(directory.handle(), "a");
  bool const is_kept = test::exists(directory / "a/dir0/inside");
  auto const s = reduce(directory.handle(), "a", {{.cross_mounts = true}});
  bool const is_empty = !test::exists(directory / "a/dir0/inside");
  ::umount((directory / "a/dir0").c_str());
  EXPECT_EQ(direct.error(), std::errc::device_or_resource_busy);
  ASSERT_TRUE(r && s);
  EXPECT_EQ(r->failures[0].reason, "mount point");
  EXPECT_EQ(r->failures.count(), 1u);
  EXPECT_TRUE(is_kept);
  EXPECT_TRUE(is_empty);
  EXPECT_FALSE(test::exists(directory / "a/dir1"));
}

TEST_F(reduce_, refuses_what_is_mounted_after_it_has_looked) {
  static std::string place;
  static bool is_mounted;
  place = directory / "a";
  is_mounted = false;
  test::make_bushy(place, 1, 1, 1);
  if (::mount("none", (place + "/dir0").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  ::umount((place + "/dir0").c_str());
  {
    test::failing_calls calls;
    static constexpr auto mount_there = [](char const* name) noexcept {
      if (std::string_view(name) != "a") return;
      is_mounted = ::mount("none", place.c_str(), "tmpfs", 0, "size=64k") == 0;
      test::make_file(place + "/inside");
    };
    calls.answer<&table::openat>([](int d, char const* p, int f, unsigned m) noexcept {
      mount_there(p);
      return unio::sys::kernel.openat(d, p, f, m);
    });
    calls.answer<&table::openat2>([](int d, char const* p, open_how const* h, std::size_t n) noexcept {
      mount_there(p);
      return unio::sys::kernel.openat2(d, p, h, n);
    });
    EXPECT_EQ(reduce(directory.handle(), "a").error(), std::errc::device_or_resource_busy);
  }
  bool const is_kept = test::exists(place + "/inside");
  ::umount(place.c_str());
  EXPECT_TRUE(is_mounted && is_kept);
  EXPECT_TRUE(test::exists(place + "/dir0/file0"));
}

TEST_F(reduce_, names_what_it_has_hidden_of_others) {
  static std::string place;
  static int turn;
  place = directory / "a";
  turn = 0;
  test::make_bushy(place, 1, 1, 1);
  test::failing_calls calls;
  calls.answer<&table::renameat>([](int in, char const* from, int out, char const* to, unsigned f) noexcept {
    bool const is_first = turn++ == 0;
    if (is_first) { // it is open, and exchanged for another
      ::rename(place.c_str(), (place + ".old").c_str());
      test::make_bushy(place, 0, 1, 0);
    }
    auto const r = unio::sys::kernel.renameat(in, from, out, to, f);
    if (is_first) ::mkdir(place.c_str(), 0700);
    return r;
  });
  auto const r = reduce(directory.handle(), "a");
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_FALSE(r->is_gone);
  EXPECT_STREQ(r->left_as, ".a.unio-removed");
  ASSERT_EQ(r->failures.count(), 1u);
  EXPECT_EQ(r->failures[0].reason, "exchanged for something else");
  EXPECT_TRUE(test::exists(directory / ".a.unio-removed/file0"));
  EXPECT_TRUE(test::exists(directory / "a.old/dir0/file0"));
}

// A directory of a lower layer cannot be renamed there (EXDEV), and what is removed in it becomes a whiteout.
TEST_F(reduce_, removes_what_is_in_layers) {
  test::quick_directory const quick; // not on an overlay itself
  for (auto const* name : {"lower", "upper", "work", "merged"}) ::mkdir((quick / name).c_str(), 0755);
  test::make_bushy(quick / "lower/a", 2, 2, 2);
  std::string const layers =
      "lowerdir=" + (quick / "lower") + ",upperdir=" + (quick / "upper") + ",workdir=" + (quick / "work");
  std::string const merged = quick / "merged";
  if (::mount("overlay", merged.c_str(), "overlay", 0, layers.c_str()) != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  test::make_file(merged + "/a/dir0/new");
  auto const r = reduce({}, merged + "/a");
  bool const is_there = test::exists(merged + "/a");
  ::umount(merged.c_str());
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_gone);
  EXPECT_TRUE(r->failures.empty());
  EXPECT_FALSE(is_there);
  EXPECT_TRUE(test::exists(quick / "lower/a/dir0/file0"));
}

TEST_F(reduce_, what_is_immutable_is_named) {
  test::make_bushy(directory / "a", 1, 2, 1);
  int const fd = ::open((directory / "a/dir0/file1").c_str(), O_RDONLY | O_CLOEXEC);
  int flags = FS_IMMUTABLE_FL;
  bool const is_set = ::ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
  auto const r = is_set ? reduce(directory.handle(), "a") : unio::result<reduce_report>();
  flags = 0;
  ::ioctl(fd, FS_IOC_SETFLAGS, &flags);
  ::close(fd);
  if (!is_set) GTEST_SKIP() << "chattr +i needs root and a filesystem that has it";
  ASSERT_TRUE(r);
  ASSERT_EQ(r->failures.count(), 1u);
  EXPECT_EQ(r->failures[0].path, "dir0/file1");
  EXPECT_EQ(r->failures[0].reason, "immutable");
  EXPECT_FALSE(test::exists(directory / "a/file0"));
}

TEST_F(reduce_, what_may_not_be_written_is_made_writable_only_if_asked) {
  ::chmod(directory.path().c_str(), 0777);
  ::mkdir((directory / "a").c_str(), 0777);
  ::chmod((directory / "a").c_str(), 0777);
  EXPECT_TRUE(test::as_nobody([&] {
    test::make_bushy(directory / "a/b", 2, 1, 1);
    ::chmod((directory / "a/b/dir0").c_str(), 0555);
    auto const r = reduce({}, directory / "a/b");
    ::chmod((directory / "a/b").c_str(), 0); // the root, too
    auto const s = reduce({}, directory / "a/b", {.make_writable = true});
    return r && !r->is_gone && s && s->is_gone;
  }));
}

TEST_F(reduce_, directories_that_may_not_be_searched_are_named) {
  test::make_bushy(directory / "a", 2, 1, 1);
  ::chmod((directory / "a/dir0").c_str(), 0400);
  ::chmod(directory.path().c_str(), 0777);
  ::chmod((directory / "a").c_str(), 0777);
  EXPECT_TRUE(test::as_nobody([&] {
    auto const r = reduce({}, directory / "a", {{.threads = 1}});
    return r && !r->is_gone && r->failures.count() >= 1 && r->failures[0].why.value() == EACCES;
  }));
  ::chmod((directory / "a/dir0").c_str(), 0700);
}

} // namespace
