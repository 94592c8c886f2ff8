// Files: opening them, their length, and their names.

#include "driver/registry.hpp"
#include "handle/names.hpp"
#include "sys/descriptors.hpp"

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace unio {

static_assert(sizeof(path_handle) == 16 && sizeof(file_handle) == 16);

namespace {

constexpr extent_type largest_offset = std::numeric_limits<std::int64_t>::max(); // off_t

using mode = handle::mode;
using creation = handle::creation;
using caching = handle::caching;
using flag = handle::flag;

bool has(flag set, flag one) noexcept {
  return (static_cast<unsigned>(set) & static_cast<unsigned>(one)) != 0;
}

// Removes the name `path` if it still leads to the inode of `fd`; ENOENT if not. Between the check and the
// removal another process can still put a new file there: Linux has no conditional removal.
int unlink_if_same(int fd, char const* path) noexcept {
  struct stat mine;
  if (std::int64_t const r = sys::fstat(fd, &mine); r < 0) return static_cast<int>(r);

  std::size_t const n = detail::directory_part(path);
  if (n == 0)
    return -ENOENT; // "pipe:[…]", "(unreachable)…": never had a name, or has none that can be reached
  detail::path_buffer directory;
  std::memcpy(directory.text, path, n);
  directory.text[n] = 0;
  char const* const leaf = path + n;
  int const parent = detail::open_at(AT_FDCWD, directory.text, O_PATH | O_DIRECTORY, 0);
  if (parent < 0) return parent;

  int r = detail::open_at(parent, leaf, O_PATH | O_NOFOLLOW, 0);
  if (r >= 0) {
    int const entry = r;
    struct stat there;
    r = static_cast<int>(sys::fstat(entry, &there));
    sys::close(entry);
    if (r >= 0 && (there.st_dev != mine.st_dev || there.st_ino != mine.st_ino)) r = -ENOENT;
  }
  if (r >= 0) r = static_cast<int>(sys::unlinkat(parent, leaf, 0));
  sys::close(parent);
  return r;
}

int unlink_current(int fd) noexcept {
  // A rename between asking for the path and using it looks like another inode: then the path has changed.
  detail::path_buffer before;
  if (int const r = detail::path_of(fd, before); r < 0) return r;
  for (;;) {
    int const r = unlink_if_same(fd, before.text);
    if (r != -ENOENT) return r;
    detail::path_buffer now;
    if (int const again = detail::path_of(fd, now); again < 0) return again;
    if (std::strcmp(before.text, now.text) == 0) return r;
    std::strcpy(before.text, now.text);
  }
}

// The default directory for temporary files.
result<path_handle> directory_for_temporary_files() noexcept {
  char const* const wanted = ::secure_getenv("TMPDIR");
  return path_handle::path(wanted != nullptr && *wanted != 0 ? wanted : "/tmp");
}

// A new file in `directory`, readable by its owner only; its name is left in `name`.
int create_unique(path_handle const& directory, path_view prefix, detail::path_buffer& name) noexcept {
  int const n = detail::begin_random_name(prefix, name);
  if (n < 0) return n;
  return detail::with_random_name(name, static_cast<std::size_t>(n), [&](char const* candidate) {
    return detail::open_at(detail::directory_of(directory), candidate, O_RDWR | O_CREAT | O_EXCL | O_NOCTTY,
                           0600);
  });
}

std::int64_t punch_hole(int fd, std::int64_t at, std::int64_t n) noexcept {
  return sys::uninterrupted(
      [&] { return sys::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n); });
}

// Overwrites the range with zeros, up to the end of the file.
int write_zeros(int fd, std::int64_t at, std::int64_t end) noexcept {
  // A write to a file in append mode goes to its end whatever the offset.
  std::int64_t const status_flags = sys::fcntl(fd, F_GETFL, 0);
  if (status_flags < 0) return static_cast<int>(status_flags);
  struct stat s;
  if (std::int64_t const r = sys::fstat(fd, &s); r < 0) return static_cast<int>(r);
  if ((status_flags & O_APPEND) != 0 || !S_ISREG(s.st_mode)) return -EOPNOTSUPP;
  end = std::min(end, std::int64_t{s.st_size});

  alignas(4096) static std::byte zeros[64 * 1024]; // never written; aligned for O_DIRECT
  while (at < end) {
    iovec const piece{zeros, static_cast<std::size_t>(std::min<std::int64_t>(end - at, sizeof(zeros)))};
    std::int64_t const n = sys::uninterrupted([&] { return sys::pwritev2(fd, &piece, 1, at, 0); });
    if (n < 0) return static_cast<int>(n);
    if (n == 0) return -EIO;
    at += n;
  }
  return 0;
}

} // namespace

namespace detail {

int open_at(int directory, char const* name, int flags, unsigned permissions) noexcept {
  return sys::above_standard(
      sys::uninterrupted([&] { return sys::openat(directory, name, flags | O_CLOEXEC, permissions); }));
}

// What has nothing to be made durable says EINVAL, EROFS or EBADF (O_PATH).
int make_durable(int fd) noexcept {
  std::int64_t const r = sys::uninterrupted([&] { return sys::fsync(fd); });
  return r == -EINVAL || r == -EROFS || r == -EBADF ? 0 : static_cast<int>(r);
}

std::size_t directory_part(char const* path) noexcept {
  char const* const slash = std::strrchr(path, '/');
  return slash == nullptr ? 0 : static_cast<std::size_t>(slash - path) + 1;
}

} // namespace detail

