// unio/locks/byte_ranges.hpp: a shared_fs_mutex whose entities are locked bytes of one file.
//
//   byte_ranges   an entity is one byte of the file, at the offset that is its value; the kernel locks it
//
//   auto m = unio::fs::byte_ranges::open("/var/lib/shop/lock").value();
//   auto held = m.lock(unio::fs::entity_of("account 7")).value();
//   if (held.owner_died()) repair();
//
//   holder killed        the kernel releases at once; owner_died is reported once, to the next exclusive or
//                        shared owner (within the bounds below)
//   power loss           nothing is held afterwards; owner_died is reported if the notes had been written
//                        back
//   NFS                  as reliable as its locks; no owner_died where other machines may change files
//   threads of one process  exclude each other like processes, also through two objects
//   fork                 the child holds nothing and gets error::inherited_by_fork
//   another descriptor on the inode closed  no effect: these are locks of open descriptions
//   fairness             the kernel's: all waiters race; shared owners may starve an exclusive request
//   waiting cost         sleeps in the kernel; with a deadline it retries every 20 µs to 2 ms
//   acquire cost         one fcntl(2) for each entity, one to release all
//   many entities        as many as the kernel has memory for; each walks a list: 10,000 take about two
//                        seconds
//   shared mode          yes, mixed in one request; shared owners never wait for each other
//
// Bounds of owner_died: the notes in the hidden file have room for 65,536 deaths and holders at a time, eight
// for each hash of the value; the death of an owner without room is not reported. If a shared owner got
// owner_died and dies too, the next exclusive owner gets it. Users that see the lock file in different
// directories (bind-mounted alone into a container, or renamed) exclude each other but have separate notes: a
// death is reported only to users of the same notes. So do users of versions with the notes in the lock file.
//
// Truncating the lock file (`: > lock`) does not affect its users; the next process that opens it writes it
// anew. Truncating the hidden file ends its users by SIGBUS; removing it loses the notes. The lock file's
// name has at most 248 bytes. The first user must be able to remove another lock file's hidden file.

#pragma once

#include <unio/file_handle.hpp>
#include <unio/locks/shared_fs_mutex.hpp>

#include <memory>

namespace unio::inline v0_1::fs {

/// See the top of the file.
///
/// Thread safety  as shared_fs_mutex
/// Moved-from     may only be destroyed or assigned to. No guard may be alive when it is moved
/// Size           16 bytes; 516 KiB of address space and of the file
class UNIO_API byte_ranges final : public shared_fs_mutex {
 public:
  /// Entities of a greater value cannot be locked: EINVAL, and nothing is locked.
  static constexpr std::uint64_t greatest_value = (std::uint64_t{1} << 63) - 3;

  /// Opens the lock file, or makes one, readable and writable by its owner.
  ///
  /// Effects  none on a file that is not a lock file of this kind
  /// Errors   ELOOP for a link, EISDIR, EPERM for another's file; error::not_a_lock_file, several_names,
  ///          writable_by_all, different_lock_file, newer_lock_file, damaged_lock_file; ENAMETOOLONG; ENOLCK
  ///          and the like where the filesystem has no locks; ENOSPC; as openat(2); condition::timed_out,
  ///          would_block for a deadline of zero
  /// Waiting  until the deadline, while another process makes it, a few system calls
  /// Cost     some twenty-five system calls; one allocation
  /// Source   AFIO v2, algorithm::shared_fs_mutex::byte_ranges
  static result<byte_ranges> open(path_handle const& base, path_view name, deadline d = {}) noexcept;
  static result<byte_ranges> open(path_view name, deadline d = {}) noexcept {
    return open(path_handle(), name, d);
  }

  byte_ranges(byte_ranges&& other) noexcept;
  byte_ranges& operator=(byte_ranges&& other) noexcept;
  ~byte_ranges() override;

 protected:
  int do_lock(detail::holding& held, detail::waiting how) noexcept override;
  void do_unlock(detail::holding& held) noexcept override;

 private:
  struct state;
  explicit byte_ranges(std::unique_ptr<state> s) noexcept;
  std::unique_ptr<state> state_;
};

} // namespace unio::fs
