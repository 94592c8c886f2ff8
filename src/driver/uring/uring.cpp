// The backend on io_uring.
//
//   start() ──► to_submit ──(next turn)──► ring ──► kernel ──► completion ──► engine::process
//                   ▲                                               │
//                   └──────── readiness only (POLL_ADD) ◄── -EAGAIN ┘
//
// Nothing is told to the kernel before the next turn, which submits all that was started since the last one,
// asks for cancellations, and takes what is ready, in one io_uring_enter. What does not fit into the
// submission queue waits for the turn after that; nothing is ever dropped for want of room.

#include "driver/uring/uring.hpp"

#include "driver/choose.hpp"
#include "driver/engine.hpp"
#include "driver/poll_events.hpp"
#include "driver/uring/ring.hpp"
#include "driver/uring/slots.hpp"
#include "sys/descriptors.hpp"
#include "sys/kernel_abi.hpp"
#include "sys/sanitizer.hpp"
#include "sys/sigpipe.hpp"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cerrno>
#include <ctime>
#include <utility>

namespace unio::driver {
namespace {

static_assert(flag_more == IORING_CQE_F_MORE);

// Slots never reach these numbers.
constexpr std::uint64_t doorbell_tag = ~std::uint64_t{0};
constexpr std::uint64_t cancel_tag = ~std::uint64_t{0} - 1;

// The kernel is short of memory, or of room for completions: it passes.
bool is_shortage(int error) noexcept { return error == -EAGAIN || error == -EBUSY || error == -ENOMEM; }

void pause() noexcept {
  constexpr timespec a_millisecond{.tv_sec = 0, .tv_nsec = 1'000'000};
  sys::poll(nullptr, 0, &a_millisecond);
}

class uring_backend final : public backend {
 public:
  explicit uring_backend(int doorbell_fd) noexcept : backend(doorbell_fd) {}

  int open(unsigned entries) noexcept {
    if (int const e = ring_.open(entries); e != 0) return e;
    probe();
    return 0;
  }

  int bind(engine&) noexcept override { return ring_.enable(); }

  void arm(engine&, io_operation& op, attempted how) noexcept override {
    bool const untried = how == attempted::with_others;
    move(op, untried ? place::to_try : place::to_submit);
    untried_waits_ = untried_waits_ || untried;
    to_submit_.push(op);
  }

  // Where the kernel is entered for others anyway, going with them costs no call. A send rarely blocks. A
  // receive goes with them while others are ready: all of them take the same way then, whatever was learnt of
  // their descriptors.
  bool prefers_batch(engine& e, io_operation const& op) noexcept override {
    direction const flow = op.faces().flow;
    return flow != direction::either && (e.has_company() || (flow == direction::out && !to_submit_.empty()));
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

  int reap(engine& e, std::int64_t until) noexcept override {
    arm_doorbell(); // first: without it nobody could wake us, so that this must not sleep
    submit_cancels(e);
    submit_operations(e);
    bool const may_sleep = until != 0;
    bool sleeps = may_sleep && doorbell_armed_ && to_submit_.empty() && to_cancel_.empty() &&
                  !completions_waiting() && !e.before_sleep();
    // Operations that prepare() refused may have completed meanwhile; their results are with the engine.
    if (sleeps && e.has_ready()) {
      e.after_sleep();
      sleeps = false;
    }
    // And one that is to be tried again has its moment only since it was prepared.
    until = std::min(until, e.next_due());
    int error = 0;
    if (sleeps || ring_.unsubmitted() != 0 || ring_.needs_enter()) {
      std::int64_t const timeout = !sleeps                      ? 0
                                   : until == deadline::forever ? -1
                                                                : std::max<std::int64_t>(0, until - now());
      ++e.statistics.turns;
      if (ring_.has_overflown()) ++e.statistics.overflows;
      error = ring_.enter(sleeps ? 1 : 0, timeout);
    }
    if (sleeps) e.after_sleep();
    take_completions(e);
    if (means_unavailable(error) && completions_waiting()) return 0; // what is known is delivered first
    if (error != 0 && !is_shortage(error)) return error;
    // A call brings some twenty completions, the kernel's bound where it is not asked to wait for more.
    if (error == 0) return ring_.has_more() && !completions_waiting() ? 1 : 0;
    // The next turn goes on: what was short of room for completions has it now, and memory may come back.
    if (may_sleep && !e.has_ready()) pause();
    return 0;
  }

  void submit(engine& e) noexcept override {
    submit_cancels(e);
    submit_operations(e);
    if (ring_.unsubmitted() == 0) return;
    ++e.statistics.turns;
    (void)ring_.enter(0, 0); // what it says now it says again in reap()
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
      readiness const wants = op.faces().wants(op);
      bool const can_wait = wants == readiness::readable || wants == readiness::writable;
      if (can_wait && !untried_waits_) return 0;
    }
    return std::min(0, reap(e, 0));
  }

