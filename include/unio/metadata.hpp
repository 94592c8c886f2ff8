// unio/metadata.hpp: what a filesystem knows of a file apart from its bytes, and of itself.
//
//   stat_fields         which of it is wanted, or known
//   metadata            the values
//   file_id             tells an inode from every other
//   metadata_change     what to set: permissions, owner, group, times
//   volume              a filesystem: its space, its limits
//   async_stat          handle::stat, co_stat, …; of a name: unio::stat, unio::co_stat, …
//   async_stat_all      of many names at once: unio::stat_all, unio::co_stat_all, …
//   async_set_metadata  handle::set_metadata, …; of a name: unio::set_metadata, …
//   async_stat_volume   handle::stat_volume, …

#pragma once

#include <unio/detail/declared.hpp>
#include <unio/detail/flag_set.hpp>
#include <unio/directory_entry.hpp>
#include <unio/io_request.hpp>
#include <unio/path_view.hpp>

namespace unio::inline v0_1 {

/// A time of a file: nanoseconds since the epoch of the system clock. A filesystem may keep them coarser.
/// Times before 1677 and after 2262 are cut to the earliest and the latest.
using file_time = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

/// Which metadata is wanted, or known. The bits are those of statx(2).
enum class stat_fields : std::uint32_t {
  none = 0,
  kind = 0x1,
  permissions = 0x2,
  link_count = 0x4,
  owner = 0x8,
  group = 0x10,
  accessed = 0x20,
  modified = 0x40,
  changed = 0x80,
  inode = 0x100,
  size = 0x200,
  allocated = 0x400,
  basic = 0x7ff, ///< all of the above, as stat(2) has them
  born = 0x800,
  mount = 0x1000,
  direct_io = 0x2000,          ///< Linux 6.1
  subvolume = 0x8000,          ///< Linux 6.10
  atomic_writes = 0x10000,     ///< Linux 6.11
  direct_io_reading = 0x20000, ///< Linux 6.14
  identity = inode | born,     ///< what metadata::id() is made of
  everything = 0x3bfff,
};
template <> inline constexpr bool detail::is_flag_set<stat_fields> = true;

/// What an entry of a directory knows without asking: the inode, and its kind unless that is unknown.
constexpr stat_fields known_of(directory_entry const& e) noexcept {
  return e.kind() == entry_kind::unknown ? stat_fields::inode : stat_fields::inode | stat_fields::kind;
}

/// What is special about a file. The bits are those of statx(2).
enum class file_attributes : std::uint64_t {
  none = 0,
  compressed = 0x4,
  immutable = 0x10,   ///< it cannot be changed, renamed or removed (chattr +i)
  append_only = 0x20, ///< chattr +a
  not_dumped = 0x40,  ///< chattr +d
  encrypted = 0x800,
  automount = 0x1000,  ///< a mount is made when it is entered
  mount_root = 0x2000, ///< the root of a mount: what is below is another filesystem than what is above
  verity = 0x100000,   ///< it cannot change, and reads verify it
  dax = 0x200000,      ///< its memory is mapped, not cached
  atomic_writes = 0x400000,
};
template <> inline constexpr bool detail::is_flag_set<file_attributes> = true;

/// A device's two numbers.
struct device_id {
  std::uint32_t major = 0;
  std::uint32_t minor = 0;
  bool operator==(device_id const&) const = default;
};

/// Tells an inode from every other of the running system, also from a later one with the same number if the
/// filesystem knows when it was born. Not across reboots. On overlayfs device and inode of a file may change
/// when it is first written to.
struct file_id {
  device_id device;
  std::uint64_t inode = 0;
  file_time born{}; ///< the epoch where the filesystem does not know
  bool operator==(file_id const&) const = default;
};

/// The metadata of a file. What `known` does not have is zero.
///
/// Thread safety  distinct: safe; shared: any number of readers
/// Size           152 bytes
struct metadata {
  stat_fields known = stat_fields::none;
  std::uint32_t link_count = 0;
  entry_kind kind = entry_kind::unknown;
  std::uint16_t permissions = 0; ///< 12 bits: set-user-id, set-group-id, sticky, and rwx three times
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::uint32_t block_size = 0; ///< what the filesystem likes to be read in, in bytes; always known
  std::uint64_t inode = 0;
  device_id device;            ///< that it is on; always known
  device_id represents;        ///< of a device: which; always known
  std::uint64_t size = 0;      ///< bytes; of a symbolic link those of its target
  std::uint64_t allocated = 0; ///< bytes of storage: less than `size` if there are holes
  file_time accessed{}, modified{}, changed{}, born{};
  file_attributes attributes = file_attributes::none;
  file_attributes attributes_known = file_attributes::none; ///< which of them the filesystem tells
  std::uint64_t mount = 0;
  std::uint64_t subvolume = 0;
  // For files opened with caching::none or only_metadata. Zero although known: it cannot be opened so.
  std::uint32_t direct_memory_alignment = 0; ///< of buffers, in bytes
  std::uint32_t direct_offset_alignment = 0; ///< of offsets and sizes
  std::uint32_t direct_read_alignment = 0;   ///< of offsets and sizes when reading, where that may be less
  std::uint32_t atomic_write_min = 0;        ///< bytes that a write without tearing may have
  std::uint32_t atomic_write_max = 0;
  std::uint32_t atomic_write_segments = 0; ///< and buffers

