// A read of a TCP socket on epoll that got fewer bytes than it asked for: the next one waits for an edge
// without another attempt (src/driver/epoll/epoll.cpp), and misses nothing that came before, with or after
// that read.

#include "support/calls.hpp"
#include "support/drivers.hpp"
#include "support/kernel.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"

#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

using namespace test;

std::atomic<int> receives = 0; // recv(2)
std::atomic<std::size_t> bytes_given = 0;

class counted_receives {
 public:
  counted_receives() {
    receives = 0;
    calls_->recv = [](int fd, void* into, std::size_t n, int flags) noexcept {
      ++receives;
      return unio::sys::kernel.recv(fd, into, n, flags);
    };
  }

 private:
  replaced_calls calls_;
};

/// A read into 16 bytes, or a receive into a buffer of a pool, that has been started.
class reader {
 public:
  reader(unio::socket_handle& s, unio::deadline d = {})
      : operation_(unio::async_read(s, unio::mutable_buffer(memory_), d)) {}

  [[nodiscard]] tally const& told() const { return operation_; }
  [[nodiscard]] std::string text() const { return {memory_.data(), operation_.bytes}; }
  void cancel() { operation_.cancel(); }

 private:
  std::array<char, 16> memory_{};
  started<unio::async_read> operation_;
};

