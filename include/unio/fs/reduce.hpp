// unio/fs/reduce.hpp: removes a file, or a directory with all that is in it.
//
//   reduce      whatever others do to it
//   co_reduce   the awaited form
//
//   auto r = unio::fs::reduce({}, "/var/tmp/build").value();
//   if (!r.is_gone) report(r.failures);
//
//   links            removed, never followed: nothing outside of the tree is touched, whatever others
//                    exchange for links
//   mounts           refused, and reported, unless cross_mounts; then what is mounted is emptied, and the
//                    mount point itself stays (EBUSY)
//   others create    in directories that are being removed: these are read again until they stay empty, or
//                    the deadline or a stop ends it
//   others remove    what is gone is gone: no failure
//   killed           a part of the tree is there, under its name or under the hidden one, .NAME.unio-removed:
//                    reducing the same path again removes both
//
// Thread safety  any number of calls at once, from any threads; for two on one tree each other is what other
//                processes are

#pragma once

#include <unio/fs/tree.hpp>

namespace unio::inline v0_1::fs {

struct reduce_options : tree_options {
  /// First renames a directory to .NAME.unio-removed beside it, so that no user finds half of it. If
  /// something remains it gets its name back, if that is still free. A rename that fails is no failure; a
  /// name of more than 241 bytes is not hidden. False: it has its name until it is empty, as with rm(1).
  bool rename_first = true;
  bool count_bytes = false; ///< one more system call for each name
  /// First allows this user to change its directories: one or two more system calls for each. Without it what
  /// is in a directory that may not be written stays, as with rm(1).
  bool make_writable = false;
};

struct reduce_report {
  std::uint64_t removed = 0; ///< names
  std::uint64_t bytes = 0;   ///< with count_bytes: storage that was given back
  bool is_gone = false;      ///< nothing remains
  /// What remains has this name in its directory, because its own was taken, or because an earlier call,
  /// which was killed, has hidden it: zero-terminated; empty: its own.
  char left_as[256] = {};
  tree_failures failures;
  std::error_code ended; ///< condition::canceled, condition::timed_out; empty: all was tried
};

/// Removes what is at `path`, and what an earlier call, which was killed, has left hidden of it.
///
/// Returns       what was removed; what was not, and why: "immutable" for chattr +i or +a, "mount point",
///               "open on another machine" for names like .nfs0123, which NFS removes later, "in use" for
///               EBUSY otherwise. A directory that contains something that remains is no failure of its own
/// Errors        EINVAL for a path that ends in "." or ".." or that is the root directory; ENOTDIR for one
///               that ends in "/" and leads to no directory; as openat(2) and unlinkat(2) for `path` itself,
///               ENOENT among them, EBUSY for a mount point; ENOMEM. Nothing was removed then
/// Waiting       for the disk. `d` and a stop are looked at for each directory and each 256 names
/// Cancellation  leaves a part of the tree, see `left_as`; removing it again continues
/// Cost          no allocation for a name. One system call for each file; for each directory five. Each
///               thread has 22 MiB of address space for names, so that a directory is read before it changes,
///               and for putting them into the order of their inodes
/// Source        A-02; unlinkat(2), getdents64(2)
[[nodiscard]] UNIO_API result<reduce_report> reduce(path_handle const& base, path_view path,
                                                    reduce_options const& o = {}, deadline d = {},
                                                    tree_sink* sink = nullptr) noexcept;
/// The same, awaited, on a thread of its own.
///
/// Lifetime  `base`, the path's text and the sink must outlive the task
[[nodiscard]] UNIO_API task<result<reduce_report>> co_reduce(path_handle const& base, path_view path,
                                                             reduce_options o = {}, deadline d = {},
                                                             tree_sink* sink = nullptr);

} // namespace unio::fs
