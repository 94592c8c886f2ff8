// async_stat, async_set_metadata, async_stat_volume: what a filesystem knows beside the bytes of files.

#include "handle/change_mode.hpp"
#include "op/name_operation.hpp"
#include "sys/kernel_abi.hpp"

#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

#include <cstring>

namespace unio::inline v0_1 {
namespace {

static_assert(sizeof(metadata) <= 224);

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
constexpr std::int64_t last_second = std::numeric_limits<std::int64_t>::max() / second - 1;

file_time time_of(statx_timestamp const& t) noexcept {
  if (t.tv_sec > last_second) return file_time::max();
  if (t.tv_sec < -last_second) return file_time::min();
  return file_time(std::chrono::nanoseconds(t.tv_sec * second + t.tv_nsec));
}

template <class T> T field_at(struct statx const& s, std::size_t offset) noexcept {
  static_assert(sizeof(s) == 256);
  T value;
  std::memcpy(&value, reinterpret_cast<std::byte const*>(&s) + offset, sizeof(value));
  return value;
}

metadata decoded(struct statx const& s) noexcept {
  metadata m;
  m.known = static_cast<stat_fields>(s.stx_mask) & stat_fields::everything;
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
  if (has(m.known, stat_fields::accessed)) m.accessed = time_of(s.stx_atime);
  if (has(m.known, stat_fields::modified)) m.modified = time_of(s.stx_mtime);
  if (has(m.known, stat_fields::changed)) m.changed = time_of(s.stx_ctime);
  if (has(m.known, stat_fields::born)) m.born = time_of(s.stx_btime);
  m.attributes = static_cast<file_attributes>(s.stx_attributes);
  m.attributes_known = static_cast<file_attributes>(s.stx_attributes_mask);
  if (has(m.known, stat_fields::mount)) m.mount = s.stx_mnt_id;
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
  return m;
}

int statx_into(int fd, char const* name, int flags, stat_fields wanted, metadata& value) noexcept {
  struct statx s;
  int const r = op::uninterrupted([&] {
    return sys::statx(fd, name, flags, static_cast<unsigned>(wanted & stat_fields::everything), &s);
  });
  if (r >= 0) value = decoded(s);
  return r;
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

} // namespace

driver::operation_faces const& async_stat::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_stat, call, at_once>("stat");
  return faces;
}

async_stat::async_stat(handle const& h, stat_fields wanted, unio::deadline d) noexcept
    : name_operation(table(), h, d), wanted_(wanted) {}
async_stat::async_stat(path_handle const& base, path_view name, stat_fields wanted, last_link how,
                       unio::deadline d) noexcept
    : name_operation(table(), base, name, d), wanted_(wanted), how_(how) {}

int async_stat::call(async_stat& op) noexcept {
  if (op.refused() != 0) return op.refused();
  int const flags = op.is_named() ? op::link_flag(op.how_) : AT_EMPTY_PATH;
  return statx_into(op.fd(), op.name().c_str(), flags, op.wanted_, op.value_);
}

// Of an open descriptor. Of a name, if all its parts are cached: three calls, but no thread.
int async_stat::at_once(async_stat& op) noexcept {
  if (op.refused() != 0) return op.refused();
  int fd = op.fd();
  if (op.is_named()) {
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC | (op.how_ == last_link::itself ? std::uint64_t{O_NOFOLLOW} : 0);
    how.resolve = RESOLVE_CACHED;
    fd = static_cast<int>(sys::openat2(op.fd(), op.name().c_str(), &how, sizeof(how)));
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -EACCES) return fd;
    if (fd < 0) return -EAGAIN;
  }
  int r = statx_into(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, op.wanted_, op.value_);
  if (op.is_named()) sys::close(fd);
  if (r >= 0 && !is_at_hand(op.is_named() ? handle_kind::file : op.kind(), op.value_)) r = -EAGAIN;
  return r;
}

driver::operation_faces const& async_set_metadata::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_set_metadata, call>("set_metadata");
  return faces;
}

async_set_metadata::async_set_metadata(handle const& h, metadata_change const& change,
                                       unio::deadline d) noexcept
    : name_operation_without_value(table(), h, d), change_(change) {}
async_set_metadata::async_set_metadata(path_handle const& base, path_view name, metadata_change const& change,
                                       last_link how, unio::deadline d) noexcept
    : name_operation_without_value(table(), base, name, d), change_(change), how_(how) {}

int async_set_metadata::flags() const noexcept { return is_named() ? op::link_flag(how_) : AT_EMPTY_PATH; }

int async_set_metadata::set_permissions() const noexcept {
  unsigned const mode = change_.permissions & 07777;
  if (!is_named()) {
    auto const r = static_cast<int>(sys::fchmod(fd(), mode));
    if (r != -EBADF) return r; // opened without access (O_PATH)
    return static_cast<int>(sys::fchmodat2(AT_FDCWD, detail::descriptor_path(fd()).text, mode, 0));
  }
  if (how_ == last_link::followed)
    return static_cast<int>(sys::fchmodat2(fd(), name().c_str(), mode, flags()));
  return detail::change_mode(fd(), name().c_str(), mode);
}

int async_set_metadata::set_times() const noexcept {
  timespec const times[2] = {set_time(change_.accessed), set_time(change_.modified)};
  if (is_named()) return static_cast<int>(sys::utimensat(fd(), name().c_str(), times, flags()));
  auto const r = static_cast<int>(sys::utimensat(fd(), nullptr, times, 0));
  if (r != -EBADF) return r;
  return static_cast<int>(sys::utimensat(AT_FDCWD, detail::descriptor_path(fd()).text, times, 0));
}

int async_set_metadata::call(async_set_metadata& op) noexcept {
  if (op.refused() != 0) return op.refused();
  constexpr std::uint32_t keep = metadata_change::keep;
  metadata_change const& c = op.change_;
  if (c.owner != keep || c.group != keep) {
    std::int64_t const r = sys::fchownat(op.fd(), op.name().c_str(), c.owner, c.group, op.flags());
    if (r < 0) return static_cast<int>(r);
  }
  if (c.permissions != keep)
    if (int const r = op.set_permissions(); r < 0) return r;
  if (c.accessed != metadata_change::keep_time || c.modified != metadata_change::keep_time)
    if (int const r = op.set_times(); r < 0) return r;
  return 0;
}

driver::operation_faces const& async_stat_volume::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_stat_volume, call>("stat_volume");
  return faces;
}

async_stat_volume::async_stat_volume(handle const& h, unio::deadline d) noexcept
    : name_operation(table(), h, d) {}

int async_stat_volume::call(async_stat_volume& op) noexcept {
  if (op.refused() != 0) return op.refused();
  struct statfs s;
  int const r = op::uninterrupted([&] { return sys::fstatfs(op.fd(), &s); });
  if (r < 0) return r;
  // The counts are in fragments; f_bsize is the size of transfers that the filesystem likes.
  auto const unit = static_cast<std::uint64_t>(s.f_frsize != 0 ? s.f_frsize : s.f_bsize);
  volume& v = op.value_;
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

result<file_id> handle::unique_id() const noexcept {
  io_result<metadata> const m = detail::blocking(async_stat(*this, stat_fields::identity));
  if (!m) return m.error();
  return m->id();
}

} // namespace unio
