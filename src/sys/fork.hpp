// src/sys/fork.hpp: what a child of fork finds: how many forks it is away, and the locks of the process.
//
// A child has one thread, and the memory of all as it was: what another thread was changing is half changed,
// and its locks are held for good. So a fork first takes every lock of the process (process_lock): it waits
// until what they guard is whole, and the child finds it so, and the locks open.
//
// Locks that are parts of an object are no locks of the process: what other threads of the parent were using
// at the fork, the child does not use.

#pragma once

#include "sys/give_way.hpp"

#include <unio/config.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>

namespace unio::inline v0_1::sys {

UNIO_API extern std::atomic<unsigned> fork_count;

/// How many forks lie between the first process and this one.
inline unsigned fork_generation() noexcept { return fork_count.load(std::memory_order_relaxed); }

/// What the locks of the process guard.
enum class guarded : std::uint8_t {
  frames,              ///< coro/frames.cpp. The first: a pool that is all zero is in no file
  engines,             ///< driver/registry.cpp
  shared_multiplexers, ///< driver/shared/members.cpp
  remains,             ///< driver/remains.cpp
  offered_memory,      ///< driver/registered_memory.cpp
  ended_pools,         ///< handle/buffer_pool.cpp
  file_locks,          ///< handle/file_lock.cpp
  map_guard,           ///< handle/map_guard.cpp
  reaper,              ///< handle/process_state.cpp
  signals,             ///< handle/signal.cpp
  waits,               ///< coro/sync.cpp
  dumps,               ///< coro/pending.cpp
  foreign_loops,       ///< driver/foreign/loops.cpp
  foreign_runners,     ///< driver/foreign/runner.cpp
  lock_descriptors,    ///< sys/ofd_lock.cpp
  recording,           ///< driver/recording.cpp. The last: an event may come while another one is held
};
inline constexpr std::size_t guarded_count = static_cast<std::size_t>(guarded::recording) + 1;

namespace locks {
struct alignas(64) one {
  std::mutex mutex;
  std::atomic<void (*)() noexcept> in_child{nullptr};
};
extern std::array<one, guarded_count> all;
} // namespace locks

/// A lock of the process. A thread that holds one takes no other and does not fork, so that a fork can take
/// all of them.
class process_lock {
 public:
  explicit constexpr process_lock(guarded what) noexcept : what_(what) {}

  void lock() noexcept { mine().mutex.lock(); }
  void unlock() noexcept { mine().mutex.unlock(); }
  /// `f` is called in children, under the lock: it makes what it guards the child's. Under the lock. No
  /// function that is unsafe in a child of a process with threads (signal-safety(7)).
  void in_child(void (*f)() noexcept) noexcept { mine().in_child.store(f, std::memory_order_relaxed); }

 private:
  [[nodiscard]] locks::one& mine() const noexcept { return locks::all[static_cast<std::size_t>(what_)]; }
  guarded what_;
};

/// The one of its kind in a process. Never destroyed: its threads use it until the process ends. A child made
/// by fork has none of the threads: it begins with a new one in the place of the old.
template <class T> class one_of_process {
 public:
  T& get() noexcept {
    T* const one = std::launder(reinterpret_cast<T*>(storage_));
    std::uint64_t const mine = std::uint64_t{fork_generation()} + 1;
    if (ready_.load(std::memory_order_acquire) == mine) [[likely]]
      return *one;
    std::uint64_t made = making_.load(std::memory_order_relaxed);
    if (made != mine && making_.compare_exchange_strong(made, mine, std::memory_order_relaxed)) {
      new (storage_) T;
      ready_.store(mine, std::memory_order_release); // pairs with the acquires here
    }
    await_other([&] { return ready_.load(std::memory_order_acquire) == mine; });
    return *one;
  }

 private:
  alignas(T) std::byte storage_[sizeof(T)]{};
  std::atomic<std::uint64_t> ready_{0}, making_{0}; // the generation that it is of, plus 1
};

} // namespace unio::sys
