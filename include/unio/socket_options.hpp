// unio/socket_options.hpp: the options of sockets, each with a name and a type.
//
//   option::no_delay, …          one constant for each option
//   socket_option, socket_fact   what these are: to be set and read, to be read only
//   set_option, get_option       for any handle of a socket. Sockets have members set() and get()
//   set_raw_option, …            for options without a name here
//   connection_information       what TCP knows about a connection
//
//   socket.set(option::keep_alive_idle, 90s).value();
//   std::string why;
//   if (!socket.set(option::congestion, "bbr", &why)) report(why); // names the option and the reason
//
// Thread safety  from any thread, while the handle stays open

#pragma once

#include <unio/detail/standard.hpp>
#include <unio/result.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace unio::inline v0_1 {

class handle;

namespace detail {
// In the order of the table in src/handle/socket_options.cpp.
enum class option_id : std::uint8_t {
  // tcp(7)
  no_delay,
  cork,
  quick_ack,
  user_timeout,
  keep_alive_idle,
  keep_alive_interval,
  keep_alive_count,
  defer_accept,
  fast_open,
  fast_open_connect,
  maximum_segment,
  congestion,
  not_sent_low_water,
  linger_2,
  syn_retries,
  window_clamp,
  // socket(7)
  keep_alive,
  send_buffer,
  receive_buffer,
  receive_low_water,
  reuse_address,
  reuse_port,
  linger,
  priority,
  mark,
  device,
  incoming_cpu,
  busy_poll,
  dont_route,
  broadcast,
  pending_error,
  incoming_napi,
  // ip(7), ipv6(7)
  traffic_class,
  hop_limit,
  transparent,
  free_bind,
  bind_without_port,
  ipv6_only,
  mtu_discovery,
  path_mtu,
  multicast_hops,
  multicast_loop,
  count
};

template <class T> struct option_argument {
  using type = T;
};
template <> struct option_argument<std::string> {
  using type = std::string_view;
};
} // namespace detail

/// Something that can be asked of a socket.
template <class T> struct socket_fact {
  detail::option_id id;
};

/// An option of a socket: it can be read and set.
template <class T> struct socket_option : socket_fact<T> {};

/// Whether a packet may be fragmented on its way, and who learns how large one may be.
enum class path_mtu_discovery : std::uint8_t {
  fragment, ///< any router may fragment it
  by_route, ///< the kernel fragments what is larger than it has learnt that the path takes
  refuse,   ///< never fragmented; a datagram that is larger than the path takes is EMSGSIZE
  probe,    ///< never fragmented, and what the kernel has learnt is not looked at: for protocols that probe
};

