// The simulated network: sockets that a program opens, their names, and how connections come to be and break.
//
// There is one machine, which has every address: what is sent anywhere reaches the socket that is bound
// there, after a time that the seed draws, unless a route says otherwise.

#include "testing/addresses.hpp"
#include "testing/ends.hpp"
#include "testing/world.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <limits>
#include <utility>

namespace unio::inline v0_1::testing {
namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr int most_attempts = 6; // of a SYN, after 1, 2, 4, … seconds: tcp_syn_retries, ip-sysctl.rst

bool is_listening(description const& d) noexcept { return d.kind == thing::listener; }
bool is_stream(description const& d) noexcept { return d.kind == thing::socket || is_listening(d); }

// Whether the wildcard `d` is bound to stands for the address `e`.
bool is_wildcard_for(description const& d, endpoint const& name, endpoint const& e) noexcept {
  if (!is_any(name)) return false;
  return name.family() == e.family() || (name.family() == address_family::ipv6 && !takes_ipv6_only(d));
}

// A Unix address: a path, or behind a NUL an abstract name.
std::string unix_name(sockaddr const* a, unsigned size) {
  auto const* const u = reinterpret_cast<sockaddr_un const*>(a);
  std::size_t const n = size - std::min<std::size_t>(size, offsetof(sockaddr_un, sun_path));
  if (n == 0) return {};
  return u->sun_path[0] == 0 ? std::string(u->sun_path, n)
                             : std::string(u->sun_path, strnlen(u->sun_path, n));
}

enum class option_kind : std::uint8_t { as_is, flag, number };

struct known_option {
  int level;
  int name;
  option_kind kind = option_kind::as_is;
  int initial = 0;
  int least = 0; // of a number; others are refused
  int most = std::numeric_limits<int>::max();
};
constexpr option_kind as_is = option_kind::as_is, flag = option_kind::flag, number = option_kind::number;
constexpr int most_text = 16; // TCP_CA_NAME_MAX

// What has a meaning on a stream or datagram socket and none here: it is kept, and told when asked for;
// before that, what a new socket has. socket(7), tcp(7), ip(7), ipv6(7), udp(7).
constexpr known_option of_all[] = {
    {SOL_SOCKET, SO_REUSEADDR, flag},
    {SOL_SOCKET, SO_REUSEPORT, flag},
    {SOL_SOCKET, SO_KEEPALIVE, flag},
    {SOL_SOCKET, SO_LINGER},
    {SOL_SOCKET, SO_SNDBUF},
    {SOL_SOCKET, SO_RCVBUF},
    {SOL_SOCKET, SO_BROADCAST, flag},
    {SOL_SOCKET, SO_PRIORITY},
    {SOL_SOCKET, SO_MARK},
    {SOL_SOCKET, SO_BUSY_POLL},
    {SOL_SOCKET, SO_ZEROCOPY, flag},
    {SOL_SOCKET, SO_TIMESTAMPNS, flag},
    {SOL_SOCKET, SO_BINDTODEVICE},
    {SOL_SOCKET, SO_PASSCRED, flag},
    {SOL_SOCKET, SO_INCOMING_CPU, as_is, -1},
    {SOL_SOCKET, SO_RXQ_OVFL, flag},
    {SOL_SOCKET, SO_MAX_PACING_RATE, as_is, -1},
    {SOL_SOCKET, SO_RCVLOWAT, as_is, 1},
    {SOL_SOCKET, SO_SNDBUFFORCE},
    {SOL_SOCKET, SO_RCVBUFFORCE},
    {SOL_SOCKET, SO_OOBINLINE, flag},
};
constexpr known_option of_ip[] = {
    {IPPROTO_IP, IP_TOS},
    {IPPROTO_IP, IP_TTL, number, 64, 1, 255},
    {IPPROTO_IP, IP_PKTINFO, flag},
    {IPPROTO_IP, IP_RECVTOS, flag},
    {IPPROTO_IP, IP_RECVTTL, flag},
    {IPPROTO_IP, IP_RECVERR, flag},
    {IPPROTO_IP, IP_MTU_DISCOVER, as_is, IP_PMTUDISC_WANT},
    {IPPROTO_IP, IP_FREEBIND, flag},
    {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, flag},
    {IPPROTO_IP, IP_MULTICAST_IF},
    {IPPROTO_IP, IP_MULTICAST_TTL, as_is, 1},
    {IPPROTO_IP, IP_MULTICAST_LOOP, flag, 1},
    {IPPROTO_IP, IP_TRANSPARENT, flag},
};
constexpr known_option of_ipv6[] = {
    {IPPROTO_IPV6, IPV6_V6ONLY, flag},
    {IPPROTO_IPV6, IPV6_RECVPKTINFO, flag},
    {IPPROTO_IPV6, IPV6_RECVTCLASS, flag},
    {IPPROTO_IPV6, IPV6_TCLASS},
    {IPPROTO_IPV6, IPV6_RECVERR, flag},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS, as_is, 64},
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER, as_is, IPV6_PMTUDISC_WANT},
    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, flag},
    {IPPROTO_IPV6, IPV6_MULTICAST_IF},
    {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, as_is, 1},
    {IPPROTO_IPV6, IPV6_MULTICAST_LOOP, flag, 1},
};
constexpr known_option of_tcp[] = {
    {IPPROTO_TCP, TCP_NODELAY, flag},
    {IPPROTO_TCP, TCP_CORK, flag},
    {IPPROTO_TCP, TCP_KEEPIDLE, number, 7200, 1, 32767},
    {IPPROTO_TCP, TCP_KEEPINTVL, number, 75, 1, 32767},
    {IPPROTO_TCP, TCP_KEEPCNT, number, 9, 1, 127},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, number},
    {IPPROTO_TCP, TCP_SYNCNT, number, 6, 1, 127},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT},
    {IPPROTO_TCP, TCP_QUICKACK, as_is, 1},
    {IPPROTO_TCP, TCP_FASTOPEN},
    {IPPROTO_TCP, TCP_CONGESTION},
    {IPPROTO_TCP, TCP_MAXSEG, as_is, 536},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
    {IPPROTO_TCP, TCP_LINGER2, as_is, 60},
    {IPPROTO_TCP, TCP_WINDOW_CLAMP},
    {IPPROTO_TCP, TCP_FASTOPEN_CONNECT, flag},
};
constexpr known_option of_udp[] = {{SOL_UDP, UDP_GRO, flag}, {SOL_UDP, UDP_SEGMENT}};

