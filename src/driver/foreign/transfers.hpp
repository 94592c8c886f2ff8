// src/driver/foreign/transfers.hpp: the transfers of a foreign_reactor, made by a ring, a worker or here.
//
//             ┌── queued ──► in_kernel ──┐
//   idle ──►──┤   (a driver that can)    ├──► over ──► idle
//             ├──────── waiting ─────────┤    reported
//             └────── with_worker ───────┘
//
// `waiting`: its call was made, and would have blocked; it is made again when the watch of its descriptor
// reports. Between a call and the list of those that wait, which it joins under the lock, the watch may
// report: the count of its changes tells, and the call is made again.
//
// A driver that goes back before a transfer is over leaves it `queued`, for the next. What is over is in an
// inbox, which any thread fills and the one that runs the reactor empties.

#pragma once

#include "driver/foreign/foreign.hpp"
#include "driver/queues.hpp"

namespace unio::inline v0_1::driver {

/// Its functions are called under the reactor's lock, but those that say otherwise.
class foreign_transfers {
 public:
  explicit foreign_transfers(foreign_sleeper& sleeper) noexcept : sleeper_(sleeper) {}
  foreign_transfers(foreign_transfers const&) = delete;
  foreign_transfers& operator=(foreign_transfers const&) = delete;
  ~foreign_transfers();

  /// It is under way, of a file where no driver makes it. False: no worker takes it, and the caller makes
  /// it, by make_now(), not under the lock.
  bool begin(foreign_transfer& t, foreign_driver& d) noexcept;
  /// It waits for its watch, which is added. Returns 0, or -errno; then it is not under way.
  int wait(foreign_transfer& t, foreign_driver& d) noexcept;
  /// The watch has reported: what waits for that has its call made.
  void ready(foreign_watch& w, unsigned what) noexcept;
  /// Those of a watch that is to be added to another driver are `queued`.
  static void withdraw(foreign_watch& w) noexcept;
  bool cancel(foreign_transfer& t, foreign_driver& d) noexcept;
  /// A worker makes it; if none takes it, the caller.
  void give_or_make(foreign_transfer& t) noexcept {
    if (!to_worker(t)) make_now(t);
  }
  /// After the driver has changed: what was `queued` begins again. `add`: its watch.
  template <class F> void begin_again(foreign_driver& d, F add) noexcept {
    foreign_transfer* next = nullptr;
    for (foreign_transfer* t = first_; t != nullptr; t = next) {
      next = foreign_access::next(*t);
      begin_again(*t, d, add);
    }
  }
  /// In a child of fork: nothing is with the kernel or a worker. What is not over becomes `queued`.
  void leave_parent() noexcept;
  /// After that: none is under way, and none is reported.
  void forget_all() noexcept { first_ = reports_ = nullptr; }
  void cancel_all(foreign_driver& d) noexcept;
  /// What is over, as events. Returns how many.
  std::size_t report(foreign_event* events, std::size_t n) noexcept;
  [[nodiscard]] bool empty() const noexcept { return first_ == nullptr; }

  // Not under the lock.

  /// Reads what is in the page cache. False: it would wait.
  static bool make_at_once(foreign_transfer& t) noexcept;
  /// For the thread that runs the reactor. seq_cst: see inbox::empty().
  [[nodiscard]] bool has_reports() const noexcept { return (any_of(reports_) | over_.any()) != 0; }
  /// It is over, wherever it was made. From here on it may be gone.
  void finish(foreign_transfer& t, std::int64_t result) noexcept {
    finish_awake(t, result);
    sleeper_.wake_if_asleep();
  }
  /// The same by the thread that runs the reactor, which needs no waking.
  void finish_awake(foreign_transfer& t, std::int64_t result) noexcept;
  /// The same, under the lock, by one that reports it itself.
  foreign_event finish_reported(foreign_transfer& t, std::int64_t result) noexcept;
  /// By a worker, or by the thread that found none.
  static void make_now(foreign_transfer& t) noexcept;
  /// Waits while a worker has it.
  static void settle(foreign_transfer& t) noexcept;

 private:
  struct link {
    static foreign_transfer*& next(foreign_transfer& t) noexcept { return foreign_access::next_queued(t); }
  };
  void add(foreign_transfer& t) noexcept;
  void remove(foreign_transfer& t) noexcept;
  bool to_worker(foreign_transfer& t) noexcept;
  void collect() noexcept;
  bool is_to_begin_again(foreign_transfer& t, foreign_driver& d) noexcept;
  void wait_again(foreign_transfer& t, foreign_driver& d, int added) noexcept;
  template <class F> void begin_again(foreign_transfer& t, foreign_driver& d, F add) noexcept {
    if (is_to_begin_again(t, d)) wait_again(t, d, add(*foreign_access::watch(t)));
  }

  foreign_sleeper& sleeper_;
  foreign_transfer* first_ = nullptr;
  foreign_transfer* reports_ = nullptr; // what was taken out of the inbox
  inbox<foreign_transfer, link> over_;
  std::atomic<int> lent_{0}; // until the worker has left
};

} // namespace unio::driver