  /// Preconditions: known has stat_fields::inode.
  [[nodiscard]] file_id id() const noexcept { return {device, inode, born}; }
};

/// What to set. The owner is set first, because that clears the set-user-id bits; the times last.
struct metadata_change {
  static constexpr std::uint32_t keep = ~std::uint32_t{0};
  static constexpr file_time keep_time = file_time::min();
  static constexpr file_time now = file_time::max(); ///< the time of the change

  std::uint32_t permissions = keep; ///< as metadata::permissions
  std::uint32_t owner = keep;
  std::uint32_t group = keep;
  file_time accessed = keep_time;
  file_time modified = keep_time;
};

/// A filesystem: its space in bytes, its inodes, its limits.
///
/// Thread safety  distinct: safe; shared: any number of readers
struct volume {
  std::uint64_t total = 0;     ///< bytes
  std::uint64_t free = 0;      ///< bytes that are not in use
  std::uint64_t available = 0; ///< of them those that a user without privileges can have
  std::uint64_t inodes = 0;    ///< 0 where they are made as needed
  std::uint64_t free_inodes = 0;
  std::uint64_t type = 0; ///< its magic number, as statfs(2) lists them
  std::uint64_t id = 0;
  std::uint32_t block_size = 0;
  std::uint32_t longest_name = 0; ///< bytes
  bool is_read_only = false;
  /// Whether its files are in memory only (tmpfs, ramfs): what is written there survives no reboot.
  [[nodiscard]] bool is_in_memory() const noexcept {
    return type == 0x01021994 || type == 0x858458f6 || type == 0x958458f6; // statfs(2)
  }
};

/// What a name means whose last part is a symbolic link.
enum class last_link : std::uint8_t {
  itself,   ///< the link
  followed, ///< what it leads to
};

/// Asks for the metadata of what a handle has open, or of what a name leads to.
///
/// Returns       the fields wanted that the filesystem has, and perhaps more: `known` says which
/// Errors        as statx(2): ENOENT, ENOTDIR, EACCES, ELOOP, ENAMETOOLONG of a name; error::embedded_nul
/// Preconditions the handle is open; a path_handle that is not stands for the working directory
/// Buffers       the name must live until it has finished
/// Concurrency   any number at once, of any threads; each operation as io_operation
/// Cancellation  the deadline and a stop bound the wait to begin: a call that a filesystem has begun is not
///               interrupted
/// Cost          no allocation; one system call. Of an open file on a disk of this machine it is made at
///               once (of a name that is cached three are); otherwise a filesystem may have to be asked,
///               and a thread that may block makes it
/// Runs as       statx(2); on no driver by the ring, whose STATX always takes a thread of the kernel
/// Source        docs/features.md H-15; statx(2)
UNIO_OPERATION_ON_HANDLE_OR_NAME(stat, metadata, handle, ((last_link, how, = last_link::itself)),
                                 (stat_fields, wanted, = stat_fields::basic))

/// A name that async_stat_all asks for, and what it was told.
///
/// Size           184 bytes
struct stat_of_name {
  path_view name;
  metadata value{};
  std::error_code error{}; ///< as async_stat has it; `value` is then empty
};

/// Asks for the metadata of many names, from one directory. For a listing, say: a thread that may block is
/// given all of them together, so what handing over costs is shared.
///
/// Returns       nothing: each name has its own result, and none ends the others
/// Errors        only of the operation itself: condition::timed_out, canceled
/// Preconditions a path_handle that is not open stands for the working directory
/// Buffers       the names, and `all`, must live until it has finished
/// Concurrency   any number at once, of any threads; each operation as io_operation
/// Cancellation  the deadline and a stop bound the wait to begin; then all are asked for
/// Cost          no allocation; one system call for each name
/// Runs as       statx(2), again and again, on a thread that may block
/// Source        docs/features.md H-15; statx(2)
UNIO_OPERATION_AND_VERB(stat_all, void, (path_handle const&, base), (std::span<stat_of_name>, all),
                        (stat_fields, wanted, = stat_fields::basic), (last_link, how, = last_link::itself))

/// Sets metadata of what a handle has open, or of what a name leads to: what `metadata_change` does not keep.
///
/// Effects       owner and group, permissions, times, in this order. The first failure ends it: what came
///               before it is done
/// Returns       nothing
/// Errors        EPERM, EROFS, EINVAL as chown(2), chmod(2), utimensat(2); those of a name as async_stat.
///               EOPNOTSUPP for the permissions of a symbolic link
/// Cost          no allocation; a system call for each of the three, two more for handles without access
/// Runs as       fchownat(2), fchmod(2), fchmodat2(2), utimensat(2) on a thread that may block
/// Source        docs/features.md H-15
UNIO_OPERATION_ON_HANDLE_OR_NAME(set_metadata, void, handle, ((last_link, how)),
                                 (metadata_change const&, change))

/// Asks for space and limits of the filesystem on which a handle is.
///
/// Returns       the volume
/// Errors        as fstatfs(2)
/// Runs as       fstatfs(2) on a thread that may block: a server may have to be asked
/// Source        docs/features.md H-15; fstatfs(2)
UNIO_OPERATION(stat_volume, volume, (handle const&, h))

} // namespace unio
