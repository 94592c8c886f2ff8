// The simulated network of datagrams: what is sent may be lost, arrive twice, overtake others, or be marked.

#include "op/control_messages.hpp"
#include "testing/addresses.hpp"
#include "testing/world.hpp"

#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

namespace unio::inline v0_1::testing {
namespace {

constexpr std::size_t longest_payload = 65'507; // of an IPv4 packet; ip(7)

std::vector<std::byte> gathered(msghdr const& m) {
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < m.msg_iovlen; ++i) {
    auto const* const from = static_cast<std::byte const*>(m.msg_iov[i].iov_base);
    all.insert(all.end(), from, from + m.msg_iov[i].iov_len);
  }
  return all;
}

// What a send asks for.
struct wishes {
  std::uint8_t mark = 0;
  std::size_t segment = 0;
};

wishes wishes_of(msghdr const& m) noexcept {
  wishes w;
  op::control_messages all({static_cast<std::byte const*>(m.msg_control), m.msg_controllen});
  for (op::control_message c; all.next(c);) {
    int mark = 0;
    std::uint16_t segment = 0;
    if ((c.is(IPPROTO_IP, IP_TOS) || c.is(IPPROTO_IPV6, IPV6_TCLASS)) && c.get(mark))
      w.mark = static_cast<std::uint8_t>(mark & 3);
    if (c.is(SOL_UDP, UDP_SEGMENT) && c.get(segment)) w.segment = segment;
  }
  return w;
}

// Tells what options ask for.
void put_info(msghdr& m, datagram const& g, description const& d) noexcept {
  auto const asks = [&d](int level, int name) { return option_of(d, level, name) != 0; };
  bool const wants_destination = asks(IPPROTO_IP, IP_PKTINFO) || asks(IPPROTO_IPV6, IPV6_RECVPKTINFO);
  bool const wants_mark = asks(IPPROTO_IP, IP_RECVTOS) || asks(IPPROTO_IPV6, IPV6_RECVTCLASS);
  op::control_writer w({static_cast<std::byte*>(m.msg_control), m.msg_controllen});
  timespec const at{.tv_sec = g.at / 1'000'000'000, .tv_nsec = g.at % 1'000'000'000};
  if (g.to.family() == address_family::ipv4) {
    sockaddr_in to;
    std::memcpy(&to, g.to.data(), sizeof(to));
    in_pktinfo p{};
    p.ipi_ifindex = 1;
    p.ipi_addr = to.sin_addr;
    if (wants_destination) w.put(IPPROTO_IP, IP_PKTINFO, p);
    if (wants_mark) w.put(IPPROTO_IP, IP_TOS, g.mark);
  } else {
    sockaddr_in6 to;
    std::memcpy(&to, g.to.data(), sizeof(to));
    in6_pktinfo p{};
    p.ipi6_ifindex = 1;
    p.ipi6_addr = to.sin6_addr;
    if (wants_destination) w.put(IPPROTO_IPV6, IPV6_PKTINFO, p);
    if (wants_mark) w.put(IPPROTO_IPV6, IPV6_TCLASS, int{g.mark});
  }
  if (asks(SOL_SOCKET, SO_TIMESTAMPNS)) w.put(SOL_SOCKET, SCM_TIMESTAMPNS, at);
  m.msg_controllen = w.size();
}

// Copies a datagram to where it is received. Returns how many bytes there was room for.
std::size_t hand_over(datagram const& g, description const& d, msghdr& m) noexcept {
  std::size_t done = 0;
  for (std::size_t i = 0; i < m.msg_iovlen && done < g.bytes.size(); ++i) {
    std::size_t const n = std::min(m.msg_iov[i].iov_len, g.bytes.size() - done);
    if (n != 0) std::memcpy(m.msg_iov[i].iov_base, g.bytes.data() + done, n);
    done += n;
  }
  m.msg_flags = done < g.bytes.size() ? MSG_TRUNC : 0;
  if (m.msg_name != nullptr) tell(g.from, d.family, static_cast<sockaddr*>(m.msg_name), &m.msg_namelen);
  put_info(m, g, d);
  return done;
}

std::size_t held(description const& d) noexcept {
  std::size_t n = 0;
  for (datagram const& g : d.arrived) n += g.bytes.size() + 1; // an empty one takes room too
  return n;
}

} // namespace

