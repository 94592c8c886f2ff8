// Forking a process whose other threads use the library at that moment: the child finds the locks of the
// process open, and what they guard whole (src/sys/fork.hpp).

#include "support/child.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/test.hpp"
#include "sys/fork.hpp"

#include <unio/extend/foreign_lock.hpp>
#include <unio/extend/foreign_reactor.hpp>

#include <unistd.h>

namespace {

using namespace test;
namespace sys = unio::sys;

// A child that waits for ever is ended by SIGALRM, and counts as killed.
constexpr unsigned hangs_s = 30;

template <class Lock> void is_open_in_a_child(Lock& lock, std::size_t number) {
  std::atomic<bool> is_half_changed = false;
  std::atomic<bool> is_forked = false;
  std::thread changes([&] {
    {
      std::lock_guard const held(lock);
      is_half_changed = true;
      std::this_thread::sleep_for(20ms);
      is_half_changed = false;
    }
    // ThreadSanitizer has a child report each thread that had ended and was not joined.
    is_forked.wait(false);
  });
  while (!is_half_changed) std::this_thread::yield();
  EXPECT_EQ(in_child([&] {
              ::alarm(hangs_s);
              CHILD_EXPECTS(!is_half_changed);
              std::lock_guard const held(lock);
              return 0;
            }),
            0)
      << "lock " << number;
  is_forked = true;
  is_forked.notify_one();
  changes.join();
  std::lock_guard const held(lock); // nor does the parent keep it
}

TEST(process_lock, is_open_in_a_child_and_what_it_guards_is_whole) {
  for (std::size_t i = 0; i != sys::guarded_count; ++i) {
    sys::process_lock lock(static_cast<sys::guarded>(i));
    is_open_in_a_child(lock, i);
  }
}

TEST(foreign_lock, is_open_in_a_child_and_what_it_guards_is_whole) {
  unio::foreign_lock locks[3];
  for (std::size_t i = 0; i != std::size(locks); ++i) is_open_in_a_child(locks[i], i);
}

TEST(process_lock, has_children_make_what_it_guards_their_own) {
  static std::atomic<int> called = 0;
  sys::process_lock lock(sys::guarded::map_guard); // which has no such function
  {
    std::lock_guard const held(lock);
    lock.in_child([]() noexcept { ++called; });
  }
  EXPECT_EQ(in_child([] { return called.load(); }), 1);
  EXPECT_EQ(called, 0);
  std::lock_guard const held(lock);
  lock.in_child(nullptr);
}

class kernel_fork_locks : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_fork_locks);

constexpr int forks = 150;

// Forks again and again while another thread does `busy`, and has each child do `body`.
void fork_beside(std::function<void()> const& busy, std::function<int()> const& body) {
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) busy();
  });
  for (int i = 0; i < forks && !::testing::Test::HasFailure(); ++i)
    EXPECT_EQ(in_child([&] {
                ::alarm(hangs_s);
                return body();
              }),
              0)
        << "fork " << i;
  over = true;
  other.join();
}

// It does not go on with the loop.
ISOLATED_TEST(kernel_fork_locks, a_child_ends_a_foreign_reactor_that_another_thread_uses) {
  namespace foreign = unio::foreign;
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  unio::foreign_watch mine;
  unio::foreign_watch others;
  auto reactor = std::make_unique<unio::foreign_reactor>();
  ASSERT_FALSE(reactor->open());
  ASSERT_FALSE(reactor->add(mine, fds[0], foreign::readable));
  unio::foreign_event e;
  ASSERT_EQ(reactor->run(0ns, &e, 1), 0U);
  fork_beside(
      [&] {
        if (!reactor->add(others, fds[1], foreign::writable)) reactor->remove(others);
      },
      [&] {
        reactor->remove_before_close(mine);
        reactor.reset();
        return 0;
      });
  // Its parent is disturbed in nothing.
  EXPECT_EQ(::write(fds[1], "x", 1), 1);
  EXPECT_EQ(reactor->run(10s, &e, 1), 1U);
  reactor->remove_before_close(mine);
  ::close(fds[0]);
  ::close(fds[1]);
}

int waits_for_a_timer() {
  auto const m = made_multiplexer();
  unio::timer_handle soon(unio::deadline(1ms), m.get());
  started op{unio::async_wait(soon)};
  return CHILD_MEETS(drive(*m, [&] { return op.ended(); }));
}

ISOLATED_TEST(kernel_fork_locks, a_child_makes_a_multiplexer_while_another_thread_makes_some) {
  fork_beside([] { (void)made_multiplexer(); }, waits_for_a_timer);
}

ISOLATED_TEST(kernel_fork_locks, a_child_makes_a_multiplexer_of_several_threads_while_others_come_and_go) {
  fork_beside(
      [] {
        auto const m = unio::io_multiplexer::best_available(2).value();
        std::thread([&] { (void)m->try_run(); }).join(); // whose part of it ends with it
      },
      [] {
        auto const m = unio::io_multiplexer::best_available(2).value();
        return m->try_run().value_or(1);
      });
}

ISOLATED_TEST(kernel_fork_locks, a_child_runs_coroutines_while_another_thread_exchanges_frames) {
  fork_beside(
      [] {
        void* blocks[400];
        for (void*& b : blocks) b = unio::frame_pool::allocate(200);
        for (void* b : blocks) unio::frame_pool::deallocate(b, 200);
      },
      [] {
        auto const m = made_multiplexer();
        unio::timer_handle soon(unio::deadline(1ms), m.get());
        auto const waits = [](unio::timer_handle& t) -> unio::task<int> {
          co_return (co_await t.co_wait()).has_value() ? 0 : 1;
        };
        return unio::run(*m, waits(soon));
      });
}

ISOLATED_TEST(kernel_fork_locks, a_child_makes_and_ends_pools_while_another_thread_does) {
  auto const one = [] {
    unio::buffer_pool const pool(4, 64, unio::pool_memory::registered);
    return CHILD_MEETS(pool.count() == 4);
  };
  fork_beside([&] { (void)one(); }, one);
}

} // namespace
