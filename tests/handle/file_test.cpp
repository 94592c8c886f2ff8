// file_handle.hpp: how files are opened, cut, zeroed and unlinked.

#include "support/calls.hpp"
#include "support/child.hpp"
#include "support/descriptors.hpp"
#include "support/direct_io.hpp"
#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/io_uring.h>

namespace {

using namespace test;
using flag = unio::handle::flag;
using unio::file_handle;

ino_t inode(unio::handle const& h) {
  struct stat s{};
  EXPECT_EQ(::fstat(h.native_handle(), &s), 0);
  return s.st_ino;
}

int status_flags(unio::handle const& h) { return ::fcntl(h.native_handle(), F_GETFL); }

DIRECTORY_TEST(file, opens_what_exists) {
  directory.write("a", "four");
  file_handle const f = file_handle::file(directory.handle(), "a").value();
  EXPECT_EQ(f.kind(), unio::handle_kind::file);
  EXPECT_EQ(f.maximum_extent().value(), 4U);
  EXPECT_EQ(f.current_path().value(), directory / "a");
}

DIRECTORY_TEST(file, creates_only_as_it_is_told) {
  auto const open = [&](char const* name, creation c) {
    return file_handle::file(directory.handle(), name, mode::write, c).error().value();
  };
  EXPECT_EQ(open("a", creation::open_existing), ENOENT);
  EXPECT_EQ(open("a", creation::truncate_existing), ENOENT);
  EXPECT_EQ(directory.count(), 0);
  EXPECT_EQ(open("a", creation::only_if_not_exist), 0);
  EXPECT_EQ(open("a", creation::only_if_not_exist), EEXIST);
  directory.write("a", "text");
  EXPECT_EQ(open("a", creation::if_needed), 0);
  EXPECT_EQ(directory.read("a"), "text");
  EXPECT_EQ(open("b", creation::if_needed), 0);
  EXPECT_EQ(open("a", creation::truncate_existing), 0);
  EXPECT_EQ(directory.read("a"), "");
  EXPECT_EQ(directory.count(), 2);
}

DIRECTORY_TEST(file, refuses_wishes_that_contradict_each_other) {
  directory.write("a", "text");
  auto const open = [&](mode m, creation c) {
    return file_handle::file(directory.handle(), "a", m, c).error().value();
  };
  EXPECT_EQ(open(mode::read, creation::truncate_existing), EINVAL);
  EXPECT_EQ(open(mode::none, creation::if_needed), EINVAL);
  EXPECT_EQ(open(mode::attributes, creation::always_new), EINVAL);
  EXPECT_EQ(directory.read("a"), "text");
}

DIRECTORY_TEST(file, opens_for_attributes_without_touching_the_file) {
  directory.write("a", "four");
  file_handle f = file_handle::file(directory.handle(), "a", mode::attributes).value();
  EXPECT_EQ(f.maximum_extent().value(), 4U);
  EXPECT_EQ(f.truncate(0).error().value(), EBADF);
}

DIRECTORY_TEST(file, tells_the_kernel_about_mode_and_caching) {
  auto const flags = [&](mode m, caching k) {
    return status_flags(file_handle::file(directory.handle(), "a", m, creation::if_needed, k).value());
  };
  EXPECT_EQ(flags(mode::read, caching::all) & O_ACCMODE, O_RDONLY);
  EXPECT_EQ(flags(mode::write, caching::all) & O_ACCMODE, O_RDWR);
  EXPECT_EQ(flags(mode::append, caching::all) & O_ACCMODE, O_WRONLY);
  EXPECT_NE(flags(mode::append, caching::all) & O_APPEND, 0);
  EXPECT_EQ(flags(mode::write, caching::reads) & O_SYNC, O_SYNC);
  EXPECT_EQ(flags(mode::write, caching::reads_and_metadata) & O_SYNC, O_DSYNC);
  EXPECT_EQ(flags(mode::write, caching::temporary) & (O_SYNC | O_DIRECT), 0);
}

DIRECTORY_TEST(file, does_not_wait_for_the_other_end_of_a_named_pipe) {
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  auto const before = std::chrono::steady_clock::now();
  (void)file_handle::file(directory.handle(), "fifo");
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5));
}

