#include "driver/foreign/state.hpp"

#include "core/thread_token.hpp"
#include "driver/foreign/perform.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/give_way.hpp"

#include <unio/error.hpp>

#include <fcntl.h>
#include <sys/eventfd.h>

#include <cerrno>

namespace unio::inline v0_1 {
namespace {

void close_copy(foreign_watch& w) noexcept {
  if (int const copy = std::exchange(foreign_access::copy(w), -1); copy >= 0) sys::close(copy);
}

} // namespace

foreign_reactor::state::~state() {
  bound.end();
  if (in_child()) transfers.leave_parent();
  listed.list_by(nullptr, nullptr);
  driver.reset();
  if (sleeper.doorbell >= 0) sys::close(sleeper.doorbell);
}

std::error_code foreign_reactor::state::open(foreign_use use) noexcept {
  int& doorbell = sleeper.doorbell;
  if (doorbell < 0) doorbell = sys::above_standard(sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (doorbell < 0) return detail::to_error_code(std::exchange(doorbell, -1));
  result<std::unique_ptr<foreign_driver>> made = driver::best_foreign_driver(use, doorbell, lock);
  if (!made.has_value()) return made.error();
  go_on_with(std::move(*made));
  return {};
}

void foreign_reactor::state::go_on_with(std::unique_ptr<foreign_driver> next) noexcept {
  bool keeps = false;
  if (in_child()) {
    transfers.leave_parent();
    left.reset();
  } else if (driver != nullptr) {
    keeps = !driver->leave();
  }
  if (keeps) left = std::move(driver);
  driver = std::move(next);
  by_ring.store(driver->makes_transfers(), std::memory_order_relaxed);
  name.store(driver->name(), std::memory_order_relaxed);
  foreign_watch* next_watch = nullptr;
  for (foreign_watch* w = first; w != nullptr; w = next_watch) {
    next_watch = foreign_access::next(*w);
    if (keeps && foreign_access::armed(*w) != 0) foreign_access::is_kept(*w) = true;
    foreign_access::armed(*w) = 0;
    foreign_access::is_waiting(*w) = false;
    if (foreign_access::carries(*w).load(std::memory_order_relaxed)) {
      forget(*w);
      close_copy(*w);
      foreign_transfers::withdraw(*w);
    } else if (w->can_wait()) {
      (void)driver->add(*w); // what came later is first: a number that was closed without a word is its own
    }
  }
  transfers.begin_again(*driver, [this](foreign_watch& w) { return add_carrying(w); });
}

int foreign_reactor::state::add(foreign_watch& w, unsigned interest) noexcept {
  foreign_access::interest(w) = static_cast<std::uint8_t>(interest);
  foreign_access::armed(w) = 0;
  foreign_access::reports(w) = 0;
  foreign_access::is_waiting(w) = false;
  foreign_access::is_kept(w) = false;
  foreign_access::doubts(w).store(0, std::memory_order_relaxed);
  int r = driver->add(w);
  // Left over: the number was removed, or duplicated, closed and given back, without a word.
  if (r == -EEXIST && !is_watched(foreign_access::fd(w))) r = driver->arm(w, 0, 0);
  if (r == 0 && driver->is_ring() && is_taken(w)) {
    (void)driver->remove(w, foreign_tag::make(w), true);
    r = -EEXIST;
  }
  if (r < 0) return r;
  foreign_access::can_wait(w) = r != foreign_driver::never_waits;
  foreign_access::previous(w) = nullptr;
  foreign_access::next(w) = first;
  if (first != nullptr) foreign_access::previous(*first) = &w;
  first = &w;
  foreign_access::is_added(w).store(true, std::memory_order_release);
  return 0;
}

bool foreign_reactor::state::is_watched(int fd) const noexcept {
  for (foreign_watch* w = first; w != nullptr; w = foreign_access::next(*w))
    if (foreign_access::fd(*w) == fd && w->can_wait()) return true;
  return false;
}

// A ring takes a number as often as it is given. The socket is asked, because the number may have been closed
// without a word, and be another one's. The list is looked through only where the number was added last.
bool foreign_reactor::state::is_taken(foreign_watch& w) noexcept {
  int const fd = foreign_access::fd(w);
  bool const may_be = sys::last_waited(fd, sys::watched_bit);
  sys::note_waited(fd, sys::watched_bit, true);
  std::uint32_t const socket = foreign_access::socket(w).load(std::memory_order_relaxed);
  if (!may_be || socket == 0) return false;
  for (foreign_watch* other = first; other != nullptr; other = foreign_access::next(*other))
    if (foreign_access::fd(*other) == fd &&
        foreign_access::socket(*other).load(std::memory_order_relaxed) == socket)
      return true;
  return false;
}

int foreign_reactor::state::add_carrying(foreign_watch& w) noexcept {
  if (foreign_access::is_added(w).load(std::memory_order_relaxed)) return 0;
  foreign_access::unready(w).store(0, std::memory_order_relaxed);
  has_carried.store(true, std::memory_order_relaxed);
  constexpr unsigned interest = foreign::readable | foreign::exceptional;
  int r = add(w, interest);
  if (r == -EEXIST) { // a ring takes a number as often as it is given
    auto const copy = static_cast<int>(sys::fcntl(foreign_access::fd(w), F_DUPFD_CLOEXEC, 3));
    if (copy < 0) return copy;
    foreign_access::copy(w) = copy;
    if (r = add(w, interest); r < 0) close_copy(w);
  }
  if (r == 0) driver::find_kind(w);
  return r;
}

void foreign_reactor::state::forget(foreign_watch& w) noexcept {
  foreign_access::is_added(w).store(false, std::memory_order_relaxed);
  foreign_watch* const next = foreign_access::next(w);
  foreign_watch* const previous = foreign_access::previous(w);
  (previous != nullptr ? foreign_access::next(*previous) : first) = next;
  if (next != nullptr) foreign_access::previous(*next) = previous;
  foreign_access::generation(w).fetch_add(1, std::memory_order_relaxed);
}

std::error_code foreign_reactor::state::leave_parent() noexcept {
  std::scoped_lock const guard(lock);
  sys::close(std::exchange(sleeper.doorbell, -1)); // the parent's too
  sleeper.runner.store(foreign_sleeper::away, std::memory_order_relaxed);
  is_called.store(false, std::memory_order_relaxed);
  runner.store(nullptr, std::memory_order_relaxed);
  std::error_code const e = open(foreign_use::by_one_thread);
  if (!e) fork_generation = sys::fork_generation();
  return e;
}

bool foreign_reactor::state::remove(foreign_watch& w, bool closes) noexcept {
  // The next descriptor that it has may be of another kind.
  foreign_access::kind(w) = 0;
  foreign_access::expects(w) = true;
  if (!foreign_access::is_added(w).load(std::memory_order_relaxed)) return true;
  std::uint64_t const tag = foreign_tag::make(w);
  forget(w);
  if (driver->is_ring()) sys::note_waited(foreign_access::fd(w), sys::watched_bit, false);
  // A child that has not said that it goes on does nothing to what it shares with its parent.
  bool const is_removed = in_child() || driver->remove(w, tag, closes);
  close_copy(w);
  return is_removed;
}

void foreign_reactor::state::take_out(foreign_watch& w, bool closes) noexcept {
  std::unique_lock guard(lock);
  bool const is_removed = remove(w, closes);
  if (!is_removed) [[unlikely]]
    call_runner(guard);
  if (!is_removed || foreign_access::is_kept(w)) [[unlikely]]
    await_left(guard);
}

void foreign_reactor::state::call_runner(std::unique_lock<foreign_lock>& guard) noexcept {
  is_called.store(true, std::memory_order_seq_cst);
  for (unsigned times = 0; is_called.load(std::memory_order_relaxed); ++times) {
    if (sleeper.runner.load(std::memory_order_seq_cst) == foreign_sleeper::away) {
      // Without a descriptor for another driver the thread that runs this one answers, when it is back.
      if (!open(foreign_use::by_several)) is_called.store(false, std::memory_order_seq_cst);
      return;
    }
    guard.unlock();
    sleeper.wake_if_asleep();
    sys::give_way(times);
    guard.lock();
  }
}

void foreign_reactor::state::await_left(std::unique_lock<foreign_lock>& guard) noexcept {
  constexpr int at_most_ms = 300;
  for (int i = 0; left != nullptr && !left->has_left() && i != at_most_ms; ++i) {
    guard.unlock();
    sys::pause();
    guard.lock();
  }
  left.reset();
}

bool foreign_reactor::state::other_runner(void const* thread) noexcept {
  if (driver->is_ring()) {
    std::scoped_lock const guard(lock);
    bool const is_first = runner.load(std::memory_order_relaxed) == nullptr && bound.bind();
    // Where none can be made this one goes on if it is right with any thread, and only slower.
    if (!is_first && open(foreign_use::by_several) && driver->is_of_another()) return false;
    if (!is_first) bound.unbind();
  }
  runner.store(thread, std::memory_order_relaxed);
  return true;
}

void foreign_reactor::state::answer_call() noexcept {
  std::scoped_lock const guard(lock);
  if (is_called.exchange(false, std::memory_order_relaxed) && open(foreign_use::by_several)) driver->drop();
}

void foreign_reactor::state::report_again() noexcept {
  std::scoped_lock const guard(lock);
  for (foreign_watch* w = first; w != nullptr; w = foreign_access::next(*w))
    if (w->can_wait()) (void)driver->arm(*w, 0, foreign_access::interest(*w));
}

void foreign_reactor::state::failed_to_wait(int native_code) noexcept {
  if (native_code == -EINTR) return;
  std::scoped_lock const guard(lock);
  std::unique_ptr<foreign_driver> next = driver::foreign_driver_after(*driver, native_code, sleeper.doorbell);
  if (next != nullptr) {
    go_on_with(std::move(next));
  } else {
    sys::pause(); // short of memory: it may come back
  }
}

void foreign_reactor::state::runner_ends(void* self) noexcept {
  state& s = *static_cast<state*>(self);
  std::scoped_lock const guard(s.lock);
  if (s.in_child() || s.runner.load(std::memory_order_relaxed) != this_thread_token()) return;
  if (!s.driver->is_ring()) return;
  bool const was_called = s.is_called.exchange(true, std::memory_order_seq_cst);
  // Another one that is in there already makes the change.
  bool const is_away = s.sleeper.runner.load(std::memory_order_seq_cst) == foreign_sleeper::away;
  if (is_away && !s.open(foreign_use::by_one_thread)) s.runner.store(nullptr, std::memory_order_relaxed);
  s.is_called.store(was_called && !is_away, std::memory_order_seq_cst);
}

} // namespace unio
