// Datagram sockets: making them, naming them, and their options.

#include "handle/adopt.hpp"
#include "handle/sockets.hpp"
#include "sys/descriptors.hpp"

#include <unio/datagram_handle.hpp>

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace unio::inline v0_1 {

using namespace detail::sockets;
using detail::option_id;

static_assert(sizeof(datagram_handle) == 16);

namespace {

// IPv4's options apply on an IPv6 socket to the IPv4 hosts that it reaches.
constexpr bool has_ipv4(address_family family, bool ipv6_only) noexcept {
  return family == address_family::ipv4 || (family == address_family::ipv6 && !ipv6_only);
}

bool is_mapped(endpoint const& e) noexcept {
  if (e.family() != address_family::ipv6) return false;
  sockaddr_in6 a;
  std::memcpy(&a, e.data(), sizeof(a));
  return IN6_IS_ADDR_V4MAPPED(&a.sin6_addr) != 0;
}

// Some kernels and sandboxes know less: then it is not reported.
void ask_for(int fd, int level, int name) noexcept { (void)set_option(fd, level, name, 1); }

std::int64_t ask_for_destinations(int fd, address_family family, bool ipv4_too) noexcept {
  std::int64_t r = 0;
  if (ipv4_too) r = set_option(fd, IPPROTO_IP, IP_PKTINFO, 1);
  if (r >= 0 && family == address_family::ipv6) r = set_option(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
  return r;
}

std::int64_t queue_errors(int fd, address_family family, bool ipv4_too) noexcept {
  std::int64_t r = 0;
  if (ipv4_too) r = set_option(fd, IPPROTO_IP, IP_RECVERR, 1);
  if (r >= 0 && family == address_family::ipv6) r = set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
  if (r >= 0) sys::note_waited(fd, sys::queues_errors_bit, true);
  return r;
}

std::int64_t set_up(int fd, address_family family, datagram_options const& o) noexcept {
  if (family == address_family::unix_path) return 0;
  bool const ipv4_too = has_ipv4(family, o.ipv6_only);
  std::int64_t r = 0;
  if (family == address_family::ipv6) r = set_option(fd, option_id::ipv6_only, o.ipv6_only ? 1 : 0);
  if (r >= 0)
    r = options_of(fd)
            .set(option_id::reuse_address, o.reuse_address)
            .set(option_id::reuse_port, o.reuse_port)
            .set(option_id::transparent, o.transparent)
            .set(option_id::free_bind, o.free_bind)
            .set(option_id::device, o.device)
            .set(option_id::receive_buffer, o.receive_buffer)
            .error();
  if (r >= 0 && o.destination) r = ask_for_destinations(fd, family, ipv4_too);
  if (r >= 0 && o.errors) r = queue_errors(fd, family, ipv4_too);
  if (r < 0) return r;
  if (o.ecn && ipv4_too) ask_for(fd, IPPROTO_IP, IP_RECVTOS);
  if (o.ecn && family == address_family::ipv6) ask_for(fd, IPPROTO_IPV6, IPV6_RECVTCLASS);
  if (o.gro) ask_for(fd, SOL_UDP, UDP_GRO);
  if (o.timestamps) ask_for(fd, SOL_SOCKET, SO_TIMESTAMPNS);
  return 0;
}

int type_of(address_family family, datagram_options const& o) noexcept {
  return family == address_family::unix_path && o.sequenced ? SOCK_SEQPACKET : SOCK_DGRAM;
}

} // namespace

result<datagram_handle> datagram_handle::create(address_family family, datagram_options options) noexcept {
  int const fd = make_socket(family, type_of(family, options));
  if (fd < 0) return detail::failed(fd, "create");
  datagram_handle made(fd, family);
  if (std::int64_t const r = set_up(fd, family, options); r < 0) return detail::failed(r, "create");
  return made;
}

result<datagram_handle> datagram_handle::bind(endpoint const& at, datagram_options options) noexcept {
  result<datagram_handle> made = create(at.family(), options);
  if (!made) return made;
  if (std::int64_t const r = bind_to(made->fd_, at); r < 0) return failed_at(r, "bind", at);
  return made;
}

result<datagram_handle> datagram_handle::connected_to(endpoint const& to, datagram_options options) noexcept {
  if (is_mapped(to)) options.ipv6_only = false;
  result<datagram_handle> made = create(to.family(), options);
  if (!made) return made;
  if (result<void> const r = made->connect(to); !r) return r.error();
  return made;
}

result<datagram_pair> datagram_handle::pair(datagram_options options) noexcept {
  int ends[2];
  int const type = type_of(address_family::unix_path, options);
  std::int64_t const r = sys::socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends);
  if (r < 0) return detail::failed(r, "pair");
  int const first = sys::above_standard(ends[0]);
  int const second = sys::above_standard(ends[1]);
  datagram_pair both;
  if (first >= 0) both.first = datagram_handle(first, address_family::unix_path);
  if (second >= 0) both.second = datagram_handle(second, address_family::unix_path);
  if (first < 0) return detail::failed(first, "pair");
  if (second < 0) return detail::failed(second, "pair");
  return both;
}

result<datagram_handle> datagram_handle::adopt(int fd) noexcept {
  result<detail::socket_nature> const is = detail::nature_of_socket(fd);
  if (!is) return is.error();
  if ((is->type != SOCK_DGRAM && is->type != SOCK_SEQPACKET) || is->listens)
    return detail::failed(-EPROTOTYPE, "adopt", fd);
  result<endpoint> const name = name_of(fd, sys::getsockname, "adopt");
  if (!name) return name.error();
  address_family const family = name->family();
  if (family == address_family::unspecified) return detail::failed(-EAFNOSUPPORT, "adopt", fd);

  std::int64_t status_flags = 0;
  int const adopted = detail::take_over(fd, false, status_flags);
  if (adopted < 0) return detail::failed(adopted, "adopt", fd);
  datagram_handle made(adopted, family);
  if (family == address_family::unix_path) return made;
  sys::note_waited(adopted, sys::traffic_class_bit, true);
  result<int> const queues = family == address_family::ipv4 ? int_option(adopted, IPPROTO_IP, IP_RECVERR)
                                                            : int_option(adopted, IPPROTO_IPV6, IPV6_RECVERR);
  if (queues && *queues != 0) sys::note_waited(adopted, sys::queues_errors_bit, true);
  if (result<endpoint> const peer = name_of(adopted, sys::getpeername, "adopt"); peer && is_mapped(*peer))
    made.family_ = address_family::ipv4;
  return made;
}

result<void> datagram_handle::connect(endpoint const& to) noexcept {
  std::int64_t const r = sys::uninterrupted(
      [&] { return sys::connect(fd_, static_cast<sockaddr const*>(to.data()), to.size()); });
  if (r < 0) return failed_at(r, "connect", to);
  family_ = is_mapped(to) ? address_family::ipv4 : to.family();
  return {};
}

result<void> datagram_handle::disconnect() noexcept {
  sockaddr const nobody{.sa_family = AF_UNSPEC, .sa_data = {}};
  std::int64_t r = sys::connect(fd_, &nobody, sizeof(nobody));
  if (r == -EINVAL) r = -EOPNOTSUPP; // of a sequenced one
  if (r < 0) return detail::failed(r, "disconnect", fd_);
  if (is_ipv6()) family_ = address_family::ipv6;
  return {};
}

bool datagram_handle::is_ipv6() const noexcept {
  result<int> const domain = int_option(fd_, SOL_SOCKET, SO_DOMAIN);
  return domain && *domain == AF_INET6;
}

result<endpoint> datagram_handle::local_endpoint() const noexcept {
  return name_of(fd_, sys::getsockname, "local_endpoint");
}
result<endpoint> datagram_handle::remote_endpoint() const noexcept {
  return name_of(fd_, sys::getpeername, "remote_endpoint");
}

result<int> datagram_handle::known_path_mtu() const noexcept {
  return family_ == address_family::ipv6 ? int_option(fd_, IPPROTO_IPV6, IPV6_MTU)
                                         : int_option(fd_, IPPROTO_IP, IP_MTU);
}
result<void> datagram_handle::join_group(endpoint const& group, std::uint32_t interface) noexcept {
  return change_group(group, interface, true);
}
result<void> datagram_handle::leave_group(endpoint const& group, std::uint32_t interface) noexcept {
  return change_group(group, interface, false);
}

result<void> datagram_handle::change_group(endpoint const& group, std::uint32_t interface,
                                           bool joins) noexcept {
  std::int64_t r = -EINVAL;
  if (group.family() == address_family::ipv4) {
    sockaddr_in a;
    std::memcpy(&a, group.data(), sizeof(a));
    ip_mreqn const m{
        .imr_multiaddr = a.sin_addr, .imr_address = {}, .imr_ifindex = static_cast<int>(interface)};
    r = set_option(fd_, IPPROTO_IP, joins ? IP_ADD_MEMBERSHIP : IP_DROP_MEMBERSHIP, m);
  } else if (group.family() == address_family::ipv6) {
    sockaddr_in6 a;
    std::memcpy(&a, group.data(), sizeof(a));
    ipv6_mreq const m{.ipv6mr_multiaddr = a.sin6_addr,
                      .ipv6mr_interface = interface != 0 ? interface : a.sin6_scope_id};
    r = set_option(fd_, IPPROTO_IPV6, joins ? IPV6_ADD_MEMBERSHIP : IPV6_DROP_MEMBERSHIP, m);
  }
  if (r == -ENOPROTOOPT || r == -EOPNOTSUPP) r = -EINVAL; // the socket is of another family
  return done(r, joins ? "join_group" : "leave_group", fd_);
}

result<void> datagram_handle::multicast_interface(std::uint32_t interface) noexcept {
  if (is_ipv6())
    return done(set_option(fd_, IPPROTO_IPV6, IPV6_MULTICAST_IF, static_cast<int>(interface)),
                "multicast_interface", fd_);
  ip_mreqn m{};
  m.imr_ifindex = static_cast<int>(interface);
  return done(set_option(fd_, IPPROTO_IP, IP_MULTICAST_IF, m), "multicast_interface", fd_);
}

} // namespace unio
