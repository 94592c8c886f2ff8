// Addresses of sockets, and from text, strictly. Forms that other programs interpret differently (octal
// numbers, missing parts, leading zeros) are refused, so that a text means the same address everywhere or
// none.

#include "core/escaped.hpp"
#include "handle/sockets.hpp"

#include <unio/endpoint.hpp>

#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <limits>

namespace unio::inline v0_1 {

static_assert(sizeof(endpoint) == 120 && alignof(endpoint) >= alignof(sockaddr_un));
static_assert(endpoint::capacity >= sizeof(sockaddr_un) + 1); // a path of 108 bytes gets one more NUL
static_assert(endpoint::capacity >= sizeof(sockaddr_in) && endpoint::capacity >= sizeof(sockaddr_in6));
static_assert(endpoint::max_unix_path == sizeof(sockaddr_un::sun_path) - 1);
static_assert(alignof(endpoint) >= alignof(sockaddr_in6));

namespace {

constexpr std::size_t path_offset = offsetof(sockaddr_un, sun_path);

// The kernel's structure, copied out: reading it in place would access an object that does not exist.
template <class Address> Address as(endpoint const& e) noexcept {
  Address a;
  std::memcpy(&a, e.data(), sizeof(a));
  return a;
}

template <class Address> endpoint from(Address const& a, std::size_t size = sizeof(Address)) noexcept {
  endpoint e;
  std::memcpy(e.data(), &a, size);
  e.resize(static_cast<std::uint32_t>(size));
  return e;
}

// An abstract name has a NUL before it and is as long as the size says; a path has one at its end.
result<endpoint> unix_address(std::string_view name, bool is_abstract) noexcept {
  if (name.empty()) return detail::to_error_code(-EINVAL);
  if (name.size() > endpoint::max_unix_path) return detail::to_error_code(-ENAMETOOLONG);
  sockaddr_un a{};
  a.sun_family = AF_UNIX;
  std::memcpy(a.sun_path + (is_abstract ? 1 : 0), name.data(), name.size());
  return from(a, path_offset + name.size() + 1);
}

} // namespace

endpoint endpoint::ipv4(std::uint8_t const (&address)[4], std::uint16_t port) noexcept {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  std::memcpy(&a.sin_addr, address, sizeof(address));
  return from(a);
}

endpoint endpoint::ipv6(std::uint8_t const (&address)[16], std::uint16_t port, std::uint32_t scope) noexcept {
  sockaddr_in6 a{};
  a.sin6_family = AF_INET6;
  a.sin6_port = htons(port);
  a.sin6_scope_id = scope;
  std::memcpy(&a.sin6_addr, address, sizeof(address));
  return from(a);
}

endpoint endpoint::ipv6_loopback(std::uint16_t port) noexcept {
  return ipv6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, port);
}

endpoint endpoint::ipv6_any(std::uint16_t port) noexcept {
  return ipv6({0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, port);
}

result<endpoint> endpoint::unix_path(std::string_view path) noexcept {
  if (path.find('\0') != path.npos) return error::embedded_nul;
  return path.starts_with('@') ? unix_abstract(path.substr(1)) : unix_address(path, false);
}

result<endpoint> endpoint::unix_abstract(std::string_view name) noexcept { return unix_address(name, true); }

endpoint endpoint::unix_unnamed() noexcept {
  sockaddr_un const a{.sun_family = AF_UNIX, .sun_path = {}};
  return from(a, path_offset);
}

address_family endpoint::family() const noexcept {
  if (size_ < sizeof(sa_family_t)) return address_family::unspecified;
  switch (as<sockaddr>(*this).sa_family) {
    case AF_INET:
      return address_family::ipv4;
    case AF_INET6:
      return address_family::ipv6;
    case AF_UNIX:
      return address_family::unix_path;
    default:
      return address_family::unspecified;
  }
}

std::uint16_t endpoint::port() const noexcept {
  switch (family()) {
    case address_family::ipv4:
      return ntohs(as<sockaddr_in>(*this).sin_port);
    case address_family::ipv6:
      return ntohs(as<sockaddr_in6>(*this).sin6_port);
    default:
      return 0;
  }
}

bool endpoint::is_abstract() const noexcept {
  return family() == address_family::unix_path && size_ > path_offset &&
         storage_[path_offset] == std::byte{0};
}

std::string_view endpoint::path() const noexcept {
  if (family() != address_family::unix_path || size_ <= path_offset) return {};
  auto const* const text = reinterpret_cast<char const*>(storage_) + path_offset;
  std::size_t const n = size_ - path_offset;
  if (is_abstract()) return {text + 1, n - 1};
  return {text, ::strnlen(text, n)};
}

bool endpoint::operator==(endpoint const& other) const noexcept {
  if (family() != other.family()) return false;
  switch (family()) {
    case address_family::unspecified:
      return true;
    case address_family::ipv4: {
      auto const a = as<sockaddr_in>(*this);
      auto const b = as<sockaddr_in>(other);
      return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
    }
    case address_family::ipv6: {
      auto const a = as<sockaddr_in6>(*this);
      auto const b = as<sockaddr_in6>(other);
      return a.sin6_port == b.sin6_port && a.sin6_scope_id == b.sin6_scope_id &&
             std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof(a.sin6_addr)) == 0;
    }
    case address_family::unix_path:
      return is_abstract() == other.is_abstract() && path() == other.path();
  }
  return false;
}

