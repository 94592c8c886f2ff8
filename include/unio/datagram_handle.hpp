// unio/datagram_handle.hpp: sockets that exchange datagrams.
//
//   datagram_handle                       UDP over IPv4 and IPv6; Unix datagrams and sequenced packets
//   datagram_options                      what it is asked to report, and how it shares its address
//   async_receive_from, async_send_to     one datagram, or several joined ones
//   async_receive_batch, async_send_batch several datagrams in one system call
//   async_receive_error                   why datagrams did not arrive

#pragma once

#include <unio/detail/datagram_operations.hpp>
#include <unio/socket_handle.hpp>

#include <span>

namespace unio::inline v0_1 {

struct datagram_pair;
class datagram_handle;

/// Receives one datagram, or several that the kernel has joined (datagram_options::gro).
///
/// Effects       fills the buffers in order, and `info`
/// Returns       the buffers filled. An empty datagram is a value with no bytes, not an end. On a sequenced
///               Unix socket the end of the connection is one too: Linux does not tell them apart. So is,
///               from no address, the end that shutdown() of the receiving side makes
/// Errors        ECONNREFUSED and what else recvmsg(2) says that an earlier datagram of a connected socket
///               met: this operation ends with it, the next one receives. With datagram_options::errors
///               co_receive_error() gets these instead. EINVAL: a list of more than 8 buffers that is cut
///               inside its last one
/// Buffers       the caller's, and so is `info`; both must live until it has finished. What does not fit is
///               lost, and `info.truncated` says so. With `gro` there should be room for 65,535 bytes
/// Concurrency   any number on one socket; each datagram goes to one of them
/// Cancellation  a datagram that arrived first is returned
/// Cost          one system call when there is a datagram. Descriptors that a Unix peer sends along are not
///               received: see unio/passed_handles.hpp
/// Runs as       io_uring RECVMSG (with datagram_options::errors: POLL_ADD, then recvmsg(2)) · epoll:
///               recvmsg(2) on readiness · blocking the same
/// Source        recvmsg(2), ip(7), ipv6(7), udp(7), unix(7)
UNIO_OPERATION(receive_from, detail::with<detail::message_state<256>>::yields<detail::moved<mutable_buffers>>,
               (datagram_handle&, h), (mutable_buffers, into), (datagram_info&, info))

/// Sends one datagram, or, where `how.segment` is set, the bytes cut into datagrams of that size.
///
/// Returns       the buffers taken: all of them, but for a part of the segments where these are more than 64,
///               or where they are sent singly and the socket's memory is full. Then send the rest
/// Errors        EMSGSIZE if it is longer than 65,507 bytes (IPv6: 65,527) or than the path takes and not to
///               be fragmented; EDESTADDRREQ without a destination; ECONNREFUSED as async_receive_from; EPIPE
///               if a sequenced peer is gone; EINVAL as async_receive_from, or if `how.from` is no address
///               of this host; otherwise as sendmsg(2)
/// Buffers       the caller's, not changed; they must live until it has finished. `how` is copied
/// Concurrency   any number on one socket
/// Cancellation  a datagram is sent or not; segments that were sent are reported
/// Cost          one system call for up to 64 segments of together 65,000 bytes. Where the kernel refuses to
///               cut (EIO, EINVAL: the interface cannot compute checksums, say), the segments are sent singly
///               at once, and so are those of later sends on this socket. A mark of congestion that is
///               refused is left out, and out of later sends
/// Runs as       io_uring SENDMSG · sendmsg(2) on readiness. A Unix datagram to an address other than its
///               peer's is tried again after a pause if that one's queue is full: nothing announces room
/// Source        sendmsg(2), udp(7) (UDP_SEGMENT), ip(7), ipv6(7)
UNIO_OPERATION(send_to, detail::with<detail::message_state<128>>::yields<detail::moved<const_buffers>>,
               (datagram_handle&, h), (send_description const&, how), (const_buffers, bytes))

/// Receives as many datagrams as there are, at least one, at most 32 and as many as the batch has elements.
///
/// Effects       fills `room`, `size` and `info` of the elements from the first on
/// Returns       how many elements were filled; bytes_transferred() is the sum of their sizes. 0 at once for
///               an empty batch
/// Errors        as async_receive_from; with datagrams before it, the next operation's
/// Buffers       the batch and its rooms are the caller's and must live until it has finished
/// Cancellation  datagrams that arrived first are returned
/// Cost          no allocation; one system call
/// Runs as       recvmmsg(2), never with its own timeout, on readiness
/// Source        recvmmsg(2)
UNIO_OPERATION(receive_batch, detail::with<detail::datagram_state>::yields<detail::counted>,
               (datagram_handle&, h), (std::span<received_datagram>, batch))

/// Sends the datagrams of a batch in order.
///
/// Returns       how many elements were sent whole, from the first on; bytes_transferred() counts also the
///               segments of one that was sent in part, as its `sent` says. A later call with the rest
///               continues there. 0 at once for an empty batch
/// Errors        as async_send_to; with datagrams sent before it, the next operation's. A report that comes
///               while one sendmmsg(2) is under way may be lost (sendmmsg(2), "BUGS")
/// Buffers       the batch and its bytes are the caller's and must live until it has finished
/// Cancellation  what was sent is reported
/// Cost          no allocation; one system call for each 32 elements, however many segments these have
/// Runs as       sendmmsg(2) on readiness; otherwise as async_send_to
/// Source        sendmmsg(2)
UNIO_OPERATION(send_batch, detail::with<detail::datagram_state>::yields<detail::counted>,
               (datagram_handle&, h), (std::span<datagram_to_send>, batch))

/// Takes the oldest report of a datagram that did not arrive.
///
/// Returns       the report
/// Preconditions the socket was opened with datagram_options::errors; on others there is none
/// Concurrency   while others receive and send. A report that is there keeps poll(2) from waiting, so
///               until it is taken, a receive that has to wait tries again after pauses of some milliseconds
/// Runs as       recvmsg(2) with MSG_ERRQUEUE when there is an exceptional condition
/// Source        ip(7), IP_RECVERR; ipv6(7)
UNIO_OPERATION(receive_error, datagram_error, (datagram_handle&, h))

/// What a socket is asked to report with each datagram, and how it shares its address. What the kernel does
/// not know is left out and not reported (gro, ecn, timestamps). Unix sockets have only `sequenced`.
struct datagram_options {
  bool destination = false;   ///< datagram_info::to and interface
  bool ecn = false;           ///< datagram_info::ecn
  bool gro = false;           ///< the kernel may join datagrams of one sender: datagram_info::segment
  bool errors = false;        ///< transport errors are queued for co_receive_error()
  bool timestamps = false;    ///< datagram_info::at
  bool reuse_address = false; ///< SO_REUSEADDR: also for what several receive by multicast
  bool reuse_port = false;    ///< SO_REUSEPORT: the kernel spreads datagrams over sockets of one address
  bool ipv6_only = true;      ///< an IPv6 socket exchanges nothing with IPv4 hosts (as ::ffff:1.2.3.4)
  bool sequenced = false;     ///< a Unix socket with connections that keep order (SOCK_SEQPACKET)
  bool transparent = false;   ///< option::transparent
  bool free_bind = false;     ///< option::free_bind
  int receive_buffer = 0;     ///< option::receive_buffer; 0: the system's
  std::string_view device{};  ///< option::device: only what arrives at this interface
};

/// A socket that exchanges datagrams, each of which arrives whole or not at all.
///
/// Thread safety  distinct: safe; shared: operations may be in flight together; nothing else
/// Moved-from     closed; as handle
/// Size           16 bytes
class UNIO_API datagram_handle : public handle {
 public:
  static constexpr std::size_t max_segments = 64; ///< of one send

