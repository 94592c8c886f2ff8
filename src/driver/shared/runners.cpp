#include "driver/shared/runners.hpp"

#include "driver/choose.hpp"
#include "sys/calls.hpp"

#include <cerrno>
#include <new>
#include <utility>

namespace unio::inline v0_1::driver {

result<int> runners::none() const noexcept { return detail::to_error_code(why_none()); }

engine* runners::become_one() noexcept {
  if (inherited_by_fork()) {
    why_none_ = detail::native(error::inherited_by_fork);
    return nullptr;
  }
  std::lock_guard const lock(making_);
  slot* const free = free_slot();
  if (free == nullptr) {
    why_none_ = -ENOMEM;
    return nullptr;
  }
  result<std::unique_ptr<backend>> b = best_backend();
  if (!b.has_value()) {
    why_none_ = detail::to_native(b.error());
    return nullptr;
  }
  if (free->kept == nullptr) {
    free->kept.reset(new (std::nothrow) engine(std::move(*b), free));
  } else {
    free->kept->open_again(std::move(*b));
  }
  if (free->kept == nullptr || !join(*free)) {
    if (free->kept != nullptr) {
      free->kept->close();
      free->kept->rest();
    }
    why_none_ = -ENOMEM;
    return nullptr;
  }
  free->taken.store(true, std::memory_order_relaxed);
  // It is here: who looks for those that are away does not take it to have been away since long before.
  free->seen_trips.store(free->kept->trips(), std::memory_order_relaxed);
  free->seen_at.store(sys::steady_now(), std::memory_order_relaxed);
  present_.fetch_add(1, std::memory_order_relaxed);
  free->runs.store(free->kept.get(), std::memory_order_release);
  return free->kept.get();
}

// Of a thread that has left, or a new one; null: no memory.
slot* runners::free_slot() noexcept {
  for (slot& s : slots())
    if (!s.taken.load(std::memory_order_acquire)) return &s;
  std::unique_ptr<slot> made(new (std::nothrow) slot(*this));
  slot* const s = made.get();
  if (s != nullptr) slots_.add(std::move(made));
  return s;
}

void runners::quit() noexcept {
  slot* const s = find_mine();
  if (s == nullptr) return;
  {
    engine::inside const here(*s->own_engine());
    s->own_engine()->close();
  }
  leave();
  present_.fetch_sub(1, std::memory_order_relaxed);
}

void runners::retire(slot& s) noexcept {
  if (inherited_by_fork()) return leave(); // another thread of the parent may have held the locks
  engine* const e = s.own_engine();
  {
    engine::inside const here(*e);
    e->hand_over();
    leave(); // what this thread starts from here on, it does not run
    e->close();
    s.engine_lock.lock();
    s.runs.store(nullptr, std::memory_order_release);
    unlock(s);
    e->rest();
  }
  begin_beside(); // for what is in neither queue for a moment
  while (s.give(everybodys(), 1, 1024) || s.give_oldest(everybodys())) continue;
  end_beside();
  present_.fetch_sub(1, std::memory_order_relaxed);
  s.taken.store(false, std::memory_order_release); // pairs with the acquire in free_slot()
  call_one();
}

} // namespace unio::driver
