// unio/fs/copy.hpp: copies a file or a tree, with all that belongs to it, and puts it in place as one.
//
//   clone_or_copy   shares storage where the filesystem can, else copies
//   move            renames, or copies, verifies and removes
//   co_clone_or_copy, co_move   the awaited forms
//
//   auto r = unio::fs::clone_or_copy({}, "/srv/data", {}, "/backup/data", {.durable = true}).value();
//   if (!r.is_in_place || !r.failures.empty()) report(r);
//
//   kept             contents, ranges without storage, modes, owners, times to the nanosecond, extended
//                    attributes, ACLs, links and what they say, hard links within the tree, FIFOs, sockets,
//                    devices
//   not kept         what this user may not set, or the target's filesystem does not have: counted in the
//                    report; what is refused beyond that is among the failures, the contents are copied all
//                    the same. SELinux labels; attributes of chattr(1); when a file was made; without /proc,
//                    extended attributes and ACLs of what is neither a file nor a directory
//   a new file       has no name until it is whole (O_TMPFILE), or a hidden one where that does not work
//   a new tree       is .NAME.unio-copy beside its place until it is whole, where only its owner can look;
//                    .NAME.unio-copy-of says of which source, and is locked by who fills it
//   an old tree      is replaced only by a whole one: if something could not be copied it stays, unless
//                    `allow_incomplete`
//   readers          see the old state or the new one; of a tree that replaces another neither for a moment
//                    (or from a kill then on) where there is no RENAME_EXCHANGE: NFS, 9p
//   ended, killed    the old state; of a tree perhaps also .NAME.unio-copy: `resume` continues it, or begins
//                    anew if it is of another source. It removes what the source does not have, and leaves
//                    alone what has the size, the mode and the time of its source; with `verify` only if it
//                    has its contents, too. Killed while it replaces something, or is no tree: the old state
//                    or the new one, and perhaps .unio-copy-…, which is the other, or a part of it; without
//                    RENAME_EXCHANGE perhaps both as that
//   verified         after each file was written to the disk, and past the page cache (O_DIRECT). Where there
//                    is no direct I/O (counted in verified_in_cache) the kernel is asked to drop what it has
//                    of the file, which it need not do. What a disk has in a cache of its own may come from
//                    there. Ranges without storage in both are not read
//   power loss       with `durable`: the new state once this has returned. Do not resume after one
//   others change    the source: a file may be copied half old, half new, but only a file of this
//                    tree: links that are exchanged for what was listed are not followed
//
// Thread safety  any number of calls at once, from any threads; for two on one tree each other is what other
//                processes are

#pragma once

#include <unio/fs/tree.hpp>

