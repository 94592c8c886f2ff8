// foreign_reactor.hpp, on the driver under test: edges, timeouts, interruptions, numbers that come again,
// transfers of files, threads that come and go, a ring that is forbidden, fork.

#include "driver/choose.hpp"
#include "support/calls.hpp"
#include "support/child.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"

#include <unio/extend/foreign_reactor.hpp>

#include <semaphore>

namespace {

using namespace test;
using unio::foreign_event;
namespace foreign = unio::foreign;

constexpr auto at_once = std::chrono::nanoseconds(0);

struct pair_of_sockets {
  pair_of_sockets() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  }
  pair_of_sockets(pair_of_sockets const&) = delete;
  pair_of_sockets& operator=(pair_of_sockets const&) = delete;
  ~pair_of_sockets() {
    for (int const fd : fds)
      if (fd >= 0) ::close(fd);
  }
  void send() const { EXPECT_EQ(::write(fds[1], "x", 1), 1); }
  void receive() const {
    char byte;
    EXPECT_EQ(::read(fds[0], &byte, 1), 1);
  }
  int close_first() { return ::close(std::exchange(fds[0], -1)); }
  int fds[2]{-1, -1};
};

class foreign_loop : public ::testing::Test {
 protected:
  foreign_loop() { EXPECT_FALSE(reactor.open()); }

  /// What was reported of `w` within `timeout`, all of it together.
  unsigned reported(foreign_watch& w, std::chrono::nanoseconds timeout) {
    unsigned all = 0;
    auto const until = std::chrono::steady_clock::now() + timeout;
    do {
      foreign_event events[4];
      std::size_t const n = reactor.run(all == 0 ? timeout : at_once, events, 4);
      for (std::size_t i = 0; i < n; ++i)
        if (events[i].watch == &w) all |= events[i].what;
    } while (all == 0 && std::chrono::steady_clock::now() < until);
    return all;
  }
  unsigned reported(foreign_watch& w) { return reported(w, 10s); }
  unsigned reported_now(foreign_watch& w) { return reported(w, at_once); }

  foreign_watch watch; // outlives it
  foreign_watch other;
  foreign_reactor reactor;
};

TEST_F(foreign_loop, reports_what_is_there_and_each_change) {
  pair_of_sockets s;
  s.send();
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  EXPECT_TRUE(watch.can_wait());
  EXPECT_EQ(reported(watch) & foreign::readable, foreign::readable);
  EXPECT_EQ(reported_now(watch), 0u); // an edge, and no level
  s.receive();
  s.send();
  EXPECT_EQ(reported(watch) & foreign::readable, foreign::readable);
  reactor.remove(watch);
  s.send();
  EXPECT_EQ(reported_now(watch), 0u);
}

TEST_F(foreign_loop, arming_reports_what_is_there_once_more) {
  pair_of_sockets s;
  s.send();
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  EXPECT_NE(reported(watch), 0u);
  EXPECT_FALSE(reactor.arm(watch, foreign::readable));
  EXPECT_EQ(reported(watch) & foreign::readable, foreign::readable);
  EXPECT_EQ(reported(watch, 1ms) & foreign::writable, 0u); // was not asked for
  EXPECT_FALSE(reactor.arm(watch, foreign::writable));
  EXPECT_EQ(reported(watch) & foreign::writable, foreign::writable);
  reactor.remove(watch);
}

TEST_F(foreign_loop, reports_a_hang_up) {
  pair_of_sockets s;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  ::close(std::exchange(s.fds[1], -1));
  EXPECT_NE(reported(watch) & foreign::failed, 0u);
  reactor.remove(watch);
}

TEST_F(foreign_loop, a_regular_file_never_waits) {
  char name[] = "/tmp/unio-foreign-XXXXXX";
  int const fd = ::mkostemp(name, O_CLOEXEC);
  ASSERT_GE(fd, 0);
  ::unlink(name);
  ASSERT_FALSE(reactor.add(watch, fd, foreign::readable));
  EXPECT_FALSE(watch.can_wait());
  reactor.remove(watch);
  ::close(fd);
}

// Transfers of a file of 64 blocks, each of which says which it is.
class foreign_files : public foreign_loop {
 protected:
  static constexpr std::size_t block = 4096, blocks = 64;
  struct transfer {
    transfer(int fd, std::size_t at, foreign_transfer::direction d = foreign_transfer::reads)
        : bytes(block, '\0'), v{bytes.data(), bytes.size()}, t(d, fd, &v, 1, std::int64_t(at * block)) {}
    std::string bytes;
    iovec v;
    foreign_transfer t;
  };
  foreign_files() {
    char name[] = "/tmp/unio-foreign-XXXXXX";
    fd = ::mkostemp(name, O_CLOEXEC);
    ::unlink(name);
    for (std::size_t i = 0; i < blocks; ++i)
      EXPECT_EQ(::write(fd, std::string(block, char('A' + i % 64)).data(), block), ssize_t(block));
  }
  ~foreign_files() override { ::close(fd); }

