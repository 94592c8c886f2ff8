// unio/fs/walk.hpp: every name once, whatever the shape of the tree; few descriptors; links and mounts left
// alone; what cannot be read is reported; ends when asked to.

#include "fs/tree_fixture.hpp"
#include "support/failing_calls.hpp"
#include "support/test.hpp"

#include <unio/fs/reduce.hpp>
#include <unio/fs/walk.hpp>

#include <sys/mman.h>
#include <sys/mount.h>

#include <filesystem>

namespace {

using namespace test;
using namespace unio::fs;

struct listing : walk_visitor {
  walk_step entry(walk_entry const& e) noexcept override {
    std::lock_guard const lock(mutex);
    EXPECT_TRUE(paths.emplace(e.path()).second) << e.path();
    order.emplace_back(e.path());
    EXPECT_TRUE(e.depth() == 0 || e.path().ends_with(e.name()));
    return e.name() == skipped ? walk_step::skip : e.name() == last ? walk_step::stop : walk_step::go_on;
  }
  void failed(tree_failure const& f) noexcept override {
    std::lock_guard const lock(mutex);
    failures.emplace_back(std::string(f.path) + ": " + std::string(f.what) + ": " +
                          std::to_string(f.why.value()));
  }
  std::mutex mutex;
  std::set<std::string> paths;
  std::vector<std::string> order;
  std::vector<std::string> failures;
  std::string skipped = "/";
  std::string last = "/";
};

class walk_ : public ::testing::Test {
 protected:
  test::temporary_directory directory;

