// src/driver/shared/unclaimed.hpp: operations of a multiplexer of several threads that no thread runs yet.
//
//   start, by a thread that does not run it ──┐
//                                             ├──► unclaimed ──► the engine of a thread that runs it
//   what a thread leaves that ends ───────────┘        │
//                                                      └──► ended, by the thread that closes or destroys it
//
// Where an operation belongs is said by its multiplexer(): here that is the shared one, and it changes only
// under the lock. So a request of another thread finds it, also while it moves: the lock is held for as long
// as it takes to read where the operation is and to leave the request there.

#pragma once

#include "driver/queues.hpp"
#include "sys/short_lock.hpp"

#include <unio/multiplexer.hpp>

#include <atomic>
#include <mutex>

namespace unio::inline v0_1::driver {

class engine;

class unclaimed_operations {
 public:
  explicit unclaimed_operations(io_multiplexer& of) noexcept : of_(of) {}

  [[nodiscard]] io_multiplexer& of() const noexcept { return of_; }

  /// A hint.
  [[nodiscard]] bool may_have_some() const noexcept { return count_.load(std::memory_order_relaxed) != 0; }
  /// seq_cst: see wake_gate.hpp.
  [[nodiscard]] bool has_some() const noexcept { return count_.load(std::memory_order_seq_cst) != 0; }

  /// How often operations went from an engine to a multiplexer's, or from there to an engine. A thread that
  /// has seen such an operation gone sees that it was counted. Acquire; pairs with the release where it is
  /// counted: a thread that sees that sees whose engine got it.
  [[nodiscard]] static std::uint64_t moves() noexcept { return moves_.load(std::memory_order_acquire); }

  /// One that is this thread's. From here on it may run, end and be destroyed.
  void add(io_operation& op) noexcept;
  /// All that an engine gives away, which one thread will take together.
  void add_all(operation_queue& batch, engine& from) noexcept;
  /// Moves operations from one engine to another: calls `f()`, which makes them that one's, while no thread
  /// can leave a request with either.
  template <class F> void move_between(F f) noexcept {
    std::lock_guard const lock(lock_);
    moves_.fetch_add(1, std::memory_order_release);
    f();
  }
  /// One part in `parts`, for the calling thread's engine, to which they belong from now on.
  [[nodiscard]] operation_queue take(engine& by, int parts) noexcept;
  /// That one. False: it is not here any more, or not yet.
  [[nodiscard]] bool take(io_operation& op, engine& by) noexcept;
  /// All that use a descriptor, or all, to be ended by the caller.
  [[nodiscard]] operation_queue take_on(int fd) noexcept;
  [[nodiscard]] operation_queue take_all() noexcept;
  /// That one, to be ended by the caller.
  [[nodiscard]] bool take(io_operation& op) noexcept;
  /// From a thread that does not run it: leaves the request with the operation if that is here, and with its
  /// engine otherwise.
  void ask_to_end(io_operation& op) noexcept;
  /// Whether another thread, whose request was taken, is still in ask_to_end(): then the multiplexer stays.
  [[nodiscard]] bool is_used() const noexcept { return asking_.load(std::memory_order_acquire) != 0; }
  /// Calls `f(op)` for each, under the lock. Throws what `f` throws.
  template <class F> void for_each(F f) {
    std::lock_guard const lock(lock_);
    for (io_operation* op = queue_.first(); op != nullptr; op = op->links.next) f(*op);
  }

 private:
  void take_out(io_operation& op) noexcept;
  [[nodiscard]] bool has(io_operation const& op) const noexcept;

  static constinit std::atomic<std::uint64_t> moves_; // changed under the lock
  io_multiplexer& of_;
  sys::short_lock lock_;
  operation_queue queue_{queue_name::unclaimed};
  std::atomic<int> count_{0};  // changed under the lock
  std::atomic<int> asking_{0}; // threads that have left a request with an engine, and have not poked it yet
};

} // namespace unio::driver