bool has_ports(description const& d) noexcept {
  return d.family == AF_INET || d.family == AF_INET6 || d.kind == thing::datagrams;
}

known_option const* find_known(description const& d, int level, int name) noexcept {
  auto const in = [&](auto const& list) {
    auto const found =
        std::ranges::find_if(list, [&](known_option const& o) { return o.level == level && o.name == name; });
    return found != std::end(list) ? &*found : nullptr;
  };
  if (level == SOL_SOCKET) return in(of_all);
  if (level == IPPROTO_IP) return in(of_ip);
  if (level == IPPROTO_IPV6) return in(of_ipv6);
  return d.kind == thing::datagrams ? in(of_udp) : in(of_tcp);
}

// A Unix socket has no protocol below it; another one has not this one. `others`: what that is told.
std::int64_t refuse_level(description const& d, int level, int others) noexcept {
  if (level == SOL_SOCKET) return 0;
  if (!has_ports(d)) return -EOPNOTSUPP;
  bool const is_others = level == IPPROTO_TCP    ? !is_stream(d)
                         : level == SOL_UDP      ? is_stream(d)
                         : level == IPPROTO_IPV6 ? d.family == AF_INET
                                                 : false;
  return is_others ? -others : 0;
}

} // namespace

int option_of(description const& d, int level, int name) noexcept {
  auto const found = d.options.find({level, name});
  int value = 0;
  if (found != d.options.end() && found->second.size() >= sizeof(value))
    std::memcpy(&value, found->second.data(), sizeof(value));
  return value;
}

