// unio::foreign_reactor between threads, on epoll: no seed loses a wake-up or an event.
// scripts/check-planted plants what it guards against, one by one.

#include "support/test.hpp"
#include "threads/support.hpp"

#include <unio/extend/foreign_reactor.hpp>

#include <sys/eventfd.h>
#include <unistd.h>

namespace {

using namespace test;
using namespace threads_tests;

/// An eventfd in a watch.
struct bell : unio::foreign_watch {
  int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  ~bell() { ::close(fd); }
  void ring() const {
    std::uint64_t const one = 1;
    require(::write(fd, &one, sizeof one) == sizeof one, "write");
  }
};

void open(unio::foreign_reactor& r) { require(!r.open(), "open"); }

std::size_t run(unio::foreign_reactor& r, unio::foreign_event& event) { return r.run(for_ever, &event, 1); }

// What a loop does with what others give it: says so, and interrupts.
TEST(foreign_reactor, an_interruption_is_not_lost_while_the_thread_lies_down) {
  expect_no_failure(200, [] {
    unio::foreign_reactor r;
    open(r);
    std::atomic<bool> stop{false};
    std::thread runner([&] {
      unio::foreign_event event{};
      while (!stop) (void)run(r, event);
    });
    stop = true;
    r.interrupt();
    runner.join();
  });
}

TEST(foreign_reactor, each_of_two_interruptions_is_followed_by_a_look) {
  expect_no_failure(200, [] {
    unio::foreign_reactor r;
    open(r);
    std::atomic<int> said{0};
    std::thread runner([&] {
      unio::foreign_event event{};
      while (said != 2) (void)run(r, event);
    });
    auto const say = [&] {
      ++said;
      r.interrupt();
    };
    std::thread other(say);
    say();
    other.join();
    runner.join();
  });
}

// The next thread may run it while the one before has just returned.
TEST(foreign_reactor, an_interruption_reaches_whichever_thread_runs_it) {
  expect_no_failure(200, [] {
    unio::foreign_reactor r;
    open(r);
    std::atomic<bool> stop{false};
    std::mutex turn;
    auto const run_in_turn = [&] {
      unio::foreign_event event{};
      for (;;) {
        std::scoped_lock const mine(turn);
        if (stop) return;
        (void)run(r, event);
      }
    };
    std::thread first(run_in_turn), second(run_in_turn);
    stop = true;
    r.interrupt();
    first.join();
    second.join();
  });
}

TEST(foreign_reactor, what_another_thread_adds_is_reported) {
  expect_no_failure(200, [] {
    unio::foreign_reactor r;
    open(r);
    bell b;
    b.ring(); // it is ready when it is added
    std::thread runner([&] {
      unio::foreign_event event{};
      while (run(r, event) == 0) continue;
      require(event.watch == &b && (event.what & unio::foreign::readable) != 0, "of the bell");
    });
    require(!r.add(b, b.fd, unio::foreign::readable), "add");
    runner.join();
    r.remove(b);
  });
}

TEST(foreign_reactor, what_another_thread_arms_is_reported) {
  expect_no_failure(200, [] {
    unio::foreign_reactor r;
    open(r);
    bell b;
    require(!r.add(b, b.fd, unio::foreign::readable), "add");
    std::thread runner([&] {
      unio::foreign_event event{};
      while (run(r, event) == 0 || (event.what & unio::foreign::writable) == 0) continue;
    });
    require(!r.arm(b, unio::foreign::writable), "arm");
    runner.join();
    r.remove(b);
  });
}

// What was removed is reported at most by a run that was under way.
TEST(foreign_reactor, what_was_removed_is_not_reported_afterwards) {
  expect_no_failure(200, [] {
    unio::foreign_reactor r;
    open(r);
    bell first, second;
    require(!r.add(first, first.fd, unio::foreign::readable), "add");
    require(!r.add(second, second.fd, unio::foreign::readable), "add");
    std::atomic<bool> removed{false};
    std::thread runner([&] {
      for (unio::foreign_event event{};;) {
        bool const was_removed = removed;
        if (run(r, event) == 0) continue;
        if (event.watch == &second) return;
        require(!was_removed, "of a watch that was removed before");
      }
    });
    std::thread ringer([&] { first.ring(); });
    r.remove_before_close(first);
    removed = true;
    ringer.join();
    second.ring();
    runner.join();
    r.remove(second);
  });
}

} // namespace
