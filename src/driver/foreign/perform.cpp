// Each case is what io_uring/opdef.c does with an entry of that opcode. Where no flag of a call says that it
// is not to wait, the descriptor is put into non-blocking mode.

#include "driver/foreign/perform.hpp"

#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/kernel_abi.hpp"
#include "sys/unwaiting.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <bit>
#include <cerrno>
#include <cstddef>

namespace unio::inline v0_1::driver {

static_assert(sizeof(foreign_entry) == sizeof(io_uring_sqe) &&
              offsetof(foreign_entry, priority) == offsetof(io_uring_sqe, ioprio) &&
              offsetof(foreign_entry, fd) == offsetof(io_uring_sqe, fd) &&
              offsetof(foreign_entry, offset) == offsetof(io_uring_sqe, off) &&
              offsetof(foreign_entry, address) == offsetof(io_uring_sqe, addr) &&
              offsetof(foreign_entry, length) == offsetof(io_uring_sqe, len) &&
              offsetof(foreign_entry, operation_flags) == offsetof(io_uring_sqe, rw_flags) &&
              offsetof(foreign_entry, user_data) == offsetof(io_uring_sqe, user_data) &&
              offsetof(foreign_entry, more) == offsetof(io_uring_sqe, buf_index));
static_assert(IORING_OP_READV == 1 && IORING_OP_WRITEV == 2); // in foreign_reactor.hpp

namespace {

// What is known of a descriptor.
constexpr std::uint8_t is_known = 1, is_tcp = 2;

template <class T> T* pointer(std::uint64_t address) noexcept {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}
int flags_of(foreign_entry const& e) noexcept { return static_cast<int>(e.operation_flags); }

// The memory of one that reads or writes as a file's does.
class pieces {
 public:
  explicit pieces(foreign_entry const& e) noexcept
      : one_{.iov_base = pointer<void>(e.address), .iov_len = e.length} {
    if (e.opcode != IORING_OP_READV && e.opcode != IORING_OP_WRITEV) return;
    many_ = pointer<iovec const>(e.address);
    count_ = static_cast<int>(e.length);
  }
  [[nodiscard]] iovec const* data() const noexcept { return many_ != nullptr ? many_ : &one_; }
  [[nodiscard]] int count() const noexcept { return count_; }

