// What a descriptor from elsewhere is, and handles on it.

#include "handle/adopt.hpp"

#include "handle/names.hpp"
#include "handle/sockets.hpp"
#include "sys/descriptors.hpp"

#include <unio/adopt.hpp>

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <string_view>
#include <utility>

namespace unio::inline v0_1 {
namespace {

// What stat(2) says of its kind, or a negative code.
std::int64_t type_of(int fd) noexcept {
  struct stat s;
  std::int64_t const r = sys::fstat(fd, &s);
  return r < 0 ? r : static_cast<std::int64_t>(s.st_mode & S_IFMT);
}

bool is_regular(std::int64_t type) noexcept { return type == S_IFREG || type == S_IFBLK; }

// The kernel gives an eventfd a name, and no type.
bool is_event(int fd, std::int64_t type) noexcept {
  if (type != 0) return false;
  detail::path_buffer name;
  int const n = detail::path_of(fd, name);
  return n >= 0 && std::string_view(name.text, static_cast<std::size_t>(n)) == "anon_inode:[eventfd]";
}

// What is wrong with a descriptor that is something else than was asked for.
int refused(std::int64_t type, int otherwise) noexcept {
  return type < 0 ? static_cast<int>(type) : -otherwise;
}

template <class Handle> result<adopted> as(int fd) noexcept {
  result<Handle> taken = Handle::adopt(fd);
  if (!taken) return taken.error();
  return adopted(std::move(*taken));
}

result<adopted> adopt_socket(int fd) noexcept {
  result<detail::socket_nature> const is = detail::nature_of_socket(fd);
  if (!is) return is.error();
  if (is->type == SOCK_STREAM) return is->listens ? as<listening_socket_handle>(fd) : as<socket_handle>(fd);
  return is->listens ? as<listening_datagram_handle>(fd) : as<datagram_handle>(fd);
}

template <class Passed> result<adopted> adopt_from(Passed& from, std::size_t i) noexcept {
  result<adopted> taken = adopt(from.native_handle(i)); // -1: EBADF
  if (taken) (void)from.release(i);
  return taken;
}

} // namespace

result<detail::socket_nature> detail::nature_of_socket(int fd) noexcept {
  result<int> const type = sockets::int_option(fd, SOL_SOCKET, SO_TYPE); // EBADF, ENOTSOCK
  if (!type) return type.error();
  result<int> const listens = sockets::int_option(fd, SOL_SOCKET, SO_ACCEPTCONN);
  if (!listens) return listens.error();
  return socket_nature{*type, *listens != 0};
}

int detail::take_over_file(int fd) noexcept {
  std::int64_t flags = 0;
  int const own = take_over(fd, true, flags);
  if (own < 0) return own;
  sys::note_file_flags(own, flags);
  if ((flags & O_NONBLOCK) != 0) sys::note_nonblocking(own);
  return own;
}

result<file_handle> file_handle::adopt(int fd) noexcept {
  std::int64_t const type = type_of(fd);
  if (!is_regular(type)) return detail::failed(refused(type, type == S_IFDIR ? EISDIR : EINVAL), "adopt", fd);
  int const own = detail::take_over_file(fd);
  if (own < 0) return detail::failed(own, "adopt", fd);
  return file_handle(own, handle_kind::file, caching::all, flag::none);
}

result<pipe_handle> pipe_handle::adopt(int fd) noexcept {
  std::int64_t const type = type_of(fd);
  if (type != S_IFIFO) return detail::failed(refused(type, EINVAL), "adopt", fd);
  std::int64_t flags = 0;
  int const own = detail::take_over(fd, false, flags);
  if (own < 0) return detail::failed(own, "adopt", fd);
  return pipe_handle(own, handle_kind::pipe);
}

result<directory_handle> directory_handle::adopt(int fd) noexcept {
  std::int64_t const type = type_of(fd);
  if (type != S_IFDIR) return detail::failed(refused(type, ENOTDIR), "adopt", fd);
  std::int64_t flags = 0;
  int const own = detail::take_over(fd, true, flags);
  if (own < 0) return detail::failed(own, "adopt", fd);
  return directory_handle(own);
}

result<event_handle> event_handle::adopt(int fd) noexcept {
  std::int64_t const type = type_of(fd);
  if (!is_event(fd, type)) return detail::failed(refused(type, EINVAL), "adopt", fd);
  std::int64_t flags = 0;
  int const own = detail::take_over(fd, false, flags);
  if (own < 0) return detail::failed(own, "adopt", fd);
  return event_handle(own);
}

result<adopted> adopt(int fd) noexcept {
  std::int64_t const type = type_of(fd);
  if (type < 0) return detail::failed(static_cast<int>(type), "adopt", fd);
  if (type == S_IFSOCK) return adopt_socket(fd);
  if (is_regular(type)) return as<file_handle>(fd);
  if (type == S_IFIFO) return as<pipe_handle>(fd);
  if (type == S_IFDIR) return as<directory_handle>(fd);
  return is_event(fd, type) ? as<event_handle>(fd) : as<io_handle>(fd);
}

result<adopted> adopt(inherited_handles& from, std::size_t i) noexcept { return adopt_from(from, i); }
result<adopted> adopt(passed_handles& from, std::size_t i) noexcept { return adopt_from(from, i); }

} // namespace unio
