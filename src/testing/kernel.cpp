#include "testing/kernel.hpp"

#include "driver/poll_events.hpp"
#include "op/ring_operations.hpp"
#include "testing/thread_hooks.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace unio::inline v0_1::testing {
namespace {

constexpr std::size_t completions_per_entry = 4;

template <class T> void erase_at(std::vector<T>& v, std::size_t i) noexcept {
  v.erase(v.begin() + static_cast<std::ptrdiff_t>(i));
}

// Of the memory that is offered there now; 0: none is.
std::uint64_t serial_of(std::uintptr_t at) noexcept {
  driver::offered_memory::pieces now;
  driver::offered_memory::copy_to(now);
  for (driver::offered_memory::piece const& p : now)
    if (p.bytes != 0 && p.at == at) return p.serial;
  return 0;
}

std::int64_t number(int fd) noexcept { return fd < 0 ? -1 : fd - first_descriptor; }

} // namespace

simulated_kernel::simulated_kernel(world& w) noexcept
    : world_(w),
      refuses_(w.options.seed),
      defers_(simulated_threads != nullptr && random_source(w.options.seed + 1).one_in(2)) {
  world_.add_kernel(
      [](void* self) noexcept { return static_cast<simulated_kernel*>(self)->turn_elsewhere(); }, this);
  draw_room();
  if (world_.options.tiny_queue) capacity_ = completions_per_entry;
  if (world_.options.queue_entries != 0) capacity_ = world_.options.queue_entries * completions_per_entry;
  multishot_ = !world_.options.readiness || !world_.random.one_in(4);
  chooses_ = !world_.options.readiness || !world_.random.one_in(4);
}

unsigned simulated_kernel::draw_delay() noexcept {
  return world_.options.delays
             ? static_cast<unsigned>(world_.random.below(world_.options.max_delay_turns + 1))
             : 0;
}

// ---- the submission queue

void simulated_kernel::draw_room() noexcept {
  if (world_.options.queue_entries != 0) {
    room_ = world_.options.queue_entries;
  } else if (world_.options.tiny_queue) {
    room_ = 1 + world_.random.below(4);
  }
}

io_uring_sqe* simulated_kernel::get() noexcept {
  return queue_.size() < room_ ? &queue_.emplace_back() : nullptr;
}

bool simulated_kernel::prepare(io_operation& op, io_uring_sqe& sqe) noexcept {
  sqe.opcode = IORING_OP_NOP;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(&op);
  readiness const wants = op.faces().wants(op);
  if (wants == readiness::retry) { // no kernel waits for it
    // Nor does anything else, and yet it may outlast entering: what it means only a real one knows.
    io_uring_sqe real{};
    if (op.faces().lends_buffers && op.faces().prepare(op, real, false))
      (void)world_.refuse(std::string("io_uring's ") + op::name_of_ring_operation(real.opcode));
    return false;
  }
  if (auto const* const from = op.faces().resource; from != nullptr) {
    io_uring_sqe unused{};
    if (!chooses_ || from->source == nullptr || !op.faces().prepare(op, unused, false)) return false;
    int const group = groups_.find(
        *from->source(op),
        [this](int number, driver::buffer_slots const&) {
          chosen_[static_cast<std::size_t>(number)] = 0;
          return true;
        },
        [](int) {});
    if (group == driver::buffer_groups::none) return false;
    sqe.flags = IOSQE_BUFFER_SELECT;
    sqe.buf_group = static_cast<std::uint16_t>(group);
  }
  if (driver::offered_memory::version() != 0) use_registered(op, sqe);
  bool const may_refuse = world_.options.readiness && waits_for_descriptor(wants);
  return !may_refuse || !world_.random.one_in(8); // it may not know the operation
}

// ---- registered memory

driver::memory_table simulated_kernel::table_of_memory() noexcept {
  static constexpr auto refuses = [](simulated_kernel& k) noexcept {
    return k.world_.options.readiness && k.refuses_.one_in(4);
  };
  return {.kernel = this,
          .make = [](void* self) noexcept -> int {
            auto& k = *static_cast<simulated_kernel*>(self);
            if (refuses(k)) return -EINVAL; // an old one
            k.registered_.resize(driver::offered_memory::most);
            return 0;
          },
          .set = [](void* self, unsigned number, std::uintptr_t at, std::size_t bytes) noexcept -> int {
            auto& k = *static_cast<simulated_kernel*>(self);
            if (number >= k.registered_.size()) return -ENXIO;
            if (bytes != 0 && refuses(k)) return -ENOMEM;
            k.registered_[number] = {at, bytes, serial_of(at)};
            return 0;
          }};
}