  void describe(capabilities& c) const noexcept override {
    c.driver = "io_uring";
    c.ring_entries = ring_.entries();
    c.single_issuer = ring_.has(IORING_SETUP_SINGLE_ISSUER);
    c.defer_taskrun = ring_.has(IORING_SETUP_DEFER_TASKRUN);
    c.no_sqarray = ring_.has(sys::setup_no_sqarray);
    c.registered_ring = ring_.is_registered();
    c.no_iowait = ring_.has_no_iowait();
    c.multishot_accept = multishot_;
    c.zero_copy_send = supported_[sys::op_send_zero_copy];
    c.pipe_write_without_signal = sys::has_rwf_nosignal();
  }

  [[nodiscard]] bool is_ring() const noexcept override { return true; }

  void leave(engine&) noexcept override {
    left_ = true;
    while (to_submit_.pop() != nullptr) {
    }
    while (to_cancel_.pop() != nullptr) {
    }
    ring_.for_each_unsubmitted([this](std::uint64_t tag) {
      if (io_operation* const op = slots_.find(tag)) take_back(*op);
    });
    // Of what is performed only when this thread enters, all is known that was done, unless the kernel still
    // keeps completions. What only waits for readiness does nothing.
    bool const all_known = !ring_.has_overflown();
    slots_.for_each([&](io_operation& op) {
      if (op.links.is.where == place::polled || (all_known && !outlasts_entering(op))) take_back(op);
    });
    ring_.leave();
  }

  bool has_left(engine& e) noexcept override {
    if (!ring_.has_ended()) return false;
    take_completions(e);
    bool receivers_first = completions_waiting();
    slots_.for_each([&](io_operation& op) {
      // It may have been done, or not.
      bool const is_known = op.completed() && !op.is_multishot();
      if (receivers_first || (engine::has_undelivered(op) && !is_known)) {
        receivers_first = true;
        return;
      }
      take_back(op);
      e.process(op, is_known ? 0 : -ENOTRECOVERABLE, is_known ? IORING_CQE_F_NOTIF : 0);
    });
    return !receivers_first;
  }

 private:
  void take_back(io_operation& op) noexcept {
    slots_.give_back(op.links.slot);
    move(op, place::at_hand);
    sys::kernel_gives_back(&op);
  }

  // Whether the kernel may be performing it while nobody enters the ring: a thread of the kernel's does, or
  // its memory is with a device or the network. Without deferred task work that is so of all.
  [[nodiscard]] bool outlasts_entering(io_operation const& op) const noexcept {
    if (!ring_.has(IORING_SETUP_DEFER_TASKRUN)) return true;
    return op.faces().lends_buffers || op.faces().wants(op) == readiness::worker;
  }

  void probe() noexcept {
    alignas(io_uring_probe) std::byte storage[sizeof(io_uring_probe) + 256 * sizeof(io_uring_probe_op)]{};
    if (sys::io_uring_register(ring_.fd(), IORING_REGISTER_PROBE, storage, 256) < 0) return;
    auto const& p = *reinterpret_cast<io_uring_probe const*>(storage);
    for (unsigned i = 0; i <= p.last_op; ++i) supported_[i] = (p.ops[i].flags & IO_URING_OP_SUPPORTED) != 0;
  }

  // The doorbell is a multishot poll on an eventfd. It ends when the completion queue overflows, and has to
  // be armed again.
  void arm_doorbell() noexcept {
    if (doorbell_armed_) return;
    io_uring_sqe* const sqe = ring_.get();
    if (sqe == nullptr) return;
    sqe->opcode = IORING_OP_POLL_ADD;
    sqe->fd = doorbell_fd();
    sqe->poll32_events = POLLIN;
    sqe->len = IORING_POLL_ADD_MULTI;
    sqe->user_data = doorbell_tag;
    doorbell_armed_ = true;
  }

