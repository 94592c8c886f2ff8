// unio/foreign_reactor.hpp: what both drivers share: the list of watches, waking, and going on with another
// driver.
//
// Waking. A thread that is about to wait says so (asleep_) and then looks whether it was interrupted and
// whether the driver has orders; another thread first says what it wants and then looks whether one is
// asleep. Both in the one order of sequentially consistent operations, so that one of them sees the other. A
// transfer that is over is in an inbox, whose operations are in that order too.

#include "core/thread_token.hpp"
#include "driver/choose.hpp"
#include "driver/foreign/transfers.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/fork.hpp"

#include <unio/error.hpp>

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

namespace unio::inline v0_1 {

static_assert(foreign::readable == POLLIN && foreign::exceptional == POLLPRI &&
              foreign::writable == POLLOUT && foreign::failed == (POLLERR | POLLHUP));

using driver::foreign_access;
using driver::foreign_driver;
using driver::foreign_removal;
using driver::foreign_sleeper;
using driver::foreign_tag;
using driver::foreign_transfers;
using driver::foreign_use;

struct foreign_reactor::state {
  std::mutex lock;
  std::unique_ptr<foreign_driver> driver;
  foreign_watch* first = nullptr;
  void const* runner = nullptr;
  unsigned fork_generation = sys::fork_generation();
  foreign_sleeper sleeper;
  std::atomic<bool> interrupted{false};
  std::atomic<bool> by_ring{false}; // whether the driver makes the transfers
  foreign_transfers transfers{sleeper};
  driver::foreign_loop listed;

  explicit state(foreign_reactor const& r) noexcept : listed(r) {}
  state(state const&) = delete;
  state& operator=(state const&) = delete;
  ~state() {
    if (in_child()) transfers.leave_parent();
    listed.list_by(nullptr, nullptr);
    driver.reset();
    if (sleeper.doorbell >= 0) sys::close(sleeper.doorbell);
  }

  [[nodiscard]] bool in_child() const noexcept { return fork_generation != sys::fork_generation(); }