  std::set<std::string> expected() const {
    std::set<std::string> all{""};
    for (auto const& e : std::filesystem::recursive_directory_iterator(directory.path()))
      all.insert(e.path().string().substr(directory.path().size() + 1));
    return all;
  }
};

TEST_F(walk_, does_not_count_a_name_that_goes_before_its_status_is_asked_for) {
  struct removing : walk_visitor {
    walk_step entry(walk_entry const& e) noexcept override {
      ++shown;
      if (e.depth() == 1) ::unlink((*in / (e.name() == "a" ? "b" : "a")).c_str());
      return walk_step::go_on;
    }
    test::temporary_directory const* in = nullptr;
    std::uint64_t shown = 0;
  };
  for (bool const ordered : {false, true}) {
    removing all;
    all.in = &directory;
    test::make_file(directory / "a");
    test::make_file(directory / "b");
    walk_options o;
    o.with_status = true;
    o.ordered = ordered;
    EXPECT_EQ(walk({}, directory.path(), all, o)->entries, all.shown);
    EXPECT_EQ(all.shown, 2u);
  }
}

TEST_F(walk_, cuts_times_for_which_there_is_no_number) {
  test::make_file(directory / "late");
  struct times_of : walk_visitor {
    walk_step entry(walk_entry const& e) noexcept override {
      if (e.name() == "late") seen = e.status()->modified_ns;
      return walk_step::go_on;
    }
    std::int64_t seen = 0;
  };
  for (std::int64_t const year : {2400, 1600}) {
    timespec const when{.tv_sec = (year - 1970) * 31'556'952, .tv_nsec = 0};
    timespec const both[2] = {when, when};
    ASSERT_EQ(::utimensat(AT_FDCWD, (directory / "late").c_str(), both, 0), 0);
    struct stat s{};
    ASSERT_EQ(::stat((directory / "late").c_str(), &s), 0);
    if (s.st_mtim.tv_sec != when.tv_sec) continue; // no filesystem for that
    times_of all;
    walk_options how;
    how.with_status = true;
    ASSERT_TRUE(walk(directory.handle(), ".", all, how));
    using limits = std::numeric_limits<std::int64_t>;
    EXPECT_EQ(all.seen, year == 2400 ? limits::max() : limits::min());
  }
}

TEST_F(walk_, shows_every_name_once) {
  test::make_bushy(directory / "a", 5, 7, 3);
  test::make_bushy(directory / "b", 0, 3000, 0);
  for (int const threads : {1, 2, 8}) {
    listing all;
    auto const r = walk(directory.handle(), ".", all, {{.threads = threads}});
    ASSERT_TRUE(r);
    EXPECT_EQ(all.paths, expected());
    EXPECT_EQ(r->entries, all.paths.size());
    EXPECT_EQ(r->directories, 158u);
    EXPECT_FALSE(r->ended);
    EXPECT_TRUE(r->failures.empty());
  }
}

TEST_F(walk_, an_ordered_walk_shows_names_in_their_order) {
  test::make_bushy(directory / "b", 2, 2, 1);
  test::make_file(directory / "a");
  listing all;
  ASSERT_TRUE(walk({}, directory.path(), all, {.ordered = true}));
  EXPECT_EQ(all.order,
            (std::vector<std::string>{"", "a", "b", "b/dir0", "b/dir1", "b/file0", "b/file1", "b/dir0/file0",
                                      "b/dir0/file1", "b/dir1/file0", "b/dir1/file1"}));
}

TEST_F(walk_, a_file_is_its_own_tree) {
  test::make_file(directory / "a");
  ::symlink("a", (directory / "l").c_str());
  for (auto const* name : {"a", "l"}) {
    listing all;
    auto const r = walk(directory.handle(), name, all);
    ASSERT_TRUE(r);
    EXPECT_EQ(r->entries, 1u);
    EXPECT_EQ(all.paths, std::set<std::string>{""});
  }
  listing none;
  EXPECT_EQ(walk(directory.handle(), "none", none).error().message(), "walk none: No such file or directory");
  EXPECT_EQ(unio::fs::summarize(directory.handle(), "none").error().message(),
            "summarize none: No such file or directory");
  EXPECT_EQ(unio::fs::contents(directory.handle(), "none").error().message(),
            "contents none: No such file or directory");
  EXPECT_EQ(unio::run(unio::fs::co_walk(directory.handle(), "none", none)).error().message(),
            "walk none: No such file or directory");
  EXPECT_EQ(none.paths.size(), 0u);
}

TEST_F(walk_, the_visitor_says_where_to_go_and_when_to_stop) {
  test::make_bushy(directory / "a", 2, 2, 2);
  listing all;
  all.skipped = "dir0";
  ASSERT_TRUE(walk({}, directory.path(), all));
  EXPECT_EQ(all.paths.count("a/dir0"), 1u);
  EXPECT_EQ(all.paths.count("a/dir0/file0"), 0u);
  EXPECT_EQ(all.paths.count("a/dir1/file0"), 1u);
  listing some;
  some.last = "a";
  auto const r = walk({}, directory.path(), some);
  ASSERT_TRUE(r);
  EXPECT_EQ(some.paths.size(), 2u);
  EXPECT_FALSE(r->ended);
  listing shallow;
  ASSERT_TRUE(walk({}, directory.path(), shallow, {.max_depth = 2}));
  EXPECT_EQ(shallow.paths.size(), 6u);
}

TEST_F(walk_, links_are_shown_and_followed_only_if_asked) {
  test::make_bushy(directory / "a", 1, 1, 1);
  ::symlink("..", (directory / "a/up").c_str());
  ::symlink("nowhere", (directory / "a/none").c_str());
  listing plain;
  ASSERT_TRUE(walk({}, directory.path(), plain));
  EXPECT_EQ(plain.paths, expected());
  for (bool const ordered : {false, true}) {
    listing followed;
    auto const r = walk({}, directory.path(), followed, {.follow_links = true, .ordered = ordered});
    ASSERT_TRUE(r);
    EXPECT_EQ(followed.paths, expected()); // the loop is entered once, and that is the root
    EXPECT_EQ(r->directories, 3u);
    EXPECT_TRUE(r->failures.empty());
  }
  ::symlink((directory / "a").c_str(), (directory / "l").c_str());
  listing link;
  listing through;
  ASSERT_TRUE(walk({}, directory / "l", link));
  ASSERT_TRUE(walk({}, directory / "l/", through));
  EXPECT_EQ(link.paths.size(), 1u);
  EXPECT_EQ(through.paths.size(), 6u);
}

TEST_F(walk_, is_deeper_than_paths_and_stacks) {
  test::quick_directory const quick;
  test::make_deep(quick.path(), test::deep, true);
  struct : walk_visitor {
    walk_step entry(walk_entry const& e) noexcept override {
      if (e.depth() == test::deep) ++deepest;
      return walk_step::go_on;
    }
    std::atomic<int> deepest = 0;
  } v;
  {
    test::few_descriptors const few;
    auto const r = walk({}, quick.path(), v, {{.threads = 2}});
    ASSERT_TRUE(r);
    EXPECT_TRUE(r->failures.empty());
    EXPECT_EQ(r->entries, 3u * test::deep + 1);
    EXPECT_EQ(v.deepest, 3);
  }
  EXPECT_TRUE(reduce({}, quick / "d")->is_gone); // rm(1) takes longer
}

TEST_F(walk_, is_wide) {
  test::quick_directory const quick;
  test::make_bushy(quick.path(), 0, test::many(), 0);
  auto const s = summarize({}, quick.path());
  ASSERT_TRUE(s);
  EXPECT_EQ(s->files, static_cast<unsigned>(test::many()));
}

// dir0 cannot be opened, dir1 not be searched, dir2 not be read.
TEST_F(walk_, directories_of_others_are_named_and_the_rest_is_shown) {
  test::make_bushy(directory / "a", 4, 1, 2);
  ::chmod(directory.path().c_str(), 0755);
  ::chmod((directory / "a/dir0").c_str(), 0000);
  ::chmod((directory / "a/dir1").c_str(), 0444);
  ::chmod((directory / "a/dir2").c_str(), 0111);
  EXPECT_TRUE(test::as_nobody([&] {
    listing all;
    auto const r = walk({}, directory / "a", all);
    std::set<std::string> const failures(all.failures.begin(), all.failures.end());
    std::string const denied = ": open: " + std::to_string(EACCES);
    EXPECT_EQ(failures, (std::set<std::string>{"dir0" + denied, "dir1/dir0" + denied, "dir1/dir1" + denied,
                                               "dir1/dir2" + denied, "dir1/dir3" + denied, "dir2" + denied}));
    EXPECT_EQ(all.paths.size(), 6u + 5 + 5 + 4); // the root and its names; dir1's; dir3's, and theirs
    return r && !HasFailure();
  }));
  for (auto const* name : {"a/dir0", "a/dir1", "a/dir2"}) ::chmod((directory / name).c_str(), 0755);
}

TEST_F(walk_, needs_few_descriptors) {
  test::make_bushy(directory / "a", 6, 2, 4);
  test::make_deep(directory.path(), 300);
  auto const all_paths = expected();
  std::optional<test::few_descriptors> few(std::in_place);
  listing all;
  auto const r = walk({}, directory.path(), all, {{.threads = 4}});
  // As many as are left when the process has taken most of them.
  std::vector<int> taken;
  for (int fd; (fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0;) taken.push_back(fd);
  for (int i = 0; i != 8; ++i) ::close(taken[static_cast<std::size_t>(i)]);
  listing scarce;
  auto const s = walk({}, directory.path(), scarce, {{.threads = 2}});
  for (std::size_t i = 8; i < taken.size(); ++i) ::close(taken[i]);
  few.reset();
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->failures.empty()) << r->failures[0].path << r->failures[0].why.message();
  EXPECT_EQ(all.paths, all_paths);
  ASSERT_TRUE(s);
  EXPECT_TRUE(s->failures.empty());
  EXPECT_EQ(scarce.paths, all_paths);
}

TEST_F(walk_, what_cannot_be_read_is_reported_and_the_rest_is_shown) {
  test::make_bushy(directory / "a", 3, 1, 1);
  for (int const error : {EACCES, EIO, EMFILE, ELOOP, ENOENT, ENOMEM}) {
    test::failing_calls calls;
    calls.fail<&table::openat2>(error, {.at = 2});
    listing all;
    auto const r = walk({}, directory.path(), all, {{.threads = 1}});
    ASSERT_TRUE(r);
    bool const is_tried_again = error == EMFILE;
    bool const is_gone = error == ELOOP || error == ENOENT;
    EXPECT_EQ(r->failures.count(), is_tried_again || is_gone ? 0u : 1u) << error;
    EXPECT_EQ(all.failures.size(), r->failures.count());
    EXPECT_EQ(all.paths.size(), is_tried_again ? 9u : 8u) << error;
    EXPECT_TRUE(r->failures.empty() || r->failures[0].why.value() == error);
  }
  for (int const error : {EIO, EBADF, ENOENT}) {
    test::failing_calls calls;
    calls.fail<&table::getdents64>(error, {.at = 2});
    listing all;
    auto const r = walk({}, directory.path(), all, {{.threads = 1}});
    ASSERT_TRUE(r);
    EXPECT_EQ(r->failures.count(), error == ENOENT ? 0u : 1u);
  }
}

TEST_F(walk_, works_without_openat2) {
  test::make_bushy(directory / "a", 3, 2, 2);
  test::failing_calls calls;
  calls.fail<&table::openat2>(ENOSYS, {.times = test::which_calls::all});
  listing all;
  auto const r = walk({}, directory.path(), all);
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->failures.empty());
  EXPECT_EQ(all.paths, expected());
}

