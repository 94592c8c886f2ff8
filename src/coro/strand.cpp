// A strand: a queue that many threads push to, run by the thread that has its turn.
//
// The queue is Dmitry Vyukov's for many producers and one consumer, linked through the works themselves.
// `last_` also says who has the turn:
//
//   last_ == null           idle. The thread that pushes then posts the strand's turn to the inner executor
//   last_ == &placeholder_  empty, and a thread has the turn
//   otherwise               the work pushed last
//
//   push:  before = last_.exchange(w)          turn:  pop and run, 64 at most
//          null?  first_ = w, post the turn           empty: last_ from &placeholder_ to null, idle
//          else   before->next = w                    else: post the turn again
//
// A push is wait-free. Between its exchange and its link the runner cannot see what follows, and waits for
// the link: a work stays valid until it is run, and is run only when its successor is known.
//
// Order. Each work happens before the next: within a turn by sequence; from turn to turn by the inner
// executor's post; across idleness by `last_`, which the end of a turn releases and the push that finds it
// null acquires (and which then posts). The poster's writes happen before its work by the release of the
// link, or of the post.

#include "core/dropping.hpp"
#include "coro/strands.hpp"
#include "sys/give_way.hpp"

#include <unio/detail/promise.hpp>
#include <unio/strand.hpp>

namespace unio::inline v0_1::detail {

namespace {

constexpr int works_per_turn = 64;

// The link of a work, which the next push writes while the runner looks.
std::atomic_ref<work*> link(work& w) noexcept { return std::atomic_ref<work*>(w.next); }

void nothing(work&, bool) noexcept {}

} // namespace

// On the stack of the thread that runs a strand; several if one runs inside another, or a loop inside a work.
class strand_state::turn {
 public:
  explicit turn(strand_state const& s) noexcept : strand_(s), outer_(std::exchange(innermost, this)) {}
  turn(turn const&) = delete;
  turn& operator=(turn const&) = delete;
  ~turn() { innermost = outer_; }
  static bool is_running(strand_state const& s) noexcept {
    for (turn const* t = innermost; t != nullptr; t = t->outer_)
      if (&t->strand_ == &s) return true;
    return false;
  }
  static bool is_any_running() noexcept { return innermost != nullptr; }

 private:
  static constinit thread_local turn* innermost;
  strand_state const& strand_;
  turn* outer_;
};
constinit thread_local strand_state::turn* strand_state::turn::innermost = nullptr;

strand_state::strand_state(void (*destroy)(strand_state&) noexcept) noexcept
    : work(&drain), placeholder_(&nothing), destroy_(destroy) {}

bool strand_state::runs_here() const noexcept { return turn::is_running(*this); }
bool strand_state::any_runs_here() noexcept { return turn::is_any_running(); }

std::coroutine_handle<> dispatch_outside_of_strands(executor_ref e, resumption& r) noexcept {
  if (e.is_strand() || !e.has_turns() || !strand_state::any_runs_here()) return e.dispatch(r);
  e.post(r);
  return std::noop_coroutine();
}

void strand_state::push(work& w) noexcept {
  link(w).store(nullptr, std::memory_order_relaxed); // published by the exchange
  work* const before = last_.exchange(&w, std::memory_order_acq_rel);
  if (before != nullptr) return link(*before).store(&w, std::memory_order_release); // pairs with behind()
  first_ = &w;
  share(); // the turn's, until the strand is idle again
  post_turn();
}

// The turn may be over before post() returns, and what it ran may have dropped all references.
void strand_state::post_turn() noexcept {
  share();
  inner_.post(static_cast<work&>(*this));
  release();
}

// The successor of `w`; null if it is the last.
work* strand_state::behind(work& w) noexcept {
  for (unsigned spins = 0;; ++spins) {
    if (work* const following = link(w).load(std::memory_order_acquire); following != nullptr)
      return following;
    if (last_.load(std::memory_order_acquire) == &w) return nullptr;
    if (spins > 64) sys::give_way(spins); // another thread is linking it
  }
}

work* strand_state::pop() noexcept {
  if (first_ == &placeholder_) {
    work* const following = behind(placeholder_);
    if (following == nullptr) return nullptr;
    first_ = following;
  }
  work* const w = first_;
  work* following = behind(*w);
  if (following == nullptr) {
    link(placeholder_).store(nullptr, std::memory_order_relaxed); // published by the exchange
    work* expected = w;
    if (last_.compare_exchange_strong(expected, &placeholder_, std::memory_order_acq_rel)) {
      following = &placeholder_;
    } else {
      following = behind(*w);
    }
  }
  first_ = following;
  return w;
}

bool strand_state::end_if_empty() noexcept {
  work* expected = &placeholder_;
  return first_ == &placeholder_ &&
         last_.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel);
}

void strand_state::drain(work& w, bool run) noexcept {
  auto& self = static_cast<strand_state&>(w);
  if (!run) return self.drop();
  bool idle = false;
  {
    resume_scope const scope; // coroutines resumed here run here, not in a caller's loop
    turn const here(self);
    // Without turns a post would run the rest inside of this.
    for (int n = 0; (n != works_per_turn || !self.inner_.has_turns()) && !idle; ++n) {
      if (work* const following = self.pop(); following != nullptr) {
        (*following)();
      } else {
        idle = self.end_if_empty();
      }
    }
    idle = idle || self.end_if_empty();
  }
  if (idle) return self.release();
  self.post_turn();
}

// The inner executor has ended.
void strand_state::drop() noexcept {
  {
    turn const here(*this); // dropping one work may destroy later ones
    do {
      dropping::all<&strand_state::pop>(*this);
    } while (!end_if_empty());
  }
  release();
}

bool strand_state::remove(work& w) noexcept {
  if (last_.load(std::memory_order_acquire) == nullptr) return false;
  work* before = nullptr;
  for (work* p = first_; p != nullptr; before = p, p = behind(*p)) {
    if (p != &w) continue;
    work* following = behind(w);
    if (following == nullptr) {
      work& left = before != nullptr ? *before : placeholder_;
      link(left).store(nullptr, std::memory_order_relaxed); // published by the exchange
      work* expected = &w;
      if (last_.compare_exchange_strong(expected, &left, std::memory_order_acq_rel)) {
        if (before == nullptr) first_ = &placeholder_;
        return true;
      }
      following = behind(w);
    }
    if (before != nullptr) {
      link(*before).store(following, std::memory_order_relaxed);
    } else {
      first_ = following;
    }
    return true;
  }
  return false;
}

} // namespace unio::detail
