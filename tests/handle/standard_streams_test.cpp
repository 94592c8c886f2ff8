// standard_streams.hpp: streams that others share, which stay as they are.

#include "support/child.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/failing_calls.hpp"
#include "support/operation_table.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/work.hpp"
#include "sys/sanitizer.hpp"

#include <grp.h>
#include <pty.h>
#include <termios.h>
#include <utmp.h>

namespace {

#if defined(UNIO_THREAD_SANITIZER)
constexpr bool children_start_no_threads = true;
#else
constexpr bool children_start_no_threads = false;
#endif

using namespace test;

bool blocks(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0; }

std::string read_from(io_handle& h) {
  char memory[64];
  auto const r = h.read(unio::mutable_buffer(memory), long_time);
  if (!r.has_value()) return "[" + r.error().code().message() + "]";
  return {memory, r.bytes_transferred()};
}
bool write_to(io_handle& h, std::string_view text) {
  auto const r = h.write(unio::const_buffer(text), long_time);
  return r.has_value() && r.bytes_transferred() == text.size();
}

/// Both ends of something whose descriptions block, as a shell makes them.
struct blocking_ends {
  int fds[2] = {-1, -1};
  blocking_ends() = default;
  blocking_ends(blocking_ends const&) = delete;
  blocking_ends& operator=(blocking_ends const&) = delete;
  ~blocking_ends() {
    ::close(fds[0]);
    ::close(fds[1]);
  }
};
struct blocking_pipe : blocking_ends {
  blocking_pipe() { EXPECT_EQ(::pipe2(fds, O_CLOEXEC), 0); }
};
struct blocking_sockets : blocking_ends {
  blocking_sockets() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0); }
};
struct terminal : blocking_ends { // the terminal, and what is behind it
  terminal() {
    EXPECT_EQ(::openpty(&fds[1], &fds[0], nullptr, nullptr, nullptr), 0);
    termios raw;
    ::tcgetattr(fds[0], &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(fds[0], TCSANOW, &raw);
  }
};

// Waits in vain, then reads what comes, in one piece and in two; and leaves the shared end as it was.
template <class Ends> void expect_reads_without_blocking_others() {
  Ends ends;
  io_handle in = shared_stream(ends.fds[0]).value();
  EXPECT_NE(in.native_handle(), ends.fds[0]);
  EXPECT_EQ(::fcntl(in.native_handle(), F_GETFD), FD_CLOEXEC);
  char memory[8];
  EXPECT_EQ(in.try_read(unio::mutable_buffer(memory)).error(), unio::condition::would_block);
  EXPECT_EQ(in.try_read_for(unio::mutable_buffer(memory), 2ms).error(), unio::condition::timed_out);
  unio::mutable_buffer const two[2] = {{memory, 2}, {memory + 2, 6}};
  EXPECT_EQ(in.try_read(unio::mutable_buffers(two)).error(), unio::condition::would_block);
  EXPECT_TRUE(blocks(ends.fds[0]));
  ASSERT_EQ(::write(ends.fds[1], "hello", 5), 5);
  auto const r = in.read(unio::mutable_buffers(two), long_time);
  ASSERT_TRUE(r.has_value()) << r.error().code().message();
  EXPECT_EQ(std::string(memory, r.bytes_transferred()), "hello");
  ASSERT_TRUE(in.close());
  ASSERT_EQ(::write(ends.fds[1], "x", 1), 1);
  EXPECT_EQ(::read(ends.fds[0], memory, 1), 1) << "it is open still";
  EXPECT_TRUE(blocks(ends.fds[0]));
}

TEST(shared_stream, of_a_pipe_is_read_without_making_it_non_blocking) {
  expect_reads_without_blocking_others<blocking_pipe>();
}
TEST(shared_stream, of_a_socket_is_read_without_making_it_non_blocking) {
  expect_reads_without_blocking_others<blocking_sockets>();
}
TEST(shared_stream, of_a_terminal_is_read_without_making_it_non_blocking) {
  expect_reads_without_blocking_others<terminal>();
}

template <class Ends> void expect_writes_without_blocking_others(bool reader_first) {
  Ends ends;
  int const reader = ends.fds[reader_first ? 0 : 1], writer = ends.fds[reader_first ? 1 : 0];
  io_handle out = shared_stream(writer).value();
  std::string const block(10'000, 'x');
  std::size_t written = 0;
  for (;;) {
    auto const r = out.try_write(unio::const_buffer(block));
    if (!r.has_value()) {
      EXPECT_EQ(r.error(), unio::condition::would_block);
      break;
    }
    written += r.bytes_transferred();
  }
  EXPECT_TRUE(blocks(writer));
  EXPECT_EQ(out.try_write_for(unio::const_buffer(block), 2ms).error(), unio::condition::timed_out);
  std::thread other([&] {
    std::string all(written, '\0');
    for (std::size_t n = 0; n < written;) {
      ssize_t const r = ::read(reader, all.data(), all.size());
      if (r <= 0) break;
      n += static_cast<std::size_t>(r);
    }
  });
  EXPECT_TRUE(write_to(out, "more"));
  other.join();
}

TEST(shared_stream, of_a_full_pipe_waits_for_room) {
  expect_writes_without_blocking_others<blocking_pipe>(true);
}
TEST(shared_stream, of_a_full_socket_waits_for_room) {
  expect_writes_without_blocking_others<blocking_sockets>(true);
}

TEST(shared_stream, of_a_file_goes_on_at_its_position) {
  test::temporary_directory d;
  d.write("file", "one two three");
  int const fd = ::open((d / "file").c_str(), O_RDWR | O_CLOEXEC);
  char memory[4];
  ASSERT_EQ(::read(fd, memory, 4), 4);
  io_handle h = shared_stream(fd).value();
  auto const r = h.read(unio::mutable_buffer(memory, 4), long_time);
  ASSERT_TRUE(r.has_value());
  EXPECT_EQ(std::string(memory, r.bytes_transferred()), "two ");
  EXPECT_EQ(::lseek(fd, 0, SEEK_CUR), 8) << "which is everybody's";
  EXPECT_TRUE(write_to(h, "THREE"));
  EXPECT_EQ(d.read("file"), "one two THREE");
  ::close(fd);
}

TEST(shared_stream, of_a_device_is_that_device) {
  int const fd = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  io_handle h = shared_stream(fd).value();
  EXPECT_EQ(read_from(h), "");
  EXPECT_TRUE(write_to(h, "away"));
  ::close(fd);
}

TEST(shared_stream, refuses_what_is_no_stream) {
  EXPECT_EQ(shared_stream(-1).error().value(), EBADF);
  test::temporary_directory d;
  EXPECT_EQ(shared_stream(d.handle().native_handle()).error().value(), EISDIR);
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair), 0);
  EXPECT_EQ(shared_stream(pair[0]).error(), std::errc::wrong_protocol_type);
  ::close(pair[0]);
  ::close(pair[1]);
}