result<path_handle> path_handle::path(path_handle const& base, path_view name) noexcept {
  if (int const r = name.check(); r != 0) return detail::to_error_code(r);
  int const fd = detail::open_at(detail::directory_of(base), name.c_str(), O_PATH | O_DIRECTORY, 0);
  if (fd < 0) return detail::to_error_code(fd);
  return path_handle(fd);
}

result<file_handle> file_handle::file(path_handle const& base, path_view name, mode m, creation c, caching k,
                                      flag f) noexcept {
  return detail::blocking(async_open(base, name, m, c, k, f));
}

result<file_handle> file_handle::temp_file(path_handle const& directory, path_view prefix) noexcept {
  if (!directory.is_open()) {
    result<path_handle> const fallback = directory_for_temporary_files();
    return fallback ? temp_file(*fallback, prefix) : result<file_handle>(fallback.error());
  }
  detail::path_buffer name;
  int const fd = create_unique(directory, prefix, name);
  if (fd < 0) return detail::to_error_code(fd);
  return file_handle(fd, handle_kind::file, caching::temporary, flag::unlink_on_close);
}

result<file_handle> file_handle::temp_inode(path_handle const& directory) noexcept {
  if (!directory.is_open()) {
    result<path_handle> const fallback = directory_for_temporary_files();
    return fallback ? temp_inode(*fallback) : result<file_handle>(fallback.error());
  }
  int const at = detail::directory_of(directory);
  int fd = detail::open_at(at, ".", O_TMPFILE | O_RDWR | O_EXCL | O_NOCTTY, 0600);
  if (fd == -EOPNOTSUPP) {
    detail::path_buffer name;
    fd = create_unique(directory, ".unio-", name);
    if (fd >= 0) sys::unlinkat(at, name.text, 0);
  }
  if (fd < 0) return detail::to_error_code(fd);
  return file_handle(fd, handle_kind::file, caching::temporary, flag::none);
}

result<file_handle> file_handle::uniquely_named_file(path_handle const& directory,
                                                     path_view prefix) noexcept {
  detail::path_buffer name;
  int const fd = create_unique(directory, prefix, name);
  if (fd < 0) return detail::to_error_code(fd);
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
  if (r < 0) return detail::to_error_code(static_cast<int>(r));
  return static_cast<extent_type>(s.st_size);
}

result<extent_type> file_handle::truncate(extent_type size) noexcept {
  if (size > largest_offset) return detail::to_error_code(-EFBIG);
  std::int64_t const r =
      sys::uninterrupted([&] { return sys::ftruncate(fd_, static_cast<std::int64_t>(size)); });
  if (r < 0) return detail::to_error_code(static_cast<int>(r));
  return size;
}

result<void> file_handle::zero(extent_type offset, extent_type bytes) noexcept {
  if (offset > largest_offset) return detail::to_error_code(-EFBIG);
  auto const at = static_cast<std::int64_t>(offset);
  auto const n = static_cast<std::int64_t>(std::min(bytes, largest_offset - offset));
  if (n == 0) return {}; // fallocate(2) refuses it
  std::int64_t r = punch_hole(fd_, at, n);
  if (r == -EFBIG) { // the range ends beyond what the filesystem can hold, though the file does not
    result<extent_type> const length = maximum_extent();
    if (!length) return length.error();
    r = offset < *length ? punch_hole(fd_, at, static_cast<std::int64_t>(*length) - at) : 0;
  }
  if (r == -EOPNOTSUPP || r == -ENOSYS) r = write_zeros(fd_, at, at + n);
  if (r < 0) return detail::to_error_code(static_cast<int>(r));
  return {};
}

result<void> file_handle::unlink() noexcept {
  if (int const r = unlink_current(fd_); r < 0) return detail::to_error_code(r);
  return {};
}

result<file_handle> file_handle::clone() const noexcept {
  std::int64_t const fd = sys::fcntl(fd_, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return detail::to_error_code(static_cast<int>(fd));
  sys::note_duplicate(static_cast<int>(fd), fd_);
  return file_handle(static_cast<int>(fd), moved(kind_), caching_, flag::none);
}

std::error_code file_handle::before_close() noexcept {
  std::error_code first;
  if (!is_open()) return first;
  if (caching_ == caching::safety_barriers) {
    driver::registry::forget_everywhere(fd_, multiplexer_); // the last writes come before the barrier
    if (int const r = detail::make_durable(fd_); r < 0) first = detail::to_error_code(r);
  }
  if (has(flags_, flag::unlink_on_close)) {
    int const r = unlink_current(fd_);
    if (r < 0 && r != -ENOENT && !first) first = detail::to_error_code(r); // ENOENT: already removed
  }
  return first;
}

result<void> file_handle::close() noexcept {
  std::error_code const first = before_close();
  result<void> const closed = handle::close();
  if (first) return first;
  return closed;
}

} // namespace unio
