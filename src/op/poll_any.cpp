// async_poll_any: waiting until one of several handles is ready.
//
//   look at all, by one poll(2) ── some are ready ─────────────────────► how many
//        │ none                                                            ▲
//        ▼                                                                 │ look at all once more
//   each entry starts: an operation that waits for its descriptor          │
//        │ one of them ends; or a stop, or the deadline                    │
//        ▼                                                                 │
//   the others are stopped ── the last one has ended, told() ──────────────┘
//
// A blocking call is that poll(2), which then sleeps.
//
// An entry is quiet, as if a coroutine awaited it. On epoll one that is waited for several things wants
// `exceptional`, for which each edge has it looked at. A ring waits for all of them.

#include "driver/poll_events.hpp"
#include "op/face.hpp"
#include "sys/due.hpp"

#include <unio/poll_any.hpp>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

namespace unio::inline v0_1 {
namespace {

constexpr std::int64_t at_once = 0;

readiness_set what_kind(readiness_set what) noexcept {
  return what & (readiness_set::readable | readiness_set::writable | readiness_set::exceptional);
}

} // namespace

/// Private state of both operations.
struct detail::poll_access {
  static poll_entry& entry(io_operation& op) noexcept { return static_cast<poll_entry&>(op); }
  static poll_entry const& entry(io_operation const& op) noexcept {
    return static_cast<poll_entry const&>(op);
  }
  static async_poll_any& whole(io_operation& op) noexcept { return static_cast<async_poll_any&>(op); }

  static io_multiplexer* multiplexer_of(std::span<poll_entry const> entries) noexcept {
    io_multiplexer* chosen = nullptr;
    for (poll_entry const& e : entries) {
      if (e.own_multiplexer_ == nullptr) continue;
      UNIO_EXPECTS(chosen == nullptr || chosen == e.own_multiplexer_,
                   "the handles that are waited for together are run by one multiplexer");
      chosen = e.own_multiplexer_;
    }
    return chosen;
  }

  // ---- all of them ----------------------------------------------------------------------------------------

  /// Why it cannot be: a negative code, or 0.
  static int refusal(async_poll_any const& w) noexcept {
    if (w.entries_.empty()) return native(error::no_handles);
    if (w.entries_.size() > async_poll_any::most) return native(error::too_many_handles);
    bool const is_open = std::ranges::all_of(w.entries_, [](poll_entry const& e) { return e.fd() >= 0; });
    return is_open ? 0 : -EBADF;
  }

  static int count_ready(async_poll_any const& w) noexcept {
    return static_cast<int>(std::ranges::count_if(w.entries_, &poll_entry::is_ready));
  }

