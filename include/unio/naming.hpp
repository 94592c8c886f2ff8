// unio/naming.hpp: making, changing and removing names.
//
//   relink_mode            what a rename does where the new name is taken
//   unlink_mode            which kind of name is removed
//   async_relink           handle::relink: another name for what is open, in place of its current one
//   async_link_inode       handle::link: one more name for what is open
//   async_unlink_inode     handle::unlink: removes the current name of what is open
//   async_rename           unio::rename: another name for what a name leads to
//   async_unlink           unio::unlink: removes a name
//   async_make_directory   unio::make_directory
//   async_make_symlink     unio::make_symlink
//   async_hard_link        unio::hard_link: one more name for what a name leads to
//
// Each of them as a call, awaited (unio::co_rename, …) and described (unio::async_rename, …), with deadlines.
//
// What cannot be free of races. Linux renames and removes names, not inodes: it has no call that does so only
// if the name still leads to a certain inode. relink and unlink of a handle therefore find the name that the
// kernel says it has, open its directory, check through that directory that the name leads to this inode
// (device, number and, where the filesystem has it, time of birth), and then rename or remove it in that same
// directory. Directories on the way may be renamed or replaced at any time: that changes nothing. But if
// somebody puts another file under the last name between the check and the call, a few microseconds, then
// that file is renamed or removed. link of a handle has no such gap: the new name is given to what is open.
// On overlayfs a file's device and inode may change when it is first written to: the check then fails
// (ENOENT) although the name is right.

#pragma once

#include <unio/detail/declared.hpp>
#include <unio/path_view.hpp>

namespace unio::inline v0_1 {

/// What a rename does where the new name is taken.
enum class relink_mode : std::uint8_t {
  replace,    ///< takes its place, atomically: at every moment the name leads to the one or to the other
  no_replace, ///< fails with EEXIST. NFS, 9p and old FUSE servers cannot: there files are linked under the
              ///< new name, then the old one is removed (both exist for a moment); a directory, and
              ///< where there are no links any file, has something empty take the name first
  exchange,   ///< each gets the other's name, atomically; ENOENT if the new one does not exist, EINVAL where
              ///< the filesystem cannot
};

/// Which kind of name is removed.
enum class unlink_mode : std::uint8_t {
  file,      ///< anything but a directory: EISDIR
  directory, ///< an empty directory: ENOTDIR, ENOTEMPTY
};

// Of all operations on names:
//
//   Returns       nothing
//   Errors        as the system calls named: ENOENT, ENOTDIR, EACCES, EPERM, EROFS, ELOOP, ENAMETOOLONG,
//                 ENOSPC, EDQUOT; error::embedded_nul
//   Preconditions a path_handle that is not open stands for the working directory
//   Buffers       the names must live until it has finished; the handles need not, unless they are closed by
//                 handle::close, which waits for it
//   Concurrency   any number at once, of any threads; each operation as io_operation
//   Cancellation  the deadline and a stop bound the wait to begin. A call that has begun is not interrupted:
//                 its result is reported
//   Durability    the change survives a power loss after a barrier of the directory (path_handle)
//   Cost          no allocation; one system call, where nothing else is said
//   Runs as       the system call on a thread that may block, on every driver: the ring's own operations
//                 always take a thread of the kernel
//   Source        docs/features.md H-05, L-02

/// Gives what the handle has open the name `name`, relative to `base`, in place of its current name.
///
/// Errors        ENOENT if it has no name, or its name leads elsewhere; EXDEV; as renameat2(2)
/// Cost          six system calls
UNIO_OPERATION(relink, void, (handle const&, h), (path_handle const&, base), (path_view, name),
               (relink_mode, how, = relink_mode::replace))

/// Gives what the handle has open one more name, free of races. Also a file_handle::temp_inode: of that the
/// kernel still says "(deleted)", so use unio::rename and unio::unlink by the name, not relink and unlink.
///
/// Errors        EEXIST; EXDEV; EPERM for a directory; ENOENT for a file whose names were all removed; as
///               linkat(2)
/// Cost          two system calls; one with CAP_DAC_READ_SEARCH
UNIO_OPERATION(link_inode, void, (handle const&, h), (path_handle const&, base), (path_view, name))

/// Removes the current name of what the handle has open; a directory if it is one.
///
/// Errors        ENOENT if it has no name, or its name leads elsewhere; as unlinkat(2)
/// Cost          six system calls
UNIO_OPERATION(unlink_inode, void, (handle const&, h))

/// Gives what `from` leads to (a link itself) the name `to`. Source: renameat2(2).
UNIO_OPERATION_AND_VERB(rename, void, (path_handle const&, from_base), (path_view, from),
                        (path_handle const&, to_base), (path_view, to),
                        (relink_mode, how, = relink_mode::replace))

/// Removes a name. Source: unlinkat(2).
UNIO_OPERATION_AND_VERB(unlink, void, (path_handle const&, base), (path_view, name), (unlink_mode, what))

/// Makes an empty directory, with `permissions` minus the umask. Source: mkdirat(2).
UNIO_OPERATION_AND_VERB(make_directory, void, (path_handle const&, base), (path_view, name),
                        (unsigned, permissions))

/// Makes a symbolic link `name` whose target is `target`, any text of 1 … 4095 bytes (less on
/// filesystems with small blocks).
///
/// Errors        EEXIST with relink_mode::no_replace, if the name is taken. With replace it is made under a
///               random name and then renamed into its place; a directory is not replaced (EISDIR). EINVAL
///               with exchange; ENOENT for an empty target
/// Cost          one system call; three with relink_mode::replace
/// Source        docs/features.md H-08; symlinkat(2)
UNIO_OPERATION_AND_VERB(make_symlink, void, (path_handle const&, base), (path_view, name),
                        (path_view, target), (relink_mode, how))

/// Gives what `from` leads to (a link itself) one more name. Source: linkat(2).
UNIO_OPERATION_AND_VERB(hard_link, void, (path_handle const&, from_base), (path_view, from),
                        (path_handle const&, to_base), (path_view, to))

} // namespace unio
