// src/testing/addresses.hpp: what the simulated network asks of an endpoint.

#pragma once

#include <unio/endpoint.hpp>

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

namespace unio::inline v0_1::testing {

template <class Native> Native as(endpoint const& e) noexcept {
  Native n{};
  std::memcpy(&n, e.data(), std::min<std::size_t>(sizeof(n), e.size()));
  return n;
}

/// The same address with another port.
inline endpoint with_port(endpoint e, std::uint16_t port) noexcept {
  if (e.family() != address_family::ipv4 && e.family() != address_family::ipv6) return e;
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::uint16_t const n = htons(port);
  std::memcpy(static_cast<std::byte*>(e.data()) + offsetof(sockaddr_in, sin_port), &n, sizeof(n));
  return e;
}

/// 0.0.0.0 or ::.
inline bool is_any(endpoint const& e) noexcept {
  if (e.family() == address_family::ipv4) return as<sockaddr_in>(e).sin_addr.s_addr == INADDR_ANY;
  auto const a = as<sockaddr_in6>(e);
  return e.family() == address_family::ipv6 && IN6_IS_ADDR_UNSPECIFIED(&a.sin6_addr);
}

inline endpoint any_of(int family) noexcept {
  return family == AF_INET ? endpoint::ipv4_any(0) : endpoint::ipv6_any(0);
}

inline bool is_inet(endpoint const& e) noexcept {
  return e.family() == address_family::ipv4 || e.family() == address_family::ipv6;
}

/// Where what is sent to `e` goes: to the wildcard's address, to this machine.
inline endpoint destination(endpoint const& e) noexcept {
  if (!is_any(e)) return e;
  return e.family() == address_family::ipv4 ? endpoint::ipv4_loopback(e.port())
                                            : endpoint::ipv6_loopback(e.port());
}

/// ::ffff:192.0.2.1 is 192.0.2.1.
inline endpoint unmapped(endpoint const& e) noexcept {
  if (e.family() != address_family::ipv6) return e;
  auto const a = as<sockaddr_in6>(e);
  if (!IN6_IS_ADDR_V4MAPPED(&a.sin6_addr)) return e;
  std::uint8_t bytes[4];
  std::memcpy(bytes, a.sin6_addr.s6_addr + 12, 4);
  return endpoint::ipv4(bytes, e.port());
}

/// And the way back.
inline endpoint mapped(endpoint const& e) noexcept {
  if (e.family() != address_family::ipv4) return e;
  std::uint8_t bytes[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  auto const a = as<sockaddr_in>(e);
  std::memcpy(bytes + 12, &a.sin_addr, 4);
  return endpoint::ipv6(bytes, e.port());
}

inline endpoint endpoint_of(sockaddr const* a, unsigned size) noexcept {
  endpoint e;
  unsigned const n = std::min(size, endpoint::capacity);
  std::memcpy(e.data(), a, n);
  e.resize(n);
  return e;
}

/// An address that a program gives, for a socket of this family: in full, and without what the kernel does
/// not look at. Errors: EINVAL, too short; EAFNOSUPPORT, of another family.
inline std::int64_t take(int family, sockaddr const* a, unsigned size, endpoint& taken) noexcept {
  constexpr unsigned least_of_ipv6 = offsetof(sockaddr_in6, sin6_scope_id); // RFC 2133 had no scopes
  if (size < (family == AF_INET ? sizeof(sockaddr_in) : least_of_ipv6)) return -EINVAL;
  if (a->sa_family != family) return -EAFNOSUPPORT;
  if (family == AF_INET) {
    auto const* const from = reinterpret_cast<sockaddr_in const*>(a);
    std::uint8_t bytes[4];
    std::memcpy(bytes, &from->sin_addr, sizeof(bytes));
    taken = endpoint::ipv4(bytes, ntohs(from->sin_port));
    return 0;
  }
  sockaddr_in6 from{};
  std::memcpy(&from, a, std::min<std::size_t>(size, sizeof(from)));
  bool const has_scope = IN6_IS_ADDR_LINKLOCAL(&from.sin6_addr) || IN6_IS_ADDR_MC_LINKLOCAL(&from.sin6_addr);
  std::uint8_t bytes[16];
  std::memcpy(bytes, &from.sin6_addr, sizeof(bytes));
  taken = unmapped(endpoint::ipv6(bytes, ntohs(from.sin6_port), has_scope ? from.sin6_scope_id : 0));
  return 0;
}

/// Tells a program an address, as the kernel does: cut to its room, with the whole length.
inline void tell(endpoint const& e, int family, sockaddr* name, unsigned* size) noexcept {
  endpoint shown = family == AF_INET6 ? mapped(e) : e;
  if (shown.size() == 0) { // a Unix socket without a name
    sa_family_t const unnamed = AF_UNIX;
    shown = endpoint_of(reinterpret_cast<sockaddr const*>(&unnamed), sizeof(unnamed));
  }
  std::memcpy(name, shown.data(), std::min(*size, shown.size()));
  *size = shown.size();
}

} // namespace unio::testing
