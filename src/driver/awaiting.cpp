// An operation is started, and a coroutine waits for it.
//
//   await_ready ── start ──► finished: continues without suspending
//        │                        ▲
//        └► suspend ──► notify ───┴► dispatch: at once, or queued as a resumption
//              │           ▲
//              └── stop ───┘ (cancel)
//
// A stop may come from any thread, so where one is possible the operation is of the atomic kind. So it is
// where several threads run the multiplexer: once its coroutine is suspended, another one may take it over.
// If another thread runs its multiplexer, the operation is started last of all, when the coroutine is
// suspended, because it may resume there at once.

#include "driver/recording.hpp"
#include "driver/this_thread.hpp"
#include "sys/calls.hpp"
#include "sys/give_way.hpp"
#include "sys/probes.hpp"

#include <unio/connect.hpp>
#include <unio/detail/promise.hpp>

#include <utility>

namespace unio::inline v0_1 {

io_multiplexer& io_operation::chosen(io_multiplexer* m) const noexcept {
  return detail::choose(own_multiplexer_, m);
}

void io_operation::start_on(io_multiplexer& m) noexcept {
  UNIO_EXPECTS(faces_ != nullptr && !started(),
               "an operation can be started once; reset() makes it startable again");
  links.is = driver::operation_links::marks{};
  started_at([]() noexcept -> std::int64_t { return sys::steady_now(); });
  static constexpr auto begin = [] [[gnu::always_inline]] (io_operation & op, io_multiplexer & runs,
                                                           std::uint32_t begun) noexcept {
    op.runner().store(&runs, std::memory_order_relaxed);
    // Release; pairs with started(): a stop may come from another thread.
    op.state().store(begun, std::memory_order_release);
    [[maybe_unused]] auto const at = [&op](auto& member) noexcept {
      return static_cast<int>(reinterpret_cast<char const*>(&member) - reinterpret_cast<char const*>(&op));
    };
    UNIO_PROBE(operation_started, &op, at(op.faces_), at(op.fd_), at(op.result_));
    if (driver::is_recording()) [[unlikely]]
      return driver::start_recorded(op, runs);
    runs.start(op);
  };
  static constexpr auto begin_atomic = [] [[gnu::noinline]] (io_operation & op,
                                                             io_multiplexer & runs) noexcept {
    begin(op, runs.of_this_thread(), op.common_ ? bit_started | bit_takeable : bit_started);
  };
  is_atomic() ? begin_atomic(*this, m) : begin(*this, m, bit_started);
}

[[gnu::flatten]] void io_operation::start(io_multiplexer* m) noexcept { start_on(chosen(m)); }

namespace detail {

// In each of these, what is rarer is a function of its own, called last: the common case keeps nothing across
// a call.

void awaiting::start(io_operation& op) noexcept {
  static constexpr auto on_another = [] [[gnu::noinline]] (awaiting & self, io_operation & o,
                                                           io_multiplexer & runs) noexcept {
    // One of several threads finds its place there, once.
    io_multiplexer& here = runs.is_shared() ? runs.of_this_thread() : runs;
    bool const elsewhere = &here == &runs && runs.runs_elsewhere();
    if (elsewhere || runs.is_shared()) o.set_atomic(self.next_message_);
    if (elsewhere) return o.set_quiet(false);
    o.set_quiet();
    o.start_on(here);
  };
  static constexpr auto with_care = [] [[gnu::noinline]] (awaiting & self, io_operation & o) noexcept {
    environment const& e = *self.environment_;
    if (e.stop.stop_requested()) return o.refuse(-ECANCELED);
    if (e.stop.stop_possible()) o.set_atomic(self.next_message_);
    on_another(self, o, choose(o.own_multiplexer_, e.multiplexer));
  };
  environment const& e = *environment_;
  io_multiplexer* const own = shortcut.get();
  io_multiplexer* m = op.own_multiplexer_ != nullptr ? op.own_multiplexer_ : e.multiplexer;
  if (m == nullptr) m = own;
  if (e.stop.stop_possible() || m == nullptr) return with_care(*this, op);
  if (m != own) return on_another(*this, op, *m);
  op.set_quiet();
  op.start_on(*m);
}

bool awaiting::suspend(io_operation& op, std::coroutine_handle<> h) noexcept {
  static constexpr auto with_care = [] [[gnu::noinline]] (awaiting & self,
                                                          io_operation & o) noexcept -> bool {
    stop_token const stop = self.environment_->stop;
    bool const elsewhere = !o.started();
    bool const stopped = stop.stop_possible() && !self.attach(stop);
    if (elsewhere && stopped) return o.refuse(-ECANCELED), false;
    o.set_awaited(true);
    if (elsewhere) {
      // From here on it may end, and its coroutine too, at any moment.
      o.start(self.environment_->multiplexer);
      return true;
    }
    if (stopped) o.cancel();
    if (o.is_atomic()) o.let_be_taken(); // and resumed, at any moment
    return true;
  };
  handle_ = h;
  op.awaited_by(h);
  UNIO_PROBE(coroutine_suspended, &op, h.address());
  if (environment_ == nullptr) return true;
  if (environment_->stop.stop_possible() || !op.started()) return with_care(*this, op);
  op.set_awaited(true);
  if (op.is_atomic()) op.let_be_taken_unasked(); // and resumed, at any moment
  return true;
}

void awaiting::stop(io_operation& op) noexcept {
  sys::await_other([&] { return op.started(); }); // suspend() is starting it on another thread
  op.cancel();
}

void awaiting::notify(io_operation& op) noexcept {
  static constexpr auto go_on = [] [[gnu::always_inline]] (awaiting & self, io_operation & o) noexcept {
    environment const* const e = self.environment_;
    std::coroutine_handle<> const h = std::exchange(self.handle_, nullptr);
    UNIO_PROBE(coroutine_resumed, &o, h.address());
    if (e == nullptr) {
      o.mark_finished();
      return resume(h);
    }
    static_assert(sizeof(resumption) <= sizeof(driver::operation_links) &&
                  alignof(resumption) <= alignof(driver::operation_links));
    // The links of an operation that has ended are free: the node that resumes the coroutine takes their
    // place.
    auto* const r = ::new (static_cast<void*>(&o.links)) resumption(h, e);
    executor_ref const executor = e->executor;
    o.mark_finished();
    resume(executor.dispatch(*r));
  };
  static constexpr auto detached = [] [[gnu::noinline]] (awaiting & self, io_operation & o) noexcept {
    self.detach(self.environment_->stop);
    go_on(self, o);
  };
  bool const may_be_stopped = environment_ != nullptr && environment_->stop.stop_possible();
  may_be_stopped ? detached(*this, op) : go_on(*this, op);
}

void awaiting::leave(io_operation& op) noexcept {
  bool const queued = handle_ == nullptr; // it has ended, and notify() was the last to use this object
  if (!queued) {
    if (environment_->stop.stop_possible()) detach(environment_->stop);
    return;
  }
  auto& r = *std::launder(reinterpret_cast<resumption*>(&op.links));
  r.take_back(environment_->executor);
}

} // namespace detail
} // namespace unio
