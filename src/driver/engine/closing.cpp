// Operations that a blocking call waits for, and the end.

#include "core/dropping.hpp"
#include "core/thread_token.hpp"
#include "driver/engine/rooms.hpp"
#include "driver/registry.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/give_way.hpp"
#include "sys/threads.hpp"

#include <cerrno>

namespace unio::inline v0_1::driver {

engine::~engine() {
  if (backend_ == nullptr) return; // it rests
  shut_down();
  wait_for_others();
}

// A thread that brought the last that ended or ran here may not have returned from that.
void engine::wait_for_others() noexcept {
  sys::await_other([this] { return !mail_.is_used() || inherited_by_fork(); });
}

backend::~backend() {
  if (owns_doorbell_ && doorbell_fd_ >= 0) sys::close(doorbell_fd_);
  if (successor_fd_ >= 0) sys::close(successor_fd_);
}

// What was delivered to others during this is credited to the next complete_io() or run(), whose caller
// counts.
template <class Failed> void engine::take_to_end(io_operation& op, Failed failed) noexcept {
  bool const had_value = op.completed();
  int const values = reach([&] { return op.finished(); }, failed);
  int const own = op.completed() && !had_value ? 1 : 0;
  // Inside a receiver within_turn() has credited them.
  delivered_ += (turn_.is_delivering() ? 0 : values) - own;
}

// For what the thread of this engine does with `op`. That thread may be away, or wait for this one in the
// same way, or for this one's answer about a descriptor that it closes. So after a while this one sleeps,
// takes the operation if it can, and otherwise goes on with what it runs itself. It does not take others: two
// threads could take them from each other for ever.
void engine::wait_for_its_thread(io_operation const& op, unsigned times) noexcept {
  if (times < 64) return sys::give_way(times);
  if (shared_ != nullptr) shared_->go_on_without(*this, op);
  registry::wait_for(*this);
}

void engine::go_on_without(engine& other, io_operation const& op) noexcept {
  inside const here(*this);
  if (take_from(other, &op) != found::taken) go_on();
}

void engine::go_on() noexcept {
  bool woken = false;
  (void)run_turns(-1, 0, &woken);
  if (woken) pass_wake_on();
}

void engine::pass_wake_on() noexcept { shared_ != nullptr ? shared_->give_wake() : mail_.keep_wake(); }

void engine::finish(io_operation& op) noexcept {
  // Not this thread's: it is its own thread that takes it to its end.
  if (!on_own_thread()) {
    for (unsigned times = 0; !op.finished() && !inherited_by_fork(); ++times) {
      if (is_elsewhere(op)) return op.multiplexer()->finish(op);
      wait_for_its_thread(op, times);
    }
    return;
  }
  inside const here(*this);
  take_to_end(op, [] {});
}

bool engine::drive(io_operation& op) noexcept {
  descriptor* const d = descriptors_.find(op.fd());
  if (d == nullptr) return false;
  adopt(op, *this);
  ++statistics.started;
  ++statistics.inline_misses;
  d->missed(op);
  launch(op, *d, attempted::in_vain);
  bool failed = false;
  take_to_end(op, [&] {
    failed = true;
    cancel(op);
  });
  return !failed || op.outcome_value() != -ECANCELED;
}

bool engine::is_elsewhere(io_operation const& op) const noexcept {
  return shared_ != nullptr && op.multiplexer() != this;
}

namespace {

// What waits for other operations, and what has buffers with the kernel that it cannot take back.
bool stays(io_operation const& op) noexcept {
  return has_members(op) || op.faces().lends_buffers || is_held(op);
}

} // namespace

// Of a thread that ends: what no other thread can go on with.
void engine::end_what_stays() noexcept {
  if (in_flight_ == 0) return;
  reach([&] {
    bool any = false;
    descriptors_.for_each([&](descriptor& d) {
      for (io_operation *op = d.in_flight, *next; op != nullptr; op = next) {
        next = op->links.next_on_handle;
        if (!stays(*op)) continue;
        any = true;
        cancel(*op);
      }
    });
    return !any;
  });
}

work* engine::next_to_drop() noexcept {
  posted_now_.append(posted_here_);
  return posted_now_.pop();
}

void engine::drop_posted() noexcept {
  take_posted();
  dropping::all<&engine::next_to_drop>(*this, this);
}

void engine::shut_down() noexcept {
  closing_ = true;
  open_ = false;
  // What is dropped may take back what is queued: that is up to the thread that drops it.
  if (is_idle()) owner_.store(this_thread_token(), std::memory_order_relaxed);
  // A child of fork has only copies: neither the parent's coroutines nor its handlers end here.
  if (inherited_by_fork()) return registry::delist(in_registry_);
  take_messages();
  // Its thread lives and will not run it any more. A ring may only be entered by that one, an epoll by any.
  if (!on_own_thread()) {
    owner_.store(this_thread_token(), std::memory_order_relaxed);
    while (backend_->take_known(*this) && turn_.has_results()) { // connections, which would be lost
      turn_.begin();
      deliver_inline();
    }
    (void)change_backend(-EPERM);
  }
  if (bound_ && bind_error_ == 0) {
    auto cancel_all = [this](descriptor& d) {
      for (io_operation* op = d.in_flight; op != nullptr;) {
        io_operation* const next = op->links.next_on_handle;
        cancel(*op);
        op = next;
      }
    };
    if (in_flight_ != 0) descriptors_.for_each(cancel_all);
    reach([&] { return is_idle(); });
  }
  while (!is_idle()) { // what other threads have started on one that cannot run
    take_messages();
    turn_.begin();
    deliver_inline();
  }
  if (landed_ != 0) discount_landed();
  drop_posted();
  registry::delist(in_registry_); // no thread posts from here on
  drop_posted();
}

} // namespace unio::driver
