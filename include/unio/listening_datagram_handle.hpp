// unio/listening_datagram_handle.hpp: Unix sockets that accept connections which keep messages apart.
//
//   listening_datagram_handle   accepts connections (SOCK_SEQPACKET)
//   async_accept_sequenced      one of them
//
//   auto listening = unio::listening_datagram_handle::listen(at).value();
//   unio::datagram_handle peer = (co_await listening.co_accept()).value();
//   // at the other end: unio::datagram_handle::connected_to(at, {.sequenced = true})

#pragma once

#include <unio/datagram_handle.hpp>
#include <unio/handle.hpp>

namespace unio::inline v0_1 {

class listening_datagram_handle;
namespace detail {
template <> struct opened<datagram_handle> {
  static datagram_handle made(auto const& operation) noexcept {
    return datagram_handle(operation.outcome_value(), address_family::unix_path);
  }
};
} // namespace detail

/// Accepts one connection. What is sent over it arrives in order, each message whole or, where there is too
/// little room for it, truncated (datagram_info::truncated).
///
/// Returns       the connection's socket, close-on-exec and non-blocking
/// Errors        condition::timed_out, would_block, canceled; EMFILE, ENFILE, ENOBUFS, ENOMEM as accept(2)
/// Concurrency   any number on one socket; each connection goes to one of them
/// Cancellation  a connection that was accepted nevertheless is returned; nothing leaks
/// Cost          no allocation; one system call when a connection waits
/// Runs as       io_uring ACCEPT · accept4(2) on readiness
/// Source        unix(7), SOCK_SEQPACKET; accept(2)
UNIO_OPERATION(accept_sequenced, detail::opened<datagram_handle>, (listening_datagram_handle&, h))

/// Accepts connections of sequenced Unix sockets: datagram_handle::connected_to with
/// datagram_options::sequenced makes the other end.
///
/// Thread safety  distinct: safe; shared: operations may be in flight together; nothing else
/// Moved-from     closed; as handle
/// Size           16 bytes
/// Simulation     not simulated: listen() is refused there
class UNIO_API listening_datagram_handle : public handle {
 public:
  /// Of connections that wait to be accepted; at most net.core.somaxconn.
  static constexpr int default_backlog = 4096;

  listening_datagram_handle() = default;
  /// Binds and listens. A path must not exist. Errors: EAFNOSUPPORT for what is no Unix address; EADDRINUSE,
  /// EACCES, … as bind(2), listen(2). Cost: three system calls.
  static result<listening_datagram_handle> listen(endpoint const& at, int backlog = default_backlog) noexcept;
  /// Takes over a descriptor made elsewhere, as io_handle::adopt: one that was passed, or inherited, and then
  /// given up by release().
  ///
  /// Errors  EBADF; ENOTSOCK; EPROTOTYPE (std::errc::wrong_protocol_type) for a socket that keeps no
  ///         messages in order, EINVAL for one that does not listen. On failure the descriptor is still the
  ///         caller's
  /// Cost    up to seven system calls
  static result<listening_datagram_handle> adopt(int fd) noexcept;

  /// accept, try_accept, …, co_accept, …: see async_accept_sequenced.
  UNIO_VERB_FORMS(accept, async_accept_sequenced)

  /// Where it listens. Errors: as getsockname(2).
  [[nodiscard]] result<endpoint> local_endpoint() const noexcept;

 private:
  explicit listening_datagram_handle(int fd) noexcept : handle(fd, handle_kind::listening_socket) {}
};

} // namespace unio
