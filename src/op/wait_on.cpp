// async_wait_on: waiting for a word of memory.
//
//   looks at the word ── differs ──► its value
//        │ the same                      ▲
//        ▼                               │ woken, or the word differs
//   a ring, or a thread that waits ──────┘
//
// A ring's FUTEX_WAIT takes none of the kernel's threads: it stands in the queue of the word as a thread
// would. Where the ring does not know it, and on epoll, one thread stands there for many (op/word_waits.hpp);
// the first wait of a process for a word of its own goes there in any case.

#include "op/face.hpp"
#include "op/word_waits.hpp"
#include "sys/due.hpp"
#include "sys/give_way.hpp"
#include "sys/words.hpp"

#include <unio/futex.hpp>
#include <unio/multiplexer.hpp>

#include <climits>
#include <ctime>
#include <utility>

namespace unio::inline v0_1 {

/// Private state of the operation.
struct detail::word_access {
  template <class Op> static auto& self(Op& op) noexcept {
    return static_cast<std::conditional_t<std::is_const_v<Op>, async_wait_on const, async_wait_on>&>(op);
  }
  static word_waiter& waiter(io_operation& op) noexcept { return self(op); }
  static word_waiter const& waiter(io_operation const& op) noexcept { return self(op); }
  static std::uint32_t& seen(io_operation& op) noexcept { return self(op).seen_; }
  template <class Op> static auto& only_looks(Op& op) noexcept { return self(op).only_looks_; }
};

namespace {

using access = detail::word_access;
using detail::word_waiter;

constexpr int is_over = 1; // of perform(): `seen` is the result

// A simulation's clock stands still while a thread waits for a word: there it is looked at.
void begin(io_operation& op) noexcept {
  access::waiter(op).granted.store(word_waiter::none, std::memory_order_relaxed);
  access::only_looks(op) = !sys::kernel_answers();
}

bool is_shared(word_waiter const& w) noexcept { return w.scope == futex_scope::processes; }

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  word_waiter const& w = access::waiter(op);
  if (access::only_looks(op) || (!is_shared(w) && !op::has_word_thread())) return false;
  sqe.opcode = sys::op_futex_wait;
  sqe.fd = static_cast<int>(sys::futex_32_bits | (is_shared(w) ? 0U : unsigned{FUTEX_PRIVATE_FLAG}));
  sqe.addr = reinterpret_cast<std::uintptr_t>(w.word);
  sqe.off = w.known;
  sqe.addr3 = FUTEX_BITSET_MATCH_ANY;
  return true;
}

readiness wants(io_operation const& op) noexcept {
  return access::only_looks(op) ? readiness::retry : readiness::resource;
}

// It is over if the word has changed, or a wake-up has come.
int perform(io_operation& op, attempt) noexcept {
  word_waiter& w = access::waiter(op);
  word_waiter::answer const a = w.granted.exchange(word_waiter::none, std::memory_order_acquire);
  if (a == word_waiter::refused) return -EFAULT;
  if (a == word_waiter::alone) access::only_looks(op) = true;
  access::seen(op) = w.word->load(std::memory_order_acquire);
  return a == word_waiter::woken || access::seen(op) != w.known ? is_over : -EAGAIN;
}

// A ring's wake-up is 0. A stop hides neither a change nor a wake-up.
outcome complete(io_operation& op, int res, unsigned) noexcept {
  bool const looks = res == 0 || res == -EAGAIN || res == -ECANCELED || res == -EINTR;
  int const now = looks ? perform(op, attempt::nonblocking) : res;
  if (res == 0 || now == is_over) {
    op.set_outcome(0);
    return outcome::finished;
  }
  return op::decode_error(op, res);
}

// ---- without a ring

bool enqueue(io_operation& op) noexcept {
  word_waiter& w = access::waiter(op);
  w.runs = op.multiplexer();
  if (op::join_word_waits(w)) return true;
  access::only_looks(op) = true;
  return false;
}

bool is_granted(io_operation const& op) noexcept {
  return access::waiter(op).granted.load(std::memory_order_acquire) != word_waiter::none;
}

void leave(io_operation& op) noexcept {
  word_waiter& w = access::waiter(op);
  if (op::leave_word_waits(w) || !std::exchange(w.is_posted, false)) return;
  sys::await_other([&] { return op.multiplexer()->withdraw(w); });
}

void block(io_operation& op, std::int64_t until) noexcept {
  word_waiter& w = access::waiter(op);
  timespec const t{.tv_sec = until / 1'000'000'000, .tv_nsec = until % 1'000'000'000};
  int const call = FUTEX_WAIT_BITSET | (is_shared(w) ? 0 : FUTEX_PRIVATE_FLAG); // until a moment
  int const r = op::uninterrupted([&] {
    return sys::futex(sys::address_of(*w.word), call, w.known, until == deadline::forever ? nullptr : &t);
  });
  if (r == 0) w.granted.store(word_waiter::woken, std::memory_order_relaxed);
  if (r == -EFAULT) w.granted.store(word_waiter::refused, std::memory_order_relaxed);
}

constexpr driver::resource_faces wake_up = {
    .name = "a wake-up", .enqueue = enqueue, .is_granted = is_granted, .leave = leave, .block = block};

} // namespace

void async_wait_on::was_granted(work& w, bool run) noexcept {
  auto& self = static_cast<async_wait_on&>(static_cast<detail::word_waiter&>(w));
  UNIO_EXPECTS(self.is_posted, "an operation that waits for no word any more was looked at");
  self.is_posted = false;
  if (run) (void)self.multiplexer()->poll(self);
}

int futex::wake(int n) noexcept {
  if (n <= 0) return 0; // which the kernel takes for one
  return sys::wake_word(word_, scope_ == futex_scope::processes, static_cast<std::uint32_t>(n));
}

int futex::wake_all() noexcept { return wake(INT_MAX); }

constinit operation_faces const detail::wait_on_faces = {.name = "wait_on",
                                                         .tries = inline_attempt::always,
                                                         .flow = direction::either,
                                                         .begin = begin,
                                                         .prepare = prepare,
                                                         .wants = wants,
                                                         .perform = perform,
                                                         .complete = complete,
                                                         .resource = &wake_up};

} // namespace unio