  void ask_to_end(io_operation& op) noexcept {
    if (op.links.is.queue == 0) to_cancel_.push(op);
  }

  void submit_cancels(engine& e) noexcept {
    while (io_operation* const op = to_cancel_.first()) {
      io_uring_sqe* const sqe = ring_.get();
      if (sqe == nullptr) return; // never dropped: the next turn has room
      to_cancel_.remove(*op);
      sqe->opcode = IORING_OP_ASYNC_CANCEL;
      sqe->fd = -1;
      sqe->addr = slots_.user_data(op->links.slot);
      sqe->user_data = cancel_tag;
      ++e.statistics.submissions;
    }
  }

  void submit_operations(engine& e) noexcept {
    // What comes back into the queue meanwhile (an operation that is no ring's waits for readiness) is for
    // this turn too.
    while (io_operation* const op = to_submit_.first()) {
      io_uring_sqe* const sqe = ring_.get();
      if (sqe == nullptr) return;
      to_submit_.remove(*op);
      bool const polls = op->links.is.where == place::to_poll;
      if (polls) {
        sqe->opcode = IORING_OP_POLL_ADD;
        sqe->fd = op->fd();
        sqe->poll32_events = ring_poll_events(op->faces().wants(*op));
      } else if (!prepare(*op, *sqe)) {
        ring_.put_back();
        move(*op, place::at_hand);
        without_ring(e, *op);
        continue;
      }
      std::uint32_t const slot = slots_.take(*op);
      if (slot == slot_table::none) {
        ring_.put_back();
        move(*op, place::at_hand);
        e.process(*op, -ENOMEM, 0);
        continue;
      }
      op->links.slot = slot;
      move(*op, polls ? place::polled : place::in_kernel);
      sqe->user_data = slots_.user_data(slot);
      sys::kernel_takes(op);
      ++e.statistics.submissions;
    }
    untried_waits_ = false;
  }

  bool prepare(io_operation& op, io_uring_sqe& sqe) noexcept {
    if (op.is_multishot() && !multishot_) return false;
    // A kernel with single-issuer rings (6.0) can be told not to try first (5.19).
    bool const will_wait = op.links.is.where != place::to_try && ring_.has(IORING_SETUP_SINGLE_ISSUER);
    if (op.faces().prepare == nullptr || !op.faces().prepare(op, sqe, will_wait)) return false;
    if (!supported_[sqe.opcode]) return false;
    if (outlasts_entering(op) && ring_.prepare_end() != 0) return false;
    return true;
  }

  void without_ring(engine& e, io_operation& op) noexcept {
    readiness const wants = op.faces().wants(op);
    bool const may_try =
        wants == readiness::readable || wants == readiness::writable || wants == readiness::retry;
    bool const untried = op.faces().tries == inline_attempt::never || wants == readiness::retry ||
                         (untried_waits_ && op.faces().flow == direction::out);
    if (may_try && untried && e.perform_now(op)) return;
    if (may_try && op.is_multishot() && e.perform_now(op)) return;
    e.await_readiness(op);
  }

  bool completions_waiting() noexcept { return ring_.peek() != nullptr; }

  void take_completions(engine& e) noexcept {
    while (io_uring_cqe* const cqe = ring_.peek()) {
      std::uint64_t const tag = cqe->user_data;
      int const res = cqe->res;
      unsigned const flags = cqe->flags;
      if (tag != cancel_tag && tag != doorbell_tag) {
        io_operation* const op = slots_.find(tag);
        // A second value on top of one that was not delivered yet: the receiver comes first.
        if (op != nullptr && engine::has_undelivered(*op) && (flags & IORING_CQE_F_NOTIF) == 0) return;
        ring_.advance();
        ++e.statistics.completions;
        if (op == nullptr) {
          ++e.statistics.late_completions;
        } else {
          sys::kernel_gives_back(op);
          completed(e, *op, res, flags);
        }
        continue;
      }
      ring_.advance();
      if (tag == doorbell_tag && (flags & IORING_CQE_F_MORE) == 0) doorbell_armed_ = false;
    }
  }

  // Nobody asked for it: the kernel gives up what it could not get a thread for, as while signals keep coming
  // (io_uring/io-wq.c, WORKER_INIT_LIMIT). It was not begun.
  static bool needs_kernel_thread(io_operation const& op) noexcept {
    readiness const wants = op.faces().wants(op);
    return wants == readiness::worker || wants == readiness::nothing;
  }