  using path_mtu = unio::path_mtu_discovery;
  using side = socket_side;

  datagram_handle() = default;

  /// A socket without an address: the first send binds it. Errors: EMFILE, ENFILE, EAFNOSUPPORT; as the
  /// options. Cost: one system call, one for IPv6, and one or two for each option that is not its default.
  static result<datagram_handle> create(address_family family, datagram_options options = {}) noexcept;
  /// A socket that is bound to `at`; port 0 chooses one. A Unix path must not exist. Errors: as create() and
  /// bind(2). Cost: as create(), and one system call.
  static result<datagram_handle> bind(endpoint const& at, datagram_options options = {}) noexcept;
  /// A socket that is connected to `to`: sends go there by default, and only what comes from there is
  /// received. Nothing is exchanged with the peer. Errors: as create() and connect(2). Cost: as create(), and
  /// one system call.
  static result<datagram_handle> connected_to(endpoint const& to, datagram_options options = {}) noexcept;
  /// Two Unix sockets connected to each other. Errors: EMFILE, ENFILE.
  static result<datagram_pair> pair(datagram_options options = {}) noexcept;
  /// Takes over a descriptor made elsewhere, as io_handle::adopt.
  ///
  /// Errors  EBADF; ENOTSOCK; EPROTOTYPE (std::errc::wrong_protocol_type) for a socket that is a stream, or
  ///         that listens; EAFNOSUPPORT. On failure the descriptor is still the caller's
  /// Cost    up to ten system calls
  static result<datagram_handle> adopt(int fd) noexcept;

