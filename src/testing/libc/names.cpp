// Names of hosts. The C library would ask name servers, by calls that it makes itself: what it is not asked
// here are addresses as text and this machine's own name for itself.

#include "testing/libc/entry.hpp"

#include <arpa/inet.h>
#include <netdb.h>
#include <sys/socket.h>

#include <cstring>
#include <string>

namespace unio::inline v0_1::testing::libc {
namespace {

bool is_address(char const* node) noexcept {
  unsigned char bytes[sizeof(in6_addr)];
  std::string const text(node, std::strcspn(node, "%"));
  return inet_pton(AF_INET, text.c_str(), bytes) == 1 || inet_pton(AF_INET6, text.c_str(), bytes) == 1;
}

bool is_this_machine(std::string_view node) noexcept {
  while (node.ends_with('.')) node.remove_suffix(1);
  return node == "localhost" || node.ends_with(".localhost") || node == "ip6-localhost";
}

using look_up = int(char const*, char const*, addrinfo const*, addrinfo**);

// What the C library says of an address as text, in front of what there is.
int prepend(char const* address, int family, char const* service, addrinfo const* hints,
            addrinfo** all) noexcept {
  addrinfo h{};
  if (hints != nullptr) h = *hints;
  if (h.ai_family != AF_UNSPEC && h.ai_family != family) return EAI_NONAME;
  h.ai_family = family;
  h.ai_flags = (h.ai_flags | AI_NUMERICHOST) & ~(AI_ADDRCONFIG | AI_CANONNAME | AI_V4MAPPED | AI_ALL);
  h.ai_addr = nullptr;
  h.ai_canonname = nullptr;
  h.ai_next = nullptr;
  h.ai_addrlen = 0;
  addrinfo* found = nullptr;
  int const r = own<look_up>("getaddrinfo")(address, service, &h, &found);
  if (r != 0) return r;
  addrinfo* last = found;
  while (last->ai_next != nullptr) last = last->ai_next;
  last->ai_next = *all;
  *all = found;
  return 0;
}

} // namespace

UNIO_IN_PLACE(int, getaddrinfo,
              (char const* node, char const* service, addrinfo const* hints, addrinfo** found)) {
  entry const e("getaddrinfo(3)", UNIO_CALLER);
  if (!e.simulates()) return own<look_up>("getaddrinfo")(node, service, hints, found);
  int const flags = hints != nullptr ? hints->ai_flags : 0;
  *found = nullptr;
  if (node == nullptr && service == nullptr) return EAI_NONAME;
  if (node != nullptr && is_address(node)) {
    addrinfo h{};
    if (hints != nullptr) h = *hints;
    h.ai_flags &= ~AI_ADDRCONFIG;
    return own<look_up>("getaddrinfo")(node, service, &h, found);
  }
  if (node != nullptr && (flags & AI_NUMERICHOST) != 0) return EAI_NONAME;
  if (node != nullptr && !is_this_machine(node)) {
    (void)refuse("getaddrinfo(3) of the name \"" + std::string(node) + "\"");
    return EAI_FAIL;
  }
  bool const is_any = node == nullptr && (flags & AI_PASSIVE) != 0;
  // The C library's order: for listening IPv4 comes first.
  int r[2];
  for (int i = 0; i != 2; ++i) {
    bool const is_v4 = is_any ? i == 1 : i == 0;
    char const* const address = is_v4 ? (is_any ? "0.0.0.0" : "127.0.0.1") : (is_any ? "::" : "::1");
    r[i] = prepend(address, is_v4 ? AF_INET : AF_INET6, service, hints, found);
  }
  if (*found == nullptr) return r[1] != EAI_NONAME ? r[1] : r[0];
  if (node != nullptr && (flags & AI_CANONNAME) != 0) (*found)->ai_canonname = ::strdup(node);
  return 0;
}

UNIO_IN_PLACE(hostent*, gethostbyname, (char const* name)) {
  entry const e("gethostbyname(3)", UNIO_CALLER);
  using of_name = hostent*(char const*);
  if (!e.simulates()) return own<of_name>("gethostbyname")(name);
  if (is_address(name)) return own<of_name>("gethostbyname")(name);
  if (is_this_machine(name)) return own<of_name>("gethostbyname")("127.0.0.1");
  (void)refuse("gethostbyname(3) of the name \"" + std::string(name) + "\"");
  h_errno = NO_RECOVERY;
  return nullptr;
}

// The numbers in place of names that it would have to ask for.
UNIO_IN_PLACE(int, getnameinfo,
              (sockaddr const* address, socklen_t size, char* host, socklen_t host_size, char* service,
               socklen_t service_size, int flags)) {
  entry const e("getnameinfo(3)", UNIO_CALLER);
  using of_address = int(sockaddr const*, socklen_t, char*, socklen_t, char*, socklen_t, int);
  bool const needs_name = host != nullptr && (flags & NI_NUMERICHOST) == 0;
  if (e.simulates() && needs_name) {
    if ((flags & NI_NAMEREQD) != 0) return EAI_NONAME;
    flags |= NI_NUMERICHOST;
  }
  return own<of_address>("getnameinfo")(address, size, host, host_size, service, service_size, flags);
}

} // namespace unio::testing::libc
