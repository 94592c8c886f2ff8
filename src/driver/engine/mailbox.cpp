// What came from other threads, and what is posted, is taken and run; sleeping and waking (mailbox.hpp).

#include "core/thread_token.hpp"
#include "driver/engine/rooms.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

namespace unio::inline v0_1::driver {

void doorbell::replace(int fd) noexcept {
  if (int const old = std::exchange(fd_, fd); old >= 0) sys::close(old);
}

void doorbell::ring() noexcept {
  std::uint64_t const one = 1;
  if (fd_ >= 0) sys::uninterrupted([&] { return sys::write(fd_, &one, sizeof one); });
}

void engine::post(work& w) noexcept {
  if (owner_.load(std::memory_order_relaxed) == this_thread_token() &&
      open_) { // it is awake, and no other thread looks
    return posted_here_.push(w);
  }
  mail_.post(w);
}

void engine::take_posted() noexcept {
  for (work* w = mail_.take_posts(); w != nullptr;) {
    work* const next = w->next;
    posted_here_.push(*w);
    w = next;
  }
}

bool engine::withdraw(work& w) noexcept {
  if (!on_own_thread()) return false;
  take_posted();
  return posted_now_.remove(w) || posted_here_.remove(w);
}

void engine::wake() noexcept { mail_.wake(); }

bool engine::take_wake_now() noexcept {
  bool const woken = mail_.take_wake() || (shared_ != nullptr && shared_->take_wake());
  took_wake_ = took_wake_ || woken;
  return woken;
}

bool engine::linger_now() noexcept {
  return for_workers_.is_worth_it() && for_workers_.linger([this] { return mail_.has_mail(); });
}

void engine::worker_done(io_operation& op) noexcept { mail_.give_back(op); }

void engine::take_messages_now() noexcept {
  turn_.queue_next_inline();
  if (shared_ != nullptr && shared_->unclaimed->may_have_some()) claim();
  for (io_operation* op = mail_.take_messages(); op != nullptr;) {
    io_operation* const next = op->next_message();
    std::uint32_t const asked = op->take_requests();
    if ((asked & io_operation::request_start) != 0)
      turn_.aside([&] { begin(*op, nullptr); }); // it may end at once; its receiver is notified later
    operation_links& l = op->links;
    if ((asked & io_operation::request_cancel) != 0) {
      bool const has_begun = l.is.where != place::idle || l.is.undelivered != 0;
      has_begun ? cancel(*op) : op->keep_request(io_operation::request_cancel);
    }
    if (l.is.undelivered != 0 && l.is.queue == queue_name::none) { // deferred by deliver()
      --deferred_;
      turn_.push(*op);
    }
    op = next;
  }
  for (io_operation* op = mail_.take_returns(); op != nullptr;) {
    io_operation* const next = op->links.next;
    op->links.next = nullptr;
    worker_returned(*op, op->outcome_value());
    op = next;
  }
}

void engine::perform_what_was_put_off() noexcept {
  turn_.perform_later_ones([this](io_operation& op) {
    move(op, place::at_hand);
    if (!perform_now(op)) await_readiness(op);
  });
}

int engine::run_posted(bound const& b, int at_most) noexcept {
  int n = 0;
  turn::delivering const scope(turn_);
  take_posted();
  posted_now_.append(posted_here_); // what they post is for the next turn
  bool const only_one = posted_now_.has_one();
  for (int left = at_most; left != 0 && !posted_now_.empty() && b.take(); --left) {
    work& w = *posted_now_.pop();
    ++n;
    begin_work(only_one && !has_results());
    outside const away(*this);
    w();
  }
  if (shared_ != nullptr) {
    int const shared = shared_->run_shared(std::min(b.left(), at_most));
    b.spend(shared);
    n += shared;
  }
  return n;
}

result<int> engine::do_invoke_posted(int max_items, std::int64_t until) noexcept {
  inside const here(*this);
  if (int const e = ensure_bound(); e != 0) return detail::to_error_code(e);
  turn_.renew();
  int const ran = run_posted(bound(*this, max_items, until), std::numeric_limits<int>::max());
  count_landed();
  return ran;
}

int engine::run_posted_anew(bound const& b) noexcept {
  int ran = 0;
  for (int turns = 0; turns != turn_budget && !b.spent(); ++turns) {
    // While others wait, they have their turn after so many.
    bool const others = in_flight_ != 0 || turn_.has_results();
    int const n = run_posted(b, others ? turn_budget : std::numeric_limits<int>::max());
    ran += n;
    if (n == 0 || !is_idle()) break;
  }
  return ran;
}

} // namespace unio::driver