  void completed(engine& e, io_operation& op, int res, unsigned flags) noexcept {
    operation_links& l = op.links;
    // An operation is in one queue: one that has a value to deliver asks for its end again after that
    // (engine::after_value).
    bool const was_to_end = to_cancel_.contains(op);
    if (was_to_end) to_cancel_.remove(op);
    bool const performed = what_follows(l.is.where, event::completion) == reaction::decode;
    if ((flags & IORING_CQE_F_MORE) == 0) {
      slots_.give_back(l.slot);
      move(op, place::at_hand);
    }
    if (performed) {
      if (res == -EINVAL && op.is_multishot() && multishot_ && !is_multishot_) {
        // A kernel that knows the operation, but only for one value at a time.
        multishot_ = false;
        return without_ring(e, op);
      }
      if (res >= 0 && op.is_multishot()) is_multishot_ = true;
      bool const unasked = !l.is.cancel_wanted && !l.is.timed_out;
      if (left_ && unasked && res == -ECANCELED) { // the ring's end came before it was begun
        if ((flags & IORING_CQE_F_MORE) != 0) return e.process(op, -EAGAIN, flags);
        return e.arm_again(op);
      }
      if (left_ && unasked && res == -EINTR) res = -ENOTRECOVERABLE; // the ring's end interrupted it
      if (res == -ECANCELED && unasked && needs_kernel_thread(op)) return e.await_readiness(op);
      e.process(op, res, flags);
      if (was_to_end && (flags & IORING_CQE_F_MORE) != 0 && !engine::has_undelivered(op)) ask_to_end(op);
      return;
    }
    if (res < 0) return e.process(op, res, 0);
    if (l.is.cancel_wanted || l.is.timed_out) {
      if (e.perform_now(op)) return;
      return e.process(op, -ECANCELED, 0);
    }
    if (!e.perform_now(op)) e.await_readiness(op);
  }

  ring ring_;
  slot_table slots_;
  operation_queue to_submit_{queue_name::to_submit};
  operation_queue to_cancel_{queue_name::to_cancel};
  std::bitset<256> supported_;
  bool doorbell_armed_ = false;
  bool untried_waits_ = false; // one may be in to_submit_ that was not tried: its turn must come soon
  bool multishot_ = true;      // until the kernel says otherwise
  bool is_multishot_ = false;
  bool left_ = false;
};

// Setting a ring up may be allowed and entering it not (a seccomp filter), so this enters one, which it then
// throws away.
int try_to_enter() noexcept {
  ring r;
  if (int const e = r.open(1); e != 0) return e;
  if (int const e = r.enable(); e != 0) return e;
  io_uring_sqe* const sqe = r.get();
  sqe->opcode = IORING_OP_NOP;
  // A signal may come before the answer, and memory be short for a moment.
  constexpr int max_attempts = 100;
  int error = 0;
  for (int attempts = 0; attempts != max_attempts && r.peek() == nullptr; ++attempts) {
    if (error != 0) pause();
    error = r.enter(1, 10'000'000);
    if (error != 0 && !is_shortage(error)) return error;
  }
  return r.peek() != nullptr ? 0 : error != 0 ? error : -EOPNOTSUPP;
}

// Tried once per process; a passing shortage (of descriptors, of memory) is no answer.
int can_enter() noexcept {
  constexpr int unknown = 1;
  static std::atomic<int> known{unknown}; // relaxed: every thread finds the same
  int k = known.load(std::memory_order_relaxed);
  if (k != unknown) return k;
  k = try_to_enter();
  if (k == 0 || means_unavailable(k)) known.store(k, std::memory_order_relaxed);
  return k;
}

} // namespace

result<std::unique_ptr<backend>> make_uring(unsigned entries) noexcept {
  if (int const e = can_enter(); e != 0) return detail::to_error_code(e);
  int const doorbell_fd = sys::above_standard(sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (doorbell_fd < 0) return detail::to_error_code(doorbell_fd);
  std::unique_ptr<uring_backend> b(new (std::nothrow) uring_backend(doorbell_fd));
  if (b == nullptr) {
    sys::close(doorbell_fd);
    return std::make_error_code(std::errc::not_enough_memory);
  }
  if (int const e = b->open(entries); e != 0) return detail::to_error_code(e);
  return std::unique_ptr<backend>(std::move(b));
}

} // namespace unio::driver
