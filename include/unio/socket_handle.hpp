// unio/socket_handle.hpp: stream sockets, and sockets that listen for them.
//
//   socket_handle             one end of a connection (IPv4, IPv6, Unix)
//   listening_socket_handle   accepts connections
//   async_connect, async_accept, async_accept_many, async_send_zero_copy   their operations

#pragma once

#include <unio/handle.hpp>

namespace unio {

struct socket_pair;

/// Connects a socket to an address.
///
/// Errors        ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL, … as connect(2); condition::timed_out,
///               would_block, canceled: then close the socket, for it may still be connecting
/// Concurrency   nothing else on the socket until it has finished
/// Runs as       io_uring CONNECT · connect(2), then its outcome when writable
class async_connect;

/// Accepts one connection.
///
/// Returns       the connection's socket, close-on-exec and non-blocking; ask it for remote_endpoint()
/// Errors        condition::timed_out, would_block, canceled; EMFILE, ENFILE, ENOBUFS, ENOMEM as accept(2). A
///               connection that is reset before it is accepted is no error: the wait continues
/// Cancellation  a connection that was accepted nevertheless is returned; nothing leaks
/// Runs as       io_uring ACCEPT · accept4(2) on readiness
///
/// async_accept::may_go_on(error) says whether to accept again after a pause: true for EMFILE, ENFILE,
/// ENOBUFS, ENOMEM, and EPERM, by which a firewall refuses one connection.
class async_accept;

/// Accepts connections until it is cancelled, its deadline passes, or the listening socket fails: set_value
/// for each, then once for what ended it (condition::canceled, timed_out, …), then set_done.
///
/// Errors   between connections: EMFILE, ENFILE, ENOBUFS, ENOMEM and EPERM are reported once each time they
///          begin; accepting pauses for a few milliseconds, then longer, up to 100 ms, until it succeeds
/// Runs as  io_uring multishot ACCEPT (one request for all) · accept4(2) on readiness
class async_accept_many;

/// Writes to a socket without copying: set_value when the bytes are accepted, set_done when the network no
/// longer needs the pages. The buffers belong to the kernel until then. Errors and cancellation as
/// async_write. Where the kernel or the socket cannot avoid the copy it is made.
///
/// Effects  takes from the first buffer of the request that is not empty
/// Cost     pinning pages costs more than copying below some 10 KiB
/// Runs as  io_uring SEND_ZC · elsewhere send(2), which copies
class async_send_zero_copy;

/// One end of a connection. Offsets are ignored. Writes never raise SIGPIPE. Otherwise as io_handle.
class UNIO_API socket_handle : public io_handle {
 public:
  enum class side : std::uint8_t { receive, send, both };

  socket_handle() = default;

  /// A socket that is not connected. Errors: EMFILE, ENFILE, EAFNOSUPPORT.
  static result<socket_handle> create(address_family family) noexcept;
  /// A socket connected to `to`. Errors: as create() and async_connect.
  static result<socket_handle> connected_to(endpoint const& to, deadline d = {}) noexcept;
  /// Two Unix sockets connected to each other.
  static result<socket_pair> pair() noexcept;

  UNIO_VERB_FORMS(connect, async_connect, (endpoint const& to), to)
  UNIO_VERB_FORMS(send_zero_copy, async_send_zero_copy, (io_request<const_buffers> request), request)

  [[nodiscard]] result<endpoint> local_endpoint() const noexcept;
  [[nodiscard]] result<endpoint> remote_endpoint() const noexcept;
  /// Binds it to a local address before connecting.
  result<void> bind(endpoint const& local) noexcept;
  /// Ends one direction: after `send` the peer reads the end of the stream.
  result<void> shutdown(side which) noexcept;

  /// Options, as setsockopt(2) and tcp(7) name them.
  result<void> no_delay(bool on) noexcept;
  result<void> keep_alive(bool on) noexcept;
  /// Seconds in which unsent data is sent after close(); 0: reset the connection; < 0: the default.
  result<void> linger(int seconds) noexcept;
  /// Bytes. The kernel doubles the value; the getters return the doubled one.
  result<void> send_buffer(int bytes) noexcept;
  result<void> receive_buffer(int bytes) noexcept;
  [[nodiscard]] result<int> send_buffer() const noexcept;
  [[nodiscard]] result<int> receive_buffer() const noexcept;

 private:
  friend class async_accept;
  friend class io_handle;
  friend struct testing::handle_maker;
  explicit socket_handle(int fd) noexcept : io_handle(fd, handle_kind::stream_socket) {}
};

struct socket_pair {
  socket_handle first;
  socket_handle second;
};

struct listen_options {
  int backlog = 4096;        ///< connections that wait to be accepted, at most net.core.somaxconn
  bool reuse_address = true; ///< SO_REUSEADDR
  bool reuse_port = false;   ///< SO_REUSEPORT: the kernel spreads connections over sockets of one address
  bool ipv6_only = true;     ///< an IPv6 socket takes no IPv4 connections
};

/// Accepts connections.
class UNIO_API listening_socket_handle : public handle {
 public:
  listening_socket_handle() = default;
  /// Binds and listens. A Unix path must not exist. Errors: EADDRINUSE, EACCES, … as bind(2), listen(2).
  static result<listening_socket_handle> listen(endpoint const& at, listen_options options = {}) noexcept;

  UNIO_VERB_FORMS(accept, async_accept, ())

  /// Where it listens, with the port that the kernel chose if 0 was given.
  [[nodiscard]] result<endpoint> local_endpoint() const noexcept;

 private:
  friend struct testing::handle_maker;
  explicit listening_socket_handle(int fd) noexcept : handle(fd, handle_kind::listening_socket) {}
};

UNIO_SENDER_FORMS(async_connect, (socket_handle & h, endpoint const& to), h, to)
UNIO_SENDER_FORMS(async_accept, (listening_socket_handle & h), h)
UNIO_SENDER_FORMS(async_accept_many, (listening_socket_handle & h), h)
UNIO_SENDER_FORMS(async_send_zero_copy, (socket_handle & h, io_request<const_buffers> request), h, request)

} // namespace unio

#include <unio/detail/socket_handle.hpp>