int world::open_datagrams(endpoint const& at) {
  auto d = std::make_shared<description>();
  d->kind = thing::datagrams;
  d->name = at;
  d->family = at.family() == address_family::ipv4 ? AF_INET : AF_INET6;
  d->chose_address = d->chose_port = true;
  // All that is told of a datagram, this one is told.
  bool const is_ipv4 = d->family == AF_INET;
  int const level = is_ipv4 ? IPPROTO_IP : IPPROTO_IPV6;
  std::vector<std::byte> yes(sizeof(int));
  yes[0] = std::byte{1};
  d->options[{level, is_ipv4 ? IP_PKTINFO : IPV6_RECVPKTINFO}] = yes;
  d->options[{level, is_ipv4 ? IP_RECVTOS : IPV6_RECVTCLASS}] = yes;
  d->options[{SOL_SOCKET, SO_TIMESTAMPNS}] = yes;
  return install(std::move(d));
}

bool world::is_datagrams(int fd) const noexcept {
  description const* const d = find(fd);
  return d != nullptr && d->kind == thing::datagrams;
}

bool world::is_taken(endpoint const& at) const noexcept {
  return std::any_of(table_.begin(), table_.end(), [&](auto const& d) {
    return d != nullptr && d->kind == thing::datagrams && d->name == at;
  });
}

void world::deliver(datagram&& g) noexcept {
  // To whom it is connected with the sender, else to who has exactly this name, else to a wildcard.
  description* found = nullptr;
  int found_fits = -1;
  for (auto const& d : table_) {
    if (d == nullptr || d->kind != thing::datagrams || d->name.port() != g.to.port()) continue;
    bool const both = d->family == AF_INET6 && !takes_ipv6_only(*d);
    bool const is_exact = d->name == g.to;
    bool const wildcard = is_any(d->name) && (d->name.family() == g.to.family() || both);
    if (!is_exact && !wildcard) continue;
    bool const unconnected = d->peer.family() == address_family::unspecified;
    int const fits = !unconnected && d->peer == g.from ? 3 : !unconnected ? 0 : is_exact ? 2 : 1;
    if (fits > found_fits) found = d.get(), found_fits = fits;
  }
  if (found == nullptr) report_lost(g);
  if (found == nullptr || one_in(options.lost_datagrams, 8)) {
    if (on_story != nullptr) on_story(("a datagram to " + to_string(g.to) + " is lost").c_str());
    return note("lost", 0, 0);
  }
  description& d = *found;
  if (found_fits == 0 || held(d) + g.bytes.size() > options.stream_capacity) return note("dropped", 0, 0);
  constexpr std::uint8_t congestion = 3;
  if (g.mark != 0 && one_in(options.congestion, 8)) g.mark = congestion;
  g.at = now_;
  std::size_t at = d.arrived.size();
  if (at != 0 && one_in(options.reordered_datagrams, 4)) at = random.below(at);
  bool const twice = one_in(options.double_datagrams, 8);
  if (on_story != nullptr && (twice || at != d.arrived.size()))
    on_story(("a datagram to " + to_string(g.to) + (twice ? " arrives twice" : " overtakes others")).c_str());
  ++d.news;
  d.arrived.insert(d.arrived.begin() + static_cast<std::ptrdiff_t>(at), twice ? 2 : 1, g);
  note("arrived", static_cast<std::int64_t>(g.bytes.size()), static_cast<std::int64_t>(at));
}

// By ICMP, to a socket that is connected there: no other one asks for it (udp(7)).
void world::report_lost(datagram const& g) noexcept {
  for (std::shared_ptr<description> const& d : table_) {
    if (d == nullptr || d->kind != thing::datagrams || d->peer != g.to || d->name != g.from) continue;
    auto const tell = [this, weak = std::weak_ptr(d)] {
      std::shared_ptr<description> const sender = weak.lock();
      if (sender == nullptr) return;
      sender->failure = ECONNREFUSED;
      ++sender->changes;
      note("refused", 0, 0);
    };
    std::int64_t const latency = d->is_networked ? latency_to(g.to) : 0;
    return latency != 0 ? later(moment(latency), tell) : tell();
  }
}