DIRECTORY_TEST(file, knows_a_named_pipe_and_a_terminal_from_a_file) {
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  directory.write("a", "");
  auto const kind = [&](char const* name, mode m) {
    return file_handle::file(directory.handle(), name, m).value().kind();
  };
  using unio::handle_kind;
  EXPECT_EQ(kind("fifo", mode::read), handle_kind::named_pipe);
  EXPECT_EQ(kind("fifo", mode::write), handle_kind::pipe);
  EXPECT_EQ(kind("/dev/ptmx", mode::write), handle_kind::pipe);
  EXPECT_EQ(kind("/dev/zero", mode::read), handle_kind::file);
  EXPECT_EQ(kind("a", mode::write), handle_kind::file);
  file_handle const fifo = file_handle::file(directory.handle(), "fifo", mode::write).value();
  EXPECT_EQ(fifo.clone().value().kind(), handle_kind::pipe);
}

// A ring takes O_NONBLOCK for the filesystem's word that it never waits, and then waits for it in the
// caller's thread.
DIRECTORY_TEST(file, is_not_nonblocking_unless_it_is_no_regular_file) {
  directory.write("a", "");
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  for (std::string const& driver : test::available_drivers()) {
    SCOPED_TRACE(driver);
    auto const m = test::make_multiplexer(driver.c_str()).value();
    auto const opened = [&](char const* name, mode wanted, creation c) {
      unio::async_open op(directory.handle(), name, wanted, c);
      std::vector<unio::io_result<file_handle>> f;
      auto connected = unio::connect(std::move(op), test::keep{&f});
      connected.start(m.get());
      while (!connected.finished()) (void)m->run();
      return status_flags(f.at(0).value());
    };
    EXPECT_EQ(opened("a", mode::read, creation::open_existing) & O_NONBLOCK, 0);
    EXPECT_EQ(opened("a", mode::append, creation::if_needed) & (O_NONBLOCK | O_APPEND), O_APPEND);
    EXPECT_EQ(opened("a", mode::write, creation::always_new) & O_NONBLOCK, 0);
    EXPECT_EQ(opened(driver.c_str(), mode::write, creation::only_if_not_exist) & O_NONBLOCK, 0);
    EXPECT_NE(opened("fifo", mode::read, creation::open_existing) & O_NONBLOCK, 0);
  }
}

DIRECTORY_TEST(file, that_was_adopted_nonblocking_is_given_to_a_thread_of_the_kernels) {
  directory.write("a", "");
  for (int const flags : {0, O_NONBLOCK}) {
    unio::io_handle f = unio::io_handle::adopt(::open((directory / "a").c_str(), O_RDWR | flags)).value();
    EXPECT_EQ(::fcntl(f.native_handle(), F_GETFL) & O_NONBLOCK, flags) << "others may have it as well";
    char byte = 0;
    unio::async_read read(f, {unio::mutable_buffer(&byte, 1), 0});
    unio::async_write write(f, {unio::const_buffer(&byte, 1), 0});
    for (unio::io_operation* const op :
         {static_cast<unio::io_operation*>(&read), static_cast<unio::io_operation*>(&write)}) {
      io_uring_sqe entry{};
      ASSERT_TRUE(op->faces().prepare(*op, entry, true));
      EXPECT_EQ((entry.flags & IOSQE_ASYNC) != 0, flags != 0);
    }
  }
}

