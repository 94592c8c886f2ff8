#include "net/wire.hpp"

#include "net/names.hpp"

#define CARES_NO_DEPRECATED // what c-ares has offered instead since 1.22 is not in Debian 12
#include <ares.h>
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <tuple>

namespace unio::inline v0_1::net {
namespace {

constexpr std::size_t header_size = 12;    // RFC 1035 §4.1.1
constexpr std::size_t extension_size = 11; // the OPT record of RFC 6891 §6.1.2, without options
constexpr int internet = 1;                // the class IN

constexpr std::uint16_t number_at(std::span<std::byte const> bytes, std::size_t at) noexcept {
  return static_cast<std::uint16_t>((std::to_integer<unsigned>(bytes[at]) << 8) |
                                    std::to_integer<unsigned>(bytes[at + 1]));
}

unsigned char const* raw(std::span<std::byte const> bytes) noexcept {
  return reinterpret_cast<unsigned char const*>(bytes.data());
}

verdict verdict_of(int status) noexcept {
  switch (status) {
    case ARES_SUCCESS:
      return verdict::answered;
    case ARES_ENODATA:
      return verdict::no_data;
    case ARES_ENOTFOUND:
      return verdict::no_such_name;
    default:
      return verdict::malformed;
  }
}

// What c-ares has allocated.
template <class T> struct owned {
  T* first = nullptr;
  owned() = default;
  owned(owned const&) = delete;
  owned& operator=(owned const&) = delete;
  ~owned() {
    if (first == nullptr) return;
    if constexpr (std::is_same_v<T, hostent>) {
      ares_free_hostent(first);
    } else {
      ares_free_data(first);
    }
  }
};

constexpr std::size_t most_names = 256; // of one address; likewise

} // namespace

std::error_code question::write(std::string_view name, record type, std::uint16_t id,
                                bool extended) noexcept {
  char text[256];
  if (name.size() >= sizeof(text)) return resolve_error::invalid_name;
  std::memcpy(text, name.data(), name.size());
  text[name.size()] = 0;
  unsigned char* made = nullptr;
  int size = 0;
  constexpr int recursion_desired = 1;
  int const status = ares_create_query(text, internet, static_cast<int>(type), id, recursion_desired, &made,
                                       &size, extended ? static_cast<int>(udp_size) : 0);
  if (status == ARES_ENOMEM) return std::make_error_code(std::errc::not_enough_memory);
  if (status == ARES_ENOTFOUND) return resolve_error::no_such_name;
  if (status != ARES_SUCCESS || static_cast<std::size_t>(size) > sizeof(bytes_)) {
    if (made != nullptr) ares_free_string(made);
    return resolve_error::invalid_name;
  }
  size_ = static_cast<std::size_t>(size);
  plain_size_ = extended ? size_ - extension_size : size_;
  std::memcpy(bytes_, made, size_);
  ares_free_string(made);
  type_ = type;
  return {};
}

void question::shorten() noexcept {
  size_ = plain_size_;
  bytes_[10] = bytes_[11] = std::byte{0}; // no additional records
}

verdict question::judge(std::span<std::byte const> answer) const noexcept {
  if (answer.size() < header_size || number_at(answer, 0) != number_at(bytes(), 0))
    return verdict::of_another;
  auto const flags = std::to_integer<unsigned>(answer[2]), more = std::to_integer<unsigned>(answer[3]);
  if ((flags & 0x80) == 0 || (flags & 0x78) != 0) return verdict::of_another; // no answer, or not to a query
  unsigned const code = more & 0x0f;
  unsigned const questions = number_at(answer, 4), answers = number_at(answer, 6);
  std::size_t const asked = plain_size_ - header_size;
  if (questions == 0 && code != 0 && code != 3) {
    // Some servers repeat no question when they refuse it.
  } else {
    if (questions != 1 || answer.size() < header_size + asked) return verdict::of_another;
    auto const same = [](std::byte a, std::byte b) { // names without regard to case; the rest has no letters
      return lower(static_cast<char>(a)) == lower(static_cast<char>(b));
    };
    if (!std::ranges::equal(answer.subspan(header_size, asked), bytes().subspan(header_size, asked), same))
      return verdict::of_another;
  }
  switch (code) {
    case 0:
      break;
    case 1: // FORMERR
    case 4: // NOTIMP
      return verdict::not_implemented;
    case 2:
      return verdict::server_failed;
    case 3:
      return verdict::no_such_name;
    default:
      return verdict::refused;
  }
  if ((flags & 0x02) != 0) return verdict::truncated;
  bool const is_authoritative = (flags & 0x04) != 0, recurses = (more & 0x80) != 0;
  if (answers == 0) return is_authoritative || recurses ? verdict::no_data : verdict::server_failed;
  return verdict::answered;
}

verdict read_addresses(record type, std::span<std::byte const> answer, std::uint16_t port,
                       endpoint_list& into) {
  int n = most_addresses;
  if (type == record::a) {
    ares_addrttl found[most_addresses];
    int const status = ares_parse_a_reply(raw(answer), static_cast<int>(answer.size()), nullptr, found, &n);
    if (status != ARES_SUCCESS) return verdict_of(status);
    for (int i = 0; i != n; ++i) {
      std::uint8_t bytes[4];
      std::memcpy(bytes, &found[i].ipaddr, sizeof(bytes));
      into.push_back(endpoint::ipv4(bytes, port));
    }
  } else {
    ares_addr6ttl found[most_addresses];
    int const status =
        ares_parse_aaaa_reply(raw(answer), static_cast<int>(answer.size()), nullptr, found, &n);
    if (status != ARES_SUCCESS) return verdict_of(status);
    for (int i = 0; i != n; ++i) {
      std::uint8_t bytes[16];
      std::memcpy(bytes, &found[i].ip6addr, sizeof(bytes));
      into.push_back(endpoint::ipv6(bytes, port));
    }
  }
  return n > 0 ? verdict::answered : verdict::no_data; // there may be only another name for it (CNAME)
}

verdict read_names(std::span<std::byte const> answer, endpoint const& of, std::vector<std::string>& into) {
  owned<hostent> found;
  auto const address = address_bytes(of);
  int const family = of.family() == address_family::ipv4 ? AF_INET : AF_INET6;
  int const status = ares_parse_ptr_reply(raw(answer), static_cast<int>(answer.size()), address.data(),
                                          static_cast<int>(address.size()), family, &found.first);
  if (status != ARES_SUCCESS) return verdict_of(status);
  auto const add = [&](char const* name) {
    // The owner of an address decides what its name is: only what could be the name of a host is passed on.
    if (into.size() != most_names && what_is_wrong_with(name) == nullptr &&
        std::ranges::find(into, name) == into.end())
      into.emplace_back(name);
  };
  if (found.first->h_name != nullptr) add(found.first->h_name);
  if (found.first->h_aliases != nullptr)
    for (char** alias = found.first->h_aliases; *alias != nullptr; ++alias) add(*alias);
  return into.empty() ? verdict::malformed : verdict::answered;
}

verdict read_services(std::span<std::byte const> answer, std::vector<service_host>& into) {
  owned<ares_srv_reply> found;
  int const status = ares_parse_srv_reply(raw(answer), static_cast<int>(answer.size()), &found.first);
  if (status != ARES_SUCCESS) return verdict_of(status);
  for (ares_srv_reply const* r = found.first; r != nullptr; r = r->next) {
    if (r->host == nullptr || *r->host == 0) continue; // ".": decidedly none
    if (what_is_wrong_with(r->host) != nullptr) continue;
    into.push_back({r->host, r->port, r->priority, r->weight});
  }
  std::ranges::sort(into, [](service_host const& x, service_host const& y) {
    return std::tuple(x.priority, -int(x.weight), x.host, x.port) <
           std::tuple(y.priority, -int(y.weight), y.host, y.port);
  });
  return into.empty() ? verdict::no_data : verdict::answered;
}

verdict read_texts(std::span<std::byte const> answer, std::vector<std::string>& into) {
  owned<ares_txt_ext> found;
  int const status = ares_parse_txt_reply_ext(raw(answer), static_cast<int>(answer.size()), &found.first);
  if (status != ARES_SUCCESS) return verdict_of(status);
  for (ares_txt_ext const* r = found.first; r != nullptr; r = r->next) {
    if (r->record_start != 0 || into.empty()) into.emplace_back();
    into.back().append(reinterpret_cast<char const*>(r->txt), r->length);
  }
  return into.empty() ? verdict::no_data : verdict::answered;
}

std::span<std::byte const> address_bytes(endpoint const& of) noexcept {
  auto const* const bytes = static_cast<std::byte const*>(of.data());
  if (of.family() == address_family::ipv4) return {bytes + offsetof(sockaddr_in, sin_addr), 4};
  if (of.family() == address_family::ipv6) return {bytes + offsetof(sockaddr_in6, sin6_addr), 16};
  return {};
}

endpoint ipv4_of_number(std::string_view text, std::uint16_t port) noexcept {
  // inet_aton(3) would also take what is followed by a blank and anything else.
  char digits[256];
  if (text.size() >= sizeof(digits) || text.find_first_not_of("0123456789abcdefABCDEFxX.") != text.npos)
    return {};
  *std::ranges::copy(text, digits).out = 0;
  in_addr found{};
  if (::inet_aton(digits, &found) == 0) return {};
  std::uint8_t bytes[4];
  std::memcpy(bytes, &found, sizeof(bytes));
  return endpoint::ipv4(bytes, port);
}

endpoint with_port(endpoint of, std::uint16_t port) noexcept {
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
  std::uint16_t const in_order = htons(port);
  std::memcpy(static_cast<std::byte*>(of.data()) + offsetof(sockaddr_in, sin_port), &in_order,
              sizeof(in_order));
  return of;
}

std::string reverse_name(endpoint const& of) {
  auto address = address_bytes(of);
  in6_addr six;
  if (address.size() == sizeof(six)) {
    std::memcpy(&six, address.data(), sizeof(six));
    if (IN6_IS_ADDR_V4MAPPED(&six)) address = address.last(4); // ::ffff:192.0.2.1 is a host of IPv4
  }
  std::string name;
  for (std::size_t i = address.size(); i-- != 0;) {
    auto const value = std::to_integer<unsigned>(address[i]);
    if (address.size() == 4) {
      name += std::to_string(value) + '.';
    } else {
      constexpr char const* digits = "0123456789abcdef";
      name += digits[value & 15];
      name += '.';
      name += digits[value >> 4];
      name += '.';
    }
  }
  if (name.empty()) return name;
  return name + (address.size() == 4 ? "in-addr.arpa" : "ip6.arpa");
}

} // namespace unio::net
