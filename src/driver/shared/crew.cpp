#include "driver/shared/crew.hpp"

#include "core/dropping.hpp"
#include "driver/engine/rooms.hpp"
#include "sys/descriptors.hpp"

#include <algorithm>
#include <cerrno>

namespace unio::inline v0_1::driver {

crew::crew(io_multiplexer& of, int threads, bool stays) noexcept
    : unclaimed_(of), threads_(threads), stays_(stays), everybodys_(*this), new_(*this) {}

// ---- posted work ------------------------------------------------------------------------------------------

bool crew::has_posted() const noexcept {
  if (everybodys_.has_work() || unclaimed_.has_some()) return true;
  return std::ranges::any_of(slots(), [](slot const& s) { return s.has_work(); });
}

bool crew::has_work_beside(slot const& mine) const noexcept {
  if (everybodys_.has_work() || unclaimed_.has_some()) return true;
  return std::ranges::any_of(slots(), [&](slot const& s) { return &s != &mine && s.has_work(); });
}

bool crew::fetch(slot& s) noexcept {
  if (everybodys_.has_work() && everybodys_.give(s, present(), 64)) return true;
  return steal(s);
}

bool crew::steal(slot& s) noexcept {
  return from_another(s, [&s](slot& other) { return other.give(s, 2, 64) || other.give_older(s); });
}

bool crew::help(slot& s) noexcept {
  return from_another(s, [&s](slot& other) { return other.give(s, 2, 64) || other.give_oldest(s); });
}

template <class Take> bool crew::from_another(slot& s, Take take) noexcept {
  return any_from(&s, [&](slot& other) { return &other != &s && other.has_work() && take(other); });
}

bool crew::withdraw(work& w) noexcept {
  if (everybodys_.remove(w) || new_.remove(w)) return true;
  return std::ranges::any_of(slots(), [&](slot& s) { return s.remove(w); });
}

// One at a time: what is dropped may post, and may take back what waits here.
work* crew::next_to_drop() noexcept {
  for (slot* const nobodys : {&everybodys_, &new_})
    if (work* const w = nobodys->pop(); w != nullptr) return w;
  for (slot& s : slots()) {
    s.age(); // its thread, if that is none of a pool's, may be there and fork more
    if (work* const w = s.pop(); w != nullptr) return w;
  }
  return nullptr;
}

void crew::drop_posted(io_multiplexer const& self) noexcept {
  dropping::all<&crew::next_to_drop>(*this, &self);
}

// ---- the end of a pool ------------------------------------------------------------------------------------

void crew::end() noexcept {
  if (phase_.exchange(phase::over, std::memory_order_acq_rel) == phase::over) return;
  phase_.notify_all();
  wake_all();
}

void crew::close_when_quiet() noexcept {
  phase expected = phase::open;
  phase_.compare_exchange_strong(expected, phase::closing, std::memory_order_seq_cst);
  wake_all(); // so that those who sleep already look whether it is quiet
}

void crew::wait_for_the_end() noexcept {
  while (!is_over()) phase_.wait(phase::closing, std::memory_order_acquire);
}

bool crew::is_quiet() const noexcept {
  if (gate_.sleepers() < static_cast<std::uint32_t>(threads_) || pending() != 0 || new_.has_work())
    return false;
  return std::ranges::all_of(slots(), [](slot const& s) {
    if (!s.is_pools) return true; // a thread that came by
    engine const* const e = s.others_engine();
    return e != nullptr && e->is_asleep();
  });
}

// ---- operations that no thread runs yet (unclaimed.hpp) ---------------------------------------------------

void crew::start_unclaimed(io_operation& op) noexcept {
  if (op.faces().begin != nullptr) op.faces().begin(op);
  op.links.due = moment_of(op, op.faces().wants(op));
  op.for_each_descriptor(&sys::enter_flight);
  begin_beside();
  unclaimed_.add(op); // from here on it may end
  call_one();
}

// One that waits for other operations has to be performed once more, and one that yields many values may
// have some yet.
void crew::end_unclaimed(operation_queue& ops, int why) noexcept {
  while (io_operation* const op = ops.pop()) {
    operation_links& l = op->links;
    unsigned ends = (l.is.undelivered & io_operation::done) != 0 ? l.is.undelivered : 0U;
    l.is.cancel_wanted = true;
    while (ends == 0) {
      bool const has_value = (l.is.undelivered & io_operation::value) != 0;
      l.is.undelivered = 0;
      if (has_value) op->deliver(io_operation::value);
      outcome o = op->faces().complete(*op, -ECANCELED, 0);
      if (o == outcome::pending)
        o = op->faces().complete(*op, op->faces().perform(*op, attempt::nonblocking), 0);
      if (o == outcome::more) {
        l.is.undelivered = io_operation::value;
      } else {
        ends = io_operation::value | io_operation::done;
      }
    }
    if (why != 0 && op->outcome_value() == -ECANCELED) op->set_outcome(why);
    op->for_each_descriptor(&sys::leave_flight);
    move(*op, place::landed);
    move(*op, place::idle);
    l.is.undelivered = 0;
    op->deliver(ends); // it may be gone now
    end_beside();
  }
}

// ---- what is pending (tally.hpp) --------------------------------------------------------------------------

template <class F> void crew::for_each_tally(F f) const noexcept {
  f(beside_);
  for (slot const& s : slots()) f(s.counts); // one that is new here has ended nothing when it is missed
}

std::uint64_t crew::begun() const noexcept {
  return tally<>::all_begun([this](auto f) { for_each_tally(f); });
}

std::int64_t crew::pending(std::uint64_t* begun) const noexcept {
  auto const each = [this](auto f) { for_each_tally(f); };
  (void)tally<>::all_ended(each); // brings what is read below
  std::uint64_t const ended = tally<>::all_ended(each);
  std::uint64_t const all = this->begun();
  if (begun != nullptr) *begun = all;
  return static_cast<std::int64_t>(all - ended);
}

// The last may have ended: then those that sleep are done. What has ended on one of them in whose receiver it
// sleeps is not what it waits for. A pool's threads only look whether it is over, if some thread waits for
// that.
void crew::look_for_the_end() noexcept {
  if (stays_ && phase_.load(std::memory_order_seq_cst) != phase::closing) return;
  if (gate_.sleepers() == 0) return;
  std::int64_t const left = pending();
  for (slot& s : slots())
    if (left == s.landed_.load(std::memory_order_relaxed)) with_engine(s, [](engine& e) { e.poke(); });
}

void crew::end_beside() noexcept {
  beside_.end_by_any(1);
  look_for_the_end();
}

} // namespace unio::driver
