// src/driver/uring/client.hpp: the backend over a kernel with two queues. io_uring is one, the simulation's
// kernel is another, so that what thousands of seeds test is what ships.
//
//   start() ──► to_submit ──(next turn)──► queue ──► kernel ──► completion ──► engine::process
//                   ▲                                                │
//                   └──────── readiness only (POLL_ADD) ◄── -EAGAIN ─┘
//
// The kernel learns nothing before the next turn, which submits all that was started since the last one, asks
// for cancellations, and takes what is ready, in one call. What does not fit into the queue waits for the
// turn after that. Nothing is dropped for want of room.

#pragma once

#include "driver/buffer_slots.hpp"
#include "driver/choose.hpp"
#include "driver/engine.hpp"
#include "driver/poll_events.hpp"
#include "driver/uring/slots.hpp"
#include "sys/calls.hpp"
#include "sys/kernel_abi.hpp"
#include "sys/sanitizer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <concepts>
#include <cstdint>

namespace unio::inline v0_1::driver {

static_assert(flag_more == IORING_CQE_F_MORE);

/// What a client asks of a kernel. `ring` says what each means.
template <class K>
concept ring_kernel = requires(K& k, K const& is, io_operation& op, io_uring_sqe& sqe) {
  { k.get() } -> std::same_as<io_uring_sqe*>;
  k.put_back();
  { is.unsubmitted() } -> std::convertible_to<std::size_t>;
  { k.enter(1u, std::int64_t{}) } -> std::same_as<int>; // 0 or -errno
  { k.submit() } -> std::same_as<int>;                  // 0 or -errno
  { is.needs_enter() } -> std::same_as<bool>;
  { is.has_more() } -> std::same_as<bool>;
  { is.has_overflown() } -> std::same_as<bool>;
  { is.has_left() } -> std::same_as<bool>;
  { is.has_news() } -> std::same_as<bool>; // another thread asks, while the ring's own is away
  { is.entries() } -> std::convertible_to<std::size_t>;
  // Whether it may be performing that one while no thread is inside of it.
  { is.outlasts_entering(op) } -> std::same_as<bool>;
  { k.peek()->user_data } -> std::convertible_to<std::uint64_t>;
  { k.peek()->res } -> std::convertible_to<int>;
  { k.peek()->flags } -> std::convertible_to<unsigned>;
  k.advance();
  { k.prepare(op, sqe) } -> std::same_as<bool>;      // false: it cannot perform this one
  { k.slots_of(op) } -> std::same_as<buffer_slots*>; // of which it chooses what it reads into for this one
  k.pause();                                         // a moment, in which memory may come back
};

/// The kernel is short of memory, or of room for completions: it passes.
constexpr bool is_shortage(int error) noexcept {
  return error == -EAGAIN || error == -EBUSY || error == -ENOMEM;
}

template <ring_kernel Kernel> class ring_client : public backend {
 public:
  template <class... Arguments>
  explicit ring_client(int doorbell_fd, Arguments&... arguments) noexcept
      : backend(doorbell_fd), kernel_(arguments...) {}

  void arm(engine& e, io_operation& op, attempted how) noexcept override {
    // Given to a worker at once and not in reap(), before which the turn looks for what workers bring.
    if (op.links.is.wants == readiness::worker && !kernel_.may_take(op)) [[unlikely]]
      return e.await_what_it_wants(op, readiness::worker);
    if (how == attempted::with_others) [[unlikely]] {
      move(op, place::to_try);
      untried_waits_ = true;
    } else {
      move(op, place::to_submit);
    }
    to_submit_.push_as<queue_name::to_submit>(op);
    if (fills_queue()) [[unlikely]]
      submit_if_held(e);
  }

  void park(engine&, io_operation& op) noexcept override {
    move(op, place::to_poll);
    to_submit_.push(op);
  }

  bool disarm(engine&, io_operation& op) noexcept override {
    if (to_submit_.contains(op)) {
      to_submit_.remove(op);
      return true;
    }
    ask_to_end(op);
    return false;
  }

  bool release(io_operation& op) noexcept override;
  [[nodiscard]] bool has_unsubmitted() const noexcept override { return !to_submit_.empty(); }
  [[nodiscard]] bool has_news() const noexcept override { return kernel_.has_news(); }

  int reap(engine& e, std::int64_t until) noexcept override {
    if (stale_count_ != 0 || !doorbell_armed_ || !to_cancel_.empty()) [[unlikely]]
      submit_requests(e);
    submit_operations(e);
    bool const may_sleep = until != 0;
    bool sleeps = may_sleep && doorbell_armed_ && to_submit_.empty() && to_cancel_.empty() &&
                  !completions_waiting() && !e.before_sleep();
    // Operations that prepare() refused may have completed; their results are with the engine.
    if (sleeps && e.has_ready()) {
      e.after_sleep();
      sleeps = false;
    }
    // And one that is to be tried again has its moment only since it was prepared.
    until = sleeps ? e.sleeps_until(until) : 0;
    int error = 0;
    if (sleeps || kernel_.unsubmitted() != 0 || kernel_.needs_enter()) {
      std::int64_t const timeout = !sleeps ? 0
                                   : until == deadline::forever
                                       ? -1
                                       : std::max<std::int64_t>(0, until - sys::steady_now());
      ++e.statistics.turns;
      if (kernel_.has_overflown()) ++e.statistics.overflows;
      error = kernel_.enter(sleeps ? 1 : 0, timeout);
    }
    if (sleeps) e.after_sleep();
    if (!take_simple_completions(e)) [[unlikely]]
      take_completions(e);
    // A call brings some twenty completions, the kernel's bound where it is not asked to wait for more.
    if (error == 0) [[likely]]
      return kernel_.has_more() && !completions_waiting() ? 1 : 0;
    if (means_unavailable(error) && completions_waiting()) return 0; // what is known is delivered first
    if (!is_shortage(error)) return error;
    // The next turn goes on: what was short of room for completions has it now, and memory may come back.
    if (may_sleep && !e.has_ready()) kernel_.pause();
    return 0;
  }

  [[nodiscard]] bool is_told(engine&) noexcept override {
    return doorbell_armed_ && to_cancel_.empty() && to_submit_.empty() && stale_count_ == 0 &&
           kernel_.unsubmitted() == 0 && !completions_waiting();
  }

  void submit(engine& e) noexcept override {
    submit_stale(e);
    submit_cancels(e);
    submit_operations(e);
    if (kernel_.unsubmitted() == 0) return;
    ++e.statistics.turns;
    (void)kernel_.submit(); // what it says now it says again in reap()
  }

  int look_at(engine& e, io_operation& op) noexcept override;

  [[nodiscard]] bool take_known(engine& e) noexcept override {
    if (!completions_waiting()) return false;
    take_completions(e);
    return true;
  }

 protected:
  [[nodiscard]] static bool is_queued(io_operation const& op) noexcept {
    return op.links.is.queue != queue_name::none;
  }
  [[nodiscard]] static bool is_to_end(io_operation const& op) noexcept {
    return op.links.is.cancel_wanted || op.links.is.timed_out;
  }

  /// The kernel does not know it any more, whatever it may still say of it.
  void take_back(io_operation& op) noexcept {
    free_slot(op);
    sys::kernel_gives_back(&op);
  }

  bool completions_waiting() noexcept { return kernel_.peek() != nullptr; }

  /// Of operations that the kernel has performed, that are not asked to end, and have no other value: the
  /// common case of completed(). False: another one is next.
  bool take_simple_completions(engine& e) noexcept {
    while (auto const* const cqe = kernel_.peek()) {
      io_operation* const op = slots_.find(cqe->user_data); // no slot has the other tags' numbers
      int const res = cqe->res;
      if (op == nullptr || !has_simply_ended(*op, res, cqe->flags)) return false;
      kernel_.advance();
      ++e.statistics.completions;
      sys::kernel_gives_back(op);
      free_slot(*op);
      e.performed(*op, res);
    }
    return true;
  }

  /// Of all (completions.hpp).
  [[gnu::noinline]] void take_completions(engine& e) noexcept;

  Kernel kernel_;
  slot_table slots_;
  operation_queue to_submit_{queue_name::to_submit};
  operation_queue to_cancel_{queue_name::to_cancel};
  bool multishot_ = true; // until the kernel says otherwise

 private:
  // Slots never reach these numbers.
  static constexpr std::uint64_t doorbell_tag = ~std::uint64_t{0};
  static constexpr std::uint64_t cancel_tag = ~std::uint64_t{0} - 1;

  [[nodiscard]] bool fills_queue() const noexcept {
    return static_cast<unsigned>(to_submit_.size()) >= kernel_.entries();
  }
  // Out of line: arm() needs no registers then.
  [[gnu::cold, gnu::noinline]] void submit_if_held(engine& e) noexcept {
    if (e.holds_starts()) submit(e);
  }

  void free_slot(io_operation& op) noexcept {
    slots_.give_back(op.links.slot);
    move(op, place::at_hand);
  }

  void ask_to_end(io_operation& op) noexcept {
    if (!is_queued(op)) to_cancel_.push(op);
  }

  void submit_operations(engine& e) noexcept {
    if (!to_submit_.empty()) return submit_waiting_operations(e);
    untried_waits_ = false;
  }
  [[gnu::noinline]] void submit_waiting_operations(engine& e) noexcept {
    // What comes back into the queue during this (an operation that is no ring's waits for readiness) is for
    // this turn too.
    while (io_operation* const op = to_submit_.first()) {
      io_uring_sqe* const sqe = kernel_.get();
      if (sqe == nullptr) return;
      (void)to_submit_.pop_first();
      place goes_to = place::in_kernel;
      if (op->links.is.where == place::to_poll) {
        goes_to = place::polled;
        sqe->opcode = IORING_OP_POLL_ADD;
        sqe->fd = op->fd();
        sqe->poll32_events = ring_poll_events(op->links.is.wants);
      } else if ((op->is_multishot() && !multishot_) ||
                 (!op->faces().is_simple && op->faces().waits_in_line && e.is_one_of_several()) ||
                 !kernel_.prepare(*op, *sqe)) {
        kernel_.put_back();
        move(*op, place::at_hand);
        without_ring(e, *op);
        continue;
      }
      std::uint64_t const name = slots_.take(*op);
      if (name == slot_table::none) {
        kernel_.put_back();
        move(*op, place::at_hand);
        e.process(*op, -ENOMEM, 0);
        continue;
      }
      op->links.slot = static_cast<std::uint32_t>(name);
      move(*op, goes_to);
      sqe->user_data = name;
      if (op->links.is.wants == readiness::worker) ++e.statistics.kernel_jobs;
      sys::kernel_takes(op);
      ++e.statistics.submissions;
    }
    untried_waits_ = false;
  }

  static bool goes_on(unsigned flags) noexcept { return (flags & IORING_CQE_F_MORE) != 0; }

  static bool has_simply_ended(io_operation const& op, int res, unsigned flags) noexcept {
    return op.faces().is_simple && !op.is_multishot() && op.links.is.where == place::in_kernel && res >= 0 &&
           flags == 0 && !is_queued(op);
  }

  // completions.hpp
  [[gnu::noinline]] void without_ring(engine& e, io_operation& op) noexcept;
  void arrived(engine& e, io_operation& op, int res, unsigned flags) noexcept;
  void completed(engine& e, io_operation& op, int res, unsigned flags) noexcept;
  static bool needs_kernel_thread(io_operation const& op) noexcept;
  static bool keeps_arrivals(io_operation const& op) noexcept;
  static bool comes_back(engine const& e, io_operation const& op, int res, unsigned flags) noexcept;

  // requests.hpp
  [[gnu::noinline]] void submit_requests(engine& e) noexcept;
  void arm_doorbell() noexcept;
  void submit_cancels(engine& e) noexcept;
  void submit_stale(engine& e) noexcept;
  static void ask_to_forget(io_uring_sqe& sqe, std::uint64_t tag) noexcept;

  std::array<std::uint64_t, 128> stale_; // tags of what the kernel is to forget: another thread has it now
  unsigned stale_count_ = 0;
  bool doorbell_armed_ = false;
  bool untried_waits_ = false; // one may be in to_submit_ that was not tried: its turn must come soon
  bool is_multishot_ = false;
};

} // namespace unio::driver

#include "driver/uring/completions.hpp"
#include "driver/uring/requests.hpp"
