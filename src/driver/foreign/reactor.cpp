// unio/extend/foreign_reactor.hpp: what both drivers share: the list of watches, waking, and going on with
// another driver.

#include "core/thread_token.hpp"
#include "driver/foreign/state.hpp"
#include "sys/calls.hpp"

#include <poll.h>

#include <cerrno>
#include <new>

namespace unio::inline v0_1 {

static_assert(foreign::readable == POLLIN && foreign::exceptional == POLLPRI &&
              foreign::writable == POLLOUT && foreign::failed == (POLLERR | POLLHUP));

foreign_reactor::~foreign_reactor() { delete state_; }

std::error_code foreign_reactor::open() noexcept {
  std::unique_ptr<state> s(new (std::nothrow) state(*this));
  if (s == nullptr) return std::make_error_code(std::errc::not_enough_memory);
  if (std::error_code e = s->open(foreign_use::by_one_thread)) return e;
  state_ = s.release();
  return {};
}

char const* foreign_reactor::driver() const noexcept { return state_->name.load(std::memory_order_relaxed); }

std::error_code foreign_reactor::add(foreign_watch& w, int fd, unsigned interest) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  std::scoped_lock const guard(s.lock);
  // Relaxed: dump_pending may look, without the lock.
  std::atomic_ref(foreign_access::fd(w)).store(fd, std::memory_order_relaxed);
  foreign_access::carries(w).store(false, std::memory_order_relaxed);
  if (int const r = s.add(w, interest); r < 0) return detail::to_error_code(r);
  s.tell_sleeper();
  return {};
}

std::error_code foreign_reactor::arm(foreign_watch& w, unsigned interest) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  std::scoped_lock const guard(s.lock);
  unsigned const had = foreign_access::interest(w);
  foreign_access::interest(w) = static_cast<std::uint8_t>(had | interest);
  if (int const e = s.driver->arm(w, interest & ~had, interest); e < 0) {
    foreign_access::interest(w) = static_cast<std::uint8_t>(had);
    return detail::to_error_code(e);
  }
  s.tell_sleeper();
  return {};
}

void foreign_reactor::remove(foreign_watch& w) noexcept { state_->take_out(w, false); }
void foreign_reactor::remove_before_close(foreign_watch& w) noexcept { state_->take_out(w, true); }

std::size_t foreign_reactor::run(std::chrono::nanoseconds timeout, foreign_event* events,
                                 std::size_t n) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  std::int64_t wait_ns = timeout.count();
  s.sleeper.runner.store(wait_ns != 0 ? foreign_sleeper::asleep : foreign_sleeper::inside,
                         std::memory_order_seq_cst);
  if (s.is_called.load(std::memory_order_seq_cst)) [[unlikely]]
    s.answer_call();
  bool can_wait = true;
  if (void const* const thread = this_thread_token(); thread != s.runner.load(std::memory_order_relaxed))
      [[unlikely]]
    can_wait = s.other_runner(thread);
  if (wait_ns != 0)
    if (s.interruptions.any() || s.transfers.has_reports()) wait_ns = 0;
  std::int64_t const r = can_wait ? s.driver->wait(wait_ns, events, n) : -EAGAIN;
  if (r < 0) [[unlikely]]
    s.failed_to_wait(static_cast<int>(r));
  if (s.is_called.load(std::memory_order_relaxed)) [[unlikely]]
    s.answer_call();
  // Release: pairs with the seq_cst load in call_runner(), after which another thread changes the driver.
  s.sleeper.runner.store(foreign_sleeper::away, std::memory_order_release);
  s.interruptions.see_all();
  std::size_t found = r < 0 ? 0 : static_cast<std::size_t>(r);
  if (s.has_carried.load(std::memory_order_relaxed) && !s.by_ring.load(std::memory_order_relaxed))
    found = s.carry(events, found);
  if (s.transfers.has_reports()) found += s.report(events + found, n - found);
  return found;
}

void foreign_reactor::interrupt() noexcept {
  state& s = *state_;
  s.interruptions.add();
  s.sleeper.wake_if_asleep();
}

bool foreign_reactor::start(foreign_transfer& t, bool may_try) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  bool const tries = may_try && !s.by_ring.load(std::memory_order_relaxed);
  if (tries && foreign_transfers::make_at_once(t)) return true;
  return s.begin(t);
}

bool foreign_reactor::start(foreign_transfer& t, foreign_watch& w) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  // Relaxed: dump_pending may look, without the lock.
  std::atomic_ref(foreign_access::fd(w)).store(foreign_access::entry(t).fd, std::memory_order_relaxed);
  foreign_access::watch(t) = &w;
  foreign_access::carries(w).store(true, std::memory_order_relaxed);
  foreign_access::is_connecting(t) = false;
  return s.start(t, w);
}

bool foreign_reactor::cancel(foreign_transfer& t) noexcept {
  state& s = *state_;
  std::unique_lock guard(s.lock);
  // It is over when the child goes on, which it may never do: nothing begins again before that.
  if (s.in_child()) [[unlikely]] {
    s.transfers.leave_parent();
    if (foreign_watch* const w = foreign_access::watch(t); w != nullptr) foreign_transfers::withdraw(*w);
    foreign_access::is_cancelled(t) = true;
    return true;
  }
  bool const is_of_another =
      foreign_access::place(t).load(std::memory_order_relaxed) == std::uint32_t(transfer_place::in_kernel) &&
      s.driver->is_of_another();
  bool const is_free = s.transfers.cancel(t, *s.driver);
  if (!is_of_another) return is_free;
  // What waits for a peer, and keeps its descriptor open, is taken back now. That of a file ends by itself:
  // its ring cancels it when its thread runs next, which is also when it would be reported.
  if (foreign_access::watch(t) != nullptr) {
    s.call_runner(guard);
    return is_free;
  }
  s.is_called.store(true, std::memory_order_seq_cst);
  guard.unlock();
  s.sleeper.wake_if_asleep();
  return is_free;
}

void foreign_reactor::settle(foreign_transfer& t) noexcept { foreign_transfers::settle(t); }

void foreign_reactor::end_transfers() noexcept {
  state& s = *state_;
  if (std::scoped_lock const guard(s.lock); s.in_child()) {
    s.transfers.leave_parent();
    s.transfers.forget_all();
    return;
  }
  {
    std::scoped_lock const guard(s.lock);
    s.transfers.cancel_all(*s.driver);
  }
  foreign_event unused[64];
  bool any_of_watches = false;
  while (!s.has_ended_transfers()) {
    std::size_t const n = run(std::chrono::milliseconds(10), unused, std::size(unused));
    for (std::size_t i = 0; i != n; ++i) any_of_watches = any_of_watches || unused[i].watch != nullptr;
  }
  if (any_of_watches) s.report_again();
  interrupt(); // what has interrupted one of these was for the next
}

void foreign_reactor::list_by(foreign_lister lister, void* loop) noexcept {
  state_->listed.list_by(lister, loop);
}

void foreign_reactor::before_fork() noexcept {
  state& s = *state_;
  std::unique_lock guard(s.lock);
  if (!s.driver->makes_transfers() || s.transfers.empty()) return;
  // What is queued in a ring begins with the next run().
  if (s.driver->is_of_another()) return s.call_runner(guard);
  (void)s.open(foreign_use::by_one_thread);
}

std::error_code foreign_reactor::after_fork() noexcept { return state_->leave_parent(); }

} // namespace unio
