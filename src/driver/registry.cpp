// Closing a descriptor that other threads' engines have operations on.
//
//   closing thread                               each engine, on its own thread
//   list the closing, post its member to each
//   in flight on it: 0, and no engine busy? ──►   the member: takes the closings it was asked about. Each:
//     yes: take it off the list, return             busy + 1; cancel, wait, notify the receivers; busy - 1
//     no:  answer for the engines of this thread,
//          sleep until closing_news changes
//
// Only the engines that have an operation on the descriptor are waited for: the thread of another one may
// never run it again. Such an engine finds out later that the closing is gone from the list. What is posted
// to it is a part of the engine (closing_member), not of the closing, which lies on the closing thread's
// stack.
//
// The count of operations in flight may be too high for good: numbers above a million share counts. Then the
// end is that every engine has answered. An operation may go from an engine that has not answered to one that
// has, or to none (unclaimed.hpp). Where some have moved, all engines are asked once more.

#include "driver/registry.hpp"

#include "driver/engine.hpp"
#include "driver/shared/unclaimed.hpp"
#include "sys/descriptors.hpp"
#include "sys/fork.hpp"
#include "sys/give_way.hpp"

#include <limits>
#include <mutex>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

constinit sys::process_lock mutex(sys::guarded::engines);
constinit closing_member* first = nullptr;
constinit std::uint64_t engines_made = 0;
constinit std::uint64_t closings_begun = 0;

} // namespace

struct registry::closing {
  int fd;
  std::uint64_t number = 0; ///< of all that there ever were
  std::uint64_t moves = 0;  ///< operations that had moved between engines when these were asked
  int busy = 0;             ///< engines that are answering
  closing* next = nullptr;
};

/// A thread that waits for what the thread of an engine does.
struct registry::waiting {
  engine const* for_; ///< may be gone by then
  waiting* next;
};

constinit registry::closing* registry::closings = nullptr;
constinit registry::waiting* registry::waits = nullptr;
constinit registry::forgetter registry::forget_unclaimed = nullptr;

sys::process_lock& registry::all_mutex() noexcept { return mutex; }

closing_member* registry::older_than(std::uint64_t number) noexcept {
  closing_member* m = first;
  while (m != nullptr && m->number_ >= number) m = m->next_;
  return m;
}

void registry::enlist(closing_member& m) noexcept {
  std::lock_guard const lock(mutex);
  m.number_ = ++engines_made;
  m.asked_ = 0; // what its last thread was asked is answered: it has left
  m.next_ = first;
  m.previous_ = nullptr; // it may have been listed before
  if (first != nullptr) first->previous_ = &m;
  first = &m;
  m.is_listed_ = true;
}

void registry::delist(closing_member& m) noexcept {
  {
    std::lock_guard const lock(mutex);
    if (!m.is_listed_) return;
    m.is_listed_ = false;
    (m.previous_ != nullptr ? m.previous_->next_ : first) = m.next_;
    if (m.next_ != nullptr) m.next_->previous_ = m.previous_;
  }
  sys::tell_closing_threads(); // who may have waited for its answer
}

engine* registry::find(io_multiplexer const& m) noexcept {
  std::lock_guard const lock(mutex);
  for (closing_member* each = first; each != nullptr; each = each->next_)
    if (static_cast<io_multiplexer*>(&each->self_) == &m) return &each->self_;
  return nullptr;
}

// ---- descriptors that are closed --------------------------------------------------------------------------

// What other threads of the parent were closing and waiting for at the fork is not this process's. Under the
// lock.
void registry::forget_the_parents() noexcept {
  static constinit unsigned generation = 0;
  if (generation == sys::fork_generation()) return;
  generation = sys::fork_generation();
  closings = nullptr;
  waits = nullptr;
}

// Lists a closing and asks every engine that has been used. Under the lock.
void registry::list(closing& c) noexcept {
  forget_the_parents();
  c.number = ++closings_begun;
  c.moves = unclaimed_operations::moves();
  c.next = closings;
  closings = &c;
  sys::await_landings(c.fd);
  for (closing_member* m = first; m != nullptr; m = m->next_) {
    io_multiplexer::runner const run_by = m->self_.run_by();
    if (run_by == io_multiplexer::runner::none_yet || m->self_.inherited_by_fork()) continue;
    m->asked_ = c.number;
    if (run_by == io_multiplexer::runner::this_thread || m->is_posted_) continue;
    m->is_posted_ = true;
    m->self_.post(static_cast<work&>(*m)); // under the lock, so that the engine still exists
  }
}