/// The options. Times are given in any unit and rounded up to that of the kernel. "Before": the operation
/// that the option has to precede; most factory functions take it among their own options then. Accepted
/// sockets inherit most options of the listening one.
namespace option {

// tcp(7)

/// TCP_NODELAY: what is written is sent at once, though earlier bytes have not been acknowledged.
inline constexpr socket_option<bool> no_delay{{detail::option_id::no_delay}};
/// TCP_CORK: only full packets are sent, for at most 200 ms, until it is off again.
inline constexpr socket_option<bool> cork{{detail::option_id::cork}};
/// TCP_QUICKACK: acknowledges at once. Not permanent: the kernel turns it off by itself.
inline constexpr socket_option<bool> quick_ack{{detail::option_id::quick_ack}};
/// TCP_USER_TIMEOUT: how long sent data may go unacknowledged before the connection ends (ETIMEDOUT); 0: the
/// system's. Milliseconds.
inline constexpr socket_option<std::chrono::microseconds> user_timeout{{detail::option_id::user_timeout}};
/// TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT: silence before the first probe of option::keep_alive, time
/// between probes (seconds), and how many are lost before the connection ends.
inline constexpr socket_option<std::chrono::microseconds> keep_alive_idle{
    {detail::option_id::keep_alive_idle}};
inline constexpr socket_option<std::chrono::microseconds> keep_alive_interval{
    {detail::option_id::keep_alive_interval}};
inline constexpr socket_option<int> keep_alive_count{{detail::option_id::keep_alive_count}};
/// TCP_DEFER_ACCEPT, of a listening socket: a connection is accepted once it has sent something, or after
/// about so long. Seconds, rounded up to a number of retries: reading yields more than was set.
inline constexpr socket_option<std::chrono::microseconds> defer_accept{{detail::option_id::defer_accept}};
/// TCP_FASTOPEN, of a listening socket: how many handshakes that bring data may be under way; 0: none. Needs
/// 0x2 in net.ipv4.tcp_fastopen.
inline constexpr socket_option<int> fast_open{{detail::option_id::fast_open}};
/// TCP_FASTOPEN_CONNECT, before connect: which then succeeds at once where the peer's cookie is known, and
/// the first write goes out with the handshake. What the peer answers, such as ECONNREFUSED, is that write's.
inline constexpr socket_option<bool> fast_open_connect{{detail::option_id::fast_open_connect}};
/// TCP_MAXSEG, before connect or listen: the largest segment. Bytes.
inline constexpr socket_option<int> maximum_segment{{detail::option_id::maximum_segment}};
/// TCP_CONGESTION: the algorithm. Errors: ENOENT if the kernel has none of that name, EPERM if it is not in
/// net.ipv4.tcp_allowed_congestion_control.
inline constexpr socket_option<std::string> congestion{{detail::option_id::congestion}};
/// TCP_NOTSENT_LOWAT: the socket is writable while less than this is unsent. Bytes.
inline constexpr socket_option<int> not_sent_low_water{{detail::option_id::not_sent_low_water}};
/// TCP_LINGER2: how long a closed socket waits for the peer to close too. Seconds.
inline constexpr socket_option<std::chrono::microseconds> linger_2{{detail::option_id::linger_2}};
/// TCP_SYNCNT, before connect: how often the first packet is sent again: 1 … 255.
inline constexpr socket_option<int> syn_retries{{detail::option_id::syn_retries}};
/// TCP_WINDOW_CLAMP: the most bytes that the peer is offered to send.
inline constexpr socket_option<int> window_clamp{{detail::option_id::window_clamp}};

// socket(7)

/// SO_KEEPALIVE: a silent peer is probed, so that a connection whose peer is gone ends.
inline constexpr socket_option<bool> keep_alive{{detail::option_id::keep_alive}};
/// SO_SNDBUF, SO_RCVBUF: bytes, at most net.core.wmem_max and rmem_max. The kernel doubles the value, and
/// reading yields the doubled one. The second bounds the window of TCP, if set before connect or listen.
inline constexpr socket_option<int> send_buffer{{detail::option_id::send_buffer}};
inline constexpr socket_option<int> receive_buffer{{detail::option_id::receive_buffer}};
/// SO_RCVLOWAT: the socket is readable once so many bytes have come.
inline constexpr socket_option<int> receive_low_water{{detail::option_id::receive_low_water}};
/// SO_REUSEADDR, before bind: an address is free while only connections of an earlier process end on it.
inline constexpr socket_option<bool> reuse_address{{detail::option_id::reuse_address}};
/// SO_REUSEPORT, before bind: sockets of one user share an address, and the kernel spreads what comes.
inline constexpr socket_option<bool> reuse_port{{detail::option_id::reuse_port}};
/// SO_LINGER: how long unsent data is sent after close(); 0: close() resets the connection; negative: the
/// default. Seconds.
inline constexpr socket_option<std::chrono::microseconds> linger{{detail::option_id::linger}};
/// SO_PRIORITY: 0 … 6; more needs CAP_NET_ADMIN.
inline constexpr socket_option<int> priority{{detail::option_id::priority}};
/// SO_MARK: for routing and filters. Needs CAP_NET_ADMIN.
inline constexpr socket_option<int> mark{{detail::option_id::mark}};
/// SO_BINDTODEVICE: only this interface, by its name; empty: any. Errors: ENODEV; EPERM if it is changed
/// without CAP_NET_RAW.
inline constexpr socket_option<std::string> device{{detail::option_id::device}};
/// SO_INCOMING_CPU: the processor that handled the last packet; in a reuse_port group, the one to serve.
inline constexpr socket_option<int> incoming_cpu{{detail::option_id::incoming_cpu}};
/// SO_BUSY_POLL: how long to poll the device before sleeping. More needs CAP_NET_ADMIN. Microseconds.
inline constexpr socket_option<std::chrono::microseconds> busy_poll{{detail::option_id::busy_poll}};
/// SO_DONTROUTE: only to hosts that are connected directly.
inline constexpr socket_option<bool> dont_route{{detail::option_id::dont_route}};
/// SO_BROADCAST, of datagram sockets: sending to broadcast addresses is allowed.
inline constexpr socket_option<bool> broadcast{{detail::option_id::broadcast}};
/// SO_ERROR: the error that waits, as a number of errno; 0: none. Reading clears it.
inline constexpr socket_fact<int> pending_error{detail::option_id::pending_error};
/// SO_INCOMING_NAPI_ID: the receive queue of the last packet; 0: unknown.
inline constexpr socket_fact<int> incoming_napi{detail::option_id::incoming_napi};

// ip(7), ipv6(7). On an IPv6 socket that is not ipv6_only, for its IPv4 peers too.

/// IP_TOS, IPV6_TCLASS: the byte with the service class and the ECN bits.
inline constexpr socket_option<int> traffic_class{{detail::option_id::traffic_class}};
/// IP_TTL, IPV6_UNICAST_HOPS: 1 … 255.
inline constexpr socket_option<int> hop_limit{{detail::option_id::hop_limit}};
/// IP_TRANSPARENT, IPV6_TRANSPARENT, before bind: addresses of other hosts. Needs CAP_NET_ADMIN.
inline constexpr socket_option<bool> transparent{{detail::option_id::transparent}};
/// IP_FREEBIND, IPV6_FREEBIND, before bind: addresses that this host does not have, or not yet.
inline constexpr socket_option<bool> free_bind{{detail::option_id::free_bind}};
/// IP_BIND_ADDRESS_NO_PORT, before bind to port 0: the port is chosen by connect(), so that one port serves
/// for many peers. connect_options::from uses it.
inline constexpr socket_option<bool> bind_without_port{{detail::option_id::bind_without_port}};
/// IPV6_V6ONLY, before bind: nothing is exchanged with IPv4 hosts (as ::ffff:1.2.3.4).
inline constexpr socket_option<bool> ipv6_only{{detail::option_id::ipv6_only}};
/// IP_MTU_DISCOVER, IPV6_MTU_DISCOVER, IPV6_DONTFRAG.
inline constexpr socket_option<path_mtu_discovery> mtu_discovery{{detail::option_id::mtu_discovery}};
/// IP_MTU, IPV6_MTU, of a connected socket: the largest packet, the IP header included, that the path is
/// known to take. Errors: ENOTCONN.
inline constexpr socket_fact<int> path_mtu{detail::option_id::path_mtu};
/// IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS: routers that a multicast may pass; 1 at first.
inline constexpr socket_option<int> multicast_hops{{detail::option_id::multicast_hops}};
/// IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP: whether sockets of this host get it too; true at first.
inline constexpr socket_option<bool> multicast_loop{{detail::option_id::multicast_loop}};

} // namespace option

