// async_stat, async_set_metadata, async_stat_volume: what a filesystem knows of files apart from their bytes.

#include "handle/names.hpp"
#include "op/call.hpp"
#include "sys/kernel_abi.hpp"

#include <unio/handle.hpp>

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace unio::inline v0_1::op {
namespace {

static_assert(sizeof(metadata) == 152 && sizeof(stat_of_name) == 184);

constexpr bool is(stat_fields f, unsigned bit) noexcept { return static_cast<unsigned>(f) == bit; }
static_assert(is(stat_fields::kind, STATX_TYPE) && is(stat_fields::permissions, STATX_MODE));
static_assert(is(stat_fields::link_count, STATX_NLINK) && is(stat_fields::owner, STATX_UID));
static_assert(is(stat_fields::group, STATX_GID) && is(stat_fields::accessed, STATX_ATIME));
static_assert(is(stat_fields::modified, STATX_MTIME) && is(stat_fields::changed, STATX_CTIME));
static_assert(is(stat_fields::inode, STATX_INO) && is(stat_fields::size, STATX_SIZE));
static_assert(is(stat_fields::allocated, STATX_BLOCKS) && is(stat_fields::basic, STATX_BASIC_STATS));
static_assert(is(stat_fields::born, STATX_BTIME) && is(stat_fields::mount, STATX_MNT_ID));
static_assert(is(stat_fields::direct_io, STATX_DIOALIGN));

constexpr bool is(file_attributes a, unsigned bit) noexcept { return static_cast<std::uint64_t>(a) == bit; }
static_assert(is(file_attributes::compressed, STATX_ATTR_COMPRESSED));
static_assert(is(file_attributes::immutable, STATX_ATTR_IMMUTABLE));
static_assert(is(file_attributes::append_only, STATX_ATTR_APPEND));
static_assert(is(file_attributes::not_dumped, STATX_ATTR_NODUMP));
static_assert(is(file_attributes::encrypted, STATX_ATTR_ENCRYPTED));
static_assert(is(file_attributes::automount, STATX_ATTR_AUTOMOUNT));
static_assert(is(file_attributes::mount_root, STATX_ATTR_MOUNT_ROOT));
static_assert(is(file_attributes::verity, STATX_ATTR_VERITY) && is(file_attributes::dax, STATX_ATTR_DAX));

constexpr std::int64_t second = 1'000'000'000;

file_time time_of(statx_timestamp const& t) noexcept {
  std::int64_t ns = 0;
  if (__builtin_mul_overflow(t.tv_sec, second, &ns) || __builtin_add_overflow(ns, t.tv_nsec, &ns))
      [[unlikely]]
    return t.tv_sec > 0 ? file_time::max() : file_time::min();
  return file_time(std::chrono::nanoseconds(ns));
}

template <class T> T field_at(struct statx const& s, std::size_t offset) noexcept {
  static_assert(sizeof(s) == 256);
  T value;
  std::memcpy(&value, reinterpret_cast<std::byte const*>(&s) + offset, sizeof(value));
  return value;
}

constexpr stat_fields rare = stat_fields::subvolume | stat_fields::direct_io |
                             stat_fields::direct_io_reading | stat_fields::atomic_writes;

[[gnu::noinline]] void decode_rare(metadata& m, struct statx const& s) noexcept {
  if (has(m.known, stat_fields::subvolume)) m.subvolume = field_at<std::uint64_t>(s, sys::statx_subvolume);
  if (has(m.known, stat_fields::direct_io)) {
    m.direct_memory_alignment = s.stx_dio_mem_align;
    m.direct_offset_alignment = s.stx_dio_offset_align;
  }
  if (has(m.known, stat_fields::direct_io_reading))
    m.direct_read_alignment = field_at<std::uint32_t>(s, sys::statx_direct_read_alignment);
  if (has(m.known, stat_fields::atomic_writes)) {
    m.atomic_write_min = field_at<std::uint32_t>(s, sys::statx_atomic_write_min);
    m.atomic_write_max = field_at<std::uint32_t>(s, sys::statx_atomic_write_max);
    m.atomic_write_segments = field_at<std::uint32_t>(s, sys::statx_atomic_write_segments);
  }
}

// Straight to where it belongs, each field once: a copy, or clearing all of it first, counts beside a cached
// name's call.
void decode_into(metadata& m, struct statx const& s) noexcept {
  stat_fields const known = static_cast<stat_fields>(s.stx_mask) & stat_fields::everything;
  auto const time_if = [known](stat_fields f, statx_timestamp const& t) noexcept {
    if (!has(known, f)) [[unlikely]]
      return file_time();
    return time_of(t);
  };
  m.known = known;
  m.link_count = s.stx_nlink;
  m.kind = static_cast<entry_kind>(s.stx_mode >> 12);
  m.permissions = s.stx_mode & 07777;
  m.owner = s.stx_uid;
  m.group = s.stx_gid;
  m.block_size = s.stx_blksize;
  m.inode = s.stx_ino;
  m.device = {s.stx_dev_major, s.stx_dev_minor};
  m.represents = {s.stx_rdev_major, s.stx_rdev_minor};
  m.size = s.stx_size;
  m.allocated = s.stx_blocks * 512; // statx(2): always blocks of that size
  m.accessed = time_if(stat_fields::accessed, s.stx_atime);
  m.modified = time_if(stat_fields::modified, s.stx_mtime);
  m.changed = time_if(stat_fields::changed, s.stx_ctime);
  m.born = time_if(stat_fields::born, s.stx_btime);
  m.attributes = static_cast<file_attributes>(s.stx_attributes);
  m.attributes_known = static_cast<file_attributes>(s.stx_attributes_mask);
  m.mount = has(known, stat_fields::mount) ? s.stx_mnt_id : 0;
  m.subvolume = 0;
  m.direct_memory_alignment = m.direct_offset_alignment = m.direct_read_alignment = 0;
  m.atomic_write_min = m.atomic_write_max = m.atomic_write_segments = 0;
  if ((known & rare) != stat_fields::none) [[unlikely]]
    decode_rare(m, s);
}

int statx_into(int fd, char const* name, int flags, stat_fields wanted, metadata& value) noexcept {
  struct statx s;
  int const r = uninterrupted([&] {
    return sys::statx(fd, name, flags, static_cast<unsigned>(wanted & stat_fields::everything), &s);
  });
  if (r >= 0) decode_into(value, s);
  return r;
}

// Of a descriptor. Since Linux 6.11 the kernel need not be given a name to read, not even an empty one, which
// saves a twentieth; before, it says that there is none at that address.
int statx_of(int fd, int flags, stat_fields wanted, metadata& value) noexcept {
  static constinit std::atomic<bool> has_to_have_name{false}; // relaxed: every thread finds the same
  flags |= AT_EMPTY_PATH;
  if (sys::kernel_answers() && !has_to_have_name.load(std::memory_order_relaxed)) {
    int const r = statx_into(fd, nullptr, flags, wanted, value);
    if (r != -EFAULT) return r;
    has_to_have_name.store(true, std::memory_order_relaxed);
  }
  return statx_into(fd, "", flags, wanted, value);
}

// Whether no filesystem that keeps its files elsewhere is asked: then a descriptor's metadata is in memory.
// Those of networks and FUSE have no device, so that its major number is 0; nor do tmpfs and btrfs.
bool is_at_hand(handle_kind kind, metadata const& m) noexcept {
  switch (kind) {
    case handle_kind::pipe:
    case handle_kind::stream_socket:
    case handle_kind::listening_socket:
    case handle_kind::datagram_socket:
    case handle_kind::event:
      return true;
    default:
      return m.device.major != 0;
  }
}

timespec set_time(file_time t) noexcept {
  if (t == metadata_change::keep_time) return {.tv_sec = 0, .tv_nsec = UTIME_OMIT};
  if (t == metadata_change::now) return {.tv_sec = 0, .tv_nsec = UTIME_NOW};
  std::int64_t const ns = t.time_since_epoch().count();
  std::int64_t const seconds = ns / second - (ns % second < 0 ? 1 : 0);
  return {.tv_sec = seconds, .tv_nsec = ns - seconds * second};
}

int flags_of(detail::handle_or_name const& of, last_link how) noexcept {
  if (!of.is_named) return AT_EMPTY_PATH;
  return how == last_link::itself ? AT_SYMLINK_NOFOLLOW : 0;
}

int stat(detail::handle_or_name const& of, stat_fields wanted, last_link how, metadata& value) noexcept {
  if (!of.is_named) return statx_of(of.fd, 0, wanted, value);
  return statx_into(of.fd, of.name.c_str(), flags_of(of, how), wanted, value);
}

// Of an open descriptor. Of a name, if all its parts are cached: three calls, but no thread.
[[gnu::noinline]] int stat_at_once(detail::handle_or_name const& of, stat_fields wanted, last_link how,
                                   metadata& value) noexcept {
  int fd = of.fd;
  if (of.is_named) {
    open_how cached{};
    cached.flags = O_PATH | O_CLOEXEC | (how == last_link::itself ? std::uint64_t{O_NOFOLLOW} : 0);
    cached.resolve = RESOLVE_CACHED;
    fd = static_cast<int>(sys::openat2(of.fd, of.name.c_str(), &cached, sizeof(cached)));
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EACCES) return fd;
    if (fd < 0) return -EAGAIN;
  }
  int r = statx_of(fd, AT_STATX_DONT_SYNC, wanted, value);
  if (of.is_named) sys::close(fd);
  if (r >= 0 && !is_at_hand(of.is_named ? handle_kind::file : of.kind, value)) r = -EAGAIN;
  return r;
}

int stat_all(detail::directory_number base, std::span<stat_of_name> all, stat_fields wanted,
             last_link how) noexcept {
  for (stat_of_name& one : all) {
    int r = one.name.check();
    if (r == 0) r = stat({base, handle_kind::path, true, one.name}, wanted, how, one.value);
    if (r < 0) one.value = {};
    one.error = detail::to_error_code(std::min(r, 0));
  }
  return 0;
}

int set_permissions(detail::handle_or_name const& of, unsigned mode, last_link how) noexcept {
  if (!of.is_named) {
    auto const r = static_cast<int>(sys::fchmod(of.fd, mode));
    if (r != -EBADF) return r; // opened without access (O_PATH)
    return static_cast<int>(sys::fchmodat2(AT_FDCWD, detail::descriptor_path(of.fd).text, mode, 0));
  }
  if (how == last_link::followed) return static_cast<int>(sys::fchmodat2(of.fd, of.name.c_str(), mode, 0));
  return detail::change_mode(of.fd, of.name.c_str(), mode);
}

int set_times(detail::handle_or_name const& of, metadata_change const& change, last_link how) noexcept {
  timespec const times[2] = {set_time(change.accessed), set_time(change.modified)};
  if (of.is_named) return static_cast<int>(sys::utimensat(of.fd, of.name.c_str(), times, flags_of(of, how)));
  auto const r = static_cast<int>(sys::utimensat(of.fd, nullptr, times, 0));
  if (r != -EBADF) return r;
  return static_cast<int>(sys::utimensat(AT_FDCWD, detail::descriptor_path(of.fd).text, times, 0));
}

int set_metadata(detail::handle_or_name const& of, metadata_change const& change, last_link how) noexcept {
  constexpr std::uint32_t keep = metadata_change::keep;
  if (change.owner != keep || change.group != keep) {
    std::int64_t const r =
        sys::fchownat(of.fd, of.name.c_str(), change.owner, change.group, flags_of(of, how));
    if (r < 0) return static_cast<int>(r);
  }
  if (change.permissions != keep)
    if (int const r = set_permissions(of, change.permissions & 07777, how); r < 0) return r;
  if (change.accessed != metadata_change::keep_time || change.modified != metadata_change::keep_time)
    if (int const r = set_times(of, change, how); r < 0) return r;
  return 0;
}

int stat_volume(int fd, volume& v) noexcept {
  struct statfs s;
  int const r = uninterrupted([&] { return sys::fstatfs(fd, &s); });
  if (r < 0) return r;
  // The counts are in fragments; f_bsize is the size of transfers that the filesystem likes.
  auto const unit = static_cast<std::uint64_t>(s.f_frsize != 0 ? s.f_frsize : s.f_bsize);
  v.total = s.f_blocks * unit;
  v.free = s.f_bfree * unit;
  v.available = s.f_bavail * unit;
  v.inodes = s.f_files;
  v.free_inodes = s.f_ffree;
  v.type = static_cast<std::uint64_t>(s.f_type);
  static_assert(sizeof(s.f_fsid) == sizeof(v.id));
  std::memcpy(&v.id, &s.f_fsid, sizeof(v.id));
  v.block_size = static_cast<std::uint32_t>(s.f_bsize);
  v.longest_name = static_cast<std::uint32_t>(s.f_namelen);
  v.is_read_only = (s.f_flags & ST_RDONLY) != 0;
  return 0;
}

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_stat::table_ =
    op::call_faces<async_stat, op::stat, op::stat_at_once>("stat");
constinit operation_faces const async_stat_all::table_ =
    op::call_faces<async_stat_all, op::stat_all>("stat_all");
constinit operation_faces const async_set_metadata::table_ =
    op::call_faces<async_set_metadata, op::set_metadata>("set_metadata");
constinit operation_faces const async_stat_volume::table_ =
    op::call_faces<async_stat_volume, op::stat_volume>("stat_volume");

result<file_id> handle::unique_id() const noexcept {
  io_result<metadata> const m = detail::blocking(async_stat(*this, stat_fields::identity));
  if (!m) return m.error();
  return m->id();
}

} // namespace unio
