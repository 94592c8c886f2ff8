// Maps: memory of one's own, and sections of files as memory.

#include "handle/guarded_maps.hpp"
#include "handle/names.hpp"
#include "handle/opened.hpp"
#include "sys/clone_extents.hpp"
#include "sys/descriptors.hpp"

#include <unio/map_handle.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace unio::inline v0_1 {

static_assert(sizeof(map_handle) == 64);

namespace {

constexpr extent_type largest_map = extent_type{1} << 62;

extent_type page_size() noexcept { return static_cast<extent_type>(::sysconf(_SC_PAGESIZE)); }
extent_type whole_pages(extent_type bytes) noexcept {
  return (bytes + page_size() - 1) / page_size() * page_size();
}

// As the table's mmap: an address, or -errno.
bool failed(std::int64_t r) noexcept { return r < 0 && r >= -4095; }

int protection_of(map_access a) noexcept {
  return a == map_access::read ? PROT_READ : PROT_READ | PROT_WRITE;
}

std::int64_t map_file(void* at, extent_type bytes, map_access access, int fd, extent_type offset) noexcept {
  int const kind = access == map_access::copy_on_write ? MAP_PRIVATE : MAP_SHARED;
  return sys::mmap(at, static_cast<std::size_t>(bytes), protection_of(access),
                   kind | (at != nullptr ? MAP_FIXED : 0), fd, static_cast<std::int64_t>(offset));
}

// The length of the file, from `offset` on; or -errno.
std::int64_t length_beyond(int fd, extent_type offset) noexcept {
  struct stat s;
  if (std::int64_t const r = sys::uninterrupted([&] { return sys::fstat(fd, &s); }); r < 0) return r;
  if (!S_ISREG(s.st_mode)) return -ENODEV;
  auto const length = static_cast<extent_type>(s.st_size);
  return static_cast<std::int64_t>(length > offset ? length - offset : 0);
}

} // namespace

// ---- making -----------------------------------------------------------------------------------------------

result<map_handle> map_handle::anonymous(extent_type bytes, extent_type reserve) noexcept {
  if (bytes == 0) return detail::failed(-EINVAL, "anonymous");
  if (bytes > largest_map || reserve > largest_map) return detail::failed(-ENOMEM, "anonymous");
  extent_type const room = whole_pages(std::max(bytes, reserve));
  std::int64_t const at = sys::mmap(nullptr, static_cast<std::size_t>(room), PROT_NONE,
                                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(at)) return detail::failed(at, "anonymous");
  map_handle m;
  m.at_ = reinterpret_cast<std::byte*>(at);
  m.reservation_ = room;
  m.length_ = m.wanted_ = bytes;
  if (result<void> const made = m.commit(0, bytes); !made) return made.error();
  return m;
}

