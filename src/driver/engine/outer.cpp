// Another loop waits where this would sleep: what it has to know, and what would be lost otherwise.
//
//   before_outer_wait    all is with the kernel; nothing is ready; `asleep` is set (mailbox.hpp)
//   … the other loop sleeps on the backend's descriptor and a timer …
//   another thread       push; `asleep`? ring the bell, which makes the descriptor readable
//   run                  takes what is there, as always
//
// `asleep` stays set until somebody rings, also while the engine runs: then one ring is in vain. It is set
// again before each wait, and what was brought before that is seen then.

#include "driver/engine/rooms.hpp"

namespace unio::inline v0_1::driver {

engine::outer_wait engine::before_outer_wait() noexcept {
  // Nothing tells when the backend before has ended what it was given (fallback.cpp).
  constexpr std::int64_t between_looks_ns = 5'000'000;
  if (int const e = ensure_bound(); e != 0) return {e, -1, 0};
  backend const* const asked = backend_.get();
  int const fd = backend_->wait_descriptor();
  if (fd < 0) return {change_backend(fd), -1, 0}; // the ring was forbidden
  outer_wait const now_already{0, fd, 0};
  take_messages();
  if (turn_.has_ready() || turn_.has_inline() || has_posted()) return now_already;
  int const r = reap(0);
  if (r < 0) return {r, -1, 0};
  take_messages();
  bool const quiet = !turn_.has_ready() && !turn_.has_inline() && !has_posted();
  if (r > 0 || !quiet || backend_.get() != asked || !backend_->is_told(*this)) return now_already;
  std::int64_t until = next_due();
  if (leaving_ != nullptr) until = std::min(until, now() + between_looks_ns);
  if (until <= now() || before_sleep()) return now_already;
  return {0, fd, until};
}

} // namespace unio::driver
