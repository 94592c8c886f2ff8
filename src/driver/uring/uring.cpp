// The backend on io_uring: what of it is the kernel's alone. client.hpp has the rest.

#include "driver/uring/uring.hpp"

#include "driver/registered_memory.hpp"
#include "driver/uring/choosing.hpp"
#include "driver/uring/client.hpp"
#include "driver/uring/news.hpp"
#include "driver/uring/ring.hpp"
#include "sys/descriptors.hpp"
#include "sys/sigpipe.hpp"
#include "sys/threads.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>

namespace unio::inline v0_1::driver {
namespace {

// A ring that knows which operations are for it.
class uring_kernel : public ring {
 public:
  /// As ring::open().
  int open(unsigned entries) noexcept {
    if (int const e = ring::open(entries); e != 0) return e;
    alignas(io_uring_probe) std::byte storage[sizeof(io_uring_probe) + 256 * sizeof(io_uring_probe_op)]{};
    if (sys::io_uring_register(fd(), IORING_REGISTER_PROBE, storage, 256) < 0) return 0;
    auto const& p = *reinterpret_cast<io_uring_probe const*>(storage);
    for (unsigned i = 0; i <= p.last_op; ++i)
      if ((p.ops[i].flags & IO_URING_OP_SUPPORTED) != 0) entries_.add(static_cast<std::uint8_t>(i));
    return 0;
  }

  ~uring_kernel() {
    if (!is_inherited()) groups_.leave_all(!has_left());
  }

  [[nodiscard]] bool supports(std::uint8_t opcode) const noexcept { return entries_.has(opcode); }

  /// False: prepare() would say so too.
  static bool may_take(io_operation const& op) noexcept { return op.faces().prepare != nullptr; }
  bool prepare(io_operation& op, io_uring_sqe& sqe) noexcept {
    // A kernel with single-issuer rings (6.0) can be asked not to try first (5.19).
    bool const will_wait = op.links.is.where != place::to_try && has(IORING_SETUP_SINGLE_ISSUER);
    operation_faces const& f = op.faces();
    if (!f.is_simple) return prepare_with_care(op, sqe, will_wait);
    if (f.prepare == nullptr || !f.prepare(op, sqe, will_wait)) return false;
    bool const is_all = entries_.is_plain(sqe.opcode) && has(IORING_SETUP_DEFER_TASKRUN) &&
                        op.links.is.wants != readiness::worker;
    return is_all || finish_preparing(op, sqe);
  }

  /// Whether the kernel may be performing it while no thread enters the ring: a thread of the kernel's does,
  /// or its memory is with a device or the network. Without deferred task work that is so of all.
  [[nodiscard]] bool outlasts_entering(io_operation const& op) const noexcept {
    if (!has(IORING_SETUP_DEFER_TASKRUN)) return true;
    return op.faces().lends_buffers || op.links.is.wants == readiness::worker;
  }

  [[nodiscard]] buffer_slots* slots_of(io_operation& op) noexcept {
    return groups_.slots_of(*op.faces().resource->source(op));
  }

  void leave_slots() noexcept { groups_.leave_all(false); }

  [[nodiscard]] registered_memory& memory() noexcept { return memory_; }
  [[nodiscard]] registered_memory const& memory() const noexcept { return memory_; }

 private:
  [[gnu::noinline]] bool prepare_with_care(io_operation& op, io_uring_sqe& sqe, bool will_wait) noexcept {
    operation_faces const& f = op.faces();
    if (f.resource != nullptr && f.resource->source != nullptr && !prepare_to_choose()) return false;
    return f.prepare != nullptr && f.prepare(op, sqe, will_wait) && finish_preparing(op, sqe);
  }
  [[gnu::noinline]] bool finish_preparing(io_operation& op, io_uring_sqe& sqe) noexcept {
    if ((sqe.flags & IOSQE_BUFFER_SELECT) != 0 && !choose(op, sqe)) return false;
    if (!entries_.is_plain(sqe.opcode) && !use_registered(op, sqe)) return false;
    return !outlasts_entering(op) || prepare_end() == 0;
  }
  // Whatever it is: what has gone from the list is given up. False: the kernel does not know it.
  [[gnu::noinline]] bool use_registered(io_operation& op, io_uring_sqe& sqe) noexcept {
    if (!entries_.has(sqe.opcode)) return false;
    memory_.look();
    if (op.faces().use_registered != nullptr) op.faces().use_registered(sqe, memory_);
    return true;
  }

  // Only where nothing is read while no thread enters: then all that was read is known when the ring is given
  // up, and only its thread and the kernel, in turns, look at the slots.
  bool prepare_to_choose() noexcept {
    if (!may_choose_ || !has(IORING_SETUP_DEFER_TASKRUN)) return false;
    buffer_chooser const* const c = chooser.load(std::memory_order_relaxed);
    using answer = buffer_chooser::answer;
    answer const can = c != nullptr ? c->can() : answer::no;
    may_choose_ = can != answer::no;
    return can == answer::yes;
  }

  bool choose(io_operation& op, io_uring_sqe& sqe) noexcept {
    int const group = chooser.load(std::memory_order_relaxed)
                          ->find(groups_, fd(), *op.faces().resource->source(op), may_choose_);
    sqe.buf_group = static_cast<std::uint16_t>(group);
    return group != buffer_groups::none;
  }

