// Handles: adopting, duplicating and releasing descriptors.

#include "driver/registry.hpp"
#include "handle/adopt.hpp"
#include "handle/names.hpp"
#include "sys/descriptors.hpp"

#include <unio/handle.hpp>

#include <fcntl.h>
#include <sys/socket.h>

namespace unio::inline v0_1 {

static_assert(sizeof(handle) == 16 && sizeof(io_handle) == 16);

namespace {

failure close_descriptor(int fd) noexcept {
  std::int64_t const r = sys::close(fd);
  // Linux frees the number before it can be interrupted: a retry would close another descriptor.
  if (r >= 0 || r == -EINTR) return {};
  return detail::failed(r, "close", fd);
}

result<handle_kind> kind_of_socket(int fd) noexcept {
  result<detail::socket_nature> const is = detail::nature_of_socket(fd);
  if (!is) return is.error();
  // The part of a message that does not fit the buffers is lost, and an empty message would read as the end
  // of the stream.
  if (is->type != SOCK_STREAM) return detail::failed(-EPROTOTYPE, "adopt", fd);
  return is->listens ? handle_kind::listening_socket : handle_kind::stream_socket;
}

// The kind of an adopted descriptor, or why it cannot be adopted.
result<handle_kind> kind_of(int fd) noexcept {
  struct stat s;
  std::int64_t const r = sys::fstat(fd, &s);
  if (r < 0) return detail::failed(r, "adopt", fd);
  switch (s.st_mode & S_IFMT) {
    case S_IFREG:
    case S_IFBLK:
      return handle_kind::file;
    case S_IFDIR:
      return detail::failed(-EISDIR, "adopt", fd);
    case S_IFSOCK:
      return kind_of_socket(fd);
    default:
      return handle_kind::pipe; // a FIFO, a terminal, an eventfd: readiness, and no position
  }
}

} // namespace

handle& handle::operator=(handle&& other) noexcept {
  if (this != &other) {
    (void)close();
    multiplexer_ = std::exchange(other.multiplexer_, nullptr);
    fd_ = std::exchange(other.fd_, -1);
    kind_ = moved(other.kind_);
    caching_ = other.caching_;
  }
  return *this;
}

int handle::release() noexcept {
  // Receivers that are notified of the cancellation see a closed handle.
  int const fd = std::exchange(fd_, -1);
  if (fd >= 0) {
    driver::registry::forget_everywhere(fd, multiplexer_);
    sys::bump_generation(fd);
  }
  return fd;
}

result<void> handle::close() noexcept {
  int const fd = release();
  if (fd < 0) return {};
  if (failure const failed = close_descriptor(fd)) return failed;
  return {};
}

result<handle> handle::clone() const noexcept {
  std::int64_t const fd = sys::fcntl(fd_, F_DUPFD_CLOEXEC, 3);
  if (fd < 0) return detail::failed(fd, "clone", fd_);
  sys::note_duplicate(static_cast<int>(fd), fd_);
  return handle(static_cast<int>(fd), moved(kind_), caching_); // the map stays with the original
}

result<std::string> handle::current_path() const {
  detail::path_buffer path;
  int const n = detail::path_of(fd_, path);
  if (n < 0) return detail::failed(n, "current_path", fd_);
  return std::string(path.text, static_cast<std::size_t>(n));
}

int detail::take_over(int fd, bool stays_blocking, std::int64_t& status_flags) noexcept {
  std::int64_t const descriptor_flags = sys::fcntl(fd, F_GETFD, 0);
  if (descriptor_flags < 0) return static_cast<int>(descriptor_flags);
  status_flags = sys::fcntl(fd, F_GETFL, 0);
  if (status_flags < 0) return static_cast<int>(status_flags);
  // Moved first, which may fail: others may share what O_NONBLOCK changes.
  std::int64_t const own = fd <= 2 ? sys::fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
  if (own < 0) return static_cast<int>(own);
  if (!stays_blocking && (status_flags & O_NONBLOCK) == 0) {
    std::int64_t const r = sys::fcntl(fd, F_SETFL, static_cast<long>(status_flags | O_NONBLOCK));
    if (r < 0) {
      if (own != fd) sys::close(static_cast<int>(own));
      return static_cast<int>(r);
    }
  }
  if (own != fd) {
    (void)close_descriptor(fd);
    return static_cast<int>(own);
  }
  if ((descriptor_flags & FD_CLOEXEC) == 0) {
    std::int64_t const r = sys::fcntl(fd, F_SETFD, static_cast<long>(descriptor_flags | FD_CLOEXEC));
    if (r < 0) return static_cast<int>(r);
  }
  return fd;
}

int detail::take_over_socket(int fd, handle_kind wanted) noexcept {
  result<handle_kind> const kind = kind_of_socket(fd);
  if (!kind) return -kind.error().value();
  if (*kind != wanted) return wanted == handle_kind::listening_socket ? -EINVAL : -EPROTOTYPE;
  std::int64_t flags = 0;
  return take_over(fd, false, flags);
}

result<io_handle> io_handle::adopt(int fd) noexcept {
  result<handle_kind> const kind = kind_of(fd);
  if (!kind) return kind.error();
  std::int64_t flags = 0;
  bool const is_file = *kind == handle_kind::file;
  int const own = is_file ? detail::take_over_file(fd) : detail::take_over(fd, false, flags);
  if (own < 0) return detail::failed(own, "adopt", fd);
  return io_handle(own, *kind);
}

async_close::async_close(handle&& h, unio::deadline d) noexcept
    : operation_with(detail::close_faces, h.kind(), -1, h.own_multiplexer(), d) {
  set_fd(h.release());
}

async_close::async_close(failure const& before, handle&& h, unio::deadline d) noexcept
    : async_close(static_cast<handle&&>(h), d) {
  failed_before_ = detail::to_native(before.code());
}

async_close& async_close::operator=(async_close&& other) noexcept {
  if (this != &other) {
    close_if_still_open();
    io_operation::operator=(static_cast<io_operation&&>(other));
    closed_ = other.closed_;
    failed_before_ = other.failed_before_;
  }
  return *this;
}

async_close::~async_close() { close_if_still_open(); }

void async_close::close_if_still_open() noexcept {
  if (fd() >= 0 && !closed_) (void)close_descriptor(fd());
}

} // namespace unio