TEST(shared_stream, leaves_nothing_behind_where_no_descriptor_is_left) {
  blocking_pipe p;
  auto const before = test::count_descriptors();
  using table = unio::sys::table;
  for (int const error : {EMFILE, ENFILE}) {
    test::failing_calls calls;
    calls.fail<&table::openat>(error);
    EXPECT_EQ(shared_stream(p.fds[0]).error().value(), error);
    calls.fail<&table::openat>(0);
    calls.fail<&table::fcntl>(error);
    EXPECT_EQ(shared_stream(p.fds[0]).error().value(), error);
    EXPECT_EQ(test::count_descriptors(), before);
  }
}

TEST(shared_stream, of_a_pipe_without_readers_ends_with_an_error) {
  blocking_pipe p;
  ::close(p.fds[0]);
  io_handle h = shared_stream(p.fds[1]).value();
  EXPECT_EQ(h.write(unio::const_buffer(std::string_view("x"))).error().value(), EPIPE);
  p.fds[0] = -1;
}

// ---- what this process may not open: another user's pipe ------------------------------------------------

class shared_stream_of_another : public test::on_each_driver {
 protected:
  // As if it could not be opened anew, which the superuser always can.
  [[nodiscard]] static io_handle share(int fd) {
    test::failing_calls calls;
    calls.fail<&unio::sys::table::openat>(EACCES, {.times = test::which_calls::all});
    return shared_stream(fd).value();
  }
};
UNIO_ON_BOTH_DRIVERS(shared_stream_of_another);

