// Sockets that listen for sequenced Unix connections.

#include "handle/adopt.hpp"
#include "handle/sockets.hpp"

#include <unio/listening_datagram_handle.hpp>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace unio::inline v0_1 {

using namespace detail::sockets;

static_assert(sizeof(listening_datagram_handle) == 16);

result<listening_datagram_handle> listening_datagram_handle::listen(endpoint const& at,
                                                                    int backlog) noexcept {
  if (at.family() != address_family::unix_path) return failed_at(-EAFNOSUPPORT, "listen", at);
  int const fd = make_socket(at.family(), SOCK_SEQPACKET);
  if (fd < 0) return failed_at(fd, "listen", at);
  listening_datagram_handle made(fd);
  if (std::int64_t const r = bind_to(fd, at); r < 0) return failed_at(r, "listen", at);
  if (std::int64_t const r = sys::listen(fd, backlog); r < 0) {
    if (!at.is_abstract() && !at.path().empty())
      sys::unlinkat(AT_FDCWD, static_cast<sockaddr_un const*>(at.data())->sun_path, 0);
    return failed_at(r, "listen", at);
  }
  return made;
}

result<listening_datagram_handle> listening_datagram_handle::adopt(int fd) noexcept {
  result<int> const type = int_option(fd, SOL_SOCKET, SO_TYPE);
  if (!type) return type.error();
  if (*type != SOCK_SEQPACKET) return detail::failed(-EPROTOTYPE, "adopt", fd);
  result<int> const listening = int_option(fd, SOL_SOCKET, SO_ACCEPTCONN);
  if (!listening) return listening.error();
  if (*listening == 0) return detail::failed(-EINVAL, "adopt", fd);
  std::int64_t flags = 0;
  int const own = detail::take_over(fd, false, flags);
  if (own < 0) return detail::failed(own, "adopt", fd);
  return listening_datagram_handle(own);
}

result<endpoint> listening_datagram_handle::local_endpoint() const noexcept {
  return name_of(fd_, sys::getsockname, "local_endpoint");
}

} // namespace unio