/// Sets an option. `*why`, if given, is set to a sentence that names option, value and reason.
///
/// Errors        EBADF, ENOTSOCK; ENOPROTOOPT or EOPNOTSUPP if the socket or the kernel has no such option;
///               EINVAL for a value out of range; ENAMETOOLONG for a text of more than 15 bytes, which the
///               kernel would cut; error::embedded_nul; EPERM without the right; as setsockopt(2)
/// Concurrency   while any operations are in flight
/// Cost          one system call; of the options that IPv4 and IPv6 have both, up to four
UNIO_API result<void> set_option(handle& socket, socket_option<bool> o, bool on, std::string* why = nullptr);
UNIO_API result<void> set_option(handle& socket, socket_option<int> o, int value, std::string* why = nullptr);
UNIO_API result<void> set_option(handle& socket, socket_option<std::chrono::microseconds> o,
                                 std::chrono::microseconds time, std::string* why = nullptr);
UNIO_API result<void> set_option(handle& socket, socket_option<std::string> o, std::string_view text,
                                 std::string* why = nullptr);
UNIO_API result<void> set_option(handle& socket, socket_option<path_mtu_discovery> o, path_mtu_discovery how,
                                 std::string* why = nullptr);

/// Reads an option, and returns its value. Otherwise as set_option.
UNIO_API result<bool> get_option(handle const& socket, socket_fact<bool> o, std::string* why = nullptr);
UNIO_API result<int> get_option(handle const& socket, socket_fact<int> o, std::string* why = nullptr);
UNIO_API result<std::chrono::microseconds> get_option(handle const& socket,
                                                      socket_fact<std::chrono::microseconds> o,
                                                      std::string* why = nullptr);
