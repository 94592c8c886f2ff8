// unio/fs/shared_fs_mutex.hpp: a mutex over many names at once, shared by all processes that can open a path.
//
//   entity            what is locked: 63 bits that the program chooses, and whether it is to be alone with them
//   entities_guard    holds some entities; lets them go at its end
//   shared_fs_mutex   the abstract base of lock_files, byte_ranges, atomic_append and memory_map
//   co_lock           the awaited form
//
//   auto m = unio::fs::byte_ranges::open("/var/lib/shop/lock").value();
//   std::array both{unio::fs::entity_of("account 7"), unio::fs::entity_of("account 9")};
//   auto held = m.lock(both).value();             // both or none
//   if (held.owner_died()) repair();              // whoever held one of them before was killed
//
// Which of the four: memory_map is the fastest by far, and for one machine; byte_ranges works wherever the filesystem has
// locks; atomic_append costs the same for one entity and for eight and serves in the order of arrival; lock_files shows what is locked to
// `ls`. Each header has the same table of guarantees.

#pragma once

#include <unio/deadline.hpp>
#include <unio/detail/holding.hpp>
#include <unio/fs/entity.hpp>
#include <unio/result.hpp>
#include <unio/task.hpp>

#include <span>
#include <utility>

namespace unio::fs {

class shared_fs_mutex;
namespace detail {
class memory_map_base;
}

/// Holds what lock() locked; lets it go when it ends.
///
/// Thread safety  distinct objects: safe; shared: no. May be passed to another thread and end there
/// Moved-from     holds nothing
/// Lifetime       must not outlive its mutex
/// After fork     the child's copy holds nothing, and does nothing at its end
class UNIO_API entities_guard {
 public:
  entities_guard() noexcept {} // not defaulted: that would clear all of it first
  entities_guard(entities_guard&& other) noexcept
      : mutex_(std::exchange(other.mutex_, nullptr)), held_(std::move(other.held_)) {}
  entities_guard& operator=(entities_guard&& other) noexcept {
    if (this != &other) {
      unlock();
      mutex_ = std::exchange(other.mutex_, nullptr);
      held_ = std::move(other.held_);
    }
    return *this;
  }
  ~entities_guard() { unlock(); }

  [[nodiscard]] bool owns_lock() const noexcept { return mutex_ != nullptr; }
  explicit operator bool() const noexcept { return owns_lock(); }
  /// True if one of the entities was held, not shared, by a process that died meanwhile: what they protect may be half
  /// changed. Told to the next owner, once.
  [[nodiscard]] bool owner_died() const noexcept { return held_.owner_died; }
  [[nodiscard]] shared_fs_mutex* mutex() const noexcept { return mutex_; }

  /// Lets go now. Does nothing the second time.
  void unlock() noexcept;
  /// Does not let go: they stay locked until the process ends; those of a memory_map until it does, and then as after a death. Returns the
  /// mutex.
  shared_fs_mutex* release() noexcept { return std::exchange(mutex_, nullptr); }

 private:
  friend class shared_fs_mutex;
  friend class detail::memory_map_base;
  shared_fs_mutex* mutex_ = nullptr;
  detail::holding held_;
};

/// A mutex over entities, shared between processes by a path.
///
/// Entities are locked all or none, in one order for everybody, so that requests never deadlock each other. A thread
/// that asks for more while it holds some may deadlock with another that does, as with any mutex.
///
/// Thread safety  distinct objects: safe, also of the same path; one object: safe, and its threads exclude each other
/// After fork     the child's copy reports error::inherited_by_fork; it opens its own
/// Source         AFIO v2, algorithm::shared_fs_mutex
class UNIO_API shared_fs_mutex {
 public:
  virtual ~shared_fs_mutex() = default;

  /// Locks all of `entities`: waits until that is possible. Duplicates count once, exclusive if one of them is. None: a
  /// guard that holds nothing.
  ///
  /// Effects       none on `entities`, which are neither kept nor reordered
  /// Returns       the guard
  /// Errors        condition::timed_out, would_block for a deadline of zero; error::too_many_entities;
  ///               error::inherited_by_fork; ENOMEM; what the filesystem says, ENOLCK and EIO among it. Nothing is locked then
  /// Waiting       sleeps; with `spin_not_sleep` it never does, and uses its processor: where waits are shorter than a switch
  /// Cancellation  by the deadline alone; co_lock by a stop, too
  /// Cost          see each implementation; no allocation for up to eight entities
  /// Source        AFIO v2, shared_fs_mutex::lock
  [[nodiscard]] result<entities_guard> lock(std::span<entity const> entities, deadline d = {},
                                            bool spin_not_sleep = false) noexcept;
  [[nodiscard]] result<entities_guard> lock(entity e, deadline d = {}, bool spin_not_sleep = false) noexcept {
    return lock(std::span(&e, 1), d, spin_not_sleep);
  }
  /// Never waits. Errors: condition::would_block where something is held by others; as lock().
  [[nodiscard]] result<entities_guard> try_lock(std::span<entity const> entities) noexcept {
    return lock(entities, deadline::zero());
  }
  [[nodiscard]] result<entities_guard> try_lock(entity e) noexcept { return lock(e, deadline::zero()); }
  /// As guard.unlock().
  void unlock(entities_guard& guard) noexcept { guard.unlock(); }

  shared_fs_mutex(shared_fs_mutex const&) = delete;
  shared_fs_mutex& operator=(shared_fs_mutex const&) = delete;

 protected:
  friend class entities_guard;
  shared_fs_mutex() = default;

  /// Locks held.entities, which it canonicalizes; it may change them to what it really locks. Sets owner_died where that is so.
  /// 0, or a negative native code: -EAGAIN if it may not wait, -ETIMEDOUT; nothing is locked then.
  virtual int do_lock(detail::holding& held, detail::waiting how) noexcept = 0;
  virtual void do_unlock(detail::holding& held) noexcept = 0;

  static detail::waiting waiting_for(deadline d, bool spin) noexcept;
};

/// lock(), awaited: tries, and between two attempts waits on the coroutine's multiplexer, 50 µs at first, twice as long each time
/// up to 5 ms. Neither a thread nor the lock's own queue waits meanwhile, so blocking waiters of the same entities come first more often.
///
/// Cancellation  condition::canceled if asked to stop while waiting
/// Lifetime      the entities are copied; the mutex must outlive the task
[[nodiscard]] UNIO_API task<result<entities_guard>> co_lock(shared_fs_mutex& mutex,
                                                            std::span<entity const> entities,
                                                            deadline d = {});
[[nodiscard]] UNIO_API task<result<entities_guard>> co_lock(shared_fs_mutex& mutex, entity e,
                                                            deadline d = {});

inline void entities_guard::unlock() noexcept {
  shared_fs_mutex* const m = std::exchange(mutex_, nullptr);
  if (m == nullptr || (held_.word != nullptr && held_.owner->disown(*held_.word, *held_.note))) return;
  m->do_unlock(held_);
}

} // namespace unio::fs
