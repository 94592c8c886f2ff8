// async_receive and async_receive_many: reading into buffers of a pool.
//
//   wants readable ──ready──► takes a buffer ──► reads ──► filled
//         ▲                        │ none left      │ nothing there: gives it back
//         │                        ▼                │
//         │                  wants a buffer ──granted
//         └─────────────────────────────────────────┘
//
// A buffer is held from the attempt to read until that has failed, or until the bytes are the caller's.

#include "handle/pool_state.hpp"
#include "op/access.hpp"
#include "op/stream.hpp"

#include <unio/multiplexer.hpp>

#include <linux/futex.h>

#include <utility>

namespace unio {
namespace {

void begin(io_operation& op) noexcept {
  op::access::filled(op).reset(); // of a run whose result was not asked for
  op::access::receive_waits_for(op) = readiness::readable;
}

bool prepare(io_operation&, io_uring_sqe&, bool) noexcept { return false; }

readiness wants(io_operation const& op) noexcept { return op::access::receive_waits_for(op); }

std::byte* take(io_operation& op) noexcept {
  std::byte* const granted = op::access::waiter(op).granted.exchange(nullptr, std::memory_order_acquire);
  return granted != nullptr ? granted : op::access::pool(op).take();
}

int perform(io_operation& op, attempt) noexcept {
  if (is_file(op.kind())) return -EINVAL;
  readiness& waits_for = op::access::receive_waits_for(op);
  detail::pool_state& pool = op::access::pool(op);
  std::byte* const buffer = take(op);
  if (buffer == nullptr) {
    waits_for = op::is_readable(op.fd()) ? readiness::resource : readiness::readable;
    return -EAGAIN;
  }
  waits_for = readiness::readable;
  int const r = op::read_stream(op.fd(), op.kind(), {buffer, std::min(pool.size(), op::max_bytes)});
  if (r > 0) {
    op::access::filled(op) = pool.lend(buffer, static_cast<std::size_t>(r));
  } else {
    pool.give_back(buffer);
  }
  return r;
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  // Of one that is stopped while a buffer is on its way.
  if (res < 0 && res != -EAGAIN)
    if (std::byte* const unused = op::access::waiter(op).granted.exchange(nullptr); unused != nullptr)
      op::access::pool(op).give_back(unused);
  if (res == 0 && op::awaits_first_writer(op)) return outcome::again;
  if (res <= 0 || !op.is_multishot()) return op::decode(op, res);
  op.set_outcome(res);
  return outcome::more;
}

void reclaim(io_operation& op) noexcept { op::access::filled(op).reset(); }

// ---- the queue for a buffer

bool enqueue(io_operation& op) noexcept {
  detail::pool_waiter& w = op::access::waiter(op);
  w.runs = op.multiplexer();
  return op::access::pool(op).enqueue(w);
}

bool is_granted(io_operation const& op) noexcept {
  return op::access::waiter(op).granted.load(std::memory_order_acquire) != nullptr;
}

void leave(io_operation& op) noexcept {
  detail::pool_waiter& w = op::access::waiter(op);
  if (op::access::pool(op).dequeue(w) || !std::exchange(w.is_posted, false)) return;
  while (!op.multiplexer()->withdraw(w)) sys::sched_yield();
}

// A simulation's clock stands still in a system call that it does not know: there this looks once a
// millisecond.
void block(io_operation& op, std::int64_t until) noexcept {
  detail::pool_waiter& w = op::access::waiter(op);
  w.runs = nullptr;
  if (!op::access::pool(op).enqueue(w)) return;
  while (!is_granted(op)) {
    std::int64_t const left = until == deadline::forever ? deadline::forever : until - sys::steady_now();
    if (left <= 0) break;
    bool const simulated = sys::current != &sys::kernel;
    std::int64_t const span = simulated ? std::min<std::int64_t>(left, 1'000'000) : left;
    timespec const t{.tv_sec = span / 1'000'000'000, .tv_nsec = span % 1'000'000'000};
    if (simulated) {
      sys::poll(nullptr, 0, &t);
    } else {
      sys::futex(reinterpret_cast<std::uint32_t*>(&w.woken), FUTEX_WAIT_PRIVATE, 0,
                 left == deadline::forever ? nullptr : &t);
    }
  }
  (void)op::access::pool(op).dequeue(w);
}

constexpr driver::resource_faces buffers = {
    .name = "a buffer", .enqueue = enqueue, .is_granted = is_granted, .leave = leave, .block = block};

constexpr operation_faces faces(char const* name, inline_attempt tries) noexcept {
  return {.name = name,
          .tries = tries,
          .begin = begin,
          .prepare = prepare,
          .wants = wants,
          .perform = perform,
          .complete = complete,
          .reclaim = reclaim,
          .goes_with_others = op::is_socket,
          .resource = &buffers};
}

} // namespace

void async_receive::was_granted(work& w, bool run) noexcept {
  auto& self = static_cast<async_receive&>(static_cast<detail::pool_waiter&>(w));
  UNIO_EXPECTS(self.is_posted, "an operation that left the queue for a buffer was looked at");
  self.is_posted = false;
  if (run) (void)self.multiplexer()->poll(self);
}

constinit operation_faces const detail::receive_faces = faces("receive", inline_attempt::predicted);
constinit operation_faces const detail::receive_many_faces = faces("receive_many", inline_attempt::never);

} // namespace unio
