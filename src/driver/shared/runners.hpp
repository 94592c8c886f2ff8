// src/driver/shared/runners.hpp: threads become runners of a multiplexer, by their first turn or blocking
// call, until they end.

#pragma once

#include "driver/shared/crew.hpp"
#include "driver/shared/members.hpp"

#include <atomic>
#include <mutex>

namespace unio::inline v0_1::driver {

class runners : public members, public crew {
 protected:
  using crew::crew;
  ~runners() = default;

  /// The calling thread's engine, or null.
  [[nodiscard]] engine* my_engine() const noexcept {
    slot const* const s = find_mine();
    return s != nullptr ? s->own_engine() : nullptr;
  }
  /// The same; a thread that has none becomes a runner. Null: it cannot, and none() says why.
  [[nodiscard]] engine* mine() noexcept {
    if (engine* const e = my_engine(); e != nullptr) [[likely]]
      return e;
    return become_one();
  }
  [[nodiscard]] result<int> none() const noexcept;
  [[nodiscard]] int why_none() const noexcept { return why_none_.load(std::memory_order_relaxed); }
  /// A pool's thread leaves: what it has in flight ends as canceled.
  void quit() noexcept;

 private:
  /// A thread ends: what its engine runs and what waits in its slot is for the others.
  void retire(slot& s) noexcept override;
  [[gnu::noinline]] engine* become_one() noexcept;
  slot* free_slot() noexcept;

  std::mutex making_;
  std::atomic<int> why_none_ = 0;
};

} // namespace unio::driver