  std::error_code open(foreign_use use) noexcept {
    int& doorbell = sleeper.doorbell;
    if (doorbell < 0) doorbell = sys::above_standard(sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (doorbell < 0) return detail::to_error_code(std::exchange(doorbell, -1));
    result<std::unique_ptr<foreign_driver>> made = driver::best_foreign_driver(use, doorbell, lock);
    if (!made.has_value()) return made.error();
    go_on_with(std::move(*made));
    return {};
  }

  /// Under the lock. What cannot be watched any more, because its number was closed without a word, reports
  /// nothing.
  void go_on_with(std::unique_ptr<foreign_driver> next) noexcept {
    if (in_child()) {
      transfers.leave_parent();
    } else if (driver != nullptr) {
      driver->leave();
    }
    driver = std::move(next);
    by_ring.store(driver->makes_transfers(), std::memory_order_relaxed);
    for (foreign_watch* w = first; w != nullptr; w = foreign_access::next(*w)) {
      foreign_access::armed(*w) = 0;
      foreign_access::is_waiting(*w) = false;
      if (w->can_wait()) (void)driver->add(*w);
    }
    transfers.begin_again(*driver);
  }

  std::error_code leave_parent() noexcept {
    std::scoped_lock const guard(lock);
    sys::close(std::exchange(sleeper.doorbell, -1)); // the parent's too
    sleeper.asleep.store(false, std::memory_order_relaxed);
    runner = nullptr;
    std::error_code const e = open(foreign_use::by_one_thread);
    if (!e) fork_generation = sys::fork_generation();
    return e;
  }

  /// A thread that waits is to look at what the driver was ordered.
  void tell_sleeper() noexcept {
    if (driver->has_orders()) sleeper.wake_if_asleep();
  }

  /// Under the lock.
  foreign_removal remove(foreign_watch& w, bool closes) noexcept {
    if (!std::exchange(foreign_access::is_added(w), false)) return {};
    foreign_watch* const next = foreign_access::next(w);
    foreign_watch* const previous = foreign_access::previous(w);
    (previous != nullptr ? foreign_access::next(*previous) : first) = next;
    if (next != nullptr) foreign_access::previous(*next) = previous;
    std::uint64_t const tag = foreign_tag::make(w);
    foreign_access::generation(w).fetch_add(1, std::memory_order_relaxed);
    // A child that has not said that it goes on does nothing to what it shares with its parent.
    if (in_child()) return {};
    return driver->remove(w, tag, closes);
  }

  [[gnu::noinline]] std::size_t report(foreign_event* events, std::size_t n) noexcept {
    std::scoped_lock const guard(lock);
    return transfers.report(events, n);
  }
  [[nodiscard]] bool has_ended_transfers() noexcept {
    std::scoped_lock const guard(lock);
    return transfers.empty();
  }

  [[gnu::cold, gnu::noinline]] void other_runner(void const* thread) noexcept {
    bool const is_first = runner == nullptr;
    runner = thread;
    if (is_first || !driver->prefers_one_thread()) return;
    std::scoped_lock const guard(lock);
    // Where none can be made this one goes on: it is right with any thread, and only slower.
    (void)open(foreign_use::by_several);
  }

  [[gnu::cold, gnu::noinline]] void failed_to_wait(int native_code) noexcept {
    if (native_code == -EINTR) return;
    std::scoped_lock const guard(lock);
    std::unique_ptr<foreign_driver> next =
        driver::foreign_driver_after(*driver, native_code, sleeper.doorbell);
    if (next != nullptr) {
      go_on_with(std::move(next));
    } else {
      sys::pause(); // short of memory: it may come back
    }
  }
};

foreign_reactor::~foreign_reactor() { delete state_; }

std::error_code foreign_reactor::open() noexcept {
  std::unique_ptr<state> s(new (std::nothrow) state(*this));
  if (s == nullptr) return std::make_error_code(std::errc::not_enough_memory);
  if (std::error_code e = s->open(foreign_use::by_one_thread)) return e;
  state_ = s.release();
  return {};
}

char const* foreign_reactor::driver() const noexcept {
  std::scoped_lock const guard(state_->lock);
  return state_->driver->name();
}

std::error_code foreign_reactor::add(foreign_watch& w, int fd, unsigned interest) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  std::scoped_lock const guard(s.lock);
  // Relaxed: dump_pending may look, without the lock.
  std::atomic_ref(foreign_access::fd(w)).store(fd, std::memory_order_relaxed);
  foreign_access::interest(w) = static_cast<std::uint8_t>(interest);
  foreign_access::armed(w) = 0;
  foreign_access::reports(w) = 0;
  foreign_access::is_waiting(w) = false;
  int const r = s.driver->add(w);
  if (r < 0) return detail::to_error_code(r);
  foreign_access::can_wait(w) = r != foreign_driver::never_waits;
  foreign_access::is_added(w) = true;
  foreign_access::previous(w) = nullptr;
  foreign_access::next(w) = s.first;
  if (s.first != nullptr) foreign_access::previous(*s.first) = &w;
  s.first = &w;
  s.tell_sleeper();
  return {};
}

std::error_code foreign_reactor::arm(foreign_watch& w, unsigned interest) noexcept {
  state& s = *state_;
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

void foreign_reactor::remove(foreign_watch& w) noexcept {
  std::scoped_lock const guard(state_->lock);
  state_->remove(w, false);
}

void foreign_reactor::remove_before_close(foreign_watch& w) noexcept {
  std::unique_lock guard(state_->lock);
  foreign_removal const asked = state_->remove(w, true);
  guard.unlock();
  if (asked.ring >= 0) [[unlikely]]
    driver::await_removal(asked);
}

std::size_t foreign_reactor::run(std::chrono::nanoseconds timeout, foreign_event* events,
                                 std::size_t n) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  if (void const* const thread = this_thread_token(); thread != s.runner) [[unlikely]]
    s.other_runner(thread);
  std::int64_t wait_ns = timeout.count();
  bool const sleeps = wait_ns != 0;
  if (sleeps) {
    s.sleeper.asleep.store(true, std::memory_order_seq_cst);
    if (s.interrupted.load(std::memory_order_seq_cst) || s.transfers.has_reports()) wait_ns = 0;
  }
  std::size_t found = 0;
  int const e = s.driver->wait(wait_ns, events, n, found);
  if (sleeps) s.sleeper.asleep.store(false, std::memory_order_relaxed);
  if (s.interrupted.load(std::memory_order_relaxed)) s.interrupted.store(false, std::memory_order_relaxed);
  if (e < 0) [[unlikely]]
    s.failed_to_wait(e);
  if (s.transfers.has_reports()) found += s.report(events + found, n - found);
  return found;
}

void foreign_reactor::interrupt() noexcept {
  state& s = *state_;
  s.interrupted.store(true, std::memory_order_seq_cst);
  s.sleeper.wake_if_asleep();
}

bool foreign_reactor::start(foreign_transfer& t, bool may_try) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  bool const tries = may_try && !s.by_ring.load(std::memory_order_relaxed);
  if (tries && foreign_transfers::make_at_once(t)) return true;
  std::unique_lock guard(s.lock);
  bool const is_begun = s.transfers.begin(t, *s.driver);
  if (is_begun) s.tell_sleeper();
  guard.unlock();
  if (!is_begun) [[unlikely]]
    foreign_transfers::make_now(t);
  return false;
}

bool foreign_reactor::cancel(foreign_transfer& t) noexcept {
  state& s = *state_;
  if (s.in_child()) [[unlikely]]
    (void)s.leave_parent();
  std::scoped_lock const guard(s.lock);
  return s.transfers.cancel(t, *s.driver);
}

void foreign_reactor::settle(foreign_transfer& t) noexcept { foreign_transfers::settle(t); }

void foreign_reactor::end_transfers() noexcept {
  state& s = *state_;
  if (std::scoped_lock const guard(s.lock); s.in_child()) {
    s.transfers.leave_parent();
    return;
  }
  {
    std::scoped_lock const guard(s.lock);
    s.transfers.cancel_all(*s.driver);
  }
  foreign_event unused[64];
  while (!s.has_ended_transfers()) run(std::chrono::milliseconds(10), unused, std::size(unused));
}

void foreign_reactor::list_by(foreign_lister lister, void* loop) noexcept {
  state_->listed.list_by(lister, loop);
}

std::error_code foreign_reactor::after_fork() noexcept { return state_->leave_parent(); }

} // namespace unio
