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

  bool release(io_operation& op) noexcept override {
    if (to_submit_.contains(op)) {
      to_submit_.remove(op);
      move(op, place::at_hand);
      return true;
    }
    // The kernel is to forget it before it does anything else for this ring. So all that it has to be told
    // must fit into the queue.
    bool const waits = op.links.submitted() && !is_queued(op) && !kernel_.outlasts_entering(op);
    if (!waits || kernel_.unsubmitted() != 0 || completions_waiting() || kernel_.has_overflown() ||
        stale_count_ == std::min<std::size_t>(stale_.size(), kernel_.entries()))
      return false;
    stale_[stale_count_++] = slots_.user_data(op.links.slot);
    take_back(op);
    return true;
  }
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

  int look_at(engine& e, io_operation& op) noexcept override {
    // Described but not submitted: it may still be done without the ring, and if an attempt costs no more
    // than asking the ring would, now or at the next look.
    if (to_submit_.contains(op) && op.faces().tries != inline_attempt::never) {
      to_submit_.remove(op);
      place const where = op.links.is.where;
      move(op, place::at_hand);
      if (e.perform_now(op)) return 0;
      move(op, where);
      to_submit_.push(op);
      readiness const wants = op.links.is.wants = op.faces().wants(op);
      bool const can_wait = wants == readiness::readable || wants == readiness::writable;
      if (can_wait && !untried_waits_) return 0;
    }
    return std::min(0, ring_client::reap(e, 0));
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

  [[gnu::noinline]] void take_completions(engine& e) noexcept {
    while (!take_simple_completions(e)) {
      auto const* const cqe = kernel_.peek();
      std::uint64_t const tag = cqe->user_data;
      int const res = cqe->res;
      unsigned const flags = cqe->flags;
      if (tag != cancel_tag && tag != doorbell_tag) {
        io_operation* const op = slots_.find(tag);
        if (op != nullptr && keeps_arrivals(*op)) {
          kernel_.advance();
          ++e.statistics.completions;
          sys::kernel_gives_back(op);
          arrived(e, *op, res, flags);
          continue;
        }
        // A second value on top of one that was not delivered yet: the receiver comes first.
        bool const waits = op != nullptr && engine::has_undelivered(*op) && (flags & IORING_CQE_F_NOTIF) == 0;
        if (waits && !comes_back(e, *op, res, flags)) return;
        kernel_.advance();
        ++e.statistics.completions;
        if (op == nullptr) {
          ++e.statistics.late_completions;
        } else {
          sys::kernel_gives_back(op);
          completed(e, *op, res, flags);
        }
        continue;
      }
      kernel_.advance();
      if (tag == doorbell_tag && !goes_on(flags)) doorbell_armed_ = false;
    }
  }

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

  // The doorbell is a multishot poll on an eventfd. It ends when the completion queue overflows, and has to
  // be armed again.
  void arm_doorbell() noexcept {
    if (doorbell_armed_) return;
    io_uring_sqe* const sqe = kernel_.get();
    if (sqe == nullptr) return;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = doorbell_fd();
    sqe->poll32_events = POLLIN;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->user_data = doorbell_tag;
    doorbell_armed_ = true;
  }

  // The doorbell comes first: without it no other thread could wake this one, which must not sleep then.
  [[gnu::noinline]] void submit_requests(engine& e) noexcept {
    submit_stale(e);
    arm_doorbell();
    submit_cancels(e);
  }

  void ask_to_end(io_operation& op) noexcept {
    if (!is_queued(op)) to_cancel_.push(op);
  }

  // First of all that the kernel learns, in a call of its own: to register memory may bring completions on.
  void submit_stale(engine& e) noexcept {
    if (stale_count_ == 0) [[likely]]
      return;
    while (stale_count_ != 0) {
      io_uring_sqe* const sqe = kernel_.get(); // there is room: see release()
      if (sqe == nullptr) return;
      ask_to_forget(*sqe, stale_[--stale_count_]);
      ++e.statistics.submissions;
    }
    (void)kernel_.submit(); // what it does not take now comes first in the next call
  }

  static void ask_to_forget(io_uring_sqe& sqe, std::uint64_t tag) noexcept {
    sqe.opcode = IORING_OP_ASYNC_CANCEL;
    sqe.fd = -1;
    sqe.addr = tag;
    sqe.user_data = cancel_tag;
  }

  void submit_cancels(engine& e) noexcept {
    while (io_operation* const op = to_cancel_.first()) {
      io_uring_sqe* const sqe = kernel_.get();
      if (sqe == nullptr) return; // never dropped: the next turn has room
      to_cancel_.remove(*op);
      ask_to_forget(*sqe, slots_.user_data(op->links.slot));
      ++e.statistics.submissions;
    }
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
                 (op->faces().waits_in_line && e.is_one_of_several()) || !kernel_.prepare(*op, *sqe)) {
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

  [[gnu::noinline]] void without_ring(engine& e, io_operation& op) noexcept {
    readiness const wants = op.links.is.wants;
    bool const may_try =
        wants == readiness::readable || wants == readiness::writable || wants == readiness::retry;
    bool const untried = op.faces().tries == inline_attempt::never || wants == readiness::retry ||
                         (untried_waits_ && op.faces().flow == direction::out);
    if (may_try && untried && e.perform_now(op)) return;
    if (may_try && op.is_multishot() && e.perform_now(op)) return;
    e.await_readiness(op);
  }

  static bool goes_on(unsigned flags) noexcept { return (flags & IORING_CQE_F_MORE) != 0; }

  static bool has_simply_ended(io_operation const& op, int res, unsigned flags) noexcept {
    return op.faces().is_simple && !op.is_multishot() && op.links.is.where == place::in_kernel && res >= 0 &&
           flags == 0 && !is_queued(op);
  }

  // A cancel that was not asked for: the kernel got no thread for it, as while signals keep coming
  // (io_uring/io-wq.c, WORKER_INIT_LIMIT). It was not begun.
  static bool needs_kernel_thread(io_operation const& op) noexcept {
    readiness const wants = op.links.is.wants;
    return wants == readiness::worker || wants == readiness::nothing;
  }

  // The kernel chooses what it reads into.
  static bool keeps_arrivals(io_operation const& op) noexcept {
    auto const* const from = op.faces().resource;
    return from != nullptr && from->arrived != nullptr && op.links.is.where == place::in_kernel;
  }

  // It was asked for, because the thread ends, and the kernel has not done it.
  static bool comes_back(engine const& e, io_operation const& op, int res, unsigned flags) noexcept {
    return e.gives_away() && !goes_on(flags) && (res == -ECANCELED || res == -EINTR) && !is_to_end(op);
  }

  // It has read, or come to the end; or it does not go on, for want of a buffer, say.
  void arrived(engine& e, io_operation& op, int res, unsigned flags) noexcept {
    bool const was_to_end = to_cancel_.contains(op);
    if (was_to_end) to_cancel_.remove(op);
    bool const has_buffer = (flags & IORING_CQE_F_BUFFER) != 0;
    op.faces().resource->arrived(op, has_buffer ? kernel_.slots_of(op) : nullptr,
                                 flags >> IORING_CQE_BUFFER_SHIFT, res);
    bool const more = goes_on(flags);
    if (!more) free_slot(op);
    if (engine::has_undelivered(op)) {
      if (!more) move(op, place::yielded);
    } else if (more) {
      if (op.faces().resource->has_arrived(op)) e.bring(op);
      if (was_to_end && !engine::has_undelivered(op)) ask_to_end(op);
    } else if (is_to_end(op)) {
      e.process(op, -ECANCELED, 0);
    } else if (!e.perform_now(op)) {
      e.await_readiness(op);
    }
  }

  void completed(engine& e, io_operation& op, int res, unsigned flags) noexcept {
    // An operation is in one queue: one that has a value to deliver asks for its end again after that
    // (engine::after_value).
    bool const was_to_end = to_cancel_.contains(op);
    if (was_to_end) to_cancel_.remove(op);
    bool const performed = what_follows(op.links.is.where, trigger::completion) == reaction::decode;
    if (!goes_on(flags)) free_slot(op);
    if (comes_back(e, op, res, flags)) [[unlikely]]
      return e.came_back(op);
    if (performed) {
      if (op.is_multishot()) {
        if (res == -EINVAL && multishot_ && !is_multishot_) {
          // A kernel that knows the operation, but only for one value at a time.
          multishot_ = false;
          return is_to_end(op) ? e.process(op, -ECANCELED, 0) : without_ring(e, op);
        }
        is_multishot_ = is_multishot_ || res >= 0;
      }
      if (bool const unasked = res < 0 && !is_to_end(op); unasked) {
        // The ring's end came before it was begun, or interrupted it.
        if (kernel_.has_left() && res == -ECANCELED)
          return goes_on(flags) ? e.process(op, -EAGAIN, flags) : e.arm_again(op);
        if (kernel_.has_left() && res == -EINTR) res = -ENOTRECOVERABLE;
        if (res == -ECANCELED && needs_kernel_thread(op)) return e.await_readiness(op);
      }
      e.process(op, res, flags);
      if (was_to_end && goes_on(flags) && !engine::has_undelivered(op)) ask_to_end(op);
      return;
    }
    if (res < 0) return e.process(op, res, 0);
    if (is_to_end(op)) {
      if (e.perform_now(op)) return;
      return e.process(op, -ECANCELED, 0);
    }
    if (!e.perform_now(op)) e.await_readiness(op);
  }

  std::array<std::uint64_t, 128> stale_; // tags of what the kernel is to forget: another thread has it now
  unsigned stale_count_ = 0;
  bool doorbell_armed_ = false;
  bool untried_waits_ = false; // one may be in to_submit_ that was not tried: its turn must come soon
  bool is_multishot_ = false;
};

} // namespace unio::driver