bool takes_ipv6_only(description const& d) noexcept {
  return d.family == AF_INET6 && option_of(d, IPPROTO_IPV6, IPV6_V6ONLY) != 0;
}

bool resets_when_closed(description const& d) noexcept {
  auto const found = d.options.find({SOL_SOCKET, SO_LINGER});
  linger l{};
  if (found != d.options.end()) std::memcpy(&l, found->second.data(), sizeof(l));
  return l.l_onoff != 0 && l.l_linger == 0;
}

// ---- making

std::int64_t world::socket(int family, int type, int protocol) noexcept {
  if (int const e = enter(call::socket, first_descriptor); e != 0) return e;
  int const kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
  bool const on_ip = family == AF_INET || family == AF_INET6;
  bool const streams = kind == SOCK_STREAM && (protocol == 0 || (on_ip && protocol == IPPROTO_TCP));
  bool const datagrams = kind == SOCK_DGRAM && on_ip && (protocol == 0 || protocol == IPPROTO_UDP);
  if ((!on_ip && family != AF_UNIX) || (!streams && !datagrams))
    return refuse("socket(2) of this family, type and protocol");
  auto d = std::make_shared<description>();
  d->kind = streams ? thing::socket : thing::datagrams;
  d->family = family;
  d->is_networked = on_ip;
  if (datagrams) d->name = any_of(family);
  int const fd = install(std::move(d));
  return leave(call::socket, fd, fd);
}

std::int64_t world::socket_pair(int family, int type, int* fds) noexcept {
  if (int const e = enter(call::socketpair, first_descriptor); e != 0) return e;
  if (family != AF_UNIX || (type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK)) != SOCK_STREAM)
    return refuse("socketpair(2) of this family and type");
  fds[0] = open_pair(fds[1]);
  return leave(call::socketpair, fds[0], 0);
}

// ---- names

bool world::is_in_use(description const& d, endpoint const& at) const noexcept {
  bool const shares = option_of(d, SOL_SOCKET, SO_REUSEADDR) != 0;
  bool const in_group = option_of(d, SOL_SOCKET, SO_REUSEPORT) != 0;
  return std::any_of(table_.begin(), table_.end(), [&](std::shared_ptr<description> const& other) {
    if (other == nullptr || other.get() == &d || is_stream(*other) != is_stream(d)) return false;
    if (!is_inet(other->name) || other->name.port() != at.port()) return false;
    bool const overlaps = with_port(other->name, 0) == with_port(at, 0) ||
                          is_wildcard_for(*other, other->name, at) || is_wildcard_for(d, at, other->name);
    bool const both_in_group = in_group && option_of(*other, SOL_SOCKET, SO_REUSEPORT) != 0;
    // With SO_REUSEADDR a name may be shared with all but a listening socket (inet_csk_bind_conflict).
    bool const both_share =
        shares && option_of(*other, SOL_SOCKET, SO_REUSEADDR) != 0 && !is_listening(*other);
    return overlaps && !both_in_group && !both_share;
  });
}

std::uint16_t world::draw_port(description const& d, endpoint const& at) noexcept {
  constexpr std::uint16_t first = 32768, count = 28232; // ip_local_port_range, ip-sysctl.rst
  auto const start = static_cast<std::uint16_t>(random.below(count));
  for (std::uint16_t i = 0; i != count; ++i) {
    auto const port = static_cast<std::uint16_t>(first + (start + i) % count);
    bool const taken = std::any_of(table_.begin(), table_.end(), [&](auto const& other) {
      return other != nullptr && other.get() != &d && is_stream(*other) == is_stream(d) &&
             is_inet(other->name) && other->name.port() == port;
    });
    if (!taken && !is_in_use(d, with_port(at, port))) return port;
  }
  return 0;
}

