// src/driver/shared/crew.hpp: the threads that run one multiplexer together, and the work posted to them.
//
// Each thread has a slot: an inbox, into which any thread pushes with one compare-and-exchange, and
// after it a queue under a lock that is held for a few instructions; and a stack of what its thread forks.
// Two more slots belong to no thread: one takes what threads post that run nothing here, one what is new.
//
//   post, by a thread of the multiplexer ──► its own slot ──┐                   ┌─ runs it, one by one
//                                                           ├──► a slot's queue ┤
//   post, by another thread ──► everybody's slot ── a share ┘         ▲         └─ half, to an idle thread
//                                                                     │ the older half, to an idle thread;
//                                                                     │ the oldest now and then
//   fork, by a thread of the multiplexer ───► its own slot's stack ───┴──────────► runs the newest
//
//   spawn ──► the slot of what is new ──► runs them, one by one: the thread that has least to do
//
// In a turn all that was posted before it runs once, and then 64 that are forked. So a tree of tasks is
// walked depth first: few of them exist at a time, and their memory is warm. In each 64th turn the oldest is
// queued behind what was posted, so that none waits for ever.
//
// What is new, the session of a connection say, stays for long where it begins. So a thread takes no more of
// it than makes all threads have the same to do. Each says once a turn what it has to do, its operations in
// flight and what is queued: two stores. From these follows the level to which all that lie below are filled.
// A thread above it leaves what is new to the others, for a millisecond; those that have not come round by
// then (they compute, or do not run the multiplexer now) are passed over until they do. Those that were
// asleep have longer: they come as soon as they get a processor. A thread that would sleep until then sleeps
// no longer than that. So if a thread sleeps without a bound it has seen that nothing is new, and what is
// spawned later calls one that sleeps (wake_gate.hpp), which begins it or sleeps with a bound.
//
// Everything that waits can be taken by an idle thread, and taken back; only what runs is out of the queues,
// and for a moment what moves from one to another. Operations that no thread runs yet are in a queue of their
// own (unclaimed.hpp).

#pragma once

#include "driver/engine.hpp"
#include "driver/shared/slot.hpp"
#include "driver/shared/unclaimed.hpp"
#include "driver/shared/wake_gate.hpp"
#include "sys/fork.hpp"

#include <atomic>

namespace unio::inline v0_1::driver {

class crew {
 public:
  /// `stays`: a pool's threads; run() never says that nothing is pending.
  crew(io_multiplexer& of, int threads, bool stays) noexcept;
  crew(crew const&) = delete;
  crew& operator=(crew const&) = delete;

  /// How many it was made for.
  [[nodiscard]] int threads() const noexcept { return threads_; }
  [[nodiscard]] bool stays() const noexcept { return stays_; }
  [[nodiscard]] slot_list const& slots() const noexcept { return slots_; }
  /// How many run it now: more or less.
  [[nodiscard]] int present() const noexcept { return present_.load(std::memory_order_relaxed); }
  /// The slot of no thread.
  [[nodiscard]] slot& everybodys() noexcept { return everybodys_; }
  /// That of what is new.
  [[nodiscard]] slot& new_ones() noexcept { return new_; }

  /// Something was posted: has one that sleeps look.
  void call_one() noexcept;
  /// Something is new: the same, if it can be the one that has least to do.
  void call_for_new() noexcept;
  void wake_all() noexcept;
  /// Makes one run() return: of a thread that sleeps, or else of the next that would. Also from a handler of
  /// signals.
  void wake() noexcept;
  /// After `s.engine_lock` was held.
  void unlock(slot& s) noexcept;
  [[nodiscard]] bool withdraw(work& w) noexcept;
  /// Has a thread that runs it, or the next that does, take an operation that this thread has started.
  void start_unclaimed(io_operation& op) noexcept;
  /// Ends those that only the caller still knows, as canceled or with `why`, and notifies their receivers.
  void end_unclaimed(operation_queue& ops, int why = 0) noexcept;
  /// Tells what is still posted that it will not run. `self`: the multiplexer.
  void drop_posted(io_multiplexer const& self) noexcept;

