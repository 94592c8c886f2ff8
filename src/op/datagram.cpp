// What the operations of datagram sockets share.
//
// A stream's operation needs nothing but the caller's buffers; a message has a header. struct msghdr, the
// list of buffers, the name and the control messages lie in the operation (message_memory), are written when
// it is given to the kernel, and are pinned with it.
//
// * What a kernel may refuse is left out when it refuses: perform() sends the segments of a refused send
//   singly, or without the mark of congestion, and notes that for the number of the descriptor
//   (sys/descriptors.hpp), not in the handle, which may have moved. A ring's entry is the first attempt; its
//   error leads to perform().
// * Batches are not a ring's: one recvmmsg(2) or sendmmsg(2) for 32 datagrams costs less than 32 entries, so
//   they wait for readiness on every driver.
// * A queue of errors ends every wait at once, because the kernel reports POLLERR until it is empty. So an
//   operation on such a socket is not given to the ring's own wait, and while an error lies there it is
//   tried again after pauses (readiness::retry), as is a send to a Unix peer whose queue is full.
// * A socket whose own receiving side was shut down is readable for ever, and has nothing. Its receives end
//   with an empty datagram, as recvmsg(2) does where it may wait, and as the end of a sequenced connection.
// * Handles that were received close themselves (passed_handles), also when their message was truncated or
//   the operation is destroyed. Without them the kernel is given no room for control messages, and drops
//   them.

#include "op/datagram.hpp"

#include "handle/sockets.hpp"
#include "op/control_messages.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>