// Under the lock.
void registry::unlist(closing& c) noexcept {
  closing** link = &closings;
  while (*link != nullptr && *link != &c) link = &(*link)->next;
  if (*link == nullptr) return; // a child of fork, which has forgotten its parent's
  *link = c.next;
  for (closing const* other = closings; other != nullptr; other = other->next)
    if (&sys::state_of(other->fd) == &sys::state_of(c.fd)) return; // still waits for them
  sys::stop_awaiting_landings(c.fd);
}

// The oldest closing that `m` was asked to help with and has not begun to. Under the lock.
registry::closing* registry::next_for(closing_member const& m) noexcept {
  closing* found = nullptr;
  for (closing* c = closings; c != nullptr; c = c->next) // the newest first
    if (c->number > m.taken_ && c->number <= m.asked_) found = c;
  return found;
}

// Under the lock.
bool registry::is_over(closing const& c) noexcept {
  if (c.busy != 0) return false;
  if (sys::in_flight(c.fd) == 0) return true;
  for (closing_member const* m = first; m != nullptr; m = m->next_)
    if (m->taken_ < c.number && c.number <= m->asked_) return false;
  return true;
}

// On the thread that runs its engine. It may be called again by what forget() runs.
void registry::answer(closing_member& m) noexcept {
  std::unique_lock lock(mutex);
  while (closing* const c = next_for(m)) {
    m.taken_ = c->number;
    ++c->busy; // it stays listed until this is 0 again
    lock.unlock();
    m.self_.forget(c->fd);
    lock.lock();
    --c->busy;
    sys::tell_closing_threads();
  }
}

void closing_member::called(work& w, bool run) noexcept {
  auto& m = static_cast<closing_member&>(w);
  {
    std::lock_guard const lock(mutex);
    m.is_posted_ = false;
  }
  if (run) registry::answer(m);
}

// A thread may run more multiplexers than its own. No other thread ends them during this.
void registry::serve_others() noexcept {
  for (std::uint64_t number = std::numeric_limits<std::uint64_t>::max();;) {
    closing_member* m = nullptr;
    bool is_wanted = false;
    {
      std::lock_guard const lock(mutex);
      forget_the_parents();
      for (m = first; m != nullptr; m = m->next_) {
        if (m->number_ >= number) continue;
        if (m->self_.run_by() != io_multiplexer::runner::this_thread || m->self_.inherited_by_fork())
          continue;
        waiting const* w = waits;
        while (w != nullptr && w->for_ != &m->self_) w = w->next;
        is_wanted = w != nullptr;
        if (is_wanted || next_for(*m) != nullptr) break;
      }
      if (m == nullptr) return;
      number = m->number_;
    }
    answer(*m);
    if (is_wanted) m->self_.go_on();
  }
}

void registry::forget_in_all(int fd) noexcept {
  closing c{.fd = fd};
  {
    std::lock_guard const lock(mutex);
    list(c);
  }
  sys::tell_closing_threads(); // some of those that are asked may be waiting here themselves
  for (;;) {
    // Read before looking: what changes afterwards ends the sleep.
    std::uint32_t const news = sys::closing_news.load(std::memory_order_acquire);
    if (forget_unclaimed != nullptr) forget_unclaimed(fd);
    serve_others();
    {
      std::lock_guard const lock(mutex);
      if (is_over(c)) {
        unlist(c);
        if (sys::in_flight(fd) == 0 || c.moves == unclaimed_operations::moves()) return;
        list(c);
        continue;
      }
    }
    sys::closing_news.wait(news, std::memory_order_acquire);
  }
}

// ---- operations that another thread's engine has ----------------------------------------------------------
//
// What is asked of such an engine is a message (mailbox.hpp), which its thread takes in its next turn. There
// is none while that thread waits for another one itself. So those that wait are listed.

void registry::wait_for(engine const& e) noexcept {
  waiting here{&e, nullptr};
  {
    std::lock_guard const lock(mutex);
    forget_the_parents();
    here.next = std::exchange(waits, &here);
  }
  sys::tell_closing_threads(); // the other one may be closing, and has to look while this one is listed
  serve_others();
  sys::give_way(sys::yields_before_sleep);
  std::lock_guard const lock(mutex);
  waiting** link = &waits;
  while (*link != nullptr && *link != &here) link = &(*link)->next;
  if (*link != nullptr) *link = here.next; // else a child of fork, which has forgotten its parent's
}

void registry::forget_everywhere(int fd, io_multiplexer* own) noexcept {
  if (own != nullptr) own->forget(fd);
  io_multiplexer* const mine = this_thread::multiplexer_if_any();
  if (mine != nullptr && mine != own) mine->forget(fd);
  if (sys::in_flight(fd) != 0) forget_in_all(fd);
}

} // namespace unio::driver
