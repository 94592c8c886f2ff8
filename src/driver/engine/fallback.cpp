// The backend on its first use; one that may not go on, and the one that takes its place while operations are
// in flight.
//
// Operations that the ring never took, or performs only when it is entered (sockets, pipes), are armed again
// on epoll. Operations that the kernel may have begun (files, open, zero-copy sends) are never performed
// again: the engine closes the ring, is notified of its end by a pipe whose far end the ring holds, and only
// then ends these operations, with the kernel's result, or with std::errc::state_not_recoverable if that is
// lost: each may have been done, or not.

#include "core/thread_token.hpp"
#include "driver/choose.hpp"
#include "driver/engine/rooms.hpp"

#include <algorithm>

namespace unio::inline v0_1::driver {

// On first use, and what came of it later.
int engine::bind() noexcept {
  if (inherited_by_fork()) return detail::native(error::inherited_by_fork);
  if (bound_) [[likely]]
    return bind_error_;
  bound_ = true;
  owner_.store(this_thread_token(), std::memory_order_relaxed);
  bind_error_ = backend_->bind(*this);
  open_ = bind_error_ == 0 && !closing_;
  return bind_error_;
}

// The backend may not go on (a seccomp filter that came later, say): epoll takes its place. What the kernel
// has not begun is armed again there. What it may have begun is never performed again, and its memory is the
// kernel's until the old one says that the kernel holds nothing any more.
int engine::change_backend(int why) noexcept {
  std::unique_ptr<backend> next = backend_after(*backend_, why, mail_.bell.fd());
  if (next == nullptr) return why;
  backend_->leave(*this);
  leaving_ = std::move(backend_);
  backend_ = std::move(next);
  if (int const b = backend_->bind(*this); b != 0) return b;
  bool any_stays = false;
  descriptors_.for_each([&](descriptor& d) {
    for (io_operation* op = d.in_flight; op != nullptr;) {
      io_operation* const following = op->links.next_on_handle;
      operation_links& l = op->links;
      bool const stays = l.submitted();
      if (what_follows(l.is.where, trigger::driver_lost) == reaction::rearm) {
        move(*op, place::at_hand);
        if (l.is.undelivered != 0) { // armed after its receiver has been notified
          move(*op, place::yielded);
        } else if (l.is.cancel_wanted || l.is.timed_out) {
          process(*op, -ECANCELED, 0);
        } else {
          go_on_with(*op);
        }
      }
      any_stays = any_stays || stays;
      op = following;
    }
  });
  if (!any_stays) leaving_.reset();
  return 0;
}

// Nothing wakes this thread when the kernel is done with what the backend before had: it looks now and then.
std::int64_t engine::reap_leaving(std::int64_t until) noexcept {
  constexpr std::int64_t between_looks_ns = 5'000'000;
  bool const gone = leaving_->has_left(*this);
  if (gone) leaving_.reset();
  if (turn_.has_ready()) return 0;
  return gone || until == 0 ? until : std::min(until, now() + between_looks_ns);
}

void engine::look_at(io_operation& op) noexcept {
  if (leaving_ != nullptr) [[unlikely]]
    (void)reap_leaving(0);
  if (op.links.is.undelivered != 0) return;
  if (int const e = backend_->look_at(*this, op); e < 0) (void)change_backend(e);
}

unio::capabilities engine::capabilities() const {
  unio::capabilities c;
  backend_->describe(c);
  c.why = why_this_driver(backend_->why_no_ring());
  return c;
}

} // namespace unio::driver
