// Files: opening them, their length, and their names.

#include "handle/file.hpp"

#include "driver/registry.hpp"
#include "handle/names.hpp"
#include "op/access.hpp"
#include "sys/descriptors.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

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

int open_at(int directory, char const* name, int flags, unsigned permissions) noexcept {
  return sys::above_standard(
      sys::uninterrupted([&] { return sys::openat(directory, name, flags | O_CLOEXEC, permissions); }));
}

// openat(2)'s flags, or a negative code if the arguments contradict each other.
int flags_for(mode m, creation c, caching k) noexcept {
  // O_NONBLOCK: a FIFO or a device under that name does not make open(2) wait. See take_in().
  int flags = O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  switch (m) {
    case mode::none:
    case mode::attributes:
      return c == creation::open_existing ? O_PATH | O_CLOEXEC : -EINVAL;
    case mode::read:
      if (c == creation::truncate_existing) return -EINVAL;
      flags |= O_RDONLY;
      break;
    case mode::write:
      flags |= O_RDWR;
      break;
    case mode::append:
      flags |= O_WRONLY | O_APPEND;
      break;
  }
  switch (c) {
    case creation::open_existing:
      break;
    case creation::only_if_not_exist:
    case creation::always_new:
      flags |= O_CREAT | O_EXCL;
      flags &= ~O_NONBLOCK; // it will be a regular file
      break;
    case creation::if_needed:
      flags |= O_CREAT;
      break;
    case creation::truncate_existing:
      flags |= O_TRUNC;
      break;
  }
  switch (k) {
    case caching::none:
      flags |= O_DIRECT | O_SYNC;
      break;
    case caching::only_metadata:
      flags |= O_DIRECT;
      break;
    case caching::reads:
      flags |= O_SYNC;
      break;
    case caching::reads_and_metadata:
      flags |= O_DSYNC;
      break;
    case caching::all:
    case caching::safety_barriers:
    case caching::temporary:
      break;
  }
  return flags;
}

// Syncs. EINVAL, EROFS and EBADF (O_PATH) mean that there is nothing to make durable.
int make_durable(int fd) noexcept {
  std::int64_t const r = sys::uninterrupted([&] { return sys::fsync(fd); });
  return r == -EINVAL || r == -EROFS || r == -EBADF ? 0 : static_cast<int>(r);
}

// The length of the part of `path` that names its directory, with the last slash.
std::size_t directory_part(char const* path) noexcept {
  char const* const slash = std::strrchr(path, '/');
  return slash == nullptr ? 0 : static_cast<std::size_t>(slash - path) + 1;
}

// Removes the name `path` if it still leads to the inode of `fd`; ENOENT if not. Between the check and the
// removal another process can still put a new file there: Linux has no conditional removal.
int unlink_if_same(int fd, char const* path) noexcept {
  struct stat mine;
  if (std::int64_t const r = sys::fstat(fd, &mine); r < 0) return static_cast<int>(r);

  std::size_t const n = directory_part(path);
  if (n == 0)
    return -ENOENT; // "pipe:[…]", "(unreachable)…": never had a name, or has none that can be reached
  detail::path_buffer directory;
  std::memcpy(directory.text, path, n);
  directory.text[n] = 0;
  char const* const leaf = path + n;
  int const parent = open_at(AT_FDCWD, directory.text, O_PATH | O_DIRECTORY, 0);
  if (parent < 0) return parent;

  int r = open_at(parent, leaf, O_PATH | O_NOFOLLOW, 0);
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
    return open_at(detail::directory_of(directory), candidate, O_RDWR | O_CREAT | O_EXCL | O_NOCTTY, 0600);
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

result<path_handle> path_handle::path(path_handle const& base, path_view name) noexcept {
  if (int const r = name.check(); r != 0) return detail::to_error_code(r);
  int const fd = open_at(detail::directory_of(base), name.c_str(), O_PATH | O_DIRECTORY, 0);
  if (fd < 0) return detail::to_error_code(fd);
  return path_handle(fd);
}

async_open::async_open(path_handle const& base, path_view name, mode m, creation c, caching k, flag f,
                       unio::deadline d) noexcept
    : io_operation(detail::open_faces, handle_kind::path, detail::directory_of(base), base.own_multiplexer(),
                   d),
      name_(name),
      open_flags_(flags_for(m, c, k)),
      refused_(open_flags_ < 0 ? open_flags_ : name.check()),
      always_new_(c == creation::always_new),
      wants_barrier_(k == caching::safety_barriers && c != creation::open_existing),
      caching_(k),
      flags_(f) {}

async_open::result_type async_open::result() noexcept {
  int const fd = outcome_value();
  if (fd < 0) return detail::to_error_code(fd);
  return file_handle(fd, opened_, caching_, flags_);
}

handle_kind take_in(int fd, int flags) noexcept {
  if ((flags & O_PATH) != 0) return handle_kind::file;
  struct statx s{};
  bool const may_be_other = (flags & O_NONBLOCK) != 0;
  bool const known =
      may_be_other && sys::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &s) >= 0;
  if (known && S_ISFIFO(s.stx_mode))
    return (flags & O_ACCMODE) == O_RDONLY ? handle_kind::named_pipe : handle_kind::pipe;
  bool const is_device = known && S_ISCHR(s.stx_mode);
  if (is_device && sys::lseek(fd, 0, SEEK_CUR) == -ESPIPE) return handle_kind::pipe;
  if ((flags & O_DIRECT) != 0) sys::note_direct(fd);
  // A device waits or not as its driver decides; of anything else a ring must not assume that it never waits.
  if (may_be_other && !is_device && (!known || sys::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0))
    sys::note_nonblocking(fd);
  return handle_kind::file;
}

int open_plain(async_open& op) noexcept {
  if (op::access::refused(op) != 0) return op::access::refused(op);
  int const fd = open_at(op.fd(), op.name().c_str(), op::access::open_flags(op), new_file_permissions);
  if (fd < 0 || !op::access::wants_barrier(op)) return fd;
  if (int const failed = make_durable(fd); failed < 0) {
    if ((op::access::open_flags(op) & O_EXCL) != 0) sys::unlinkat(op.fd(), op.name().c_str(), 0);
    sys::close(fd);
    return failed;
  }
  return fd;
}

int open_always_new(async_open& op) noexcept {
  if (op::access::refused(op) != 0) return op::access::refused(op);
  char const* const name = op.name().c_str();
  std::size_t const n = directory_part(name);
  if (n == op.name().size()) return n == 0 ? -ENOENT : -EISDIR; // as openat(2) with O_CREAT
  detail::path_buffer sibling;
  std::memcpy(sibling.text, name, n);
  int const fd = detail::with_random_name(sibling, n, [&](char const* candidate) {
    return open_at(op.fd(), candidate, op::access::open_flags(op), new_file_permissions);
  });
  if (fd < 0) return fd;

  int failed = op::access::wants_barrier(op) ? make_durable(fd) : 0;
  if (failed >= 0) failed = static_cast<int>(sys::renameat(op.fd(), sibling.text, op.fd(), name, 0));
  if (failed >= 0) return fd;
  sys::unlinkat(op.fd(), sibling.text, 0);
  sys::close(fd);
  return failed;
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
  int fd = open_at(at, ".", O_TMPFILE | O_RDWR | O_EXCL | O_NOCTTY, 0600);
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
    if (int const r = make_durable(fd_); r < 0) first = detail::to_error_code(r);
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
