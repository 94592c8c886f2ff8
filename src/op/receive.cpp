// async_receive and async_receive_many: reading into buffers of a pool.
//
//   wants readable ──ready──► takes a buffer ──► reads ──► filled
//         ▲                        │ none left      │ nothing there: gives it back
//         │                        ▼                │
//         │                  wants a buffer ──granted
//         └─────────────────────────────────────────┘
//
// A buffer is held from the attempt to read until that has failed, or until the bytes are the caller's.
//
// A ring's kernel reads by itself into a buffer that stands in a slot (driver/buffer_slots.hpp), for
// async_receive_many again and again:
//
//   in the kernel ──read──► arrived ──► lent ──► filled
//        │                     │ too many are lent
//        │                     ▼
//        │               wants a buffer ──granted──► lent in its place
//        └──no slot has one, or anything else──► reads as above
//
// What has arrived was taken from the stream: it is delivered whatever ends the operation.

#include "handle/pool_state.hpp"
#include "handle/sockets.hpp"
#include "op/access.hpp"
#include "op/face.hpp"
#include "sys/give_way.hpp"
#include "sys/multishot.hpp"

#include <unio/multiplexer.hpp>

#include <linux/futex.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

namespace unio::inline v0_1 {
namespace {

async_receive& self(io_operation& op) noexcept { return static_cast<async_receive&>(op); }

void begin(io_operation& op) noexcept {
  op::access::set_filled(op, nullptr); // that of a run whose result was not asked for goes back
  op.links.is.wants = readiness::readable;
  op::access::waiter(op).arrived = {};
}

// One request for many values brings the end as well: of a Unix socket a kernel may lose it
// (driver/uring/choosing.cpp).
bool brings_end(io_operation const& op) noexcept {
  return sys::receives_all_of_unix() || detail::sockets::is_no_unix_socket(op.fd());
}

// Not while all are lent: what is read then could not be delivered.
bool prepare(io_operation& op, io_uring_sqe& sqe, bool will_wait) noexcept {
  bool const is_pipe = op.kind() == handle_kind::pipe || op.kind() == handle_kind::named_pipe;
  if ((!is_pipe && !op::is_socket(op)) || !op::access::pool(op).has_one()) return false;
  sqe.fd = op.fd();
  sqe.flags = IOSQE_BUFFER_SELECT;
  if (is_pipe) {
    bool const many = op.is_multishot() && sys::reads_many();
    sqe.opcode = many ? sys::op_read_multishot : std::uint8_t{IORING_OP_READ};
    sqe.off = no_offset;
  } else {
    sqe.opcode = IORING_OP_RECV;
    if (op.is_multishot() && sys::receives_many() && brings_end(op)) {
      sqe.ioprio = IORING_RECV_MULTISHOT;
    } else if (will_wait) {
      sqe.ioprio = IORING_RECVSEND_POLL_FIRST;
    }
  }
  return true;
}

// As the last attempt left it.
readiness wants(io_operation const& op) noexcept { return op.links.is.wants; }

std::byte* granted(io_operation& op) noexcept { return op::access::waiter(op).take_granted(); }

int read_into(io_operation& op, std::byte* buffer) noexcept {
  std::size_t const size = std::min(op::access::pool(op).size(), op::max_bytes);
  return op::note_short(op, op::read_stream(op.fd(), op.kind(), {buffer, size}), size);
}

// ---- what a ring has read

// No slot has a buffer; a kernel cannot read by itself from such a descriptor. The operation itself can.
bool concerns_the_ring(int error) noexcept {
  constexpr int its[] = {-ENOBUFS, -EAGAIN, -EBADFD, -EINVAL, -EOPNOTSUPP, -ENOMEM};
  return std::ranges::find(its, error) != std::end(its);
}

void arrived(io_operation& op, driver::buffer_slots* slots, unsigned slot, int res) noexcept {
  detail::arrivals& a = op::access::waiter(op).arrived;
  if (res <= 0) [[unlikely]] {
    bool const is_stop = res == -ECANCELED || res == -EINTR;
    if (res == 0 || (!is_stop && !concerns_the_ring(res))) a.end = res;
    if (slots != nullptr) slots->stand_again(slot);
    return;
  }
  if (slots == nullptr) return;
  auto const last = static_cast<std::uint16_t>(slot);
  slots->in(slot).bytes = static_cast<std::uint32_t>(res);
  if (a.slots == nullptr) {
    a.slots = slots;
    a.first = last;
  } else {
    slots->in(a.last).next = last;
  }
  a.last = last;
}

bool has_arrived(io_operation const& op) noexcept {
  detail::arrivals const& a = op::access::waiter(op).arrived;
  return a.slots != nullptr || a.end != detail::arrivals::not_ended;
}

// The first of what has arrived: its bytes; 0: too many buffers are lent.
[[gnu::always_inline]] inline int take_arrived(io_operation& op, bool in_any_case) noexcept {
  detail::pool_state& pool = op::access::pool(op);
  std::byte* const buffer = pool.lend_arrived(op::access::waiter(op), in_any_case);
  if (buffer == nullptr) return 0;
  op::access::set_filled(op, buffer);
  detail::arrivals& a = op::access::waiter(op).arrived;
  driver::buffer_slots& slots = *a.slots;
  driver::buffer_slots::filled const was = slots.in(a.first);
  if (a.first == a.last) a.slots = nullptr;
  a.first = was.next;
  if (slots.wants_buffers()) [[unlikely]]
    pool.refill(slots);
  return static_cast<int>(was.bytes);
}

int take_end(io_operation& op) noexcept {
  return std::exchange(op::access::waiter(op).arrived.end, detail::arrivals::not_ended);
}

bool has_end(io_operation& op) noexcept {
  return op::access::waiter(op).arrived.end != detail::arrivals::not_ended;
}

// ----

[[gnu::noinline]] int perform_itself(io_operation& op) noexcept {
  if (has_end(op)) return take_end(op);
  if (is_file(op.kind())) return -EINVAL;
  detail::pool_state& pool = op::access::pool(op);
  std::byte* buffer = granted(op);
  if (buffer == nullptr) buffer = pool.take();
  if (buffer == nullptr) {
    if (pool.has_ended()) return -EFAULT; // there is no memory to read into
    if (op.fd() < 0) return -EBADF;       // which poll(2) leaves out
    if (op::is_readable(op.fd())) op.links.is.wants = readiness::resource;
    return -EAGAIN;
  }
  int const r = read_into(op, buffer);
  if (r > 0) {
    op::access::set_filled(op, buffer);
  } else {
    pool.give_back(buffer);
  }
  return r;
}

int perform(io_operation& op, attempt) noexcept {
  op.links.is.wants = readiness::readable;
  if (op::access::waiter(op).arrived.slots == nullptr) return perform_itself(op);
  int const n = take_arrived(op, false);
  if (n != 0) [[likely]]
    return n;
  op.links.is.wants = readiness::resource;
  return -EAGAIN;
}

// Of one that is stopped, or has failed: what has arrived comes first, and a buffer on its way goes back.
int instead_of(io_operation& op, int res) noexcept {
  detail::arrivals& a = op::access::waiter(op).arrived;
  bool const is_stop = res == -ECANCELED || res == -EINTR;
  if (a.slots != nullptr) {
    if (!is_stop && !has_end(op)) a.end = res;
    return take_arrived(op, true);
  }
  if (std::byte* const unused = granted(op); unused != nullptr) op::access::pool(op).give_back(unused);
  return has_end(op) ? take_end(op) : res;
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  if (res < 0 && res != -EAGAIN) res = instead_of(op, res);
  if (res == 0 && op::awaits_first_writer(op)) return outcome::again;
  if (res <= 0 || !op.is_multishot()) return op::decode(op, res);
  op.set_outcome(res);
  return outcome::more;
}

void reclaim(io_operation& op) noexcept { op::access::set_filled(op, nullptr); }

// ---- the queue for a buffer

bool enqueue(io_operation& op) noexcept {
  op::access::set_filled(op, nullptr);
  return op::access::pool(op).enqueue(self(op), false);
}

bool is_granted(io_operation const& op) noexcept { return op::access::waiter(op).is_granted(); }

void leave(io_operation& op) noexcept {
  if (op::access::pool(op).dequeue(self(op)) || !op::access::waiter(op).take_posted()) return;
  auto& posted = *std::launder(reinterpret_cast<work*>(&op.links));
  sys::await_other([&] { return op.multiplexer()->withdraw(posted); });
}

// A simulation's clock stands still in a system call that it does not know: there this looks once a
// millisecond.
void block(io_operation& op, std::int64_t until) noexcept {
  detail::pool_waiter& w = op::access::waiter(op);
  op::access::set_filled(op, nullptr);
  if (!op::access::pool(op).enqueue(self(op), true)) return;
  for (;;) {
    auto const seen = static_cast<std::uint32_t>(w.place());
    if (w.is_granted()) break;
    std::int64_t const left = until == deadline::forever ? deadline::forever : until - sys::steady_now();
    if (left <= 0) break;
    bool const simulated = !sys::kernel_answers();
    std::int64_t const span = simulated ? std::min<std::int64_t>(left, 1'000'000) : left;
    timespec const t{.tv_sec = span / 1'000'000'000, .tv_nsec = span % 1'000'000'000};
    if (simulated) {
      sys::poll(nullptr, 0, &t);
    } else {
      sys::futex(w.word(), FUTEX_WAIT_PRIVATE, seen, left == deadline::forever ? nullptr : &t);
    }
  }
  (void)op::access::pool(op).dequeue(self(op));
}

constexpr driver::resource_faces buffers = {
    .name = "a buffer",
    .enqueue = enqueue,
    .is_granted = is_granted,
    .leave = leave,
    .block = block,
    .source = [](io_operation& op) noexcept -> driver::buffer_source* { return &op::access::pool(op); },
    .arrived = arrived,
    .has_arrived = has_arrived,
    .read_into = read_into};

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
  // It lies where the links of the operation are, which come first in it.
  constexpr std::ptrdiff_t links_at =
      UNIO_TRACKS_PENDING ? sizeof(detail::tracked_operation<UNIO_TRACKS_PENDING>) : 0;
  auto& op = *reinterpret_cast<io_operation*>(reinterpret_cast<std::byte*>(&w) - links_at);
  UNIO_EXPECTS(static_cast<void*>(&op.links) == &w && op::access::waiter(op).take_posted(),
               "an operation that left the queue for a buffer was looked at");
  if (run) (void)op.multiplexer()->poll(op);
}

constinit operation_faces const detail::receive_faces = faces("receive", inline_attempt::predicted);
constinit operation_faces const detail::receive_many_faces = faces("receive_many", inline_attempt::never);

} // namespace unio