TEST_F(walk_, asks_where_the_directory_does_not_say_the_kind) {
  test::make_bushy(directory / "a", 2, 2, 1);
  test::failing_calls calls;
  calls.answer<&table::getdents64>([](int fd, void* entries, std::size_t n) noexcept {
    auto const r = unio::sys::kernel.getdents64(fd, entries, n);
    for (std::int64_t at = 0; at < r;) {
      auto* const record = static_cast<unsigned char*>(entries) + at;
      record[18] = 0;
      at += record[16] | record[17] << 8;
    }
    return r;
  });
  listing all;
  ASSERT_TRUE(walk({}, directory.path(), all));
  EXPECT_EQ(all.paths, expected());
  EXPECT_EQ(calls.count<&table::statx>(), 10);
}

TEST_F(walk_, a_stop_and_a_deadline_end_it) {
  test::make_bushy(directory / "a", 5, 5, 3);
  unio::stop_source stop;
  struct : walk_visitor {
    walk_step entry(walk_entry const&) noexcept override {
      if (++shown == 3) source->request_stop();
      return walk_step::go_on;
    }
    std::atomic<int> shown = 0;
    unio::stop_source* source = nullptr;
  } v;
  v.source = &stop;
  auto const r = walk({}, directory.path(), v, {{.stop = stop.get_token()}});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->ended, condition::canceled);
  EXPECT_LT(r->entries, 900u);
  listing late;
  auto const s = walk({}, directory.path(), late, {}, unio::deadline::zero());
  ASSERT_TRUE(s);
  EXPECT_EQ(s->ended, condition::timed_out);
}

