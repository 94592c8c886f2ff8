// unio/locks/memory_map.hpp: a shared_fs_mutex in shared memory: a few nanoseconds, no system call.
//
//   memory_map<Hash, Slots, Spinlock>   the mutex: Slots cache lines in a hidden file beside the lock file
//   fibonacci_hash, fnv1a_hash, adaptive_spin   what its parameters may be
//   map_visibility                      whether this user can see what others write into the map
//
//   auto m = unio::fs::memory_map<>::open("/var/lib/shop/lock").value();
//   auto held = m.lock(unio::fs::entity_of("account 7")).value();
//
// Entities are hashed onto slots, so two different entities may exclude each other. A thread that holds one
// and asks for another deadlocks with itself if both have the same slot (with 4096 slots one pair in 4096;
// among 100 entities probably some pair). Ask for all in one call, or with a deadline.
//
//   holder killed       recovered by the next waiter within 50 ms, or by the next process that opens the file
//                       or tries to lock; owner_died reports it once, to the next owner of the same entity.
//                       If a shared owner got it and dies, the next exclusive owner gets it; shared owners in
//                       between may not. The death of a recovering process changes nothing. A slot has room
//                       for four entities whose owners died and which have not been locked since, and for
//                       three of one request. Beyond that the next owner of any entity of the slot gets
//                       owner_died, and the owner of the right one may not. A user that cannot see the map
//                       reports the deaths of users that can, until one of those got it; its own death is not
//                       reported
//   power loss          the file may record owners from before: the first process that opens it recovers
//                       them, and the next owners get owner_died
//   NFS                 the map is not consistent between machines: a user on another machine makes all users
//                       change over to kernel locks on the file's bytes, until it is gone
//   threads of one process   exclude each other
//   fork                the child has neither locks nor map: error::inherited_by_fork
//   another descriptor on the inode closed   no effect
//   fairness            a new request may overtake sleeping ones, for 200 µs; then the longest sleeper wins
//   waiting cost        a few hundred attempts, then futex(2); one system call in 50 ms to check that the
//                       owner lives
//   acquire cost        one atomic exchange for each slot, and one to unlock; degraded: also a system call
//                       for each, and one to unlock; a user that cannot see the map needs four for each, six
//                       on a filesystem that other machines write to
//   many entities       any number; in ascending order of their slots
//   shared mode         yes: one atomic operation for a user's first thread, one for its last
//
// After the filesystem has written a page of the file back, the next lock in that page takes a page fault:
// half a millisecond was measured, more while the journal is busy. If the worst case matters, put the files
// on tmpfs (/dev/shm): their contents need not survive a restart.
//
// If the lock file is truncated (`: > lock`), its users are not affected, and other processes get
// error::damaged_lock_file until no user is left; the same happens if the map was removed, or if they see the
// lock file in another directory than its users do (bind-mounted alone into a container, or renamed): share
// the directory. A process that may write these files can break the lock: truncating the hidden map while it
// is in use ends its users by SIGBUS. open() refuses files that all may write. The name has at most 250
// bytes.
//
// The version in the file is 2. A lock file of version 1 is rewritten by the first process that opens it
// alone; while it has users, opening it is error::different_lock_file; to them it is newer_lock_file.

#pragma once

#include <unio/detail/memory_map.hpp>

namespace unio::inline v0_1::fs {

/// One multiplication, by 2^64 over the golden ratio (Knuth, The Art of Computer Programming, 6.4): good for
/// values that are already random, as those of entity_of(), and for consecutive numbers.
///
/// Thread safety  any thread
struct fibonacci_hash {
  static constexpr std::uint64_t id = 1; // in the file: all its users must hash alike. Own ones begin at 1000
  static constexpr std::uint64_t of(std::uint64_t value) noexcept { return value * 0x9e3779b97f4a7c15 >> 32; }
};

/// FNV-1a over the eight bytes of the value: AFIO's.
///
/// Thread safety  any thread
/// Cost           8 ns more than fibonacci_hash
struct fnv1a_hash {
  static constexpr std::uint64_t id = 2;
  /// The hash of `value`.
  static constexpr std::uint64_t of(std::uint64_t value) noexcept;
};

/// How often a slot is tried before sleeping.
struct adaptive_spin {
  static constexpr unsigned attempts = 200;
};

/// Whether a user can see what others write into the map.
enum class map_visibility {
  automatic, ///< unless the filesystem is one that other machines write to (NFS, SMB, FUSE …)
  none,      ///< acts as a user on another machine: by locks and file I/O alone
};

/// See the top of the file. `Hash` has `id` and `of(value)`; `Spinlock` has `attempts`.
///
/// Thread safety  distinct objects: safe, also of the same path; one object: safe
/// Moved-from     may be assigned to and destroyed. Not to be moved while guards of it exist
/// Size           seven words; 16 KiB for each user, and the file's 524 KiB (with 4096 slots)
/// Source         AFIO v2, algorithm::shared_fs_mutex::memory_map
template <class Hash = fibonacci_hash, std::size_t Slots = 4096, class Spinlock = adaptive_spin>
class memory_map final : public detail::memory_map_base {
  static_assert(Slots > 0 && Slots <= (1u << 20), "between one and a million slots");

 public:
  /// Opens the lock file, or creates it. The first user creates the map anew.
  ///
  /// Errors  error::not_a_lock_file, several_names, writable_by_all, newer_lock_file, damaged_lock_file,
  ///         different_lock_file (other parameters), too_many_users; EPERM for a file of another owner;
  ///         ENAMETOOLONG; ENOSPC; ENOLCK; as openat(2). The file is not changed then; condition::timed_out,
  ///         would_block for a deadline of zero
  /// Waiting until the deadline, while another process opens it, even if that one is stopped
  /// Cost    some forty system calls
  [[nodiscard]] static result<memory_map> open(path_handle const& base, path_view name,
                                               map_visibility v = map_visibility::automatic,
                                               deadline d = {}) noexcept;
  [[nodiscard]] static result<memory_map> open(path_view name, map_visibility v = map_visibility::automatic,
                                               deadline d = {}) noexcept {
    return open({}, name, v, d);
  }
  [[nodiscard]] static result<memory_map> open(path_view name, deadline d) noexcept {
    return open({}, name, map_visibility::automatic, d);
  }

  /// As shared_fs_mutex::lock(), inline for a single entity that is free.
  [[nodiscard]] result<entities_guard> lock(entity e, deadline d = {}, bool spin_not_sleep = false) noexcept;
  [[nodiscard]] result<entities_guard> lock(std::span<entity const> entities, deadline d = {},
                                            bool spin_not_sleep = false) noexcept;
  [[nodiscard]] result<entities_guard> try_lock(std::span<entity const> entities) noexcept {
    return lock(entities, deadline::zero());
  }
  [[nodiscard]] result<entities_guard> try_lock(entity e) noexcept { return lock(e, deadline::zero()); }

 private:
  memory_map() = default;
  static constexpr std::size_t slot_of(std::uint64_t value) noexcept { return Hash::of(value) % Slots; }
  static constexpr entity in_slots(entity e) noexcept { return entity(slot_of(e.value), e.exclusive); }
  int do_lock(detail::holding& held, detail::waiting how) noexcept override;
};

} // namespace unio::fs

#include <unio/detail/memory_map_lock.hpp>
