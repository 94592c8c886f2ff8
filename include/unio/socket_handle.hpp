// unio/socket_handle.hpp: stream sockets, and sockets that listen for them.
//
//   socket_handle, connect_options            one end of a connection (IPv4, IPv6, Unix)
//   listening_socket_handle, listen_options   accepts connections
//   async_connect, async_connected, async_shutdown, async_accept, async_accept_many, async_send_zero_copy
//   async_socket   unio::socket, co_socket, …: one that is not connected
//
// Their options have names in unio/socket_options.hpp.

#pragma once

#include <unio/detail/socket_operations.hpp>
#include <unio/handle.hpp>
#include <unio/socket_options.hpp>

#include <string_view>

namespace unio::inline v0_1 {

struct socket_pair;
class listening_socket_handle;

/// Connects a socket to an address.
///
/// Returns       nothing
/// Errors        ECONNREFUSED, ENETUNREACH, EADDRNOTAVAIL, … as connect(2); condition::timed_out,
///               would_block, canceled: then close the socket, for it may still be connecting
/// Buffers       the address is copied
/// Concurrency   nothing else on the socket until it has finished
/// Runs as       io_uring CONNECT · connect(2), then its outcome when writable
class async_connect;

/// Makes a socket, sets it up as connect_options say, and connects it.
///
/// Returns       the socket
/// Errors        as socket_handle::create and async_connect; the socket is closed then
/// Cancellation  as async_connect; the socket is closed
/// Destruction   closes the socket, unless result() has given it away: it is run once, and not reset
/// Cost          the socket is made when the operation is described; one system call for each option
/// Runs as       async_connect
class async_connected;

/// A direction of a connection, or both.
enum class socket_side : std::uint8_t { receive, send, both };

/// Ends a direction of a connection, or both. After `send` the peer reads the end of the stream, behind what
/// was written before; `receive` ends what waits here for bytes, and with TCP is not told to the peer.
///
/// Returns       nothing
/// Errors        ENOTCONN; as shutdown(2)
/// Preconditions writes that the peer is to get have ended
/// Cancellation  none: it never waits
/// Runs as       shutdown(2)
/// Source        shutdown(2); tcp(7), unix(7)
UNIO_OPERATION(shutdown, void, (handle&, h), (socket_side, which))

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
UNIO_OPERATION(accept, detail::accepted, (listening_socket_handle&, h))

/// Accepts connections until it is cancelled, its deadline passes, or the listening socket fails: set_value
/// for each, then once for what ended it (condition::canceled, timed_out, …), then set_done.
///
/// Returns  each connection's socket, as async_accept
/// Errors   between connections: EMFILE, ENFILE, ENOBUFS, ENOMEM and EPERM are reported once each time they
///          begin; accepting pauses for a few milliseconds, then longer, up to 100 ms, until it succeeds
/// Runs as  io_uring ACCEPT, one request for all (multishot), of Unix each · accept4(2) on readiness
UNIO_OPERATION(accept_many, detail::repeated<detail::accepted>, (listening_socket_handle&, h))

/// Writes to a socket without copying: set_value when the bytes are accepted, set_done when the network no
/// longer needs the pages. The buffers belong to the kernel until then: that is, with TCP, until the peer has
/// acknowledged the bytes. Where the kernel or the socket cannot avoid the copy it is made.
///
/// Effects       takes from `request.buffers` in order
/// Returns       the buffers taken, as async_write
/// Errors        as async_write
/// Buffers       the memory until set_done; the array of the buffers until set_value
/// Cancellation  as async_write until the bytes are accepted. Afterwards a peer that does not read keeps the
///               pages. A stop, and what waits for the end (closing the handle, destroying the operation or
///               its multiplexer), give the peer one second more. Then the connection is reset, and bytes
///               that the peer has not acknowledged are lost. To wait longer, close the handle after
///               set_done. The deadline bounds only the time until set_value
/// Cost          pinning pages costs more than copying below some 10 KiB
/// Runs as       io_uring SEND_ZC, of several buffers SENDMSG_ZC · elsewhere send(2), sendmsg(2), which copy
/// Source        io_uring_prep_send_zc(3); tcp(7)
UNIO_OPERATION(send_zero_copy,
               detail::with<detail::zero_copy_state>::yields<detail::requested<const_buffers>>,
               (socket_handle&, h), (io_request<const_buffers>, request))

/// What has to be said before a socket connects. Errors of each: as the option of that name.
struct connect_options {
  endpoint from{};                       ///< the local address; port 0: one that is free for this pair
  std::string_view device{};             ///< option::device: only through this interface
  int receive_buffer = 0;                ///< option::receive_buffer, which bounds TCP's window; 0: as is
  bool fast_open = false;                ///< option::fast_open_connect: the handshake takes the first write
  bool transparent = false;              ///< option::transparent: `from` may be another host's
  bool reuse_address = false;            ///< option::reuse_address
  io_multiplexer* multiplexer = nullptr; ///< connects it, and is the socket's own; null: the thread's
};

/// One end of a connection. Offsets are ignored. Writes never raise SIGPIPE. Otherwise as io_handle.
class UNIO_API socket_handle : public io_handle {
 public:
  using side = socket_side;