bool world::name_itself(description& d, endpoint const& towards) noexcept {
  if (is_inet(d.name) && d.name.port() != 0) {
    // It speaks from the address that it speaks to: that is this machine's as well.
    if (is_any(d.name) && is_stream(d)) d.name = with_port(towards, d.name.port());
    return true;
  }
  endpoint const at = is_inet(d.name) && !is_any(d.name) ? d.name : towards;
  std::uint16_t const port = draw_port(d, at);
  bool const stays_wildcard = d.kind == thing::datagrams && (!is_inet(d.name) || is_any(d.name));
  if (port != 0) d.name = with_port(stays_wildcard ? any_of(d.family) : at, port);
  return port != 0;
}

std::int64_t world::bind(int fd, sockaddr const* at, unsigned size) noexcept {
  std::shared_ptr<description> const shared = share(fd);
  return on(call::bind, fd, [&](description& d) -> std::int64_t {
    if (!is_stream(d) && d.kind != thing::datagrams) return -ENOTSOCK;
    if (d.family == AF_UNIX || d.family == 0) { // 0: of a pair
      if (size < sizeof(at->sa_family) || size > sizeof(sockaddr_un) || at->sa_family != AF_UNIX)
        return -EINVAL;
      if (d.name.family() != address_family::unspecified) return -EINVAL;
      std::string key = unix_name(at, size);
      endpoint name = endpoint_of(at, size);
      bool const any = key.empty();
      while (any && (key.empty() || abstract_names_.contains(key))) {
        char text[8]; // five hexadecimal digits: unix(7), autobind
        std::snprintf(text, sizeof(text), "@%05x", static_cast<unsigned>(random.below(1 << 20)));
        name = *endpoint::unix_path(text);
        key = std::string(1, '\0') + (text + 1);
      }
      if (key[0] == 0) {
        std::weak_ptr<description>& owner = abstract_names_[key];
        if (!owner.expired()) return -EADDRINUSE;
        owner = shared;
      } else {
        place where;
        if (std::int64_t const r = locate(AT_FDCWD, key.c_str(), where); r < 0) return r;
        if (where.node != nullptr) return -EADDRINUSE; // also if its socket is closed
        auto const made = create_node(node_kind::socket, 0777);
        made->socket = shared;
        put(where.in, where.name, made);
        // With its NUL, which the caller may have left out, and nothing of what follows.
        name.resize(static_cast<unsigned>(offsetof(sockaddr_un, sun_path) + key.size() + 1));
      }
      d.name = name;
      return 0;
    }
    endpoint name;
    if (std::int64_t const r = take(d.family, at, size, name); r < 0) return r;
    if (d.in != nullptr || is_listening(d) || (is_inet(d.name) && d.name.port() != 0)) return -EINVAL;
    bool const chose_port = name.port() != 0;
    if (!chose_port) name = with_port(name, draw_port(d, name));
    if (name.port() == 0 || is_in_use(d, name)) return -EADDRINUSE;
    d.name = name;
    d.chose_address = !is_any(name);
    d.chose_port = chose_port;
    return 0;
  });
}

std::int64_t world::listen(int fd, int backlog) noexcept {
  return on(call::listen, fd, [&](description& d) -> std::int64_t {
    if (d.kind == thing::datagrams) return -EOPNOTSUPP;
    if (!is_stream(d)) return -ENOTSOCK;
    if (d.in != nullptr || d.is_connecting) return -EINVAL;
    if (!is_listening(d) && is_inet(d.name) && d.name.port() != 0 && is_in_use(d, d.name)) return -EADDRINUSE;
    if (d.family == AF_UNIX && d.name.family() == address_family::unspecified) return -EINVAL;
    if (d.family != AF_UNIX && !(is_inet(d.name) && d.name.port() != 0)) {
      endpoint const any = any_of(d.family);
      std::uint16_t const port = draw_port(d, any);
      if (port == 0) return -EADDRINUSE;
      d.name = with_port(any, port);
    }
    constexpr int somaxconn = 4096; // listen(2)
    d.kind = thing::listener;
    // One more than that waits: sk_acceptq_is_full() asks for "more than".
    d.backlog = static_cast<std::size_t>(std::clamp(backlog, 0, somaxconn)) + 1;
    return 0;
  });
}

