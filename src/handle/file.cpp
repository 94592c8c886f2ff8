// Files: opening them, their length, and their names.

#include "driver/registry.hpp"
#include "handle/names.hpp"
#include "sys/descriptors.hpp"
#include "sys/kernel_abi.hpp"

#include <unio/file_handle.hpp>

#include <fcntl.h>

#include <algorithm>
#include <cstring>

namespace unio::inline v0_1 {

static_assert(sizeof(file_handle) == 16);

namespace {

using mode = handle::mode;
using creation = handle::creation;
using caching = handle::caching;
using flag = handle::flag;

// A new file in `directory`, readable by its owner only; its name is left in `name`.
int create_unique(path_handle const& directory, path_view prefix, detail::path_buffer& name) noexcept {
  int const n = detail::begin_random_name(prefix, name);
  if (n < 0) return n;
  return detail::with_random_name(name, static_cast<std::size_t>(n), [&](char const* candidate) {
    return detail::open_at(detail::directory_of(directory), candidate, O_RDWR | O_CREAT | O_EXCL | O_NOCTTY,
                           0600);
  });
}

} // namespace

namespace detail {

int look_up_direct_alignment(int fd, io_alignment& found) noexcept {
  struct statx s{};
  int const flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  auto const r = static_cast<int>(sys::statx(fd, "", flags, STATX_DIOALIGN | sys::statx_dio_read_align, &s));
  if (r < 0 || (s.stx_mask & STATX_DIOALIGN) == 0) return std::min(r, 0);
  found = {s.stx_dio_mem_align, s.stx_dio_offset_align, s.stx_dio_offset_align};
  if ((s.stx_mask & sys::statx_dio_read_align) != 0)
    std::memcpy(&found.read_offset, reinterpret_cast<char const*>(&s) + sys::statx_direct_read_alignment,
                sizeof found.read_offset);
  return 1;
}

} // namespace detail

result<file_handle> file_handle::file(path_handle const& base, path_view name, mode m, creation c, caching k,
                                      flag f) noexcept {
  return detail::blocking(async_open(base, name, m, c, k, f));
}

result<file_handle> file_handle::temp_file(path_handle const& directory, path_view prefix) noexcept {
  if (!directory.is_open()) {
    result<path_handle> const fallback = path_handle::temporary();
    return fallback ? temp_file(*fallback, prefix) : result<file_handle>(fallback.error());
  }
  detail::path_buffer name;
  int const fd = create_unique(directory, prefix, name);
  if (fd < 0) return detail::failed_on(fd, "temp_file", prefix.c_str(), prefix.size());
  sys::note_named(fd);
  return file_handle(fd, handle_kind::file, caching::temporary, flag::unlink_on_close);
}

result<file_handle> file_handle::temp_inode(path_handle const& directory) noexcept {
  if (!directory.is_open()) {
    result<path_handle> const fallback = path_handle::temporary();
    return fallback ? temp_inode(*fallback) : result<file_handle>(fallback.error());
  }
  int const at = detail::directory_of(directory);
  int fd = detail::open_at(at, ".", O_TMPFILE | O_RDWR | O_NOCTTY, 0600);
  if (fd == -EOPNOTSUPP) {
    detail::path_buffer name;
    fd = create_unique(directory, ".unio-", name);
    if (fd >= 0) sys::unlinkat(at, name.text, 0);
  }
  if (fd < 0) return detail::failed(fd, "temp_inode");
  return file_handle(fd, handle_kind::file, caching::temporary, flag::none);
}

result<file_handle> file_handle::uniquely_named_file(path_handle const& directory,
                                                     path_view prefix) noexcept {
  detail::path_buffer name;
  int const fd = create_unique(directory, prefix, name);
  if (fd < 0) return detail::failed(fd, "uniquely_named_file");
  return file_handle(fd, handle_kind::file, caching::all, flag::none);
}

file_handle& file_handle::operator=(file_handle&& other) noexcept {
  if (this != &other) {
    (void)close();
    io_handle::operator=(static_cast<io_handle&&>(other));
    flags_ = other.flags_;
  }
  return *this;
}

file_handle::~file_handle() {
  if (is_open()) (void)close();
}

result<extent_type> file_handle::maximum_extent() const noexcept {
  struct stat s;
  std::int64_t const r = sys::fstat(fd_, &s);
  if (r < 0) return detail::failed(r, "maximum_extent", fd_);
  return static_cast<extent_type>(s.st_size);
}

result<io_alignment> file_handle::direct_alignment() const noexcept {
  io_alignment found;
  int const r = detail::look_up_direct_alignment(fd_, found);
  if (r < 0) return detail::failed(r, "direct_alignment", fd_);
  return found;
}

result<file_handle> file_handle::clone() const noexcept {
  std::int64_t const fd = sys::fcntl(fd_, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return detail::failed(fd, "clone", fd_);
  sys::note_duplicate(static_cast<int>(fd), fd_);
  return file_handle(static_cast<int>(fd), moved(kind_), caching_, flag::none);
}

failure file_handle::before_close() noexcept {
  failure first;
  if (!is_open()) return first;
  if (caching_ == caching::safety_barriers) {
    driver::registry::forget_everywhere(fd_, multiplexer_); // the last writes come before the barrier
    if (int const r = detail::make_durable(fd_); r < 0) first = detail::failed(r, "barrier", fd_);
  }
  if (has(flags_, flag::unlink_on_close) && sys::is_named(fd_)) {
    int r;
    do r = detail::unlink_current(fd_);
    while (r == -EAGAIN);
    if (r < 0 && r != -ENOENT && !first) first = detail::failed(r, "unlink", fd_); // ENOENT: already removed
  }
  return first;
}

async_close::async_close(file_handle&& h, unio::deadline d) noexcept
    : async_close(h.before_close(), static_cast<handle&&>(h), d) {}

result<void> file_handle::close() noexcept {
  failure const first = before_close();
  result<void> const closed = handle::close();
  if (first) return first;
  return closed;
}

} // namespace unio
