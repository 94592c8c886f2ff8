// naming.hpp, symlink_handle.hpp: names that are made, changed and removed, also those of what is open.

#include "support/descriptors.hpp"
#include "support/failing_calls.hpp"
#include "support/filesystems.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/fs.h>

namespace {

using namespace test;
using unio::file_handle;

class naming_on : public test::on_each_filesystem {};

TEST_P(naming_on, renames_as_it_is_told) {
  unio::path_handle const& in = directory().handle();
  auto const rename = [&](char const* from, char const* to, relink_mode how) {
    return unio::rename(in, from, in, to, how).error().value();
  };
  directory().write("a", "first");
  directory().write("b", "second");
  EXPECT_EQ(rename("a", "b", relink_mode::no_replace), EEXIST);
  EXPECT_EQ(rename("a", "b", relink_mode::exchange), 0);
  EXPECT_EQ(directory().read("a"), "second");
  EXPECT_EQ(rename("a", "c", relink_mode::exchange), ENOENT);
  EXPECT_EQ(rename("a", "c", relink_mode::no_replace), 0);
  EXPECT_EQ(rename("c", "b", relink_mode::replace), 0);
  EXPECT_EQ(directory().read("b"), "second");
  EXPECT_EQ(rename("missing", "b", relink_mode::replace), ENOENT);
  EXPECT_EQ(directory().count(), 1);
}

TEST_P(naming_on, removes_and_makes_names) {
  unio::path_handle const& in = directory().handle();
  auto const unlink = [&](char const* name, unlink_mode what) {
    return unio::unlink(in, name, what).error().value();
  };
  EXPECT_TRUE(unio::make_directory(in, "d", 0700U));
  EXPECT_EQ(unio::make_directory(in, "d", 0700U).error().value(), EEXIST);
  directory().write("d/a", "text");
  EXPECT_EQ(unlink("d", unlink_mode::directory), ENOTEMPTY);
  EXPECT_EQ(unlink("d", unlink_mode::file), EISDIR);
  EXPECT_EQ(unlink("d/a", unlink_mode::directory), ENOTDIR);
  EXPECT_TRUE(unio::hard_link(in, "d/a", in, "b"));
  EXPECT_EQ(unio::hard_link(in, "d/a", in, "b").error().value(), EEXIST);
  EXPECT_EQ(unio::stat(in, "b")->link_count, 2U);
  EXPECT_EQ(unlink("d/a", unlink_mode::file), 0);
  EXPECT_EQ(unlink("d/a", unlink_mode::file), ENOENT);
  EXPECT_EQ(unlink("d", unlink_mode::directory), 0);
  EXPECT_EQ(directory().count(), 1);
}

TEST_P(naming_on, makes_and_replaces_links_atomically) {
  unio::path_handle const& in = directory().handle();
  EXPECT_TRUE(unio::make_symlink(in, "link", "first", relink_mode::no_replace));
  EXPECT_EQ(unio::make_symlink(in, "link", "second", relink_mode::no_replace).error().value(), EEXIST);
  unio::symlink_handle old = unio::symlink_handle::symlink(in, "link").value();
  EXPECT_TRUE(unio::make_symlink(in, "link", "second", relink_mode::replace));
  std::array<char, 4096> memory;
  EXPECT_EQ(old.read(memory).value(), "first") << "it has that link open";
  EXPECT_EQ(unio::read_symlink(in, "link", memory).value(), "second");
  EXPECT_EQ(directory().count(), 1);
  // A target is text: neither has it to exist, nor to be a name.
  std::string const longest(1000, 't'); // a block of ext4 and XFS may have no more than 1024 bytes
  ASSERT_TRUE(unio::make_symlink(in, "long", longest, relink_mode::replace));
  EXPECT_EQ(unio::read_symlink(in, "long", memory).value(), longest);
  EXPECT_EQ(unio::make_symlink(in, "e", "", relink_mode::no_replace).error().value(), ENOENT);
  EXPECT_EQ(unio::make_symlink(in, "e", "t", relink_mode::exchange).error().value(), EINVAL);
  EXPECT_EQ(unio::make_symlink(in, "e", std::string("a\0b", 3), relink_mode::replace).error(),
            unio::error::embedded_nul);
  EXPECT_TRUE(unio::make_directory(in, "d", 0700U));
  EXPECT_EQ(unio::make_symlink(in, "d", "t", relink_mode::replace).error().value(), EISDIR);
  EXPECT_EQ(unio::make_symlink(in, "d/", "t", relink_mode::replace).error().value(), EISDIR);
  EXPECT_EQ(unio::make_symlink(in, "", "t", relink_mode::replace).error().value(), ENOENT);
}

TEST_P(naming_on, reads_links_into_enough_room_only) {
  unio::path_handle const& in = directory().handle();
  EXPECT_TRUE(unio::make_symlink(in, "link", "target", relink_mode::no_replace));
  unio::symlink_handle link = unio::symlink_handle::symlink(in, "link").value();
  std::array<char, 8> memory;
  for (std::size_t bytes = 0; bytes != memory.size(); ++bytes) {
    auto const r = link.read(unio::mutable_buffer(memory.data(), bytes));
    EXPECT_EQ(r.error().value(), bytes > 6 ? 0 : ERANGE) << bytes;
  }
  // The kernel's size is an int.
  for (std::size_t const bytes : {std::size_t{1} << 31, (std::size_t{1} << 32) + 3})
    EXPECT_EQ(link.read(unio::mutable_buffer(memory.data(), bytes)).value(), "target");
  directory().write("file", "");
  EXPECT_EQ(unio::symlink_handle::symlink(in, "file").error().value(), EINVAL);
  EXPECT_EQ(unio::symlink_handle::symlink(in, "missing").error().value(), ENOENT);
  EXPECT_EQ(unio::read_symlink(in, "file", memory).error().value(), EINVAL);
  EXPECT_EQ(unio::read_symlink(in, "", memory).error().value(), ENOENT);
}

TEST_P(naming_on, finds_the_parent_of_what_is_open_wherever_it_goes) {
  std::filesystem::create_directories(directory() / "a/b");
  directory().write("a/b/file", "");
  file_handle f = unio::file(directory().handle(), "a/b/file").value();
  EXPECT_EQ(f.parent_path_handle()->current_path().value(), directory() / "a/b");
  std::filesystem::rename(directory() / "a/b", directory() / "c");
  EXPECT_EQ(f.parent_path_handle()->current_path().value(), directory() / "c");
  std::filesystem::rename(directory() / "c/file", directory() / "file");
  EXPECT_EQ(f.parent_path_handle()->current_path().value(), directory().path());
  unio::directory_handle d = unio::directory_handle::directory(directory().handle(), "c").value();
  EXPECT_EQ(d.parent_path_handle()->unique_id().value(), directory().handle().unique_id().value());
  std::filesystem::remove(directory() / "file");
  EXPECT_EQ(f.parent_path_handle().error().value(), ENOENT);
}

TEST_P(naming_on, relinks_links_and_unlinks_what_is_open) {
  unio::path_handle const& in = directory().handle();
  directory().write("a", "text");
  directory().write("taken", "other");
  file_handle f = unio::file(in, "a").value();
  EXPECT_EQ(f.relink(in, "taken", relink_mode::no_replace).error().value(), EEXIST);
  EXPECT_TRUE(f.relink(in, "taken", relink_mode::exchange));
  EXPECT_EQ(directory().read("taken"), "text");
  EXPECT_TRUE(f.relink(in, "b", relink_mode::no_replace));
  EXPECT_TRUE(f.link(in, "c"));
  EXPECT_EQ(f.link(in, "c").error().value(), EEXIST);
  EXPECT_EQ(f.stat()->link_count, 2U);
  EXPECT_TRUE(f.unlink());
  EXPECT_EQ(f.stat()->link_count, 1U);
  unio::directory_handle d = unio::directory_handle::directory(in, "d", creation::only_if_not_exist).value();
  EXPECT_EQ(d.link(in, "e").error().value(), EPERM);
  EXPECT_TRUE(d.relink(in, "e", relink_mode::no_replace));
  EXPECT_TRUE(d.unlink());
  EXPECT_EQ(d.unlink().error().value(), ENOENT);
  unio::symlink_handle link = [&] {
    EXPECT_TRUE(unio::make_symlink(in, "link", "a", relink_mode::no_replace));
    return unio::symlink_handle::symlink(in, "link").value();
  }();
  EXPECT_TRUE(link.relink(in, "link-2", relink_mode::replace));
  EXPECT_TRUE(link.unlink());
  EXPECT_FALSE(unio::stat(in, "link-2"));
}

TEST_P(naming_on, links_an_anonymous_file_into_place) {
  unio::path_handle const& in = directory().handle();
  int const fd = ::openat(in.native_handle(), ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) GTEST_SKIP() << "no anonymous files here";
  unio::io_handle f = unio::io_handle::adopt(fd).value();
  (void)f.write(unio::const_buffer("whole", 5));
  EXPECT_EQ(directory().count(), 0);
  EXPECT_TRUE(f.link(in, "file"));
  EXPECT_EQ(directory().read("file"), "whole");
}

TEST_P(naming_on, does_not_touch_what_took_the_name) {
  unio::path_handle const& in = directory().handle();
  directory().write("a", "mine");
  file_handle f = unio::file(in, "a").value();
  std::filesystem::rename(directory() / "a", directory() / "gone");
  std::filesystem::remove(directory() / "gone");
  directory().write("a", "another");
  EXPECT_EQ(f.unlink().error().value(), ENOENT);
  EXPECT_EQ(f.relink(in, "b", relink_mode::replace).error().value(), ENOENT);
  EXPECT_EQ(directory().read("a"), "another");
}

UNIO_ON_EACH_FILESYSTEM(naming_on);

DIRECTORY_TEST(naming, emulates_what_a_filesystem_without_flags_cannot) {
  unio::path_handle const& in = directory.handle();
  test::failing_calls calls;
  calls.answer<&table::renameat>([](int from_dir, char const* from, int to_dir, char const* to,
                                    unsigned flags) noexcept -> std::int64_t {
    if (flags != 0) return -EINVAL; // NFS
    return unio::sys::kernel.renameat(from_dir, from, to_dir, to, flags);
  });
  directory.write("a", "text");
  directory.write("taken", "");
  std::filesystem::create_directory(directory / "d");
  auto const rename = [&](char const* from, char const* to, relink_mode how) {
    return unio::rename(in, from, in, to, how).error().value();
  };
  EXPECT_EQ(rename("a", "taken", relink_mode::no_replace), EEXIST);
  EXPECT_EQ(rename("a", "b", relink_mode::no_replace), 0);
  EXPECT_EQ(directory.read("b"), "text");
  EXPECT_FALSE(unio::stat(in, "a"));
  directory.write("d/file", "in d");
  EXPECT_EQ(rename("d", "taken", relink_mode::no_replace), EEXIST);
  EXPECT_EQ(rename("d", "d/e", relink_mode::no_replace), EINVAL);
  EXPECT_EQ(rename("d", "e", relink_mode::no_replace), 0);
  EXPECT_EQ(directory.read("e/file"), "in d");
  EXPECT_FALSE(unio::stat(in, "d"));
  EXPECT_EQ(rename("b", "taken", relink_mode::exchange), EINVAL);
  EXPECT_EQ(rename("missing", "f", relink_mode::no_replace), ENOENT);
  // What cannot be finished is undone.
  calls.fail<&table::unlinkat>(EIO);
  EXPECT_EQ(rename("b", "f", relink_mode::no_replace), EIO);
  EXPECT_FALSE(unio::stat(in, "f"));
  EXPECT_EQ(directory.read("b"), "text");
  EXPECT_EQ(directory.count(), 3);
}

char const* in_the_gap; // makes what another process makes before the second rename

TEST(naming, replaces_nothing_of_another_process_where_a_filesystem_has_no_flags) {
  for (char const* const other :
       {"rmdir to; echo theirs >to", "echo theirs >to/theirs", "rmdir to; ln -s x to"}) {
    test::temporary_directory const directory;
    std::string const command = "cd '" + directory.path() + "'; " + other;
    in_the_gap = command.c_str();
    std::filesystem::create_directory(directory / "from");
    directory.write("from/mine", "mine");
    test::failing_calls calls;
    calls.answer<&table::renameat>([](int from_dir, char const* from, int to_dir, char const* to,
                                      unsigned flags) noexcept -> std::int64_t {
      if (flags != 0) return -EINVAL;
      EXPECT_EQ(std::system(in_the_gap), 0);
      return unio::sys::kernel.renameat(from_dir, from, to_dir, to, flags);
    });
    unio::path_handle const& in = directory.handle();
    EXPECT_EQ(unio::rename(in, "from", in, "to", relink_mode::no_replace).error().value(), EEXIST) << other;
    EXPECT_EQ(directory.read("from/mine"), "mine") << other;
    EXPECT_TRUE(unio::stat(in, "to")) << other;
    EXPECT_FALSE(unio::stat(in, "to/mine")) << other;
  }
}

TEST(naming, removes_nothing_of_another_process_where_a_filesystem_has_no_flags) {
  struct row {
    char const* theirs;
    char const* must_hold;
  };
  for (row const& other :
       {row{"echo theirs >new; mv new from", "[ $(cat from) = theirs ]"},
        row{"rm from; mkdir from; echo theirs >from/f", "[ $(cat from/f) = theirs ]"},
        row{"ln -sf x from", "[ $(readlink from) = x ]"}, row{"rm from", "[ ! -e from ]"}}) {
    test::temporary_directory const directory;
    directory.write("from", "mine");
    std::string const in_it = "cd '" + directory.path() + "'; ";
    std::string const command = in_it + other.theirs;
    in_the_gap = command.c_str();
    test::failing_calls calls;
    calls.answer<&table::renameat>([](int from_dir, char const* from, int to_dir, char const* to,
                                      unsigned flags) noexcept -> std::int64_t {
      return flags != 0 ? -EINVAL : unio::sys::kernel.renameat(from_dir, from, to_dir, to, flags);
    });
    calls.answer<&table::linkat>(
        [](int from_dir, char const* from, int to_dir, char const* to, int flags) noexcept {
          auto const r = unio::sys::kernel.linkat(from_dir, from, to_dir, to, flags);
          if (char const* const once = std::exchange(in_the_gap, nullptr); once != nullptr) {
            EXPECT_EQ(std::system(once), 0);
          }
          return r;
        });
    unio::path_handle const& in = directory.handle();
    EXPECT_TRUE(unio::rename(in, "from", in, "to", relink_mode::no_replace)) << other.theirs;
    EXPECT_EQ(directory.read("to"), "mine") << other.theirs;
    EXPECT_EQ(std::system((in_it + other.must_hold).c_str()), 0) << other.theirs;
    EXPECT_EQ(directory.count(), unio::stat(in, "from") ? 2 : 1) << other.theirs;
  }
}

TEST(naming, refuses_names_that_no_system_takes) {
  unio::path_handle const& in = {};
  std::string const nul("a\0b", 3);
  std::string const longest(256, 'n');
  EXPECT_EQ(unio::unlink(in, nul, unlink_mode::file).error(), unio::error::embedded_nul);
  EXPECT_EQ(unio::rename(in, nul, in, "b", relink_mode::replace).error(), unio::error::embedded_nul);
  EXPECT_EQ(unio::rename(in, "b", in, nul, relink_mode::replace).error(), unio::error::embedded_nul);
  EXPECT_EQ(unio::make_directory(in, longest, 0700U).error().value(), ENAMETOOLONG);
  EXPECT_EQ(unio::hard_link(in, "a", in, longest).error().value(), ENAMETOOLONG);
  EXPECT_EQ(unio::stat(in, nul).error(), unio::error::embedded_nul);
  unio::handle closed;
  EXPECT_EQ(closed.unlink().error().value(), EBADF);
  EXPECT_EQ(closed.relink(in, "a", relink_mode::replace).error().value(), EBADF);
  EXPECT_EQ(closed.link(in, "a").error().value(), EBADF);
  EXPECT_EQ(closed.parent_path_handle().error().value(), EBADF);
}

// Each call of an operation that makes several fails once with each error.
DIRECTORY_TEST(naming, that_fails_half_way_says_why_and_leaks_nothing) {
  unio::path_handle const& in = directory.handle();
  directory.write("a", "text");
  file_handle f = unio::file(in, "a").value();
  std::ptrdiff_t const before = count_descriptors();
  test::failing_calls calls;
  auto const fails = [&]<auto Entry>(auto operation, auto restore) {
    for (int const error : {EIO, EACCES, ENOMEM, EPERM, ENAMETOOLONG}) {
      for (int at = 1; at != 4; ++at) {
        calls.fail<Entry>(error, {.at = at});
        auto const r = operation();
        bool const has_failed = calls.failures<Entry>() != 0;
        calls.fail<Entry>(0);
        if (!has_failed) {
          EXPECT_TRUE(r) << r.error().message();
          restore();
          break;
        }
        EXPECT_FALSE(r);
        EXPECT_EQ(r.error().value(), error);
      }
    }
  };
  auto const nothing = [] {};
  auto const all = [&](auto operation, auto restore) {
    fails.operator()<&table::readlinkat>(operation, restore);
    fails.operator()<&table::openat>(operation, restore);
    fails.operator()<&table::statx>(operation, restore);
  };
  all([&] { return f.parent_path_handle(); }, nothing);
  int turn = 0;
  all([&] { return f.relink(in, ++turn % 2 == 0 ? "a" : "b", relink_mode::replace); }, nothing);
  all([&] { return f.unlink(); },
      [&] { // so that it can be removed again
        directory.write("a", "text");
        (void)f.close();
        f = unio::file(in, "a").value();
      });
  EXPECT_EQ(count_descriptors(), before);
  auto const make = [&] { return unio::make_symlink(in, "link", "t", relink_mode::replace); };
  fails.operator()<&table::symlinkat>(make, nothing);
  fails.operator()<&table::renameat>(make, nothing);
  EXPECT_EQ(count_descriptors(), before);
}

// Somebody renames directories above it all the time: it is this file that is renamed and removed, or none.
DIRECTORY_TEST(naming, of_what_is_open_under_an_attack_never_hits_another_file) {
  std::filesystem::create_directory(directory / "real");
  std::filesystem::create_directory(directory / "decoy");
  directory.write("decoy/victim", "precious");
  std::atomic<bool> stop = false;
  std::string const real = directory / "real", decoy = directory / "decoy";
  std::thread attacker([&] {
    while (!stop)
      (void)unio::sys::kernel.renameat(AT_FDCWD, real.c_str(), AT_FDCWD, decoy.c_str(), RENAME_EXCHANGE);
  });
  for (int i = 0; i != 2000; ++i) {
    unio::path_handle const in =
        unio::path_handle::path(directory.path() + (i % 2 == 0 ? "/real" : "/decoy")).value();
    auto made = file_handle::file(in, "made", mode::write, creation::if_needed);
    ASSERT_TRUE(made);
    auto const r = made->unlink();
    if (!r) {
      EXPECT_EQ(r.error().value(), ENOENT);
    }
  }
  stop = true;
  attacker.join();
  bool const is_swapped = std::filesystem::exists(directory / "real/victim");
  EXPECT_EQ(directory.read(is_swapped ? "real/victim" : "decoy/victim"), "precious");
}

} // namespace
