// foreign_handle.hpp: waiting for a descriptor that is somebody else's. The table of operations has its
// styles; this has what is special: other kinds, numbers that are closed and come again, what stays as it is.

#include "support/child.hpp"
#include "support/coroutine.hpp"
#include "support/operation_table.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"

#include <unio/foreign_handle.hpp>

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/timerfd.h>

namespace {

using namespace test;

// A descriptor as a library has it.
class owned_fd {
 public:
  explicit owned_fd(int fd) : fd_(fd) { EXPECT_GE(fd, 0); }
  owned_fd(owned_fd const&) = delete;
  owned_fd& operator=(owned_fd const&) = delete;
  ~owned_fd() { close(); }
  operator int() const { return fd_; } // NOLINT: implicit
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

struct socket_pair {
  int both[2]{-1, -1};
  explicit socket_pair(int type = SOCK_STREAM) { EXPECT_EQ(::socketpair(AF_UNIX, type, 0, both), 0); }
  socket_pair(socket_pair const&) = delete;
  socket_pair& operator=(socket_pair const&) = delete;
  ~socket_pair() {
    close(0);
    close(1);
  }
  void close(int i) {
    if (both[i] >= 0) ::close(std::exchange(both[i], -1));
  }
};

void signal(int eventfd) {
  std::uint64_t const one = 1;
  ASSERT_EQ(::write(eventfd, &one, sizeof one), ssize_t{sizeof one});
}

// The next owner of a number that is free.
int signalled_event_on(int number) {
  int const made = ::eventfd(1, EFD_CLOEXEC);
  if (made == number) return made;
  int const moved = ::dup3(made, number, O_CLOEXEC);
  ::close(made);
  return moved;
}

TEST(foreign, says_which_of_a_set_is_ready) {
  socket_pair s;
  auto h = foreign_handle::watch(s.both[0]).value();
  EXPECT_EQ(h.watched(), s.both[0]);
  EXPECT_NE(h.native_handle(), s.both[0]);
  auto const both = readiness_set::readable | readiness_set::writable;
  EXPECT_EQ(h.try_wait(both).value(), readiness_set::writable);
  ASSERT_EQ(::write(s.both[1], "x", 1), 1);
  EXPECT_EQ(h.try_wait(both).value(), both);
  EXPECT_EQ(h.try_wait(readiness_set::readable).value(), readiness_set::readable);
  EXPECT_EQ(h.try_wait(readiness_set::exceptional).error(), condition::would_block);
  s.close(1);
  EXPECT_EQ(h.try_wait(both).value(), both | readiness_set::hang_up);
  EXPECT_EQ(h.try_wait(readiness_set::none).value(), readiness_set::hang_up);
}

TEST(foreign, is_ready_as_long_as_nobody_takes_what_is_there) {
  owned_fd const e(::eventfd(0, EFD_CLOEXEC));
  auto h = foreign_handle::watch(e).value();
  EXPECT_EQ(h.try_wait_for(readiness_set::readable, 5ms).error(), condition::timed_out);
  signal(e);
  for (int i = 0; i != 3; ++i)
    EXPECT_EQ(h.wait(readiness_set::readable, 10s).value(), readiness_set::readable);
  std::uint64_t n = 0;
  ASSERT_EQ(::read(e, &n, sizeof n), ssize_t{sizeof n});
  EXPECT_EQ(h.try_wait(readiness_set::readable).error(), condition::would_block);
}

TEST(foreign, descriptors_stay_as_they_are) {
  socket_pair s;
  int const flags = ::fcntl(s.both[0], F_GETFL);
  int const of_number = ::fcntl(s.both[0], F_GETFD);
  {
    auto h = foreign_handle::watch(s.both[0]).value();
    EXPECT_EQ(h.try_wait_for(readiness_set::readable, 1ms).error(), condition::timed_out);
    EXPECT_EQ(::fcntl(s.both[0], F_GETFL), flags); // O_NONBLOCK among them
    EXPECT_EQ(::fcntl(s.both[0], F_GETFD), of_number);
  }
  EXPECT_EQ(::fcntl(s.both[0], F_GETFD), of_number); // open
}

// Closing any descriptor of a file drops the locks of fcntl(2) that the process has on it: none is closed.
TEST(foreign, locks_of_the_process_stay) {
  char name[] = "/tmp/unio-foreign-XXXXXX";
  owned_fd const file(::mkstemp(name));
  ::unlink(name);
  struct flock lock{};
  lock.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(file, F_SETLK, &lock), 0);
  EXPECT_EQ(foreign_handle::watch(file).error(), std::errc::operation_not_permitted); // always ready
  test::expect_in_child([&] {
    struct flock other{};
    other.l_type = F_WRLCK;
    return CHILD_MEETS(::fcntl(file, F_SETLK, &other) == -1);
  });
}

// ---- kinds that unio has no handle for --------------------------------------------------------------------

TEST(foreign, netlink_answers_are_waited_for) {
  owned_fd const n(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  auto h = foreign_handle::watch(n).value();
  EXPECT_EQ(h.try_wait(readiness_set::readable).error(), condition::would_block);
  struct {
    nlmsghdr header;
    rtgenmsg body;
  } ask{};
  ask.header.nlmsg_len = NLMSG_LENGTH(sizeof ask.body);
  ask.header.nlmsg_type = RTM_GETLINK;
  ask.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  ask.body.rtgen_family = AF_UNSPEC;
  ASSERT_GT(::send(n, &ask, ask.header.nlmsg_len, 0), 0);
  EXPECT_EQ(h.wait(readiness_set::readable, 10s).value(), readiness_set::readable);
}

TEST(foreign, timers_of_the_kernel_are_waited_for) {
  owned_fd const t(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
  auto h = foreign_handle::watch(t).value();
  itimerspec const soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_nsec = 5'000'000}};
  ASSERT_EQ(::timerfd_settime(t, 0, &soon, nullptr), 0);
  auto const is = unio::run(h.co_wait(readiness_set::readable, 10s));
  EXPECT_EQ(is.value(), readiness_set::readable);
}

TEST(foreign, another_epoll_is_waited_for) {
  owned_fd const e(::eventfd(0, EFD_CLOEXEC));
  owned_fd const loop(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{.events = EPOLLIN, .data = {}};
  ASSERT_EQ(::epoll_ctl(loop, EPOLL_CTL_ADD, e, &event), 0);
  auto h = foreign_handle::watch(loop).value();
  std::thread other([&] {
    std::this_thread::sleep_for(5ms);
    signal(e);
  });
  EXPECT_EQ(unio::run(h.co_wait(readiness_set::readable, 10s)).value(), readiness_set::readable);
  other.join();
}

TEST(foreign, a_refused_connection_is_writable_and_has_an_error) {
  owned_fd const listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  ASSERT_EQ(::bind(listener, reinterpret_cast<sockaddr*>(&at), size), 0); // and does not listen
  ASSERT_EQ(::getsockname(listener, reinterpret_cast<sockaddr*>(&at), &size), 0);
  owned_fd const s(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  (void)::connect(s, reinterpret_cast<sockaddr*>(&at), size);
  auto h = foreign_handle::watch(s).value();
  auto const is = unio::run(h.co_wait(readiness_set::writable, 10s)).value();
  EXPECT_TRUE(has(is, readiness_set::writable));
  EXPECT_TRUE(has(is, readiness_set::error));
}

// ---- several at once, numbers that are closed -------------------------------------------------------------

TEST(foreign, several_wait_for_one_number_each_for_what_it_wants) {
  socket_pair s;
  std::vector<foreign_handle> handles;
  for (int i = 0; i != 3; ++i) handles.push_back(foreign_handle::watch(s.both[0]).value());
  int readable = 0;
  auto const wait = [](foreign_handle& h, int& count) -> unio::task<> {
    auto const is = co_await h.co_wait(readiness_set::readable, 10s);
    if (is.has_value() && *is == readiness_set::readable) ++count;
  };
  auto writes = [](foreign_handle& h, int to) -> unio::task<> {
    auto const is = co_await h.co_wait(readiness_set::writable, 10s); // at once
    EXPECT_EQ(is.value(), readiness_set::writable);
    EXPECT_EQ(::write(to, "x", 1), 1);
  };
  unio::run(
      unio::when_all(wait(handles[0], readable), wait(handles[1], readable), writes(handles[2], s.both[1])));
  EXPECT_EQ(readable, 2);
}

TEST(foreign, a_wait_on_a_number_that_was_closed_says_so) {
  std::optional<owned_fd> e(std::in_place, ::eventfd(0, EFD_CLOEXEC));
  auto h = foreign_handle::watch(*e).value();
  int const number = *e;
  e->close();
  EXPECT_EQ(h.try_wait(readiness_set::readable).error(), std::errc::bad_file_descriptor);
  // Its next owner is another file, which is ready.
  owned_fd const next(signalled_event_on(number));
  ASSERT_EQ(next, number);
  auto const r = h.wait(readiness_set::readable, 10s);
  EXPECT_EQ(r.error(), std::errc::bad_file_descriptor);
  EXPECT_NE(r.error().message().find("wait_ready"), std::string::npos) << r.error().message();
  std::uint64_t n = 0;
  EXPECT_EQ(::read(next, &n, sizeof n), ssize_t{sizeof n});
  EXPECT_EQ(n, 1U);
}

// Closed by its owner while it is waited for, and given out again: the wait ends by its deadline, others go
// on meanwhile, and nothing is reported of what has the number now.
TEST(foreign, a_number_that_is_closed_while_it_is_waited_for_harms_nothing) {
  owned_fd e(::eventfd(0, EFD_CLOEXEC));
  int const number = e;
  auto h = foreign_handle::watch(e).value();
  auto wait = [](foreign_handle& f) -> unio::task<> {
    EXPECT_EQ((co_await f.co_wait(readiness_set::readable, 60ms)).error(), condition::timed_out);
  };
  auto reuse = [](owned_fd& closed, int n) -> unio::task<> {
    unio::timer_handle t;
    t.expires_at(unio::deadline(5ms));
    (void)co_await t.co_wait(); // in flight by now
    closed.close();
    owned_fd const next(signalled_event_on(n));
    EXPECT_EQ(next, n);
    auto second = foreign_handle::watch(next).value();
    EXPECT_EQ((co_await second.co_wait(readiness_set::readable, 10s)).value(), readiness_set::readable);
    for (int i = 0; i != 20; ++i) {
      signal(next);
      t.expires_at(unio::deadline(4ms));
      (void)co_await t.co_wait();
    }
  };
  unio::run(unio::when_all(wait(h), reuse(e, number)));
}

// The file lives on under another number: it is still what is waited for.
TEST(foreign, a_wait_stays_with_the_file_of_its_number) {
  owned_fd e(::eventfd(0, EFD_CLOEXEC));
  owned_fd const other(::fcntl(e, F_DUPFD_CLOEXEC, 0));
  auto h = foreign_handle::watch(e).value();
  auto wait = [](foreign_handle& f) -> unio::task<> {
    EXPECT_EQ((co_await f.co_wait(readiness_set::readable, 10s)).value(), readiness_set::readable);
  };
  auto close = [](owned_fd& closed, int same) -> unio::task<> {
    unio::timer_handle t;
    t.expires_at(unio::deadline(5ms));
    (void)co_await t.co_wait();
    closed.close();
    signal(same);
  };
  unio::run(unio::when_all(wait(h), close(e, other)));
}

// The peer learns of the close although the number was being waited for.
TEST(foreign, a_wait_keeps_no_file_open) {
  socket_pair s;
  auto h = foreign_handle::watch(s.both[0]).value();
  auto wait = [](foreign_handle& f) -> unio::task<> {
    EXPECT_EQ((co_await f.co_wait(readiness_set::readable, 60ms)).error(), condition::timed_out);
  };
  auto close = [](socket_pair& p) -> unio::task<> {
    unio::timer_handle t;
    t.expires_at(unio::deadline(5ms));
    (void)co_await t.co_wait();
    p.close(0);
    char c = 0;
    EXPECT_EQ(::recv(p.both[1], &c, 1, MSG_DONTWAIT), 0); // the end of the stream
  };
  unio::run(unio::when_all(wait(h), close(s)));
}

// What is not waited for wakes nobody: after each report it is silent until it is asked again.
TEST(foreign, what_comes_between_waits_wakes_no_multiplexer) {
  owned_fd const e(::eventfd(0, EFD_CLOEXEC));
  auto h = foreign_handle::watch(e).value();
  signal(e);
  EXPECT_EQ(unio::run(h.co_wait(readiness_set::readable, 10s)).value(), readiness_set::readable);
  pollfd p{.fd = h.native_handle(), .events = POLLIN, .revents = 0};
  signal(e);
  EXPECT_EQ(::poll(&p, 1, 0), 0);
}

// ---- errors -----------------------------------------------------------------------------------------------

TEST(foreign, what_cannot_be_watched_is_refused_and_nothing_leaks) {
  auto const before = test::count_descriptors();
  EXPECT_EQ(foreign_handle::watch(-1).error(), std::errc::bad_file_descriptor);
  owned_fd const directory(::open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(foreign_handle::watch(directory).error(), std::errc::operation_not_permitted);
  EXPECT_EQ(test::count_descriptors(), before + 1);
}

TEST(foreign, that_no_descriptor_is_left_is_reported) {
  owned_fd const e(::eventfd(0, EFD_CLOEXEC));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit const none{.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  auto const r = foreign_handle::watch(e);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(r.error(), std::errc::too_many_files_open);
}

} // namespace