result<map_handle> map_handle::section(file_handle const& file, extent_type offset, extent_type bytes,
                                       map_access access, extent_type reserve) noexcept {
  if (bytes > largest_map || reserve > largest_map || offset > largest_map)
    return detail::failed(-EINVAL, "section", file.native_handle());
  std::int64_t const length = length_beyond(file.native_handle(), offset);
  if (length < 0) return detail::failed(length, "section", file.native_handle());
  map_handle m;
  m.access_ = access;
  m.offset_ = offset;
  m.wanted_ = bytes != 0 ? bytes : static_cast<extent_type>(length);
  if (m.wanted_ == 0) return detail::failed(-EINVAL, "section", file.native_handle());
  m.length_ = std::min(m.wanted_, static_cast<extent_type>(length));
  m.reservation_ = whole_pages(std::max(m.wanted_, reserve));
  std::int64_t const fd = sys::fcntl(file.native_handle(), F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return detail::failed(fd, "section", file.native_handle());
  m.fd_ = static_cast<int>(fd);
  std::int64_t const at = map_file(nullptr, m.reservation_, access, m.fd_, offset);
  if (failed(at))
    return detail::failed_as_open(
        at, "section", file.native_handle(),
        access == map_access::write ? detail::file_use::both : detail::file_use::reading);
  m.at_ = reinterpret_cast<std::byte*>(at);
  m.guarded_as_ = detail::guard(m.at_, static_cast<std::size_t>(m.reservation_));
  return m;
}

void map_handle::swap(map_handle& other) noexcept {
  std::swap(at_, other.at_);
  std::swap(length_, other.length_);
  std::swap(reservation_, other.reservation_);
  std::swap(offset_, other.offset_);
  std::swap(wanted_, other.wanted_);
  std::swap(multiplexer_, other.multiplexer_);
  std::swap(fd_, other.fd_);
  std::swap(guarded_as_, other.guarded_as_);
  std::swap(access_, other.access_);
}

void map_handle::close() noexcept {
  detail::unguard(std::exchange(guarded_as_, -1));
  if (at_ != nullptr) sys::munmap(at_, static_cast<std::size_t>(reservation_));
  if (fd_ >= 0) sys::close(fd_);
  at_ = nullptr;
  fd_ = -1;
  length_ = reservation_ = wanted_ = 0;
}

// ---- length -----------------------------------------------------------------------------------------------

// mremap(2) moves what was mapped in one piece. A part of anonymous memory that was decommitted becomes
// memory that reads as zero.
result<void> map_handle::grow_reservation(extent_type bytes) noexcept {
  extent_type const room = whole_pages(bytes);
  if (room <= reservation_) return {};
  if (!has_file()) {
    std::int64_t const r = sys::mprotect(at_, static_cast<std::size_t>(reservation_), PROT_READ | PROT_WRITE);
    if (r < 0) return detail::failed(r, "grow_reservation", fd_);
  }
  auto const move = [&]() noexcept {
    return ::mremap(at_, static_cast<std::size_t>(reservation_), static_cast<std::size_t>(room),
                    MREMAP_MAYMOVE);
  };
  bool const cut = was_cut();
  detail::unguard(guarded_as_); // before other memory can be where it was
  void* at = move();
  if (at == MAP_FAILED && errno == EFAULT) { // parts that advise() has made different are not one piece
    (void)sys::madvise(at_, static_cast<std::size_t>(reservation_), MADV_NORMAL);
    at = move();
  }
  int const e = at == MAP_FAILED ? -errno : 0;
  if (e == 0) {
    at_ = static_cast<std::byte*>(at);
    reservation_ = room;
  }
  guarded_as_ = has_file() ? detail::guard(at_, static_cast<std::size_t>(reservation_), cut) : -1;
  if (e != 0) return detail::failed(e, "grow_reservation", fd_);
  return {};
}

result<extent_type> map_handle::resize(extent_type bytes) noexcept {
  if (!is_open() || bytes == 0) return detail::failed(-EINVAL, "resize", fd_);
  if (bytes > largest_map) return detail::failed(-ENOMEM, "resize", fd_);
  if (has_file()) {
    if (was_cut())
      if (result<extent_type> const r = update(); !r) return r;
    std::int64_t const there = length_beyond(fd_, offset_);
    if (there < 0) return detail::failed(there, "resize", fd_);
    if (static_cast<extent_type>(there) < bytes) {
      if (access_ != map_access::write) return detail::failed(-EACCES, "resize", fd_);
      if (int const r = sys::extend(fd_, offset_ + bytes); r < 0) return detail::failed(r, "resize", fd_);
    }
    if (result<void> const r = grow_reservation(bytes); !r) return r.error();
    length_ = wanted_ = bytes;
    return length_;
  }
  if (bytes > length_) {
    if (result<void> const r = grow_reservation(bytes); !r) return r.error();
    // Bytes of the last page beyond the length do not belong to it.
    if (result<void> const r = commit(0, bytes); !r) return r.error();
  } else {
    extent_type const keep = whole_pages(bytes), had = whole_pages(length_);
    extent_type const last = bytes / page_size() * page_size();
    if (last != keep) // it may have been decommitted
      if (result<void> const r = commit(last, keep - last); !r) return r.error();
    std::memset(at_ + bytes, 0, static_cast<std::size_t>(std::min(keep, length_) - bytes));
    if (had > keep)
      if (result<void> const r = decommit(keep, length_ - keep); !r) return r.error();
  }
  length_ = wanted_ = bytes;
  return length_;
}

result<extent_type> map_handle::update() noexcept {
  if (!has_file()) return length_;
  std::int64_t const there = length_beyond(fd_, offset_);
  if (there < 0) return detail::failed(there, "update", fd_);
  if (was_cut()) {
    detail::forget_cut(guarded_as_);
    std::int64_t const at = map_file(at_, reservation_, access_, fd_, offset_);
    if (failed(at)) return detail::failed(at, "update", fd_);
  }
  length_ = std::min(wanted_, static_cast<extent_type>(there));
  return length_;
}

bool map_handle::was_cut() const noexcept { return detail::was_cut(guarded_as_); }

// ---- ranges -----------------------------------------------------------------------------------------------

result<void> map_handle::commit(extent_type offset, extent_type bytes) noexcept {
  bool const inside = offset <= reservation_ && bytes <= reservation_ - offset;
  if (!is_open() || has_file() || offset % page_size() != 0 || !inside)
    return detail::failed(-EINVAL, "commit");
  std::int64_t const r =
      sys::mprotect(at_ + offset, static_cast<std::size_t>(whole_pages(bytes)), PROT_READ | PROT_WRITE);
  if (r < 0) return detail::failed(r, "commit");
  return {};
}

result<void> map_handle::decommit(extent_type offset, extent_type bytes) noexcept {
  if (!is_open() || has_file() || offset % page_size() != 0 || !has(offset, bytes))
    return detail::failed(-EINVAL, "decommit");
  auto const n = static_cast<std::size_t>(whole_pages(bytes));
  std::int64_t r = sys::madvise(at_ + offset, n, MADV_DONTNEED);
  if (r >= 0) r = sys::mprotect(at_ + offset, n, PROT_NONE);
  if (r < 0) return detail::failed(r, "decommit");
  return {};
}

result<void> map_handle::zero(extent_type offset, extent_type bytes) noexcept {
  if (!is_open() || !has(offset, bytes)) return detail::failed(-EINVAL, "zero", fd_);
  if (access_ == map_access::read) return detail::failed(-EACCES, "zero", fd_);
  if (bytes == 0) return {};
  if (has_file() && access_ == map_access::write) {
    if (int const r = sys::make_hole(fd_, offset_ + offset, bytes); r < 0)
      return detail::failed(r, "zero", fd_);
    return {};
  }
  extent_type const first = whole_pages(offset), last = (offset + bytes) / page_size() * page_size();
  bool const has_whole_page = !has_file() && first < last;
  if (!has_whole_page ||
      sys::madvise(at_ + first, static_cast<std::size_t>(last - first), MADV_DONTNEED) < 0) {
    std::memset(at_ + offset, 0, static_cast<std::size_t>(bytes));
    return {};
  }
  std::memset(at_ + offset, 0, static_cast<std::size_t>(first - offset));
  std::memset(at_ + last, 0, static_cast<std::size_t>(offset + bytes - last));
  return {};
}

result<std::size_t> map_handle::read_copy(extent_type offset, std::span<std::byte> into) const noexcept {
  if (!has_file()) return detail::failed(-EBADF, "read_copy", fd_);
  if (offset > wanted_) return detail::failed(-EINVAL, "read_copy", fd_);
  iovec const v{into.data(), static_cast<std::size_t>(std::min<extent_type>(into.size(), wanted_ - offset))};
  std::int64_t const r = sys::uninterrupted(
      [&] { return sys::preadv2(fd_, &v, 1, static_cast<std::int64_t>(offset_ + offset), 0); });
  if (r < 0) return detail::failed(r, "read_copy", fd_);
  return static_cast<std::size_t>(r);
}

result<std::size_t> map_handle::write_copy(extent_type offset, std::span<std::byte const> from) noexcept {
  if (!has_file() || access_ != map_access::write) return detail::failed(-EBADF, "write_copy", fd_);
  if (offset > wanted_) return detail::failed(-EINVAL, "write_copy", fd_);
  iovec const v{const_cast<std::byte*>(from.data()),
                static_cast<std::size_t>(std::min<extent_type>(from.size(), wanted_ - offset))};
  std::int64_t const r = sys::uninterrupted(
      [&] { return sys::pwritev2(fd_, &v, 1, static_cast<std::int64_t>(offset_ + offset), 0); });
  if (r < 0) return detail::failed(r, "write_copy", fd_);
  return static_cast<std::size_t>(r);
}

} // namespace unio
