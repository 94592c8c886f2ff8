// unio/locks/update_files.hpp: replaces several files of a tree as one: all or none, even after a crash.
//
//   update_files   locks some files, reads them, prepares their replacements, and commits
//
//   std::array<unio::path_view, 2> const names{"from", "to"};
//   auto u = unio::fs::update_files::begin(mutex, tree, names).value();
//   auto const old = u.contents(0).value();
//   u.replace(0, less).value();
//   u.replace(1, more).value();
//   u.commit().value();                           // without it nothing has happened
//
//   holder killed       before commit() has decided: nothing has changed; afterwards the next begin() or
//                       begin_shared() that names one of the files completes the change. The mutex's
//                       owner_died needs no handling
//   power loss          the same: the new files reach the disk before the decision, and that before commit()
//                       acts on it
//   readers             under the locks, from begin() or begin_shared(): all old or all new. Without them:
//                       each file whole, old or new, but of several files some may be old and some new
//   writers without the locks   are overwritten, or overwrite
//   NFS                 as reliable as the mutex; a rename may be reported as failed although it was done
//   fork                the child's copy does nothing: error::inherited_by_fork
//   fairness, waiting   the mutex's; commits of one tree take turns, in the kernel's order
//   cost                some 125 system calls for two files of one folder, read and replaced, with
//                       byte_ranges; seven of them wait for the disk: one for each file, two for each folder,
//                       three more
//
// A file is a path relative to the tree, without "." and "..", and without links on the way; entity_of(path)
// is what is locked. The tree's users must all use the same mutex. It makes further files: beside each file
// .NAME.unio-new (the replacement of NAME), and in the tree .unio-update.lock (locked by a commit),
// .unio-update (a decision) and .unio-update.new (a decision that is being written).
//
// A replaced file keeps its owner, which only that owner and root can give it. So a tree is updated by its
// owner, by root, and, where its group may write it and not everyone, by the members of that, each of whom
// replaces files of its own and makes new ones. Others may read it by begin_shared(), if its mode and the
// mutex allow that. EPERM or EACCES for who may not complete an update that was interrupted.

#pragma once

#include <unio/file_handle.hpp>
#include <unio/locks/shared_fs_mutex.hpp>

#include <memory>
#include <span>

namespace unio::inline v0_1::fs {

/// See the top of the file.
///
/// Thread safety  distinct objects: safe; shared: no
/// Lifetime       the mutex must outlive it, and must not be moved; tree and paths need not last
/// Moved-from     may be assigned to and destroyed
/// Cost           of asking it: none
/// Size           a pointer
class UNIO_API update_files {
 public:
  /// Locks the files exclusively.
  ///
  /// Effects       completes an interrupted update of one of them that was decided, and cleans up one that
  ///               was not
  /// Returns       the update; nothing is replaced yet. A file that does not exist may be named: it is made
  /// Errors        EINVAL for no path, one that is absolute, that has an empty part, "." or "..", that is
  ///               named twice, that begins with .unio-update or ends with .unio-new; ENAMETOOLONG for a name
  ///               of more than 245 bytes; ELOOP for a link (ENOTDIR for one on the way), EISDIR, ENXIO for
  ///               what is no regular file; ENOENT without its folder; error::damaged_lock_file,
  ///               newer_lock_file, not_a_lock_file, several_names, writable_by_all for an invalid decision;
  ///               ENOMEM; as shared_fs_mutex::lock() and openat(2). Nothing is locked then
  /// Waiting       until `d`, for the locks
  /// Cost          for each file four system calls and two for each folder on its way, and the mutex's
  [[nodiscard]] static result<update_files> begin(shared_fs_mutex& mutex, path_handle const& tree,
                                                  std::span<path_view const> paths,
                                                  deadline d = {}) noexcept {
    return begin(mutex, tree, paths, true, d);
  }
  /// As begin(), but locks them shared, for reading. Needs to write only to complete an update.
  [[nodiscard]] static result<update_files> begin_shared(shared_fs_mutex& mutex, path_handle const& tree,
                                                         std::span<path_view const> paths,
                                                         deadline d = {}) noexcept {
    return begin(mutex, tree, paths, false, d);
  }

  update_files(update_files&& other) noexcept;
  update_files& operator=(update_files&& other) noexcept;
  /// Drops what was not committed, and releases the locks.
  ~update_files();

  /// How many files it was begun with.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Whether this begin() or begin_shared() completed an update that had been interrupted.
  [[nodiscard]] bool has_recovered() const noexcept;
  /// True if commit() has decided and then failed, or could not undo a decision: the next begin() completes
  /// it.
  [[nodiscard]] bool is_decided() const noexcept;

  /// The contents of the file, without what replace() prepared.
  ///
  /// Returns        all of its bytes, which last until the next contents(i), or as long as this object
  /// Errors         ENOENT if there is no such file; ENOMEM; error::inherited_by_fork; as openat(2), readv(2)
  /// Waiting        for the end of others' leases of the file (fcntl(2))
  /// Preconditions  i < size()
  /// Cost           opens and reads the file each time, into memory of its size
  [[nodiscard]] result<std::span<std::byte const>> contents(std::size_t i) noexcept;

  /// Prepares what will replace the file: a new inode, of the same owner, group, permissions and ACL, on the
  /// disk when this returns. Other extended attributes are not kept, and other names of the old inode keep
  /// the old inode. A second call drops what the first prepared.
  ///
  /// Errors         EBADF if begun shared; ENOSPC, EFBIG, EDQUOT; EPERM for an owner that cannot be kept, and
  ///                for a file or a folder that does not let it be replaced (immutable, append-only); EBUSY
  ///                for a mount point; error::inherited_by_fork; as openat(2), write(2), fsync(2). commit()
  ///                will fail for the same reason, unless another replace() of this file succeeds
  /// Preconditions  i < size()
  /// Cost           a dozen system calls, one of which waits for the disk
  result<void> replace(std::size_t i, std::span<std::byte const> bytes) noexcept;

  /// Puts all prepared replacements in place, as one. Keeps the locks for further changes.
  ///
  /// Effects       all or, if it fails, none; see is_decided() for the one exception
  /// Errors        EBADF if begun shared; the error of replace(); ENOENT if what that prepared was removed by
  ///               others; condition::timed_out, would_block if other users of the tree are committing;
  ///               error::inherited_by_fork; ENOMEM, ENOSPC, EIO …: nothing is changed then, and it may be
  ///               tried again. If is_decided(): some files are replaced, the others will be
  /// Waiting       until `d` for other commits in the tree; unbounded for the disk
  /// Cost          see the top of the file
  /// Source        rename(2), fsync(2)
  result<void> commit(deadline d = {}) noexcept;

 private:
  struct state;
  explicit update_files(std::unique_ptr<state> s) noexcept;
  static result<update_files> begin(shared_fs_mutex& mutex, path_handle const& tree,
                                    std::span<path_view const> paths, bool alone, deadline d) noexcept;
  std::unique_ptr<state> state_;
};

} // namespace unio::fs
