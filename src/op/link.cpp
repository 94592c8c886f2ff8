// A chain of operations: one operation for a multiplexer, whose perform() starts the others.
//
//   start ──► perform: member 0 ──► finished inside start() ──► member 1 ──► … ──► complete
//                         │ has to wait                            ▲
//                         ▼                                        │ in full
//              the multiplexer runs it ──► told() ──► run() ───────┘
//                                            │ the last, or not in full
//                                            └──► io_multiplexer::member_ended: perform() has the result
//
// Members are quiet, as if a coroutine awaited them: a member that completes inside its start is not
// delivered, and the next follows in the same loop. So a chain that need not wait takes no turn of the
// multiplexer and constant stack.

#include "op/face.hpp"
#include "sys/due.hpp"

#include <unio/link.hpp>

namespace unio::inline v0_1 {
namespace detail {

// ---- the members ------------------------------------------------------------------------------------------

void chain::choose_multiplexer() noexcept {
  for (std::size_t i = 0; i != count_; ++i) {
    io_operation const& m = member(i);
    UNIO_EXPECTS(!m.is_multishot(), "an operation that yields many values cannot be a member of a chain");
    UNIO_EXPECTS(!m.is_atomic(), "no member of a chain is of an atomic form: the chain may be");
    if (m.own_multiplexer_ == nullptr) continue;
    UNIO_EXPECTS(own_multiplexer_ == nullptr || own_multiplexer_ == m.own_multiplexer_,
                 "the members of a chain are run by one multiplexer");
    own_multiplexer_ = m.own_multiplexer_;
  }
}

void chain::for_each_to_come(void (*f)(int fd, void* context), void* context) {
  for (std::size_t i = position_; i < count_; ++i)
    member(i).for_each_descriptor([=](int fd) { f(fd, context); });
}

// Members to come count as in flight, so that closing their handle ends the chain. Completed ones do not:
// neither for this chain nor for the chains that it is a member of.
void chain::pass() noexcept {
  for (chain const* c = this; c != nullptr; c = c->outer_)
    if (c->links.counts_as_in_flight()) current().for_each_descriptor(&sys::leave_flight);
  ++position_;
}

void chain::reclaim_members() noexcept {
  for (std::size_t i = 0; i != count_; ++i) {
    io_operation& m = member(i);
    if (m.finished() && m.faces().reclaim != nullptr) m.faces().reclaim(m);
  }
}

// ---- running ----------------------------------------------------------------------------------------------

void chain::reset() noexcept {
  io_operation::reset();
  begin();
}

void chain::begin() noexcept {
  reclaim_members(); // of an earlier run whose results were not taken
  position_ = 0;
  broken_ = stopped_ = false;
  for (std::size_t i = 0; i != count_; ++i) {
    io_operation& m = member(i);
    if (m.started()) m.reset();
    if (&m.faces() == &link_faces) {
      static_cast<chain&>(m).outer_ = this;
      static_cast<chain&>(m).begin();
    }
    m.set_outcome(-ECANCELED);
    entries_[i].bind(*this);
  }
  due_ = deadline::forever;
  if (!within_.is_zero()) due_ = sys::due(within_);
}

// Why the next member is not started, or 0. The first one always is: an operation that can be done at once
// beats the deadline.
int chain::refusal() const noexcept {
  if (stopped_) return -ECANCELED;
  return position_ != 0 && due_ != deadline::forever && sys::steady_now() >= due_ ? -ETIMEDOUT : 0;
}

// Whichever deadline comes first ends the member.
void chain::tighten(io_operation& m) noexcept {
  if (within_.is_none()) return;
  unio::deadline& its = deadline_of(m);
  own_ = its;
  if (within_.is_zero()) {
    its = within_;
  } else if (!own_.is_zero()) {
    if (sys::due(own_) <= due_) return;
    using clock = std::chrono::steady_clock;
    its = clock::time_point(std::chrono::nanoseconds(due_));
  }
}

void chain::loosen(io_operation& m) noexcept {
  if (!within_.is_none()) deadline_of(m) = own_;
}

// A chain's own deadline is for its members.
unio::deadline& chain::deadline_of(io_operation& m) noexcept {
  return &m.faces() == &link_faces ? static_cast<chain&>(m).within_ : m.deadline_;
}

bool chain::run(attempt how) noexcept {
  if (advancing_) return false; // a member ended inside its start: the loop below sees it
  advancing_ = true;
  while (!is_over()) {
    io_operation& m = current();
    if (!m.started()) {
      if (int const code = refusal(); code != 0) {
        m.refuse(code);
        broken_ = true;
        break;
      }
      tighten(m);
      if (how == attempt::blocking) {
        m.run_blocking();
      } else {
        m.start(multiplexer());
      }
    }
    if (!m.finished()) break;
    loosen(m);
    if (entries_[position_].in_full(*this)) {
      pass();
    } else {
      broken_ = true;
    }
  }
  advancing_ = false;
  return is_over();
}

void chain::told(io_operation& m, unsigned events) noexcept {
  if ((events & done) == 0) return;
  m.mark_finished();
  if (advancing_) return;
  (void)run(attempt::nonblocking);
  multiplexer()->member_ended(*this); // this object may be destroyed by now
}

void chain::stop() noexcept {
  stopped_ = true;
  if (!is_over() && current().in_flight()) current().cancel();
}

void chain::pass_on_failure() noexcept {
  if (outcome_value() >= 0 || is_over()) return;
  for (std::size_t i = position_; i != count_; ++i)
    if (!member(i).finished()) member(i).set_outcome(i == position_ ? outcome_value() : -ECANCELED);
}

} // namespace detail

// ---- the faces --------------------------------------------------------------------------------------------

namespace {

detail::chain& self(io_operation& op) noexcept { return static_cast<detail::chain&>(op); }

void begin(io_operation& op) noexcept { self(op).begin(); }

int perform(io_operation& op, attempt how) noexcept {
  return self(op).run(how) ? static_cast<int>(self(op).completed_members()) : -EAGAIN;
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  if (res == -EAGAIN) return outcome::again;
  if (res == -ECANCELED && !self(op).is_over()) { // it ends when the running member ends
    self(op).stop();
    return outcome::pending;
  }
  op.set_outcome(res);
  return outcome::finished;
}

void reclaim(io_operation& op) noexcept { self(op).reclaim_members(); }

void for_each_descriptor(io_operation const& op, void (*f)(int fd, void* context), void* context) {
  static_cast<detail::chain&>(const_cast<io_operation&>(op)).for_each_to_come(f, context);
}

io_operation& member(io_operation& op) noexcept { return self(op).current(); }

} // namespace

constinit operation_faces const detail::link_faces = {.name = "link",
                                                      .tries = inline_attempt::always,
                                                      .flow = direction::either,
                                                      .begin = begin,
                                                      // for a multiplexer that knows no chains
                                                      .wants = op::wants<readiness::retry>,
                                                      .perform = perform,
                                                      .complete = complete,
                                                      .reclaim = reclaim,
                                                      .for_each_descriptor = for_each_descriptor,
                                                      .member = member};

} // namespace unio
