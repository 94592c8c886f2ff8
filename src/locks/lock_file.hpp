// src/locks/lock_file.hpp: what the four mutexes share: a file that is opened safely. Locks on its bytes are
// in lock_bytes.hpp.
//
//   lock_file     an open lock file: its owner, its place, what may be trusted
//   descriptions  more open descriptions of the same file: locks of two of them exclude each other, also
//                 within a process

#pragma once

#include "handle/names.hpp"
#include "locks/lock_bytes.hpp"
#include "sys/calls.hpp"

#include <sys/types.h>

#include <mutex>

namespace unio::inline v0_1::fs {

/// Whether the group of a folder may write it, and not everyone: what has its group was made by a member.
bool is_groups(struct stat const& folder) noexcept;

/// Gives a file the group of `like` and `mode`, without the group's part if that cannot be given; a new one
/// its owner as well, as root.
void share_like(int fd, struct stat const& like, unsigned mode, bool is_new) noexcept;

/// Whether a file may be one of ours, as far as its attributes tell: ELOOP, EISDIR, ENOENT (it was removed),
/// error::not_a_lock_file (no regular file), several_names, writable_by_all, EPERM (of another user). Or 0.
int check_attributes(struct stat const& s) noexcept;

// Bytes that the users of a file lock to join each other.
inline constexpr std::uint64_t init_byte = std::uint64_t{1} << 62; // exclusive: opening, closing
inline constexpr std::uint64_t in_use_byte = init_byte + 1;        // shared: has it open

struct lock_file_wishes {
  bool directory = false;
  bool may_be_remote = true;
  char const* beside = nullptr; ///< its name leaves room for open_beside() of this
};

/// An open lock file, or a directory of lock files.
///
/// Moved-from  closed
class lock_file {
 public:
  lock_file() = default;
  lock_file(lock_file&& other) noexcept;
  lock_file& operator=(lock_file&& other) noexcept;
  ~lock_file() { close(); }

  /// Opens or creates a regular file, or opens a directory. Links are not followed; a FIFO or a device is not
  /// opened at all; a file with several names, or whose owner is neither this user nor root, or that others
  /// than its owner's group may write, is refused.
  ///
  /// Errors  ELOOP, EISDIR, ENOTDIR, error::not_a_lock_file (no regular file), several_names,
  ///         writable_by_all, EPERM (another owner), as openat(2); ENAMETOOLONG, EOPNOTSUPP if the wishes
  ///         cannot be met: then nothing is created
  static result<lock_file> open(path_handle const& base, path_view name, lock_file_wishes w = {}) noexcept;
  /// Opens or creates a regular file and joins its users: `alone` says whether there are others. Holds
  /// `init_byte` exclusively until joined() is called, so that no other user joins before; waits for one
  /// that does, as `how` says.
  ///
  /// Errors  as open(); EBUSY if its name leads to another file each time; ETIMEDOUT, EAGAIN
  static result<lock_file> join(path_handle const& base, path_view name, detail::waiting how, bool& alone,
                                lock_file_wishes w) noexcept;
  /// Opens the file ".NAME.`what`" beside this one, for what its users map: truncating a mapped file ends its
  /// users by SIGBUS, which happens by accident to a lock file (`: > lock`), but not to a hidden file beside
  /// it. If `made` is given, creates it if there is none, and says so: only its creator may fill it. It gets
  /// the group and the mode of this one, as far as this user may give them, also later. Its owner may also be
  /// the lock file's; or any user, if the group of both may write the lock file and not everyone may write
  /// their directory.
  ///
  /// Errors  as open(); ENOENT, ENAMETOOLONG
  [[nodiscard]] result<lock_file> open_beside(char const* what, bool* made) const noexcept;
  /// Opens or creates a lock file for those who may write a folder: its owner, and its group unless everyone
  /// may write it. It may be the folder's owner's, and is if root makes it. Errors  as open()
  static result<lock_file> open_of_writers(int folder, char const* name) noexcept;
  /// Removes its name, so that another file of that name can be made. 0, or a negative errno.
  int remove_name() const noexcept;
  /// From here on others may join. 0, or a negative errno.
  int joined() noexcept;

  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  [[nodiscard]] dev_t device() const noexcept { return device_; }
  [[nodiscard]] ino_t inode() const noexcept { return inode_; }
  /// On a filesystem whose files other machines may change: what is written here is not seen there at once
  /// (NFS, SMB, 9p, FUSE …).
  [[nodiscard]] bool is_remote() const noexcept { return is_remote_; }
  /// Whether the process has forked since. Then this is the child's copy, whose descriptors are closed.
  [[nodiscard]] bool is_inherited() const noexcept;
  /// On a remote filesystem, makes read_at() see what the server has now, whatever is cached here; unless
  /// another process is reading the same pages. 0, or a negative errno.
  [[nodiscard]] int refresh() const noexcept { return is_remote_ ? refresh(fd_) : 0; }
  static int refresh(int fd) noexcept;
  /// fstat(2) of a file in the same filesystem: on a remote one, what the server answers to this call. What
  /// the kernel keeps after it may be older: of two answers that cross it keeps the first that arrives. 0, or
  /// a negative errno.
  int status(int fd, struct stat& s) const noexcept;
  int status(struct stat& s) const noexcept { return status(fd_, s); }
  /// Whether `name` in the directory it was opened from still leads to this inode. 1, 0, or a negative errno.
  [[nodiscard]] int is_still_named() const noexcept;

  /// A description of its own. Errors: EMFILE, …
  [[nodiscard]] result<int> open_description(int more_flags = 0) const noexcept;
  void close() noexcept;

 private:
  int open_named(bool wants_directory) noexcept;
  int create(struct stat const* beside) noexcept;
  int open_or_create(struct stat const& beside, bool* made, bool is_empty) noexcept;
  int open_existing(bool wants_directory, struct stat const* beside, bool is_empty = false) noexcept;
  int opened() noexcept;

  int fd_ = -1;
  int directory_ = -1; // of `name_`: a descriptor of its own
  dev_t device_ = 0;
  ino_t inode_ = 0;
  unsigned generation_ = 0;
  bool is_remote_ = false;
  char name_[unio::detail::longest_name + 1] = {}; // the last part
};

/// Open descriptions of one file, kept for reuse: one for each guard, so that the kernel lets no two of them
/// overlap.
class descriptions {
 public:
  descriptions() = default;
  descriptions(descriptions const&) = delete;
  descriptions& operator=(descriptions const&) = delete;
  ~descriptions() { close(); }

  /// An unused one, without locks, or a negative errno: EMFILE, ENFILE.
  int take(lock_file const& of) noexcept;
  /// Its locks must have been released.
  void give_back(int fd) noexcept;
  /// Closes all of them; `inherited`: in a child of fork, where they are closed already, forgets them.
  void close(bool inherited = false) noexcept;

 private:
  std::mutex mutex_;
  std::unique_ptr<int[]> free_; // no vector: unlocking must not fail for lack of memory
  std::size_t count_ = 0;
  std::size_t room_ = 0;
};

} // namespace unio::fs
