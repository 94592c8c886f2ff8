// Addresses of sockets as text, for people and for failures. Small rather than fast: every program that
// connects has it.

#include "core/escaped.hpp"
#include "handle/sockets.hpp"

#include <unio/endpoint.hpp>

#include <netinet/in.h>

#include <cstring>

namespace unio::inline v0_1 {
namespace {

void append_ipv4(std::string& out, std::uint8_t const* address) {
  for (int i = 0; i < 4; ++i) {
    if (i != 0) out += '.';
    detail::append_number(out, address[i]);
  }
}

// RFC 5952: lower case, no leading zeros, "::" for the first of the longest runs of two zero groups or more,
// and the last four bytes in decimal where the prefix says that they are an IPv4 address (::ffff:0:0/96).
void append_ipv6(std::string& out, std::uint8_t const (&address)[16]) {
  unsigned group[8];
  for (int i = 0; i < 8; ++i) group[i] = address[2 * i] * 256U + address[2 * i + 1];
  int run_begin = -1;
  int run_size = 1;
  for (int i = 0; i < 8; ++i) {
    int n = 0;
    while (i + n < 8 && group[i + n] == 0) ++n;
    if (n > run_size) {
      run_begin = i;
      run_size = n;
    }
  }
  bool const is_mapped = run_begin == 0 && run_size == 5 && group[5] == 0xffff;
  int const groups = is_mapped ? 6 : 8;
  for (int i = 0; i < groups;) {
    if (i == run_begin) {
      out += "::";
      i += run_size;
      continue;
    }
    detail::append_number(out, group[i], 16);
    if (++i < groups && i != run_begin) out += ':';
  }
  if (is_mapped) {
    out += ':';
    append_ipv4(out, address + 12);
  }
}

} // namespace

std::string to_string(endpoint const& e) {
  std::string out;
  switch (e.family()) {
    case address_family::unspecified:
      break;
    case address_family::ipv4: {
      sockaddr_in a;
      std::memcpy(&a, e.data(), sizeof(a));
      append_ipv4(out, reinterpret_cast<std::uint8_t const*>(&a.sin_addr));
      out += ':';
      detail::append_number(out, e.port());
      break;
    }
    case address_family::ipv6: {
      sockaddr_in6 a;
      std::memcpy(&a, e.data(), sizeof(a));
      out += '[';
      append_ipv6(out, a.sin6_addr.s6_addr);
      if (a.sin6_scope_id != 0) {
        out += '%';
        detail::append_number(out, a.sin6_scope_id);
      }
      out += "]:";
      detail::append_number(out, e.port());
      break;
    }
    case address_family::unix_path: {
      out += detail::sockets::unix_prefix;
      if (e.is_abstract()) {
        out += '@';
        out += detail::escaped(e.path());
        break;
      }
      // A path may begin with '@', which would be read back as an abstract name.
      if (e.path().starts_with('@')) out += "./";
      out += e.path();
      break;
    }
  }
  return out;
}

detail::failed_object detail::sockets::object_of(std::string_view text, char const* wrong) noexcept {
  failed_object o;
  std::size_t const reason_size = std::strlen(wrong) + 5;
  o.append("\"", 1);
  o.append(text.data(), text.size(), o.capacity - 1 - reason_size);
  o.append("\" (");
  o.append(wrong);
  o.append(")");
  return o;
}

detail::failed_object detail::sockets::object_of(endpoint const& e) noexcept {
  static_assert(sizeof(e) <= detail::failed_object::capacity && std::is_trivially_copyable_v<endpoint>);
  detail::failed_object o;
  std::memcpy(o.bytes, &e, sizeof(e));
  o.size = sizeof(e);
  o.text = [](std::byte const* bytes) {
    endpoint kept;
    std::memcpy(&kept, bytes, sizeof(kept));
    std::string shown = to_string(kept); // of an abstract name with \xNN
    return kept.family() == address_family::unix_path && !kept.is_abstract() ? escaped(shown) : shown;
  };
  return o;
}

} // namespace unio