 private:
  iovec one_;
  iovec const* many_ = nullptr;
  int count_ = 1;
};

// The kernel has the halves of this word the other way round where the low byte is not the first.
unsigned polled(foreign_entry const& e) noexcept {
  return std::endian::native == std::endian::big ? std::rotl(e.operation_flags, 16) : e.operation_flags;
}

std::int64_t make_non_blocking(int fd) noexcept {
  std::int64_t const flags = sys::fcntl(fd, F_GETFL, 0);
  if (flags < 0 || (flags & O_NONBLOCK) != 0) return flags;
  return sys::fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

std::int64_t poll_now(int fd, unsigned events) noexcept {
  pollfd p{.fd = fd, .events = static_cast<short>(events), .revents = 0};
  timespec const none{};
  std::int64_t const r = sys::poll(&p, 1, &none);
  if (r <= 0) return r == 0 ? -EAGAIN : r;
  return (p.revents & POLLNVAL) != 0 ? -EBADF : static_cast<std::uint16_t>(p.revents);
}

std::int64_t connect_now(foreign_entry const& e) noexcept {
  return sys::connect(e.fd, pointer<sockaddr const>(e.address), static_cast<unsigned>(e.offset));
}

std::int64_t connect(foreign_transfer& t, foreign_entry const& e) noexcept {
  bool& is_begun = foreign_access::is_connecting(t);
  if (std::int64_t const r = make_non_blocking(e.fd); r < 0) return r;
  if (!is_begun) {
    std::int64_t const r = connect_now(e);
    // Of a Unix socket, nothing tells that there is room for it again; so a reactor of Asio's says it.
    if (r == -EAGAIN) return -ENOBUFS;
    if (r != -EINPROGRESS) return r;
    is_begun = true;
  }
  if (std::int64_t const r = poll_now(e.fd, POLLOUT); r < 0) return r;
  std::int64_t const r = connect_now(e); // how it has ended
  if (r == -EALREADY || r == -EINPROGRESS) return -EAGAIN;
  is_begun = false;
  return r == -EISCONN ? 0 : r;
}

std::int64_t move_bytes(foreign_transfer& t, foreign_entry const& e) noexcept {
  std::int64_t r = perform_on_file(t, RWF_NOWAIT);
  if (r != -EOPNOTSUPP) return r;
  if (r = make_non_blocking(e.fd); r < 0) return r;
  return perform_on_file(t, 0);
}

std::int64_t perform_once(foreign_transfer& t, foreign_entry const& e) noexcept {
  constexpr int unwaiting = MSG_DONTWAIT | MSG_NOSIGNAL;
  if (is_of_file(t)) return move_bytes(t, e);
  switch (e.opcode) {
    case IORING_OP_NOP:
      return 0;
    case IORING_OP_POLL_ADD:
      return e.length == 0 ? poll_now(e.fd, polled(e)) : -EOPNOTSUPP;
    case IORING_OP_SENDMSG:
      return sys::sendmsg(e.fd, pointer<msghdr const>(e.address), flags_of(e) | unwaiting);
    case IORING_OP_RECVMSG:
      return sys::recvmsg(e.fd, pointer<msghdr>(e.address), flags_of(e) | unwaiting);
    case IORING_OP_SEND:
      return sys::send(e.fd, pointer<void const>(e.address), e.length, flags_of(e) | unwaiting);
    case IORING_OP_RECV:
      return sys::recv(e.fd, pointer<void>(e.address), e.length, flags_of(e) | unwaiting);
    case IORING_OP_ACCEPT:
      if (std::int64_t const r = make_non_blocking(e.fd); r < 0) return r;
      return sys::accept4(e.fd, pointer<sockaddr>(e.address), pointer<unsigned>(e.offset), flags_of(e));
    case IORING_OP_CONNECT:
      return connect(t, e);
    default:
      return -EOPNOTSUPP;
  }
}

} // namespace

bool is_of_file(foreign_transfer& t) noexcept {
  switch (foreign_access::entry(t).opcode) {
    case IORING_OP_READV:
    case IORING_OP_WRITEV:
    case IORING_OP_READ:
    case IORING_OP_WRITE:
    case IORING_OP_READ_FIXED:
    case IORING_OP_WRITE_FIXED:
      return true;
    default:
      return false;
  }
}

bool connects(foreign_transfer& t) noexcept { return foreign_access::entry(t).opcode == IORING_OP_CONNECT; }

// The kernel goes on connecting, except where a Unix socket waits for room in its peer's queue.
void was_given_back(foreign_transfer& t) noexcept {
  foreign_access::is_connecting(t) =
      connects(t) && pointer<sockaddr const>(foreign_access::entry(t).address)->sa_family != AF_UNIX;
}

bool writes(foreign_transfer& t) noexcept {
  std::uint8_t const op = foreign_access::entry(t).opcode;
  return op == IORING_OP_WRITEV || op == IORING_OP_WRITE || op == IORING_OP_WRITE_FIXED;
}

std::int64_t perform_on_file(foreign_transfer& t, int flags) noexcept {
  foreign_entry const& e = foreign_access::entry(t);
  pieces const p(e);
  // What can be waited for has no positions; a ring looks at none there.
  foreign_watch const* const w = foreign_access::watch(t);
  std::int64_t const at = w != nullptr && w->can_wait() ? -1 : static_cast<std::int64_t>(e.offset);
  auto const call = writes(t) ? sys::pwritev2 : sys::preadv2;
  return sys::uninterrupted([&] { return call(e.fd, p.data(), p.count(), at, flags_of(e) | flags); });
}

std::int64_t read_cached(foreign_transfer& t) noexcept {
  foreign_entry const& e = foreign_access::entry(t);
  if (writes(t) || flags_of(e) != 0) return -EAGAIN;
  pieces const p(e);
  return sys::read_unwaiting(e.fd, p.data(), p.count(), static_cast<std::int64_t>(e.offset));
}

std::int64_t perform_unwaiting(foreign_transfer& t) noexcept {
  foreign_entry const& e = foreign_access::entry(t);
  if (e.flags != 0) return -EOPNOTSUPP;
  return sys::uninterrupted([&] { return perform_once(t, e); });
}

unsigned readiness_of(foreign_transfer& t) noexcept {
  constexpr unsigned all = foreign::readable | foreign::exceptional | foreign::writable;
  foreign_entry const& e = foreign_access::entry(t);
  switch (e.opcode) {
    case IORING_OP_POLL_ADD:
      return (polled(e) & all) != 0 ? polled(e) & all : foreign::readable;
    case IORING_OP_RECVMSG:
    case IORING_OP_RECV:
      return (flags_of(e) & MSG_OOB) != 0 ? foreign::exceptional : foreign::readable;
    case IORING_OP_SENDMSG:
    case IORING_OP_SEND:
    case IORING_OP_CONNECT:
      return foreign::writable;
    default:
      return writes(t) ? foreign::writable : foreign::readable;
  }
}

bool has_emptied(foreign_transfer& t, std::int64_t result) noexcept {
  foreign_entry const& e = foreign_access::entry(t);
  if ((foreign_access::kind(*foreign_access::watch(t)) & is_tcp) == 0 || flags_of(e) != 0 || result <= 0)
    return false;
  if (e.opcode == IORING_OP_RECV) return static_cast<std::uint64_t>(result) < e.length;
  if (e.opcode != IORING_OP_RECVMSG) return false;
  msghdr const& m = *pointer<msghdr const>(e.address);
  auto room = static_cast<std::uint64_t>(result);
  for (std::size_t i = 0; i != m.msg_iovlen; ++i) {
    if (room < m.msg_iov[i].iov_len) return true;
    room -= m.msg_iov[i].iov_len;
  }
  return false;
}

void find_kind(foreign_watch& w) noexcept {
  std::uint8_t& kind = foreign_access::kind(w);
  if ((kind & is_known) != 0) return;
  int protocol = 0;
  unsigned size = sizeof protocol;
  std::int64_t const r = sys::getsockopt(foreign_access::fd(w), SOL_SOCKET, SO_PROTOCOL, &protocol, &size);
  kind = static_cast<std::uint8_t>(is_known | (r == 0 && protocol == IPPROTO_TCP ? is_tcp : 0));
}

void has_had_more(foreign_watch& w) noexcept { foreign_access::kind(w) = is_known; }

bool is_tcp_stream(foreign_watch& w) noexcept {
  find_kind(w);
  return (foreign_access::kind(w) & is_tcp) != 0;
}

} // namespace unio::driver