  [[nodiscard]] bool is_over() const noexcept {
    return phase_.load(std::memory_order_acquire) == phase::over; // pairs with the release in end()
  }
  void end() noexcept;
  /// It will be over as soon as it is quiet.
  void close_when_quiet() noexcept;
  /// Returns when it is over. After close_when_quiet().
  void wait_for_the_end() noexcept;

 protected:
  slot_list slots_;

  /// Something is pending, or not any more, that is no thread's. From any thread.
  void begin_beside() noexcept { beside_.begin_by_any(1); }
  void end_beside() noexcept;

  std::atomic<int> present_{0};
  unclaimed_operations unclaimed_;

 private:
  work* next_to_drop() noexcept;
  friend class slot;
  enum class phase : int { open, closing, over };

  /// In a child of fork.
  [[nodiscard]] bool is_copy() const noexcept { return fork_generation_ != sys::fork_generation(); }
  [[nodiscard]] bool has_work() const noexcept { return has_posted() || new_.has_work(); }
  [[nodiscard]] bool has_posted() const noexcept;
  /// Whether there is something that `mine` will not run in its next turn.
  [[nodiscard]] bool has_work_beside(slot const& mine) const noexcept;
  // On the thread of `s`, which has nothing to do: a share of what is everybody's, or else half of what
  // another thread has.
  bool fetch(slot& s) noexcept;
  bool steal(slot& s) noexcept;
  // The same when it has something to do: then one of what is forked is enough, and comes before its own.
  bool help(slot& s) noexcept;
  /// How many of `n` that are new the thread of `s` is to begin.
  [[nodiscard]] int share_of_new(slot const& s, int n) const noexcept;
  /// Whether something is new that a thread which sleeps is to begin, and not `mine`.
  [[nodiscard]] bool has_new_beside(slot const& mine) noexcept;
  /// Or null.
  [[nodiscard]] slot* least_busy_sleeper() const noexcept;
  template <class Take> bool from_another(slot& s, Take take) noexcept;
  /// Calls `f` with each slot until it returns true: first with those after `s`, with `s` itself last.
  template <class F> bool any_from(slot const* s, F f) noexcept;
  template <class Slots> void call_one_of(Slots&& from) noexcept;
  template <class F> void with_engine(slot& s, F f) noexcept;
  template <class F> void for_each_tally(F f) const noexcept;
  /// `begun`, if given, becomes what begun() says, which is more as soon as something else has begun, or has
  /// left the queue in which it was posted.
  [[nodiscard]] std::int64_t pending(std::uint64_t* begun = nullptr) const noexcept;
  [[nodiscard]] std::uint64_t begun() const noexcept;
  void look_for_the_end() noexcept;
  bool look_at_others(slot& s) noexcept;
  void wake_sleeper() noexcept;
  bool take_wake() noexcept { return wakes_.load(std::memory_order_relaxed) && wakes_.exchange(false); }
  /// Whether nothing is posted, running or in flight: all threads are on their way to sleep, and none is
  /// woken. The last of them to count itself sees that of all others.
  [[nodiscard]] bool is_quiet() const noexcept;

  int const threads_;
  bool const stays_;
  unsigned const fork_generation_ = sys::fork_generation();
  std::atomic<phase> phase_{phase::open};
  slot everybodys_;
  slot new_;
  alignas(64) wake_gate<> gate_;
  std::atomic<bool> wakes_{false};    // a wake() that no thread has taken yet
  std::atomic<bool> watches_{false};  // a thread that sleeps will look at what others do
  std::atomic<slot*> woken_{nullptr}; // whom the last one found asleep
  alignas(64) tally<> beside_;        // what is pending of no slot
};

template <class F> bool crew::any_from(slot const* s, F f) noexcept {
  auto const next = [&] {
    slot* const after = s != nullptr ? slot_list::after(*s) : nullptr;
    return after != nullptr ? after : slots_.first();
  };
  for (slot& each : slots_from(slots_, next))
    if (f(each)) return true;
  return false;
}

// The lock keeps the engine from being destroyed.
template <class F> void crew::with_engine(slot& s, F f) noexcept {
  if (is_copy()) return; // its threads do not exist, and one of them may have held the lock
  s.engine_lock.lock();
  if (engine* const e = s.others_engine(); e != nullptr) f(*e);
  unlock(s);
}

} // namespace unio::driver