std::int64_t world::name_of(int fd, bool peer, sockaddr* name, unsigned* size) noexcept {
  return on(peer ? call::getpeername : call::getsockname, fd, [&](description& d) -> std::int64_t {
    if (!is_stream(d) && d.kind != thing::datagrams) return -ENOTSOCK;
    bool const is_connected = d.kind == thing::datagrams ? is_inet(d.peer) && d.peer.port() != 0
                                                         : d.in != nullptr && !is_over(d, now_);
    if (peer && !is_connected) return -ENOTCONN;
    endpoint const& known = peer ? d.peer : d.name;
    bool const on_ip = d.family == AF_INET || d.family == AF_INET6;
    tell(is_inet(known) || !on_ip ? known : any_of(d.family), d.family, name, size);
    return 0;
  });
}

// ---- connecting

void world::set_route(endpoint const& host, route r) {
  endpoint const key = with_port(unmapped(host), 0);
  auto const known = std::ranges::find_if(routes_, [&](known_route const& k) { return k.host == key; });
  if (known != routes_.end()) {
    known->how = r;
  } else {
    routes_.push_back({key, r});
  }
}

route const* world::find_route(endpoint const& to) const noexcept {
  endpoint const key = with_port(to, 0);
  auto const known = std::ranges::find_if(routes_, [&](known_route const& k) { return k.host == key; });
  return known != routes_.end() ? &known->how : nullptr;
}

std::int64_t world::latency_to(endpoint const& to) noexcept {
  constexpr std::int64_t most = deadline::forever / 4; // there and back can be added
  if (route const* const r = find_route(to); r != nullptr && r->latency.count() >= 0)
    return std::min<std::int64_t>(r->latency.count(), most);
  if (!options.latency) return 0;
  std::int64_t const least = std::clamp<std::int64_t>(options.min_latency.count(), 0, most);
  std::int64_t const range = std::max<std::int64_t>(options.max_latency.count() - least, 0);
  std::int64_t const drawn =
      least + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(range) + 1));
  if (on_story != nullptr && drawn != least)
    on_story(("the way to " + to_string(to) + " takes " + std::to_string(drawn / 1000) + " us").c_str());
  return drawn;
}

std::shared_ptr<description> world::find_listener(endpoint const& to) noexcept {
  std::vector<std::shared_ptr<description>> best;
  bool best_is_exact = false;
  for (std::shared_ptr<description> const& d : table_) {
    if (d == nullptr || !is_listening(*d) || !is_inet(d->name) || d->name.port() != to.port()) continue;
    bool const is_exact = d->name == to;
    if (!is_exact && (best_is_exact || !is_wildcard_for(*d, d->name, to))) continue;
    if (is_exact && !best_is_exact) best.clear();
    best_is_exact = is_exact;
    if (std::ranges::find(best, d) == best.end()) best.push_back(d);
  }
  return best.empty() ? nullptr : best[best.size() == 1 ? 0 : random.below(best.size())];
}

std::int64_t world::connect(int fd, sockaddr const* to, unsigned size) noexcept {
  std::shared_ptr<description> const shared = share(fd);
  return on(call::connect, fd, [&](description& d) -> std::int64_t {
    if (d.kind == thing::datagrams) return connect_datagrams(d, to, size);
    if (!is_stream(d)) return -ENOTSOCK;
    if (is_listening(d)) return d.family == AF_UNIX ? -EINVAL : -EISCONN;
    if (size < sizeof(to->sa_family)) return -EINVAL;
    bool const is_unix = d.family == AF_UNIX || d.family == 0; // of a pair
    if (is_unix) return to->sa_family == AF_UNIX ? connect_unix(d, to, size) : -EINVAL;
    if (to->sa_family == AF_UNSPEC) return refuse("connect(2) of a stream socket with AF_UNSPEC");
    if (d.in != nullptr && !d.awaits_outcome) return -EISCONN;
    return connect_stream(shared, to, size);
  });
}

