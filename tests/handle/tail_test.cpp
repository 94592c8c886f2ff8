// tail_handle.hpp: a file that others append to, read as a pipe without an end.

#include "support/descriptors.hpp"
#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/operation_table.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

namespace {

using namespace test;

void append(test::temporary_directory const& d, std::string_view text) {
  std::ofstream(d / "log", std::ios::app | std::ios::binary) << text;
}

std::string read_from(tail_handle& t, unio::deadline const d = long_time) {
  char memory[64];
  auto const r = t.read(unio::mutable_buffer(memory), d);
  if (!r.has_value()) return "[" + r.error().code().message() + "]";
  return {memory, r.bytes_transferred()};
}

// With inotify and without.
class tail : public ::testing::TestWithParam<bool> {
 protected:
  tail_handle follow(tail_from where = tail_from::end) {
    std::optional<test::failing_calls> calls;
    if (!GetParam()) calls.emplace().fail<&unio::sys::table::inotify_add_watch>(ENOSPC);
    tail_handle t = tail_handle::follow(d_.handle(), "log", where).value();
    EXPECT_EQ(t.is_notified(), GetParam());
    return t;
  }
  test::temporary_directory d_;
};
INSTANTIATE_TEST_SUITE_P(way, tail, ::testing::Bool(),
                         [](auto const& of) { return of.param ? "notified" : "polling"; });

TEST_P(tail, waits_at_the_end_for_more) {
  append(d_, "before\n");
  tail_handle t = follow();
  EXPECT_EQ(t.try_read(unio::mutable_buffer()).value().size(), 0U);
  char memory[8];
  EXPECT_EQ(t.try_read(unio::mutable_buffer(memory)).error(), unio::condition::would_block);
  EXPECT_EQ(t.try_read_for(unio::mutable_buffer(memory), 3ms).error(), unio::condition::timed_out);
  append(d_, "one\n");
  EXPECT_EQ(read_from(t), "one\n");
  std::thread writer([&] {
    std::this_thread::sleep_for(10ms);
    append(d_, "two\n");
  });
  EXPECT_EQ(read_from(t, unio::deadline::none()), "two\n");
  writer.join();
}

TEST_P(tail, keeps_no_descriptor_when_it_is_closed_as_an_operation) {
  append(d_, "before\n");
  std::ptrdiff_t const before = count_descriptors();
  for (int i = 0; i != 2; ++i) {
    tail_handle t = follow();
    if (i == 0) {
      unio::async_close op(std::move(t));
      op.run_blocking();
      EXPECT_TRUE(op.result());
    } else {
      ::close(t.release());
    }
    EXPECT_FALSE(t.is_notified());
    char memory[8];
    EXPECT_EQ(t.read(unio::mutable_buffer(memory), 1ms).error().value(), EBADF);
  }
  EXPECT_EQ(count_descriptors(), before);
}

TEST_P(tail, begins_at_the_beginning_if_asked) {
  append(d_, "all of it");
  tail_handle t = follow(tail_from::beginning);
  EXPECT_EQ(read_from(t), "all of it");
}

TEST_P(tail, reads_all_of_much_that_is_appended_at_once) {
  append(d_, "");
  tail_handle t = follow();
  std::string all;
  constexpr std::size_t total = 300'000;
  std::thread writer([&] {
    for (int i = 0; i < 30; ++i) append(d_, std::string(10'000, static_cast<char>('a' + i % 26)));
  });
  while (all.size() < total) all += read_from(t);
  writer.join();
  for (std::size_t i = 0; i < total; ++i) ASSERT_EQ(all[i], static_cast<char>('a' + i / 10'000 % 26));
}

TEST_P(tail, tells_of_a_truncation_once_and_goes_on_at_the_beginning) {
  append(d_, "a long line\n");
  tail_handle t = follow();
  ASSERT_EQ(::truncate((d_ / "log").c_str(), 0), 0);
  EXPECT_EQ(t.read(unio::mutable_buffer(), long_time).value().size(), 0U);
  char memory[16];
  EXPECT_EQ(t.read(unio::mutable_buffer(memory), long_time).error(), unio::condition::truncated);
  EXPECT_EQ(t.try_read(unio::mutable_buffer(memory)).error(), unio::condition::would_block);
  append(d_, "new");
  EXPECT_EQ(read_from(t), "new");
}

// Files of procfs say that they have no bytes.
TEST(tail_of, what_says_that_it_is_empty_ends_once) {
  tail_handle t = tail_handle::follow({}, "/proc/self/comm", tail_from::beginning).value();
  std::string all;
  while (!all.ends_with('\n')) all += read_from(t);
  char memory[16];
  EXPECT_EQ(t.try_read(unio::mutable_buffer(memory)).error(), unio::condition::would_block);
  EXPECT_EQ(t.try_read_for(unio::mutable_buffer(memory), 3ms).error(), unio::condition::timed_out);
}

// open(2) with O_NONBLOCK: EWOULDBLOCK.
TEST_P(tail, waits_for_a_file_of_which_another_process_has_a_lease) {
  append(d_, "before");
  test::failing_calls calls;
  calls.answer<&unio::sys::table::openat>([](int d, char const* p, int f, unsigned m) noexcept {
    bool const is_refused = (f & O_NONBLOCK) != 0 && (f & O_PATH) == 0;
    return is_refused ? -EAGAIN : unio::sys::kernel.openat(d, p, f, m);
  });
  tail_handle t = tail_handle::follow(d_.handle(), "log", tail_from::beginning).value();
  EXPECT_EQ(read_from(t), "before");
  ASSERT_EQ(::mkfifo((d_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(tail_handle::follow(d_.handle(), "fifo").error(), unio::condition::would_block) << "for no FIFO";
}

TEST_P(tail, follows_the_file_and_not_its_name) {
  append(d_, "");
  tail_handle t = follow();
  std::ofstream same(d_ / "log", std::ios::app);
  ASSERT_EQ(::rename((d_ / "log").c_str(), (d_ / "log.1").c_str()), 0);
  append(d_, "in the new one");
  same << "in the old one" << std::flush;
  EXPECT_EQ(read_from(t), "in the old one");
}

TEST_P(tail, closes_both_of_its_descriptors) {
  append(d_, "");
  auto const before = test::count_descriptors();
  {
    tail_handle t = follow();
    tail_handle other = std::move(t);
    EXPECT_FALSE(t.is_open());
    EXPECT_EQ(read_from(t), "[Bad file descriptor]");
    t = std::move(other);
    append(d_, "x");
    EXPECT_EQ(read_from(t), "x");
    other = follow();
    EXPECT_TRUE(other.close());
  }
  EXPECT_EQ(test::count_descriptors(), before);
}

TEST(tail_of, is_not_notified_on_filesystems_that_others_write_to) {
  static long type; // of an entry of the table, which captures nothing
  test::temporary_directory d;
  append(d, "before\n");
  test::replaced_calls calls;
  calls->fstatfs = [](int fd, struct statfs* s) noexcept {
    auto const r = unio::sys::kernel.fstatfs(fd, s);
    s->f_type = type;
    return r;
  };
  type = EXT4_SUPER_MAGIC;
  EXPECT_TRUE(tail_handle::follow(d.handle(), "log").value().is_notified());
  for (long const other :
       {NFS_SUPER_MAGIC, V9FS_MAGIC, AFS_SUPER_MAGIC, AFS_FS_MAGIC, 0x786f4256 /* VirtualBox */}) {
    type = other;
    tail_handle t = tail_handle::follow(d.handle(), "log", tail_from::beginning).value();
    EXPECT_FALSE(t.is_notified()) << other;
    EXPECT_EQ(read_from(t), "before\n") << other;
  }
}

TEST(tail_of, refuses_what_does_not_grow) {
  test::temporary_directory d;
  ASSERT_EQ(::mkfifo((d / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(tail_handle::follow(d.handle(), "fifo").error().value(), EINVAL);
  EXPECT_EQ(tail_handle::follow(d.handle(), ".").error().value(), EINVAL);
  EXPECT_EQ(tail_handle::follow(d.handle(), "missing").error().value(), ENOENT);
  auto const before = test::count_descriptors();
  test::failing_calls calls;
  d.write("log", "");
  calls.fail<&unio::sys::table::openat>(EMFILE);
  EXPECT_EQ(tail_handle::follow(d.handle(), "log").error().value(), EMFILE);
  calls.fail<&unio::sys::table::fstat>(EIO);
  EXPECT_EQ(tail_handle::follow(d.handle(), "log").error().value(), EIO);
  calls.fail<&unio::sys::table::lseek>(EIO);
  EXPECT_EQ(tail_handle::follow(d.handle(), "log").error().value(), EIO);
  EXPECT_EQ(test::count_descriptors(), before);
}

} // namespace
