// path_handle.hpp: names that lead nowhere outside of a directory, cached names, temporary directories. What
// is resolved beneath is so by the kernel, and without openat2(2) part by part: the same tests for both.

#include "support/descriptors.hpp"
#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/filesystems.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/fs.h>

namespace {

using namespace test;
using flag = unio::handle::flag;
using unio::file_handle;

/// By the kernel, or without the call.
class beneath : public ::testing::TestWithParam<int> {
 protected:
  beneath() {
    for (char const* const d : {"tree/a/b", "outside"}) std::filesystem::create_directories(directory_ / d);
    directory_.write("tree/file", "inside");
    directory_.write("tree/a/file", "inside a");
    directory_.write("outside/secret", "secret");
    link("file", "tree/link");
    link("../file", "tree/a/up");
    link("../../outside/secret", "tree/a/out");
    link(directory_ / "outside/secret", "tree/absolute");
    link("a", "tree/to-a");
    link("/proc/self/cwd", "tree/magic");
    link("loop", "tree/loop");
    link("missing", "tree/broken");
    root_ = path_handle::path(directory_ / "tree").value();
    if (GetParam() != 0) calls_.fail<&table::openat2>(GetParam(), {.times = test::which_calls::all});
  }
  void link(std::string const& target, std::string const& name) {
    std::filesystem::create_symlink(target, directory_ / name);
  }
  int open(std::string const& name, flag f = flag::beneath, mode m = mode::read,
           creation c = creation::open_existing) {
    return file_handle::file(root_, name, m, c, caching::all, f).error().value();
  }

