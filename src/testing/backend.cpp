#include "testing/backend.hpp"

#include "driver/engine.hpp"
#include "sys/kernel_abi.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace unio::testing {

using driver::attempt;
using driver::engine;
using driver::inline_attempt;
using driver::operation_links;
using driver::place;

namespace {

constexpr std::uint64_t cancel_tag = ~std::uint64_t{0}; // no slot has it
constexpr int max_deadlocks = 16;

template <class T> void erase_at(std::vector<T>& v, std::size_t i) noexcept {
  v.erase(v.begin() + static_cast<std::ptrdiff_t>(i));
}

} // namespace

simulated_backend::simulated_backend(world& w) noexcept : world_(w) {
  world_.set_kernel([](void* self) noexcept { return static_cast<simulated_backend*>(self)->turn(); }, this);
}

simulated_backend::~simulated_backend() { world_.set_kernel(nullptr, nullptr); }

unsigned simulated_backend::draw_delay() noexcept {
  return world_.options.delays
             ? static_cast<unsigned>(world_.random.below(world_.options.max_delay_turns + 1))
             : 0;
}

void simulated_backend::predict(engine& e, int fd) noexcept {
  driver::descriptor* const d = e.descriptors().find(fd);
  if (d == nullptr) return;
  bool const tries = world_.options.inline_attempts;
  for (driver::predictor* const p : {&d->reading, &d->writing}) {
    if (tries && world_.random.one_in(2)) {
      p->set_ready();
    } else {
      p->set_empty();
    }
  }
}

// ---- what the engine asks
// -----------------------------------------------------------------------------------------

void simulated_backend::arm(engine& e, io_operation& op, driver::attempted how) noexcept {
  UNIO_EXPECTS(op.fd() < 0 || world_.owns(op.fd()),
               "a simulated multiplexer runs operations on simulated handles only");
  bool const as_epoll = waits_for_descriptor(op.faces().wants(op)) && world_.random.one_in(2);
  if (how == driver::attempted::with_others && as_epoll) return e.perform_later(op);
  predict(e, op.fd());
  if (op.faces().wants(op) == readiness::retry) { // no kernel waits for it
    if (!e.perform_now(op)) e.await_readiness(op);
    return;
  }
  bool const polls = world_.options.readiness && waits_for_descriptor(op.faces().wants(op)) &&
                     !op.is_multishot() && world_.random.one_in(3);
  move(op, polls ? place::to_poll : place::to_submit);
  to_submit_.push(op);
}

void simulated_backend::park(engine&, io_operation& op) noexcept {
  move(op, place::to_poll);
  to_submit_.push(op);
}

bool simulated_backend::prefers_batch(engine& e, io_operation const&) noexcept {
  return world_.options.inline_attempts && e.has_company() && world_.random.one_in(2);
}

bool simulated_backend::disarm(engine&, io_operation& op) noexcept {
  if (to_submit_.contains(op)) {
    to_submit_.remove(op);
    return true;
  }
  operation_links& l = op.links;
  // As epoll: nobody but us has it. Its readiness may be on the way all the same, and then reaches nobody.
  if (l.is.where == place::polled && l.is.queue == 0 && world_.options.readiness && world_.random.one_in(2)) {
    std::uint64_t const user_data = slots_.user_data(l.slot);
    std::erase_if(entries_, [&](entry const& e) { return e.user_data == user_data; });
    slots_.give_back(l.slot);
    world_.note("withdraw", op.fd() < 0 ? -1 : op.fd() - first_descriptor, 0);
    return true;
  }
  ask_to_end(op);
  return false;
}

void simulated_backend::ask_to_end(io_operation& op) noexcept {
  if (op.links.submitted() && op.links.is.queue == 0) to_cancel_.push(op);
}

int simulated_backend::look_at(engine& e, io_operation& op) noexcept {
  if (to_submit_.contains(op) && op.faces().tries != inline_attempt::never) {
    int const r = op.faces().perform(op, attempt::nonblocking);
    if (r != -EAGAIN) {
      to_submit_.remove(op);
      move(op, place::at_hand);
      e.process(op, r, 0);
      return 0;
    }
  }
  return reap(e, 0);
}

void simulated_backend::describe(capabilities& c) const noexcept {
  c.driver = "simulated";
  c.ring_entries = world_.options.queue_entries;
}

