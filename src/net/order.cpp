#include "net/order.hpp"

#include "handle/sockets.hpp"
#include "net/wire.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace unio::inline v0_1::net {
namespace {

using address = std::array<std::uint8_t, 16>;

// RFC 6724 §3.2: IPv4 addresses as IPv4-mapped ones.
address as_ipv6(endpoint const& e) noexcept {
  address a{};
  auto const bytes = address_bytes(e);
  if (bytes.size() == 4) a[10] = a[11] = 0xff;
  for (std::size_t i = 0; i != bytes.size(); ++i)
    a[16 - bytes.size() + i] = std::to_integer<std::uint8_t>(bytes[i]);
  return a;
}

unsigned common_bits(address const& a, address const& b) noexcept {
  for (unsigned i = 0; i != 16; ++i)
    if (auto const differs = static_cast<std::uint8_t>(a[i] ^ b[i]); differs != 0)
      return i * 8 + static_cast<unsigned>(std::countl_zero(differs));
  return 128;
}

struct policy {
  address prefix;
  unsigned bits;
  int precedence;
  int label;
};

// RFC 6724 §2.1, the longest prefixes first.
constexpr policy table[] = {
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 128, 50, 0}, // ::1
    {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96, 35, 4},        // ::ffff:0:0
    {{}, 96, 1, 3},                                                 // ::
    {{0x20, 0x01, 0, 0}, 32, 5, 5},                                 // 2001::
    {{0x20, 0x02}, 16, 30, 2},                                      // 2002::
    {{0x3f, 0xfe}, 16, 1, 12},                                      // 3ffe::
    {{0xfe, 0xc0}, 10, 1, 11},                                      // fec0::
    {{0xfc}, 7, 3, 13},                                             // fc00::
    {{}, 0, 40, 1},
};

policy const& policy_of(address const& a) noexcept {
  return *std::ranges::find_if(table, [&](policy const& p) { return common_bits(a, p.prefix) >= p.bits; });
}

bool is_mapped(address const& a) noexcept { return common_bits(a, table[1].prefix) >= 96; }

enum scope : int { interface_local = 1, link_local = 2, site_local = 5, global = 14 };

// RFC 6724 §3.1, §3.2.
int scope_of(address const& a) noexcept {
  if (is_mapped(a)) {
    bool const is_local = a[12] == 127 || (a[12] == 169 && a[13] == 254);
    return is_local ? link_local : global;
  }
  if (a[0] == 0xff) return a[1] & 0x0f;
  if (common_bits(a, table[0].prefix) == 128) return link_local;
  if (a[0] == 0xfe && (a[1] & 0xc0) == 0x80) return link_local;
  if (a[0] == 0xfe && (a[1] & 0xc0) == 0xc0) return site_local;
  return global;
}

struct candidate {
  endpoint to;
  address destination, source;
  bool reachable;
  std::size_t place;
};

// Whether x comes before y. A rule that does not decide leaves it to the next one.
bool is_better(candidate const& x, candidate const& y) noexcept {
  if (x.reachable != y.reachable) return x.reachable; // rule 1
  if (x.reachable) {
    bool const x_same = scope_of(x.destination) == scope_of(x.source);
    bool const y_same = scope_of(y.destination) == scope_of(y.source);
    if (x_same != y_same) return x_same; // rule 2
    bool const x_label = policy_of(x.destination).label == policy_of(x.source).label;
    bool const y_label = policy_of(y.destination).label == policy_of(y.source).label;
    if (x_label != y_label) return x_label; // rule 5
  }
  int const x_first = policy_of(x.destination).precedence, y_first = policy_of(y.destination).precedence;
  if (x_first != y_first) return x_first > y_first; // rule 6
  int const x_scope = scope_of(x.destination), y_scope = scope_of(y.destination);
  if (x_scope != y_scope) return x_scope < y_scope; // rule 8
  // Rule 9, for IPv6 only: among IPv4 addresses it defeats the rotation of servers (RFC 6724 §10.5).
  if (x.reachable && !is_mapped(x.destination) && !is_mapped(y.destination)) {
    unsigned const x_bits = std::min(common_bits(x.destination, x.source), 64u);
    unsigned const y_bits = std::min(common_bits(y.destination, y.source), 64u);
    if (x_bits != y_bits) return x_bits > y_bits;
  }
  return x.place < y.place; // rule 10
}

} // namespace

endpoint source_by_kernel(endpoint const& destination) {
  int const family = destination.family() == address_family::ipv4 ? AF_INET : AF_INET6;
  int const fd = sys::above_standard(sys::socket(family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (fd < 0) return {};
  result<endpoint> source = endpoint();
  if (sys::connect(fd, static_cast<sockaddr const*>(destination.data()), destination.size()) >= 0)
    source = detail::sockets::name_of(fd, sys::getsockname, "connect");
  (void)sys::close(fd);
  return source.value_or(endpoint());
}

void sort(std::span<endpoint> addresses, source_of source) {
  if (addresses.size() < 2) return;
  std::vector<candidate> all;
  all.reserve(addresses.size());
  for (endpoint const& e : addresses) {
    endpoint const from = source(e);
    all.push_back({e, as_ipv6(e), as_ipv6(from), from.family() != address_family::unspecified, all.size()});
  }
  std::ranges::sort(all, is_better);
  std::ranges::transform(all, addresses.begin(), &candidate::to);
}

} // namespace unio::net
