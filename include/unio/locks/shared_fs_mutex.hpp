// unio/locks/shared_fs_mutex.hpp: a mutex over many names at once, shared by all processes that can open
// a path. Link with unio::locks.
//
//   entity            what is locked: a number that the program chooses (unio/locks/entity.hpp)
//   entities_guard    holds some entities; unlocks them in its destructor
//   shared_fs_mutex   the abstract base of lock_files, byte_ranges, atomic_append and memory_map
//   co_lock           the awaited form
//
//   auto m = unio::fs::byte_ranges::open("/var/lib/shop/lock").value();
//   std::array both{unio::fs::entity_of("account 7"), unio::fs::entity_of("account 9")};
//   auto held = m.lock(both).value();             // both or none
//   if (held.owner_died()) repair();              // the last owner of one of them was killed
//
// Which of the four: memory_map is the fastest by far, on one machine; byte_ranges works wherever the
// filesystem has locks; atomic_append costs the same for one entity and for eight, and serves in the order of
// arrival; with lock_files `ls` shows what is locked. Each header has the same table of guarantees.
//
// A lock file must stay where it is: a process that opens its path after it was removed gets another file,
// and does not exclude the users of the first. byte_ranges and memory_map keep a hidden file beside it,
// ".lock.notes" or ".lock.map" beside "lock". The directory must let the first user create it; it stays when
// the lock file is removed, and has the lock file's group and mode. If you change those of the lock file,
// change both: unio adapts the hidden file only if the user that opens them owns it. Users of one group must
// not share a lock file in a directory that all may write: there the hidden file must belong to the lock
// file's owner, to root or to the user (EPERM).

#pragma once

#include <unio/deadline.hpp>
#include <unio/detail/holding.hpp>
#include <unio/locks/entity.hpp>
#include <unio/result.hpp>
#include <unio/task.hpp>

#include <span>
#include <utility>

namespace unio::inline v0_1::fs {

class shared_fs_mutex;
namespace detail {
class memory_map_base;
}

/// Holds what lock() locked, and unlocks it in its destructor.
///
/// Thread safety  distinct objects: safe; shared: no. May be moved to another thread and destroyed there
/// Moved-from     holds nothing
/// Lifetime       must not outlive its mutex
/// Cost           that of unlocking: see each implementation
/// After fork     the child's copy holds nothing, and its destructor does nothing
class UNIO_API entities_guard {
 public:
  entities_guard() noexcept {} // not defaulted: that would clear all of it first
  entities_guard(entities_guard&& other) noexcept
      : mutex_(std::exchange(other.mutex_, nullptr)), held_(std::move(other.held_)) {}
  entities_guard& operator=(entities_guard&& other) noexcept;
  ~entities_guard() { unlock(); }

  [[nodiscard]] bool owns_lock() const noexcept { return mutex_ != nullptr; }
  explicit operator bool() const noexcept { return owns_lock(); }
  /// True if one of the entities was held exclusively by a process that died: the data that they protect may
  /// be half changed. Reported once, to the next owner.
  [[nodiscard]] bool owner_died() const noexcept { return held_.owner_died; }
  [[nodiscard]] shared_fs_mutex* mutex() const noexcept { return mutex_; }

  /// Unlocks now. A second call does nothing.
  void unlock() noexcept;
  /// Forgets the entities and returns the mutex. They stay locked until the process ends; those of a
  /// memory_map until the mutex is destroyed, which then counts as a death.
  shared_fs_mutex* release() noexcept { return std::exchange(mutex_, nullptr); }