  socket_handle() = default;
  socket_handle(socket_handle&&) = default; // declared, so that a copy is one error
  socket_handle& operator=(socket_handle&&) = default;

  /// A socket that is not connected. Errors: EMFILE, ENFILE, EAFNOSUPPORT.
  static result<socket_handle> create(address_family family) noexcept;
  /// The same, set up and bound. Errors: as the options; EADDRINUSE, EADDRNOTAVAIL, … as bind(2). Cost: one
  /// system call, one for each option that is not its default, and one to bind.
  static result<socket_handle> create(address_family family, connect_options const& options) noexcept;
  /// A socket connected to `to`. Errors: as create() and async_connect. Cost: as create(), and async_connect.
  static result<socket_handle> connected_to(endpoint const& to, deadline d = {}) noexcept;
  static result<socket_handle> connected_to(endpoint const& to, connect_options const& options,
                                            deadline d = {}) noexcept;
  /// The same, awaited. See async_connected.
  [[nodiscard]] static io_awaitable<async_connected> co_connected_to(endpoint const& to,
                                                                     connect_options const& options = {},
                                                                     deadline d = {}) noexcept;
  [[nodiscard]] static io_awaitable<async_connected> co_connected_to(endpoint const& to, deadline d) noexcept;
  /// Two Unix sockets connected to each other.
  /// Errors: EMFILE, ENFILE.
  static result<socket_pair> pair() noexcept;
  /// Takes over a descriptor made elsewhere, as io_handle::adopt.
  ///
  /// Errors  EBADF; ENOTSOCK; EPROTOTYPE (std::errc::wrong_protocol_type) for a socket that exchanges
  ///         messages or that listens. On failure the descriptor is still the caller's
  /// Cost    up to seven system calls
  static result<socket_handle> adopt(int fd) noexcept;

  /// connect, try_connect, …, co_connect, …: see async_connect.
  UNIO_VERB_FORMS(connect, async_connect, (endpoint const&, to))
  /// shutdown, co_shutdown, …: see async_shutdown.
  UNIO_VERB_FORMS(shutdown, async_shutdown, (side, which))
  /// send_zero_copy, co_send_zero_copy, …: see async_send_zero_copy.
  UNIO_VERB_FORMS(send_zero_copy, async_send_zero_copy, (io_request<const_buffers>, request))

  /// Its own address. Errors: as getsockname(2).
  [[nodiscard]] result<endpoint> local_endpoint() const noexcept;
  /// The peer's address. Errors: ENOTCONN; as getpeername(2).
  [[nodiscard]] result<endpoint> remote_endpoint() const noexcept;
  /// Binds it to a local address before connecting. An unnamed Unix address: the kernel chooses a name.
  /// Errors: EADDRINUSE, EADDRNOTAVAIL, … as bind(2).
  result<void> bind(endpoint const& local) noexcept;

  UNIO_SOCKET_OPTIONS
  /// What TCP knows about the connection. Errors: EOPNOTSUPP on a socket of another protocol.
  [[nodiscard]] result<connection_information> information() const noexcept { return information_of(*this); }

  /// The most frequent ones, shorter: the option of the same name. See set_option and get_option.
  result<void> no_delay(bool on) noexcept { return set(option::no_delay, on); }
  result<void> keep_alive(bool on) noexcept { return set(option::keep_alive, on); }
  /// Seconds in which unsent data is sent after close(); 0: reset the connection; < 0: the default. See
  /// set_option.
  result<void> linger(int seconds) noexcept { return set(option::linger, std::chrono::seconds(seconds)); }
  /// The option of the same name. See set_option and get_option.
  result<void> send_buffer(int bytes) noexcept { return set(option::send_buffer, bytes); }
  result<void> receive_buffer(int bytes) noexcept { return set(option::receive_buffer, bytes); }
  [[nodiscard]] result<int> send_buffer() const noexcept { return get(option::send_buffer); }
  [[nodiscard]] result<int> receive_buffer() const noexcept { return get(option::receive_buffer); }

