// unio/locks/lock_files.hpp: a shared_fs_mutex whose entities are files: `ls` shows what is locked.
//
//   lock_files   an entity is a file named by its value in hexadecimal, while it is held
//
//   auto m = unio::fs::lock_files::open("/var/lib/shop/locks").value();
//   auto held = m.lock(unio::fs::entity_of("account 7")).value();
//   if (held.owner_died()) repair();
//
//   holder killed        the kernel releases at once; owner_died is reported once, to the next owner
//   power loss           nothing is held afterwards; owner_died is reported if the file had been written back
//   NFS                  as reliable as its locks; seventeen system calls for each entity, to bypass caches
//   threads of one process  exclude each other like processes, also through two objects
//   fork                 the child holds nothing and gets error::inherited_by_fork
//   another descriptor on the inode closed  no effect: these are locks of open descriptions
//   fairness             none: a request that comes when a file is removed may overtake the waiters; an
//                        exclusive request waits while shared owners come and go
//   waiting cost         sleeps in the kernel; with a deadline it retries every 20 µs to 2 ms
//   acquire cost         a file made and removed, its lock, its mode: seven system calls an entity, eight to
//                        share one
//   many entities        one descriptor for each: error::too_many_entities above RLIMIT_NOFILE, or EMFILE
//   shared mode          yes, mixed in one request; shared owners never wait for each other
//
// Only processes of one user share it: a file of another owner is refused. A holder that is killed leaves its
// file behind, until the next owner of that entity unlocks it. try_lock of an entity that is just being
// unlocked may report it as held.
#pragma once

#include <unio/file_handle.hpp>
#include <unio/locks/shared_fs_mutex.hpp>

#include <memory>

namespace unio::inline v0_1::fs {

/// See the top of the file.
///
/// Thread safety  as shared_fs_mutex
/// Moved-from     may only be destroyed or assigned to. No guard may be alive when it is moved
/// Size           16 bytes
class UNIO_API lock_files final : public shared_fs_mutex {
 public:
  /// Opens the directory, which must exist.
  ///
  /// Errors  ENOTDIR, ELOOP for a link, EPERM for another's directory, error::writable_by_all; EACCES, EROFS
  ///         where no file can be made; ENOLCK and the like where the filesystem has no locks. lock() has the
  ///         same for what lies at the name of an entity, error::several_names, and error::not_a_lock_file
  ///         for anything but an empty file
  /// Cost    some ten system calls; one allocation
  /// Source  AFIO v2, algorithm::shared_fs_mutex::lock_files
  static result<lock_files> open(path_handle const& base, path_view name) noexcept;
  static result<lock_files> open(path_view name) noexcept { return open(path_handle(), name); }

  lock_files(lock_files&& other) noexcept;
  lock_files& operator=(lock_files&& other) noexcept;
  ~lock_files() override;

 protected:
  int do_lock(detail::holding& held, detail::waiting how) noexcept override;
  void do_unlock(detail::holding& held) noexcept override;

 private:
  struct state;
  explicit lock_files(std::unique_ptr<state> s) noexcept;
  std::unique_ptr<state> state_;
};

} // namespace unio::fs