struct tell_text {
  std::string* told;
  char const* memory;
  void set_value(unio::io_result<unio::mutable_buffers>&& r) {
    *told = r.has_value() ? std::string(memory, r.bytes_transferred()) + "." : r.error().code().message();
  }
  void set_done() {}
};

TEST_P(shared_stream_of_another, is_read_only_when_it_is_ready) {
  for (bool const is_terminal : {false, true}) {
    terminal t;
    blocking_pipe p;
    int const* const fds = is_terminal ? t.fds : p.fds;
    io_handle in = share(fds[0]);
    char memory[8];
    EXPECT_EQ(in.try_read(unio::mutable_buffer(memory)).error(), unio::condition::would_block);
    EXPECT_EQ(in.try_read_for(unio::mutable_buffer(memory), 2ms).error(), unio::condition::timed_out);
    EXPECT_TRUE(blocks(fds[0]));
    in.set_multiplexer(m_.get());
    std::string told;
    auto op = unio::connect(unio::async_read(in, unio::mutable_buffer(memory)), tell_text{&told, memory});
    op.start();
    (void)m_->try_run();
    EXPECT_EQ(told, "");
    ASSERT_EQ(::write(fds[1], "hello", 5), 5);
    while (told.empty()) (void)m_->run(1);
    EXPECT_EQ(told, "hello.");
  }
}

TEST_P(shared_stream_of_another, ends_where_its_writers_end) {
  blocking_pipe p;
  io_handle in = share(p.fds[0]);
  in.set_multiplexer(m_.get());
  ::close(p.fds[1]);
  p.fds[1] = -1;
  char memory[8];
  EXPECT_EQ(in.read(unio::mutable_buffer(memory), long_time).bytes_transferred(), 0U);
  EXPECT_TRUE(in.read(unio::mutable_buffer(memory), long_time).has_value());
}

