// An operation begins: it is tried at once where that is worth it, and otherwise given to the backend.

#include "core/thread_token.hpp"
#include "driver/engine/rooms.hpp"
#include "driver/registry.hpp"
#include "sys/calls.hpp"
#include "sys/fork.hpp"

#include <cerrno>

namespace unio::inline v0_1::driver {

engine::engine(std::unique_ptr<backend> b, shared_state* shared) noexcept
    : backend_(std::move(b)), shared_(shared), mail_(backend_->give_doorbell()) {
  fork_generation_ = sys::fork_generation();
  registry::enlist(in_registry_);
}

std::int64_t backend::now() const noexcept { return sys::steady_now(); }

bool engine::inherited_by_fork() const noexcept { return fork_generation_ != sys::fork_generation(); }

bool engine::on_own_thread() const noexcept {
  void const* const owner = owner_.load(std::memory_order_relaxed);
  return owner == nullptr || owner == this_thread_token();
}

int engine::ensure_bound() noexcept {
  if (inherited_by_fork()) return detail::native(error::inherited_by_fork);
  if (bound_) [[likely]]
    return bind_error_;
  bound_ = true;
  owner_.store(this_thread_token(), std::memory_order_relaxed);
  bind_error_ = backend_->bind(*this);
  open_ = bind_error_ == 0 && !closing_;
  return bind_error_;
}

// What has lately always succeeded has no more in it than it must, and calls nothing but what it ends with;
// what it leaves out, and what is rare, is done by the functions behind it.
void engine::start(io_operation& op) noexcept {
  if (op.is_atomic())
      [[unlikely]] // by another thread, perhaps, which must not look at anything of this one's
    return start_with_care(op);
  operation_faces const& f = op.faces();
  descriptor* const d = descriptors_.find_known(op.fd());
  if (f.perform_then != nullptr && d != nullptr && d->one_way(f.flow).is_sure() && open_ && turn_.is_free() &&
      !inherited_by_fork()) [[likely]] {
    ++statistics.started;
    return f.perform_then(op, &tried_bytes, this);
  }
  begin(op, d);
}

void engine::start_with_care(io_operation& op) noexcept {
  if (op.is_atomic() && !on_own_thread()) {
    if (shared_ != nullptr) return shared_->start_unclaimed(op);
    if (op.ask(io_operation::request_start)) mail_.send(op);
    return;
  }
  begin(op, nullptr);
}

bool engine::worth_trying(io_operation const& op, descriptor& d) noexcept {
  operation_faces const& f = op.faces();
  bool const predicted = f.tries == inline_attempt::predicted;
  if (predicted && d.direction_of(op).is_ready()) [[likely]]
    return true;
  if (is_only_tried(op) || f.tries == inline_attempt::always) return true;
  return predicted && d.direction_of(op).worth_trying();
}

inline bool engine::goes_with_others(io_operation const& op) noexcept {
  operation_faces const& f = op.faces();
  return f.goes_with_others != nullptr && backend_->prefers_batch(*this, op) && !is_only_tried(op) &&
         f.goes_with_others(op);
}

// `d`: what is known of its descriptor, or null.
void engine::begin(io_operation& op, descriptor* d) noexcept {
  operation_faces const& f = op.faces();
  ++statistics.started;
  if (!open_ || inherited_by_fork()) [[unlikely]]
    if (int const e = closing_ ? detail::native(error::multiplexer_destroyed) : ensure_bound(); e != 0)
      return fail(op, e);
  if (f.begin != nullptr) f.begin(op); // which may choose another descriptor
  if (d == nullptr || f.begin != nullptr) d = descriptors_.find(op.fd());
  if (d == nullptr) [[unlikely]]
    return fail(op, -ENOMEM);

  if (!worth_trying(op, *d)) return launch(op, *d, attempted::no);
  if (goes_with_others(op)) return launch(op, *d, attempted::with_others);
  tried(op, *d, f.perform(op, attempt::nonblocking));
}

// What an attempt on `d` has come to.
void engine::tried(io_operation& op, descriptor& d, int res) noexcept {
  descriptor* waits_on = nullptr;
  if (res != -EAGAIN) [[likely]] {
    ++statistics.inline_hits;
    d.direction_of(op).hit();
    if (op.faces().complete(op, res, 0) == outcome::finished) [[likely]]
      return settle_inline(op);
    waits_on = descriptors_.find(op.fd());
  } else {
    ++statistics.inline_misses;
    waits_on = &unready(op, d);
  }
  if (is_only_tried(op)) return fail(op, -EAGAIN);
  launch(op, *waits_on, attempted::in_vain);
}

void engine::tried(io_operation& op, int res) noexcept { tried(op, *descriptors_.find(op.fd()), res); }

} // namespace unio::driver
