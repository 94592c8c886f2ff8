// handle.hpp: which handle owns a descriptor, and that it never is 0, 1 or 2 nor inherited.

#include "support/child.hpp"
#include "support/descriptors.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "sys/descriptors.hpp"

namespace {

using namespace test;

bool is_nonblocking(int fd) { return (::fcntl(fd, F_GETFL) & O_NONBLOCK) != 0; }

TEST(handle, is_closed_unless_opened) {
  unio::handle h;
  EXPECT_FALSE(h.is_open());
  EXPECT_EQ(h.native_handle(), -1);
  EXPECT_TRUE(h.close());
  EXPECT_EQ(h.release(), -1);
  EXPECT_EQ(h.clone().error().value(), EBADF);
  EXPECT_EQ(h.current_path().error().value(), EBADF);
}

TEST(handle, closes_its_descriptor_at_its_end) {
  int fd;
  {
    unio::anonymous_pipe const pipe = pipe_handle::anonymous().value();
    fd = pipe.reader.native_handle();
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(handle, closes_once_and_says_nothing_the_second_time) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  EXPECT_TRUE(pipe.reader.close());
  EXPECT_FALSE(pipe.reader.is_open());
  EXPECT_TRUE(pipe.reader.close());
}

TEST(handle, moves_its_descriptor) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  int const fd = pipe.reader.native_handle();
  pipe_handle other = std::move(pipe.reader);
  EXPECT_EQ(other.native_handle(), fd);
  EXPECT_FALSE(pipe.reader.is_open()); // NOLINT(bugprone-use-after-move): what is promised about it
}

TEST(handle, closes_what_it_had_when_another_is_assigned) {
  unio::anonymous_pipe a = pipe_handle::anonymous().value();
  unio::anonymous_pipe b = pipe_handle::anonymous().value();
  int const old = a.reader.native_handle();
  int const taken = b.reader.native_handle();
  a.reader = std::move(b.reader);
  EXPECT_FALSE(is_open(old));
  EXPECT_EQ(a.reader.native_handle(), taken);
}

TEST(handle, survives_assignment_to_itself) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  pipe_handle& same = pipe.reader;
  pipe.reader = std::move(same);
  EXPECT_TRUE(is_open(pipe.reader.native_handle()));
}

// Nothing is durable then, nor is the working directory, for which the default path_handle stands elsewhere.
TEST(closed_handle, makes_nothing_durable) {
  unio::file_handle file;
  unio::path_handle here;
  EXPECT_EQ(file.barrier().error().value(), EBADF);
  EXPECT_EQ(file.try_barrier(unio::barrier_kind::nowait_all).error().value(), EBADF);
  EXPECT_EQ(here.barrier().error().value(), EBADF);
  EXPECT_EQ(unio::run(here.co_barrier()).error().value(), EBADF);
}

TEST(handle, gives_its_descriptor_up_unclosed) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  int const fd = pipe.reader.release();
  EXPECT_FALSE(pipe.reader.is_open());
  EXPECT_TRUE(is_open(fd));
  ::close(fd);
}

TEST(handle, changes_the_generation_of_its_number_when_it_gives_it_up) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  int const fd = pipe.reader.native_handle();
  std::uint32_t const before = unio::sys::generation(fd);
  EXPECT_TRUE(pipe.reader.close());
  EXPECT_NE(unio::sys::generation(fd), before);
}