int simulated_backend::reap(engine& e, std::int64_t until) noexcept {
  ++e.statistics.turns;
  bool took = post_event(e);
  bool const sleeps = until != 0 && !took && !e.before_sleep();
  for (;;) {
    submit(e);
    (void)turn();
    while (take_one(e)) took = true;
    if (took || !sleeps || e.has_ready()) break;
    std::int64_t wake = until;
    if (can_progress()) {
      std::int64_t const tick =
          world_.options.delays ? static_cast<std::int64_t>(world_.random.below(1000)) : 0;
      wake = std::min(until, world_.now() + tick);
    } else if (until == deadline::forever && !world_.has_event()) {
      e.after_sleep();
      if (++deadlocks_ == max_deadlocks) {
        std::fputs(
            "unio: this simulation would sleep for ever: nothing is due and nothing can become ready\n",
            stderr);
        std::abort();
      }
      return -EDEADLK;
    }
    bool const due = world_.sleep_until(wake);
    if (due) (void)post_event(e);
    if (due || world_.now() >= until) break;
  }
  if (sleeps) e.after_sleep();
  deadlocks_ = 0;
  return 0;
}

// Outside of any receiver, and not inside the driver: as an item of the multiplexer.
bool simulated_backend::post_event(engine& e) noexcept {
  bool any = false;
  while (std::function<void()> f = world_.take_event()) any = e.post(std::move(f)).has_value() || any;
  return any;
}

// ---- the kernel
// ---------------------------------------------------------------------------------------------------

void simulated_backend::submit(engine& e) noexcept {
  unsigned room = world_.options.queue_entries != 0 ? world_.options.queue_entries
                  : world_.options.tiny_queue       ? 1 + static_cast<unsigned>(world_.random.below(4))
                                                    : ~0U;
  while (room != 0 && !to_cancel_.empty()) {
    io_operation& op = *to_cancel_.pop();
    cancels_.emplace_back(slots_.user_data(op.links.slot), world_.options.late_cancels ? draw_delay() : 0);
    ++e.statistics.submissions;
    --room;
  }
  while (room != 0 && !to_submit_.empty()) {
    io_operation& op = *to_submit_.pop();
    std::uint32_t const slot = slots_.take(op);
    if (slot == driver::slot_table::none) {
      move(op, place::at_hand);
      e.process(op, -ENOMEM, 0);
      continue;
    }
    op.links.slot = slot;
    bool const polls = op.links.is.where == place::to_poll;
    move(op, polls ? place::polled : place::in_kernel);
    entries_.push_back({slots_.user_data(slot), &op, draw_delay(), polls, false});
    world_.note("submit", op.fd() < 0 ? -1 : op.fd() - first_descriptor, slot);
    ++e.statistics.submissions;
    --room;
  }
}

void simulated_backend::complete(std::uint64_t user_data, int res, unsigned flags) noexcept {
  completions_.push_back({user_data, res, flags, draw_delay()});
  // Never of an operation that goes on: only the end of a slot tells a stray one from a true one.
  bool const strays =
      user_data != cancel_tag && (flags & IORING_CQE_F_MORE) == 0 && world_.options.stray_completions;
  if (strays && world_.random.one_in(8)) completions_.push_back({user_data, res, flags, draw_delay()});
}

// Whether the entry waits for what others have to do.
bool simulated_backend::is_blocked(entry const& e) const noexcept {
  if (e.delay != 0 || e.canceled) return false;
  readiness const wants = e.op->faces().wants(*e.op);
  return waits_for_descriptor(wants) && !world_.is_ready(e.op->fd(), wants);
}

// Whether the kernel has something to do that needs nobody else.
bool simulated_backend::is_busy() const noexcept {
  return !cancels_.empty() ||
         std::any_of(entries_.begin(), entries_.end(), [this](entry const& e) { return !is_blocked(e); });
}

bool simulated_backend::can_progress() const noexcept {
  return !to_submit_.empty() || !to_cancel_.empty() || !completions_.empty() || is_busy();
}

bool simulated_backend::turn() noexcept {
  for (std::size_t i = 0; i < cancels_.size();) {
    if (cancels_[i].second != 0) {
      --cancels_[i++].second;
      continue;
    }
    std::uint64_t const user_data = cancels_[i].first;
    erase_at(cancels_, i);
    cancel_entry(user_data);
  }
  std::size_t const n = entries_.size();
  if (n != 0) {
    std::size_t at = world_.options.reorder ? static_cast<std::size_t>(world_.random.below(n)) : 0;
    for (std::size_t i = 0; i < n; ++i) {
      entry& e = entries_[at];
      if (e.delay != 0) {
        --e.delay;
      } else if (perform(e)) {
        e.op = nullptr;
      }
      at = at + 1 == n ? 0 : at + 1;
    }
    std::erase_if(entries_, [](entry const& e) { return e.op == nullptr; });
  }
  for (completion& c : completions_)
    if (c.delay != 0) --c.delay;
  return is_busy();
}

