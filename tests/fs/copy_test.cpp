// unio/fs/copy.hpp and unio/fs/compare.hpp: a copy is equal to its source in all that belongs to it; it is in
// place whole or not at all, whatever fails, whenever it is stopped or killed; nothing outside is copied.

#include "fs/tree_fixture.hpp"
#include "support/child.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"
#include "sys/clone_extents.hpp"

#include <unio/fs/compare.hpp>
#include <unio/fs/copy.hpp>
#include <unio/fs/reduce.hpp>

#include <sys/mount.h>
#include <sys/xattr.h>

#include <filesystem>
#include <fstream>

namespace {

using namespace test;
using namespace unio::fs;

struct differences : compare_sink {
  void differs(std::string_view path, difference what) noexcept override { all[std::string(path)] = what; }
  std::map<std::string, difference> all;
};

// What differs, in words; empty: nothing.
std::string compared(std::string const& a, std::string const& b, compare_options const& o = {}) {
  differences d;
  auto const r = compare({}, a, {}, b, &d, o);
  if (!r) return "not compared: " + r.error().message();
  std::string text;
  for (auto const& [path, what] : d.all) text += path + ": " + std::string(to_string(what)) + "\n";
  for (std::size_t i = 0; i != r->failures.kept(); ++i)
    text += std::string(r->failures[i].path) + ": " + r->failures[i].why.message() + "\n";
  EXPECT_EQ(r->differences, d.all.size());
  return text;
}

void set_time(std::string const& path, long s, long ns) {
  timespec const times[2] = {{s + 1, ns / 2}, {s, ns}};
  ASSERT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
}

// With one of everything.
void make_rich(std::string const& root) {
  test::make_bushy(root, 2, 2, 2);
  test::make_file(root + "/large", std::string(300000, 'l'));
  test::make_file(root + "/empty");
  test::make_file(root + "/setuid", "x");
  ::chmod((root + "/setuid").c_str(), 04755);
  test::make_file(root + "/readonly", "x");
  ::chmod((root + "/readonly").c_str(), 0400);
  ::symlink("dir0/file0", (root + "/link").c_str());
  ::symlink("/nowhere", (root + "/dangling").c_str());
  ::mkfifo((root + "/pipe").c_str(), 0640);
  ::link((root + "/dir0/file0").c_str(), (root + "/dir1/again").c_str());
  ::link((root + "/dir0/file0").c_str(), (root + "/and_again").c_str());
  ::link((root + "/dangling").c_str(), (root + "/dir1/dangling_again").c_str());
  int const sparse = ::open((root + "/sparse").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(::pwrite(sparse, "data", 4, 1 << 20), 4);
  EXPECT_EQ(::ftruncate(sparse, 4 << 20), 0);
  ::close(sparse);
  (void)::setxattr((root + "/large").c_str(), "user.a", "value", 5, 0);
  (void)::setxattr((root + "/large").c_str(), "user.b", "", 0, 0);
  (void)::setxattr((root + "/dir0").c_str(), "user.c", "of a directory", 14, 0);
  if (::geteuid() == 0) {
    (void)::chown((root + "/dir0/file1").c_str(), 12345, 23456);
    (void)::lchown((root + "/link").c_str(), 12345, 23456);
    (void)::mknod((root + "/device").c_str(), S_IFCHR | 0600, 0x0103);
  }
  ::mkdir((root + "/closed").c_str(), 0755);
  test::make_file(root + "/closed/file", "x");
  for (auto const* name : {"large", "link", "pipe", "sparse", "dir0/file0"})
    set_time(root + "/" + name, 1234567890, 123456789);
  set_time(root + "/closed", 1000000000, 1);
  ::chmod((root + "/closed").c_str(), 0555);
  set_time(root + "/dir0", 1000000000, 999999999);
}

class copy_ : public ::testing::Test {
 protected:
  ~copy_() override {
    (void)::chmod((a + "/closed").c_str(), 0755);
    (void)::chmod((b + "/closed").c_str(), 0755);
  }
  unio::result<copy_report> copy(copy_options const& o = {}) { return clone_or_copy({}, a, {}, b, o); }
  void expect_move_to_leave_the_source() {
    auto const r = unio::fs::move({}, a, {}, b);
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_TRUE(r->is_in_place);
    ASSERT_EQ(r->failures.count(), 1u);
    EXPECT_EQ(r->failures[0].why.value(), ESTALE);
  }
  // What the directory has.
  std::string names() const {
    std::set<std::string> all;
    for (auto const& e : std::filesystem::directory_iterator(directory.path()))
      all.insert(e.path().filename());
    std::string text;
    for (auto const& n : all) text += n + " ";
    return text;
  }

  test::temporary_directory directory;
  std::string const a = directory / "a";
  std::string const b = directory / "b";
};

TEST_F(copy_, of_a_tree_is_equal_to_it) {
  make_rich(a);
  for (int const threads : {1, 2, 8}) {
    auto const r = copy({{.threads = threads}, true, threads == 2, threads == 8});
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_FALSE(r->ended) << r->ended.message();
    EXPECT_TRUE(r->is_in_place);
    EXPECT_EQ(r->failures.count(), 0u) << r->failures[0].path << r->failures[0].why.message();
    EXPECT_EQ(r->links_not_kept, 0u);
    EXPECT_EQ(compared(a, b), "");
    EXPECT_EQ(names(), "a b ");
    EXPECT_EQ(::system(("diff -r --no-dereference '" + a + "/dir0' '" + b + "/dir0'").c_str()), 0);
  }
  // The harness would notice.
  set_time(b + "/large", 1234567890, 123456788);
  ::chmod((b + "/dir1").c_str(), 0700);
  ::unlink((b + "/empty").c_str());
  test::make_file(b + "/new");
  ::unlink((b + "/link").c_str());
  ::symlink("dir0/file1", (b + "/link").c_str());
  ::unlink((b + "/and_again").c_str());
  std::filesystem::copy_file(a + "/and_again", b + "/and_again");
  ::setxattr((b + "/dir0").c_str(), "user.c", "changed", 7, 0);
  differences d;
  ASSERT_TRUE(compare({}, a, {}, b, &d));
  EXPECT_TRUE(d.all["large"] & difference::modified);
  EXPECT_TRUE(d.all["dir1"] & difference::mode);
  EXPECT_TRUE(d.all["empty"] & difference::only_in_first);
  EXPECT_TRUE(d.all["new"] & difference::only_in_second);
  EXPECT_TRUE(d.all["link"] & difference::contents);
  // The first of the names that is compared is as good as any: the others are told.
  EXPECT_TRUE((d.all["dir0/file0"] & difference::links) || (d.all["and_again"] & difference::links));
}

TEST_F(copy_, compare_finds_one_byte_and_one_hole) {
  test::make_file(a, std::string(1000000, 'x'));
  test::make_file(b, std::string(999999, 'x') + "y");
  differences d;
  ASSERT_TRUE(compare({}, a, {}, b, &d, {{}, difference::contents}));
  EXPECT_TRUE(d.all[""] & difference::contents);
  ::truncate(a.c_str(), 0);
  ::truncate(a.c_str(), 1000000);
  test::make_file(b, std::string(1000000, '\0'));
  EXPECT_EQ(compared(a, b, {{}, difference::contents}), "");
  EXPECT_EQ(compared(a, b, {{}, difference::contents | difference::holes}), ": holes\n");
}

TEST_F(copy_, of_a_file_is_equal_to_it) {
  test::make_file(a, std::string(100000, 'x'));
  set_time(a, 1234567890, 987654321);
  ::chmod(a.c_str(), 0640);
  for (bool const durable : {false, true}) {
    auto const r = copy({.replace = durable, .durable = durable, .verify = durable});
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_TRUE(r->is_in_place);
    EXPECT_EQ(r->bytes, 100000u);
    EXPECT_EQ(r->entries, 1u);
    EXPECT_EQ(compared(a, b), "");
    EXPECT_EQ(names(), "a b ");
  }
  ::symlink("target", (directory / "l").c_str());
  ASSERT_TRUE(clone_or_copy({}, directory / "l", {}, b, {.replace = true}));
  EXPECT_EQ(compared(directory / "l", b), "");
}

TEST_F(copy_, verified_finds_a_byte_that_was_written_wrong) {
  test::make_file(a, std::string(300000, 'x'));
  test::failing_calls calls;
  calls.fail<&table::ioctl>(EOPNOTSUPP, {.times = test::which_calls::all});
  calls.fail<&table::copy_file_range>(EXDEV, {.times = test::which_calls::all});
  calls.answer<&table::pwritev2>([](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    static_cast<char*>(v->iov_base)[v->iov_len - 1] = 'y';
    return unio::sys::kernel.pwritev2(fd, v, n, at, flags);
  });
  auto const r = copy({.verify = true});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->ended, std::errc::io_error);
  EXPECT_EQ(names(), "a ");
  EXPECT_TRUE(copy()->is_in_place);
}

// Such files say that they have a page.
TEST_F(copy_, verified_and_compare_read_files_of_sysfs_to_their_end) {
  std::string const online = "/sys/devices/system/cpu/online";
  if (::access(online.c_str(), R_OK) != 0) GTEST_SKIP() << "there is no sysfs";
  auto const r = clone_or_copy({}, online, {}, b, {.verify = true});
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_FALSE(r->ended) << r->ended.message();
  EXPECT_EQ(compared(online, b, {{}, difference::contents}), "");
  test::make_file(a, directory.read("b") + "more");
  EXPECT_EQ(compared(online, a, {{}, difference::contents}), ": contents\n");
}

TEST_F(copy_, what_is_there_is_replaced_only_if_asked) {
  test::make_file(a, "new");
  test::make_file(b, "old");
  EXPECT_EQ(copy().error(), std::errc::file_exists);
  EXPECT_EQ(directory.read("b"), "old");
  ASSERT_TRUE(copy({.replace = true})->is_in_place);
  EXPECT_EQ(directory.read("b"), "new");
  test::make_bushy(directory / "t", 2, 2, 1);
  test::make_bushy(directory / "u", 1, 5, 1);
  EXPECT_EQ(clone_or_copy({}, directory / "t", {}, directory / "u").error(), std::errc::file_exists);
  EXPECT_EQ(clone_or_copy({}, directory / "t", {}, b, {.replace = true}).error(), std::errc::not_a_directory);
  EXPECT_EQ(clone_or_copy({}, b, {}, directory / "t", {.replace = true}).error(), std::errc::is_a_directory);
  ASSERT_TRUE(clone_or_copy({}, directory / "t", {}, directory / "u", {.replace = true})->is_in_place);
  EXPECT_EQ(compared(directory / "t", directory / "u"), "");
  EXPECT_EQ(names(), "a b t u ");
}

TEST_F(copy_, refuses_to_copy_into_itself) {
  test::make_bushy(a, 1, 1, 2);
  test::make_file(directory / "f", "x");
  ::link((directory / "f").c_str(), (directory / "g").c_str());
  EXPECT_EQ(clone_or_copy({}, a, {}, a + "/dir0/dir0/b").error(), std::errc::invalid_argument);
  EXPECT_EQ(clone_or_copy({}, a, {}, a + "/b").error(), std::errc::invalid_argument);
  EXPECT_EQ(clone_or_copy({}, a, {}, a, {.replace = true}).error(), std::errc::invalid_argument);
  EXPECT_EQ(clone_or_copy({}, directory / "f", {}, directory / "g", {.replace = true}).error(),
            std::errc::invalid_argument);
  for (auto const* path : {"/", ".", "..", "a/.."})
    EXPECT_EQ(clone_or_copy(directory.handle(), "a", directory.handle(), path).error(),
              std::errc::invalid_argument);
  std::string const none = ": No such file or directory";
  EXPECT_EQ(clone_or_copy(directory.handle(), "none", directory.handle(), "b").error().message(),
            "clone_or_copy none to b" + none);
  EXPECT_EQ(unio::fs::move(directory.handle(), "none", directory.handle(), "b").error().message(),
            "move none to b" + none);
  EXPECT_EQ(unio::fs::compare(directory.handle(), "none", directory.handle(), "b").error().message(),
            "compare none to b" + none);
  EXPECT_EQ(names(), "a f g ");
}

TEST_F(copy_, its_error_names_the_path_that_is_wrong) {
  test::make_bushy(a, 1, 1, 1);
  auto const why = [&](char const* from, char const* to) {
    return clone_or_copy(directory.handle(), from, directory.handle(), to, {.replace = true})
        .error()
        .message();
  };
  EXPECT_EQ(why("a", "none/b"), "clone_or_copy none/b: No such file or directory");
  EXPECT_EQ(why("a/file0", "none/b"), "clone_or_copy none/b: No such file or directory");
  EXPECT_EQ(why("a/file0", "a/file0/b"), "clone_or_copy a/file0/b: Not a directory");
  EXPECT_EQ(why("a", "a/file0"), "clone_or_copy a/file0: Not a directory");
  EXPECT_EQ(why("a/file0", "b/"), "clone_or_copy b/: Not a directory");
  test::failing_calls calls;
  calls.fail<&table::mkdirat>(EACCES);
  EXPECT_EQ(why("a", "b"), "clone_or_copy b: Permission denied");
  calls.answer<&table::openat>([](int dir, char const* name, int flags, unsigned mode) noexcept {
    bool const is_source = std::string_view(name) == "a" || std::string_view(name) == "file0";
    return is_source ? std::int64_t{-EACCES} : unio::sys::kernel.openat(dir, name, flags, mode);
  });
  EXPECT_EQ(why("a", "b"), "clone_or_copy a to b: Permission denied");
  EXPECT_EQ(why("a/file0", "b"), "clone_or_copy a/file0 to b: Permission denied");
  EXPECT_EQ(names(), "a ");
}

TEST_F(copy_, an_early_error_leaves_nothing_that_is_in_the_way_of_the_next) {
  test::make_bushy(a, 1, 1, 1);
  for (int at = 1; at != 12; ++at) {
    {
      test::failing_calls calls;
      calls.fail<&table::openat>(EMFILE, {.at = at});
      auto const r = copy();
      if (r && r->is_in_place) (void)reduce({}, b);
    }
    EXPECT_EQ(names(), "a ") << at;
  }
}

TEST_F(copy_, the_totals_are_those_of_what_was_copied) {
  struct : tree_sink {
    void progress(tree_progress const& p) noexcept override { last = p; }
    tree_progress last;
  } sink;
  make_rich(a);
  ::mkfifo((directory / "p").c_str(), 0600);
  for (auto const* path : {"a", "a/large", "p"}) {
    auto const r = clone_or_copy(directory.handle(), path, directory.handle(), "b", {}, {}, &sink);
    ASSERT_TRUE(r && r->is_in_place) << path;
    EXPECT_TRUE(sink.last.total_is_known);
    EXPECT_EQ(sink.last.entries, r->entries) << path;
    EXPECT_EQ(sink.last.total_entries, r->entries) << path;
    EXPECT_EQ(sink.last.total_bytes, r->bytes) << path;
    EXPECT_TRUE(reduce({}, b, {.make_writable = true})->is_gone);
  }
  test::failing_calls calls;
  calls.fail<&table::copy_file_range>(ENOSPC);
  auto const r = clone_or_copy({}, a, {}, b, {{.threads = 1}}, {}, &sink);
  ASSERT_TRUE(r && !r->is_in_place);
  EXPECT_FALSE(sink.last.total_is_known) << "the rest was not looked at";
}

TEST_F(copy_, is_deep_and_needs_few_descriptors) {
  test::quick_directory const quick;
  test::make_bushy(quick / "a", 4, 2, 4);
  test::make_deep(quick / "a", test::deep / 10, true); // on its way back it needs each directory again
  test::few_descriptors const few;
  auto const r = clone_or_copy({}, quick / "a", {}, quick / "b", {{.threads = 4}});
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->failures.empty()) << r->failures[0].path << r->failures[0].what;
  EXPECT_EQ(compared(quick / "a", quick / "b"), "");
  EXPECT_TRUE(reduce({}, quick / "a")->is_gone); // rm(1) takes longer
  EXPECT_TRUE(reduce({}, quick / "b")->is_gone);
}

