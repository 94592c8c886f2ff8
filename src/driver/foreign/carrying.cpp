// Transfers of a foreign_reactor that are of a watch: their calls are made here and now, and again when the
// watch reports. A ring makes them itself.

#include "driver/foreign/perform.hpp"
#include "driver/foreign/state.hpp"

#include <cerrno>

namespace unio::inline v0_1 {
namespace {

bool is_over(foreign_transfer& t, std::int64_t result) noexcept {
  foreign_access::result(t) = result;
  return true;
}

} // namespace

bool foreign_reactor::state::start(foreign_transfer& t, foreign_watch& w) noexcept {
  for (;;) {
    // Acquire: pairs with the release of add(), and of foreign_transfers::ready().
    bool const is_added = foreign_access::is_added(w).load(std::memory_order_acquire);
    std::uint32_t const changes = foreign_access::changes(w).load(std::memory_order_acquire);
    if (is_added && w.can_wait()) {
      unsigned const unready = foreign_access::unready(w).load(std::memory_order_relaxed);
      if ((unready & driver::readiness_of(t)) == 0 || driver::connects(t))
        if (std::int64_t const r = driver::perform_unwaiting(t); r != -EAGAIN) return is_over(t, r);
    } else if (is_added) {
      if (!driver::is_of_file(t)) return is_over(t, driver::perform_unwaiting(t));
      return foreign_transfers::make_at_once(t) || begin(t);
    }
    std::scoped_lock const guard(lock);
    if (driver->makes_transfers()) {
      (void)transfers.begin(t, *driver);
      tell_sleeper();
      return false;
    }
    if (!foreign_access::is_added(w).load(std::memory_order_relaxed)) {
      if (int const e = add_carrying(w); e < 0) return is_over(t, e);
      continue;
    }
    if (changes != foreign_access::changes(w).load(std::memory_order_relaxed)) continue;
    int const e = transfers.wait(t, *driver);
    return e != 0 && is_over(t, e);
  }
}

bool foreign_reactor::state::begin(foreign_transfer& t) noexcept {
  std::unique_lock guard(lock);
  bool const is_begun = transfers.begin(t, *driver);
  if (is_begun) tell_sleeper();
  guard.unlock();
  if (!is_begun) [[unlikely]]
    foreign_transfers::make_now(t);
  return false;
}

std::size_t foreign_reactor::state::carry(foreign_event* events, std::size_t found) noexcept {
  std::size_t others = 0;
  for (std::size_t i = 0; i != found; ++i) {
    foreign_watch* const w = events[i].watch;
    if (w == nullptr || !foreign_access::carries(*w).load(std::memory_order_relaxed)) {
      events[others++] = events[i];
      continue;
    }
    std::scoped_lock const guard(lock);
    transfers.ready(*w, events[i].what);
  }
  return others;
}

} // namespace unio