// A file with a lease, say: nothing tells when its holder has given it back.
DIRECTORY_TEST(file, that_cannot_be_read_or_opened_just_now_is_tried_again) {
  directory.write("a", "four");
  {
    test::failing_calls failing;
    failing.fail<&unio::sys::table::openat>(EAGAIN, {.times = 3});
    EXPECT_TRUE(file_handle::file(directory.handle(), "a"));
    EXPECT_EQ(failing.failures<&unio::sys::table::openat>(), 3);
  }
  file_handle f = file_handle::file(directory.handle(), "a").value();
  char memory[8];
  for (std::string const& driver : test::available_drivers()) {
    SCOPED_TRACE(driver);
    for (bool const with_own : {false, true}) {
      test::failing_calls failing;
      auto const m =
          test::make_multiplexer(driver.c_str()).value(); // its end waits for workers, which make calls
      failing.fail<&unio::sys::table::preadv2>(EAGAIN, {.times = 4});
      f.set_multiplexer(with_own ? m.get() : nullptr);
      auto const r = f.read({unio::mutable_buffer(memory), 0}, 20s);
      f.set_multiplexer(nullptr);
      EXPECT_EQ(r.bytes_transferred(), 4u) << r.error().message();
      if (with_own) continue; // a ring may do without that call
      EXPECT_EQ(failing.failures<&unio::sys::table::preadv2>(), 4);
      failing.fail<&unio::sys::table::preadv2>(EAGAIN, {.times = test::which_calls::all});
      EXPECT_EQ(f.read({unio::mutable_buffer(memory), 0}, 20ms).error(), unio::condition::timed_out);
      EXPECT_LT(failing.count<&unio::sys::table::preadv2>(), 100) << "it does not spin";
    }
  }
}

DIRECTORY_TEST(file_always_new, replaces_the_inode_and_leaves_the_old_one_to_who_has_it) {
  directory.write("a", "old");
  file_handle const old = file_handle::file(directory.handle(), "a").value();
  file_handle const fresh =
      file_handle::file(directory.handle(), "a", mode::write, creation::always_new).value();
  EXPECT_NE(inode(old), inode(fresh));
  EXPECT_EQ(old.maximum_extent().value(), 3U);
  EXPECT_EQ(fresh.maximum_extent().value(), 0U);
  EXPECT_EQ(fresh.current_path().value(), directory / "a");
  EXPECT_EQ(directory.count(), 1);
}

DIRECTORY_TEST(file_always_new, creates_what_does_not_exist) {
  file_handle const f =
      file_handle::file({}, directory / "a", mode::write, creation::always_new, caching::safety_barriers)
          .value();
  EXPECT_EQ(f.current_path().value(), directory / "a");
  EXPECT_EQ(directory.count(), 1);
}

DIRECTORY_TEST(file_always_new, leaves_nothing_behind_when_it_fails) {
  std::filesystem::create_directory(directory / "inner");
  auto const open = [&](char const* name) {
    return file_handle::file(directory.handle(), name, mode::write, creation::always_new).error().value();
  };
  EXPECT_EQ(open("inner"), EISDIR);
  EXPECT_EQ(open("inner/"), EISDIR);
  EXPECT_EQ(open("missing/a"), ENOENT);
  EXPECT_EQ(open(""), ENOENT);
  EXPECT_EQ(directory.count(), 1);
  EXPECT_TRUE(std::filesystem::is_empty(directory / "inner"));

  test::replaced_calls calls;
  calls->renameat = [](int, char const*, int, char const*, unsigned) noexcept -> std::int64_t {
    return -EIO;
  };
  EXPECT_EQ(open("b"), EIO);
  EXPECT_EQ(directory.count(), 1);
}

DIRECTORY_TEST(file_always_new, tries_another_name_when_one_is_taken) {
  static int calls_left;
  calls_left = 2;
  test::replaced_calls calls;
  calls->openat = [](int dir, char const* path, int flags, unsigned permissions) noexcept -> std::int64_t {
    if ((flags & O_EXCL) != 0 && calls_left-- > 0) return -EEXIST;
    return unio::sys::kernel.openat(dir, path, flags, permissions);
  };
  EXPECT_TRUE(file_handle::file(directory.handle(), "a", mode::write, creation::always_new));
  EXPECT_EQ(calls_left, -1);
}