// What the entry would say to a ring: its address and its length, and the number in place of the descriptor
// of a splice, which no NOP has.
void simulated_kernel::use_registered(io_operation& op, io_uring_sqe& sqe) noexcept {
  memory_.look();
  io_uring_sqe real{};
  if (op.faces().use_registered == nullptr || !op.faces().prepare(op, real, false)) return;
  io_uring_sqe const before = real;
  op.faces().use_registered(real, memory_);
  if (std::memcmp(&real, &before, sizeof real) == 0) return;
  sqe.off = real.addr;
  sqe.len = real.len;
  sqe.splice_fd_in = real.buf_index + 1;
}

// A real kernel would use the pages that were there when they were registered.
bool simulated_kernel::is_registered(memory_use const& m) const noexcept {
  if (static_cast<std::size_t>(m.number) >= registered_.size()) return false;
  driver::offered_memory::piece const& p = registered_[static_cast<std::size_t>(m.number)];
  return p.has(m.at, m.bytes) && p.serial == serial_of(p.at);
}

// Short of memory, it takes only the first of them.
int simulated_kernel::take_entries() noexcept {
  bool const is_short = world_.options.interruptions && !queue_.empty() && world_.random.one_in(16);
  std::size_t const n =
      is_short ? static_cast<std::size_t>(world_.random.below(queue_.size())) : queue_.size();
  for (std::size_t i = 0; i != n; ++i) {
    io_uring_sqe const& sqe = queue_[i];
    if (sqe.opcode == IORING_OP_ASYNC_CANCEL) {
      cancel const c{sqe.addr, sqe.user_data, world_.options.late_cancels && !defers_ ? draw_delay() : 0};
      if (defers_) { // before anything else that is done inside
        perform_cancel(c);
      } else {
        cancels_.push_back(c);
      }
      continue;
    }
    bool const polls = sqe.opcode == IORING_OP_POLL_ADD;
    bool const is_doorbell = polls && (sqe.len & IORING_POLL_ADD_MULTI) != 0;
    entries_.push_back({sqe.user_data, polls ? nullptr : reinterpret_cast<io_operation*>(sqe.addr), sqe.fd,
                        polls && !is_doorbell ? driver::wanted_by(sqe.poll32_events) : readiness::nothing,
                        is_doorbell ? 0 : draw_delay()});
    if ((sqe.flags & IOSQE_BUFFER_SELECT) != 0) entries_.back().group = sqe.buf_group;
    if (!polls && sqe.splice_fd_in != 0) entries_.back().uses = {sqe.splice_fd_in - 1, sqe.off, sqe.len};
    world_.note("submit", number(sqe.fd), static_cast<std::int64_t>(sqe.user_data & 0xffffffff));
  }
  queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(n));
  draw_room();
  return is_short && n == 0 ? -EAGAIN : 0;
}

void simulated_kernel::withdraw(std::uint64_t user_data) noexcept {
  std::erase_if(queue_, [&](io_uring_sqe const& sqe) { return sqe.user_data == user_data; });
  std::erase_if(entries_, [&](entry const& e) { return e.user_data == user_data; });
}

int simulated_kernel::enter(unsigned wait_for, std::int64_t timeout_ns) noexcept {
  alone const inside;
  thread_ = simulated_threads != nullptr ? simulated_threads->this_thread() : -1;
  entered_ = true;
  int const r = enter_alone(wait_for, timeout_ns);
  entered_ = false;
  return r;
}

int simulated_kernel::enter_alone(unsigned wait_for, std::int64_t timeout_ns) noexcept {
  int const error = take_entries();
  if (!queue_.empty()) wait_for = 0; // what was not taken is more urgent
  if (!queue_.empty() && defers_) return world_.pass_moment(), error;
  if (world_.options.spurious_wakeups && world_.random.one_in(32)) rung_ = true;
  bool const interrupted = world_.options.interruptions && world_.random.one_in(16);
  std::int64_t const until = timeout_ns < 0 ? deadline::forever : world_.moment(timeout_ns);
  for (;;) {
    (void)turn();
    bool const others_are_busy = world_.turn_kernels(this);
    bring_completions();
    if (wait_for == 0 && ready_.empty()) world_.pass_moment();
    if (wait_for == 0 || !ready_.empty() || interrupted || world_.now() >= until) return error;
    std::int64_t wake = until;
    if (is_busy() || others_are_busy || !done_.empty()) {
      std::uint64_t const tick = world_.options.delays ? world_.random.below(1000) : 0;
      wake = std::min(until, world_.moment(static_cast<std::int64_t>(tick)));
    } else if (simulated_threads != nullptr) {
      if (rung_) return error; // the next time it is armed
    } else if (rung_ || (until == deadline::forever && !world_.has_event())) {
      return -EDEADLK; // the doorbell was rung and no poll waits for it, or nothing will ever happen
    }
    if (!world_.sleep_until(wake)) continue;
    // An event comes before what may happen after it.
    rung_ = true;
    for (entry& e : entries_)
      if (is_doorbell(e)) perform(e);
    bring_completions();
    if (!ready_.empty()) return error;
  }
}