namespace unio::inline v0_1::op {

bool queued_errors_end_waits(int fd) noexcept { return queues_errors(fd) && is_there(fd, POLLERR); }

bool has_report(int fd) noexcept { return !queues_errors(fd) && is_there(fd, POLLERR); }

namespace {

endpoint ipv4_of(in_addr const& a) noexcept {
  std::uint8_t bytes[4];
  std::memcpy(bytes, &a, sizeof(bytes));
  return endpoint::ipv4(bytes, 0);
}

endpoint ipv6_of(in6_addr const& a, std::uint32_t interface) noexcept {
  std::uint8_t bytes[16];
  std::memcpy(bytes, &a, sizeof(bytes));
  // Only a link-local address means nothing without its interface.
  return endpoint::ipv6(bytes, 0, IN6_IS_ADDR_LINKLOCAL(&a) ? interface : 0);
}

constexpr std::uint8_t ecn_bits = 3; // RFC 3168 §5

void decode_one(control_message const& c, datagram_info& info) noexcept {
  if (c.level == IPPROTO_IP) {
    in_pktinfo p;
    std::uint8_t tos = 0;
    if (c.type == IP_PKTINFO && c.get(p)) {
      info.to = ipv4_of(p.ipi_addr);
      info.interface = static_cast<std::uint32_t>(p.ipi_ifindex);
    } else if (c.type == IP_TOS && c.get(tos)) {
      info.ecn = static_cast<ecn>(tos & ecn_bits);
    }
  } else if (c.level == IPPROTO_IPV6) {
    in6_pktinfo p;
    int traffic_class = 0;
    if (c.type == IPV6_PKTINFO && c.get(p)) {
      info.to = ipv6_of(p.ipi6_addr, p.ipi6_ifindex);
      info.interface = p.ipi6_ifindex;
    } else if (c.type == IPV6_TCLASS && c.get(traffic_class)) {
      info.ecn = static_cast<ecn>(traffic_class & ecn_bits);
    }
  } else if (c.is(SOL_UDP, UDP_GRO)) {
    int segment = 0;
    if (c.get(segment) && segment > 0 && segment <= 0xffff)
      info.segment = static_cast<std::uint16_t>(segment);
  } else if (c.is(SOL_SOCKET, SCM_TIMESTAMPNS)) {
    constexpr std::int64_t most_seconds = 9'000'000'000; // in nanoseconds it still fits 64 bits
    timespec t;
    if (!c.get(t) || t.tv_sec < 0 || t.tv_sec > most_seconds || t.tv_nsec < 0 || t.tv_nsec > 999'999'999)
      return;
    auto const since = std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
    info.at = std::chrono::system_clock::time_point(
        std::chrono::duration_cast<std::chrono::system_clock::duration>(since));
  }
}

} // namespace

void decode_control(msghdr const& m, datagram_info& info) noexcept {
  control_messages all({static_cast<std::byte const*>(m.msg_control), m.msg_controllen});
  for (control_message c; all.next(c);) decode_one(c, info);
}

// ---- sending ---------------------------------------------------------------------------------------------

namespace {

// Whose options apply to what goes to `e`: an IPv6 socket reaches an IPv4 host through its mapped address,
// but the packets are IPv4's, and so are the control messages (ip(7)).
address_family family_on_the_wire(endpoint const& e) noexcept {
  if (e.family() != address_family::ipv6) return e.family();
  sockaddr_in6 a;
  std::memcpy(&a, e.data(), sizeof(a));
  return IN6_IS_ADDR_V4MAPPED(&a.sin6_addr) ? address_family::ipv4 : address_family::ipv6;
}

in_addr ipv4_address(endpoint const& e) noexcept {
  in_addr a{};
  if (e.family() == address_family::ipv4) {
    sockaddr_in whole;
    std::memcpy(&whole, e.data(), sizeof(whole));
    a = whole.sin_addr;
  } else if (e.family() == address_family::ipv6) {
    sockaddr_in6 whole;
    std::memcpy(&whole, e.data(), sizeof(whole));
    std::memcpy(&a, reinterpret_cast<std::byte const*>(&whole.sin6_addr) + 12, sizeof(a));
  }
  return a;
}

void put_source(control_writer& w, send_description const& how, address_family family) noexcept {
  if (family == address_family::ipv4) {
    in_pktinfo p{};
    p.ipi_ifindex = static_cast<int>(how.interface);
    p.ipi_spec_dst = ipv4_address(how.from);
    return w.put(IPPROTO_IP, IP_PKTINFO, p);
  }
  in6_pktinfo p{};
  p.ipi6_ifindex = how.interface;
  if (how.from.family() == address_family::ipv6) {
    sockaddr_in6 a;
    std::memcpy(&a, how.from.data(), sizeof(a));
    p.ipi6_addr = a.sin6_addr;
  }
  w.put(IPPROTO_IPV6, IPV6_PKTINFO, p);
}

// The mark and the rest of the traffic class are one value, which the control message sets for this datagram.
int rest_of_class(int fd, int level, int name) noexcept {
  if (!sys::last_waited(fd, sys::traffic_class_bit)) return 0;
  result<int> const whole = detail::sockets::int_option(fd, level, name);
  return whole && *whole > 0 ? *whole & ~int{ecn_bits} : 0;
}

} // namespace

std::size_t longest_send(send_description const& how, std::size_t bytes) noexcept {
  // The kernel cuts at most 64 segments (UDP_MAX_SEGMENTS before Linux 6.9), of together less than 64 KiB
  // with all headers.
  constexpr std::size_t most_bytes = 65'000;
  if (how.segment == 0 || bytes <= how.segment) return bytes;
  std::size_t const fitting = std::max<std::size_t>(1, most_bytes / how.segment);
  return how.segment * std::min(fitting, datagram_handle::max_segments);
}

void put_control(msghdr& m, int fd, send_description const& how, address_family family, bool with_segment,
                 bool marked, std::span<std::byte> memory) noexcept {
  address_family const wire = is_set(how.to) ? family_on_the_wire(how.to) : family;
  control_writer w(memory);
  if (marked) {
    int const level = wire == address_family::ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
    int const name = wire == address_family::ipv4 ? IP_TOS : IPV6_TCLASS;
    w.put(level, name, static_cast<int>(how.ecn) | rest_of_class(fd, level, name));
  }
  if (has_source(how)) put_source(w, how, wire);
  if (with_segment) w.put(SOL_UDP, UDP_SEGMENT, how.segment);
  m.msg_control = memory.data();
  m.msg_controllen = w.size();
}

namespace {

// Calls `piece(data, size)` for each piece of the bytes [`from`, `from` + `n`) of a list, until that says no.
template <class F>
void for_each_piece(const_buffers const& list, std::size_t from, std::size_t n, F piece) noexcept {
  for (const_buffer const b : list) {
    if (n == 0) return;
    if (from >= b.size()) {
      from -= b.size();
      continue;
    }
    std::size_t const here = std::min(b.size() - from, n);
    if (!piece(b.data() + from, here)) return;
    from = 0;
    n -= here;
  }
}

// The same bytes as vectors. 0: they are in more pieces than `out` has room for.
std::size_t slice(const_buffers const& list, std::size_t from, std::size_t n, std::span<iovec> out) noexcept {
  std::size_t used = 0;
  bool fits = true;
  for_each_piece(list, from, n, [&](std::byte const* data, std::size_t size) noexcept {
    fits = used != out.size();
    if (fits) out[used++] = {const_cast<std::byte*>(data), size};
    return fits;
  });
  return fits ? used : 0;
}

// How many of the bytes [`from`, `from` + `n`) one call takes, which takes a bounded number of pieces: whole
// segments, one at least.
std::size_t segments_of_one_call(const_buffers const& list, std::size_t from, std::size_t n,
                                 std::size_t segment) noexcept {
  std::size_t pieces = 0, fitting = 0;
  for_each_piece(list, from, n, [&](std::byte const*, std::size_t size) noexcept {
    if (pieces++ == max_vectors) return false;
    fitting += size;
    return true;
  });
  if (fitting == n) return n;
  return std::max(fitting - fitting % segment, std::min(n, segment));
}

class sending {
  static constexpr int max_calls = 64; // others want their turn too