TEST_F(walk_, is_awaited_and_stopped) {
  test::make_bushy(directory / "a", 3, 3, 2);
  listing all;
  auto const r = unio::sync_wait(co_walk(directory.handle(), ".", all));
  ASSERT_TRUE(r);
  EXPECT_EQ(all.paths, expected());
  struct : walk_visitor {
    walk_step entry(walk_entry const&) noexcept override {
      source->request_stop();
      return walk_step::go_on;
    }
    unio::stop_source* source = nullptr;
  } v;
  unio::stop_source stop;
  v.source = &stop;
  auto const s = unio::sync_wait(co_walk(directory.handle(), ".", v), {.stop = stop.get_token()});
  ASSERT_TRUE(s);
  EXPECT_EQ(s->ended, condition::canceled);
  auto const sum = unio::sync_wait(co_summarize(directory.handle(), "."));
  ASSERT_TRUE(sum);
  EXPECT_EQ(sum->files, 39u);
  auto const names = unio::sync_wait(co_contents(directory.handle(), "."));
  ASSERT_TRUE(names);
  EXPECT_EQ(names->size(), 52u);
}

TEST_F(walk_, an_entry_opens_exactly_what_was_listed) {
  test::make_file(directory / "f", "hello");
  ::symlink("f", (directory / "l").c_str());
  struct : walk_visitor {
    walk_step entry(walk_entry const& e) noexcept override {
      if (e.depth() == 0) return walk_step::go_on;
      auto f = e.open();
      if (e.kind() == entry_kind::symlink) {
        EXPECT_EQ(f.error(), std::errc::too_many_symbolic_link_levels);
      } else {
        EXPECT_EQ(f->maximum_extent().value(), 5u);
      }
      return walk_step::go_on;
    }
  } v;
  ASSERT_TRUE(walk({}, directory.path(), v));
}