namespace {

// ── from text ────────────────────────────────────────────────────────────────────────────────────

// Of an abstract name, which may contain any byte, as to_string() writes it.
bool unescape(std::string_view text, std::string& out) {
  while (!text.empty()) {
    bool const escaped = text[0] == '\\';
    std::uint8_t byte = static_cast<std::uint8_t>(text[0]);
    if (escaped) {
      if (text.size() < 4 || text[1] != 'x') return false;
      auto const [end, failed] = std::from_chars(text.data() + 2, text.data() + 4, byte, 16);
      if (failed != std::errc() || end != text.data() + 4) return false;
    }
    out += static_cast<char>(byte);
    text.remove_prefix(escaped ? 4 : 1);
  }
  return true;
}

// A number in decimal digits.
struct number {
  std::uint64_t value = 0; // the greatest there is stands for all of more than ten digits
  std::size_t digits = 0;
  bool begins_with_zero = false; // and has more digits
};

number take_number(std::string_view& text) noexcept {
  std::uint64_t value = 0;
  char const* at = text.data();
  for (char const* const end = at + text.size(); at != end; ++at) {
    unsigned const digit = static_cast<unsigned char>(*at) - unsigned{'0'};
    if (digit > 9) break;
    value = value * 10 + digit;
  }
  number n{.value = value, .digits = static_cast<std::size_t>(at - text.data())};
  if (n.digits > 1) {
    n.begins_with_zero = text[0] == '0';
    if (n.digits > 10) n.value = std::numeric_limits<std::uint64_t>::max(); // it may have overflowed
  }
  text.remove_prefix(n.digits);
  return n;
}

// Each of these returns what is wrong with the text, or null.

char const* parse_port(std::string_view text, std::uint16_t& port) noexcept {
  if (text.empty()) return "the port is missing";
  number const n = take_number(text);
  if (!text.empty()) return "the port is not a number";
  if (n.begins_with_zero) return "the port begins with a zero";
  if (n.value > 65535) return "the port is over 65535";
  port = static_cast<std::uint16_t>(n.value);
  return nullptr;
}

constexpr char const* wants_brackets = "an IPv6 address stands in brackets, as in [::1]:80";

bool has_two_colons(std::string_view text) noexcept { return text.find(':') != text.rfind(':'); }

// What is wrong with an IPv4 address and its port, of which the number that stands at `at` is none, or is not
// followed by what follows it: the first number is `which` 0, the port 4.
[[gnu::cold, gnu::noinline]] char const* wrong_dotted(std::string_view all, char const* at,
                                                      int which) noexcept {
  std::string_view rest = all.substr(static_cast<std::size_t>(at - all.data()));
  if (which == 4) {
    std::uint16_t port = 0;
    char const* const wrong = parse_port(rest, port);
    return has_two_colons(all) ? wants_brackets : wrong;
  }
  number const n = take_number(rest);
  if (all.empty()) return "it is empty";
  if (all.find(':') == all.npos) return "a colon and the port are missing";
  if (has_two_colons(all)) return wants_brackets;
  bool const is_over = rest[0] == ':';
  if (all[0] == ':' || (!is_over && rest[0] != '.'))
    return "it is neither an IPv4 address, nor an IPv6 address in brackets, nor begins with unix:";
  if (is_over != (which == 3) || n.digits == 0) return "an IPv4 address has four numbers";
  if (n.begins_with_zero) return "a number of the IPv4 address begins with a zero";
  return "a number of the IPv4 address is over 255";
}

// Takes a number of at most `most`. After a zero no more digits: they stand where something else should.
inline bool take_up_to(unsigned most, char const*& at, char const* end, unsigned& value) noexcept {
  unsigned digit = 0;
  if (at == end || (value = static_cast<unsigned char>(*at) - unsigned{'0'}) > 9) return false;
  ++at;
  if (value == 0) return true;
  for (; at != end && (digit = static_cast<unsigned char>(*at) - unsigned{'0'}) <= 9; ++at)
    if ((value = value * 10 + digit) > most) return false;
  return true;
}

char const* parse_dotted(std::string_view const all, std::uint8_t (&address)[4],
                         std::uint16_t& port) noexcept {
  char const* at = all.data();
  char const* const end = at + all.size();
  unsigned value = 0;
#pragma GCC unroll 4 // a twentieth of co_connect_to()'s own instructions
  for (int i = 0; i != 4; ++i) {
    char const* const number = at;
    if (!take_up_to(255, at, end, value) || at == end || *at != (i == 3 ? ':' : '.'))
      return wrong_dotted(all, number, i);
    address[i] = static_cast<std::uint8_t>(value);
    ++at;
  }
  char const* const number = at;
  if (!take_up_to(65535, at, end, value) || at != end) return wrong_dotted(all, number, 4);
  port = static_cast<std::uint16_t>(value);
  return nullptr;
}

char const* parse_scope(std::string_view text, std::uint32_t& scope) noexcept {
  if (text.empty()) return "the scope after % is empty";
  std::string_view rest = text;
  if (number const n = take_number(rest); rest.empty()) {
    scope = static_cast<std::uint32_t>(n.value);
    bool const is_one = !n.begins_with_zero && n.value != 0 && n.value == scope;
    return is_one ? nullptr : "the scope after % is not the number of an interface";
  }
  char name[IF_NAMESIZE];
  if (text.size() >= sizeof(name)) return "the scope after % is too long for the name of an interface";
  std::memcpy(name, text.data(), text.size());
  name[text.size()] = 0;
  scope = ::if_nametoindex(name);
  return scope != 0 ? nullptr : "the scope after % is not the name of an interface";
}

char const* parse_ipv6(std::string_view text, std::uint8_t (&address)[16], std::uint32_t& scope) noexcept {
  if (std::size_t const percent = text.find('%'); percent != text.npos) {
    if (char const* const wrong = parse_scope(text.substr(percent + 1), scope)) return wrong;
    text = text.substr(0, percent);
  }
  char copy[INET6_ADDRSTRLEN];
  constexpr char const* wrong = "what stands in the brackets is not an IPv6 address";
  if (text.size() >= sizeof(copy)) return wrong;
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = 0;
  return ::inet_pton(AF_INET6, copy, address) == 1 ? nullptr : wrong;
}

char const* parse_bracketed(std::string_view text, endpoint& out) noexcept {
  std::size_t const close = text.find(']');
  if (close == text.npos) return "the closing bracket is missing";
  std::string_view const rest = text.substr(close + 1);
  if (!rest.starts_with(':')) return "a colon and the port must follow the closing bracket";
  std::uint8_t address[16];
  std::uint32_t scope = 0;
  if (char const* const wrong = parse_ipv6(text.substr(1, close - 1), address, scope)) return wrong;
  std::uint16_t port = 0;
  if (char const* const wrong = parse_port(rest.substr(1), port)) return wrong;
  out = endpoint::ipv6(address, port, scope);
  return nullptr;
}

using detail::sockets::unix_prefix;

char const* parse_unix(std::string_view text, endpoint& out, int& code) noexcept {
  std::string_view const path = text.substr(unix_prefix.size());
  if (path.empty() || path == "@") return "the path is empty";
  std::string name;
  if (path[0] == '@' && !unescape(path.substr(1), name)) return "a backslash is not followed by xNN";
  result<endpoint> const made = path[0] == '@' ? endpoint::unix_abstract(name) : endpoint::unix_path(path);
  if (made) {
    out = *made;
    return nullptr;
  }
  code = detail::to_native(made.error());
  return "the path of a Unix socket is at most 107 bytes long"; // NULs were refused before
}

// Of what is no IPv4 address; `wrong` says why.
[[gnu::cold, gnu::noinline]] endpoint parse_other(std::string_view text, char const*& wrong, int& code) {
  endpoint e;
  code = detail::native(error::invalid_address);
  if (text.find('\0') != text.npos) {
    code = detail::native(error::embedded_nul);
    wrong = "it contains a NUL byte";
  } else if (text.starts_with(unix_prefix)) {
    wrong = parse_unix(text, e, code);
  } else if (text.starts_with('[')) {
    wrong = parse_bracketed(text, e);
  }
  return e;
}

} // namespace

endpoint detail::sockets::parse(std::string_view text, char const*& wrong, int& code) {
  if (!text.starts_with('[')) {
    std::uint8_t address[4];
    std::uint16_t port = 0;
    wrong = parse_dotted(text, address, port);
    if (wrong == nullptr) return endpoint::ipv4(address, port);
  }
  return parse_other(text, wrong, code);
}

result<endpoint> parse_endpoint(std::string_view text, std::string* why) {
  char const* wrong = nullptr;
  int code = 0;
  endpoint const e = detail::sockets::parse(text, wrong, code);
  if (wrong == nullptr) return e;
  if (why != nullptr) { // the caller has asked for the reason here: the failure need not keep it too
    *why = detail::in_quotes(text, '"') + " is not an address: " + wrong;
    return detail::failed(code, "parse_endpoint");
  }
  return detail::failed(code, "parse_endpoint", detail::sockets::object_of(text, wrong));
}

} // namespace unio