 public:
  sending(int fd, address_family family, send_description const& how, const_buffers const& bytes) noexcept
      : fd_(fd), family_(family), how_(how), bytes_(bytes) {}

  int send(std::size_t done) noexcept {
    std::size_t const total = bytes_.bytes();
    bool const segmented = is_segmented(how_, family_, total);
    std::size_t const first = done;
    int calls = 0;
    do {
      bool const singly = segmented && sys::last_waited(fd_, sys::sends_singly_bit);
      std::size_t const most = singly ? how_.segment : segmented ? longest_send(how_, total) : total;
      std::size_t n = std::min(most, total - done);
      if (segmented) n = segments_of_one_call(bytes_, done, n, how_.segment);
      int r = send_marked(done, n, segmented && n > how_.segment);
      if (segmented && n > how_.segment && (r == -EIO || r == -EINVAL || r == -EMSGSIZE)) {
        // The kernel knows only now that it cannot cut: the interface computes no checksums (EIO), a segment
        // does not fit the path (EINVAL, later EMSGSIZE). One datagram tells whether it was that.
        bool const lasting = r != -EMSGSIZE;
        bool const marked = is_marked();
        r = send_marked(done, how_.segment, false);
        // It may have been the mark.
        if (r >= 0 && lasting && marked == is_marked()) sys::note_waited(fd_, sys::sends_singly_bit, true);
      }
      if (r < 0) return done > first ? static_cast<int>(done - first) : r;
      done += static_cast<std::size_t>(r);
    } while (done < total && ++calls < max_calls && !has_report(fd_));
    return static_cast<int>(done - first);
  }

 private:
  [[nodiscard]] bool is_marked() const noexcept {
    return how_.ecn != ecn::not_capable && !sys::last_waited(fd_, sys::refuses_ecn_bit);
  }

  // Some systems refuse the mark: the datagram goes without.
  int send_marked(std::size_t from, std::size_t n, bool with_segment) noexcept {
    bool const marked = is_marked();
    int r = send_one(from, n, with_segment, marked);
    if (r == -EINVAL && marked && !with_segment) {
      r = send_one(from, n, false, false);
      if (r >= 0) sys::note_waited(fd_, sys::refuses_ecn_bit, true);
    }
    return r;
  }

  int send_one(std::size_t from, std::size_t n, bool with_segment, bool with_ecn) noexcept {
    alignas(8) std::byte control[128];
    std::array<iovec, max_vectors> vectors;
    msghdr m{};
    bool const whole = from == 0 && n == bytes_.bytes();
    if (!whole || !put_buffers(m, bytes_, vectors)) {
      m.msg_iov = vectors.data();
      m.msg_iovlen = slice(bytes_, from, n, vectors);
      if (m.msg_iovlen == 0 && n != 0) return -EINVAL;
    }
    put_description(m, fd_, how_, family_, with_segment, with_ecn, control);
    return apart_from_queued_errors(fd_, 1,
                                    [&] { return sys::sendmsg(fd_, &m, MSG_NOSIGNAL | MSG_DONTWAIT); });
  }

  int fd_;
  address_family family_;
  send_description const& how_;
  const_buffers const& bytes_;
};

} // namespace

int send_datagram(int fd, address_family family, send_description const& how, const_buffers const& bytes,
                  std::size_t done) noexcept {
  return sending(fd, family, how, bytes).send(done);
}

} // namespace unio::op
