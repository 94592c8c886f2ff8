// unio/locks/atomic_append.hpp: a shared_fs_mutex that is a queue in a file: a request appends a record and
// waits for earlier ones.
//
//   atomic_append   the mutex
//
//   auto m = unio::fs::atomic_append::open("/var/lib/shop/lock").value();
//   std::array both{unio::fs::entity_of("account 7"), unio::fs::entity_of("account 9")};
//   auto held = m.lock(both).value();
//
//   holder killed       recovered at once by the next waiter; owner_died reports it once for each entity,
//                       also if the dead process was still waiting for its turn. A recovering process may die
//                       as well
//   power loss          requests that the file records from before count as deaths and are reported; those
//                       that had not reached the disk are not
//   NFS                 refused (EOPNOTSUPP): appending is not atomic there
//   threads of one process   exclude each other
//   fork                the child cannot use it: error::inherited_by_fork
//   another descriptor on the inode closed   no effect
//   file cut off (`: > lock`)   while it is in use: what is held stays held; a user that waits, asks or opens
//                       it gets error::damaged_lock_file until no user is left, and deaths from before are
//                       not reported. The next user makes it anew
//   fairness            in the order of the records in the file
//   waiting cost        sleeps in the kernel until the record before it is done; with a deadline it retries
//                       every 20 µs to 2 ms
//   acquire cost        three system calls, and two to unlock, for one entity or for ten. It reads all
//                       requests since the oldest one that is still held, 128 bytes each, so a lock held for
//                       long slows all others
//   many entities       up to 40,960, in one step
//   shared mode         yes: shared owners do not wait for each other
//
// The file grows by 128 bytes for each ten entities of a lock. Finished records are returned to the
// filesystem while the length stays; the length is reset when a process opens the file alone. Without such a
// moment a filesystem whose files end at 16 TiB fails after 10^11 locks (EFBIG).

#pragma once

#include <unio/file_handle.hpp>
#include <unio/locks/shared_fs_mutex.hpp>

#include <memory>

namespace unio::inline v0_1::fs {

/// See the top of the file.
///
/// Thread safety  distinct objects: safe, also of the same path; one object: safe
/// Moved-from     may be assigned to and destroyed. Not to be moved while guards of it exist
/// Size           two words; a descriptor for each guard that exists at once
/// Source         AFIO v2, algorithm::shared_fs_mutex::atomic_append
class UNIO_API atomic_append final : public shared_fs_mutex {
 public:
  static constexpr std::size_t most_entities = 40'960;

  /// Opens the lock file, or makes one.
  ///
  /// Errors  error::not_a_lock_file, several_names, writable_by_all, newer_lock_file, different_lock_file;
  ///         damaged_lock_file (also of a file that was cut off, while it has users); EPERM for a file of
  ///         another owner; EOPNOTSUPP on a filesystem that other machines write to;
  ///         ENOLCK; as openat(2). The file is not changed then; condition::timed_out, would_block for a
  ///         deadline of zero
  /// Waiting until the deadline, while another process opens it, even if that one is stopped
  /// Cost    some twenty-five system calls; one allocation
  [[nodiscard]] static result<atomic_append> open(path_handle const& base, path_view name,
                                                  deadline d = {}) noexcept;
  [[nodiscard]] static result<atomic_append> open(path_view name, deadline d = {}) noexcept {
    return open({}, name, d);
  }

  atomic_append(atomic_append&& other) noexcept;
  atomic_append& operator=(atomic_append&& other) noexcept;
  ~atomic_append() override;

 private:
  atomic_append() noexcept;
  int do_lock(detail::holding& held, detail::waiting how) noexcept override;
  void do_unlock(detail::holding& held) noexcept override;

  struct state;
  std::unique_ptr<state> state_;
};

} // namespace unio::fs
