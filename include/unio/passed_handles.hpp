// unio/passed_handles.hpp: descriptors that travel over Unix sockets, and who is at the other end.
//
//   passed_handles                              descriptors that were received, until they are taken
//   async_send_handles, async_receive_handles   their operations, on stream, datagram and sequenced sockets
//   peer_credentials                            the process at the other end
//
// Thread safety  one send and one receive per socket at a time; credentials_of_peer() from any thread

#pragma once

#include <unio/datagram_handle.hpp>
#include <unio/handle.hpp>
#include <unio/socket_handle.hpp>

#include <span>
#include <utility>

namespace unio::inline v0_1 {

/// The descriptors that came with a message, close-on-exec and never 0, 1 or 2. What is not taken is closed
/// with this object, so that no sender can fill a receiver's table by what that did not ask for.
///
/// Thread safety  distinct: safe; shared: no
/// Moved-from     empty
/// Cost           taking one: as adopt() of its kind; otherwise none
/// Size           132 bytes
class UNIO_API passed_handles {
 public:
  /// The most that one message carries. The kernel's own limit is 253 (unix(7), SCM_MAX_FD).
  static constexpr std::size_t capacity = detail::descriptors::capacity;

  passed_handles() = default;
  passed_handles(passed_handles&& other) noexcept;
  passed_handles& operator=(passed_handles&& other) noexcept;
  ~passed_handles() { close_all(); }

  /// How many came, taken ones included.
  [[nodiscard]] std::size_t size() const noexcept { return static_cast<std::size_t>(count_); }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// True if some did not fit, or this process may have no more: the kernel has dropped those.
  [[nodiscard]] bool truncated() const noexcept { return truncated_; }

  /// Takes the `i`-th out, and returns it: a file, a pipe, a stream socket or one that listens. Errors: as
  /// io_handle::adopt; EBADF if it was taken. On failure it stays.
  result<io_handle> take(std::size_t i) noexcept;
  /// The same for one kind of socket. Errors: as the kind's adopt; EBADF.
  result<socket_handle> take_stream(std::size_t i) noexcept;
  result<listening_socket_handle> take_listener(std::size_t i) noexcept;
  /// The same for a datagram socket. Errors: as datagram_handle::adopt; EBADF.
  result<datagram_handle> take_datagrams(std::size_t i) noexcept;
  /// The descriptor of the `i`-th, which stays. -1 if it was taken, or there is none.
  [[nodiscard]] int native_handle(std::size_t i) const noexcept { return i < size() ? fds_[i] : -1; }
  /// Gives the `i`-th to the caller, as it is. -1 if there is none.
  [[nodiscard]] int release(std::size_t i) noexcept;

 private:
  friend struct detail::passed_access;
  // Takes it over. Preconditions: there is room, which the size of the control messages bounds.
  void add(int fd) noexcept;
  template <class Handle> result<Handle> take_as(std::size_t i) noexcept;
  void close_all() noexcept;
  int fds_[capacity];
  std::int16_t count_ = 0;
  bool truncated_ = false;
};

/// What was received: bytes, and the handles that came with them.
struct passed_message {
  mutable_buffers bytes;
  passed_handles handles;
  bool truncated = false; ///< the end of a datagram did not fit the buffers and is lost
};

/// Sends bytes, and with the first of them duplicates of handles.
///
/// Effects       the receiver gets descriptors of its own on the same open descriptions
/// Returns       the buffers taken. On a stream there may be fewer bytes than given: write() the rest
/// Errors        EINVAL for more than passed_handles::capacity handles, for a handle that is not open, and on
///               a stream for no byte at all, which would carry nothing; ETOOMANYREFS if too many are under
///               way; EPIPE; otherwise as sendmsg(2)
/// Preconditions the socket is a Unix socket
/// Buffers       the caller's; they must live, and the handles stay open, until it has finished
/// Cancellation  all handles are sent with the first byte, or none
/// Cost          one system call
/// Runs as       io_uring SENDMSG · sendmsg(2) on readiness
/// Source        unix(7), SCM_RIGHTS
UNIO_OPERATION_AND_VERB(send_handles,
                        detail::with<detail::message_memory<144>>::yields<detail::moved<const_buffers>>,
                        (handle&, socket), (const_buffers, bytes), (std::span<handle const* const>, handles))

/// Receives bytes, and the handles that came with them. On a stream it ends behind bytes that handles came
/// with.
///
/// Returns       the buffers filled (none at the end of a stream), and the handles; what was cut says so
/// Errors        as async_read on a stream, as async_receive_from otherwise
/// Preconditions the socket is a Unix socket
/// Buffers       the caller's; they must live until it has finished
/// Cancellation  what arrived first is returned; handles that are not delivered are closed
/// Cost          one system call when there is something
/// Runs as       io_uring RECVMSG · recvmsg(2) on readiness
/// Source        unix(7), SCM_RIGHTS; recvmsg(2), MSG_CMSG_CLOEXEC, MSG_TRUNC, MSG_CTRUNC
UNIO_OPERATION_AND_VERB(receive_handles, detail::with<detail::message_memory<256>>::yields<passed_message>,
                        (handle&, socket), (mutable_buffers, into))

/// The process at the other end of a Unix socket, as it was when it connected, listened or made the pair.
struct peer_credentials {
  int process = 0; ///< 0: in a namespace of processes that this one does not see (pid_namespaces(7))
  unsigned user = 0;
  unsigned group = 0;
};

/// The process at the other end. Errors: EBADF, ENOTSOCK; ENOTCONN if it has no peer; EOPNOTSUPP if it is no
/// Unix socket. Cost: two system calls.
UNIO_API result<peer_credentials> credentials_of_peer(handle const& socket) noexcept;

inline passed_handles::passed_handles(passed_handles&& other) noexcept { *this = std::move(other); }
inline passed_handles& passed_handles::operator=(passed_handles&& other) noexcept {
  if (this == &other) return *this;
  close_all();
  count_ = std::exchange(other.count_, std::int16_t{0});
  truncated_ = std::exchange(other.truncated_, false);
  for (std::size_t i = 0; i < size(); ++i) fds_[i] = other.fds_[i];
  return *this;
}

} // namespace unio