  test::temporary_directory directory_;
  path_handle root_;
  test::failing_calls calls_;
};

TEST_P(beneath, opens_what_is_there) {
  std::ptrdiff_t const before = count_descriptors();
  for (char const* const name : {"file", "./file", "a/../file", "a/b/../../file", "link", "a/up", "to-a/file",
                                 "to-a/b/../file", "a//file"})
    EXPECT_EQ(open(name), 0) << name;
  EXPECT_EQ(open("missing"), ENOENT);
  EXPECT_EQ(open("broken"), ENOENT);
  EXPECT_EQ(open("file/x"), ENOTDIR);
  EXPECT_EQ(open("file/"), ENOTDIR);
  EXPECT_EQ(open("loop"), ELOOP);
  EXPECT_EQ(open(""), ENOENT);
  EXPECT_EQ(count_descriptors(), before);
}

TEST_P(beneath, leads_nowhere_else) {
  std::ptrdiff_t const before = count_descriptors();
  for (char const* const name : {"..", "../outside/secret", "a/../../outside/secret", "a/out", "absolute",
                                 "/etc/passwd", "to-a/out", "a/b/../../../tree/file"})
    EXPECT_EQ(open(name), EXDEV) << name;
  int const magic = open("magic/x");
  EXPECT_TRUE(magic == EXDEV || magic == ELOOP) << magic;
  EXPECT_EQ(open("../new", flag::beneath, mode::write, creation::if_needed), EXDEV);
  EXPECT_EQ(open("a/out", flag::beneath, mode::write, creation::truncate_existing), EXDEV);
  EXPECT_EQ(directory_.read("outside/secret"), "secret");
  EXPECT_EQ(count_descriptors(), before);
}

TEST_P(beneath, creates_in_every_way) {
  EXPECT_EQ(open("new", flag::beneath, mode::write, creation::only_if_not_exist), 0);
  EXPECT_EQ(open("new", flag::beneath, mode::write, creation::only_if_not_exist), EEXIST);
  EXPECT_EQ(open("to-a/new", flag::beneath, mode::write, creation::if_needed), 0);
  EXPECT_EQ(open("to-a/new", flag::beneath, mode::write, creation::always_new), 0);
  EXPECT_EQ(open("a/../other", flag::beneath, mode::append, creation::always_new), 0);
  EXPECT_EQ(open("../x", flag::beneath, mode::write, creation::always_new), EXDEV);
  EXPECT_EQ(open("link", flag::beneath, mode::write, creation::only_if_not_exist), EEXIST);
  EXPECT_EQ(open("broken", flag::beneath, mode::write, creation::if_needed), 0);
  for (char const* const made : {"tree/new", "tree/a/new", "tree/other", "tree/missing"})
    EXPECT_TRUE(std::filesystem::exists(directory_ / made)) << made;
  auto const durable = file_handle::file(root_, "to-a/durable", mode::write, creation::only_if_not_exist,
                                         caching::safety_barriers, flag::beneath);
  EXPECT_TRUE(durable);
  EXPECT_TRUE(unio::directory_handle::directory(root_, "a/made", creation::if_needed, flag::beneath));
  EXPECT_TRUE(unio::directory_handle::directory(root_, "to-a/b", creation::if_needed, flag::beneath));
  EXPECT_EQ(
      unio::directory_handle::directory(root_, "../made", creation::if_needed, flag::beneath).error().value(),
      EXDEV);
  EXPECT_EQ(path_handle::path(root_, "a/..", flag::beneath)->unique_id().value(), root_.unique_id().value());
  EXPECT_EQ(path_handle::path(root_, "..", flag::beneath).error().value(), EXDEV);
  EXPECT_TRUE(unio::symlink_handle::symlink(root_, "a/out", flag::beneath));
  EXPECT_EQ(unio::symlink_handle::symlink(root_, "file", flag::beneath).error().value(), EINVAL);
}

TEST_P(beneath, takes_no_links_or_mounts_if_told) {
  EXPECT_EQ(open("link", flag::no_symlinks), ELOOP);
  EXPECT_EQ(open("to-a/file", flag::no_symlinks), ELOOP);
  EXPECT_EQ(open("a/file", flag::no_symlinks), 0);
  EXPECT_EQ(open(directory_ / "tree/file", flag::no_symlinks), 0) << "it may be absolute";
  EXPECT_EQ(open("../outside/secret", flag::no_symlinks), 0);
  EXPECT_EQ(open("../outside/secret", flag::no_symlinks | flag::beneath), EXDEV);
  EXPECT_EQ(open("a/out", flag::same_mount), 0);
  EXPECT_EQ(open("/proc/version", flag::same_mount), EXDEV);
}

// Deeper than the walk keeps open.
TEST_P(beneath, goes_deep) {
  std::string deep;
  for (int i = 0; i != 100; ++i) deep += "d/";
  std::filesystem::create_directories(directory_ / ("tree/" + deep));
  EXPECT_EQ(open(deep + "new", flag::beneath, mode::write, creation::if_needed), 0);
  std::string back;
  for (int i = 0; i != 40; ++i) back += "../";
  EXPECT_EQ(open(deep + back + "new", flag::beneath, mode::write, creation::if_needed), 0);
  std::ptrdiff_t const before = count_descriptors();
  for (int i = 0; i != 61; ++i) back += "../";
  EXPECT_EQ(open(deep + back + "file"), EXDEV);
  EXPECT_EQ(count_descriptors(), before);
}

// A directory and a link to the outside change places all the time: what is opened is always inside.
TEST_P(beneath, under_an_attack) {
  std::filesystem::create_directory(directory_ / "tree/x");
  directory_.write("tree/x/secret", "inside");
  link("../outside", "tree/y");
  std::string const x = directory_ / "tree/x", y = directory_ / "tree/y";
  unio::file_id const outside = path_handle::path(directory_ / "outside")->unique_id().value();
  std::atomic<bool> stop = false;
  std::thread attacker([&] {
    while (!stop) (void)unio::sys::kernel.renameat(AT_FDCWD, x.c_str(), AT_FDCWD, y.c_str(), RENAME_EXCHANGE);
  });
  int opened = 0;
  for (int i = 0; i != 5000; ++i) {
    auto f = file_handle::file(root_, i % 2 == 0 ? "x/secret" : "a/../y/secret", mode::read,
                               creation::open_existing, caching::all, flag::beneath);
    if (!f) {
      int const error = f.error().value();
      EXPECT_TRUE(error == EXDEV || error == EAGAIN) << error;
      continue;
    }
    ++opened;
    char memory[16];
    EXPECT_EQ(f->read({unio::mutable_buffer(memory), 0}).bytes_transferred(), 6U);
    EXPECT_EQ(std::string_view(memory, 6), "inside");
  }
  for (int i = 0; i != 1000; ++i) { // directories, too
    auto const d = path_handle::path(root_, i % 2 == 0 ? "x" : "y", flag::beneath);
    if (!d) {
      int const error = d.error().value();
      EXPECT_TRUE(error == EXDEV || error == EAGAIN) << error;
    } else {
      EXPECT_NE(d->unique_id().value(), outside);
    }
  }
  stop = true;
  attacker.join();
  EXPECT_GT(opened, 0);
}

INSTANTIATE_TEST_SUITE_P(openat2, beneath, ::testing::Values(0, ENOSYS, EPERM), [](auto const& of) {
  return of.param == 0 ? "kernel" : of.param == ENOSYS ? "missing" : "forbidden";
});

TEST(resolve, asks_again_while_something_is_renamed) {
  test::temporary_directory const directory;
  directory.write("a", "");
  test::failing_calls calls;
  calls.fail<&table::openat2>(EAGAIN, {.times = 20});
  EXPECT_TRUE(file_handle::file(directory.handle(), "a", mode::read, creation::open_existing, caching::all,
                                flag::beneath));
  EXPECT_EQ(calls.count<&table::openat2>(), 21);
}

// Where there is no openat2(2): what has the name is a link whenever it is opened, and a file when it is
// looked at. It is no chain of links.
TEST(resolve, opens_again_what_was_a_link_for_a_moment) {
  test::temporary_directory const directory;
  directory.write("a", "");
  static int links;
  links = 100;
  test::replaced_calls calls;
  calls->openat2 = [](int, char const*, open_how const*, std::size_t) noexcept -> std::int64_t {
    return -ENOSYS;
  };
  calls->openat = [](int in, char const* name, int flags, unsigned permissions) noexcept -> std::int64_t {
    if ((flags & O_PATH) == 0 && links-- > 0) return -ELOOP;
    return unio::sys::kernel.openat(in, name, flags, permissions);
  };
  auto const f = file_handle::file(directory.handle(), "a", mode::read, creation::open_existing, caching::all,
                                   flag::beneath);
  EXPECT_TRUE(f) << f.error().message();
}

// Each call of the walk fails once.
TEST(resolve, that_fails_under_way_says_why_and_leaks_nothing) {
  test::temporary_directory const directory;
  std::filesystem::create_directories(directory / "a/b");
  directory.write("a/b/c", "");
  std::filesystem::create_symlink("a", directory / "link");
  auto const open = [&] {
    return file_handle::file(directory.handle(), "link/b/../b/c", mode::read, creation::open_existing,
                             caching::all, flag::beneath | flag::same_mount);
  };
  std::ptrdiff_t const before = count_descriptors();
  for (int const error : {EIO, EACCES, EMFILE})
    for (int entry = 0; entry != 3; ++entry)
      for (int at = 1;; ++at) {
        test::failing_calls calls;
        calls.fail<&table::openat2>(ENOSYS, {.times = test::which_calls::all});
        calls.fail_one_of<&table::openat, &table::statx, &table::readlinkat>(entry, error, {.at = at});
        auto const r = open();
        bool const failed = calls.failures<&table::openat>() + calls.failures<&table::statx>() +
                                calls.failures<&table::readlinkat>() !=
                            0;
        if (!failed) {
          EXPECT_TRUE(r) << r.error().message();
          break;
        }
        ASSERT_LT(at, 100);
        if (!r) {
          EXPECT_EQ(r.error().value(), error);
        }
      }
  EXPECT_EQ(count_descriptors(), before);
}

class cached_on : public test::on_each_driver {};

TEST_P(cached_on, names_are_opened_without_a_thread) {
  test::temporary_directory const directory;
  directory.write("a", "four");
  ASSERT_TRUE(unio::file(directory.handle(), "a")); // now it is cached
  path_handle in = path_handle::path(directory.path()).value();
  in.set_multiplexer(m_.get());
  std::vector<unio::io_result<file_handle>> files;
  std::vector<unio::io_result<path_handle>> paths;
  std::vector<unio::io_result<unio::directory_handle>> directories;
  auto file = unio::connect(unio::async_open(in, "a"), test::keep{&files});
  auto path = unio::connect(unio::async_open_path(in, ".", flag::beneath), test::keep{&paths});
  auto listed = unio::connect(unio::async_open_directory(in, "."), test::keep{&directories});
  test::failing_calls calls;
  file.start();
  path.start();
  listed.start();
  while (!file.finished() || !path.finished() || !listed.finished()) (void)m_->run();
  EXPECT_TRUE(files.at(0) && paths.at(0) && directories.at(0));
  if (calls.count<&table::openat>() != 0) GTEST_SKIP() << "the kernel cannot open from its cache alone";
  EXPECT_EQ(m_->counters().worker_jobs, 0U);
  EXPECT_EQ(m_->counters().inline_hits, 3U);
}

TEST_P(cached_on, what_is_to_be_created_or_not_known_is_opened_by_a_thread) {
  test::temporary_directory const directory;
  path_handle in = path_handle::path(directory.path()).value();
  for (int const error : {EAGAIN, ENOSYS, EPERM, EINVAL}) {
    directory.write("a", "");
    test::failing_calls calls;
    calls.fail<&table::openat2>(error, {.times = test::which_calls::all});
    // Its end waits for the workers, which use the table until they have told it of what they did.
    auto const m = test::make_multiplexer(GetParam().c_str()).value();
    in.set_multiplexer(m.get());
    std::vector<unio::io_result<file_handle>> files;
    auto existing = unio::connect(unio::async_open(in, "a"), test::keep{&files});
    auto fresh =
        unio::connect(unio::async_open(in, "b", mode::write, creation::always_new), test::keep{&files});
    existing.start();
    fresh.start();
    while (!existing.finished() || !fresh.finished()) (void)m->run();
    EXPECT_TRUE(files.at(0)) << files.at(0).error().message();
    EXPECT_TRUE(files.at(1)) << files.at(1).error().message();
    in.set_multiplexer(nullptr);
  }
}
UNIO_ON_BOTH_DRIVERS(cached_on);

// ---- temporary directories -------------------------------------------------------------------------------

class temporary_directories : public ::testing::Test {
 protected:
  // Each variable that might be in the way, unset.
  test::environment_variable tmpdir_{"TMPDIR", nullptr}, tmp_{"TMP", nullptr}, temp_{"TEMP", nullptr},
      tempdir_{"TEMPDIR", nullptr}, runtime_{"XDG_RUNTIME_DIR", nullptr};
};

TEST_F(temporary_directories, are_found) {
  EXPECT_EQ(path_handle::temporary()->current_path().value(), "/tmp");
  test::temporary_directory const directory;
  test::environment_variable const wanted("TMPDIR", directory.path().c_str());
  EXPECT_EQ(path_handle::temporary()->current_path().value(), directory.path());
  EXPECT_EQ(directory.count(), 0) << "what was tried there is gone";
}

TEST_F(temporary_directories, are_not_trusted_if_others_can_change_them) {
  test::temporary_directory const directory;
  std::string const at = directory / "shared";
  std::filesystem::create_directory(at);
  test::environment_variable const wanted("TMPDIR", at.c_str());
  auto const is_taken = [&] { return path_handle::temporary()->current_path().value() == at; };
  for (auto const& [permissions, expected] :
       {std::pair{0700U, true}, {0777U, false}, {01777U, true}, {0770U, false}, {0755U, true}}) {
    ASSERT_EQ(::chmod(at.c_str(), permissions), 0);
    EXPECT_EQ(is_taken(), expected) << std::oct << permissions;
  }
  ASSERT_EQ(::chmod(at.c_str(), 0700), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(at.c_str(), 65534, 65534), 0);
    EXPECT_FALSE(is_taken()) << "it belongs to somebody else";
  }
}