TEST_F(copy_, is_deeper_than_paths_and_stacks) {
  test::quick_directory const quick;
  for (auto const* name : {"a", "b"}) ::mkdir((quick / name).c_str(), 0755);
  test::make_deep(quick / "a", test::deep);
  test::few_descriptors const few;
  auto const r = clone_or_copy({}, quick / "a", {}, quick / "b", {{.threads = 2}, true});
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->failures.empty());
  EXPECT_EQ(r->entries, static_cast<unsigned>(test::deep) + 1);
  auto const c = compare({}, quick / "a", {}, quick / "b");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->differences, 0u);
  EXPECT_TRUE(c->failures.empty());
  EXPECT_EQ(c->entries, r->entries);
  EXPECT_TRUE(reduce({}, quick / "a")->is_gone);
  EXPECT_TRUE(reduce({}, quick / "b")->is_gone);
}

TEST_F(copy_, is_wide) {
  test::quick_directory const quick;
  test::make_bushy(quick / "a", 0, test::many(), 0);
  auto const r = clone_or_copy({}, quick / "a", {}, quick / "b");
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->failures.empty());
  EXPECT_EQ(r->entries, static_cast<unsigned>(test::many()) + 1);
  auto const c = compare({}, quick / "a", {}, quick / "b");
  ASSERT_TRUE(c);
  EXPECT_EQ(c->differences, 0u);
  EXPECT_EQ(c->entries, r->entries);
  auto const awaited = unio::run(co_compare({}, quick / "a", {}, quick / "b"));
  ASSERT_TRUE(awaited);
  EXPECT_EQ(awaited->differences, 0u);
  EXPECT_EQ(awaited->entries, r->entries);
}

TEST_F(copy_, what_others_forbid_to_read_is_named_and_the_rest_is_copied) {
  test::quick_directory const quick;
  test::make_bushy(quick / "a", 3, 2, 1);
  ::chmod(quick.path().c_str(), 0777);
  ::chmod((quick / "a/dir0").c_str(), 0111);
  ::chmod((quick / "a/dir1/file0").c_str(), 0200);
  EXPECT_TRUE(test::as_nobody([&] {
    auto const r = clone_or_copy({}, quick / "a", {}, quick / "b");
    std::set<std::string> failed;
    for (std::size_t i = 0; r && i != r->failures.kept(); ++i) {
      failed.emplace(r->failures[i].path);
      EXPECT_EQ(r->failures[i].why.value(), EACCES);
    }
    EXPECT_EQ(failed, (std::set<std::string>{"dir0", "dir1/file0"}));
    EXPECT_TRUE(test::exists(quick / "b/dir2/file1"));
    auto const c = compare({}, quick / "a", {}, quick / "a", nullptr);
    EXPECT_EQ(c->failures.count(), 2u);
    EXPECT_EQ(c->differences, 0u);
    return r && !HasFailure();
  }));
}

// Whatever fails: nothing has the name that is not whole, and nothing is left over.
TEST_F(copy_, an_error_of_any_call_leaves_the_old_state_or_a_whole_copy) {
  test::quick_directory const quick;
  std::string const from = quick / "a";
  std::string const to = quick / "b";
  test::make_bushy(from, 1, 2, 1);
  ::symlink("x", (from + "/l").c_str());
  ::link((from + "/file0").c_str(), (from + "/dir0/again").c_str());
  for (auto const& root : {from, from + "/file0"}) {
    for (int const error : {EIO, ENOSPC, ENOMEM, EACCES}) {
      for (int at = 1; at != 8; ++at) {
        for (int entry = 0; entry != 13; ++entry) {
          auto calls = std::make_unique<test::failing_calls>();
          calls
              ->fail_one_of<&table::openat, &table::openat2, &table::statx, &table::mkdirat, &table::pwritev2,
                            &table::copy_file_range, &table::preadv2, &table::fchmod, &table::utimensat,
                            &table::renameat, &table::getdents64, &table::linkat, &table::symlinkat>(
                  entry, error, {.at = at});
          auto const r = clone_or_copy({}, root, {}, to, {{.threads = 1}});
          calls.reset();
          std::string const what =
              std::to_string(entry) + " " + std::to_string(at) + " " + std::to_string(error);
          bool const is_there = test::exists(to);
          if (!r || !r->is_in_place) {
            EXPECT_FALSE(is_there) << what;
          } else if (r->failures.empty()) {
            std::string const same = compared(root, to, {{}, difference::contents});
            // A lost link is a copy, and a lost attribute is counted.
            EXPECT_EQ(same, "") << what;
          }
          EXPECT_FALSE(r && r->left_as[0] != '\0' && entry != 1 && entry != 0 && entry != 10) << what;
          for (auto const* path : {"b", ".b.unio-copy"}) {
            ASSERT_EQ(::system(("rm -rf " + quick.path() + "/" + path).c_str()), 0);
          }
        }
      }
    }
  }
}