// As a filesystem may say of each name.
DIRECTORY_TEST(file_always_new, gives_up_when_each_name_is_taken) {
  static int calls;
  calls = 0;
  test::replaced_calls replaced;
  replaced->openat = [](int dir, char const* path, int flags, unsigned permissions) noexcept -> std::int64_t {
    if ((flags & O_EXCL) != 0) return ++calls <= 10'000 ? -EEXIST : -EIO;
    return unio::sys::kernel.openat(dir, path, flags, permissions);
  };
  EXPECT_EQ(file_handle::file(directory.handle(), "a", mode::write, creation::always_new).error().value(),
            EEXIST);
}

DIRECTORY_TEST(file, retries_what_a_signal_interrupted) {
  directory.write("a", "text");
  static int interruptions;
  interruptions = 3;
  test::replaced_calls calls;
  calls->openat = [](int dir, char const* path, int flags, unsigned permissions) noexcept -> std::int64_t {
    if (interruptions-- > 0) return -EINTR;
    return unio::sys::kernel.openat(dir, path, flags, permissions);
  };
  EXPECT_TRUE(file_handle::file(directory.handle(), "a"));
}

DIRECTORY_TEST(file, takes_an_interrupted_close_for_a_close) {
  file_handle f = file_handle::temp_inode(directory.handle()).value();
  test::replaced_calls calls;
  calls->close = [](int fd) noexcept -> std::int64_t {
    (void)unio::sys::kernel.close(fd);
    return -EINTR;
  };
  EXPECT_TRUE(f.close());
}

DIRECTORY_TEST(file, reports_what_close_says_and_is_closed_all_the_same) {
  file_handle f = file_handle::temp_inode(directory.handle()).value();
  test::replaced_calls calls;
  calls->close = [](int fd) noexcept -> std::int64_t {
    (void)unio::sys::kernel.close(fd);
    return -EIO;
  };
  EXPECT_EQ(f.close().error().value(), EIO);
  EXPECT_FALSE(f.is_open());
}

DIRECTORY_TEST(file, with_safety_barriers_is_made_durable_at_creation_and_before_it_is_closed) {
  static int barriers;
  barriers = 0;
  test::replaced_calls calls;
  calls->fsync = [](int) noexcept -> std::int64_t { return ++barriers, 0; };
  file_handle f = file_handle::file(directory.handle(), "a", mode::write, creation::only_if_not_exist,
                                    caching::safety_barriers)
                      .value();
  EXPECT_EQ(barriers, 1);
  EXPECT_TRUE(f.close());
  EXPECT_EQ(barriers, 2);
  // EROFS: the filesystem was made read-only after an error.
  static int error;
  calls->fsync = [](int) noexcept -> std::int64_t { return -error; };
  for (int const each : {EIO, EROFS}) {
    error = each;
    EXPECT_EQ(file_handle::file(directory.handle(), "b", mode::write, creation::only_if_not_exist,
                                caching::safety_barriers)
                  .error()
                  .value(),
              each);
  }
  EXPECT_EQ(directory.count(), 1);
}