// ---- performing

// Whether the entry can end without another operation or an event.
bool simulated_kernel::is_ready(entry const& e) const noexcept {
  if (is_doorbell(e)) return rung_;
  if (e.group != driver::buffer_groups::none) return world_.is_ready(e.fd, readiness::readable);
  readiness const wants = e.op != nullptr ? e.op->faces().wants(*e.op) : e.polls;
  return !waits_for_descriptor(wants) || world_.is_ready(e.fd, wants);
}

// Whether the kernel has something to do without another operation or an event.
bool simulated_kernel::is_busy() const noexcept {
  return !cancels_.empty() || std::any_of(entries_.begin(), entries_.end(), [this](entry const& e) {
    return e.delay != 0 || e.canceled || is_ready(e);
  });
}

bool simulated_kernel::has_news() const noexcept {
  alone const inside;
  return !ready_.empty() || !done_.empty() ||
         std::ranges::any_of(entries_, [this](entry const& e) { return !is_doorbell(e) && is_ready(e); });
}

// What it has performed has no entry any more, though its completion may still be on the way.
bool simulated_kernel::outlasts_entering(io_operation const& op) const noexcept {
  if (!defers_ || op.faces().lends_buffers || op.links.is.wants == readiness::worker) return true;
  return op.links.is.where != driver::place::polled &&
         std::ranges::none_of(entries_, [&](entry const& e) { return e.op == &op; });
}

bool simulated_kernel::turn_elsewhere() noexcept {
  bool const rests = simulated_threads == nullptr || entered_ ||
                     (!defers_ && thread_ >= 0 && simulated_threads->is_waiting(thread_));
  return rests && !turns_ && turn();
}

bool simulated_kernel::turn() noexcept {
  turns_ = true;
  for (entry const& e : entries_)
    if (is_doorbell(e) && world_.was_rung(e.fd)) rung_ = true;
  for (std::size_t i = 0; i < cancels_.size();) {
    if (cancels_[i].delay != 0) {
      --cancels_[i++].delay;
      continue;
    }
    cancel const c = cancels_[i];
    erase_at(cancels_, i);
    perform_cancel(c);
  }
  std::size_t const n = entries_.size();
  std::size_t at = n != 0 && world_.options.reorder ? static_cast<std::size_t>(world_.random.below(n)) : 0;
  for (std::size_t i = 0; i < n; ++i) {
    entry& e = entries_[at];
    if (e.delay != 0) {
      --e.delay;
    } else {
      perform(e);
    }
    at = at + 1 == n ? 0 : at + 1;
  }
  std::erase_if(entries_, [](entry const& e) { return e.ended; });
  for (completion& c : done_)
    if (c.delay != 0) --c.delay;
  turns_ = false;
  return is_busy();
}

void simulated_kernel::perform(entry& e) noexcept {
  if (e.ended) return;
  if (e.op != nullptr) return perform_operation(e, *e.op);
  if (!is_doorbell(e)) {
    bool const says_so = is_ready(e) || (world_.options.spurious_wakeups && world_.random.one_in(32));
    if (says_so || e.canceled) complete(e, says_so ? driver::poll_events(e.polls) : -ECANCELED, 0);
  } else if (std::exchange(rung_, false)) {
    e.ended = ready_.size() >= capacity_ || world_.random.one_in(8);
    done_.push_back({e.user_data, 1, e.ended ? 0 : IORING_CQE_F_MORE, 0});
  }
}

// As io_uring/kbuf.c does: the next buffer that stands is chosen only where there is something to read; if
// none does, the request ends. At the end of the stream a buffer may have been chosen, and brings nothing.
void simulated_kernel::read_into_chosen(entry& e, io_operation& op) noexcept {
  if (!world_.is_ready(e.fd, readiness::readable)) {
    if (e.canceled) complete(e, -ECANCELED, 0);
    return;
  }
  driver::buffer_slots const& slots = *groups_.slots(e.group);
  std::uint16_t& chosen = chosen_[static_cast<std::size_t>(e.group)];
  if (chosen == slots.queue()[0].resv) return complete(e, -ENOBUFS, 0);
  io_uring_buf const& next = slots.queue()[chosen & (slots.count() - 1)];
  int const r = op.faces().resource->read_into(op, reinterpret_cast<std::byte*>(next.addr));
  if (r == -EAGAIN) {
    if (e.canceled) complete(e, -ECANCELED, 0);
    return;
  }
  world_.note("perform", number(op.fd()), r);
  bool const uses = r > 0 || world_.random.one_in(2);
  unsigned const flags = uses ? IORING_CQE_F_BUFFER | unsigned{next.bid} << IORING_CQE_BUFFER_SHIFT : 0;
  if (uses) ++chosen;
  bool const goes_on = op.is_multishot() && multishot_ && r > 0 && !e.canceled && ready_.size() < capacity_ &&
                       !world_.random.one_in(8);
  complete(e, r, goes_on ? flags | IORING_CQE_F_MORE : flags);
}