TEST_F(temporary_directories, are_neither_links_nor_relative_nor_files) {
  test::temporary_directory const directory;
  directory.write("file", "");
  std::filesystem::create_directory(directory / "real");
  std::filesystem::create_symlink("real", directory / "link");
  for (std::string const& name :
       {directory / "link", directory / "file", directory / "missing", std::string("tmp")}) {
    test::environment_variable const wanted("TMPDIR", name.c_str());
    EXPECT_EQ(path_handle::temporary()->current_path().value(), "/tmp") << name;
  }
}

TEST_F(temporary_directories, are_on_what_is_asked_for) {
  auto memory = path_handle::temporary(unio::temporary_storage::memory);
  if (memory) {
    EXPECT_TRUE(memory->stat_volume()->is_in_memory());
  }
  auto disk = path_handle::temporary(unio::temporary_storage::disk);
  if (disk) {
    EXPECT_FALSE(disk->stat_volume()->is_in_memory());
  }
  EXPECT_TRUE(memory || disk);
}

TEST_F(temporary_directories, that_cannot_be_used_say_why) {
  test::failing_calls calls;
  calls.fail<&table::openat>(EMFILE, {.times = test::which_calls::all});
  EXPECT_EQ(path_handle::temporary().error().value(), EMFILE);
  // Where anonymous files are missing, one with a name is tried.
  calls.fail<&table::openat>(0);
  calls.answer<&table::openat>(
      [](int dir, char const* path, int flags, unsigned permissions) noexcept -> std::int64_t {
        if ((flags & O_TMPFILE) == O_TMPFILE) return -EOPNOTSUPP;
        return unio::sys::kernel.openat(dir, path, flags, permissions);
      });
  EXPECT_TRUE(path_handle::temporary());
}

} // namespace
