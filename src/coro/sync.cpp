// How coroutines wait for each other: the life of a waiter, once, and what each primitive adds to it.
//
//                       ┌────────────────────────── canceled ◄───────┐
//   suspend ── attach ──┤                                            │ stop
//                       └─ lock ── admit ──┬─► waiting ──────────────┤
//                                          │      │                  │ destruction: removed
//                                          └──────┴─► granted, refused ── post ──► resumed
//                                                                      └─────────► destroyed: given back
//
// Whatever ends a wait does so under the lock of the queue, and so once. The stop callback is attached first,
// because a waiter in a list may resume on another thread at any moment. Nothing is posted under the lock,
// and a posted waiter is not touched again. A waiter whose turn is over (yields) is posted even if it need
// not wait.

#include "sys/calls.hpp"
#include "sys/fork.hpp"
#include "sys/give_way.hpp"

#include <unio/sync.hpp>

#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

namespace unio::inline v0_1::detail {

// ---- what dump_pending shows of it, where the library tracks ----------------------------------------------

namespace {

// Held while a dump looks at a coroutine: until then that does not continue.
constinit sys::process_lock waits_mutex(sys::guarded::waits);
constinit tracked_wait<true>* first_wait = nullptr; // the youngest, guarded by it
constinit tracked_wait<true>* last_wait = nullptr;

} // namespace

void tracked_wait<true>::begins(std::coroutine_handle<> h, char const* what) noexcept {
  coroutine_ = h;
  what_ = what;
  started_ns_ = sys::steady_now();
  std::lock_guard const lock(waits_mutex);
  next_ = first_wait;
  previous_ = nullptr;
  (next_ != nullptr ? next_->previous_ : last_wait) = this;
  first_wait = this;
}

void tracked_wait<true>::ends() noexcept {
  std::lock_guard const lock(waits_mutex);
  (previous_ != nullptr ? previous_->next_ : first_wait) = next_;
  (next_ != nullptr ? next_->previous_ : last_wait) = previous_;
}

void tracked_wait<true>::for_each(void (*f)(void* argument, tracked_wait const& w), void* argument) {
  std::lock_guard const lock(waits_mutex);
  for (tracked_wait const* w = last_wait; w != nullptr; w = w->previous_) f(argument, *w);
}

// ---- waiting ----------------------------------------------------------------------------------------------

namespace {

// The lists that the calling thread is posting: several if what it posts runs at once.
class posting {
 public:
  explicit posting(waiter_list const& l) noexcept : list_(l), outer_(std::exchange(innermost, this)) {}
  posting(posting const&) = delete;
  posting& operator=(posting const&) = delete;
  ~posting() { innermost = outer_; }
  static bool is_of(waiter_list const* l) noexcept {
    for (posting const* p = innermost; p != nullptr; p = p->outer_)
      if (&p->list_ == l) return true;
    return false;
  }