TEST(handle, clones_onto_the_same_open_description) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  unio::handle copy = pipe.writer.clone().value();
  EXPECT_NE(copy.native_handle(), pipe.writer.native_handle());
  EXPECT_EQ(copy.kind(), handle_kind::pipe);
  EXPECT_TRUE(is_close_on_exec(copy.native_handle()));
  EXPECT_TRUE(pipe.writer.close());
  EXPECT_EQ(::write(copy.native_handle(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(pipe.reader.native_handle(), &c, 1), 1);
}

DIRECTORY_TEST(handle, opens_nothing_that_a_started_program_would_inherit) {
  auto const expect = [](unio::handle const& h) {
    EXPECT_GT(h.native_handle(), 2);
    EXPECT_TRUE(is_close_on_exec(h.native_handle()));
  };
  unio::anonymous_pipe const pipe = pipe_handle::anonymous().value();
  expect(pipe.reader);
  expect(pipe.writer);
  unio::socket_pair const pair = unio::socket_handle::pair().value();
  expect(pair.first);
  expect(pair.second);
  expect(unio::socket_handle::create(unio::address_family::ipv4).value());
  expect(unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value());
  expect(unio::event_handle::create().value());
  expect(unio::file_handle::temp_file(directory.handle()).value());
  expect(unio::file_handle::temp_inode(directory.handle()).value());
  expect(pipe_handle::create(directory.handle(), "fifo").value());
  expect(directory.handle());
}

DIRECTORY_TEST(handle, is_never_0_1_or_2_even_if_those_are_free) {
  directory.write("file", "text");
  test::expect_in_child([&] {
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    auto const bad = [&](unio::handle const& h) {
      return h.native_handle() <= 2 || !is_close_on_exec(h.native_handle());
    };
    unio::result<unio::anonymous_pipe> const pipe = pipe_handle::anonymous();
    CHILD_EXPECTS(pipe && !bad(pipe->reader) && !bad(pipe->writer));
    unio::result<unio::socket_pair> const pair = unio::socket_handle::pair();
    CHILD_EXPECTS(pair && !bad(pair->first) && !bad(pair->second));
    unio::result<unio::socket_handle> const socket =
        unio::socket_handle::create(unio::address_family::unix_path);
    CHILD_EXPECTS(socket && !bad(*socket));
    unio::result<unio::event_handle> const event = unio::event_handle::create();
    CHILD_EXPECTS(event && !bad(*event));
    unio::result<unio::file_handle> const file = unio::file_handle::file(directory.handle(), "file");
    CHILD_EXPECTS(file && !bad(*file));
    unio::result<unio::file_handle> const temporary = unio::file_handle::temp_file(directory.handle());
    CHILD_EXPECTS(temporary && !bad(*temporary));
    unio::result<unio::handle> const clone = file->handle::clone();
    CHILD_EXPECTS(clone && !bad(*clone));
    unio::result<unio::path_handle> const path = unio::path_handle::path("/");
    CHILD_EXPECTS(path && !bad(*path));
    return CHILD_MEETS(!is_open(0) && !is_open(1) && !is_open(2));
  });
}

TEST(adopt, takes_a_pipe_and_makes_it_nonblocking_and_close_on_exec) {
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  {
    unio::result<io_handle> const adopted = io_handle::adopt(fds[0]);
    ASSERT_TRUE(adopted);
    EXPECT_EQ(adopted->kind(), handle_kind::pipe);
    EXPECT_EQ(adopted->native_handle(), fds[0]);
    EXPECT_TRUE(is_close_on_exec(fds[0]));
    EXPECT_TRUE(is_nonblocking(fds[0]));
  }
  EXPECT_FALSE(is_open(fds[0]));
  ::close(fds[1]);
}

DIRECTORY_TEST(adopt, knows_files_from_sockets_and_sockets_that_listen) {
  int const file = ::open((directory / "file").c_str(), O_RDWR | O_CREAT, 0600);
  unio::result<io_handle> const adopted_file = io_handle::adopt(file);
  EXPECT_EQ(adopted_file.value().kind(), handle_kind::file);
  EXPECT_FALSE(is_nonblocking(file));

  int const socket = ::socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(io_handle::adopt(socket).value().kind(), handle_kind::stream_socket);

  int const listening = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(::listen(listening, 1), 0);
  EXPECT_EQ(io_handle::adopt(listening).value().kind(), handle_kind::listening_socket);

  int const null = ::open("/dev/null", O_RDWR);
  EXPECT_EQ(io_handle::adopt(null).value().kind(), handle_kind::pipe);
}

TEST(adopt, leaves_the_caller_what_it_refuses) {
  EXPECT_EQ(io_handle::adopt(-1).error().value(), EBADF);
  EXPECT_EQ(io_handle::adopt(1'000'000).error().value(), EBADF);
  int const directory = ::open("/", O_RDONLY | O_DIRECTORY);
  EXPECT_EQ(io_handle::adopt(directory).error().value(), EISDIR);
  EXPECT_TRUE(is_open(directory));
  ::close(directory);
}

// An empty message would read as the end of a stream, and of a long one what does not fit would be lost.
TEST(adopt, refuses_sockets_whose_bytes_are_messages) {
  for (int const type : {SOCK_DGRAM, SOCK_SEQPACKET}) {
    int const socket = ::socket(AF_UNIX, type, 0);
    ASSERT_GE(socket, 0);
    EXPECT_EQ(io_handle::adopt(socket).error(), std::errc::wrong_protocol_type);
    EXPECT_TRUE(is_open(socket));
    EXPECT_FALSE(is_nonblocking(socket));
    ::close(socket);
  }
  int const listening = ::socket(AF_UNIX, SOCK_SEQPACKET, 0);
  sockaddr_un name{};
  name.sun_family = AF_UNIX; // and no more: the kernel gives it a name
  ASSERT_EQ(::bind(listening, reinterpret_cast<sockaddr*>(&name), sizeof(sa_family_t)), 0);
  ASSERT_EQ(::listen(listening, 1), 0);
  EXPECT_EQ(io_handle::adopt(listening).error(), std::errc::wrong_protocol_type);
  ::close(listening);
}

TEST(adopt, moves_a_standard_descriptor_above_2) {
  test::expect_in_child([] {
    int fds[2];
    CHILD_EXPECTS(::pipe(fds) == 0 && ::dup2(fds[0], 0) == 0);
    unio::result<io_handle> const adopted = io_handle::adopt(0);
    CHILD_EXPECTS(adopted);
    CHILD_EXPECTS(adopted->native_handle() > 2 && is_close_on_exec(adopted->native_handle()));
    return CHILD_MEETS(!is_open(0));
  });
}

// Others may have the same open description: a shell's, say, whose terminal it is.
TEST(adopt, changes_nothing_where_there_is_no_number_to_move_to) {
  test::expect_in_child([] {
    int fds[2];
    CHILD_EXPECTS(::pipe(fds) == 0 && ::dup2(fds[0], 0) == 0);
    test::failing_calls calls;
    calls.answer<&unio::sys::table::fcntl>([](int fd, int command, long argument) noexcept -> std::int64_t {
      return command == F_DUPFD_CLOEXEC ? -EMFILE : unio::sys::kernel.fcntl(fd, command, argument);
    });
    CHILD_EXPECTS(io_handle::adopt(0).error().value() == EMFILE);
    return CHILD_MEETS(is_open(0) && !is_nonblocking(fds[0]));
  });
}

TEST(async_close, that_is_never_started_closes) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  int const fd = pipe.reader.native_handle();
  {
    unio::async_close closing(std::move(pipe.reader));
    EXPECT_FALSE(pipe.reader.is_open()); // NOLINT(bugprone-use-after-move)
    unio::async_close const moved = std::move(closing);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(async_close, closes_what_it_held_when_another_is_assigned) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  int const reader = pipe.reader.native_handle();
  int const writer = pipe.writer.native_handle();
  unio::async_close closing(std::move(pipe.reader));
  closing = unio::async_close(std::move(pipe.writer));
  EXPECT_FALSE(is_open(reader));
  EXPECT_TRUE(is_open(writer));
  closing = unio::async_close();
  EXPECT_FALSE(is_open(writer));
}

TEST(async_close, closes_when_it_runs_and_not_again) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  int const fd = pipe.reader.native_handle();
  {
    unio::async_close closing(std::move(pipe.reader));
    closing.run_blocking();
    EXPECT_TRUE(closing.result());
    EXPECT_FALSE(is_open(fd));
    closing.reset();
    ASSERT_EQ(::dup2(pipe.writer.native_handle(), fd), fd); // foreign code takes the number
  }
  EXPECT_TRUE(is_open(fd));
  ::close(fd);
}

TEST(descriptors, counts_what_is_in_flight_and_ignores_what_is_no_descriptor) {
  using namespace unio::sys;
  int const fd = 900'000;
  EXPECT_EQ(in_flight(fd), 0U);
  enter_flight(fd);
  enter_flight(fd);
  EXPECT_EQ(in_flight(fd), 2U);
  leave_flight(fd);
  leave_flight(fd);
  EXPECT_EQ(in_flight(fd), 0U);
  enter_flight(-1);
  bump_generation(-1);
  EXPECT_EQ(in_flight(-1), 0U);
  EXPECT_EQ(generation(-1), 0U);
  enter_flight((1 << 28) + 5); // a simulated one
  EXPECT_EQ(in_flight((1 << 28) + 5), 1U);
  leave_flight((1 << 28) + 5);
}

TEST(descriptors, above_standard_passes_errors_and_high_numbers_through) {
  EXPECT_EQ(unio::sys::above_standard(-EMFILE), -EMFILE);
  EXPECT_EQ(unio::sys::above_standard(3), 3);
}

} // namespace
