// Starts that go to the kernel together, outside of a turn: a loop that is not unio's has said that more of
// its handlers follow. They are where the starts of a turn are, so that what ends, takes over or closes these
// knows of them. A ring that is full has them submitted before (ring_client::arm).

#include "driver/engine/rooms.hpp"

namespace unio::inline v0_1::driver {

bool engine::hold_starts() noexcept {
  if (inherited_by_fork() || !on_own_thread()) return false;
  inside const here(*this);
  if (ensure_bound() != 0) return false;
  turn_.hold();
  return true;
}

void engine::release_starts() noexcept {
  if (inherited_by_fork() || !on_own_thread()) return;
  inside const here(*this);
  if (!turn_.release() || !open_) return;
  // What the kernel does not take now, for want of memory say, the next turn gives it.
  for (std::uint64_t before = ~std::uint64_t{0};
       backend_->has_unsubmitted() && before != statistics.submissions;) {
    before = statistics.submissions;
    backend_->submit(*this);
  }
}

} // namespace unio::driver
