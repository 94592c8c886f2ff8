// Streams that others share: a descriptor of our own for what another one leads to.

#include "handle/adopt.hpp"
#include "handle/names.hpp"
#include "sys/shared_streams.hpp"

#include <unio/standard_streams.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

namespace unio::inline v0_1 {
namespace {

// io_handle's constructor is for handles that derive from it.
struct made_handle : io_handle {
  made_handle(int fd, handle_kind kind) noexcept : io_handle(fd, kind) {}
};

bool leads_to_the_same(int fd, struct stat const& as) noexcept {
  struct stat s;
  return sys::fstat(fd, &s) >= 0 && s.st_dev == as.st_dev && s.st_ino == as.st_ino && s.st_rdev == as.st_rdev;
}

// /dev/tty may be opened by everybody, and is the terminal that controls this process.
int reopen_controlling_terminal(int fd, int flags) noexcept {
  unsigned theirs = 0, ours = 0;
  if (sys::ioctl(fd, TIOCGDEV, &theirs) < 0) return -ENOTTY;
  int const tty = detail::open_at(AT_FDCWD, "/dev/tty", flags, 0);
  if (tty < 0) return tty;
  if (sys::ioctl(tty, TIOCGDEV, &ours) >= 0 && ours == theirs) return tty;
  sys::close(tty);
  return -ENOTTY;
}

// A description of our own that does not block, or a negative code.
int reopened(int fd, int status_flags, struct stat const& s) noexcept {
  // Each open of this device makes another terminal.
  if (S_ISCHR(s.st_mode) && s.st_rdev == makedev(5, 2)) return -EACCES;
  int const flags = (status_flags & (O_ACCMODE | O_APPEND)) | O_NONBLOCK;
  int const again = detail::reopen(fd, flags);
  if (again < 0) return S_ISCHR(s.st_mode) ? reopen_controlling_terminal(fd, flags | O_NOCTTY) : again;
  if (leads_to_the_same(again, s)) return again;
  sys::close(again);
  return -EACCES;
}

} // namespace

result<io_handle> shared_stream(int fd) noexcept {
  struct stat s;
  if (std::int64_t const r = sys::fstat(fd, &s); r < 0) return detail::failed(r, "standard stream", fd);
  std::int64_t const flags = sys::fcntl(fd, F_GETFL, 0);
  if (flags < 0) return detail::failed(flags, "standard stream", fd);
  if (S_ISDIR(s.st_mode)) return detail::failed(-EISDIR, "standard stream", fd);

  handle_kind kind = handle_kind::pipe;
  if (S_ISSOCK(s.st_mode)) {
    result<detail::socket_nature> const is = detail::nature_of_socket(fd);
    if (!is) return is.error();
    if (is->type != SOCK_STREAM || is->listens) return detail::failed(-EPROTOTYPE, "standard stream", fd);
    kind = handle_kind::stream_socket;
  } else if (S_ISREG(s.st_mode) || S_ISBLK(s.st_mode)) {
    kind = handle_kind::file;
  } else if ((flags & O_NONBLOCK) == 0) {
    int const own = reopened(fd, static_cast<int>(flags), s);
    if (own >= 0) return made_handle(own, kind);
    if (own == -EMFILE || own == -ENFILE) return detail::failed(own, "standard stream", fd);
    kind = handle_kind::named_pipe;
  }
  std::int64_t const own = sys::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (own < 0) return detail::failed(own, "standard stream", fd);
  auto const number = static_cast<int>(own);
  bool const may_block = kind == handle_kind::named_pipe || kind == handle_kind::stream_socket;
  if (may_block && (flags & O_NONBLOCK) == 0) sys::note_shared_blocking(number, S_ISCHR(s.st_mode));
  if (kind == handle_kind::file) sys::note_file_flags(number, flags);
  if (kind == handle_kind::file && (flags & O_NONBLOCK) != 0) sys::note_nonblocking(number);
  return made_handle(number, kind);
}

} // namespace unio