TEST_F(walk_, summarize_counts_hard_links_once) {
  test::make_bushy(directory / "a", 2, 3, 1);
  ASSERT_EQ(::link((directory / "a/file0").c_str(), (directory / "a/dir1/again").c_str()), 0);
  ::symlink("12345", (directory / "l").c_str());
  ::mkfifo((directory / "p").c_str(), 0600);
  auto const s = summarize({}, directory.path());
  ASSERT_TRUE(s);
  EXPECT_EQ(s->files, 10u);
  EXPECT_EQ(s->directories, 4u);
  EXPECT_EQ(s->symlinks, 1u);
  EXPECT_EQ(s->others, 1u);
  EXPECT_EQ(s->further_names, 1u);
  EXPECT_EQ(s->size, 9u * 4 + 5);
  EXPECT_EQ(s->deepest, 3u);
}

TEST_F(walk_, contents_are_all_names_in_order) {
  test::make_bushy(directory / "a", 3, 3, 2);
  auto const c = contents({}, directory.path());
  ASSERT_TRUE(c);
  std::set<std::string> all{""};
  std::string before;
  for (auto const& i : *c) {
    EXPECT_LT(before, i.name());
    before = i.name();
    all.insert(before);
  }
  EXPECT_EQ(all, expected());
}

// Another thread exchanges directories and links to a directory outside of the tree throughout.
TEST_F(walk_, never_leaves_the_tree_while_others_exchange_directories_and_links) {
  test::make_bushy(directory / "tree", 3, 2, 2);
  test::make_bushy(directory / "outside", 3, 1, 2);
  test::make_file(directory / "outside/canary");
  for (int i = 0; i != 3; ++i)
    ::symlink((directory / "outside").c_str(), (directory / ("tree/link" + std::to_string(i))).c_str());
  std::atomic<bool> done = false;
  std::thread attacker([&] {
    for (int i = 0; !done; ++i) {
      std::string const a = directory / ("tree/dir" + std::to_string(i % 3));
      std::string const b = directory / ("tree/link" + std::to_string(i % 3));
      ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
    }
  });
  struct : walk_visitor {
    walk_step entry(walk_entry const& e) noexcept override {
      if (e.name() == "canary") ++canaries;
      return walk_step::go_on;
    }
    std::atomic<int> canaries = 0;
  } v;
  for (int i = 0; i != 300; ++i) ASSERT_TRUE(walk({}, directory / "tree", v));
  EXPECT_EQ(v.canaries, 0);
  for (int i = 0; i != 3 && v.canaries == 0; ++i) // the harness would notice
    ASSERT_TRUE(walk({}, directory / "tree", v, {.follow_links = true}));
  EXPECT_NE(v.canaries, 0);
  done = true;
  attacker.join();
}

TEST_F(walk_, leaves_mounts_alone_unless_told) {
  ::mkdir((directory / "m").c_str(), 0755);
  if (::mount("none", (directory / "m").c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  test::make_file(directory / "m/inside");
  listing out;
  listing in;
  auto const r = walk({}, directory.path(), out);
  auto const s = walk({}, directory.path(), in, {{.cross_mounts = true}});
  ::umount((directory / "m").c_str());
  ASSERT_TRUE(r && s);
  EXPECT_EQ(out.paths, (std::set<std::string>{"", "m"}));
  EXPECT_EQ(in.paths, (std::set<std::string>{"", "m", "m/inside"}));
}

} // namespace
