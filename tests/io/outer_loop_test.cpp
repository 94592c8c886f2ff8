// outer_loop.hpp: a multiplexer within another loop. The loop here is poll(2) on the one descriptor, without
// a timeout of its own: whatever is not reported hangs, and the test with it.

#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <unio/outer_loop.hpp>
#include <unio/testing.hpp>

#include <sys/epoll.h>

namespace {

using namespace test;
using std::chrono::nanoseconds;

constexpr int long_ms = 20'000; // nothing takes so long unless it hangs

bool is_readable(int fd, int ms) {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  int r = -1;
  do r = ::poll(&p, 1, ms);
  while (r < 0 && errno == EINTR);
  return r == 1;
}

struct rounds {
  int all = 0;
  int waits = 0;
};

// The other loop. False: it would wait for ever.
template <class Done> bool run_until(outer_loop& loop, Done done, rounds* count = nullptr) {
  for (;;) {
    EXPECT_TRUE(loop.multiplexer().try_run());
    if (done()) return true;
    auto const time = loop.before_wait();
    EXPECT_TRUE(time) << time.error().message();
    if (!time) return false;
    if (count != nullptr) ++count->all;
    if (*time == 0ns) continue;
    if (count != nullptr) ++count->waits;
    if (!is_readable(loop.descriptor(), long_ms)) return false;
  }
}

// Until the peer ends it.
task<> echo(unio::socket_handle& s, int& ended) {
  char c = 0;
  for (;;) {
    auto const got = co_await s.co_read(unio::mutable_buffer(&c, 1));
    if (!got || got->empty()) break;
    EXPECT_TRUE(co_await s.co_write(unio::const_buffer(&c, 1)));
  }
  ++ended;
}

task<> take(unio::event_handle& event, std::atomic<int>& seen, int all) {
  while (seen != all) {
    EXPECT_EQ(co_await event.co_wait(), 1u);
    ++seen;
  }
}

class outer : public test::on_each_driver {
 protected:
  outer_loop made() { return outer_loop::create(*m_).value(); }
};

UNIO_ON_BOTH_DRIVERS(outer);

TEST_P(outer, with_nothing_to_do_stays_silent_and_has_no_end_to_wait_for) {
  outer_loop loop = made();
  EXPECT_EQ(loop.multiplexer().try_run().value(), 0);
  EXPECT_EQ(loop.before_wait().value(), nanoseconds::max());
  EXPECT_FALSE(is_readable(loop.descriptor(), 20));
}

TEST_P(outer, timers_make_it_readable) {
  outer_loop loop = made();
  bool ended = false;
  auto const waits = [&]() -> task<> {
    for (int i = 0; i != 5; ++i) (void)co_await unio::co_sleep(3ms);
    ended = true;
  };
  unio::async_run(*m_, waits());
  rounds count;
  EXPECT_TRUE(run_until(loop, [&] { return ended; }, &count));
  EXPECT_LE(count.waits, 12); // it sleeps until then, and does not look
  EXPECT_EQ(loop.before_wait().value(), nanoseconds::max());
  EXPECT_FALSE(is_readable(loop.descriptor(), 10)); // no moment is left
}

TEST_P(outer, says_how_long_to_wait_at_most) {
  outer_loop loop = made();
  auto const waits = []() -> task<> { (void)co_await unio::co_sleep(200ms); };
  bool ended = false;
  auto const both = [&]() -> task<> {
    co_await waits();
    ended = true;
  };
  unio::async_run(*m_, both());
  ASSERT_TRUE(m_->try_run());
  nanoseconds const t = loop.before_wait().value();
  EXPECT_GT(t, 5ms);
  EXPECT_LE(t, 200ms);
  EXPECT_TRUE(run_until(loop, [&] { return ended; }));
}

// What was started but not given to the kernel would never be reported.
TEST_P(outer, operations_of_sockets_make_it_readable) {
  outer_loop loop = made();
  constexpr int connections = 300; // more than a turn delivers at once
  std::array<int, 2> fds{};
  std::vector<unio::socket_handle> ours;
  std::vector<int> theirs;
  for (int i = 0; i != connections; ++i) {
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
    ours.push_back(unio::socket_handle::adopt(fds[0]).value());
    ours.back().set_multiplexer(m_.get());
    theirs.push_back(fds[1]);
  }
  int ended = 0;
  for (auto& s : ours) unio::async_run(*m_, echo(s, ended));
  std::thread peer([&] {
    char c = 'x';
    for (int round = 0; round != 3; ++round) {
      for (int const fd : theirs) EXPECT_EQ(::write(fd, &c, 1), 1);
      for (int const fd : theirs) EXPECT_EQ(::read(fd, &c, 1), 1);
    }
    for (int const fd : theirs) ::close(fd);
  });
  EXPECT_TRUE(run_until(loop, [&] { return ended == connections; }));
  peer.join();
}

// A thread posts at any moment: before, between and after the steps of the loop.
TEST_P(outer, no_posted_work_is_lost) {
  outer_loop loop = made();
  constexpr int posts = 20'000;
  std::atomic<int> ran{0};
  std::thread other([&] {
    unsigned chance = 12345;
    for (int i = 0; i != posts; ++i) {
      EXPECT_TRUE(m_->post([&] { ran.fetch_add(1, std::memory_order_relaxed); }));
      chance = chance * 1664525 + 1013904223;
      if (chance % 4 == 0) // until the loop sleeps, or nearly
        while (ran.load(std::memory_order_relaxed) <= i) std::this_thread::yield();
      for (unsigned spin = chance >> 23; spin != 0; --spin)
        std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  });
  EXPECT_TRUE(run_until(loop, [&] { return ran.load(std::memory_order_relaxed) == posts; }));
  other.join();
}

TEST_P(outer, what_worker_threads_have_done_makes_it_readable) {
  outer_loop loop = made();
  auto pool = unio::thread_pool(2);
  int ended = 0;
  auto const compute = []() -> task<int> {
    std::this_thread::sleep_for(2ms);
    co_return 1;
  };
  auto const waits = [&]() -> task<> {
    for (int i = 0; i != 10; ++i) ended += co_await unio::run_on(pool.executor(), compute());
  };
  unio::async_run(*m_, waits());
  EXPECT_TRUE(run_until(loop, [&] { return ended == 10; }));
}

// Files, which on epoll threads of the library read, and on a ring the kernel's.
TEST_P(outer, operations_of_files_make_it_readable) {
  outer_loop loop = made();
  auto file = unio::file_handle::temp_inode().value();
  file.set_multiplexer(m_.get());
  int ended = 0;
  auto const works = [&]() -> task<> {
    char c = 'x';
    for (int i = 0; i != 50; ++i) {
      EXPECT_TRUE(co_await file.co_write({unio::const_buffer(&c, 1), static_cast<std::uint64_t>(i)}));
      EXPECT_TRUE(co_await file.co_barrier(unio::barrier_kind::wait_all));
      ++ended;
    }
  };
  unio::async_run(*m_, works());
  EXPECT_TRUE(run_until(loop, [&] { return ended == 50; }));
}

// The write of the other thread is within an eventfd when the kernel of a ring learns of it, and there it
// signals no other at once (news.hpp).
TEST_P(outer, events_that_are_signalled_again_and_again_make_it_readable) {
  outer_loop loop = made();
  auto event = unio::event_handle::create().value();
  event.set_multiplexer(m_.get());
  constexpr int rounds = 50;
  std::atomic<int> seen{0};
  unio::async_run(*m_, take(event, seen, rounds));
  std::thread other([&] {
    for (int i = 0; i != rounds; ++i) {
      EXPECT_TRUE(event.signal());
      while (seen <= i) std::this_thread::yield();
      if (i % 2 == 0) std::this_thread::sleep_for(100us); // the loop sleeps by now
    }
  });
  EXPECT_TRUE(run_until(loop, [&] { return seen == rounds; }));
  other.join();
}

// What one brings first must not hide what another brings on top of it.
TEST_P(outer, events_posts_and_sockets_at_once_make_it_readable) {
  outer_loop loop = made();
  auto event = unio::event_handle::create().value();
  event.set_multiplexer(m_.get());
  std::array<int, 2> fds{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  auto socket = unio::socket_handle::adopt(fds[0]).value();
  socket.set_multiplexer(m_.get());
  constexpr int rounds = 100;
  std::atomic<int> events{0};
  std::atomic<int> posts{0};
  int ended = 0;
  unio::async_run(*m_, take(event, events, rounds));
  unio::async_run(*m_, echo(socket, ended));
  std::thread signals([&] {
    for (int i = 0; i != rounds; ++i) {
      EXPECT_TRUE(event.signal());
      while (events <= i) std::this_thread::yield();
    }
  });
  std::thread brings([&] {
    for (int i = 0; i != rounds; ++i) {
      EXPECT_TRUE(m_->post([&] { ++posts; }));
      if (i % 3 != 0) // the others on top of each other
        while (posts <= i) std::this_thread::yield();
    }
  });
  std::thread peer([&] {
    char c = 'x';
    for (int i = 0; i != 20 * rounds; ++i) {
      EXPECT_EQ(::write(fds[1], &c, 1), 1);
      EXPECT_EQ(::read(fds[1], &c, 1), 1);
    }
    ::close(fds[1]);
  });
  EXPECT_TRUE(run_until(loop, [&] { return ended == 1 && events == rounds && posts == rounds; }));
  signals.join();
  brings.join();
  peer.join();
}

// Epoll takes the ring's place, and with it the place in the descriptor.
TEST_P(outer, goes_on_when_io_uring_is_forbidden) {
  if (m_->capabilities().driver != std::string_view("io_uring")) GTEST_SKIP() << "there is no ring to forbid";
  for (bool const registers : {true, false}) {
    SCOPED_TRACE(registers);
    m_ = test::make_multiplexer("uring").value();
    outer_loop loop = made();
    auto ends = make_pipe();
    bool ended = false;
    bool posted = false;
    auto const reads = [&]() -> task<> {
      char c = 0;
      for (int i = 0; i != 3; ++i) EXPECT_TRUE(co_await ends.reader.co_read(unio::mutable_buffer(&c, 1)));
      (void)co_await unio::co_sleep(2ms);
      ended = true;
    };
    unio::async_run(*m_, reads());
    ASSERT_TRUE(m_->try_run());
    while (loop.before_wait().value() == 0ns) ASSERT_TRUE(m_->try_run());
    test::failing_calls calls;
    calls.fail<&unio::sys::table::io_uring_enter>(EPERM, {.times = test::which_calls::all});
    if (!registers)
      calls.fail<&unio::sys::table::io_uring_register>(EPERM, {.times = test::which_calls::all});
    std::thread peer([&] {
      for (int i = 0; i != 3; ++i) {
        EXPECT_EQ(::write(ends.writer.native_handle(), "x", 1), 1);
        std::this_thread::sleep_for(2ms);
      }
      EXPECT_TRUE(m_->post([&] { posted = true; }));
    });
    EXPECT_TRUE(run_until(loop, [&] { return ended && posted; }));
    peer.join();
    EXPECT_STREQ(m_->capabilities().driver, "epoll");
    EXPECT_NE(loop.before_wait().value(), 0ns);
    EXPECT_FALSE(is_readable(loop.descriptor(), 20)); // nothing of the ring's is left in it
  }
}

TEST_P(outer, wake_makes_it_readable_once) {
  outer_loop loop = made();
  ASSERT_TRUE(m_->try_run());
  ASSERT_NE(loop.before_wait().value(), 0ns);
  std::thread other([&] { m_->wake(); });
  EXPECT_TRUE(is_readable(loop.descriptor(), long_ms));
  other.join();
  int rounds = 0; // a ring may say it once more, later
  do {
    ASSERT_TRUE(m_->try_run());
    ASSERT_LT(++rounds, 6);
  } while (loop.before_wait().value() == 0ns || is_readable(loop.descriptor(), 50));
  m_->wake(); // on this thread, before the wait is announced
  EXPECT_EQ(loop.before_wait().value(), 0ns);
}

TEST_P(outer, requests_for_atomic_forms_make_it_readable) {
  outer_loop loop = made();
  unio::timer_handle timer(unio::deadline(1h), m_.get());
  struct noting {
    bool* ended;
    void set_value(unio::io_result<void>&&) noexcept {}
    void set_done() noexcept { *ended = true; }
  };
  bool ended = false;
  auto op = unio::connect(unio::atomic_async_wait(timer), noting{&ended});
  ASSERT_TRUE(m_->try_run());
  ASSERT_NE(loop.before_wait().value(), 0ns);
  std::thread other([&] {
    op.start();
    std::this_thread::sleep_for(5ms);
    op.cancel();
  });
  EXPECT_TRUE(run_until(loop, [&] { return ended; }));
  other.join();
}

// Qt's and GLib's loops are run within handlers, for a dialog say.
TEST_P(outer, can_be_run_within_what_it_runs) {
  outer_loop loop = made();
  bool inner = false;
  bool outermost = false;
  auto const sleeps = [&]() -> task<> {
    (void)co_await unio::co_sleep(3ms);
    inner = true;
  };
  ASSERT_TRUE(m_->post([&] {
    unio::async_run(*m_, sleeps());
    EXPECT_TRUE(run_until(loop, [&] { return inner; }));
    outermost = true;
  }));
  EXPECT_TRUE(run_until(loop, [&] { return outermost; }));
}

TEST_P(outer, can_be_one_of_many_of_an_epoll) {
  outer_loop loop = made();
  int const epoll = ::epoll_create1(EPOLL_CLOEXEC);
  epoll_event e{.events = EPOLLIN, .data = {}};
  ASSERT_EQ(::epoll_ctl(epoll, EPOLL_CTL_ADD, loop.descriptor(), &e), 0);
  bool ended = false;
  auto const sleeps = [&]() -> task<> {
    (void)co_await unio::co_sleep(3ms);
    ended = true;
  };
  unio::async_run(*m_, sleeps());
  while (!ended) {
    ASSERT_TRUE(m_->try_run());
    if (ended || loop.before_wait().value() == 0ns) continue;
    int n = -1;
    do n = ::epoll_wait(epoll, &e, 1, long_ms);
    while (n < 0 && errno == EINTR); // by the kernel's end of a ring that was here before
    ASSERT_EQ(n, 1);
  }
  ::close(epoll);
}

TEST_P(outer, is_moved_with_what_it_waits_for) {
  outer_loop first = made();
  int const fd = first.descriptor();
  outer_loop second = std::move(first);
  EXPECT_EQ(first.descriptor(), -1); // NOLINT: that is what is tested
  EXPECT_EQ(second.descriptor(), fd);
  bool ended = false;
  auto const sleeps = [&]() -> task<> {
    (void)co_await unio::co_sleep(2ms);
    ended = true;
  };
  unio::async_run(*m_, sleeps());
  EXPECT_TRUE(run_until(second, [&] { return ended; }));
}

TEST(outer_loop, is_of_the_threads_own_multiplexer_if_nothing_else_is_said) {
  auto loop = outer_loop::create();
  ASSERT_TRUE(loop) << loop.error().message();
  EXPECT_EQ(&loop->multiplexer(), &unio::this_thread::multiplexer());
}

TEST(outer_loop, is_refused_for_several_threads) {
  auto const m = unio::io_multiplexer::best_available(2).value();
  EXPECT_EQ(outer_loop::create(*m).error(), std::errc::operation_not_supported);
}

TEST(outer_loop, is_refused_in_a_simulation) {
  unio::testing::simulation s(unio::testing::simulation_options::orderly());
  EXPECT_EQ(outer_loop::create(s.multiplexer()).error(), std::errc::operation_not_supported);
}

} // namespace
