// unio/fs/atomic_append.hpp: a shared_fs_mutex that is a queue in a file: whoever asks appends a record, and waits for those before it.
//
//   atomic_append   the mutex
//
//   auto m = unio::fs::atomic_append::open("/var/lib/shop/lock").value();
//   std::array both{unio::fs::entity_of("account 7"), unio::fs::entity_of("account 9")};
//   auto held = m.lock(both).value();
//
//   holder killed       recovered by whoever waits next, at once; told by owner_died, once for each entity, also if the dead one was only
//                       about to get it. A second death, of who recovers, changes nothing
//   power loss          what the file says of requests of before is taken for their deaths and told; what had not reached the disk is not
//   NFS                 refused (EOPNOTSUPP): appending is not atomic there
//   threads of one process   exclude each other
//   fork                the child has nothing of it; error::inherited_by_fork
//   another descriptor on the inode closed   changes nothing
//   fairness            in the order of arrival, of the records in the file
//   waiting cost        sleeps in the kernel until the record before it is done; with a deadline it tries, 20 µs to 2 ms apart
//   acquire cost        three system calls, and two to let go, for one entity or for ten. All that was asked since the oldest request that is not
//                       let go is read: 128 bytes each, so that one lock held for long makes all others slower
//   many entities       up to 40,960; in one step
//   shared mode         yes: those who share do not wait for each other
//
// The file grows by 128 bytes for each ten entities of a lock; what is done is given back to the filesystem (its length stays), and the length
// is set back when somebody opens it alone. A filesystem whose files end at 16 TiB ends after 10^11 locks without such a moment (EFBIG).
//
// The file must stay where it is: whoever opens its path after it was removed gets another one, and does not exclude those that have it.

#pragma once

#include <unio/file_handle.hpp>
#include <unio/fs/shared_fs_mutex.hpp>

#include <cstddef>
#include <memory>

namespace unio::fs {

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
  ///         EPERM for a file of another owner; EOPNOTSUPP on a filesystem that other machines write to; ENOLCK; as openat(2). The file is not changed then;
  ///         condition::timed_out, would_block for a deadline of zero
  /// Waiting until the deadline, while another opens it, however long that one is stopped
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