 private:
  friend struct detail::opened<socket_handle>;
  friend class async_connected;
  friend class io_handle;
  friend struct testing::handle_maker;
  explicit socket_handle(int fd) noexcept : io_handle(fd, handle_kind::stream_socket) {}
};

/// Makes a socket that is not connected, as socket_handle::create. It runs on `m`, or the thread's own.
///
/// Returns       the socket
/// Errors        EMFILE, ENFILE, ENOBUFS, EAFNOSUPPORT
/// Cancellation  the deadline and a stop bound the wait to begin; a socket that was made is closed again,
///               unless the result is taken
/// Cost          one system call, made at once: it waits for nothing
/// Runs as       socket(2); not by the ring, whose SOCKET is no faster
/// Source        docs/features.md L-02; socket(2)
UNIO_OPERATION_WITHOUT_HANDLE(socket, detail::opened<socket_handle>, (address_family, family))

struct socket_pair {
  socket_handle first;
  socket_handle second;
};

/// What has to be said before a socket is bound, or before it listens. Errors of each: as the option of that
/// name. Accepted sockets inherit most options of the listening one.
struct listen_options {
  int backlog = 4096;        ///< connections that wait to be accepted, at most net.core.somaxconn
  bool reuse_address = true; ///< SO_REUSEADDR
  bool reuse_port = false;   ///< SO_REUSEPORT: the kernel spreads connections over sockets of one address
  bool ipv6_only = true;     ///< an IPv6 socket takes no IPv4 connections
  bool transparent = false;  ///< option::transparent: takes connections to addresses of other hosts
  bool free_bind = false;    ///< option::free_bind: the address need not exist yet
  int fast_open = 0;         ///< option::fast_open: how many handshakes may bring data; 0: none
  int receive_buffer = 0;    ///< option::receive_buffer, of the accepted ones too; 0: the system's
  std::chrono::seconds defer_accept{0}; ///< option::defer_accept; 0: a connection is accepted before it sends
  std::string_view device{};            ///< option::device: only what arrives at this interface
  /// How long listen() sleeps and tries again while the address is in use; zero: not at all. A process that
  /// was killed keeps its sockets until the kernel has taken its rings apart, up to 33 ms after its end. A
  /// path is not waited for: it stays until it is removed.
  deadline wait_for_address = std::chrono::milliseconds(100);
};

/// Accepts connections.
class UNIO_API listening_socket_handle : public handle {
 public:
  listening_socket_handle() = default;
  listening_socket_handle(listening_socket_handle&&) = default; // declared, so that a copy is one error
  listening_socket_handle& operator=(listening_socket_handle&&) = default;
  /// Binds and listens. A Unix path must not exist.
  ///
  /// Effects  while the address is in use: the thread sleeps 1, 2, 4 and then 8 ms and tries again, until
  ///          options.wait_for_address, 100 ms by default
  /// Errors   EADDRINUSE, EACCES, … as bind(2), listen(2), and the options
  /// Cost     three system calls, one for each option that is set (reuse_address is by default), and one for
  ///          an IPv6 address
  static result<listening_socket_handle> listen(endpoint const& at, listen_options options = {}) noexcept;
  /// Takes over a descriptor made elsewhere, as io_handle::adopt.
  ///
  /// Errors  EBADF; ENOTSOCK; EPROTOTYPE (std::errc::wrong_protocol_type) for a socket that exchanges
  ///         messages, EINVAL for one that does not listen. On failure the descriptor is still the caller's
  /// Cost    up to seven system calls
  static result<listening_socket_handle> adopt(int fd) noexcept;

  /// accept, try_accept, …, co_accept, …: see async_accept.
  UNIO_VERB_FORMS(accept, async_accept)

  /// Where it listens, with the port that the kernel chose if 0 was given. Errors: as getsockname(2).
  [[nodiscard]] result<endpoint> local_endpoint() const noexcept;

  UNIO_SOCKET_OPTIONS

 private:
  friend struct testing::handle_maker;
  explicit listening_socket_handle(int fd) noexcept : handle(fd, handle_kind::listening_socket) {}
};

UNIO_SENDER_FORMS(async_connect, (socket_handle&, h), (endpoint const&, to))

} // namespace unio

#include <unio/detail/socket_handle.hpp>