class drained : public ::testing::Test {
 protected:
  void SetUp() override { connect(tcp_connection(m_.get())); }
  void connect(connection c) {
    c_ = std::move(c);
    int const on = 1;
    (void)::setsockopt(c_.peer.fd(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  /// Without a deadline of the reader's, at which it would be attempted once more.
  [[nodiscard]] bool run(reader const& r) const {
    auto const give_up = std::chrono::steady_clock::now() + 5s;
    while (!r.told().ended() && std::chrono::steady_clock::now() < give_up) (void)m_->try_run_for(20ms);
    return r.told().ended();
  }
  /// What the next read gets, which is started now. "end" for the end, "stuck" if nothing comes.
  std::string next() {
    reader r(c_.socket);
    if (!run(r)) return "stuck";
    if (r.told().error) return r.told().error.message();
    return r.told().bytes == 0 ? "end" : r.text();
  }
  /// A read waits for an edge, which comes with all that `before()` does, and gets "abc": the socket counts
  /// as drained, unless that edge has said more.
  template <class Before> void get_abc(Before before) {
    reader r(c_.socket);
    submit_all(*m_);
    ASSERT_FALSE(r.told().ended());
    before();
    ASSERT_TRUE(run(r));
    ASSERT_EQ(r.text(), "abc");
  }
  void drain() {
    get_abc([this] { c_.peer.write("abc"); });
  }
  /// All that the peer has sent is here.
  void arrive(short events = POLLIN) const {
    pollfd p{.fd = c_.socket.native_handle(), .events = events, .revents = 0};
    ASSERT_EQ(::poll(&p, 1, 10'000), 1);
  }

  std::unique_ptr<unio::io_multiplexer> m_ = make_multiplexer("epoll").value();
  connection c_;
};

TEST_F(drained, costs_one_receive_a_message) {
  counted_receives const counted;
  drain(); // an attempt in vain before it is registered
  receives = 0;
  for (int i = 0; i != 10; ++i) drain();
  EXPECT_EQ(receives, 10);
}

TEST_F(drained, is_tried_now_and_then_and_as_long_as_that_finds_something) {
  counted_receives const counted;
  drain();
  receives = 0;
  for (int i = 0; i != 64; ++i) drain();
  EXPECT_EQ(receives, 64 + 2);    // two in vain
  for (int i = 0; i != 64; ++i) { // what comes at once is there for the attempt
    reader r(c_.socket);
    (void)m_->try_run();
    c_.peer.write("abc");
    ASSERT_TRUE(run(r));
    c_.peer.write("def");
    arrive();
    receives = 0;
    EXPECT_EQ(next(), "def");
  }
  EXPECT_EQ(receives, 1);
}

TEST_F(drained, is_not_a_socket_whose_read_was_filled) {
  reader r(c_.socket);
  submit_all(*m_);
  c_.peer.write(std::string(16, 'x') + "rest");
  ASSERT_TRUE(run(r));
  EXPECT_EQ(next(), "rest");
}

TEST_F(drained, a_read_of_the_largest_size_that_is_filled_has_not_fallen_short) {
  replaced_calls calls; // what a read of more than MAX_RW_COUNT bytes comes to
  calls->recv = [](int, void*, std::size_t, int) noexcept -> std::int64_t { return 0x7ffff000; };
  unio::async_read read(c_.socket, unio::mutable_buffer(this, std::size_t{1} << 31));
  started op(std::move(read));
  (void)drive(*m_, [&] { return op.ended(); });
  EXPECT_FALSE(op.fell_short());
}

TEST_F(drained, sees_an_end_that_came_before) {
  get_abc([this] {
    c_.peer.write("abc");
    c_.peer.close();
    arrive(POLLRDHUP);
  });
  EXPECT_EQ(next(), "end");
  EXPECT_EQ(next(), "end");
}

TEST_F(drained, sees_an_end_that_comes_afterwards) {
  drain();
  c_.peer.close();
  EXPECT_EQ(next(), "end");
}

TEST_F(drained, sees_an_end_that_comes_while_the_next_waits) {
  drain();
  reader r(c_.socket);
  submit_all(*m_);
  ASSERT_EQ(::shutdown(c_.peer.fd(), SHUT_WR), 0);
  ASSERT_TRUE(run(r));
  EXPECT_FALSE(r.told().error);
  EXPECT_EQ(r.told().bytes, 0U);
}

TEST_F(drained, sees_its_own_shutdown) {
  drain();
  ASSERT_EQ(::shutdown(c_.socket.native_handle(), SHUT_RD), 0);
  EXPECT_EQ(next(), "end");
}

TEST_F(drained, sees_a_reset) {
  drain();
  c_.peer.reset_connection();
  EXPECT_EQ(next(), std::make_error_code(std::errc::connection_reset).message());
}

TEST_F(drained, reads_on_behind_urgent_data_that_came_before) {
  get_abc([this] {
    c_.peer.write("abc");
    ASSERT_EQ(::send(c_.peer.fd(), "!", 1, MSG_OOB), 1);
    c_.peer.write("def");
    arrive(POLLPRI);
  });
  EXPECT_EQ(next(), "def");
}

TEST_F(drained, reads_on_at_urgent_data_that_stays_in_line) {
  int const on = 1;
  ASSERT_EQ(::setsockopt(c_.socket.native_handle(), SOL_SOCKET, SO_OOBINLINE, &on, sizeof on), 0);
  get_abc([this] {
    c_.peer.write("abc");
    ASSERT_EQ(::send(c_.peer.fd(), "!", 1, MSG_OOB), 1);
    c_.peer.write("def");
    arrive(POLLPRI);
  });
  EXPECT_EQ(next(), "!def");
}

TEST_F(drained, reads_on_behind_urgent_data_that_comes_afterwards) {
  drain();
  c_.peer.write("de");
  ASSERT_EQ(::send(c_.peer.fd(), "!", 1, MSG_OOB), 1);
  c_.peer.write("f");
  arrive(POLLPRI);
  EXPECT_EQ(next(), "de");
  EXPECT_EQ(next(), "f");
  drain(); // and is drained again
}

TEST_F(drained, waits_for_as_many_bytes_as_the_socket_is_told_to) {
  drain();
  int const eight = 8, one = 1;
  ASSERT_EQ(::setsockopt(c_.socket.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &eight, sizeof eight), 0);
  reader r(c_.socket);
  c_.peer.write("def");
  submit_all(*m_);
  ASSERT_EQ(::setsockopt(c_.socket.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one), 0);
  ASSERT_TRUE(run(r));
  EXPECT_EQ(r.text(), "def");
}

TEST_F(drained, does_not_miss_what_came_after_somebody_else_has_read) {
  drain();
  c_.peer.write("gone");
  arrive();
  char gone[16];
  ASSERT_EQ(::recv(c_.socket.native_handle(), gone, sizeof gone, MSG_DONTWAIT), 4);
  reader r(c_.socket);
  submit_all(*m_);
  EXPECT_FALSE(r.told().ended());
  c_.peer.write("def");
  ASSERT_TRUE(run(r));
  EXPECT_EQ(r.text(), "def");
}

TEST_F(drained, does_not_miss_what_another_epoll_has_seen) {
  drain();
  raw const copy(::dup(c_.socket.native_handle())), other(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event e{.events = EPOLLIN | EPOLLET, .data = {}};
  ASSERT_EQ(::epoll_ctl(other.fd(), EPOLL_CTL_ADD, copy.fd(), &e), 0);
  c_.peer.write("def");
  ASSERT_EQ(::epoll_wait(other.fd(), &e, 1, 10'000), 1);
  EXPECT_EQ(next(), "def");
}

TEST_F(drained, does_not_miss_what_came_while_another_multiplexer_had_it) {
  drain();
  auto other = make_multiplexer("epoll").value();
  std::swap(m_, other);
  c_.socket.set_multiplexer(m_.get());
  drain();
  c_.peer.write("def");
  arrive();
  (void)other->try_run();
  std::swap(m_, other);
  c_.socket.set_multiplexer(m_.get());
  EXPECT_EQ(next(), "def");
  drain();
}

TEST_F(drained, is_tried_by_an_operation_that_may_not_wait) {
  drain();
  c_.peer.write("def");
  arrive();
  reader r(c_.socket, 0s);
  (void)m_->try_run();
  EXPECT_EQ(r.text(), "def");
}

TEST_F(drained, is_tried_once_more_when_the_time_is_over) {
  drain();
  int const eight = 8;
  ASSERT_EQ(::setsockopt(c_.socket.native_handle(), SOL_SOCKET, SO_RCVLOWAT, &eight, sizeof eight), 0);
  c_.peer.write("def"); // no edge
  reader r(c_.socket, 20ms);
  ASSERT_TRUE(run(r));
  EXPECT_EQ(r.text(), "def");
}

TEST_F(drained, is_of_the_connection_and_not_of_its_number) {
  drain();
  int const number = c_.socket.native_handle();
  ASSERT_TRUE(c_.socket.close().has_value());
  connection other = tcp_connection(m_.get());
  ASSERT_EQ(::dup2(other.socket.native_handle(), number), number);
  c_.socket = unio::socket_handle::adopt(number).value();
  c_.socket.set_multiplexer(m_.get());
  c_.peer = std::move(other.peer);
  c_.peer.write("def");
  EXPECT_EQ(next(), "def");
}

// A Unix socket's read stops at descriptors, although more has arrived, and no event tells.
TEST_F(drained, is_no_unix_socket) {
  connect(local_connection(m_.get()));
  get_abc([this] {
    raw const passed(::dup(0));
    iovec bytes{.iov_base = const_cast<char*>("abc"), .iov_len = 3};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))]{};
    msghdr m{};
    m.msg_iov = &bytes;
    m.msg_iovlen = 1;
    m.msg_control = room;
    m.msg_controllen = sizeof room;
    cmsghdr* const c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    int const fd = passed.fd();
    std::memcpy(CMSG_DATA(c), &fd, sizeof fd);
    ASSERT_EQ(::sendmsg(c_.peer.fd(), &m, MSG_NOSIGNAL), 3);
    c_.peer.write("def");
  });
  EXPECT_EQ(next(), "def");
}

// Two writers, of which the reader sees any pieces.
TEST_F(drained, misses_nothing_of_what_threads_write_and_end) {
  constexpr int rounds = 20, messages = 200;
  for (int round = 0; round != rounds; ++round) {
    connect(tcp_connection(m_.get()));
    auto const write = [&](unsigned seed) {
      for (int i = 0; i != messages; ++i) {
        seed = seed * 1664525 + 1013904223;
        c_.peer.write(std::string(1 + (seed >> 24) % 40, 'x'));
        bytes_given += 1 + (seed >> 24) % 40;
        if ((seed >> 16) % 4 == 0) std::this_thread::yield();
      }
    };
    bytes_given = 0;
    std::thread first(write, 2 * round), second(write, 2 * round + 1);
    std::thread end([&] {
      first.join();
      second.join();
      ::shutdown(c_.peer.fd(), SHUT_WR);
    });
    std::size_t read = 0;
    for (std::string got; (got = next()) != "end";) {
      read += got.size();
      if (got == "stuck") break;
    }
    end.join();
    ASSERT_EQ(read, bytes_given);
  }
}

} // namespace