bool simulated_backend::perform(entry& e) noexcept {
  io_operation& op = *e.op;
  readiness const wants = op.faces().wants(op);
  bool const ready = !waits_for_descriptor(wants) || world_.is_ready(op.fd(), wants);
  if (e.only_readiness) {
    bool const says_so = ready || (world_.options.spurious_wakeups && world_.random.one_in(32));
    if (says_so || e.canceled) complete(e.user_data, says_so ? 1 : -ECANCELED, 0);
    return says_so || e.canceled;
  }
  // What is done by a thread that may block must not be put off; nothing else may block.
  int const r =
      ready ? op.faces().perform(op, wants == readiness::worker ? attempt::blocking : attempt::nonblocking)
            : -EAGAIN;
  if (r == -EAGAIN) {
    if (e.canceled) complete(e.user_data, -ECANCELED, 0);
    return e.canceled;
  }
  world_.note("perform", op.fd() < 0 ? -1 : op.fd() - first_descriptor, r);
  if (op.is_multishot() && r >= 0 && !e.canceled && !world_.random.one_in(8)) {
    complete(e.user_data, r, IORING_CQE_F_MORE); // one time in eight the kernel ends a multishot by itself
    return false;
  }
  if (op.faces().lends_buffers && r >= 0) {
    complete(e.user_data, r, IORING_CQE_F_MORE);
    complete(e.user_data, 0, IORING_CQE_F_NOTIF);
  } else {
    complete(e.user_data, r, 0);
  }
  return true;
}

// -ENOENT: it has been performed, and its completion waits or was taken. -EALREADY: it is being executed.
// Otherwise it ends here, before or after the completion of the cancel.
void simulated_backend::cancel_entry(std::uint64_t user_data) noexcept {
  auto const e = std::find_if(entries_.begin(), entries_.end(),
                              [&](entry const& x) { return x.user_data == user_data; });
  bool const late = world_.options.late_cancels;
  bool const cancel_first = late && world_.random.one_in(2);
  int answer = 0;
  if (cancel_first) complete(cancel_tag, 0, 0);
  if (e == entries_.end()) {
    answer = -ENOENT;
  } else if (late && world_.random.one_in(4)) {
    answer = -EALREADY;
    e->canceled = true;
  } else {
    int const res = late && !e->only_readiness && world_.random.one_in(4) ? -EINTR : -ECANCELED;
    complete(user_data, res, 0);
    entries_.erase(e);
  }
  if (!cancel_first) complete(cancel_tag, answer, 0);
  world_.note("cancel", answer, cancel_first ? 1 : 0);
}

// ---- completions
// --------------------------------------------------------------------------------------------------

bool simulated_backend::take_one(engine& e) noexcept {
  std::size_t const n = completions_.size();
  if (n == 0) return false;
  std::size_t const start = world_.options.reorder ? static_cast<std::size_t>(world_.random.below(n)) : 0;
  for (std::size_t k = 0; k < n; ++k) {
    std::size_t const i = (start + k) % n;
    completion const c = completions_[i];
    if (c.delay != 0) continue;
    // Those of one operation keep their order.
    bool const first =
        std::none_of(completions_.begin(), completions_.begin() + static_cast<std::ptrdiff_t>(i),
                     [&](completion const& x) { return x.user_data == c.user_data; });
    if (!first && c.user_data != cancel_tag) continue;
    io_operation* const op = c.user_data == cancel_tag ? nullptr : slots_.find(c.user_data);
    // A second value on top of one that was not delivered yet: the receiver comes first.
    if (op != nullptr && engine::has_undelivered(*op) && (c.flags & IORING_CQE_F_NOTIF) == 0) continue;
    erase_at(completions_, i);
    ++e.statistics.completions;
    world_.note("complete", static_cast<std::int64_t>(c.user_data & 0xffffffff), c.res);
    if (op != nullptr) {
      completed(e, *op, c.res, c.flags);
    } else if (c.user_data != cancel_tag) {
      ++e.statistics.late_completions;
    }
    return true;
  }
  return false;
}

void simulated_backend::completed(engine& e, io_operation& op, int res, unsigned flags) noexcept {
  operation_links& l = op.links;
  bool const was_to_end = to_cancel_.contains(op); // as on a ring: it is in one queue
  if (was_to_end) to_cancel_.remove(op);
  bool const performed = what_follows(l.is.where, driver::event::completion) == driver::reaction::decode;
  if ((flags & IORING_CQE_F_MORE) == 0) {
    slots_.give_back(l.slot);
    move(op, place::at_hand);
  }
  if (performed) {
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

} // namespace unio::testing
