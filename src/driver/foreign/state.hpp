// src/driver/foreign/state.hpp: what a foreign_reactor has, and how its driver is changed.
//
// Waking. A thread that is about to wait says so (foreign_sleeper) and then looks whether it was interrupted,
// whether it is called and whether the driver has orders; another thread first says what it wants and then
// looks where the first is. Both in the one order of sequentially consistent operations, so that one of them
// sees the other. A transfer that is over is in an inbox, whose operations are in that order too.
//
// Another driver takes the place of one only by the thread that runs it, or while none does. A deferred ring
// works for one thread alone (uring/foreign_ring.hpp). If another thread has to take something back from it,
// it calls for the change: the thread that runs it makes that, at once where it waits; where it is away, in a
// handler or for good, the caller does.
//
//   caller, under the lock                          the thread that runs
//     is_called = true                                runner = inside or asleep
//     runner == away: changes, is_called = false      is_called: takes the lock; if it still is: changes
//     otherwise wakes it, and looks again             … waits, collects; is_called: likewise; runner = away
//
// Without a descriptor for the change that thread drops what its ring has, and asks for the rest again.

#pragma once

#include "driver/choose.hpp"
#include "driver/foreign/interruptions.hpp"
#include "driver/foreign/runner.hpp"
#include "driver/foreign/transfers.hpp"
#include "sys/fork.hpp"

#include <unio/extend/foreign_lock.hpp>

#include <atomic>
#include <memory>
#include <mutex>
#include <system_error>

namespace unio::inline v0_1 {

using driver::foreign_access;
using driver::foreign_driver;
using driver::foreign_sleeper;
using driver::foreign_tag;
using driver::foreign_transfers;
using driver::foreign_use;
using driver::transfer_place;

struct foreign_reactor::state {
  foreign_lock lock;
  std::unique_ptr<foreign_driver> driver;
  std::unique_ptr<foreign_driver> left; // the one before, until nothing of it keeps a descriptor open
  foreign_watch* first = nullptr;
  std::atomic<void const*> runner{nullptr}; // the last
  std::atomic<bool> is_called{false};
  unsigned fork_generation = sys::fork_generation();
  foreign_sleeper sleeper;
  driver::interruptions<> interruptions;
  std::atomic<bool> by_ring{false}; // whether the driver makes the transfers
  // Whether it was ever given a watch that carries transfers: relaxed, what that reports comes after.
  std::atomic<bool> has_carried{false};
  std::atomic<char const*> name{""}; // the driver's
  foreign_transfers transfers{sleeper};
  driver::foreign_loop listed;
  driver::foreign_runner bound;

  explicit state(foreign_reactor const& r) noexcept : listed(r), bound(&state::runner_ends, this) {}
  state(state const&) = delete;
  state& operator=(state const&) = delete;
  ~state();

  [[nodiscard]] bool in_child() const noexcept { return fork_generation != sys::fork_generation(); }

  std::error_code leave_parent() noexcept;

  /// A thread that waits is to look at what the driver was ordered.
  void tell_sleeper() noexcept {
    if (driver->has_orders()) sleeper.wake_if_asleep();
  }

  // Under the lock.

  /// Chooses a driver and goes on with that.
  std::error_code open(foreign_use use) noexcept;
  /// What cannot be watched any more, because its number was closed without a word, reports nothing. What
  /// carries transfers is added where they need it.
  void go_on_with(std::unique_ptr<foreign_driver> next) noexcept;
  int add(foreign_watch& w, unsigned interest) noexcept;
  [[nodiscard]] bool is_watched(int fd) const noexcept;
  [[nodiscard]] bool is_taken(foreign_watch& w) noexcept;
  /// Of a watch that carries transfers; it may have been added.
  int add_carrying(foreign_watch& w) noexcept;
  /// False: see foreign_driver::remove().
  bool remove(foreign_watch& w, bool closes) noexcept;

  // By any thread, without the lock (carrying.cpp).

  /// Whether it is over.
  bool start(foreign_transfer& t, foreign_watch& w) noexcept;
  /// False: it will be reported.
  bool begin(foreign_transfer& t) noexcept;

  /// Until no driver keeps its descriptor open. `closes`: foreign code is about to close that.
  void take_out(foreign_watch& w, bool closes) noexcept;

  // By another thread than the one that runs it.

  void call_runner(std::unique_lock<foreign_lock>& guard) noexcept;
  /// Until the kernel has dropped what a ring had that was given up, but not for ever.
  void await_left(std::unique_lock<foreign_lock>& guard) noexcept;

  // By the thread that runs it, without the lock.

  /// What was found may be of watches that carry transfers: then it is for these. Returns how many are left.
  std::size_t carry(foreign_event* events, std::size_t found) noexcept;

  /// False: it cannot run it.
  bool other_runner(void const* thread) noexcept;
  void answer_call() noexcept;
  /// What each watch is ready for, which a run() has collected that reports nothing.
  void report_again() noexcept;
  void failed_to_wait(int native_code) noexcept;
  /// What the thread had asked of the kernel would end with it. The next may have a ring of its own.
  static void runner_ends(void* self) noexcept;

  [[gnu::noinline]] std::size_t report(foreign_event* events, std::size_t n) noexcept {
    std::scoped_lock const guard(lock);
    return transfers.report(events, n);
  }
  [[nodiscard]] bool has_ended_transfers() noexcept {
    std::scoped_lock const guard(lock);
    return transfers.empty();
  }

 private:
  void forget(foreign_watch& w) noexcept;
};

} // namespace unio