// As NFS and FUSE do, whose servers have to have what was written by then.
TEST_F(copy_, no_space_when_it_is_closed_leaves_the_old_state) {
  test::make_file(a, "text");
  for (bool const replace : {false, true}) {
    test::failing_calls calls;
    calls.answer<&table::close>([](int fd) noexcept -> std::int64_t {
      bool const was_written = (::fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY;
      std::int64_t const r = unio::sys::kernel.close(fd);
      return was_written ? -ENOSPC : r;
    });
    auto const r = copy({.replace = replace});
    ASSERT_TRUE(r);
    EXPECT_EQ(r->ended, std::errc::no_space_on_device);
    EXPECT_FALSE(r->is_in_place);
    EXPECT_EQ(names(), "a ");
  }
}

TEST_F(copy_, no_space_ends_it_and_leaves_nothing) {
  ::mkdir((directory / "m").c_str(), 0755);
  if (::mount("none", (directory / "m").c_str(), "tmpfs", 0, "size=256k") != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  test::make_bushy(a, 2, 2, 1);
  test::make_file(a + "/large", std::string(1000000, 'x'));
  auto const r = clone_or_copy({}, a, {}, directory / "m/b");
  auto const s = clone_or_copy({}, a + "/large", {}, directory / "m/c");
  auto const left = std::distance(std::filesystem::directory_iterator(directory / "m"),
                                  std::filesystem::directory_iterator());
  ::umount((directory / "m").c_str());
  ASSERT_TRUE(r && s);
  EXPECT_EQ(r->ended, std::errc::no_space_on_device);
  EXPECT_EQ(s->ended, std::errc::no_space_on_device);
  EXPECT_FALSE(r->is_in_place || s->is_in_place);
  EXPECT_EQ(left, 0);
}

TEST_F(copy_, a_stop_and_a_deadline_leave_the_old_state_or_what_can_be_resumed) {
  make_rich(a);
  test::make_bushy(b, 0, 1, 0);
  struct : tree_sink {
    void progress(tree_progress const& p) noexcept override {
      if (p.entries > 3) source->request_stop();
    }
    unio::stop_source* source = nullptr;
  } sink;
  for (bool const keeps : {false, true}) {
    unio::stop_source stop;
    sink.source = &stop;
    copy_options o;
    o.stop = stop.get_token();
    o.replace = true;
    o.keep_partial = keeps;
    stop.request_stop();
    auto const r = clone_or_copy({}, a, {}, b, o, {}, &sink);
    ASSERT_TRUE(r);
    EXPECT_EQ(r->ended, condition::canceled);
    EXPECT_TRUE(test::exists(b + "/file0"));
  }
  {
    test::failing_calls calls; // ends it in the middle
    calls.fail<&table::symlinkat>(ENOSPC);
    copy_options o;
    o.replace = true;
    o.keep_partial = true;
    auto const r = copy(o);
    ASSERT_TRUE(r);
    EXPECT_EQ(r->ended, std::errc::no_space_on_device);
    EXPECT_STREQ(r->left_as, ".b.unio-copy");
    EXPECT_EQ(copy(o).error(), std::errc::connection_already_in_progress);
    o.resume = true;
    auto const s = copy(o);
    ASSERT_TRUE(s) << s.error().message();
    EXPECT_TRUE(s->is_in_place);
    EXPECT_EQ(compared(a, b), "");
    EXPECT_EQ(names(), "a b ");
  }
  EXPECT_EQ(unio::sync_wait(co_clone_or_copy({}, a, {}, directory / "c"))->is_in_place, true);
  auto const late = clone_or_copy({}, a, {}, directory / "d", {}, unio::deadline::zero());
  ASSERT_TRUE(late);
  EXPECT_EQ(late->ended, condition::timed_out);
  EXPECT_FALSE(test::exists(directory / "d"));
  (void)::chmod((directory / "c/closed").c_str(), 0755);
}

// What another process does at a call, and where.
std::string const* where;
int turn;

std::atomic<int> steps_left;
void die_at_the_step() noexcept {
  if (--steps_left == 0) ::kill(::getpid(), SIGKILL);
}

// What was replaced would otherwise be taken for what an ended copy has left.
TEST_F(copy_, killed_while_it_replaces_a_tree_is_not_continued_with_the_old_one) {
  for (int step = 1; step != 4; ++step) { // the renames
    test::make_bushy(a, 1, 1, 1);
    test::make_bushy(b, 0, 3, 0);
    test::make_file(b + "/old");
    int const status = test::in_child([&]() -> int {
      test::failing_calls calls;
      steps_left = step;
      calls.answer<&table::renameat>([](int d, char const* p, int e, char const* q, unsigned f) noexcept {
        if (--steps_left == 0) ::_exit(9);
        return unio::sys::kernel.renameat(d, p, e, q, f);
      });
      calls.answer<&table::unlinkat>([](int, char const*, int) noexcept -> std::int64_t { ::_exit(8); });
      return copy({{.threads = 1}, true}) ? 0 : 1;
    });
    EXPECT_EQ(status, step < 3 ? 9 : 8);
    EXPECT_TRUE(test::exists(b + "/old") || compared(a, b).empty()) << step;
    auto const r = copy({.replace = true, .resume = true});
    ASSERT_TRUE(r && r->is_in_place) << step;
    EXPECT_EQ(compared(a, b), "") << step;
    ASSERT_EQ(::system(("rm -rf '" + directory.path() + "'/* '" + directory.path() + "'/.[!.]*").c_str()), 0);
  }
}

TEST_F(copy_, what_cannot_be_removed_again_is_a_failure_with_its_reason) {
  make_rich(a);
  test::failing_calls calls;
  calls.fail<&table::symlinkat>(ENOSPC); // ends it in the middle
  calls.fail<&table::unlinkat>(EBUSY);
  auto const r = copy({{.threads = 1}});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->ended, std::errc::no_space_on_device);
  EXPECT_STREQ(r->left_as, ".b.unio-copy");
  ASSERT_EQ(r->failures.count(), 1u);
  EXPECT_TRUE(test::exists((directory / ".b.unio-copy/") + std::string(r->failures[0].path)));
  EXPECT_EQ(r->failures[0].what, "remove the remains");
  EXPECT_EQ(r->failures[0].reason, "in use");
  EXPECT_EQ(r->failures[0].why, std::errc::device_or_resource_busy);
  EXPECT_EQ(names(), ".b.unio-copy .b.unio-copy-of a ");
  ASSERT_EQ(::system(("rm -rf '" + (directory / ".b.unio-copy") + "'").c_str()), 0);
  test::make_bushy(b, 1, 1, 1); // and of a tree that was replaced
  calls.fail<&table::unlinkat>(EACCES);
  auto const s = copy({.replace = true});
  ASSERT_TRUE(s && s->is_in_place);
  EXPECT_TRUE(std::string_view(s->left_as).starts_with(".unio-copy-")) << s->left_as;
  EXPECT_EQ(s->failures.count(), 1u);
  EXPECT_EQ(compared(a, b), "");
}

TEST_F(copy_, of_no_tree_names_what_cannot_be_removed_again) {
  for (bool const is_file : {true, false}) {
    std::filesystem::remove(a);
    if (is_file) test::make_file(a, "new");
    if (!is_file) ::mkfifo(a.c_str(), 0600);
    test::make_file(b, "old");
    test::failing_calls calls;
    calls.fail<&table::renameat>(EPERM);
    calls.fail<&table::unlinkat>(EACCES, {.times = test::which_calls::all});
    auto const r = copy({.replace = true});
    ASSERT_TRUE(r);
    EXPECT_EQ(r->ended, std::errc::operation_not_permitted);
    EXPECT_TRUE(std::string_view(r->left_as).starts_with(".unio-copy-")) << r->left_as;
    EXPECT_EQ(names(), std::string(r->left_as) + " a b ");
    ASSERT_EQ(r->failures.count(), 1u);
    EXPECT_EQ(r->failures[0].what, "remove the remains");
    EXPECT_EQ(r->failures[0].why, std::errc::permission_denied);
    std::filesystem::remove_all(directory / r->left_as);
  }
}

// In a child with mounts of its own, from which /proc is taken.
TEST_F(copy_, removes_what_it_leaves_without_proc) {
  make_rich(a);
  test::make_bushy(b, 1, 1, 1);
  enum : int { fine, no_mounts, has_proc, not_ended, left, not_replaced };
  int const status = test::in_child([&]() -> int {
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return no_mounts;
    if (::umount2("/proc", MNT_DETACH) != 0 && ::mount("none", "/proc", "tmpfs", 0, nullptr) != 0)
      return no_mounts;
    if (::access("/proc/self/fd", F_OK) == 0) return has_proc;
    copy_options o;
    o.replace = true;
    {
      test::failing_calls calls;
      calls.fail<&table::symlinkat>(ENOSPC);
      auto const r = copy(o);
      if (!r || r->ended != std::errc::no_space_on_device) return not_ended;
      if (r->left_as[0] != '\0' || !r->failures.empty() || names() != "a b ") return left;
    }
    auto const r = copy(o);
    return r && r->is_in_place && r->failures.empty() && names() == "a b " ? fine : not_replaced;
  });
  if (status == no_mounts) GTEST_SKIP() << "this process may have no mounts of its own";
  EXPECT_EQ(status, fine);
  if (status == fine) {
    EXPECT_EQ(compared(a, b), "");
  }
}

TEST_F(copy_, keeps_attributes_of_what_is_not_opened) {
  ::mkdir(a.c_str(), 0755);
  ::symlink("/nowhere", (a + "/link").c_str());
  ::mkfifo((a + "/pipe").c_str(), 0640);
  set_time(a + "/link", 1234567890, 1);
  for (auto const* name : {"/link", "/pipe"})
    if (::lsetxattr((a + name).c_str(), "trusted.note", name, 5, 0) != 0)
      GTEST_SKIP() << "cannot set attributes of links: " << std::strerror(errno);
  auto const r = copy();
  ASSERT_TRUE(r && r->is_in_place);
  EXPECT_EQ(r->attributes_not_kept, 0u);
  EXPECT_EQ(compared(a, b), "");
  for (auto const* name : {"/link", "/pipe"}) {
    char value[8] = {};
    EXPECT_EQ(::lgetxattr((b + name).c_str(), "trusted.note", value, sizeof value), 5);
    EXPECT_STREQ(value, name);
  }
  test::failing_calls calls;
  calls.fail<&table::setxattr>(ENOTSUP);
  EXPECT_EQ(copy({.replace = true})->attributes_not_kept, 1u);
}

// Killed at its n-th call that changes something, for each n: the old state; what is left over is resumed.
TEST_F(copy_, killed_at_any_step_leaves_the_old_state_or_what_can_be_resumed) {
  test::quick_directory const quick;
  std::string const from = quick / "a";
  std::string const to = quick / "b";
  test::make_bushy(from, 1, 2, 1);
  test::make_file(from + "/large", std::string(700000, 'x'));
  ::link((from + "/file0").c_str(), (from + "/dir0/again").c_str());
  ::symlink("x", (from + "/l").c_str());
  set_time(from, 1000000000, 5);
  bool is_whole = false;
  int step = 1;
  for (; !is_whole && step < 500; ++step) {
    pid_t const child = ::fork();
    if (child == 0) {
      test::failing_calls calls;
      steps_left = step;
      calls.answer<&table::openat>([](int d, char const* p, int f, unsigned m) noexcept {
        if ((f & O_CREAT) != 0) die_at_the_step();
        return unio::sys::kernel.openat(d, p, f, m);
      });
      calls.answer<&table::mkdirat>([](int d, char const* p, unsigned m) noexcept {
        die_at_the_step();
        return unio::sys::kernel.mkdirat(d, p, m);
      });
      calls.answer<&table::copy_file_range>(
          [](int in, std::int64_t* x, int out, std::int64_t* y, std::size_t n, unsigned f) noexcept {
            die_at_the_step();
            return unio::sys::kernel.copy_file_range(in, x, out, y, n < 100000 ? n : 100000, f);
          });
      calls.answer<&table::linkat>([](int d, char const* p, int e, char const* q, int f) noexcept {
        die_at_the_step();
        return unio::sys::kernel.linkat(d, p, e, q, f);
      });
      calls.answer<&table::symlinkat>([](char const* t, int d, char const* p) noexcept {
        die_at_the_step();
        return unio::sys::kernel.symlinkat(t, d, p);
      });
      calls.answer<&table::fchmod>([](int fd, unsigned m) noexcept {
        die_at_the_step();
        return unio::sys::kernel.fchmod(fd, m);
      });
      calls.answer<&table::utimensat>([](int d, char const* p, timespec const* t, int f) noexcept {
        die_at_the_step();
        return unio::sys::kernel.utimensat(d, p, t, f);
      });
      calls.answer<&table::renameat>([](int d, char const* p, int e, char const* q, unsigned f) noexcept {
        die_at_the_step();
        return unio::sys::kernel.renameat(d, p, e, q, f);
      });
      auto const r = clone_or_copy({}, from, {}, to, {{.threads = 1}});
      ::_exit(r && r->is_in_place ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    is_whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ASSERT_EQ(test::exists(to), is_whole) << step;
    if (is_whole) break;
    auto const r = clone_or_copy({}, from, {}, to, {{.threads = 1}, false, false, false, true});
    ASSERT_TRUE(r) << step << r.error().message();
    ASSERT_TRUE(r->is_in_place && r->failures.empty()) << step << r->ended.message();
    ASSERT_EQ(compared(from, to), "") << step;
    ASSERT_EQ(::system(("rm -rf '" + to + "'").c_str()), 0);
  }
  EXPECT_GT(step, 20);
  EXPECT_EQ(compared(from, to), "");
}

// Killed at its n-th rename or removal, for each n, and moved again: no part of a source replaces the copy.
TEST_F(copy_, moved_again_after_a_kill_is_whole) {
  std::string const same = directory / "same";
  test::make_bushy(same, 2, 1, 1);
  bool is_done = false;
  int step = 1;
  for (; !is_done && step < 100; ++step) {
    ASSERT_TRUE(clone_or_copy({}, same, {}, a));
    pid_t const child = ::fork();
    if (child == 0) {
      test::failing_calls calls;
      turn = 0;
      steps_left = step;
      calls.answer<&table::renameat>(
          [](int d, char const* p, int e, char const* q, unsigned f) noexcept -> std::int64_t {
            if (turn++ == 0) return -EXDEV; // as between filesystems
            die_at_the_step();
            return unio::sys::kernel.renameat(d, p, e, q, f);
          });
      calls.answer<&table::unlinkat>([](int d, char const* p, int f) noexcept {
        die_at_the_step();
        return unio::sys::kernel.unlinkat(d, p, f);
      });
      auto const r = unio::fs::move({}, a, {}, b, {{.threads = 1}});
      ::_exit(r && r->failures.empty() ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    is_done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    ASSERT_TRUE(is_done || WIFSIGNALED(status)) << step;
    auto const r = unio::fs::move({}, a, {}, b, {.replace = true, .resume = true});
    ASSERT_TRUE(r || r.error() == std::errc::no_such_file_or_directory) << step << r.error().message();
    ASSERT_EQ(compared(same, b), "") << step;
    ASSERT_EQ(::system(("cd '" + directory.path() + "' && rm -rf a b .[!.]*").c_str()), 0);
  }
  EXPECT_GT(step, 10);
}

// Another thread exchanges directories of the source and links to a directory outside of it.
TEST_F(copy_, copies_nothing_from_outside_while_others_exchange_directories_and_links) {
  test::make_bushy(a, 3, 2, 2);
  test::make_bushy(directory / "outside", 3, 1, 2);
  test::make_file(directory / "outside/canary");
  for (int i = 0; i != 3; ++i)
    ::symlink((directory / "outside").c_str(), (a + "/link" + std::to_string(i)).c_str());
  std::atomic<bool> done = false;
  std::thread attacker([&] {
    for (int i = 0; !done; ++i)
      ::renameat2(AT_FDCWD, (a + "/dir" + std::to_string(i % 3)).c_str(), AT_FDCWD,
                  (a + "/link" + std::to_string(i % 3)).c_str(), RENAME_EXCHANGE);
  });
  for (int i = 0; i != 40; ++i) {
    auto const r = copy({.replace = true, .allow_incomplete = true});
    EXPECT_TRUE(r && !r->ended) << (r ? r->ended.message() : r.error().message());
    for (auto const& e : std::filesystem::recursive_directory_iterator(b))
      EXPECT_NE(e.path().filename(), "canary");
  }
  done = true;
  attacker.join();
}

TEST_F(copy_, a_file_that_cannot_be_read_is_reported_and_the_rest_is_copied) {
  make_rich(a);
  test::failing_calls calls;
  calls.fail<&table::copy_file_range>(EIO, {.at = 1});
  calls.fail<&table::ioctl>(EOPNOTSUPP, {.times = test::which_calls::all});
  auto const r = copy({{.threads = 1}});
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_in_place);
  ASSERT_EQ(r->failures.count(), 1u);
  EXPECT_EQ(r->failures[0].why, std::errc::io_error);
  EXPECT_FALSE(test::exists(b + "/" + std::string(r->failures[0].path)));
}

TEST_F(copy_, move_renames_or_copies_and_removes) {
  make_rich(a);
  auto const r = unio::fs::move({}, a, {}, b);
  ASSERT_TRUE(r);
  EXPECT_EQ(r->entries, 0u);
  EXPECT_EQ(names(), "b ");
  test::make_file(directory / "f", "x");
  EXPECT_EQ(unio::fs::move({}, directory / "f", {}, b).error(), std::errc::file_exists);
  test::quick_directory const other;
  struct stat s{};
  struct stat t{};
  ::stat(other.path().c_str(), &s);
  ::stat(b.c_str(), &t);
  if (s.st_dev == t.st_dev) GTEST_SKIP() << "no second filesystem";
  ASSERT_TRUE(clone_or_copy({}, b, {}, directory / "same"));
  auto const m = unio::sync_wait(co_move({}, b, {}, other / "b"));
  ASSERT_TRUE(m) << m.error().message();
  EXPECT_TRUE(m->is_in_place);
  EXPECT_TRUE(m->failures.empty()) << m->failures[0].path << m->failures[0].why.message();
  EXPECT_EQ(names(), "f same ");
  EXPECT_EQ(compared(directory / "same", other / "b"), "");
  (void)::chmod((directory / "same/closed").c_str(), 0755);
}

// What filesystems say of a directory that is not empty, XFS the latter.
TEST_F(copy_, move_replaces_a_tree_if_asked) {
  for (int const error : {ENOTEMPTY, EEXIST}) {
    test::make_bushy(a, 1, 1, 1);
    test::make_bushy(b, 2, 2, 1);
    test::failing_calls calls;
    calls.fail<&table::renameat>(error);
    auto const r = unio::fs::move({}, a, {}, b, {.replace = true});
    ASSERT_TRUE(r) << error << r.error().message();
    EXPECT_TRUE(r->is_in_place && r->failures.empty()) << error;
    EXPECT_EQ(names(), "b ");
    EXPECT_FALSE(test::exists(b + "/dir1"));
    ASSERT_EQ(::system(("rm -r '" + b + "'").c_str()), 0);
  }
}

TEST_F(copy_, of_a_tree_replaces_nothing_that_it_is_in) {
  test::make_bushy(a, 1, 1, 3);
  ASSERT_TRUE(copy());
  ::symlink("a/dir0", (directory / "l").c_str());
  for (std::string const& from : {a + "/dir0", a + "/dir0/dir0", directory / "l/dir0"}) {
    EXPECT_EQ(clone_or_copy({}, from, {}, a, {.replace = true}).error(), std::errc::invalid_argument) << from;
    EXPECT_EQ(unio::fs::move({}, from, {}, a, {.replace = true}).error(), std::errc::invalid_argument)
        << from;
  }
  EXPECT_EQ(compared(a, b), "");
  EXPECT_EQ(names(), "a b l ");
}

// ".." does not lead from the mount to the rest of the tree.
TEST_F(copy_, of_a_tree_seen_through_a_mount_replaces_nothing_that_it_is_in) {
  test::make_bushy(a, 1, 1, 3);
  ASSERT_TRUE(copy());
  std::string const m = directory / "m";
  ::mkdir(m.c_str(), 0755);
  if (::mount((a + "/dir0").c_str(), m.c_str(), nullptr, MS_BIND, nullptr) != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  std::string refused;
  for (std::string const& from : {m, m + "/dir0"})
    refused += clone_or_copy({}, from, {}, a, {.replace = true}).error().code().message() + "; ";
  refused += unio::fs::move({}, m + "/dir0", {}, a, {.replace = true}).error().code().message();
  test::make_bushy(directory / "c", 1, 1, 1);
  auto const other = clone_or_copy({}, m + "/dir0", {}, directory / "c", {.replace = true});
  ::umount(m.c_str());
  EXPECT_EQ(refused, "Invalid argument; Invalid argument; Invalid argument");
  EXPECT_TRUE(other && other->is_in_place);
  EXPECT_EQ(compared(a, b), "");
  EXPECT_EQ(names(), "a b c m ");
}

TEST_F(copy_, move_removes_nothing_that_has_taken_the_place_of_its_source) {
  test::make_file(a, "old");
  where = &a;
  turn = 0;
  test::failing_calls calls;
  calls.fail<&table::renameat>(EXDEV); // as between filesystems
  calls.answer<&table::utimensat>([](int dir, char const* path, timespec const* times, int flags) noexcept {
    if (turn++ == 0) {
      test::make_file(*where + ".new", "new");
      ::rename((*where + ".new").c_str(), where->c_str());
    }
    return unio::sys::kernel.utimensat(dir, path, times, flags);
  });
  expect_move_to_leave_the_source();
  EXPECT_EQ(directory.read("a"), "new");
  EXPECT_EQ(directory.read("b"), "old");
}

TEST_F(copy_, move_removes_no_file_that_was_written_to_since_it_was_copied) {
  test::make_file(a, "old");
  where = &a;
  turn = 0;
  test::failing_calls calls;
  calls.fail<&table::renameat>(EXDEV); // as between filesystems
  calls.answer<&table::utimensat>([](int dir, char const* path, timespec const* times, int flags) noexcept {
    if (turn++ == 0) std::ofstream(*where, std::ios::app) << " and new";
    return unio::sys::kernel.utimensat(dir, path, times, flags);
  });
  expect_move_to_leave_the_source();
  EXPECT_EQ(directory.read("a"), "old and new");
  EXPECT_EQ(directory.read("b"), "old");
}

// Between the copy of its first name, which is then removed, and that of the others.
TEST_F(copy_, move_removes_no_name_of_a_file_that_was_written_to_since_another_was_copied) {
  ::mkdir(a.c_str(), 0755);
  test::make_file(a + "/1", "old");
  for (char const* const name : {"/2", "/3"}) ::link((a + "/1").c_str(), (a + name).c_str());
  where = &a;
  turn = 0;
  test::failing_calls calls;
  calls.fail<&table::renameat>(EXDEV); // as between filesystems
  calls.answer<&table::utimensat>([](int to, char const* path, timespec const* times, int flags) noexcept {
    std::string const first =
        *where + "/" +
        std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(to)).filename().string();
    if (turn++ == 0) {
      std::ofstream(first, std::ios::app) << " and new";
      ::unlink(first.c_str());
    }
    return unio::sys::kernel.utimensat(to, path, times, flags);
  });
  auto const r = unio::fs::move({}, a, {}, b);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_TRUE(r->is_in_place);
  ASSERT_EQ(r->failures.count(), 2u);
  int left = 0;
  for (auto const& e : std::filesystem::directory_iterator(a)) {
    EXPECT_EQ(directory.read("a/" + e.path().filename().string()), "old and new");
    ++left;
  }
  EXPECT_EQ(left, 2);
}

// Between the last look at it and its removal.
TEST_F(copy_, move_removes_no_file_that_takes_the_place_of_its_source_in_the_end) {
  test::make_file(a, "old");
  where = &a;
  turn = 0;
  test::failing_calls calls;
  static constexpr auto exchange = [] {
    test::make_file(*where + ".new", "new");
    ::rename((*where + ".new").c_str(), where->c_str());
  };
  calls.answer<&table::renameat>(
      [](int in, char const* from, int out, char const* to, unsigned flags) noexcept -> std::int64_t {
        if (turn++ == 0) return -EXDEV; // as between filesystems
        if (std::string_view(to).starts_with(".unio-moved-")) exchange();
        return unio::sys::kernel.renameat(in, from, out, to, flags);
      });
  calls.answer<&table::unlinkat>([](int in, char const* name, int flags) noexcept {
    if (std::string_view(name) == "a") exchange();
    return unio::sys::kernel.unlinkat(in, name, flags);
  });
  expect_move_to_leave_the_source();
  EXPECT_EQ(directory.read("a"), "new");
  EXPECT_EQ(directory.read("b"), "old");
  EXPECT_EQ(names(), "a b ");
}

TEST_F(copy_, move_leaves_what_others_write_into_a_tree_after_it_was_copied) {
  test::make_bushy(a, 2, 2, 2);
  ::symlink("file0", (a + "/link").c_str());
  test::make_bushy(directory / "same", 2, 2, 2);
  where = &a;
  turn = 0;
  test::failing_calls calls;
  calls.fail<&table::renameat>(EXDEV);               // as between filesystems
  calls.answer<&table::syncfs>([](int fd) noexcept { // the copy is whole
    std::ofstream(*where + "/file1", std::ios::app) << " and more";
    test::make_file(*where + "/dir0/new", "new");
    test::make_bushy(*where + "/dir1/more", 0, 1, 0);
    ::symlink("/other", (*where + "/other").c_str());
    ::rename((*where + "/other").c_str(), (*where + "/link").c_str());
    return unio::sys::kernel.syncfs(fd);
  });
  auto const r = unio::fs::move({}, a, {}, b);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_TRUE(r->is_in_place);
  std::map<std::string, int> failed;
  for (std::size_t i = 0; i != r->failures.kept(); ++i)
    failed[std::string(r->failures[i].path)] = r->failures[i].why.value();
  EXPECT_EQ(failed,
            (std::map<std::string, int>{
                {"dir0/new", ESTALE}, {"dir1/more/file0", ESTALE}, {"file1", ESTALE}, {"link", ESTALE}}));
  EXPECT_EQ(r->failures.count(), 4u);
  std::set<std::string> left;
  for (auto const& e : std::filesystem::recursive_directory_iterator(a))
    if (!e.is_directory()) left.insert(e.path().lexically_relative(a));
  EXPECT_EQ(left, (std::set<std::string>{"dir0/new", "dir1/more/file0", "file1", "link"}));
  EXPECT_EQ(directory.read("a/file1"), "text and more");
  ::unlink((b + "/link").c_str());
  EXPECT_EQ(::system(("diff -r '" + (directory / "same") + "' '" + b + "'").c_str()), 0);
}

// On a filesystem whose times go by the ticks of a clock, as all do before Linux 6.13: what is as long as
// before has its time as well.
// As large as what it replaces, and as old: unpacked files and full segments of logs often are.
TEST_F(copy_, move_leaves_what_others_rename_to_what_was_copied) {
  test::make_bushy(a, 0, 2, 0);
  std::string const other = directory / "other";
  for (std::string const& file : {a + "/file0", other}) {
    test::make_file(file, file == other ? "new" : "old");
    ::truncate(file.c_str(), 3);
    set_time(file, 1000000000, 0);
  }
  ::link((a + "/file1").c_str(), (a + "/again").c_str());
  where = &a;
  test::failing_calls calls;
  calls.fail<&table::renameat>(EXDEV);               // as between filesystems
  calls.answer<&table::syncfs>([](int fd) noexcept { // the copy is whole
    ::rename((*where + "/../other").c_str(), (*where + "/file0").c_str());
    return unio::sys::kernel.syncfs(fd);
  });
  expect_move_to_leave_the_source();
  EXPECT_EQ(directory.read("a/file0"), "new");
  EXPECT_EQ(names(), "a b ");
  EXPECT_FALSE(test::exists(a + "/file1") || test::exists(a + "/again"));
}

TEST_F(copy_, move_leaves_what_others_write_within_a_tick_of_the_clock) {
  std::string const ram = directory / "ram";
  ::mkdir(ram.c_str(), 0755);
  if (::mount("none", ram.c_str(), "ramfs", 0, nullptr) != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  std::string const from = ram + "/a", to = ram + "/b";
  where = &from;
  int lost = 0;
  for (int i = 0; i != 20; ++i) {
    ::mkdir(from.c_str(), 0755);
    test::make_file(from + "/file", "old");
    test::failing_calls calls;
    calls.fail<&table::renameat>(EXDEV);               // as between filesystems
    calls.answer<&table::syncfs>([](int fd) noexcept { // the copy is whole
      int const file = ::open((*where + "/file").c_str(), O_WRONLY | O_CLOEXEC);
      (void)!::pwrite(file, "new", 3, 0);
      ::close(file);
      return unio::sys::kernel.syncfs(fd);
    });
    auto const r = unio::fs::move({}, from, {}, to);
    EXPECT_TRUE(r && r->is_in_place);
    for (std::string const& found : {from, to}) {
      std::ifstream file(found + "/file");
      std::string text;
      file >> text;
      if (text == "new") --lost;
    }
    ++lost;
    std::filesystem::remove_all(from);
    std::filesystem::remove_all(to);
  }
  ::umount(ram.c_str());
  EXPECT_EQ(lost, 0);
}

TEST_F(copy_, of_what_is_in_layers_is_equal_to_it) {
  test::quick_directory const quick; // not on an overlay itself
  for (auto const* name : {"lower", "upper", "work", "merged"}) ::mkdir((quick / name).c_str(), 0755);
  make_rich(quick / "lower/a");
  std::string const layers =
      "lowerdir=" + (quick / "lower") + ",upperdir=" + (quick / "upper") + ",workdir=" + (quick / "work");
  std::string const merged = quick / "merged";
  if (::mount("overlay", merged.c_str(), "overlay", 0, layers.c_str()) != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  test::make_file(merged + "/a/dir1/new", "in the upper layer");
  auto const r = clone_or_copy({}, merged + "/a", {}, merged + "/b");
  std::string const same = compared(merged + "/a", merged + "/b");
  ::umount(merged.c_str());
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_in_place && r->failures.empty());
  EXPECT_EQ(same, "");
}

// A rename brings a file of the lower layer up, where it may have another number.
TEST_F(copy_, move_takes_all_from_layers_on_two_filesystems) {
  test::quick_directory const quick;
  for (auto const* name : {"upper", "work", "merged", "same"}) ::mkdir((quick / name).c_str(), 0755);
  ::mkdir((directory / "lower").c_str(), 0755);
  make_rich(directory / "lower/a");
  make_rich(directory / "lower/gone");
  std::string const merged = quick / "merged";
  std::string const layers =
      "lowerdir=" + (directory / "lower") + ",upperdir=" + (quick / "upper") + ",workdir=" + (quick / "work");
  if (::mount("overlay", merged.c_str(), "overlay", 0, layers.c_str()) != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  auto const file = unio::fs::move({}, merged + "/a/large", {}, directory / "large");
  bool const file_is_gone = !test::exists(merged + "/a/large");
  auto const pipe = unio::fs::move({}, merged + "/a/pipe", {}, directory / "pipe");
  test::make_file(merged + "/a/dir1/new", "in the upper layer");
  bool const is_copied = clone_or_copy({}, merged + "/a", {}, quick / "same/a").has_value();
  auto const tree = unio::fs::move({}, merged + "/a", {}, directory / "moved");
  bool const tree_is_gone = !test::exists(merged + "/a");
  EXPECT_EQ(::system(("rm -r '" + merged + "/gone/dir0' && mkdir '" + merged + "/gone/dir0'").c_str()), 0);
  ::umount(merged.c_str());
  EXPECT_TRUE(file && file->failures.empty() && file_is_gone) << file->failures[0].why.message();
  EXPECT_TRUE(pipe && pipe->failures.empty());
  EXPECT_TRUE(tree && tree->failures.empty() && tree_is_gone) << tree->failures[0].path;
  EXPECT_TRUE(is_copied);
  EXPECT_EQ(compared(quick / "same/a", directory / "moved"), "");
  // The layer itself: what it has of removed names and replaced directories belongs to it.
  ASSERT_TRUE(clone_or_copy({}, quick / "upper", {}, quick / "same/upper"));
  auto const layer = unio::fs::move({}, quick / "upper", {}, directory / "upper");
  ASSERT_TRUE(layer);
  bool const is_whole = layer->failures.empty();
  EXPECT_EQ(compared(quick / "same/upper", is_whole ? directory / "upper" : quick / "upper"), "");
  for (auto const* name : {"lower/a", "lower/gone", "moved"})
    (void)::chmod((directory / name + std::string("/closed")).c_str(), 0755);
}

// What it says to share storage where the process may give no file that size: an errno.
int shared_beyond_the_largest_size(std::string const& from, std::string const& to) {
  rlimit const few{4096, RLIM_INFINITY};
  unio::sys::extents_copy c;
  c.from = ::open(from.c_str(), O_RDONLY | O_CLOEXEC);
  c.to = ::open(to.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  c.to_at = 65536;
  return ::setrlimit(RLIMIT_FSIZE, &few) == 0 ? -copy_extents(c) : 0;
}

// On filesystems of a loop device, where this may mount them.
TEST_F(copy_, is_equal_on_every_filesystem) {
  struct kind {
    char const* name;
    char const* make;
    copy_method method;
  };
  std::string tried;
  for (kind const& k : {kind{"ext4", "mkfs.ext4 -q -F", copy_method::buffered},
                        kind{"xfs", "mkfs.xfs -q -m reflink=1", copy_method::cloned},
                        kind{"btrfs", "mkfs.btrfs -q", copy_method::cloned}}) {
    std::string const image = directory / "image";
    std::string const m = directory / "m";
    ::mkdir(m.c_str(), 0755);
    std::ofstream(image).flush();
    std::filesystem::resize_file(image, std::uintmax_t{400} << 20);
    std::string const mount = std::string(k.make) + " " + image + " >/dev/null 2>&1 && mount -o loop " +
                              image + " " + m + " 2>/dev/null";
    if (::geteuid() == 0 && ::system(mount.c_str()) == 0) {
      make_rich(m + "/a");
      auto const r = clone_or_copy({}, m + "/a", {}, m + "/b", {.durable = true, .verify = true});
      EXPECT_TRUE(r && r->is_in_place && r->failures.empty()) << k.name;
      if (r && k.method == copy_method::cloned) {
        EXPECT_EQ(r->method, copy_method::cloned) << k.name;
        EXPECT_EQ(r->shared_bytes, r->bytes);
        EXPECT_EQ(in_child([&] { return shared_beyond_the_largest_size(m + "/a/large", m + "/to"); }), EFBIG)
            << k.name << ": SIGXFSZ";
      }
      EXPECT_EQ(compared(m + "/a", m + "/b"), "") << k.name;
      auto const moved = unio::fs::move({}, m + "/a", {}, m + "/b", {.replace = true});
      EXPECT_TRUE(moved && moved->is_in_place && !test::exists(m + "/a")) << k.name;
      EXPECT_EQ(::system(("umount " + m).c_str()), 0);
      tried += std::string(k.name) + " ";
    }
    ::unlink(image.c_str());
    ::rmdir(m.c_str());
  }
  if (tried.empty()) GTEST_SKIP() << "needs root, loop devices and mkfs";
  RecordProperty("tried", tried);
  std::printf("tried: %s\n", tried.c_str());
}

// ── what others do meanwhile ─────────────────────────────────────────────────────────────────────────────

TEST_F(copy_, of_a_tree_is_whole_without_what_is_removed_from_the_source_since_it_was_listed) {
  test::make_bushy(a, 2, 2, 1);
  where = &a;
  turn = 0;
  test::failing_calls calls;
  calls.answer<&table::getdents64>([](int fd, void* to, std::size_t n) noexcept {
    auto const got = unio::sys::kernel.getdents64(fd, to, n);
    if (turn++ == 0) (void)::system(("rm -r '" + *where + "/dir0' '" + *where + "/file0'").c_str());
    return got;
  });
  auto const r = copy({{.threads = 1}});
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_in_place && r->failures.empty() && r->missing == 0) << r->failures[0].path;
  EXPECT_EQ(compared(a, b, {{}, difference::contents}), "");
}

TEST_F(copy_, replaces_nothing_of_another_process_where_a_filesystem_has_no_flags) {
  test::make_file(a, "mine");
  where = &b;
  test::failing_calls calls;
  calls.answer<&table::openat>([](int d, char const* p, int f, unsigned m) noexcept -> std::int64_t {
    return (f & O_TMPFILE) == O_TMPFILE ? -EOPNOTSUPP : unio::sys::kernel.openat(d, p, f, m);
  });
  calls.answer<&table::renameat>([](int d, char const* p, int e, char const* q, unsigned f) noexcept {
    if (f != 0) return std::int64_t{-EINVAL};
    test::make_file(*where, "theirs");
    return unio::sys::kernel.renameat(d, p, e, q, f);
  });
  calls.answer<&table::linkat>([](int d, char const* p, int e, char const* q, int f) noexcept {
    test::make_file(*where, "theirs");
    return unio::sys::kernel.linkat(d, p, e, q, f);
  });
  auto const r = copy();
  ASSERT_TRUE(r);
  EXPECT_FALSE(r->is_in_place);
  EXPECT_EQ(r->ended, std::errc::file_exists);
  EXPECT_EQ(directory.read("b"), "theirs");
  EXPECT_EQ(names(), "a b ");
}

// open(2) with O_NONBLOCK: EWOULDBLOCK.
TEST_F(copy_, waits_for_a_file_of_which_another_process_has_a_lease) {
  test::make_bushy(a, 0, 2, 0);
  static std::atomic<int> refused;
  test::failing_calls calls;
  calls.answer<&table::openat>([](int d, char const* p, int f, unsigned m) noexcept -> std::int64_t {
    bool const is_leased = std::string_view(p).ends_with("file0") && (f & (O_PATH | O_CREAT)) == 0;
    if (is_leased && --refused >= 0) return -EAGAIN;
    return unio::sys::kernel.openat(d, p, f, m);
  });
  refused = 3;
  auto const r = copy();
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_in_place && r->failures.empty());
  refused = 3;
  EXPECT_EQ(compared(a, b), "");
  refused = 3;
  EXPECT_TRUE(clone_or_copy({}, a + "/file0", {}, directory / "c")->is_in_place);
  refused = std::numeric_limits<int>::max();
  auto const s = clone_or_copy({}, a + "/file0", {}, directory / "d", {}, 20ms);
  ASSERT_TRUE(s);
  EXPECT_EQ(s->ended, unio::condition::timed_out);
  EXPECT_EQ(compare({}, a + "/file0", {}, b + "/file0", nullptr, {}, 20ms)->ended,
            unio::condition::timed_out);
  EXPECT_EQ(names(), "a b c ");
}

// vfat, SMB, sshfs, NFS for root.
TEST_F(copy_, works_where_all_files_belong_to_another_user) {
  test::make_bushy(a, 1, 2, 1);
  ::symlink("x", (a + "/link").c_str());
  static constexpr unsigned other = 4321;
  auto const to_other = [](test::failing_calls& calls) {
    calls.answer<&table::fstat>([](int fd, struct stat* s) noexcept {
      auto const r = unio::sys::kernel.fstat(fd, s);
      s->st_uid = other;
      return r;
    });
    calls.answer<&table::statx>([](int d, char const* p, int f, unsigned m, struct statx* s) noexcept {
      auto const r = unio::sys::kernel.statx(d, p, f, m, s);
      s->stx_uid = other;
      return r;
    });
    calls.fail<&table::fchownat>(EPERM, {.times = test::which_calls::all});
  };
  {
    test::failing_calls calls;
    to_other(calls);
    calls.fail<&table::symlinkat>(ENOSPC);
    auto const r = copy({.resume = true, .keep_partial = true});
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_EQ(r->ended, std::errc::no_space_on_device);
  }
  {
    test::failing_calls calls;
    to_other(calls);
    auto const r = copy({.resume = true});
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_TRUE(r->is_in_place && r->failures.empty());
    EXPECT_NE(r->unchanged, 0u);
    EXPECT_TRUE(clone_or_copy({}, a + "/link", {}, directory / "link")->is_in_place);
    EXPECT_EQ(names(), "a b link ");
  }
  EXPECT_EQ(compared(a, b), "");
}

TEST_F(copy_, puts_trees_and_files_in_place_without_flags_and_moves_without_copying) {
  make_rich(a);
  test::failing_calls calls;
  calls.answer<&table::renameat>([](int d, char const* p, int e, char const* q, unsigned f) noexcept {
    return f != 0 ? std::int64_t{-EINVAL} : unio::sys::kernel.renameat(d, p, e, q, f);
  });
  ASSERT_TRUE(copy()->is_in_place);
  EXPECT_EQ(compared(a, b), "");
  ASSERT_TRUE(copy({.replace = true})->is_in_place);
  EXPECT_EQ(compared(a, b), "");
  EXPECT_EQ(copy().error(), std::errc::file_exists);
  test::make_file(directory / "f", "x");
  struct stat before{};
  struct stat after{};
  ::stat((directory / "f").c_str(), &before);
  EXPECT_EQ(unio::fs::move({}, directory / "f", {}, b).error(), std::errc::file_exists);
  ASSERT_TRUE(unio::fs::move({}, directory / "f", {}, directory / "g")->is_in_place);
  ::stat((directory / "g").c_str(), &after);
  EXPECT_EQ(before.st_ino, after.st_ino);
  // Nor are there links.
  calls.fail<&table::linkat>(EPERM, {.times = test::which_calls::all});
  EXPECT_EQ(unio::fs::move({}, directory / "g", {}, b).error(), std::errc::file_exists);
  ASSERT_TRUE(unio::fs::move({}, directory / "g", {}, directory / "h")->is_in_place);
  EXPECT_EQ(directory.read("h"), "x");
  EXPECT_EQ(names(), "a b h ");
}

// Another user who may change the directory, but not enter one that only its owner may.
void exchange_for_a_link() noexcept {
  for (auto const& e : std::filesystem::directory_iterator(std::filesystem::path(*where).parent_path())) {
    if (!e.path().filename().string().starts_with(".unio-copy-") || e.is_directory()) continue;
    ::unlink(e.path().c_str());
    ::symlink(where->c_str(), e.path().c_str());
  }
}

TEST_F(copy_, of_a_fifo_changes_nothing_else_whatever_takes_its_name) {
  std::string const victim = directory / "victim";
  test::make_file(victim, "secret");
  ::chmod(victim.c_str(), 0600);
  ::mkfifo(a.c_str(), 0600);
  ::chmod(a.c_str(), 0777);
  where = &victim;
  test::failing_calls calls;
  calls.answer<&table::fchownat>([](int d, char const* p, unsigned o, unsigned g, int f) noexcept {
    auto const r = unio::sys::kernel.fchownat(d, p, o, g, f);
    exchange_for_a_link();
    return r;
  });
  (void)copy();
  struct stat s{};
  ASSERT_EQ(::stat(victim.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0600u);
  EXPECT_EQ(compared(a, b), "");
}

// Where a call for the mode without following a link is refused, or not known.
TEST_F(copy_, of_a_fifo_has_its_mode_on_older_systems) {
  ::mkfifo(a.c_str(), 0600);
  ::chmod(a.c_str(), 0640);
  for (int const error : {ENOSYS, EPERM}) {
    test::failing_calls calls;
    calls.fail<&table::fchmodat2>(error);
    ASSERT_TRUE(copy({.replace = true})->is_in_place);
    EXPECT_EQ(calls.failures<&table::fchmodat2>(), 1);
    EXPECT_EQ(compared(a, b), "");
  }
}

// ── metadata ─────────────────────────────────────────────────────────────────────────────────────────────

// What linux/posix_acl_xattr.h describes: all rights for one more user.
struct acl_of_one {
  struct entry {
    std::uint16_t tag, rights;
    std::uint32_t id;
  };
  explicit acl_of_one(std::uint16_t owner)
      : entries{{1, owner, ~0U}, {2, 7, 65534}, {4, 5, ~0U}, {16, 7, ~0U}, {32, 5, ~0U}} {}
  std::uint32_t version = 2;
  entry entries[5];
};

TEST_F(copy_, inherits_no_acl_that_its_source_does_not_have) {
  acl_of_one const acl(7);
  std::string const in = directory / "in";
  ::mkdir(in.c_str(), 0755);
  if (::setxattr(in.c_str(), "system.posix_acl_default", &acl, sizeof acl, 0) != 0)
    GTEST_SKIP() << "no ACLs here: " << std::strerror(errno);
  test::make_bushy(a, 1, 1, 1);
  ::mkfifo((a + "/pipe").c_str(), 0640);
  ::chmod((a + "/file0").c_str(), 0640);
  ASSERT_TRUE(clone_or_copy({}, a, {}, in + "/tree")->failures.empty());
  ASSERT_TRUE(clone_or_copy({}, a + "/file0", {}, in + "/file")->failures.empty());
  ASSERT_TRUE(clone_or_copy({}, a + "/pipe", {}, in + "/pipe")->failures.empty());
  for (auto const* name :
       {"/tree", "/tree/file0", "/tree/pipe", "/tree/dir0", "/tree/dir0/file0", "/file", "/pipe"})
    for (auto const* which : {"system.posix_acl_access", "system.posix_acl_default"})
      EXPECT_LT(::getxattr((in + name).c_str(), which, nullptr, 0), 0) << name << which;
  EXPECT_EQ(compared(a, in + "/tree"), "");
  EXPECT_EQ(compared(a + "/file0", in + "/file"), "");
  EXPECT_EQ(compared(a + "/pipe", in + "/pipe"), "");
}

// Only root may set attributes of what may not be written, and an ACL takes its rights from the owner, too.
TEST_F(copy_, keeps_attributes_of_what_its_owner_may_not_write) {
  acl_of_one const acl(4);
  ::chmod(directory.path().c_str(), 0777);
  ::mkdir(a.c_str(), 0755);
  for (auto const* name : {"file", "with_acl"}) test::make_file(a + "/" + name, "x");
  ::mkdir((a + "/directory").c_str(), 0755);
  for (auto const* name : {"/file", "/with_acl", "/directory", ""})
    if (::setxattr((a + name).c_str(), "user.a", "value", 5, 0) != 0)
      GTEST_SKIP() << "no attributes here: " << std::strerror(errno);
  (void)::setxattr((a + "/with_acl").c_str(), "system.posix_acl_access", &acl, sizeof acl, 0);
  ::chmod((a + "/file").c_str(), 0444);
  ::chmod((a + "/directory").c_str(), 0555);
  if (::geteuid() == 0) {
    ASSERT_EQ(::system(("chown -R 65534 '" + a + "'").c_str()), 0);
  }
  for (auto const* name : {"", "/file"})
    EXPECT_TRUE(test::as_nobody([&] {
      auto const r = clone_or_copy({}, a + name, {}, b);
      return r && r->is_in_place && r->attributes_not_kept == 0 && r->failures.empty() &&
             compared(a + name, b).empty() && reduce({}, b, {.make_writable = true})->is_gone;
    })) << name;
}

// The mode of what has an ACL says what that gives anyone, and not only the group.
TEST_F(copy_, gives_the_group_no_more_where_an_acl_is_refused) {
  acl_of_one const acl(7);
  test::make_bushy(a, 1, 1, 1);
  ::mkfifo((a + "/pipe").c_str(), 0600);
  std::string const all[] = {"", "/file0", "/pipe", "/dir0"};
  for (std::string const& name : all) {
    ::chmod((a + name).c_str(), 0755);
    if (::setxattr((a + name).c_str(), "system.posix_acl_access", &acl, sizeof acl, 0) != 0)
      GTEST_SKIP() << "no ACLs here: " << std::strerror(errno);
  }
  test::failing_calls calls;
  calls.fail<&table::fsetxattr>(EOPNOTSUPP, {.times = test::which_calls::all});
  calls.fail<&table::setxattr>(EOPNOTSUPP, {.times = test::which_calls::all});
  auto const r = copy();
  ASSERT_TRUE(r && r->is_in_place);
  EXPECT_EQ(r->attributes_not_kept, 4u);
  for (std::string const& name : all) {
    struct stat s{};
    EXPECT_TRUE(::stat((a + name).c_str(), &s) == 0 && (s.st_mode & 07777) == 0775) << name;
    EXPECT_TRUE(::stat((b + name).c_str(), &s) == 0 && (s.st_mode & 07777) == 0755) << name;
  }
}

TEST_F(copy_, has_the_contents_although_metadata_are_refused) {
  std::string const tree = directory / "tree";
  test::make_bushy(tree, 1, 1, 1);
  ::mkfifo((tree + "/pipe").c_str(), 0600);
  if (::geteuid() == 0 && ::chown((tree + "/file0").c_str(), 12345, 23456) != 0) FAIL();
  ::chmod((tree + "/file0").c_str(), 04755);
  struct {
    char const* what;
    int error;
    void (*refuse)(test::failing_calls&, int);
  } const all[] = {
      {"set the mode", EPERM,
       [](test::failing_calls& c, int e) { c.fail<&table::fchmod>(e, {.times = test::which_calls::all}); }},
      {"set the times", EPERM,
       [](test::failing_calls& c, int e) {
         c.fail<&table::utimensat>(e, {.times = test::which_calls::all});
       }},
      {"set the owner", EINVAL,
       [](test::failing_calls& c, int e) { c.fail<&table::fchownat>(e, {.times = test::which_calls::all}); }},
      {"list the attributes", EIO,
       [](test::failing_calls& c, int e) {
         c.fail<&table::flistxattr>(e, {.times = test::which_calls::all});
       }},
      {"copy an attribute", ENOSPC,
       [](test::failing_calls& c, int e) {
         c.fail<&table::fsetxattr>(e, {.times = test::which_calls::all});
       }},
      {"copy an attribute", EIO,
       [](test::failing_calls& c, int e) {
         c.fail<&table::fgetxattr>(e, {.times = test::which_calls::all});
       }},
  };
  bool const has_attributes = ::setxattr((tree + "/file0").c_str(), "user.a", "value", 5, 0) == 0;
  for (auto const& each : all) {
    for (std::string const& from : {tree, tree + "/file0"}) {
      // The owner of what is this user's own is not set.
      bool const is_owner = std::string_view(each.what) == "set the owner";
      if (is_owner && from == tree && ::geteuid() != 0) continue;
      if (std::string_view(each.what) == "copy an attribute" && !has_attributes) continue;
      test::failing_calls calls;
      each.refuse(calls, each.error);
      auto const r = clone_or_copy({}, from, {}, b, {.replace = true});
      ASSERT_TRUE(r) << each.what;
      EXPECT_TRUE(r->is_in_place) << each.what << r->ended.message();
      EXPECT_EQ(r->missing, 0u);
      ASSERT_FALSE(r->failures.empty()) << each.what;
      EXPECT_EQ(r->failures[0].what, each.what);
      EXPECT_EQ(r->failures[0].why.value(), each.error);
      EXPECT_EQ(compared(from, b, {{}, difference::contents}), "") << each.what;
      struct stat s{};
      ::stat((from == tree ? b + "/file0" : b).c_str(), &s);
      if (is_owner) {
        EXPECT_EQ(s.st_mode & 07000, 0u);
      }
      ASSERT_EQ(::system(("rm -rf '" + b + "'").c_str()), 0);
    }
  }
}

TEST_F(copy_, durable_fails_if_the_folder_could_not_be_synced_but_not_if_it_need_not_be) {
  test::make_file(a, "x");
  for (int const error : {EINVAL, EIO, EROFS}) {
    test::failing_calls calls;
    calls.fail<&table::fsync>(error, {.times = test::which_calls::all});
    auto const r = copy({.replace = true, .durable = true});
    ASSERT_TRUE(r);
    EXPECT_EQ(r->ended.value(), error == EINVAL ? 0 : error);
  }
}

// ── trees that replace trees ─────────────────────────────────────────────────────────────────────────────

TEST_F(copy_, that_is_incomplete_replaces_no_tree_unless_asked) {
  test::make_bushy(a, 1, 2, 1);
  test::make_bushy(b, 0, 2, 0);
  test::make_file(b + "/only here", "precious");
  for (bool const asked : {false, true}) {
    test::failing_calls calls;
    calls.fail<&table::copy_file_range>(EIO);
    calls.fail<&table::ioctl>(EOPNOTSUPP, {.times = test::which_calls::all});
    auto const r = copy({.replace = true, .allow_incomplete = asked});
    ASSERT_TRUE(r);
    EXPECT_EQ(r->missing, 1u);
    EXPECT_EQ(r->failures.count(), 1u);
    EXPECT_EQ(r->is_in_place, asked);
    EXPECT_EQ(r->ended.value(), asked ? 0 : EIO);
    EXPECT_EQ(test::exists(b + "/only here"), !asked);
    EXPECT_EQ(names(), "a b ");
  }
}

TEST_F(copy_, does_not_copy_itself_into_a_mount_of_its_source) {
  test::make_bushy(a, 1, 1, 1);
  std::string const m = directory / "m";
  ::mkdir(m.c_str(), 0755);
  if (::mount((a + "/dir0").c_str(), m.c_str(), nullptr, MS_BIND, nullptr) != 0)
    GTEST_SKIP() << "cannot mount: " << std::strerror(errno);
  auto const r = clone_or_copy({}, a, {}, m + "/x");
  int const rest = ::system(("test $(find '" + a + "' | wc -l) -lt 20").c_str());
  ::umount(m.c_str());
  ASSERT_TRUE(r);
  EXPECT_EQ(rest, 0);
  EXPECT_TRUE(r->is_in_place);
  ASSERT_EQ(r->failures.count(), 1u);
  EXPECT_EQ(r->failures[0].path, "dir0/.x.unio-copy");
  EXPECT_EQ(r->failures[0].why.value(), EINVAL);
  EXPECT_TRUE(test::exists(a + "/dir0/x/dir0/file0"));
}

// ── resuming ─────────────────────────────────────────────────────────────────────────────────────────────

class resumed : public copy_ {
 protected:
  // Leaves a copy of what is at `from` that has not got its name.
  void interrupt(std::string const& from) {
    test::failing_calls calls;
    calls.fail<&table::renameat>(EIO);
    auto const r = clone_or_copy({}, from, {}, b, {.keep_partial = true});
    ASSERT_TRUE(r) << r.error().message();
    ASSERT_EQ(r->ended, std::errc::io_error);
    ASSERT_STREQ(r->left_as, ".b.unio-copy");
  }
  static void make(std::string const& from) {
    test::make_bushy(from, 1, 3, 1);
    ::symlink("x", (from + "/l").c_str());
  }
  unio::result<copy_report> resume(std::string const& from, bool verify = false) {
    return clone_or_copy({}, from, {}, b, {.verify = verify, .resume = true});
  }
};

int refused_as;

TEST_F(resumed, is_refused_while_another_copy_to_the_same_place_works) {
  make(a);
  turn = 0;
  refused_as = 0;
  test::failing_calls calls;
  calls.fail<&table::ioctl>(EOPNOTSUPP, {.times = test::which_calls::all});
  where = &a;
  static std::string const* to;
  to = &b;
  calls.answer<&table::copy_file_range>(
      [](int in, std::int64_t* x, int out, std::int64_t* y, std::size_t n, unsigned f) noexcept {
        if (turn++ == 0)
          refused_as = clone_or_copy({}, *where, {}, *to, {.resume = true}).error().code().value();
        return unio::sys::kernel.copy_file_range(in, x, out, y, n, f);
      });
  auto const r = resume(a);
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_in_place && r->failures.empty());
  EXPECT_EQ(refused_as, EBUSY);
  EXPECT_EQ(compared(a, b), "");
  EXPECT_EQ(names(), "a b ");
}

TEST_F(resumed, begins_anew_after_a_copy_of_another_source) {
  std::string const c = directory / "c";
  make(a);
  test::make_file(a + "/secret", "of a");
  make(c);
  interrupt(a);
  auto const r = resume(c);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_TRUE(r->is_in_place);
  EXPECT_EQ(r->unchanged, 0u);
  EXPECT_EQ(compared(c, b), "");
  EXPECT_EQ(names(), "a b c ");
}

TEST_F(resumed, does_not_remove_what_it_is_to_copy) {
  make(a);
  interrupt(a);
  for (auto const* from : {".b.unio-copy", ".b.unio-copy/dir0"})
    EXPECT_EQ(resume(directory / from).error(), std::errc::invalid_argument) << from;
  EXPECT_EQ(compared(a, directory / ".b.unio-copy", {{}, difference::contents}), "");
  EXPECT_EQ(names(), ".b.unio-copy .b.unio-copy-of a ");
}

TEST_F(resumed, refuses_what_nothing_says_the_source_of) {
  make(a);
  ::mkdir((directory / ".b.unio-copy").c_str(), 0700);
  test::make_file(directory / ".b.unio-copy/file0", "text");
  EXPECT_EQ(resume(a).error().code().value(), ESTALE);
  EXPECT_EQ(copy().error(), std::errc::connection_already_in_progress);
  EXPECT_EQ(names(), ".b.unio-copy a ");
  ::unlink((directory / ".b.unio-copy/file0").c_str()); // an empty one is in nobody's way
  ASSERT_TRUE(copy()->is_in_place);
  EXPECT_EQ(names(), "a b ");
}

TEST_F(resumed, has_nothing_that_the_source_has_no_longer) {
  make(a);
  test::make_bushy(a + "/becomes_a_file", 1, 2, 1);
  test::make_bushy(a + "/removed", 1, 2, 1);
  test::make_file(a + "/becomes_a_directory", "x");
  test::make_file(a + "/gone", "x");
  interrupt(a);
  ASSERT_EQ(::system(("cd '" + a +
                      "' && rm -r becomes_a_file becomes_a_directory removed gone && "
                      "mkdir becomes_a_directory && echo x >becomes_a_directory/f && echo x >becomes_a_file")
                         .c_str()),
            0);
  auto const r = resume(a);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_TRUE(r->is_in_place && r->failures.empty());
  EXPECT_GT(r->unchanged, 0u);
  EXPECT_EQ(compared(a, b), "");
}

TEST_F(resumed, links_what_is_no_file_to_what_is_there) {
  make(a);
  ::mkfifo((a + "/pipe").c_str(), 0600);
  for (auto const* name : {"l", "pipe"})
    for (auto const* at : {"/dir0/", "/again_"}) ::link((a + "/" + name).c_str(), (a + at + name).c_str());
  for (auto const* const missing : {"l", "dir0/l", "again_pipe", "pipe"}) {
    interrupt(a);
    ::unlink((directory / ".b.unio-copy/" + missing).c_str());
    auto const r = resume(a);
    ASSERT_TRUE(r && r->is_in_place && r->failures.empty());
    EXPECT_GT(r->unchanged, 0u);
    EXPECT_EQ(compared(a, b), "") << missing;
    ASSERT_EQ(::system(("rm -r '" + b + "'").c_str()), 0);
  }
}

// A name that an ended copy has linked to another may be a file of its own by now, or something else.
TEST_F(resumed, undoes_links_that_the_source_has_no_longer) {
  std::string const cd = "cd '" + a + "' && rm again && ";
  for (std::string const by_now : {"echo other >again", "mkdir again", "ln -s x again", "mkfifo again",
                                   "echo text >again && touch -r file again && ln again more"}) {
    SCOPED_TRACE(by_now);
    for (bool const takes_first : {true, false}) { // which is copied first the filesystem decides
      std::string const name = takes_first ? "file" : "zile";
      ASSERT_EQ(::system(("rm -rf '" + a + "' '" + b + "'").c_str()), 0);
      ::mkdir(a.c_str(), 0755);
      test::make_file(a + "/" + name, "text");
      ::link((a + "/" + name).c_str(), (a + "/again").c_str());
      interrupt(a);
      std::string text = cd + by_now;
      if (auto const at = text.find("-r file"); at != std::string::npos) text.replace(at + 3, 4, name);
      // It still has a second name, so that what was copied is taken over.
      ASSERT_EQ(::system((text + " && ln '" + name + "' last").c_str()), 0);
      auto const r = resume(a);
      ASSERT_TRUE(r);
      EXPECT_TRUE(r->is_in_place && r->failures.empty()) << r->failures[0].why.message();
      EXPECT_EQ(compared(a, b), "");
    }
  }
}

TEST_F(resumed, leaves_a_directory_no_attribute_that_the_source_has_no_longer) {
  make(a);
  if (::setxattr((a + "/dir0").c_str(), "user.a", "value", 5, 0) != 0) GTEST_SKIP() << std::strerror(errno);
  ::setxattr(a.c_str(), "user.b", "", 0, 0);
  interrupt(a);
  ::removexattr((a + "/dir0").c_str(), "user.a");
  ::removexattr(a.c_str(), "user.b");
  ::setxattr(a.c_str(), "user.c", "new", 3, 0);
  auto const r = resume(a);
  ASSERT_TRUE(r && r->is_in_place && r->failures.empty());
  EXPECT_EQ(compared(a, b), "");
}

TEST_F(resumed, verifies_what_it_takes_over) {
  make(a);
  set_time(a + "/l", 1000000000, 7);
  test::make_file(a + "/taken", "right");
  set_time(a + "/taken", 1000000000, 7);
  ::chmod((a + "/taken").c_str(), 0600);
  interrupt(a);
  std::string const taken = directory / ".b.unio-copy/taken";
  ASSERT_EQ(::system(("rm -f '" + taken + "'").c_str()), 0);
  test::make_file(taken, "wrong");
  ::chmod(taken.c_str(), 0600);
  set_time(taken, 1000000000, 7);
  std::string const link = directory / ".b.unio-copy/l";
  ::unlink(link.c_str());
  ::symlink("y", link.c_str());
  set_time(link, 1000000000, 7);
  ASSERT_TRUE(resume(a, true)->is_in_place);
  EXPECT_EQ(compared(a, b), "");
}

TEST_F(resumed, overwrites_nothing_that_has_another_name) {
  make(a);
  test::make_file(directory / "victim", "precious");
  ::link((directory / "victim").c_str(), (directory / ".b.unio-copy-of").c_str());
  for (bool const resumes : {false, true})
    EXPECT_EQ(copy({.resume = resumes}).error(), std::errc::operation_not_permitted);
  EXPECT_EQ(directory.read("victim"), "precious");
  EXPECT_EQ(names(), ".b.unio-copy-of a victim ");
}

// The kernel of a filesystem to which "X" and "x" are one name, except of what is in `where`.
struct folding_calls : test::failing_calls {
  folding_calls() {
    answer<&table::openat>([](int dir, char const* name, int flags, unsigned mode) noexcept {
      return unio::sys::kernel.openat(dir, folded(dir, name), flags, mode);
    });
    answer<&table::mkdirat>([](int dir, char const* name, unsigned mode) noexcept {
      return unio::sys::kernel.mkdirat(dir, folded(dir, name), mode);
    });
    answer<&table::unlinkat>([](int dir, char const* name, int flags) noexcept {
      return unio::sys::kernel.unlinkat(dir, folded(dir, name), flags);
    });
    answer<&table::statx>([](int dir, char const* name, int flags, unsigned mask, struct statx* s) noexcept {
      return unio::sys::kernel.statx(dir, folded(dir, name), flags, mask, s);
    });
    answer<&table::openat2>([](int dir, char const* name, ::open_how const* how, std::size_t n) noexcept {
      return unio::sys::kernel.openat2(dir, folded(dir, name), how, n);
    });
  }
  static char const* folded(int dir, char const* name) noexcept {
    struct stat s{};
    struct stat source{};
    bool const is_folded = name[0] >= 'A' && name[0] <= 'Z' && name[1] == '\0';
    bool const is_in_source = ::fstat(dir, &s) == 0 && ::stat(where->c_str(), &source) == 0 &&
                              s.st_dev == source.st_dev && s.st_ino == source.st_ino;
    return is_folded && !is_in_source ? lower[name[0] - 'A'] : name;
  }
  static constexpr char lower[26][2] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m",
                                        "n", "o", "p", "q", "r", "s", "t", "u", "v", "w", "x", "y", "z"};
};

TEST_F(resumed, takes_no_copy_of_another_name_for_its_own_where_case_does_not_matter) {
  ::mkdir(a.c_str(), 0755);
  for (auto const* name : {"/X", "/x"}) {
    test::make_file(a + name, name[1] == 'X' ? "large" : "small");
    set_time(a + name, 1000000000, 7);
  }
  for (auto const* name : {"/D", "/d"}) {
    ::mkdir((a + name).c_str(), 0755);
    test::make_file(a + name + "/in" + (name + 1), "text");
  }
  where = &a;
  for (bool const verify : {false, true}) {
    folding_calls calls;
    calls.fail<&table::renameat>(EIO);
    auto const first = clone_or_copy({}, a, {}, b, {.keep_partial = true});
    ASSERT_TRUE(first);
    EXPECT_EQ(first->missing, 2u);
    auto const r = resume(a, verify);
    ASSERT_TRUE(r) << r.error().message();
    EXPECT_TRUE(r->is_in_place);
    EXPECT_EQ(r->missing, 2u);
    for (std::size_t i = 0; i != r->failures.kept(); ++i)
      EXPECT_EQ(r->failures[i].why, std::errc::file_exists) << r->failures[i].path;
    EXPECT_TRUE(test::exists(b + "/x"));
    EXPECT_NE(test::exists(b + "/d/ind"), test::exists(b + "/d/inD"));
    ASSERT_EQ(::system(("rm -r '" + b + "'").c_str()), 0);
  }
}

// ── verifying ────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(copy_, verified_does_not_read_where_there_is_no_storage) {
  std::ofstream(a).flush();
  if (::truncate(a.c_str(), std::int64_t{1} << 40) != 0)
    GTEST_SKIP() << "no such large files here: " << std::strerror(errno);
  int const fd = ::open(a.c_str(), O_WRONLY | O_CLOEXEC);
  EXPECT_EQ(::pwrite(fd, "data", 4, std::int64_t{1} << 39), 4);
  ::close(fd);
  test::failing_calls calls;
  auto const r = copy({.verify = true});
  ASSERT_TRUE(r);
  EXPECT_TRUE(r->is_in_place) << r->ended.message();
  EXPECT_LT(calls.count<&table::preadv2>(), 100);
  EXPECT_EQ(compared(a, b, {{}, difference::contents}), "");
}

TEST_F(copy_, move_of_two_names_of_one_file_names_what_has_lost_its_own) {
  test::make_file(b, "one");
  ::link(b.c_str(), a.c_str());
  where = &a;
  turn = 0;
  test::failing_calls calls;
  calls.answer<&table::renameat>([](int in, char const* from, int out, char const* to, unsigned f) noexcept {
    bool const is_aside = ++turn == 2;
    if (is_aside) { // another process exchanges it, and makes it again
      test::make_file(*where + ".new", "exchanged");
      ::rename((*where + ".new").c_str(), where->c_str());
    }
    auto const r = unio::sys::kernel.renameat(in, from, out, to, f);
    if (is_aside) test::make_file(*where, "again");
    return r;
  });
  auto const r = unio::fs::move({}, a, {}, b, {.replace = true});
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_TRUE(r->is_in_place);
  ASSERT_EQ(r->failures.count(), 1u);
  EXPECT_EQ(directory.read(std::string(r->failures[0].path).c_str()), "exchanged");
  EXPECT_EQ(directory.read("a"), "again");
  EXPECT_EQ(directory.read("b"), "one");
}

TEST_F(copy_, move_of_two_names_of_one_file_leaves_the_second) {
  test::make_file(a, "x");
  ::link(a.c_str(), b.c_str());
  EXPECT_EQ(unio::fs::move({}, a, {}, b).error(), std::errc::file_exists);
  ASSERT_TRUE(unio::fs::move({}, a, {}, b, {.replace = true})->is_in_place);
  EXPECT_EQ(names(), "b ");
  // Two paths of one name are no two names.
  ::link(b.c_str(), (directory / "c").c_str());
  ASSERT_TRUE(unio::fs::move({}, b, {}, directory / "./b", {.replace = true})->is_in_place);
  EXPECT_EQ(names(), "b c ");
  ::mkdir(a.c_str(), 0755);
  test::failing_calls calls;
  ASSERT_TRUE(unio::fs::move({}, a, {}, directory / "./a", {.replace = true})->is_in_place);
  EXPECT_EQ(calls.count<&table::renameat>(), 1) << "it has another name for a moment";
}

} // namespace