 private:
  friend class shared_fs_mutex;
  friend class detail::memory_map_base;
  shared_fs_mutex* mutex_ = nullptr;
  detail::holding held_;
};

/// A mutex over entities, shared between processes by a path.
///
/// A request locks all of its entities or none, and all users lock in the same order, so requests never
/// deadlock each other. A thread that asks for more while it holds some may deadlock, as with any mutex.
///
/// Thread safety  distinct objects: safe, also of the same path; one object: its threads exclude each other
/// After fork     the child's copy reports error::inherited_by_fork; it opens its own
/// Source         AFIO v2, algorithm::shared_fs_mutex
class UNIO_API shared_fs_mutex {
 public:
  virtual ~shared_fs_mutex() = default;

  /// Locks all of `entities`, waiting until that is possible. Duplicates count once, exclusive if one of them
  /// is. No entities: a guard that holds nothing.
  ///
  /// Returns       the guard
  /// Errors        condition::timed_out, would_block for a deadline of zero; error::too_many_entities;
  ///               error::inherited_by_fork; ENOMEM; what the filesystem reports, ENOLCK and EIO among it.
  ///               Nothing is locked then
  /// Waiting       sleeps; with `spin_not_sleep` it spins instead, for waits shorter than a context switch
  /// Cancellation  by the deadline alone; co_lock also by a stop
  /// Cost          see each implementation; no allocation for up to eight entities. `entities` is not kept
  /// Source        AFIO v2, shared_fs_mutex::lock
  [[nodiscard]] result<entities_guard> lock(std::span<entity const> entities, deadline d = {},
                                            bool spin_not_sleep = false) noexcept;
  [[nodiscard]] result<entities_guard> lock(entity e, deadline d = {}, bool spin_not_sleep = false) noexcept {
    return lock(std::span(&e, 1), d, spin_not_sleep);
  }
  /// As lock(), but never waits. Errors: condition::would_block if another user holds one of them.
  [[nodiscard]] result<entities_guard> try_lock(std::span<entity const> entities) noexcept {
    return lock(entities, deadline::zero());
  }
  [[nodiscard]] result<entities_guard> try_lock(entity e) noexcept { return lock(e, deadline::zero()); }
  /// As guard.unlock().
  void unlock(entities_guard& guard) noexcept { guard.unlock(); }

 protected:
  friend class entities_guard;
  shared_fs_mutex() = default;
  shared_fs_mutex(shared_fs_mutex&&) = default;
  shared_fs_mutex& operator=(shared_fs_mutex&&) = default;

  /// Locks held.entities, which it canonicalizes and may replace by what it really locks. Sets owner_died if
  /// an owner died. Returns 0, or a negative native code (-EAGAIN if it may not wait, -ETIMEDOUT); then
  /// nothing is locked.
  virtual int do_lock(detail::holding& held, detail::waiting how) noexcept = 0;
  virtual void do_unlock(detail::holding& held) noexcept = 0;
};

/// lock(), awaited: retries, waiting on the coroutine's multiplexer in between, 50 µs at first, twice as long
/// each time up to 5 ms. It occupies no thread and has no place in the lock's queue, so blocking waiters for
/// the same entities are often served first.
///
/// Cancellation  condition::canceled if asked to stop while waiting
/// Lifetime      the entities are copied; the mutex must outlive the task
[[nodiscard]] UNIO_API task<result<entities_guard>> co_lock(shared_fs_mutex& mutex,
                                                            std::span<entity const> entities,
                                                            deadline d = {});
[[nodiscard]] UNIO_API task<result<entities_guard>> co_lock(shared_fs_mutex& mutex, entity e,
                                                            deadline d = {});

inline entities_guard& entities_guard::operator=(entities_guard&& other) noexcept {
  if (this != &other) {
    unlock();
    mutex_ = std::exchange(other.mutex_, nullptr);
    held_ = std::move(other.held_);
  }
  return *this;
}
inline void entities_guard::unlock() noexcept {
  shared_fs_mutex* const m = std::exchange(mutex_, nullptr);
  if (m == nullptr || (held_.word != nullptr && held_.owner->disown(*held_.word, *held_.note))) return;
  m->do_unlock(held_);
}

} // namespace unio::fs
