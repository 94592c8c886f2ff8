#include "sys/descriptors.hpp"

#include <unio/extend/foreign_lock.hpp>

#include <pthread.h>

#include <ranges>
#include <type_traits>

namespace unio::inline v0_1 {

// Taken before the locks of the process: a thread that holds one of these may take one of those.
struct foreign_locks {
  static constinit inline std::mutex of_list;
  static constinit inline foreign_lock* first = nullptr;

  static void take() noexcept {
    of_list.lock();
    for (foreign_lock* l = first; l != nullptr; l = l->next_) l->lock();
  }
  static void leave() noexcept {
    for (foreign_lock* l = first; l != nullptr; l = l->next_) l->unlock();
    of_list.unlock();
  }
};

foreign_lock::foreign_lock() : previous_(nullptr) {
  std::scoped_lock const held(foreign_locks::of_list);
  next_ = foreign_locks::first;
  if (next_ != nullptr) next_->previous_ = this;
  foreign_locks::first = this;
}

foreign_lock::~foreign_lock() {
  std::scoped_lock const held(foreign_locks::of_list);
  (previous_ != nullptr ? previous_->next_ : foreign_locks::first) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}

namespace sys {

constinit std::atomic<unsigned> fork_count{0};

// Threads end after static objects are destroyed.
static_assert(std::is_trivially_destructible_v<decltype(locks::all)>);
constinit std::array<locks::one, guarded_count> locks::all{};

namespace {

void take_all() noexcept {
  foreign_locks::take();
  for (locks::one& l : locks::all) l.mutex.lock();
}

void leave_all() noexcept {
  for (locks::one& l : locks::all | std::views::reverse) l.mutex.unlock();
  foreign_locks::leave();
}

void begin_as_child() noexcept {
  fork_count.fetch_add(1, std::memory_order_relaxed);
  for (int fd = named_end.load(std::memory_order_relaxed); fd-- != 0;) // first looked at: pages are copied
    if (is_named(fd)) note_waited(fd, named_bit, false);
  for (locks::one& l : locks::all)
    if (auto* const f = l.in_child.load(std::memory_order_relaxed); f != nullptr) f();
  leave_all();
}

// Before any static object is made, which may start threads. A first use that registered this would have to
// be guarded by what a fork can catch half way.
[[gnu::constructor(101)]] void watch_forks() noexcept {
  (void)pthread_atfork(&take_all, &leave_all, &begin_as_child);
}

} // namespace
} // namespace sys
} // namespace unio