  registered_memory memory_{memory_table_of(*this)};
  known_entries entries_;
  buffer_groups groups_;
  bool may_choose_ = true; // until it turns out that it cannot
};

// The kernel's threads, for what a ring cannot do at once, are the submitting thread's own (io_uring/tctx.c,
// since Linux 5.12). So rings of several threads cannot share them: IORING_SETUP_ATTACH_WQ is only looked at
// where the kernel polls (io_uring/sqpoll.c, io_sq_offload_create). Instead a ring takes a part of what the
// kernel would give to one, and n rings get about ln n times that, not n times. It has to be told: otherwise
// the first ring of a thread decides, which is that of one entry in can_enter(), with one kernel thread.
class share_of_workers {
 public:
  share_of_workers() = default;
  share_of_workers(share_of_workers const&) = delete;
  share_of_workers& operator=(share_of_workers const&) = delete;
  ~share_of_workers() {
    if (taken_) rings_.fetch_sub(1, std::memory_order_relaxed);
  }
  void take(ring& r) noexcept {
    unsigned const rings = rings_.fetch_add(1, std::memory_order_relaxed) + 1;
    taken_ = true;
    r.bound_workers(std::max(per_processor * sys::processors() / rings, fewest), for_others);
  }

 private:
  static constexpr unsigned per_processor = 4; // io_uring/tctx.c, io_init_wq_offload
  static constexpr unsigned fewest = 2;
  static constexpr unsigned for_others = 64; // what may wait for anything: otherwise thousands (liburing#420)
  static constinit std::atomic<unsigned> rings_; // relaxed: a number close to the truth is good enough
  bool taken_ = false;
};
constinit std::atomic<unsigned> share_of_workers::rings_{0};

class uring_backend final : public ring_client<uring_kernel> {
 public:
  explicit uring_backend(int doorbell_fd) noexcept : ring_client(doorbell_fd) {}

  int open(unsigned entries) noexcept { return kernel_.open(entries); }
  int bind(engine& e) noexcept override {
    kernel_.memory().count_in(e.statistics);
    if (int const error = kernel_.enable(); error != 0) return error;
    workers_.take(kernel_);
    return 0;
  }

  // Where the kernel is entered for others anyway, going with them costs no call. A send rarely blocks. A
  // receive goes with them while others are ready: all of them take the same way then, whatever was learnt of
  // their descriptors.
  bool prefers_batch(engine& e, io_operation const& op) noexcept override {
    direction const flow = op.faces().flow;
    if (flow == direction::either) return false;
    return e.has_company() || e.holds_starts() || (flow == direction::out && !to_submit_.empty());
  }

  [[gnu::cold]] void describe(capabilities& c) const noexcept override {
    c.driver = "io_uring";
    c.ring_entries = kernel_.entries();
    c.single_issuer = kernel_.has(IORING_SETUP_SINGLE_ISSUER);
    c.defer_taskrun = kernel_.has(IORING_SETUP_DEFER_TASKRUN);
    c.no_sqarray = kernel_.has(sys::setup_no_sqarray);
    c.registered_ring = kernel_.is_registered();
    c.no_iowait = kernel_.has_no_iowait();
    c.multishot_accept = multishot_;
    c.zero_copy_send = kernel_.supports(sys::op_send_zero_copy);
    c.pipe_write_without_signal = sys::has_rwf_nosignal();
    c.registered_bytes = kernel_.memory().bytes();
  }

  [[nodiscard]] bool is_ring() const noexcept override { return true; }

  [[nodiscard]] int wait_descriptor() noexcept override {
    return is_deferred() ? news_.descriptor(kernel_, doorbell_fd()) : kernel_.fd();
  }
  [[nodiscard]] bool is_told(engine& e) noexcept override {
    if (is_deferred() && !news_.renew(kernel_, doorbell_fd(), e.statistics.turns)) return false;
    return ring_client::is_told(e);
  }

  void leave_what_arrived() noexcept override { kernel_.leave_slots(); }

  [[gnu::cold]] void leave(engine&) noexcept override {
    while (to_submit_.pop() != nullptr) continue;
    while (to_cancel_.pop() != nullptr) continue;
    kernel_.for_each_unsubmitted([this](std::uint64_t tag) {
      if (io_operation* const op = slots_.find(tag)) take_back(*op);
    });
    // Of what is performed only when this thread enters, all is known that was done, unless the kernel still
    // keeps completions. What only waits for readiness does nothing.
    bool const all_known = !kernel_.has_overflown();
    slots_.for_each([&](io_operation& op) {
      if (op.links.is.where == place::polled || (all_known && !kernel_.outlasts_entering(op))) take_back(op);
    });
    kernel_.leave();
  }

  [[gnu::cold]] bool has_left(engine& e) noexcept override {
    if (!kernel_.has_ended()) return false;
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
  [[nodiscard]] bool is_deferred() const noexcept { return kernel_.has(IORING_SETUP_DEFER_TASKRUN); }

  share_of_workers workers_;
  ring_news news_;
};

// Setting a ring up may be allowed and entering it not (a seccomp filter), so this enters one, which it then
// throws away.
[[gnu::cold]] int try_to_enter() noexcept {
  ring r;
  if (int const e = r.open(1); e != 0) return e;
  if (int const e = r.enable(); e != 0) return e;
  io_uring_sqe* const sqe = r.get();
  sqe->opcode = IORING_OP_NOP;
  // A signal may come before the answer, and memory be short for a moment.
  constexpr int max_attempts = 100;
  int error = 0;
  for (int attempts = 0; attempts != max_attempts && r.peek() == nullptr; ++attempts) {
    if (error != 0) ring::pause();
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

[[gnu::cold]] result<std::unique_ptr<backend>> make_uring(unsigned entries) noexcept {
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

int probe_uring(std::array<bool, 256>& known) noexcept {
  if (int const e = can_enter(); e != 0) return e;
  uring_kernel r;
  if (int const e = r.open(1); e != 0) return e;
  for (std::size_t i = 0; i != known.size(); ++i) known[i] = r.supports(static_cast<std::uint8_t>(i));
  return 0;
}

} // namespace unio::driver
