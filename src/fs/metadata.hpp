// src/fs/metadata.hpp: what belongs to a file apart from its contents, from one file to another.

#pragma once

#include "fs/growing.hpp"

#include <atomic>
#include <cstdint>

struct statx;

namespace unio::inline v0_1::fs::trees {

/// Of the source, asked once.
struct attributes {
  std::uint64_t size;
  std::uint64_t blocks; // of 512 bytes
  inode_id id;
  std::int64_t accessed_s;
  std::int64_t modified_s;
  std::int64_t changed_s;
  std::uint32_t accessed_ns;
  std::uint32_t modified_ns;
  std::uint32_t changed_ns;
  std::uint32_t mode; // with the kind
  std::uint32_t owner;
  std::uint32_t group;
  std::uint32_t links;
  std::uint32_t device_major; // of a device
  std::uint32_t device_minor;
};

/// Follows no link; `name` empty: of `dir` itself. Returns 0 or -errno.
int attributes_of(int dir, char const* name, attributes& a) noexcept;

/// What could not be set.
struct not_kept {
  std::atomic<std::uint64_t> owners{0};
  std::atomic<std::uint64_t> attributes{0};
};

/// What new files have without being told, so that it need not be set.
struct defaults {
  bool are_known = false; ///< no bit of directories, no ACL changes them
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint32_t umask = 07777;

  /// Of files that are made in `dir`.
  void find(int dir) noexcept;
  /// Whether a file made with a.mode has it, and may be written until all else is set.
  [[nodiscard]] bool have_mode(attributes const& a) const noexcept {
    return are_known && (a.mode & (umask | 07000)) == 0 && (a.mode & 0200) != 0;
  }
};

/// Why something could not be set, each 0 or -errno. Filesystems such as vfat refuse what they cannot keep,
/// and user namespaces owners that they do not know.
struct refusals {
  int owner = 0; ///< beyond EPERM, which only counts in not_kept
  int mode = 0;
  int attributes = 0; ///< they could not be listed
  int attribute = 0;  ///< one of them, beyond what this user may not set or the filesystem does not have
  int times = 0;
  [[nodiscard]] bool any() const noexcept {
    return owner != 0 || mode != 0 || attributes != 0 || attribute != 0 || times != 0;
  }
};

/// Sets the owner, the extended attributes, the mode, the ACLs, and the times, in this order: chown(2) clears
/// bits of the mode and capabilities, only root may set attributes of what may not be written, chmod(2) may
/// change ACLs, and all of it changes times. Goes on after each refusal.
///
/// `from` and `to` are open, or `to` is -1 and what is meant is `name` in `dir` (a link, a FIFO, …), whose
/// extended attributes copy_attributes_of_special() copies; `dir` must be one in which no other user can
/// exchange names. `mode_is_set`: it was made with it.
refusals set_metadata(int from, int to, int dir, char const* name, attributes const& a, defaults const& d,
                      bool mode_is_set, not_kept& lost) noexcept;

/// Copies the extended attributes, with the ACLs, of a link, a FIFO, a device or a socket to another name.
/// Copies nothing where /proc is not mounted: the calls that Linux has before 6.13 need a path from there.
/// Returns 0, or why they could not be listed. `mode`: that of `to`.
int copy_attributes_of_special(int in, char const* from, int out, char const* to, std::uint32_t mode,
                               refusals& refused, not_kept& lost) noexcept;

/// Removes the ACLs that a new file or directory has inherited: they could give rights that the source does
/// not give. Returns 0 or -errno.
int drop_inherited_acls(int fd) noexcept;

/// Removes the extended attributes of what an ended copy has made, which its source may not have any more.
void drop_attributes(int fd) noexcept;

} // namespace unio::fs::trees