namespace unio::inline v0_1::fs {

/// How contents were copied, from the cheapest on.
enum class copy_method : std::uint8_t {
  none,      ///< there were none
  cloned,    ///< their storage is shared (FICLONERANGE)
  in_kernel, ///< copy_file_range(2)
  buffered   ///< read and write
};

struct copy_options : tree_options {
  bool replace = false; ///< what is there: a file at once (rename), a tree by RENAME_EXCHANGE
  bool durable = false; ///< on the disk before it is put in place, and its name after that
  bool verify = false;  ///< compare the contents before it is put in place, see above. EIO: they differ
  bool resume = false;  ///< continue what an ended or killed copy of this tree to the same place has left
  bool keep_partial = false;     ///< of a tree, if this ends early: for `resume`. Otherwise it is removed
  bool allow_incomplete = false; ///< let a tree replace another although something could not be copied
};

struct copy_report {
  std::uint64_t entries = 0;           ///< names that were made
  std::uint64_t unchanged = 0;         ///< names that were there already: `resume`
  std::uint64_t bytes = 0;             ///< of contents, with ranges without storage
  std::uint64_t shared_bytes = 0;      ///< of these, with shared storage
  std::uint64_t missing = 0;           ///< names that could not be copied, with all that is below them
  std::uint64_t verified_in_cache = 0; ///< files that were compared without direct I/O
  std::uint64_t owners_not_kept = 0;
  std::uint64_t attributes_not_kept = 0;
  std::uint64_t links_not_kept = 0;       ///< copies that should have been hard links
  copy_method method = copy_method::none; ///< the costliest that was used
  bool is_in_place = false;               ///< the target has its name
  char left_as[256] = {};                 ///< what remains of an ended copy, or of what was replaced
  tree_failures failures;                 ///< what was not copied: the rest is in place without it; "set the
                                          ///< mode", the owner, the times, "list the attributes", "copy an
                                          ///< attribute": what was refused of a copy that is whole; "remove
                                          ///< the remains": what is in `left_as`, and why
  std::error_code ended;                  ///< why nothing is in place: a stop, the deadline, ENOSPC …; the
                                          ///< first failure, if it would have replaced a whole tree; EXDEV:
                                          ///< one of a lower layer of overlayfs cannot be replaced
};

/// Copies what is at `from` to `to`. Not through a link at the end of either.
///
/// Returns       what was done; what could not be copied
/// Errors        EINVAL for a path that ends in "." or ".." or that is the root directory, for a directory to
///               be copied into itself or to replace one that it is in, by whatever paths and mounts, for two
///               names of one file; EEXIST if there is something at `to`, unless `replace` (then EISDIR or
///               ENOTDIR if one is a directory, and the other is none); EBUSY while another copy of a tree
///               to this place is under way; EALREADY if one has been killed (see `resume`); ESTALE to
///               `resume` what nothing says the source of; EPERM if .NAME.unio-copy-of is another user's, or
///               has several names; EACCES if the target's directory may not be read, which `durable` needs;
///               as openat(2) for both. Nothing was changed then
/// Waiting       for the disk, and for the end of others' leases (fcntl(2)). `d` and a stop are looked at for
///               each name and each 64 MiB
/// Cancellation  leaves what was at `to` before; see `left_as`
/// Cost          twelve system calls for a small file. `verify` waits for the disk once for each file.
///               Memory for each file with several names; with `resume` for each name. To replace a tree that
///               is seen through another mount of the source's filesystem it is searched for the source
/// Source        A-04; FICLONERANGE, copy_file_range(2)
[[nodiscard]] UNIO_API result<copy_report> clone_or_copy(path_handle const& from_base, path_view from,
                                                         path_handle const& to_base, path_view to,
                                                         copy_options const& o = {}, deadline d = {},
                                                         tree_sink* sink = nullptr) noexcept;
/// The same, awaited, on a thread of its own.
///
/// Lifetime  the bases, the texts of both paths and the sink must outlive the task
[[nodiscard]] UNIO_API task<result<copy_report>> co_clone_or_copy(path_handle const& from_base,
                                                                  path_view from, path_handle const& to_base,
                                                                  path_view to, copy_options o = {},
                                                                  deadline d = {}, tree_sink* sink = nullptr);

/// Renames; where that is not possible (another filesystem): copies, verified and durable, and then removes
/// what was copied. If anything could not be copied, or what was replaced not be removed, the source stays
/// whole, and the copy is in place. Of two names of one file `to` is left.
///
/// Returns  as clone_or_copy(); with `entries` 0 if it was a rename. What of the source could not be removed
///          is among the failures: then both are there. ESTALE: something else has its name, it was written
///          to since, or was made after its directory had been read; it stays, with the directories above it.
///          A file that others write to has another size or time then; by a shared map perhaps later, and
///          where another machine sets the times (NFS, FUSE) perhaps not within a tick of its clock. What is
///          written between the last look and the removal goes with it
/// Waiting  as clone_or_copy(); and until the clock of file times goes on, for a file that was just written
/// Errors   as clone_or_copy(), and renameat2(2)
/// Killed   while the source is removed: the copy is in place, and what is left of the source is called
///          .unio-moved-…; or as before if it cannot be renamed (directories of lower layers of overlayfs)
/// Cost     one system call if it is a rename; otherwise clone_or_copy(), verified and durable, and reduce(),
///          with a system call and some 150 bytes of memory more for each name
/// Source   A-05
[[nodiscard]] UNIO_API result<copy_report> move(path_handle const& from_base, path_view from,
                                                path_handle const& to_base, path_view to,
                                                copy_options const& o = {}, deadline d = {},
                                                tree_sink* sink = nullptr) noexcept;
/// The same, awaited, on a thread of its own.
///
/// Lifetime      as co_clone_or_copy()
/// Cancellation  of the copying, as co_clone_or_copy(); once the copy is in place the source is removed,
///               whatever the stop or the deadline says
[[nodiscard]] UNIO_API task<result<copy_report>> co_move(path_handle const& from_base, path_view from,
                                                         path_handle const& to_base, path_view to,
                                                         copy_options o = {}, deadline d = {},
                                                         tree_sink* sink = nullptr);

} // namespace unio::fs