UNIO_API result<std::string> get_option(handle const& socket, socket_fact<std::string> o,
                                        std::string* why = nullptr);
UNIO_API result<path_mtu_discovery> get_option(handle const& socket, socket_fact<path_mtu_discovery> o,
                                               std::string* why = nullptr);

/// setsockopt(2), for options without a name here: level, name and value as the kernel has them. Errors: as
/// there. Cost: one system call.
UNIO_API result<void> set_raw_option(handle& socket, int level, int name,
                                     std::span<std::byte const> value) noexcept;
/// getsockopt(2). Returns the bytes that were filled, a part of `room`. Errors: as there. Lifetime: of
/// `room`. Cost: one system call.
UNIO_API result<std::span<std::byte>> get_raw_option(handle const& socket, int level, int name,
                                                     std::span<std::byte> room) noexcept;

/// What TCP knows about a connection (TCP_INFO). 0 where an old kernel does not say.
struct connection_information {
  std::chrono::microseconds round_trip{};           ///< smoothed
  std::chrono::microseconds round_trip_deviation{}; ///< of it, on average
  std::chrono::microseconds shortest_round_trip{};
  std::uint32_t retransmits = 0;       ///< of the segment that is not acknowledged now
  std::uint32_t total_retransmits = 0; ///< segments
  std::uint32_t unacknowledged = 0;    ///< segments
  std::uint32_t lost = 0;              ///< segments that are taken for lost now
  std::uint32_t congestion_window = 0; ///< segments
  std::uint32_t maximum_segment = 0;   ///< bytes
  std::uint32_t path_mtu = 0;          ///< bytes
  std::uint64_t bytes_acknowledged = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t bytes_not_sent = 0;
  std::uint64_t delivery_rate = 0; ///< bytes per second, as last measured
  bool fast_open = false;          ///< the handshake brought data that was accepted
};

/// What TCP knows about the connection of a socket. Errors: EOPNOTSUPP on a socket of another protocol;
/// EBADF, ENOTSOCK. Cost: one system call.
UNIO_API result<connection_information> information_of(handle const& socket) noexcept;

} // namespace unio

// set() and get() as members of a kind of socket.
#define UNIO_SOCKET_OPTIONS                                                                            \
  /** Sets an option: set(option::no_delay, true). See set_option. */                                  \
  template <class T>                                                                                   \
  result<void> set(socket_option<T> o, typename detail::option_argument<T>::type value,                \
                   std::string* why = nullptr) {                                                       \
    return set_option(*this, o, value, why);                                                           \
  }                                                                                                    \
  /** Reads one: get(option::no_delay). See get_option. */                                             \
  template <class T> [[nodiscard]] result<T> get(socket_fact<T> o, std::string* why = nullptr) const { \
    return get_option(*this, o, why);                                                                  \
  }