 private:
  static constinit thread_local posting* innermost;
  waiter_list const& list_;
  posting* outer_;
};
constinit thread_local posting* posting::innermost = nullptr;

} // namespace

std::uint32_t wait_queue::lock_word_contended() noexcept {
  for (unsigned spins = 0;; ++spins) {
    std::uint32_t w = word_.load(std::memory_order_relaxed);
    if ((w & bit_locked) != 0) {
      if (spins >= 64) sys::give_way(spins); // the holder was preempted
    } else if (word_.compare_exchange_weak(w, w | bit_locked, std::memory_order_acquire)) {
      return w;
    }
  }
}

// What runs at once may destroy others of the list, which then leave it.
void waiter_list::post_each() noexcept {
  posting const here(*this);
  while (!empty()) {
    waiter& w = *first_;
    remove(w);
    w.with->executor.post(w.resume); // the waiter may be destroyed by now
  }
}

bool wait_awaiter::suspend(std::coroutine_handle<> h, environment const& e, void* place) noexcept {
  waiter& w = *::new (static_cast<void*>(&waiter_)) waiter(*queue_, h, e, place, amount_);
  stop_token const stop = e.stop;
  if (stop.stop_possible() && !w.attach(stop)) {
    outcome_ = wait_outcome::canceled;
    return false;
  }
  suspended_ = true;
  wait_queue& q = *queue_;
  waiter_list woken;
  bool const yields = w.yields = yields_ && e.executor.has_turns();
  w.begins(h, q.name(amount_));
  std::uint32_t word = q.lock_word();
  bool const ended = w.outcome == wait_outcome::canceled || q.admit(w, word, woken);
  bool const granted = ended && w.outcome == wait_outcome::granted;
  if (yields && ended) woken.push(w);
  q.unlock_word(word);
  if (yields) granted ? q.admitted(woken) : woken.post_all();
  if (yields || !ended) return true; // this object may be destroyed by now
  w.ends();
  if (stop.stop_possible()) w.detach(stop);
  suspended_ = false;
  outcome_ = w.outcome;
  if (granted) q.admitted(woken); // without a grant none is woken
  return false;
}

wait_outcome wait_awaiter::resumed_elsewhere() noexcept {
  suspended_ = false;
  waiter_.ends();
  if (stop_token const stop = waiter_.with->stop; stop.stop_possible()) waiter_.detach(stop);
  return waiter_.outcome;
}

void waiter::stopped(stop_node& n) noexcept {
  auto& w = static_cast<waiter&>(n);
  wait_queue& q = *w.queue;
  q.locked([&w, &q](std::uint32_t& word, waiter_list& woken) {
    if (w.outcome == wait_outcome::none) {
      w.outcome = wait_outcome::canceled; // suspend() is about to lock, on another thread
    } else if (w.outcome == wait_outcome::waiting) {
      w.in.load(std::memory_order_relaxed)->remove(w);
      w.outcome = wait_outcome::canceled;
      woken.push(w);
      q.removed(w, word, woken);
    }
  });
}

// The coroutine is being destroyed.
void wait_awaiter::leave() noexcept {
  waiter& w = waiter_;
  w.ends();
  if (stop_token const stop = w.with->stop; stop.stop_possible()) w.detach(stop);
  bool waited = false;
  queue_->locked([&](std::uint32_t& word, waiter_list& woken) {
    waited = w.outcome == wait_outcome::waiting;
    if (!waited) return;
    w.in.load(std::memory_order_relaxed)->remove(w);
    queue_->removed(w, word, woken);
  });
  if (waited) return;
  if (waiter_list* const in = w.in.load(std::memory_order_relaxed); posting::is_of(in)) {
    in->remove(w);
  } else {
    w.resume.take_back(w.with->executor);
  }
  if (w.outcome != wait_outcome::granted) return;
  queue_->locked([&](std::uint32_t& word, waiter_list& woken) { queue_->give_back(w, word, woken); });
}

std::error_code error_of(wait_outcome o) noexcept {
  int const e = o == wait_outcome::canceled ? ECANCELED : o == wait_outcome::refused ? EPIPE : EAGAIN;
  return {e, std::system_category()};
}

namespace {

bool granted_or_queued(bool granted, waiter& w, waiter_list& queue) noexcept {
  w.outcome = granted ? wait_outcome::granted : wait_outcome::waiting;
  if (!granted) queue.push(w);
  return granted;
}

} // namespace

// ---- permits ----------------------------------------------------------------------------------------------

void permits::serve(std::uint32_t& word, waiter_list& woken) noexcept {
  while (!waiters_.empty() && waiters_.first()->amount <= word / unit) {
    word -= waiters_.first()->amount * unit;
    waiters_.end_first(wait_outcome::granted, woken);
  }
}

bool permits::admit(waiter& w, std::uint32_t& word, waiter_list&) noexcept {
  bool const there = waiters_.empty() && w.amount <= word / unit;
  if (there) word -= w.amount * unit;
  return granted_or_queued(there, w, waiters_);
}

// It may have asked for more than those that come after it.
void permits::removed(waiter&, std::uint32_t& word, waiter_list& woken) noexcept { serve(word, woken); }

// An event may have been set anew.
void permits::give_back(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept {
  word += std::min(w.amount, most_ - word / unit) * unit;
  serve(word, woken);
}

bool permits::try_acquire_contended(std::uint32_t n) noexcept {
  std::uint32_t word = lock_word();
  bool const there = waiters_.empty() && n <= word / unit;
  if (there) word -= n * unit;
  unlock_word(word);
  return there;
}

void permits::release_contended(std::uint32_t n) noexcept {
  locked([this, n](std::uint32_t& word, waiter_list& woken) {
    UNIO_EXPECTS(n <= max - word / unit, "a semaphore was given more permits than it can count");
    word += n * unit;
    serve(word, woken);
  });
}

void permits::unlock_contended() noexcept {
  locked([this](std::uint32_t& word, waiter_list& woken) {
    UNIO_EXPECTS(word / unit == 0, "a mutex was unlocked that nobody holds");
    word += unit;
    serve(word, woken);
  });
}

void permits::set_contended() noexcept {
  locked([this](std::uint32_t& word, waiter_list& woken) {
    if (word / unit == 0) word += unit;
    serve(word, woken);
  });
}

// ---- events -----------------------------------------------------------------------------------------------

bool event_queue::admit(waiter& w, std::uint32_t& word, waiter_list&) noexcept {
  return granted_or_queued((word & unit) != 0, w, waiters_);
}

void event_queue::set_contended() noexcept {
  locked([this](std::uint32_t& word, waiter_list& woken) {
    waiters_.end_all(wait_outcome::granted, woken);
    word |= unit;
  });
}

void event_queue::reset_contended() noexcept {
  locked([](std::uint32_t& word, waiter_list&) { word &= ~unit; });
}

// ---- latches ----------------------------------------------------------------------------------------------

bool latch_queue::admit(waiter& w, std::uint32_t& word, waiter_list&) noexcept {
  return granted_or_queued(word / unit == 0, w, waiters_);
}

void latch_queue::count_down_contended(std::uint32_t n) noexcept {
  locked([this, n](std::uint32_t& word, waiter_list& woken) {
    UNIO_EXPECTS(n <= word / unit, "a latch was counted down below zero");
    word -= n * unit;
    if (word / unit == 0) waiters_.end_all(wait_outcome::granted, woken);
  });
}

// ---- rendezvous -------------------------------------------------------------------------------------------

bool rendezvous_queue::admit(waiter& w, std::uint32_t&, waiter_list& woken) noexcept {
  bool const all = ++arrived_ >= expected_;
  if (all) {
    arrived_ = 0;
    waiters_.end_all(wait_outcome::granted, woken);
  }
  return granted_or_queued(all, w, waiters_);
}

void rendezvous_queue::removed(waiter&, std::uint32_t&, waiter_list&) noexcept { --arrived_; }

void rendezvous_queue::drop() noexcept {
  waiter_list woken;
  std::uint32_t const word = lock_word();
  UNIO_EXPECTS(arrived_ < expected_, "more have left a rendezvous than take part");
  bool const all = arrived_ == --expected_;
  if (all) {
    arrived_ = 0;
    waiters_.end_all(wait_outcome::granted, woken);
  }
  unlock_word(word);
  if (all) admitted(woken);
}

void rendezvous_queue::admitted(waiter_list& woken) noexcept {
  completion_(argument_);
  woken.post_all(); // this object may be destroyed by now
}

} // namespace unio::detail