  void start_all(bool may_try) {
    for (std::size_t i = 0; i < blocks; ++i) {
      all.push_back(std::make_unique<transfer>(fd, i));
      if (reactor.start(all.back()->t, may_try)) seen.insert(&all.back()->t);
    }
  }
  void run_until_seen(std::size_t n) {
    foreign_event events[5];
    for (int turns = 0; turns < 2000 && seen.size() < n; ++turns) {
      std::size_t const got = reactor.run(100ms, events, 5);
      for (std::size_t i = 0; i < got; ++i)
        if (events[i].watch == nullptr) {
          EXPECT_TRUE(seen.insert(events[i].transfer).second);
        }
    }
    EXPECT_GE(seen.size(), n);
  }
  void expect_all_read() {
    for (std::size_t i = 0; i < blocks; ++i) {
      EXPECT_EQ(all[i]->t.result(), std::int64_t(block));
      EXPECT_EQ(all[i]->bytes, std::string(block, char('A' + i % 64)));
    }
  }
  int fd = -1;
  std::vector<std::unique_ptr<transfer>> all;
  std::set<foreign_transfer*> seen;
};

TEST_F(foreign_files, all_are_made_and_each_is_reported_once) {
  for (bool const may_try : {false, true}) {
    all.clear();
    seen.clear();
    start_all(may_try);
    run_until_seen(blocks);
    expect_all_read();
  }
}

// The reactor ends first, and with it what workers do in the table of calls.
struct foreign_files_cached_in_part : attempts_stop_half_way, foreign_files {};

TEST_F(foreign_files_cached_in_part, are_read_to_the_end) {
  start_all(true);
  run_until_seen(blocks);
  expect_all_read();
  if (std::string_view(reactor.driver()) == "epoll") {
    EXPECT_GT(attempts_stop_half_way::count, 0) << "the canary";
  }
}

TEST_F(foreign_files, a_transfer_of_another_thread_reaches_the_one_that_waits) {
  for (int i = 0; i < 50; ++i) {
    transfer one(fd, 7);
    seen.clear();
    std::thread t([&] {
      if (i % 2 != 0) std::this_thread::sleep_for(1ms);
      (void)reactor.start(one.t, false);
    });
    run_until_seen(1);
    t.join();
    EXPECT_EQ(one.t.result(), std::int64_t(block));
  }
}

TEST_F(foreign_files, a_second_thread_finds_what_the_first_had_started) {
  start_all(false);
  run_until_seen(1); // all have begun
  std::thread([&] { run_until_seen(blocks); }).join();
  expect_all_read();
}

TEST_F(foreign_files, what_was_not_told_to_anyone_is_cancelled_and_the_number_is_free) {
  transfer one(fd, 0);
  (void)reactor.start(one.t, false);
  if (reactor.cancel(one.t)) {
    EXPECT_TRUE(one.t.result() == -ECANCELED || one.t.result() == std::int64_t(block));
  } else {
    reactor.settle(one.t);
  }
  run_until_seen(1);
  EXPECT_TRUE(one.t.result() == -ECANCELED || one.t.result() == std::int64_t(block));
}

std::atomic<int> in_call, may_go_on;

TEST_F(foreign_files, a_number_that_a_worker_uses_is_not_free) {
  if (std::string_view(reactor.driver()) == "io_uring") GTEST_SKIP() << "the ring makes them";
  failing_calls calls;
  in_call = may_go_on = 0;
  calls.answer<&table::preadv2>([](int f, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    ++in_call;
    while (may_go_on == 0) std::this_thread::yield();
    return unio::sys::kernel.preadv2(f, v, n, at, flags);
  });
  transfer one(fd, 3);
  EXPECT_FALSE(reactor.start(one.t, false));
  while (in_call == 0) std::this_thread::yield();
  EXPECT_FALSE(reactor.cancel(one.t));
  std::thread later([] {
    std::this_thread::sleep_for(5ms);
    may_go_on = 1;
  });
  reactor.settle(one.t);
  EXPECT_EQ(may_go_on, 1);
  EXPECT_TRUE(reactor.cancel(one.t));
  run_until_seen(1);
  EXPECT_EQ(one.t.result(), std::int64_t(block)); // what has moved is not hidden
  later.join();
}

TEST_F(foreign_files, ending_leaves_none_under_way) {
  for (int i = 0; i < 20; ++i) {
    all.clear();
    start_all(false);
    foreign_event e;
    if (i % 2 != 0) (void)reactor.run(at_once, &e, 1);
    reactor.end_transfers();
    for (auto const& t : all)
      EXPECT_TRUE(t->t.result() == -ECANCELED || t->t.result() == std::int64_t(block));
  }
  EXPECT_EQ(reported_now(watch), 0u);
}