  /// Looks at all, and waits until one is ready or the moment has come. How many are; -EAGAIN: none. Adds to
  /// what was found before.
  static int look(async_poll_any& w, std::int64_t until) noexcept {
    pollfd each[async_poll_any::most];
    auto const n = static_cast<unsigned>(w.entries_.size());
    for (unsigned i = 0; i != n; ++i) {
      poll_entry const& e = w.entries_[i];
      each[i] = {.fd = e.fd(), .events = static_cast<short>(driver::poll_events(e.wanted_)), .revents = 0};
    }
    for (;;) {
      timespec left{};
      if (until != at_once && until != deadline::forever) {
        std::int64_t const ns = std::max<std::int64_t>(0, until - sys::steady_now());
        left = {.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
      }
      auto const r = static_cast<int>(sys::poll(each, n, until == deadline::forever ? nullptr : &left));
      if (r == -EINTR) continue;
      if (r < 0) return r;
      bool is_closed = false;
      for (unsigned i = 0; i != n && r != 0; ++i) {
        auto const events = static_cast<unsigned short>(each[i].revents);
        is_closed = is_closed || (events & POLLNVAL) != 0;
        w.entries_[i].found_ |= driver::found_in(events);
      }
      if (is_closed) return -EBADF;
      if (int const ready = count_ready(w); ready != 0) return ready;
      // Woken for nothing, it waits again.
      if (until == at_once || (until != deadline::forever && sys::steady_now() >= until)) return -EAGAIN;
    }
  }

  static void begin(async_poll_any& w) noexcept {
    w.running_ = 0;
    w.why_ = 0;
    w.waits_ = w.stops_ = false;
    bool const is_simulated = !sys::kernel_answers();
    for (poll_entry& e : w.entries_) {
      if (e.started()) e.reset();
      e.whole_ = &w;
      e.found_ = readiness_set::none;
      e.runs_ = false;
      e.only_looks_ = is_simulated;
      e.set_quiet();
      e.set_notification(&told);
    }
  }

  static int perform(async_poll_any& w, attempt how) noexcept {
    if (w.waits_) return go_on(w);
    if (int const code = refusal(w); code != 0) return code;
    if (how == attempt::blocking) {
      int const r = look(w, sys::due(w.deadline()));
      return r == -EAGAIN ? -ETIMEDOUT : r;
    }
    if (int const r = look(w, at_once); r != -EAGAIN || w.deadline().is_zero()) return r;
    start_all(w);
    return w.running_ == w.entries_.size() ? -EAGAIN : go_on(w);
  }

  static void start_all(async_poll_any& w) noexcept {
    w.waits_ = w.starts_ = true;
    w.running_ = static_cast<std::uint32_t>(w.entries_.size());
    for (poll_entry& e : w.entries_) e.runs_ = e.is_looked_at_ = true;
    for (poll_entry& e : w.entries_) {
      e.start(w.multiplexer());
      if (e.is_marked_finished()) ended(e);
    }
    w.starts_ = false;
  }

  /// Once one has ended the others are to end. Before that it is the last look before the deadline, or one of
  /// a multiplexer that says nothing of members.
  static int go_on(async_poll_any& w) noexcept {
    if (w.running_ == 0) return came_to(w);
    if (w.stops_) return -EAGAIN;
    if (w.running_ == w.entries_.size()) return look(w, at_once);
    stop(w);
    return -EAGAIN;
  }

  /// What one has found counts even if it is gone by now.
  static int came_to(async_poll_any& w) noexcept {
    if (w.why_ == 0 || count_ready(w) != 0) (void)look(w, at_once);
    if (int const ready = count_ready(w); ready != 0) return ready;
    if (w.why_ != 0) return w.why_;
    for (poll_entry const& e : w.entries_)
      if (e.outcome_value() != -ECANCELED) return e.outcome_value();
    return -ECANCELED;
  }

  static outcome complete(async_poll_any& w, int res) noexcept {
    if (res == -EAGAIN) return outcome::again;
    if (res == -ECANCELED) res = w.canceled_code();
    if (w.running_ != 0) { // it ends when the last one has
      if (w.why_ == 0 && res < 0) w.why_ = res;
      stop(w);
      return outcome::pending;
    }
    w.waits_ = false;
    w.set_outcome(res);
    return outcome::finished;
  }

  static void stop(async_poll_any& w) noexcept {
    if (std::exchange(w.stops_, true)) return;
    for (poll_entry& e : w.entries_)
      if (e.runs_) e.cancel();
  }

  static void ended(poll_entry& e) noexcept {
    if (std::exchange(e.runs_, false)) --e.whole_->running_;
  }

  static void told(io_operation& op, unsigned events) noexcept {
    if ((events & io_operation::done) == 0) return;
    op.mark_finished();
    async_poll_any& w = *entry(op).whole_;
    ended(entry(op));
    if (!w.starts_) w.multiplexer()->member_ended(w); // it may be destroyed by now
  }

  /// The one to look at: one that is ready, if that is known.
  static io_operation& member(async_poll_any& w) noexcept {
    if (!w.stops_) (void)look(w, at_once);
    auto const runs = [](poll_entry const& e) { return e.runs_; };
    auto const may_end = [&](poll_entry const& e) { return e.runs_ && e.is_ready(); };
    auto const it = std::ranges::find_if(w.entries_, may_end);
    return it != w.entries_.end() ? *it : *std::ranges::find_if(w.entries_, runs);
  }

  // ---- one of them ----------------------------------------------------------------------------------------

  static bool waits_for_one(poll_entry const& e) noexcept {
    return std::has_single_bit(bits(what_kind(e.wanted_)));
  }

  static bool prepare(poll_entry const& e, io_uring_sqe& sqe) noexcept {
    sqe.opcode = IORING_OP_POLL_ADD;
    sqe.fd = e.fd();
    sqe.poll32_events = driver::ring_poll_events(e.wanted_);
    return true;
  }

  static readiness wants(poll_entry const& e) noexcept {
    if (!waits_for_one(e)) return e.only_looks_ ? readiness::retry : readiness::exceptional;
    if (has(e.wanted_, readiness_set::readable)) return readiness::readable;
    return has(e.wanted_, readiness_set::writable) ? readiness::writable : readiness::exceptional;
  }

  /// As a ring's: the events, or -errno.
  static int perform(poll_entry& e) noexcept {
    if (std::exchange(e.is_looked_at_, false)) return -EAGAIN;
    pollfd p{.fd = e.fd(), .events = static_cast<short>(driver::poll_events(e.wanted_)), .revents = 0};
    timespec const no_time{};
    int const r = op::uninterrupted([&] { return sys::poll(&p, 1, &no_time); });
    if (r <= 0) return r == 0 ? -EAGAIN : r;
    return (p.revents & POLLNVAL) != 0 ? -EBADF : static_cast<unsigned short>(p.revents);
  }

  static outcome complete(poll_entry& e, int res) noexcept {
    if (!driver::is_news(res, driver::ring_poll_events(e.wanted_))) return outcome::again;
    if (res > 0) e.found_ |= driver::found_in(static_cast<unsigned>(res));
    return op::decode(e, res);
  }
};

namespace {

using access = detail::poll_access;

} // namespace

async_poll_any::async_poll_any(std::span<poll_entry> entries, unio::deadline d) noexcept
    : io_operation(detail::poll_any_faces, handle_kind::none, -1, access::multiplexer_of(entries), d),
      entries_(entries) {}

constinit operation_faces const detail::poll_entry_faces = {
    .name = "poll",
    .tries = inline_attempt::always,
    .flow = direction::either,
    .prepare = [](io_operation& op, io_uring_sqe& sqe,
                  bool) noexcept { return access::prepare(access::entry(op), sqe); },
    .wants = [](io_operation const& op) noexcept { return access::wants(access::entry(op)); },
    .perform = [](io_operation& op, attempt) noexcept { return access::perform(access::entry(op)); },
    .complete = [](io_operation& op, int res,
                   unsigned) noexcept { return access::complete(access::entry(op), res); }};

constinit operation_faces const detail::poll_any_faces = {
    .name = "poll_any",
    .tries = inline_attempt::always,
    .flow = direction::either,
    .begin = [](io_operation& op) noexcept { access::begin(access::whole(op)); },
    .wants = op::wants<readiness::retry>, // for a multiplexer that knows no members
    .perform = [](io_operation& op, attempt how) noexcept { return access::perform(access::whole(op), how); },
    .complete = [](io_operation& op, int res,
                   unsigned) noexcept { return access::complete(access::whole(op), res); },
    .for_each_descriptor =
        [](io_operation const& op, void (*f)(int fd, void* context), void* context) {
          for (poll_entry const& e : static_cast<async_poll_any const&>(op).entries())
            f(e.native_handle(), context);
        },
    .member = [](io_operation& op) noexcept -> io_operation& { return access::member(access::whole(op)); },
    .members_together = true};

} // namespace unio