  /// receive_from, try_receive_from, …, co_receive_from, …: see async_receive_from.
  UNIO_VERB_FORMS(receive_from, async_receive_from, (mutable_buffers, into), (datagram_info&, info))
  /// See async_send_to.
  UNIO_VERB_FORMS(send_to, async_send_to, (send_description const&, how), (const_buffers, bytes))
  /// See async_receive_batch.
  UNIO_VERB_FORMS(receive_batch, async_receive_batch, (std::span<received_datagram>, batch))
  /// See async_send_batch.
  UNIO_VERB_FORMS(send_batch, async_send_batch, (std::span<datagram_to_send>, batch))
  /// See async_receive_error.
  UNIO_VERB_FORMS(receive_error, async_receive_error)
  /// See async_shutdown. Of sequenced Unix sockets, and of connected ones, where it ends waiting receives.
  UNIO_VERB_FORMS(shutdown, async_shutdown, (side, which))

  /// Connects it, or connects it to another. Never waits: a Unix peer with a full queue of connections is
  /// EAGAIN. Errors: as connect(2).
  result<void> connect(endpoint const& to) noexcept;
  /// Makes it one that is not connected. Errors: EOPNOTSUPP for a sequenced one. Cost: two system calls.
  result<void> disconnect() noexcept;
  /// The address that it is bound to. Errors: as getsockname(2).
  [[nodiscard]] result<endpoint> local_endpoint() const noexcept;
  /// The peer that it is connected to. Errors: ENOTCONN; as getpeername(2).
  [[nodiscard]] result<endpoint> remote_endpoint() const noexcept;

  UNIO_SOCKET_OPTIONS

  /// The most frequent ones, shorter: the option of the same name. See set_option and get_option.
  result<void> broadcast(bool on) noexcept { return set(option::broadcast, on); }
  result<void> send_buffer(int bytes) noexcept { return set(option::send_buffer, bytes); }
  result<void> receive_buffer(int bytes) noexcept { return set(option::receive_buffer, bytes); }
  [[nodiscard]] result<int> send_buffer() const noexcept { return get(option::send_buffer); }
  [[nodiscard]] result<int> receive_buffer() const noexcept { return get(option::receive_buffer); }
  result<void> path_mtu_discovery(path_mtu how) noexcept { return set(option::mtu_discovery, how); }
  result<void> traffic_class(int value) noexcept { return set(option::traffic_class, value); }
  result<void> hop_limit(int hops) noexcept { return set(option::hop_limit, hops); }
  /// option::path_mtu, also of an IPv6 socket that is connected to an IPv4 host. Errors: ENOTCONN.
  [[nodiscard]] result<int> known_path_mtu() const noexcept;

  /// Receives what is sent to a multicast group, on one interface (its index; 0: that of the group's scope,
  /// or without one as the routes say).
  /// Errors: EINVAL if it is no group of the socket's family, EADDRINUSE, ENODEV.
  result<void> join_group(endpoint const& group, std::uint32_t interface = 0) noexcept;
  /// Ends that. Errors: EADDRNOTAVAIL if it has not joined.
  result<void> leave_group(endpoint const& group, std::uint32_t interface = 0) noexcept;
  /// The option of the same name. See set_option.
  result<void> multicast_hops(int hops) noexcept { return set(option::multicast_hops, hops); }
  result<void> multicast_loop(bool on) noexcept { return set(option::multicast_loop, on); }
  /// IP_MULTICAST_IF: where multicasts leave. Errors: as setsockopt(2). Cost: two system calls.
  result<void> multicast_interface(std::uint32_t interface) noexcept;

 private:
  friend struct detail::datagram_state;
  friend struct detail::opened<datagram_handle>;
  friend struct testing::handle_maker;
  datagram_handle(int fd, address_family family) noexcept
      : handle(fd, handle_kind::datagram_socket), family_(family) {}
  [[nodiscard]] bool is_ipv6() const noexcept;
  result<void> change_group(endpoint const& group, std::uint32_t interface, bool joins) noexcept;

  // Whose control messages it takes: IPv4's also on an IPv6 socket that is connected to an IPv4 host.
  address_family family_ = address_family::unspecified;
};

struct datagram_pair {
  datagram_handle first;
  datagram_handle second;
};

inline detail::datagram_state::datagram_state(datagram_handle const& h) noexcept : family(h.family_) {}

} // namespace unio