std::int64_t world::send_message(description& d, msghdr const& m) noexcept {
  datagram g;
  g.to = d.peer;
  if (m.msg_name != nullptr && m.msg_namelen != 0) {
    auto const* const to = static_cast<sockaddr const*>(m.msg_name);
    if (m.msg_namelen < sizeof(to->sa_family)) return -EINVAL;
    bool const is_ipv4 = d.family == AF_INET || to->sa_family == AF_INET;
    bool const is_for_peer = d.family == AF_INET6 && to->sa_family == AF_UNSPEC; // udpv6_sendmsg()
    if (is_ipv4 && takes_ipv6_only(d)) return -ENETUNREACH;
    if (std::int64_t const r = is_for_peer ? 0 : take(is_ipv4 ? AF_INET : AF_INET6, to, m.msg_namelen, g.to);
        r < 0)
      return r;
    g.to = destination(g.to);
  }
  if (g.to.family() == address_family::unspecified) return -EDESTADDRREQ;
  if (g.to.family() == address_family::ipv4 && takes_ipv6_only(d)) return -ENETUNREACH;
  if (is_inet(g.to) && g.to.port() == 0) return -EINVAL;
  if (d.failure != 0) return -std::exchange(d.failure, 0);
  if (!name_itself(d, g.to)) return -EAGAIN;
  g.from = is_any(d.name) ? with_port(g.to, d.name.port()) : d.name;
  route const* const r = find_route(g.to);
  if (r != nullptr && r->error != std::errc()) return -static_cast<int>(r->error);
  wishes const w = wishes_of(m);
  g.mark = w.mark;
  std::vector<std::byte> const all = gathered(m);
  if (all.size() > longest_payload) return -EMSGSIZE;
  std::size_t const segment = w.segment != 0 ? w.segment : std::max<std::size_t>(1, all.size());
  for (std::size_t i = 0; i == 0 || i < all.size(); i += segment) {
    datagram one = g;
    std::size_t const n = std::min(segment, all.size() - i);
    one.bytes.assign(all.begin() + static_cast<std::ptrdiff_t>(i),
                     all.begin() + static_cast<std::ptrdiff_t>(i + n));
    if (r != nullptr && r->is_lost) {
      note("lost", 0, 0);
    } else if (std::int64_t const latency = d.is_networked || r != nullptr ? latency_to(g.to) : 0;
               latency != 0) {
      later(moment(latency), [this, one = std::move(one)]() mutable { deliver(std::move(one)); });
    } else {
      deliver(std::move(one));
    }
  }
  return static_cast<std::int64_t>(all.size());
}

std::int64_t world::send_messages(call c, int fd, mmsghdr* messages, unsigned n) noexcept {
  description* const d = find(fd);
  if (d == nullptr) return leave(c, fd, -EBADF);
  if (int const e = enter(c, fd); e != 0) return e;
  if (d->kind != thing::datagrams) return leave(c, fd, -EOPNOTSUPP);
  // As with the kernel's, some may be left for the next call.
  unsigned const some =
      n > 1 && one_in(options.short_transfers, 3) ? 1 + static_cast<unsigned>(random.below(n)) : n;
  unsigned done = 0;
  for (; done < some; ++done) {
    std::int64_t const r = send_message(*d, messages[done].msg_hdr);
    if (r < 0 && done == 0) return leave(c, fd, r);
    if (r < 0) break;
    messages[done].msg_len = static_cast<unsigned>(r);
  }
  return leave(c, fd, done);
}

std::int64_t world::receive_messages(call c, int fd, mmsghdr* messages, unsigned n) noexcept {
  description* const d = find(fd);
  if (d == nullptr) return leave(c, fd, -EBADF);
  if (int const e = enter(c, fd); e != 0) return e;
  if (d->kind != thing::datagrams) return leave(c, fd, -EOPNOTSUPP);
  if (d->failure != 0) return leave(c, fd, -std::exchange(d->failure, 0));
  if (d->arrived.empty()) {
    pass_moment();
    return leave(c, fd, -EAGAIN);
  }
  unsigned const there = static_cast<unsigned>(std::min<std::size_t>(n, d->arrived.size()));
  bool const fewer = there > 1 && one_in(options.short_transfers, 3);
  unsigned const some = fewer ? 1 + static_cast<unsigned>(random.below(there)) : there;
  for (unsigned i = 0; i < some; ++i) {
    messages[i].msg_len = static_cast<unsigned>(hand_over(d->arrived.front(), *d, messages[i].msg_hdr));
    d->arrived.erase(d->arrived.begin());
  }
  return leave(c, fd, some);
}

std::int64_t world::connect_datagrams(description& d, sockaddr const* to, unsigned size) noexcept {
  if (size < sizeof(to->sa_family)) return -EINVAL;
  if (to->sa_family ==
      AF_UNSPEC) { // what it was not bound to itself is forgotten as well: __udp_disconnect()
    d.peer = endpoint();
    if (!d.chose_address) d.name = with_port(any_of(d.family), d.chose_port ? d.name.port() : 0);
    return 0;
  }
  if (!name_itself(d, any_of(d.family))) return -EAGAIN;
  bool const is_ipv4 = d.family == AF_INET || to->sa_family == AF_INET;
  endpoint peer;
  if (is_ipv4 && d.family == AF_INET6 && takes_ipv6_only(d)) return -EAFNOSUPPORT;
  if (std::int64_t const r = take(is_ipv4 ? AF_INET : AF_INET6, to, size, peer); r < 0) return r;
  peer = destination(peer);
  if (peer.family() == address_family::ipv4 && takes_ipv6_only(d)) return -ENETUNREACH;
  if (is_any(d.name)) d.name = with_port(peer, d.name.port());
  d.peer = peer;
  return 0;
}

} // namespace unio::testing