DIRECTORY_TEST(temp_file, has_a_name_until_it_is_closed) {
  file_handle f = file_handle::temp_file(directory.handle(), "prefix-").value();
  EXPECT_EQ(directory.count(), 1);
  EXPECT_TRUE(f.current_path().value().starts_with(directory / "prefix-"));
  EXPECT_TRUE(f.close());
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(temp_file, is_removed_under_the_name_it_was_renamed_to) {
  file_handle f = file_handle::temp_file(directory.handle()).value();
  std::filesystem::rename(f.current_path().value(), directory / "other");
  EXPECT_TRUE(f.close());
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(temp_file, does_not_mind_if_it_was_removed_already) {
  file_handle f = file_handle::temp_file(directory.handle()).value();
  std::filesystem::remove(f.current_path().value());
  EXPECT_TRUE(f.close());
}

DIRECTORY_TEST(temp_file, is_removed_once_however_it_is_moved) {
  {
    file_handle a = file_handle::temp_file(directory.handle()).value();
    file_handle b = std::move(a);
    a = file_handle::temp_file(directory.handle()).value();
    EXPECT_EQ(directory.count(), 2);
    b = std::move(a);
    EXPECT_EQ(directory.count(), 1);
    file_handle const clone = b.clone().value();
  }
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(temp_file, closed_as_an_operation_is_removed_too) {
  file_handle f = file_handle::temp_file(directory.handle()).value();
  {
    auto const closing = std::move(f).co_close();
  }
  EXPECT_FALSE(f.is_open()); // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(directory.count(), 0);
}

// A failed write is told once, by fsync(2): who closes the file has to learn of it.
DIRECTORY_TEST(file, tells_that_its_last_barrier_failed_however_it_is_closed) {
  auto const open = [&] {
    return file_handle::file(directory.handle(), "a", mode::write, creation::if_needed,
                             handle::caching::safety_barriers)
        .value();
  };
  file_handle closed = open();
  file_handle awaited = open();
  int const fd = awaited.native_handle();
  failing_calls calls;
  calls.fail<&table::fsync>(EIO, {.times = which_calls::all});
  EXPECT_EQ(closed.close().error().value(), EIO);
  EXPECT_EQ(unio::run(std::move(awaited).co_close()).error().value(), EIO);
  EXPECT_FALSE(is_open(fd));
  calls.fail<&table::fsync>(0);
  calls.fail<&table::unlinkat>(EACCES, {.times = which_calls::all});
  file_handle temporary = file_handle::temp_file(directory.handle()).value();
  EXPECT_EQ(unio::run(std::move(temporary).co_close()).error().value(), EACCES);
  calls.fail<&table::unlinkat>(0);
  EXPECT_TRUE(unio::run(open().co_close()));
}

DIRECTORY_TEST(temp_file, described_as_a_close_is_removed_too) {
  {
    unio::async_close const closing(file_handle::temp_file(directory.handle()).value());
  }
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(temp_file, stays_when_a_child_of_fork_closes_its_copy) {
  file_handle a = file_handle::temp_file(directory.handle()).value();
  file_handle b = file_handle::file(directory.handle(), "b", mode::write, creation::if_needed, caching::all,
                                    flag::unlink_on_close)
                      .value();
  test::expect_in_child([&] {
    CHILD_EXPECTS(a.close().has_value() && b.close().has_value());
    {
      file_handle const own = file_handle::temp_file(directory.handle()).value();
    }
    return CHILD_MEETS(directory.count() == 2);
  });
  EXPECT_EQ(directory.count(), 2);
  EXPECT_TRUE(a.close() && b.close());
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(temp_file, stays_however_many_forks_away_a_copy_is_closed) {
  file_handle a = file_handle::temp_file(directory.handle()).value();
  test::expect_in_child([&] {
    for (int i = 1; i != 16; ++i) {
      pid_t const child = ::fork();
      if (child == 0) continue; // and makes the next one
      int status = -1;
      CHILD_EXPECTS(child > 0 && ::waitpid(child, &status, 0) == child && status == 0);
      CHILD_EXPECTS(a.close().has_value());
      return CHILD_MEETS(directory.count() == 1);
    }
    CHILD_EXPECTS(a.close().has_value());
    return CHILD_MEETS(directory.count() == 1);
  });
  EXPECT_EQ(directory.count(), 1);
  EXPECT_TRUE(a.close());
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(temp_file, is_readable_by_its_owner_only) {
  struct stat s{};
  file_handle const f = file_handle::temp_file(directory.handle()).value();
  ASSERT_EQ(::fstat(f.native_handle(), &s), 0);
  EXPECT_EQ(s.st_mode & 0777U, 0600U);
}

TEST(temp_file, is_made_in_the_directory_for_temporary_files_by_default) {
  file_handle const f = file_handle::temp_file().value();
  EXPECT_TRUE(
      f.current_path().value().starts_with(unio::path_handle::temporary().value().current_path().value()));
}

// A directory in which others can remove and replace its file is passed over, as by path_handle::temporary.
DIRECTORY_TEST(temp_file, is_not_made_where_others_can_replace_it) {
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  test::environment_variable const wanted("TMPDIR", directory.path().c_str());
  file_handle const f = file_handle::temp_file().value();
  EXPECT_FALSE(f.current_path().value().starts_with(directory.path()));
  EXPECT_TRUE(file_handle::temp_inode());
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(temp_file, refuses_a_prefix_that_leads_elsewhere) {
  EXPECT_EQ(file_handle::temp_file(directory.handle(), "../a").error().value(), EINVAL);
  EXPECT_EQ(file_handle::temp_file(directory.handle(), std::string(300, 'a')).error().value(), ENAMETOOLONG);
}

DIRECTORY_TEST(temp_inode, has_no_name) {
  file_handle f = file_handle::temp_inode(directory.handle()).value();
  EXPECT_EQ(directory.count(), 0);
  EXPECT_EQ(f.truncate(5).value(), 5U);
  EXPECT_EQ(f.unlink().error().value(), ENOENT);
}

// Of which the kernel still says that it was deleted: the handle does not know the name.
DIRECTORY_TEST(temp_inode, that_was_linked_is_renamed_and_unlinked_by_its_name) {
  file_handle f = file_handle::temp_inode(directory.handle()).value();
  EXPECT_EQ(f.stat(unio::stat_fields::permissions).value().permissions, 0600);
  ASSERT_TRUE(f.link(directory.handle(), "a"));
  EXPECT_TRUE(f.current_path().value().ends_with(" (deleted)"));
  EXPECT_EQ(f.relink(directory.handle(), "b").error().value(), ENOENT);
  EXPECT_EQ(f.unlink().error().value(), ENOENT);
  EXPECT_TRUE(unio::rename(directory.handle(), "a", directory.handle(), "b"));
  EXPECT_TRUE(unio::unlink(directory.handle(), "b", unio::unlink_mode::file));
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(temp_inode, is_made_with_a_name_for_a_moment_where_the_filesystem_needs_one) {
  test::replaced_calls calls;
  calls->openat = [](int dir, char const* path, int flags, unsigned permissions) noexcept -> std::int64_t {
    if ((flags & O_TMPFILE) == O_TMPFILE) return -EOPNOTSUPP;
    return unio::sys::kernel.openat(dir, path, flags, permissions);
  };
  EXPECT_TRUE(file_handle::temp_inode(directory.handle()));
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(file, has_any_number_of_reads_and_writes_in_flight) {
  file_handle f = file_handle::temp_inode(directory.handle()).value();
  auto const one = [](file_handle& on, int i) -> unio::task<bool> {
    std::vector<unsigned char> const wrote(512, static_cast<unsigned char>(i));
    std::vector<unsigned char> read(512);
    unio::extent_type const at = 512U * static_cast<unsigned>(i);
    for (int n = 0; n != 3; ++n) {
      auto const put = co_await on.co_write({wrote, at});
      auto const got = co_await on.co_read({read, at});
      if (put.bytes_transferred() != 512 || got.bytes_transferred() != 512 || read != wrote) co_return false;
    }
    co_return true;
  };
  std::vector<unio::task<bool>> all;
  for (int i = 0; i != 100; ++i) all.push_back(one(f, i));
  int right = 0;
  unio::run([](std::vector<unio::task<bool>>& each, int& n) -> unio::task<> {
    auto const ended = co_await unio::when_all(each);
    for (bool const is_right : ended) n += is_right;
  }(all, right));
  EXPECT_EQ(right, 100);
}

DIRECTORY_TEST(uniquely_named_file, stays) {
  {
    EXPECT_TRUE(file_handle::uniquely_named_file(directory.handle(), "kept-"));
  }
  {
    EXPECT_TRUE(file_handle::uniquely_named_file(directory.handle(), "kept-"));
  }
  EXPECT_EQ(directory.count(), 2);
}

DIRECTORY_TEST(file, truncates_and_extends_with_zeros) {
  directory.write("a", "12345678");
  file_handle f = file_handle::file(directory.handle(), "a", mode::write).value();
  EXPECT_EQ(f.truncate(3).value(), 3U);
  EXPECT_EQ(f.truncate(5).value(), 5U);
  EXPECT_EQ(directory.read("a"), std::string("123\0\0", 5));
  EXPECT_EQ(f.truncate(unio::extent_type{1} << 63).error().value(), EFBIG);
  EXPECT_EQ(f.truncate(unio::no_offset).error().value(), EFBIG);
  file_handle reader = file_handle::file(directory.handle(), "a").value();
  EXPECT_EQ(reader.truncate(0).error().value(), EINVAL);
}

void zero_in_the_middle_and_past_the_end() {
  test::temporary_directory const directory;
  std::string text(200'000, 'x');
  directory.write("a", text);
  file_handle f = file_handle::file(directory.handle(), "a", mode::write).value();
  ASSERT_TRUE(f.zero(10, 150'000));
  text.replace(10, 150'000, 150'000, '\0');
  EXPECT_EQ(directory.read("a"), text);
  ASSERT_TRUE(f.zero(199'990, unio::no_offset));
  ASSERT_TRUE(f.zero(300'000, 10));
  ASSERT_TRUE(f.zero(0, 0));
  text.replace(199'990, 10, 10, '\0');
  EXPECT_EQ(directory.read("a"), text);
  EXPECT_EQ(f.zero(unio::no_offset, 1).error().value(), EFBIG);
}

TEST(file, zeroes_a_range_without_changing_the_length) { zero_in_the_middle_and_past_the_end(); }

TEST(file, writes_zeros_where_the_filesystem_cannot_punch_holes) {
  test::replaced_calls calls;
  calls->fallocate = [](int, int, std::int64_t, std::int64_t) noexcept -> std::int64_t {
    return -EOPNOTSUPP;
  };
  zero_in_the_middle_and_past_the_end();
}

DIRECTORY_TEST(file, does_not_append_zeros_instead_of_writing_them) {
  directory.write("a", "text");
  file_handle f = file_handle::file(directory.handle(), "a", mode::append).value();
  test::replaced_calls calls;
  calls->fallocate = [](int, int, std::int64_t, std::int64_t) noexcept -> std::int64_t {
    return -EOPNOTSUPP;
  };
  EXPECT_EQ(f.zero(0, 2).error().value(), EOPNOTSUPP);
  EXPECT_EQ(directory.read("a"), "text");
}

DIRECTORY_TEST(file, knows_where_it_is_after_it_was_renamed) {
  directory.write("a", "");
  file_handle f = file_handle::file(directory.handle(), "a").value();
  std::filesystem::rename(directory / "a", directory / "b");
  EXPECT_EQ(f.current_path().value(), directory / "b");
  std::filesystem::remove(directory / "b");
  EXPECT_EQ(f.current_path().value(), (directory / "b") + " (deleted)");
}

DIRECTORY_TEST(file, unlinks_the_name_it_has_now) {
  directory.write("a", "");
  file_handle f = file_handle::file(directory.handle(), "a").value();
  std::filesystem::rename(directory / "a", directory / "b");
  directory.write("a", "another");
  ASSERT_TRUE(f.unlink());
  EXPECT_EQ(directory.read("a"), "another");
  EXPECT_EQ(directory.count(), 1);
}

DIRECTORY_TEST(file, does_not_unlink_another_file_that_took_its_name) {
  directory.write("a", "");
  file_handle f = file_handle::file(directory.handle(), "a").value();
  std::filesystem::remove(directory / "a");
  directory.write("a", "another");
  // The kernel calls the old one "a (deleted)", which may be the name of another file as well.
  directory.write("a (deleted)", "odd");
  EXPECT_EQ(f.unlink().error().value(), ENOENT);
  EXPECT_EQ(directory.count(), 2);
}

DIRECTORY_TEST(file, unlinks_a_file_whose_name_looks_deleted) {
  directory.write("a (deleted)", "");
  file_handle f = file_handle::file(directory.handle(), "a (deleted)").value();
  EXPECT_TRUE(f.unlink());
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(file, is_unlinked_when_closed_if_the_flag_says_so) {
  {
    file_handle const f = file_handle::file(directory.handle(), "a", mode::write, creation::if_needed,
                                            caching::all, flag::unlink_on_close)
                              .value();
    EXPECT_EQ(directory.count(), 1);
  }
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(file, clones_share_the_position) {
  directory.write("a", "abcdef");
  file_handle const f = file_handle::file(directory.handle(), "a").value();
  file_handle const clone = f.clone().value();
  char c = 0;
  EXPECT_EQ(::read(f.native_handle(), &c, 1), 1);
  EXPECT_EQ(::read(clone.native_handle(), &c, 1), 1);
  EXPECT_EQ(c, 'b');
}

DIRECTORY_TEST(file, reads_and_writes_at_offsets) {
  file_handle f = file_handle::file(directory.handle(), "a", mode::write, creation::if_needed).value();
  EXPECT_EQ(f.write({"hello", 2}).value().bytes(), 5U);
  char memory[5];
  unio::io_result<unio::mutable_buffers> const r = f.read({memory, 2});
  ASSERT_TRUE(r);
  EXPECT_EQ(std::string(memory, r.bytes_transferred()), "hello");
  EXPECT_EQ(f.read({memory, 100}).value().bytes(), 0U);
}

DIRECTORY_TEST(file, opened_as_an_operation_is_the_same_file) {
  directory.write("a", "four");
  unio::async_open opening(directory.handle(), "a");
  opening.run_blocking();
  unio::io_result<file_handle> const r = opening.result();
  ASSERT_TRUE(r);
  EXPECT_EQ(r->maximum_extent().value(), 4U);
}

DIRECTORY_TEST(file, reports_that_no_descriptor_is_left) {
  directory.write("a", "");
  test::replaced_calls calls;
  calls->openat = [](int, char const*, int, unsigned) noexcept -> std::int64_t { return -EMFILE; };
  EXPECT_EQ(file_handle::file(directory.handle(), "a").error(), std::errc::too_many_files_open);
}

// With O_DIRECT an attempt waits for the device although it is asked not to (RWF_NOWAIT): reads would follow
// each other.
TEST(file, without_a_cache_is_not_read_inline) {
  auto m = unio::io_multiplexer::best_available().value(); // the handles forget themselves there
  if (std::string_view(m->capabilities().driver) != "io_uring")
    GTEST_SKIP() << "threads that may block look at the table of calls";
  test::temporary_directory const directory;
  if (std::string const why = test::no_direct_io(directory.path()); !why.empty()) GTEST_SKIP() << why;
  directory.write("a", std::string(8192, 'x'));
  auto opened =
      file_handle::file(directory.handle(), "a", mode::read, creation::open_existing, caching::only_metadata);
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  static int attempts = 0;
  attempts = 0;
  test::replaced_calls calls;
  calls->preadv2 = [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    if ((flags & RWF_NOWAIT) != 0) ++attempts;
    return unio::sys::kernel.preadv2(fd, v, n, at, flags);
  };
  alignas(4096) static std::byte data[4096];
  file_handle copy = opened->clone().value();
  for (file_handle* const f : {&*opened, &copy}) {
    f->set_multiplexer(m.get());
    auto const r = f->read({unio::mutable_buffer(data, sizeof data), 4096}, 10s);
    EXPECT_EQ(r.bytes_transferred(), sizeof data) << r.error().message();
    EXPECT_EQ(data[4095], std::byte{'x'});
  }
  EXPECT_EQ(attempts, 0);
}

} // namespace