TEST_P(shared_stream_of_another, is_written_to_only_where_there_is_room) {
  blocking_pipe p;
  io_handle out = share(p.fds[1]);
  out.set_multiplexer(m_.get());
  std::string const block(10'000, 'x');
  std::size_t written = 0;
  for (;;) {
    auto const r = out.try_write(unio::const_buffer(block));
    if (!r.has_value()) break;
    EXPECT_LE(r.bytes_transferred(), 4096U);
    written += r.bytes_transferred();
  }
  EXPECT_EQ(written, 65536U);
  EXPECT_EQ(out.try_write_for(unio::const_buffer(block), 2ms).error(), unio::condition::timed_out);
  EXPECT_TRUE(blocks(p.fds[1]));
}

// A terminal makes room by itself for a while.
std::error_code why_no_more_goes(io_handle& from, io_handle& to) {
  for (;;)
    if (auto const r = unio::try_splice_for(from, to, {.bytes = 65'536}, 2ms); !r) return r.error();
}

// A terminal that has some room has less than a page. What is in its way is read only if a call waits.
TEST_P(shared_stream_of_another, is_written_to_in_pieces_for_which_a_terminal_has_room) {
  terminal t;
  io_handle out = share(t.fds[0]);
  std::string const block(10'000, 'x');
  {
    int const filler = ::open(::ttyname(t.fds[0]), O_WRONLY | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);
    while (::write(filler, block.data(), block.size()) > 0) continue;
    ::close(filler);
  }
  std::string read(1 << 20, '\0');
  pollfd room{.fd = t.fds[0], .events = POLLOUT, .revents = 0};
  while (::poll(&room, 1, 0) == 0) ASSERT_GT(::read(t.fds[1], read.data(), 64), 0);
  watchdog const ends_what_waits;
  out.set_multiplexer(m_.get());
  std::size_t written = 0;
  while (auto const r = out.try_write(unio::const_buffer(block))) written += r.bytes_transferred();
  auto pipe = unio::pipe_handle::anonymous().value();
  ASSERT_TRUE(pipe.writer.write(unio::const_buffer(block)));
  while (auto const r = unio::try_splice(pipe.reader, out, {.bytes = block.size()}))
    written += r.bytes_transferred();
  EXPECT_EQ(why_no_more_goes(pipe.reader, out), unio::condition::timed_out);
  EXPECT_GT(written, 0U);
}

// splice(2) heeds O_NONBLOCK alone, but for pipes.
TEST_P(shared_stream_of_another, is_spliced_only_where_it_is_ready) {
  watchdog const ends_what_waits;
  for (int const what : {0, 1}) {
    terminal t;
    blocking_sockets s;
    int const* const fds = what == 0 ? t.fds : s.fds;
    io_handle shared = share(fds[0]);
    auto pipe = unio::pipe_handle::anonymous().value();
    for (auto* const h : {static_cast<io_handle*>(&shared), static_cast<io_handle*>(&pipe.reader),
                          static_cast<io_handle*>(&pipe.writer)})
      h->set_multiplexer(m_.get());
    EXPECT_EQ(unio::try_splice(shared, pipe.writer, {.bytes = 100}).error(), unio::condition::would_block);
    EXPECT_EQ(unio::try_splice_for(shared, pipe.writer, {.bytes = 100}, 2ms).error(),
              unio::condition::timed_out);
    ASSERT_EQ(::write(fds[1], "hello", 5), 5);
    EXPECT_EQ(unio::splice(shared, pipe.writer, {.bytes = 100}, long_time).value(), 5U);
    EXPECT_EQ(read_from(pipe.reader), "hello");
    std::string const block(65'536, 'x');
    std::size_t moved = 0;
    for (;;) {
      (void)pipe.writer.try_write(unio::const_buffer(block));
      auto const r = unio::try_splice(pipe.reader, shared, {.bytes = block.size()});
      if (!r) break;
      moved += *r;
    }
    EXPECT_GT(moved, 0U);
    EXPECT_EQ(why_no_more_goes(pipe.reader, shared), unio::condition::timed_out);
    EXPECT_TRUE(blocks(fds[0]));
  }
}

// ---- the three ------------------------------------------------------------------------------------------

TEST(standard_streams, are_handles_of_their_own) {
  if (children_start_no_threads) GTEST_SKIP() << "under this sanitizer a forked child starts no thread";
  test::temporary_directory d;
  test::expect_in_child([&] {
    int ends[2];
    CHILD_EXPECTS(::pipe(ends) == 0 && ::write(ends[1], "typed", 5) == 5);
    ::dup2(ends[0], 0);
    int const file = ::open((d / "out").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    ::dup2(file, 1);
    {
      io_handle in = unio::standard_input().value();
      io_handle out = unio::standard_output().value();
      io_handle error = unio::standard_error().value();
      CHILD_EXPECTS(read_from(in) == "typed" && write_to(out, "printed"));
      CHILD_EXPECTS(in.native_handle() > 2 && out.native_handle() > 2 && error.native_handle() > 2);
    }
    CHILD_EXPECTS(blocks(0) && blocks(1));
    return CHILD_MEETS(::write(1, ", and more", 10) == 10);
  });
  EXPECT_EQ(d.read("out"), "printed, and more");
}

TEST(standard_streams, that_are_closed_are_an_error) {
  test::expect_in_child([] {
    ::close(0);
    return CHILD_MEETS(unio::standard_input().error().value() == EBADF);
  });
}

// su: the terminal belongs to whoever logged in, but it is the one that controls this process.
TEST(standard_streams, on_another_users_terminal_are_opened_as_dev_tty) {
  if (children_start_no_threads) GTEST_SKIP() << "under this sanitizer a forked child starts no thread";
  if (::getuid() != 0) GTEST_SKIP() << "only the superuser becomes another user";
  test::expect_in_child([] {
    int behind = -1, tty = -1;
    CHILD_EXPECTS(::openpty(&behind, &tty, nullptr, nullptr, nullptr) == 0);
    termios raw;
    ::tcgetattr(tty, &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(tty, TCSANOW, &raw);
    CHILD_EXPECTS(::fchmod(tty, 0600) == 0 && ::login_tty(tty) == 0);
    CHILD_EXPECTS(::setgroups(0, nullptr) == 0 && ::setgid(65534) == 0 && ::setuid(65534) == 0);
    CHILD_EXPECTS(::open("/proc/self/fd/0", O_RDWR) < 0);
    io_handle in = unio::standard_input().value();
    CHILD_EXPECTS(in.kind() == unio::handle_kind::pipe && blocks(0));
    CHILD_EXPECTS(::write(behind, "key", 3) == 3);
    return CHILD_MEETS(read_from(in) == "key");
  });
}

} // namespace
