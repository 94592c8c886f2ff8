// Handles that came with a message, and who is at the other end of a Unix socket.

#include "sys/descriptors.hpp"

#include <unio/passed_handles.hpp>

#include <sys/socket.h>

#include <cerrno>
#include <utility>

namespace unio::inline v0_1 {

// A descriptor that cannot be moved above 2 is closed, and counts as one that did not fit.
void passed_handles::add(int fd) noexcept {
  if (fd < 0) return;
  if (size() == capacity) {
    sys::close(fd);
    truncated_ = true;
    return;
  }
  int const kept = sys::above_standard(fd);
  if (kept < 0) {
    truncated_ = true;
    return;
  }
  fds_[count_++] = kept;
}

void passed_handles::close_all() noexcept {
  for (std::size_t i = 0; i < size(); ++i)
    if (fds_[i] >= 0) sys::close(fds_[i]);
  count_ = 0;
  truncated_ = false;
}

int passed_handles::release(std::size_t i) noexcept { return i < size() ? std::exchange(fds_[i], -1) : -1; }

template <class Handle> result<Handle> passed_handles::take_as(std::size_t i) noexcept {
  if (i >= size()) return detail::to_error_code(-EBADF);
  result<Handle> taken = Handle::adopt(fds_[i]);
  if (taken) fds_[i] = -1;
  return taken;
}

result<io_handle> passed_handles::take(std::size_t i) noexcept { return take_as<io_handle>(i); }
result<socket_handle> passed_handles::take_stream(std::size_t i) noexcept {
  return take_as<socket_handle>(i);
}
result<listening_socket_handle> passed_handles::take_listener(std::size_t i) noexcept {
  return take_as<listening_socket_handle>(i);
}
result<datagram_handle> passed_handles::take_datagrams(std::size_t i) noexcept {
  return take_as<datagram_handle>(i);
}

result<peer_credentials> credentials_of_peer(handle const& socket) noexcept {
  int domain = 0;
  unsigned size = sizeof(domain);
  std::int64_t r = sys::getsockopt(socket.native_handle(), SOL_SOCKET, SO_DOMAIN, &domain, &size);
  if (r >= 0 && domain != AF_UNIX) r = -EOPNOTSUPP;
  ucred who{};
  size = sizeof(who);
  if (r >= 0) r = sys::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &who, &size);
  // Without a peer the kernel tells of no user either; a process 0 alone is one of another namespace
  // (net/core/sock.c, cred_to_ucred).
  if (r >= 0 && who.pid == 0 && who.uid == static_cast<uid_t>(-1)) r = -ENOTCONN;
  if (r < 0) return detail::failed(r, "credentials_of_peer", socket.native_handle());
  return peer_credentials{.process = who.pid, .user = who.uid, .group = who.gid};
}

} // namespace unio
