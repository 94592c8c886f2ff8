// An operation: how it is moved and ended, and run by a blocking call. awaiting.cpp starts it.

#include "driver/inline.hpp"
#include "driver/this_thread.hpp"

#include <utility>

namespace unio::inline v0_1 {

io_operation& io_operation::operator=(io_operation&& other) noexcept {
  if (this == &other) return *this;
  char const* const misused = "an operation in flight cannot be moved";
  (void)state_at_rest(misused);
  state_ = other.state_at_rest(misused);
  faces_ = other.faces_;
  multiplexer_ = nullptr;
  own_multiplexer_ = other.own_multiplexer_;
  notify_ = other.notify_;
  result_ = other.result_;
  deadline_ = other.deadline_;
  fd_ = other.fd_;
  kind_ = other.kind_;
  quiet_ = other.quiet_;
  multishot_ = other.multishot_; // message_link_ stays: it is about this object's own members
  other.fd_ = -1;
  return *this;
}

void io_operation::misused_in_flight(char const* message) noexcept {
  detail::broken_precondition("!in_flight()", message, __FILE__, __LINE__);
}

// ---- an atomic form, between the call of set_done and its return ------------------------------------------

io_operation::ending*& io_operation::ending::innermost() noexcept {
  static constinit thread_local ending* first = nullptr;
  return first;
}

io_operation::ending::ending(io_operation& op) noexcept : op_(&op), outer_(std::exchange(innermost(), this)) {
  op.set(bit_completed | bit_ending);
}

io_operation::ending::~ending() {
  innermost() = outer_;
  // One step: as soon as it has finished another thread may destroy it.
  if (op_ != nullptr) op_->state().fetch_xor(bit_ending | bit_finished, std::memory_order_acq_rel);
}

bool io_operation::ends_here() const noexcept {
  for (ending const* e = ending::innermost(); e != nullptr; e = e->outer_)
    if (e->op_ == this) return true;
  return false;
}

bool io_operation::leave_ending() noexcept {
  if ((load() & (bit_ending | bit_finished)) == 0) return false;
  for (ending* e = ending::innermost(); e != nullptr; e = e->outer_) {
    if (e->op_ != this) continue;
    e->op_ = nullptr;
    state().fetch_xor(bit_ending | bit_finished, std::memory_order_acq_rel);
    return true;
  }
  if (!is_marked_finished()) multiplexer()->finish(*this);
  return true;
}

std::uint32_t io_operation::state_after_ending(char const* misused) noexcept {
  if (!leave_ending()) misused_in_flight(misused);
  return load();
}

// ---- running ----------------------------------------------------------------------------------------------

void io_operation::refuse(int native_code) noexcept {
  UNIO_EXPECTS(faces_ != nullptr && !started(),
               "an operation can be started once; reset() makes it startable again");
  if (faces_->begin != nullptr) faces_->begin(*this);
  result_ = native_code;
  state().store(bit_started | bit_completed | bit_finished, std::memory_order_relaxed);
}

io_status io_operation::look() noexcept { return multiplexer()->poll(*this); }

void io_operation::cancel() noexcept {
  std::uint32_t const s = load();
  if ((s & (bit_started | bit_finished)) == bit_started) multiplexer()->cancel(*this);
}

int io_operation::canceled_code() const noexcept { return links.is.timed_out ? -ETIMEDOUT : -ECANCELED; }

failure io_operation::failed() const noexcept {
  // Not worth a copy of the object: those happen all the time, and are no errors.
  bool const is_ordinary = result_ == -EAGAIN || result_ == -ECANCELED;
  if (faces_->object != nullptr && !is_ordinary) {
    detail::failed_object o;
    if (faces_->object(*this, o)) return detail::failed(result_, faces_->name, o);
  }
  return detail::failed(result_, faces_->name, fd_);
}

void io_operation::told_after_abandon(io_operation& op, unsigned events) noexcept {
  if ((events & value) != 0 && op.faces_->reclaim != nullptr) op.faces_->reclaim(op);
  if ((events & done) != 0) op.mark_finished();
}

void io_operation::abandon_in_flight() noexcept {
  if (leave_ending()) return;
  // From here on the receiver is not called; what was obtained is reclaimed.
  if (is_atomic()) { // another thread may be calling the receiver
    state().fetch_or(bit_abandoned, std::memory_order_acq_rel);
  } else {
    notify_ = &told_after_abandon;
  }
  multiplexer()->abandon(*this);
  // A child made by fork has only the memory of its parent's operations: there is nothing to wait for.
  state().fetch_or(bit_finished, std::memory_order_relaxed);
}

void io_operation::run_blocking() noexcept {
  UNIO_EXPECTS(faces_ != nullptr && !started(),
               "an operation can be started once; reset() makes it startable again");
  // The receiver is not called for this run, but for the next one.
  auto const untold = [this](auto run) noexcept {
    notification const receiver = notify_;
    bool const was_quiet = quiet_;
    quiet_ = true;
    notify_ = [](io_operation& op, unsigned events) noexcept {
      if ((events & done) != 0) op.mark_finished();
    };
    run();
    quiet_ = was_quiet;
    notify_ = receiver;
  };
  if (own_multiplexer_ != nullptr)
    return untold([this] {
      own_multiplexer_->join_in(); // this thread runs it while it waits
      start();
      if (!finished()) multiplexer()->finish(*this);
    });
  links.is = driver::operation_links::marks{};
  state().store(bit_started, std::memory_order_relaxed);
  io_multiplexer* const threads_own = detail::shortcut.get();
  if (threads_own != nullptr && driver::has_to_move(*threads_own)) {
    runner().store(threads_own, std::memory_order_relaxed); // what it is made of is started there
    untold([&] { driver::run_driving(*this, *threads_own); });
  } else {
    driver::run_inline(*this);
  }
  mark_finished();
}

} // namespace unio