// At once or not at all. What waits in the backlog is connected.
std::int64_t world::connect_unix(description& d, sockaddr const* to, unsigned size) noexcept {
  std::string const name = unix_name(to, size);
  if (name.empty()) return -EINVAL;
  std::shared_ptr<description> l;
  if (name[0] == 0) {
    auto const found = abstract_names_.find(name);
    if (found != abstract_names_.end()) l = found->second.lock();
  } else {
    place where;
    if (std::int64_t const r = locate(AT_FDCWD, name.c_str(), where); r < 0) return r;
    if (where.node == nullptr) return -ENOENT;
    l = where.node->socket.lock();
  }
  if (l == nullptr || !is_listening(*l)) return -ECONNREFUSED;
  if (l->waiting.size() >= l->backlog) return -EAGAIN;
  if (d.in != nullptr) return -EISCONN; // only then: unix_stream_connect()
  auto server = std::make_shared<description>();
  server->kind = thing::socket;
  server->family = AF_UNIX;
  server->name = l->name;
  server->peer = d.name;
  d.peer = l->name;
  connect_ends(d, *server, options.stream_capacity, 1);
  l->waiting.push_back(std::move(server));
  ++l->news;
  return 0;
}

std::int64_t world::connect_stream(std::shared_ptr<description> const& d, sockaddr const* to,
                                   unsigned size) noexcept {
  if (d->is_connecting) return -EALREADY;
  if (std::exchange(d->awaits_outcome, false)) { // told once, by inet_stream_connect()
    d->was_refused = false;
    int const failure = std::exchange(d->failure, 0);
    if (d->in == nullptr && !d->chose_address) // tcp_disconnect()
      d->name = with_port(any_of(d->family), d->name.port());
    return d->in != nullptr ? 0 : failure != 0 ? -failure : -ECONNABORTED;
  }
  endpoint peer;
  if (std::int64_t const r = take(d->family, to, size, peer); r < 0) return r;
  d->peer = destination(peer);
  if (takes_ipv6_only(*d) && d->peer.family() == address_family::ipv4) return -ENETUNREACH;
  if (d->peer.port() == 0) return -ECONNREFUSED;
  if (!name_itself(*d, d->peer)) return -EADDRNOTAVAIL;
  d->is_connecting = d->awaits_outcome = true; // never done at once
  std::int64_t const latency = latency_to(d->peer);
  if (latency == 0 && (!options.delays || random.one_in(2))) {
    arrive(d, 0);
    return -EINPROGRESS;
  }
  later(moment(2 * latency), [this, weak = std::weak_ptr(d)] {
    if (std::shared_ptr<description> const client = weak.lock()) arrive(client, 0);
  });
  return -EINPROGRESS;
}

