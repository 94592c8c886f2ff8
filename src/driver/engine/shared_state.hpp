// src/driver/engine/shared_state.hpp: what an engine of several asks of the multiplexer that they are.

#pragma once

#include "driver/shared/tally.hpp"

#include <unio/multiplexer.hpp>

#include <cstdint>

namespace unio::inline v0_1::driver {

class engine;
class unclaimed_operations;

/// Work and counts that several engines share: a multiplexer of several threads.
class shared_state {
 public:
  /// Runs what was posted to all: no more than there is now.
  virtual int run_shared(int max_items) noexcept = 0;
  virtual bool has_shared() noexcept = 0;
  /// The thread is about to sleep; true: it must not. after_sleep() follows in any case. `landed`: of what
  /// counts as pending, so much has ended here.
  virtual bool before_sleep(int landed) noexcept = 0;
  virtual void after_sleep() noexcept = 0;
  /// The thread has something in flight, and has woken and calls a receiver.
  virtual void goes_away() noexcept = 0;
  /// The thread leaves the engine; it may be long until it comes again. `passes_on`: it has something in
  /// flight, or has slept and called no receiver since, and may have been the one that looks at others.
  virtual void leaves(bool passes_on) noexcept = 0;
  /// When a thread that sleeps must look again at the latest.
  [[nodiscard]] virtual std::int64_t look_again() noexcept = 0;
  /// `n` have ended, and nothing of this thread's is left.
  virtual void ended_all(int n) noexcept = 0;
  /// How much is pending in all engines together and outside of them: no less than there was at some moment.
  /// has_shared() then says as well whether anything has begun since.
  virtual std::int64_t pending() noexcept = 0;
  /// A wake() that found no thread asleep: true for the one that takes it.
  virtual bool take_wake() noexcept = 0;
  /// A wake() that was taken, but not by a run().
  virtual void give_wake() noexcept = 0;
  /// The thread takes a wake() from now on, or not: it is in a call that waits for one thing.
  virtual void take_wakes(bool on) noexcept = 0;
  /// From any thread: engine::poke(), if a thread runs the engine.
  virtual void poke() noexcept = 0;
  /// Gives `by` a share of what is unclaimed. On its thread.
  virtual void claim(engine& by) noexcept = 0;
  /// Another thread's operation, which it has started here.
  virtual void start_unclaimed(io_operation& op) noexcept = 0;
  /// From a thread that does not run it: leaves the request with the operation, or with its engine.
  virtual void ask_to_end(io_operation& op) noexcept = 0;
  /// The calling thread waits for what the thread of `other`, which it is not, does with `op`: takes it if it
  /// can, and otherwise goes on with what it runs itself.
  virtual void go_on_without(engine& other, io_operation const& op) noexcept = 0;
  /// Work that the engine's thread leaves.
  virtual void give_work(work& w) noexcept = 0;

  unclaimed_operations* unclaimed = nullptr; ///< what no thread runs yet
  tally<> counts;                            ///< changed under the engine's lock

 protected:
  ~shared_state() = default;
};

} // namespace unio::driver
