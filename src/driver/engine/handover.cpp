// Operations that come from another thread, and go to one.

#include "driver/engine/rooms.hpp"
#include "driver/registry.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

#include <cerrno>

namespace unio::inline v0_1::driver {

namespace {

bool is_being_closed(io_operation const& op) noexcept {
  bool found = false;
  op.for_each_descriptor([&](int fd) { found = found || sys::is_awaited(fd); });
  return found;
}

} // namespace

// It is counted as pending and in flight already, and its moment is known.
void engine::take_over(io_operation& op) noexcept {
  operation_links& l = op.links;
  ++statistics.started;
  descriptor* const d = descriptors_.find(op.fd());
  int const e = d == nullptr ? -ENOMEM
                : closing_   ? detail::native(error::multiplexer_destroyed)
                             : ensure_bound();
  if (e != 0) [[unlikely]] {
    op.set_outcome(e);
    l.is.undelivered = all_events;
  }
  if ((l.is.undelivered & io_operation::done) != 0) { // only its receiver is still to be notified
    move(op, place::landed);
    ++landed_;
    return turn_.push(op);
  }
  ++in_flight_;
  list(op, *d);
  op.for_each_descriptor([this](int fd) { descriptors_.find(fd); });
  if (op.faces().for_each_descriptor != nullptr) ++several_descriptors_;
  if (l.due != forever) deadlines_.insert(op);
  // The thread that closes its descriptor may have asked this engine already.
  if (op.has_request(io_operation::request_cancel) || is_being_closed(op)) l.is.cancel_wanted = true;
  if (l.is.undelivered != 0) { // it goes on after that
    move(op, place::yielded);
    return turn_.push(op);
  }
  if (l.is.cancel_wanted && op.faces().interruptible && !has_members(op)) return process(op, -ECANCELED, 0);
  readiness const wants = op.faces().wants(op);
  if (wants == readiness::time) return move(op, place::timed);
  if (is_only_tried(op) || has_arrived(op)) return go_on_with(op);
  if (!has_members(op) && !worth_trying(op, *d)) return backend_->arm(*this, op, attempted::no, wants);
  if (perform_now(op)) return;
  if (!has_members(op)) return backend_->arm(*this, op, attempted::in_vain, op.faces().wants(op));
  move(op, place::with_members);
  if (!l.is.cancel_wanted) return;
  l.is.cancel_wanted = false;
  cancel(op);
}

void engine::rest() noexcept {
  wait_for_others();
  backend_.reset();
  leaving_.reset();
  mail_.bell.replace(-1);
  descriptors_.for_each([](descriptor& d) {
    d = {.in_flight = d.in_flight, .generation = d.generation, .reading = {}, .writing = {}};
  });
  owner_.store(nullptr, std::memory_order_relaxed);
}

void engine::open_again(std::unique_ptr<backend> b) noexcept {
  backend_ = std::move(b);
  mail_.bell.replace(backend_->give_doorbell());
  statistics = {};
  closing_ = bound_ = open_ = false;
  bind_error_ = 0;
  delivered_ = 0;
  notified_end_ = took_wake_ = false;
  turn_.begin();
  turn_.fetched();
  (void)mail_.take_wake();
  registry::enlist(in_registry_);
}

} // namespace unio::driver
