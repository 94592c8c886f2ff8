#include "sys/fork.hpp"

#include <pthread.h>

#include <ranges>
#include <type_traits>

namespace unio::inline v0_1::sys {

constinit std::atomic<unsigned> fork_count{0};

// Threads end after static objects are destroyed.
static_assert(std::is_trivially_destructible_v<decltype(locks::all)>);
constinit std::array<locks::one, guarded_count> locks::all{};

namespace {

void take_all() noexcept {
  for (locks::one& l : locks::all) l.mutex.lock();
}

void leave_all() noexcept {
  for (locks::one& l : locks::all | std::views::reverse) l.mutex.unlock();
}

void begin_as_child() noexcept {
  fork_count.fetch_add(1, std::memory_order_relaxed);
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
} // namespace unio::sys
