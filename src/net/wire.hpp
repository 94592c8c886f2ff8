// src/net/wire.hpp: questions and answers as they travel (RFC 1035 §4). c-ares writes the ones and reads the
// records of the others; whether an answer is one to this question is decided here.

#pragma once

#include <unio/resolver.hpp>

#include <cstddef>
#include <span>

namespace unio::inline v0_1::net {

inline constexpr std::size_t most_addresses = 256; ///< of one name and family; more are dropped

/// What is known of a question.
enum class verdict : std::uint8_t {
  unanswered,
  of_another,      ///< not an answer to this question: to be ignored
  answered,        ///< there are records
  no_data,         ///< there is the name, but nothing of the type
  no_such_name,    ///< NXDOMAIN
  server_failed,   ///< SERVFAIL, or a referral from a server that does not know
  refused,         ///< REFUSED, and rcodes that no server should send
  not_implemented, ///< FORMERR, NOTIMP: perhaps because of the extension (EDNS)
  truncated,       ///< to be asked again by TCP
  malformed,
};

/// True if no other server needs to be asked.
constexpr bool is_final(verdict v) noexcept {
  return v == verdict::answered || v == verdict::no_data || v == verdict::no_such_name;
}

enum class record : int { a = 1, ptr = 12, txt = 16, aaaa = 28, srv = 33 };

class question {
 public:
  /// The largest answer that is asked for over UDP: what every path takes (DNS Flag Day 2020).
  static constexpr std::size_t udp_size = 1232;

  /// Writes the question. `name` is complete: nothing is appended. Without `extended` it has no EDNS record.
  ///
  /// Errors  resolve_error::invalid_name, no_such_name (of .onion: RFC 7686), ENOMEM
  std::error_code write(std::string_view name, record type, std::uint16_t id, bool extended = true) noexcept;
  /// The same once more without EDNS.
  void shorten() noexcept;

  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return {bytes_, size_}; }
  [[nodiscard]] record type() const noexcept { return type_; }
  [[nodiscard]] bool is_extended() const noexcept { return size_ != plain_size_; }
  /// What an answer's header and question say: `answered` if its records are to be read.
  [[nodiscard]] verdict judge(std::span<std::byte const> answer) const noexcept;

 private:
  std::byte bytes_[320]{};
  std::size_t size_ = 0;
  std::size_t plain_size_ = 0; // without the record for EDNS
  record type_ = record::a;
};

// The records of an answer, added to `into`: answered, no_data or malformed. They take any bytes.
verdict read_addresses(record type, std::span<std::byte const> answer, std::uint16_t port,
                       endpoint_list& into);
verdict read_names(std::span<std::byte const> answer, endpoint const& of, std::vector<std::string>& into);
verdict read_services(std::span<std::byte const> answer, std::vector<service_host>& into);
verdict read_texts(std::span<std::byte const> answer, std::vector<std::string>& into);

/// The name under which the names of an address are found: 4.3.2.1.in-addr.arpa, ….ip6.arpa. Empty for what
/// is no IP address.
std::string reverse_name(endpoint const& of);

/// An IPv4 address in any form of inet(3), which getaddrinfo(3) takes for one without asking: 192.0.2.1,
/// 10.1, 0x7f000001, 012.0.0.1. No family: the text is something else.
endpoint ipv4_of_number(std::string_view text, std::uint16_t port) noexcept;

/// The same IP address with another port.
endpoint with_port(endpoint of, std::uint16_t port) noexcept;

/// The bytes of an IP address, in network order.
std::span<std::byte const> address_bytes(endpoint const& of) noexcept;

} // namespace unio::net
