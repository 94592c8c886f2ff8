// src/op/datagram.hpp: what the operations of datagram sockets share: messages as the kernel takes them, what
// is said of them apart from their bytes, and errors that lie in a socket's queue.

#pragma once

#include "op/declared.hpp"
#include "op/face.hpp"
#include "sys/descriptors.hpp"

#include <unio/datagram_handle.hpp>

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <new>
#include <span>

namespace unio::inline v0_1::detail {

static_assert(sizeof(msghdr) == sizeof(message_memory<8>::header) && alignof(msghdr) <= 8);
static_assert(sizeof(iovec) * message_memory<8>::own_vectors == sizeof(message_memory<8>::vectors));
static_assert(alignof(iovec) <= 8 && sizeof(const_buffer) == sizeof(iovec));

} // namespace unio::detail

namespace unio::inline v0_1::op {

/// Puts all buffers of a list into a message. In contrast to a stream's, none may be left out, for each would
/// shorten the datagram: a list that was cut short inside its last buffer is copied to `own`.
/// False: `own` is too small for that.
template <class Buffer>
bool put_buffers(msghdr& m, buffer_list<Buffer> const& list, std::span<iovec> own) noexcept {
  std::size_t const n = list.size();
  bool const is_cut = n > 1 && list[n - 1].size() != list.array()[n - 1].size();
  if (n > 1 && !is_cut) {
    m.msg_iov = const_cast<iovec*>(reinterpret_cast<iovec const*>(list.array()));
    m.msg_iovlen = n;
    return true;
  }
  if (n > own.size()) return false;
  for (std::size_t i = 0; i < n; ++i)
    own[i] = {const_cast<std::byte*>(list[i].data()), std::min(list[i].size(), max_bytes)};
  m.msg_iov = own.data();
  m.msg_iovlen = n;
  return true;
}

/// An operation's memory for a message, as the kernel's types. What is in it is written before each use.
template <std::size_t ControlBytes> msghdr& header_of(detail::message_memory<ControlBytes>& m) noexcept {
  return *std::launder(reinterpret_cast<msghdr*>(m.header));
}
template <std::size_t ControlBytes> msghdr& new_header(detail::message_memory<ControlBytes>& m) noexcept {
  return *new (m.header) msghdr{};
}
template <std::size_t ControlBytes>
std::span<iovec> own_vectors(detail::message_memory<ControlBytes>& m) noexcept {
  constexpr std::size_t n = detail::message_memory<ControlBytes>::own_vectors;
  auto* const first = new (m.vectors) iovec[n];
  return {first, n};
}

/// The transport's report of an earlier datagram, which any call on the socket may return.
inline bool is_transport_error(int r) noexcept {
  switch (-r) {
    case ECONNREFUSED:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case EHOSTDOWN:
    case ENONET:
    case ENOPROTOOPT:
    case EOPNOTSUPP:
    case EPROTO:
    case EMSGSIZE:
    case EACCES:
    case EPERM:
      return true;
    default:
      return false;
  }
}

inline bool queues_errors(int fd) noexcept { return sys::last_waited(fd, sys::queues_errors_bit); }

/// Makes a call on a socket that queues transport errors, which reports each once more to the next caller:
/// then the call has not been made, and is repeated, at most so many times. A send may have such an error of
/// its own: that is met, and queued, twice.
template <class Call> int apart_from_queued_errors(int fd, int repetitions, Call call) noexcept {
  int r = uninterrupted(call);
  for (; repetitions > 0 && r < 0 && is_transport_error(r) && queues_errors(fd); --repetitions)
    r = uninterrupted(call);
  return r;
}

/// For a call that would have to wait. True: errors lie in the socket's queue. These are an event that ends
/// each wait for readiness at once, so it is tried again after a while.
bool queued_errors_end_waits(int fd) noexcept;

/// For a send after others of the same operation. True: the kernel has a report, which this call would take
/// and lose, because what was sent before counts. So it is left for the next operation.
bool has_report(int fd) noexcept;

/// Has the kernel write the sender's address where it belongs.
inline void put_sender(msghdr& m, datagram_info& info) noexcept {
  m.msg_name = info.from.data();
  m.msg_namelen = endpoint::capacity;
}
/// The name that the kernel wrote, cut to what it may be.
inline void set_name_size(endpoint& name, unsigned size) noexcept {
  name.resize(std::min(size, static_cast<unsigned>(endpoint::capacity)));
}
/// What the control messages of a message say.
void decode_control(msghdr const& m, datagram_info& info) noexcept;
/// Fills the rest of `info` from a message that was received.
inline void decode_info(msghdr const& m, datagram_info& info) noexcept {
  // Not all of it is cleared: an address without a size is none.
  set_name_size(info.from, m.msg_namelen);
  info.to.resize(0);
  info.interface = 0;
  info.segment = 0;
  info.at = {};
  info.ecn = ecn::not_capable;
  info.truncated = (m.msg_flags & MSG_TRUNC) != 0;
  if (m.msg_controllen != 0) decode_control(m, info);
}

/// Sends bytes [`done`, end) of a datagram, or of its segments, and returns how many it has sent: all; fewer,
/// if a later segment could not be sent; or a negative code. Whatever the kernel refuses is left out.
int send_datagram(int fd, address_family family, send_description const& how, const_buffers const& bytes,
                  std::size_t done) noexcept;
/// How many bytes one call may send at most: segments that the kernel cuts, or everything.
std::size_t longest_send(send_description const& how, std::size_t bytes) noexcept;
inline bool is_segmented(send_description const& how, address_family family, std::size_t bytes) noexcept {
  return how.segment != 0 && bytes > how.segment && family != address_family::unix_path;
}
/// Whether there is an address. To ask for its family costs a call.
inline bool is_set(endpoint const& e) noexcept { return e.size() != 0; }
inline bool has_source(send_description const& how) noexcept {
  return is_set(how.from) || how.interface != 0;
}

/// The control messages of a send on `fd`. `memory` holds at least 128 bytes.
void put_control(msghdr& m, int fd, send_description const& how, address_family family, bool with_segment,
                 bool marked, std::span<std::byte> memory) noexcept;
/// The destination of a send on `fd`, and its control messages, which most have none of.
inline void put_description(msghdr& m, int fd, send_description const& how, address_family family,
                            bool with_segment, bool with_ecn, std::span<std::byte> memory) noexcept {
  if (is_set(how.to)) {
    m.msg_name = const_cast<void*>(how.to.data());
    m.msg_namelen = how.to.size();
  }
  bool const marked = with_ecn && how.ecn != ecn::not_capable;
  if ((marked || has_source(how) || with_segment) && family != address_family::unix_path)
    put_control(m, fd, how, family, with_segment, marked, memory);
}

/// A Unix datagram socket is writable although the queue of a peer that it is not connected to is full.
inline bool waits_blindly(send_description const& how, address_family family) noexcept {
  return family == address_family::unix_path && is_set(how.to);
}

inline bool always_with_others(io_operation const&) noexcept { return true; }

} // namespace unio::op