TEST_F(foreign_files, ending_loses_nothing_of_what_is_watched) {
  pair_of_sockets s;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  EXPECT_EQ(reported_now(watch), 0u);
  start_all(false);
  s.send();
  reactor.end_transfers();
  EXPECT_EQ(reported(watch, 1s) & foreign::readable, foreign::readable);
  reactor.remove(watch);
}

TEST_F(foreign_files, ending_takes_no_interruption) {
  start_all(false);
  reactor.interrupt();
  reactor.end_transfers();
  foreign_event e;
  auto const start = std::chrono::steady_clock::now();
  EXPECT_EQ(reactor.run(10s, &e, 1), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST_F(foreign_files, goes_on_when_the_ring_is_forbidden) {
  if (std::string_view(reactor.driver()) != "io_uring") GTEST_SKIP() << "there is no ring";
  start_all(false);
  {
    failing_calls calls;
    calls.fail<&table::io_uring_enter>(EPERM, {.times = which_calls::all});
    run_until_seen(blocks);
  }
  expect_all_read();
  EXPECT_STREQ(reactor.driver(), "epoll");
}

TEST_F(foreign_files, a_child_makes_what_its_parent_had_started) {
  start_all(false);
  pid_t const child = ::fork();
  if (child == 0) {
    run_until_seen(blocks);
    expect_all_read();
    ::_exit(HasFailure() ? 1 : 0);
  }
  run_until_seen(blocks);
  expect_all_read();
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// A child may close a file of its parent's, and then end.
TEST_F(foreign_files, cancelling_one_in_a_child_makes_no_other_there) {
  failing_calls calls;
  in_call = may_go_on = 0;
  calls.answer<&table::pwritev2>([](int f, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    ++in_call;
    while (may_go_on == 0) std::this_thread::yield();
    return unio::sys::kernel.pwritev2(f, v, n, at, flags);
  });
  transfer one(fd, blocks, foreign_transfer::writes);
  transfer other_one(fd, blocks + 1, foreign_transfer::writes);
  EXPECT_FALSE(reactor.start(one.t, false));
  EXPECT_FALSE(reactor.start(other_one.t, false));
  bool const is_ring = std::string_view(reactor.driver()) == "io_uring";
  while (!is_ring && in_call != 2) std::this_thread::yield();
  expect_in_child([&] {
    may_go_on = 1;
    CHILD_EXPECTS(reactor.cancel(one.t));
    reactor.settle(other_one.t);
    CHILD_EXPECTS(::lseek(fd, 0, SEEK_END) == off_t(blocks * block));
    foreign_event e[4];
    std::size_t over = 0;
    while (over != 2) over += reactor.run(10s, e, 4); // it goes on after all
    CHILD_EXPECTS(one.t.result() == -ECANCELED && other_one.t.result() == std::int64_t(block));
    return 0;
  });
  may_go_on = 1;
  run_until_seen(2);
}

TEST_F(foreign_files, a_child_that_ends_them_knows_none_any_more) {
  auto ends = std::make_unique<foreign_reactor>();
  ASSERT_FALSE(ends->open());
  transfer one(fd, 0);
  ASSERT_FALSE(ends->start(one.t, false));
  expect_in_child([&] {
    ends->end_transfers();
    std::memset(static_cast<void*>(&one.t), 0xff, sizeof one.t); // as memory that was freed
    ends.reset();
    return 0;
  });
  ends->end_transfers();
}

TEST_F(foreign_loop, a_regular_file_that_reports_readiness_is_waited_for) {
  int const mounts = ::open("/proc/self/mounts", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(mounts, 0);
  ASSERT_FALSE(reactor.add(watch, mounts, foreign::readable));
  EXPECT_TRUE(watch.can_wait());
  EXPECT_NE(reported(watch) & foreign::readable, 0u);
  reactor.remove(watch);
  ::close(mounts);
}

TEST_F(foreign_loop, a_number_that_names_a_path_alone_is_not_added) {
  int const root = ::open("/", O_PATH | O_CLOEXEC);
  ASSERT_GE(root, 0);
  EXPECT_EQ(reactor.add(watch, root, foreign::readable), std::errc::bad_file_descriptor);
  ::close(root);
}

TEST_F(foreign_loop, a_number_of_nothing_is_not_added) {
  EXPECT_EQ(reactor.add(watch, 1 << 20, foreign::readable), std::errc::bad_file_descriptor);
  reactor.remove(watch); // says nothing
}

TEST_F(foreign_loop, waits_as_long_as_it_is_told) {
  foreign_event e;
  auto const waits = [&] {
    auto const start = std::chrono::steady_clock::now();
    EXPECT_EQ(reactor.run(30ms, &e, 1), 0u);
    return std::chrono::steady_clock::now() - start >= 29ms;
  };
  // The end of a ring that another test had interrupts a wait of its thread, without a signal.
  EXPECT_TRUE(waits() || waits() || waits());
  EXPECT_EQ(reactor.run(at_once, &e, 1), 0u);
}

TEST_F(foreign_loop, an_interruption_ends_the_present_wait_or_the_next) {
  foreign_event e;
  reactor.interrupt();
  auto const start = std::chrono::steady_clock::now();
  EXPECT_EQ(reactor.run(10s, &e, 1), 0u);
  for (int i = 0; i < 50; ++i) {
    std::thread t([&] {
      if (i % 2 != 0) std::this_thread::sleep_for(1ms);
      reactor.interrupt();
    });
    EXPECT_EQ(reactor.run(10s, &e, 1), 0u);
    t.join();
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, 5s);
}

TEST_F(foreign_loop, a_watch_that_another_thread_adds_is_reported_to_the_one_that_waits) {
  for (int i = 0; i < 20; ++i) {
    pair_of_sockets s;
    s.send();
    std::thread t([&] {
      std::this_thread::sleep_for(1ms);
      EXPECT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
    });
    EXPECT_NE(reported(watch) & foreign::readable, 0u);
    t.join();
    reactor.remove_before_close(watch);
  }
}

TEST_F(foreign_loop, what_a_number_was_is_not_reported_of_what_it_is) {
  for (int i = 0; i < 100; ++i) {
    int number;
    {
      pair_of_sockets old;
      number = old.fds[0];
      ASSERT_FALSE(reactor.add(watch, number, foreign::readable));
      EXPECT_EQ(reported_now(watch), 0u);
      old.send(); // its event is under way
      reactor.remove_before_close(watch);
    }
    pair_of_sockets fresh;
    ASSERT_EQ(fresh.fds[0], number);
    ASSERT_FALSE(reactor.add(watch, number, foreign::readable)); // the same watch, too
    EXPECT_EQ(reported_now(watch), 0u);
    fresh.send();
    EXPECT_NE(reported(watch) & foreign::readable, 0u);
    reactor.remove_before_close(watch);
  }
}

TEST_F(foreign_loop, a_close_has_its_effect_when_it_is_made) {
  pair_of_sockets s;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  ASSERT_FALSE(reactor.arm(watch, foreign::writable));
  EXPECT_NE(reported(watch), 0u);
  reactor.remove_before_close(watch);
  s.close_first();
  pollfd p{.fd = s.fds[1], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 0), 1); // at once: this thread had armed it
}

TEST_F(foreign_loop, a_close_by_another_thread_has_its_effect_soon) {
  pair_of_sockets s;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  std::thread waits([&] {
    foreign_event e;
    (void)reactor.run(10s, &e, 1);
  });
  std::this_thread::sleep_for(20ms);
  reactor.remove_before_close(watch);
  s.close_first();
  pollfd p{.fd = s.fds[1], .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 1000), 1);
  reactor.interrupt();
  waits.join();
}

TEST_F(foreign_loop, many_events_come_one_after_the_other) {
  constexpr std::size_t n = 300;
  auto const watches = std::make_unique<foreign_watch[]>(n);
  foreign_reactor many; // ends before they do
  ASSERT_FALSE(many.open());
  std::vector<std::unique_ptr<pair_of_sockets>> sockets;
  for (std::size_t i = 0; i < n; ++i) {
    sockets.push_back(std::make_unique<pair_of_sockets>());
    ASSERT_FALSE(many.add(watches[i], sockets[i]->fds[0], foreign::readable));
    sockets[i]->send();
  }
  std::set<foreign_watch*> seen;
  for (int turns = 0; turns < 2000 && seen.size() < n; ++turns) {
    foreign_event events[7];
    std::size_t const got = many.run(1s, events, 7);
    for (std::size_t i = 0; i < got; ++i) seen.insert(events[i].watch);
  }
  EXPECT_EQ(seen.size(), n);
  for (std::size_t i = 0; i < n; ++i) many.remove_before_close(watches[i]);
}

/// A thread that does what it is given, and ends with this.
class helper_thread {
 public:
  helper_thread() = default;
  helper_thread(helper_thread const&) = delete;
  helper_thread& operator=(helper_thread const&) = delete;
  ~helper_thread() {
    (*this)(nullptr);
    thread_.join();
  }
  /// Returns once it is done.
  void operator()(std::function<void()> const& what) {
    what_ = &what;
    given_.release();
    done_.acquire();
  }

 private:
  void work() {
    for (bool goes_on = true; goes_on;) {
      given_.acquire();
      goes_on = *what_ != nullptr;
      if (goes_on) (*what_)();
      done_.release();
    }
  }
  std::function<void()> const* what_ = nullptr;
  std::binary_semaphore given_{0};
  std::binary_semaphore done_{0};
  std::thread thread_{[this] { work(); }};
};

bool has_ended(int fd, int timeout_ms) {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&p, 1, timeout_ms) == 1 && (p.revents & POLLHUP) != 0;
}

TEST_F(foreign_loop, goes_on_with_another_thread) {
  pair_of_sockets s;
  helper_thread first;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  first([&] { EXPECT_EQ(reported_now(watch), 0u); });
  s.send();
  EXPECT_NE(reported(watch) & foreign::readable, 0u);
  s.receive();
  first([&] {
    s.send();
    EXPECT_NE(reported(watch) & foreign::readable, 0u);
  });
  reactor.remove(watch);
  // One thread may keep a ring. Several have epoll.
  EXPECT_STREQ(reactor.driver(), "epoll");
}

TEST_F(foreign_loop, a_number_that_was_closed_without_a_word_is_the_next_watchs) {
  pair_of_sockets fresh;
  helper_thread first;
  int number = -1;
  {
    pair_of_sockets old;
    number = old.fds[0];
    ASSERT_FALSE(reactor.add(other, number, foreign::readable));
    first([&] { EXPECT_EQ(reported_now(other), 0u); });
  }
  ASSERT_EQ(::dup3(fresh.fds[0], number, O_CLOEXEC), number);
  ASSERT_FALSE(reactor.add(watch, number, foreign::readable));
  fresh.send();
  EXPECT_NE(reported(watch) & foreign::readable, 0u); // this thread is another one, and has epoll
  reactor.remove_before_close(watch);
  reactor.remove_before_close(other);
  ::close(number);
}

TEST_F(foreign_loop, a_second_watch_of_a_number_takes_nothing_from_the_first) {
  auto const expect_so = [this](auto const& ends) {
    int const number = ends.source.native_handle();
    ASSERT_FALSE(reactor.add(watch, number, foreign::readable));
    EXPECT_EQ(reactor.add(other, number, foreign::readable), std::errc::file_exists);
    put(ends.sink, "x");
    EXPECT_NE(reported(watch) & foreign::readable, 0u);
    EXPECT_EQ(reactor.add(other, number, foreign::readable), std::errc::file_exists);
    reactor.remove(watch);
    ASSERT_FALSE(reactor.add(other, number, foreign::readable));
    EXPECT_NE(reported(other) & foreign::readable, 0u);
    reactor.remove(other);
  };
  expect_so(unix_ends());
  expect_so(pipe_ends());
}

TEST_F(foreign_loop, a_pipe_may_have_a_number_again_that_a_copy_of_it_kept) {
  pipe_ends const ends;
  int const number = ::dup(ends.source.native_handle());
  ASSERT_FALSE(reactor.add(watch, number, foreign::readable));
  EXPECT_EQ(reported_now(watch), 0u);
  reactor.remove_before_close(watch);
  ASSERT_EQ(::dup2(ends.source.native_handle(), number), number); // an epoll knows this file by this number
  ASSERT_FALSE(reactor.add(other, number, foreign::readable));
  put(ends.sink, "x");
  EXPECT_NE(reported(other) & foreign::readable, 0u);
  reactor.remove_before_close(other);
  ::close(number);
}

TEST_F(foreign_loop, a_thread_that_has_ended_leaves_nothing_behind) {
  std::string const driver = reactor.driver();
  for (int i = 0; i != 3; ++i) {
    pair_of_sockets closed;
    pair_of_sockets kept;
    ASSERT_FALSE(reactor.add(watch, closed.fds[0], foreign::readable));
    ASSERT_FALSE(reactor.add(other, kept.fds[0], foreign::readable));
    std::thread([&] { EXPECT_EQ(reported_now(watch), 0u); }).join();
    reactor.remove_before_close(watch);
    closed.close_first();
    EXPECT_TRUE(has_ended(closed.fds[1], 0));
    std::thread([&] {
      kept.send();
      EXPECT_NE(reported(other) & foreign::readable, 0u);
    }).join();
    EXPECT_EQ(reactor.driver(), driver); // one at a time: each may have a ring
    reactor.remove_before_close(other);
  }
}

TEST_F(foreign_loop, a_close_has_its_effect_though_the_thread_that_runs_it_is_away) {
  pair_of_sockets s;
  pair_of_sockets kept;
  helper_thread runs;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  ASSERT_FALSE(reactor.add(other, kept.fds[0], foreign::readable));
  runs([&] { EXPECT_EQ(reported_now(watch), 0u); });
  reactor.remove_before_close(watch); // which is in a handler, for all that anyone knows
  s.close_first();
  EXPECT_TRUE(has_ended(s.fds[1], 1000));
  runs([&] {
    kept.send();
    EXPECT_NE(reported(other) & foreign::readable, 0u);
  });
  reactor.remove_before_close(other);
}

TEST_F(foreign_loop, a_close_has_its_effect_though_no_descriptor_is_left) {
  pair_of_sockets kept;
  ASSERT_FALSE(reactor.add(other, kept.fds[0], foreign::readable));
  for (bool const is_away : {false, true}) {
    pair_of_sockets s;
    helper_thread runs;
    ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
    runs([&] { EXPECT_EQ(reported_now(watch), 0u); });
    failing_calls calls;
    calls.fail<&table::epoll_create>(EMFILE, {.times = which_calls::all});
    auto const close = [&] {
      reactor.remove_before_close(watch);
      s.close_first();
    };
    if (is_away) { // in a handler, for all that anyone knows
      close();
      runs([&] { EXPECT_EQ(reported_now(other), 0u); });
    }
    std::thread closes([&] {
      std::this_thread::sleep_for(20ms); // while it waits
      if (!is_away) close();
      EXPECT_TRUE(has_ended(s.fds[1], 1000));
      kept.send();
    });
    runs([&] { EXPECT_NE(reported(other) & foreign::readable, 0u); });
    closes.join();
    kept.receive();
  }
  reactor.remove_before_close(other);
}

TEST_F(foreign_loop, closes_by_another_thread_lose_nothing_of_what_is_watched) {
  constexpr int rounds = 200;
  pair_of_sockets kept;
  ASSERT_FALSE(reactor.add(other, kept.fds[0], foreign::readable));
  std::atomic<bool> over = false;
  std::atomic<int> received = 0;
  std::thread runs([&] {
    while (!over) {
      foreign_event e[4];
      std::size_t const n = reactor.run(1s, e, 4);
      for (std::size_t i = 0; i != n; ++i)
        if (e[i].watch == &other && (e[i].what & foreign::readable) != 0)
          for (char byte; ::read(kept.fds[0], &byte, 1) == 1;) ++received;
    }
  });
  for (int i = 0; i != rounds; ++i) {
    kept.send();
    pair_of_sockets s;
    ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
    if (i % 3 != 0) std::this_thread::sleep_for(100us);
    reactor.remove_before_close(watch);
    s.close_first();
    EXPECT_TRUE(has_ended(s.fds[1], 1000)) << i;
    for (int waits = 0; received != i + 1 && waits != 10'000; ++waits) std::this_thread::sleep_for(100us);
    ASSERT_EQ(received, i + 1);
  }
  over = true;
  reactor.interrupt();
  runs.join();
  reactor.remove_before_close(other);
}

TEST_F(foreign_loop, a_close_has_its_effect_among_many_events) {
  constexpr std::size_t n = 300;
  auto const watches = std::make_unique<foreign_watch[]>(n);
  foreign_reactor many; // ends before they do
  ASSERT_FALSE(many.open());
  std::vector<std::unique_ptr<pair_of_sockets>> sockets;
  for (std::size_t i = 0; i != n; ++i) {
    sockets.push_back(std::make_unique<pair_of_sockets>());
    ASSERT_FALSE(many.add(watches[i], sockets[i]->fds[0], foreign::readable));
  }
  foreign_event e;
  EXPECT_EQ(many.run(at_once, &e, 1), 0u);
  for (auto const& s : sockets) s->send(); // all of them are under way
  for (std::size_t i = n; i-- != 0;) {
    many.remove_before_close(watches[i]);
    sockets[i]->close_first();
    EXPECT_TRUE(has_ended(sockets[i]->fds[1], 0)) << i;
  }
}

TEST_F(foreign_loop, goes_on_when_the_ring_is_forbidden) {
  if (std::string_view(reactor.driver()) != "io_uring") GTEST_SKIP() << "there is no ring";
  pair_of_sockets s;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  EXPECT_EQ(reported_now(watch), 0u);
  {
    failing_calls calls;
    calls.fail<&table::io_uring_enter>(EPERM, {.times = which_calls::all});
    EXPECT_EQ(reported(watch, 1ms), 0u);
    s.send();
    EXPECT_NE(reported(watch) & foreign::readable, 0u);
  }
  EXPECT_STREQ(reactor.driver(), "epoll");
  reactor.remove(watch);
}

TEST_F(foreign_loop, goes_on_when_a_call_fails_for_the_moment) {
  pair_of_sockets s;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  for (int const error : {EINTR, EAGAIN, ENOMEM}) {
    failing_calls calls;
    calls.fail<&table::io_uring_enter>(error);
    calls.fail<&table::epoll_wait>(error);
    s.send();
    EXPECT_NE(reported(watch) & foreign::readable, 0u) << error;
    s.receive();
  }
  reactor.remove(watch);
}

TEST_F(foreign_loop, a_child_goes_on_and_its_parent_too) {
  pair_of_sockets s;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  EXPECT_EQ(reported_now(watch), 0u);
  expect_in_child([&] {
    CHILD_EXPECTS(!reactor.after_fork());
    s.send();
    CHILD_EXPECTS((reported(watch) & foreign::readable) != 0);
    reactor.remove_before_close(watch);
    return 0;
  });
  s.send();
  EXPECT_NE(reported(watch) & foreign::readable, 0u);
  reactor.remove(watch);
}

TEST_F(foreign_loop, what_a_child_arms_is_not_its_parents) {
  pair_of_sockets s;
  ASSERT_FALSE(reactor.add(watch, s.fds[0], foreign::readable));
  EXPECT_EQ(reported_now(watch), 0u);
  expect_in_child([&] {
    CHILD_EXPECTS(!reactor.arm(watch, foreign::writable));
    return CHILD_MEETS((reported(watch) & foreign::writable) != 0);
  });
  EXPECT_EQ(reported(watch, 1ms), 0u);
  reactor.remove(watch);
}

TEST(foreign_loops, says_why_it_does_not_open) {
  environment_variable const driver("UNIO_DRIVER", "nonsense");
  foreign_reactor r;
  EXPECT_EQ(r.open(), unio::error::unknown_driver);
}

TEST(foreign_loops, say_which_variable_is_wrong) {
  environment_variable const entries("UNIO_RING_ENTRIES", "0");
  foreign_reactor r;
  EXPECT_EQ(r.open(), unio::error::bad_ring_entries);
}

// Entries: what a loop that was written for completions would submit to a ring.

TEST(foreign_entries, are_made_when_their_descriptor_is_ready) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  unio::foreign_watch watch;
  unio::foreign_transfer transfer;
  unio::foreign_reactor reactor;
  ASSERT_FALSE(reactor.open());
  char byte = 0;
  unio::foreign_entry entry{};
  entry.opcode = 27; // RECV
  entry.fd = ends[0];
  entry.address = reinterpret_cast<std::uintptr_t>(&byte);
  entry.length = 1;
  transfer.set_entry(entry);
  EXPECT_FALSE(reactor.start(transfer, watch));
  unio::foreign_event events[4];
  EXPECT_EQ(reactor.run(std::chrono::nanoseconds(0), events, 4), 0U);
  ASSERT_EQ(::write(ends[1], "x", 1), 1);
  std::size_t n = 0;
  for (int i = 0; i != 100 && n == 0; ++i) n = reactor.run(std::chrono::milliseconds(50), events, 4);
  ASSERT_EQ(n, 1U);
  EXPECT_EQ(events[0].transfer, &transfer);
  EXPECT_EQ(transfer.result(), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_FALSE(reactor.start(transfer, watch));
  EXPECT_TRUE(reactor.cancel(transfer));
  n = 0;
  for (int i = 0; i != 100 && n == 0; ++i) n = reactor.run(std::chrono::milliseconds(50), events, 4);
  ASSERT_EQ(n, 1U);
  EXPECT_EQ(transfer.result(), -ECANCELED);
  reactor.remove_before_close(watch);
  ::close(ends[0]);
  ::close(ends[1]);
}

// On a descriptor that several watches have.
TEST(foreign_entries, of_one_number_by_two_watches_are_made_on_each_driver) {
  pair_of_sockets s;
  unio::foreign_watch watches[2];
  unio::foreign_transfer transfers[2];
  unio::foreign_reactor reactor;
  ASSERT_FALSE(reactor.open());
  char bytes[2]{};
  for (int i = 0; i != 2; ++i) {
    unio::foreign_entry entry{};
    entry.opcode = 27; // RECV
    entry.fd = s.fds[0];
    entry.address = reinterpret_cast<std::uintptr_t>(&bytes[i]);
    entry.length = 1;
    transfers[i].set_entry(entry);
    EXPECT_FALSE(reactor.start(transfers[i], watches[i])) << transfers[i].result();
  }
  helper_thread second;
  foreign_event events[4];
  std::size_t over = 0;
  auto const run = [&] { over += reactor.run(std::chrono::milliseconds(50), events, 4); };
  run();
  EXPECT_EQ(over, 0u);
  second([&] { run(); }); // a ring is followed by epoll
  EXPECT_EQ(over, 0u);
  s.send();
  s.send();
  for (int i = 0; i != 100 && over != 2; ++i) run();
  EXPECT_EQ(over, 2u);
  for (unio::foreign_transfer const& t : transfers) EXPECT_EQ(t.result(), 1);
  for (unio::foreign_watch& w : watches) reactor.remove(w);
  EXPECT_EQ(s.close_first(), 0);
  EXPECT_TRUE(has_ended(s.fds[1], 0)); // no copy is left
}

// The thread that cancels holds what the one that runs the reactor needs to take its entry back.
TEST(foreign_entries, of_which_the_kernel_took_none_are_cancelled_by_another_thread) {
  pair_of_sockets s;
  unio::foreign_watch watch;
  unio::foreign_transfer transfer;
  unio::foreign_reactor reactor;
  ASSERT_FALSE(reactor.open());
  if (std::string_view(reactor.driver()) != "io_uring") GTEST_SKIP() << "there is no ring";
  char byte = 0;
  unio::foreign_entry entry{};
  entry.opcode = 27; // RECV
  entry.fd = s.fds[0];
  entry.address = reinterpret_cast<std::uintptr_t>(&byte);
  entry.length = 1;
  transfer.set_entry(entry);
  EXPECT_FALSE(reactor.start(transfer, watch));
  static std::binary_semaphore is_entering{0};
  static std::atomic<bool> refuses;
  refuses = true;
  failing_calls calls;
  calls.answer<&table::io_uring_enter>([](int fd, unsigned n, unsigned min, unsigned flags, void const* a,
                                          std::size_t size) noexcept -> std::int64_t {
    if (n == 0 || !refuses.exchange(false))
      return unio::sys::kernel.io_uring_enter(fd, n, min, flags, a, size);
    is_entering.release();
    while (failing_calls::count<&table::sched_yield>() == 0) std::this_thread::yield();
    return -EAGAIN;
  });
  bool is_over = false;
  std::thread runs([&] {
    foreign_event events[4];
    for (int i = 0; i != 200 && !is_over; ++i)
      is_over = reactor.run(std::chrono::milliseconds(50), events, 4) == 1;
  });
  is_entering.acquire();
  EXPECT_TRUE(reactor.cancel(transfer)); // waits until the kernel was entered
  runs.join();
  EXPECT_TRUE(is_over);
  EXPECT_EQ(transfer.result(), -ECANCELED);
  reactor.remove_before_close(watch);
}

// One message by RECVMSG: its flags, which said something else before.
int flags_of_a_message(int to, int from, std::span<char> room, std::int64_t expected) {
  unio::foreign_watch watch;
  unio::foreign_transfer transfer;
  unio::foreign_reactor reactor;
  EXPECT_FALSE(reactor.open());
  iovec buffer{.iov_base = room.data(), .iov_len = room.size()};
  msghdr message{};
  message.msg_iov = &buffer;
  message.msg_iovlen = 1;
  message.msg_flags = MSG_EOR;
  unio::foreign_entry entry{};
  entry.opcode = 10; // RECVMSG
  entry.fd = to;
  entry.address = reinterpret_cast<std::uintptr_t>(&message);
  entry.length = 1;
  transfer.set_entry(entry);
  EXPECT_EQ(::send(from, "four", 4, 0), 4);
  unio::foreign_event events[4];
  bool is_over = reactor.start(transfer, watch);
  for (int i = 0; i != 100 && !is_over; ++i)
    is_over = reactor.run(std::chrono::milliseconds(50), events, 4) == 1;
  EXPECT_TRUE(is_over);
  EXPECT_EQ(transfer.result(), expected);
  EXPECT_EQ(room[0], 'f');
  reactor.remove_before_close(watch);
  return message.msg_flags;
}

TEST(foreign_entries, say_what_became_of_a_message) {
  int datagrams[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, datagrams), 0);
  tcp_ends const tcp;
  char room[8]{};
  EXPECT_EQ(flags_of_a_message(tcp.sink.native_handle(), tcp.source.native_handle(), room, 4), 0);
  EXPECT_EQ(flags_of_a_message(datagrams[0], datagrams[1], room, 4), 0);
  EXPECT_EQ(flags_of_a_message(datagrams[0], datagrams[1], std::span(room, 2), 2), MSG_TRUNC);
  for (int const fd : datagrams) ::close(fd);
}

TEST(foreign_entries, that_no_call_can_make_are_refused_without_a_ring) {
  unio::foreign_watch watch;
  unio::foreign_transfer transfer;
  unio::foreign_reactor reactor;
  ASSERT_FALSE(reactor.open());
  if (std::string_view(reactor.driver()) != "epoll") GTEST_SKIP() << "a ring refuses what it does not know";
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  unio::foreign_entry entry{};
  entry.opcode = 200;
  entry.fd = ends[0];
  transfer.set_entry(entry);
  EXPECT_TRUE(reactor.start(transfer, watch));
  EXPECT_EQ(transfer.result(), -EOPNOTSUPP);
  reactor.remove_before_close(watch);
  ::close(ends[0]);
  ::close(ends[1]);
}

} // namespace