void simulated_kernel::perform_operation(entry& e, io_operation& op) noexcept {
  if (e.group != driver::buffer_groups::none) return read_into_chosen(e, op);
  if (e.uses.number != driver::registered_memory::none && !is_registered(e.uses))
    return complete(e, -EFAULT, 0);
  if (op.is_multishot() && !multishot_) return complete(e, -EINVAL, 0);
  // As if a connection had ended while it waited: no value is known yet, and the operation continues.
  if (op.is_multishot() && !e.canceled && world_.options.interruptions && world_.random.one_in(8))
    return complete(e, -ECONNABORTED, IORING_CQE_F_MORE);
  // What is done by a thread that may block must not be put off; nothing else may block.
  using driver::attempt;
  attempt const how = op.faces().wants(op) == readiness::worker ? attempt::blocking : attempt::nonblocking;
  int const r = is_ready(e) ? op.faces().perform(op, how) : -EAGAIN;
  if (r == -EAGAIN) {
    if (e.canceled) complete(e, -ECANCELED, 0);
    return;
  }
  world_.note("perform", number(op.fd()), r);
  // One time in eight the kernel ends a multishot by itself, and always where its completion finds no room.
  bool const goes_on =
      op.is_multishot() && r >= 0 && !e.canceled && ready_.size() < capacity_ && !world_.random.one_in(8);
  if (goes_on || (op.faces().lends_buffers && r >= 0)) complete(e, r, IORING_CQE_F_MORE);
  if (goes_on) return;
  if (op.faces().lends_buffers && r >= 0) return complete(e, 0, IORING_CQE_F_NOTIF);
  complete(e, r, 0);
}

// -ENOENT: it has been performed, and its completion waits or was taken. -EALREADY: it is being executed.
// Otherwise it ends here, before or after the completion of the cancel.
void simulated_kernel::perform_cancel(cancel c) noexcept {
  auto const e =
      std::find_if(entries_.begin(), entries_.end(), [&](entry const& x) { return x.user_data == c.what; });
  bool const late = world_.options.late_cancels;
  bool const cancel_first = late && world_.random.one_in(2);
  int answer = 0;
  if (cancel_first) post(c.user_data, 0, 0);
  if (e == entries_.end()) {
    answer = -ENOENT;
  } else if (late && !defers_ && world_.random.one_in(4)) {
    answer = -EALREADY;
    e->canceled = true;
  } else {
    bool const interrupted = late && e->op != nullptr && world_.random.one_in(4);
    complete(*e, interrupted ? -EINTR : -ECANCELED, 0);
    entries_.erase(e);
  }
  if (!cancel_first) post(c.user_data, answer, 0);
  world_.note("cancel", answer, cancel_first ? 1 : 0);
}

// ---- completions

void simulated_kernel::post(std::uint64_t user_data, int res, unsigned flags) noexcept {
  done_.push_back({user_data, res, flags, draw_delay()});
}

void simulated_kernel::complete(entry& e, int res, unsigned flags) noexcept {
  post(e.user_data, res, flags);
  if ((flags & IORING_CQE_F_MORE) != 0) return;
  // A stray one is never of an operation that goes on: only the end of a slot tells it from a true one.
  e.ended = true;
  if (world_.options.stray_completions && world_.random.one_in(8)) post(e.user_data, res, flags);
}

// Those of one entry keep their order.
void simulated_kernel::bring_completions() noexcept {
  more_ = overflown_ = false;
  while (std::size_t const n = done_.size()) {
    std::size_t const start = world_.options.reorder ? static_cast<std::size_t>(world_.random.below(n)) : 0;
    std::size_t i = n;
    for (std::size_t k = 0; k < n && i == n; ++k) {
      auto const c = done_.begin() + static_cast<std::ptrdiff_t>((start + k) % n);
      bool const first =
          std::none_of(done_.begin(), c, [&](completion const& x) { return x.user_data == c->user_data; });
      if (c->delay == 0 && first) i = static_cast<std::size_t>(c - done_.begin());
    }
    if (i == n) return;
    overflown_ = ready_.size() >= capacity_;
    more_ = !overflown_ && !ready_.empty() && world_.options.delays && world_.random.one_in(8);
    if (overflown_ || more_) return;
    ready_.push_back(done_[i]);
    erase_at(done_, i);
  }
}

void simulated_kernel::advance() noexcept {
  completion const& c = ready_.front();
  world_.note("complete", static_cast<std::int64_t>(c.user_data & 0xffffffff), c.res);
  ready_.pop_front();
}

} // namespace unio::testing