// A request for a connection reaches its destination, and the answer this socket.
void world::arrive(std::shared_ptr<description> const& client, int attempt) noexcept {
  route const* const r = find_route(client->peer);
  std::shared_ptr<description> const l = find_listener(client->peer);
  int failure = 0;
  bool const unanswered =
      (r != nullptr && r->is_lost) || (l != nullptr && l->waiting.size() >= l->backlog); // which drops it
  if (r != nullptr && r->error != std::errc()) {
    failure = static_cast<int>(r->error);
  } else if (unanswered && attempt < most_attempts) {
    later(moment(second << attempt), [this, attempt, weak = std::weak_ptr(client)] {
      if (std::shared_ptr<description> const again = weak.lock()) arrive(again, attempt + 1);
    });
    return note("unanswered", attempt, 0);
  } else if (unanswered) {
    failure = ETIMEDOUT;
  } else if (l == nullptr) {
    failure = ECONNREFUSED;
  }
  client->is_connecting = false;
  client->failure = failure;
  client->was_refused = failure != 0;
  ++client->changes;
  note(failure == 0 ? "connected" : "not connected", failure, client->peer.port());
  if (failure != 0) return;

  auto server = std::make_shared<description>();
  server->kind = thing::socket;
  server->family = l->family;
  server->options = l->options;
  server->name = client->peer;
  server->peer = client->name;
  connect_ends(*client, *server, options.stream_capacity, 1);
  auto const between = std::make_shared<line>();
  between->in = this;
  between->ways[0] = client->out;
  between->ways[1] = server->out;
  between->latency = latency_to(client->peer);
  client->line = server->line = between;
  l->waiting.push_back(std::move(server));
  ++l->news;

  constexpr unsigned one_in_so_many = 8;
  if (!one_in(options.resets, one_in_so_many)) return;
  if (on_story != nullptr)
    on_story(("a connection to " + to_string(client->peer) + " is to be reset").c_str());
  if (random.one_in(2)) {
    between->bytes_until_reset =
        static_cast<std::int64_t>(random.below(std::uint64_t{1} << random.below(17)));
  } else {
    auto const longest = static_cast<std::uint64_t>(8 * options.max_latency.count());
    later(moment(static_cast<std::int64_t>(random.below(longest + 1))),
          [this, weak = std::weak_ptr(between)] {
            if (std::shared_ptr<line> const broken = weak.lock()) reset(*broken);
          });
  }
}

// ---- ends

void world::reset(line& l) noexcept {
  if (l.ways[0]->is_cut) return;
  constexpr int never_again = -1'000;
  note("reset", 0, 0);
  for (std::shared_ptr<channel> const& way : l.ways) {
    way->cut();
    way->break_off();
    way->readers = way->writers = never_again;
    way->ends_at = way->breaks_at = 0;
  }
}

void world::tell_peer(line& l, channel& in, channel& out) noexcept {
  if (in.is_cut) return;
  std::int64_t const known_at = std::max(moment(l.latency), out.arrives_at);
  if (out.ends_at == 0) out.ends_at = known_at;
  std::int64_t const breaks_at = out.was_reset ? known_at : deadline::forever;
  in.breaks_at = in.breaks_at == 0 ? breaks_at : std::min(in.breaks_at, breaks_at);
  if (known_at > now_) later(known_at, [] {});
}

// ---- options

std::int64_t world::get_option(int fd, int level, int name, void* v, unsigned* size) noexcept {
  return on(call::getsockopt, fd, [&](description& d) -> std::int64_t {
    if (!is_stream(d) && d.kind != thing::datagrams) return -ENOTSOCK;
    if (std::int64_t const r = refuse_level(d, level, EOPNOTSUPP); r < 0) return r;
    if (static_cast<int>(*size) < 0) return -EINVAL;
    int value = 0;
    bool special = level == SOL_SOCKET;
    if (special && name == SO_ACCEPTCONN) {
      value = is_listening(d) ? 1 : 0;
    } else if (special && name == SO_TYPE) {
      value = d.kind == thing::datagrams ? SOCK_DGRAM : SOCK_STREAM;
    } else if (special && name == SO_DOMAIN) {
      value = d.family != 0 ? d.family : AF_UNIX;
    } else if (special && name == SO_PROTOCOL) {
      value = d.family == AF_UNIX || d.family == 0 ? 0 : is_stream(d) ? IPPROTO_TCP : IPPROTO_UDP;
    } else if (special && name == SO_ERROR) {
      value = std::exchange(d.failure, 0);
      if (value == 0 && d.out != nullptr && std::exchange(d.out->refused, false)) value = EPIPE;
      if (value == 0 && d.in != nullptr && ended(d, *d.in, now_) && std::exchange(d.in->reset, false))
        value = ECONNRESET;
    } else if (special && (name == SO_SNDBUF || name == SO_RCVBUF) && !d.options.contains({level, name})) {
      value = static_cast<int>(d.out != nullptr ? d.out->capacity() : options.stream_capacity);
    } else if (special && name == SO_PEERCRED) {
      if (d.family != AF_UNIX && d.family != 0) return -EOPNOTSUPP;
      ucred const who{.pid = ::getpid(), .uid = ::getuid(), .gid = ::getgid()};
      std::memcpy(v, &who, std::min<std::size_t>(*size, sizeof(who)));
      *size = std::min(*size, static_cast<unsigned>(sizeof(who)));
      return 0;
    } else {
      special = false;
    }
    if (!special) {
      auto const kept = d.options.find({level, name});
      known_option const* const known = find_known(d, level, name);
      if (kept == d.options.end() && known == nullptr) {
        (void)refuse("getsockopt(2) of this option");
        return -ENOPROTOOPT;
      }
      if (kept != d.options.end()) {
        std::size_t const n = std::min<std::size_t>(*size, kept->second.size());
        if (n != 0) std::memcpy(v, kept->second.data(), n);
        *size = static_cast<unsigned>(n);
        return 0;
      }
      if (level == IPPROTO_TCP && name == TCP_CONGESTION) {
        constexpr char usual[most_text] = "cubic";
        *size = std::min(*size, static_cast<unsigned>(sizeof(usual)));
        std::memcpy(v, usual, *size);
        return 0;
      }
      value = known->initial;
    }
    int const told[2] = {value, 0};
    bool const is_pair = level == SOL_SOCKET && name == SO_LINGER;
    unsigned const n = std::min(*size, static_cast<unsigned>(is_pair ? sizeof(linger) : sizeof(value)));
    std::memcpy(v, told, n);
    *size = n;
    return 0;
  });
}

