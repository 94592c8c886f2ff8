// Mapped files. The map is as large as the reservation, beyond the file's end: pages there become valid when
// the file grows, so growing costs no system call for the map.

#include "handle/guarded_maps.hpp"
#include "handle/mapped_view.hpp"
#include "handle/opened.hpp"
#include "sys/descriptors.hpp"

#include <unio/mapped_file_handle.hpp>

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>

namespace unio::inline v0_1 {

static_assert(sizeof(mapped_file_handle) == 56);

namespace {

constexpr extent_type mebibyte = 1 << 20;
constexpr extent_type largest_map = extent_type{1} << 62;
constexpr int most_vectors = 64; // on the stack; buffers beyond are not filled, which readv(2) permits

// `length` and room to double.
extent_type room_for(extent_type length) noexcept {
  return 2 * std::max(mebibyte, (length + mebibyte - 1) / mebibyte * mebibyte);
}

} // namespace

mapped_file_handle::mapped_file_handle(file_handle&& f) noexcept
    : file_handle(static_cast<file_handle&&>(f)) {
  kind_ = handle_kind::mapped_file;
}

mapped_file_handle::mapped_file_handle(mapped_file_handle&& other) noexcept { *this = std::move(other); }

mapped_file_handle& mapped_file_handle::operator=(mapped_file_handle&& other) noexcept {
  if (this != &other) {
    (void)close();
    file_handle::operator=(static_cast<file_handle&&>(other));
    kind_ = other.kind_;
    map_ = std::exchange(other.map_, nullptr);
    length_ = std::exchange(other.length_, 0);
    reservation_ = std::exchange(other.reservation_, 0);
    position_ = std::exchange(other.position_, 0);
    guarded_as_ = std::exchange(other.guarded_as_, -1);
    access_ = other.access_;
  }
  return *this;
}

mapped_file_handle::~mapped_file_handle() { (void)close(); }

result<mapped_file_handle> mapped_file_handle::mapped_file(path_handle const& base, path_view name, mode m,
                                                           creation c, extent_type reserve_bytes, caching k,
                                                           flag f, map_access access) noexcept {
  result<file_handle> opened = file(base, name, m, c, k, f);
  if (!opened) return opened.error();
  mapped_file_handle mapped(std::move(*opened));
  mapped.access_ = access;

  struct stat s;
  std::int64_t const r = sys::fstat(mapped.fd_, &s);
  if (r < 0) return detail::failed_on(r, "mapped_file", name.c_str(), name.size());
  if (!S_ISREG(s.st_mode))
    return detail::failed_on(-ENODEV, "mapped_file", name.c_str(), name.size()); // as mmap(2) for a pipe
  auto const length = static_cast<extent_type>(s.st_size);
  if (result<void> const made = mapped.map(length, reserve_bytes); !made) return made.error();
  return mapped;
}

result<void> mapped_file_handle::map(extent_type length, extent_type reserve) noexcept {
  if (length > largest_map || reserve > largest_map) return detail::failed(-ENOMEM, "mapped_file", fd_);
  extent_type const wanted = reserve == 0 ? room_for(length) : std::max(length, reserve);
  bool const cut = was_cut();
  detail::unguard(std::exchange(guarded_as_, -1)); // before other memory can be where it was
  std::int64_t const at = map_ == nullptr ? map_anew(nullptr, wanted) : move_map(wanted);
  if (at >= 0) {
    map_ = reinterpret_cast<std::byte*>(at);
    reservation_ = wanted;
  }
  if (map_ != nullptr) guarded_as_ = detail::guard(map_, reservation_, cut);
  if (at < 0)
    return detail::failed_as_open(
        at, "mapped_file", fd_,
        access_ == map_access::write ? detail::file_use::both : detail::file_use::reading);
  detail::mapped_view.store([](mapped_file_handle& f, extent_type offset, std::size_t bytes,
                               std::byte*& where) noexcept { return f.view(offset, bytes, where); },
                            std::memory_order_relaxed);
  length_ = length;
  return {};
}

// Read only unless asked otherwise: a program that modifies the returned buffers must not change the file.
std::int64_t mapped_file_handle::map_anew(std::byte* at, extent_type bytes) noexcept {
  int const protection = access_ == map_access::read ? PROT_READ : PROT_READ | PROT_WRITE;
  int const kind = access_ == map_access::copy_on_write ? MAP_PRIVATE : MAP_SHARED;
  return sys::mmap(at, bytes, protection, kind | (at != nullptr ? MAP_FIXED : 0), fd_, 0);
}

// What has a map is no simulated file, so this needs no entry in the table of system calls.
std::int64_t mapped_file_handle::move_map(extent_type bytes) noexcept {
  void* const at = ::mremap(map_, reservation_, bytes, MREMAP_MAYMOVE);
  return at != MAP_FAILED ? reinterpret_cast<std::int64_t>(at) : -errno;
}

bool mapped_file_handle::was_cut() const noexcept { return detail::was_cut(guarded_as_); }

void mapped_file_handle::unmap() noexcept {
  detail::unguard(std::exchange(guarded_as_, -1));
  if (map_ != nullptr) sys::munmap(map_, reservation_);
  map_ = nullptr;
  length_ = 0;
  reservation_ = 0;
  position_ = 0;
}

result<extent_type> mapped_file_handle::update_map() noexcept {
  result<extent_type> const length = maximum_extent();
  if (!length) return length;
  // Zeros stand where there was nothing any more. They do not move with the map, so this comes first.
  if (was_cut()) {
    detail::forget_cut(guarded_as_);
    if (std::int64_t const at = map_anew(map_, reservation_); at < 0)
      return detail::failed(at, "update_map", fd_);
  }
  if (*length <= reservation_) {
    length_ = *length;
  } else if (result<void> const grown = map(*length, 0); !grown) {
    return grown.error();
  }
  return length_;
}

result<extent_type> mapped_file_handle::truncate(extent_type size) noexcept {
  if (io_result<extent_type> const r = file_handle::truncate(size); !r) return r.error();
  return update_map();
}

std::int64_t mapped_file_handle::view(extent_type offset, std::size_t bytes, std::byte*& where) noexcept {
  extent_type const at = offset == no_offset ? position_ : offset;
  if (at > length_ || bytes > length_ - at) {
    if (result<extent_type> const r = update_map(); !r) return -r.error().value();
  }
  extent_type const n = at < length_ ? std::min<extent_type>(bytes, length_ - at) : 0;
  where = n != 0 ? map_ + at : nullptr;
  if (offset == no_offset) position_ += n;
  return static_cast<std::int64_t>(n);
}

io_result<mutable_buffers> mapped_file_handle::read_copy(io_request<mutable_buffers> request) noexcept {
  extent_type const at = request.offset == no_offset ? position_ : request.offset;
  if (at > static_cast<extent_type>(std::numeric_limits<std::int64_t>::max()))
    return detail::failed(-EINVAL, "read_copy", fd_);
  iovec pieces[most_vectors];
  int count = 0;
  for (mutable_buffer const b : request.buffers) {
    if (count == most_vectors) break;
    if (!b.empty()) pieces[count++] = {b.data(), b.size()};
  }
  std::int64_t const r =
      sys::uninterrupted([&] { return sys::preadv2(fd_, pieces, count, static_cast<std::int64_t>(at), 0); });
  if (r < 0) return detail::failed(r, "read_copy", fd_);
  auto const n = static_cast<std::size_t>(r);
  if (request.offset == no_offset) position_ += n;
  return {request.buffers.first(n), n};
}

result<void> mapped_file_handle::close() noexcept {
  // The map goes last: while the descriptor is being closed, receivers may still look at views.
  result<void> const closed = file_handle::close();
  unmap();
  return closed;
}

} // namespace unio