// There is no wire that most could matter to.
std::int64_t world::set_option(int fd, int level, int name, void const* v, unsigned size) noexcept {
  return on(call::setsockopt, fd, [&](description& d) -> std::int64_t {
    if (!is_stream(d) && d.kind != thing::datagrams) return -ENOTSOCK;
    if (std::int64_t const r = refuse_level(d, level, ENOPROTOOPT); r < 0) return r;
    known_option const* const known = find_known(d, level, name);
    if (known == nullptr) {
      (void)refuse("setsockopt(2) of this option");
      return -ENOPROTOOPT;
    }
    bool const is_text = name == (level == SOL_SOCKET ? SO_BINDTODEVICE : TCP_CONGESTION);
    bool const is_linger = level == SOL_SOCKET && name == SO_LINGER;
    bool const is_interface = level == IPPROTO_IP && name == IP_MULTICAST_IF; // a number, or an address
    if (!is_text && size < (is_linger ? sizeof(linger) : level == IPPROTO_IP ? 1 : sizeof(int)))
      return -EINVAL;
    auto const* const from = static_cast<std::byte const*>(v);
    std::vector<std::byte> value(from, from + size);
    if (!is_text && !is_linger && !is_interface) { // of IPv4 a byte will do: do_ip_setsockopt()
      if (size < sizeof(int)) value.resize(1);
      value.resize(sizeof(int));
    }
    if (level == SOL_SOCKET && (name == SO_SNDBUF || name == SO_RCVBUF)) {
      int bytes = 0;
      std::memcpy(&bytes, value.data(), sizeof(bytes));
      constexpr int least_sent = 4608, least_received = 2304; // socket(7): the kernel doubles it
      bytes = std::max(std::clamp(bytes, 1, 1 << 29) * 2, name == SO_SNDBUF ? least_sent : least_received);
      std::memcpy(value.data(), &bytes, sizeof(bytes));
    }
    if (known->kind != option_kind::as_is) {
      int asked = 0;
      std::memcpy(&asked, value.data(), sizeof(asked));
      if (known->kind == option_kind::flag) {
        asked = asked != 0 ? 1 : 0;
      } else if (level == IPPROTO_IP && name == IP_TTL && asked == -1) {
        asked = known->initial;
      } else if (asked < known->least || asked > known->most) {
        return -EINVAL;
      }
      std::memcpy(value.data(), &asked, sizeof(asked));
    }
    d.options[{level, name}] = std::move(value);
    return 0;
  });
}

} // namespace unio::testing
