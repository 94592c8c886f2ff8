// unio/endpoint.hpp: addresses of sockets.
//
//   endpoint          an IPv4, IPv6 or Unix address, ready for the kernel
//   parse_endpoint    from text: 127.0.0.1:80   [::1]:80   [fe80::1%lo]:80   unix:/run/x   unix:@abstract
//   to_string         back to the same text
//
// Thread safety  the functions from any thread

#pragma once

#include <unio/result.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace unio::inline v0_1 {

enum class address_family : std::uint8_t { unspecified, ipv4, ipv6, unix_path };

/// The address of a socket, in the kernel's own layout (checked in src/handle/endpoint.cpp).
///
/// Lifetime       what path() and data() return is a part of it
/// Thread safety  distinct: safe; shared: any number of readers
/// Cost           no system call, no allocation
/// Size           120 bytes
class UNIO_API endpoint {
 public:
  static constexpr std::size_t max_unix_path = 107; ///< bytes of a path, or of an abstract name

  endpoint() = default;
  /// An IPv4 address: four bytes in the order they are written.
  static endpoint ipv4(std::uint8_t const (&address)[4], std::uint16_t port) noexcept;
  static endpoint ipv4_loopback(std::uint16_t port) noexcept { return ipv4({127, 0, 0, 1}, port); }
  static endpoint ipv4_any(std::uint16_t port) noexcept { return ipv4({0, 0, 0, 0}, port); }
  /// An IPv6 address: sixteen bytes in network order. `scope` is an interface's index.
  static endpoint ipv6(std::uint8_t const (&address)[16], std::uint16_t port,
                       std::uint32_t scope = 0) noexcept;
  /// ::1 and ::, with a port.
  static endpoint ipv6_loopback(std::uint16_t port) noexcept;
  static endpoint ipv6_any(std::uint16_t port) noexcept;
  /// A path, or after '@' an abstract name. Errors: ENAMETOOLONG, error::embedded_nul, EINVAL if empty.
  static result<endpoint> unix_path(std::string_view path) noexcept;
  /// An abstract Unix name of any bytes, NUL included. Errors: ENAMETOOLONG, EINVAL if empty.
  static result<endpoint> unix_abstract(std::string_view name) noexcept;
  /// A Unix address without a name: bound to it, a socket gets an abstract name from the kernel.
  static endpoint unix_unnamed() noexcept;

  /// The family; unspecified for no address.
  [[nodiscard]] address_family family() const noexcept;
  /// The port, or 0.
  [[nodiscard]] std::uint16_t port() const noexcept;
  /// The path of a Unix address without the leading '@' of an abstract one; empty for an unnamed socket.
  [[nodiscard]] std::string_view path() const noexcept;
  /// True for an abstract Unix name.
  [[nodiscard]] bool is_abstract() const noexcept;

  bool operator==(endpoint const& other) const noexcept;

  // The kernel's view of it: struct sockaddr.
  [[nodiscard]] void const* data() const noexcept { return storage_; }
  [[nodiscard]] void* data() noexcept { return storage_; }
  [[nodiscard]] std::uint32_t size() const noexcept { return size_; }
  void resize(std::uint32_t n) noexcept { size_ = n; }
  static constexpr std::uint32_t capacity = 112;

 private:
  alignas(8) std::byte storage_[capacity]{};
  std::uint32_t size_ = 0;
};

/// Parses an address with its port, and returns it. Host names are not resolved. The scope of an IPv6 address
/// is the name or the number of an interface. In an abstract Unix name \xNN is the byte of that hexadecimal
/// number. Cost: no system call but for the name of an interface.
///
/// Errors  error::invalid_address, error::embedded_nul, ENAMETOOLONG. What is wrong with the text is part of
///         the error's message(), and so of what value() throws; if `why` is given, that is set to a sentence
///         about it instead
UNIO_API result<endpoint> parse_endpoint(std::string_view text, std::string* why = nullptr);

/// The text that parse_endpoint reads back as `e`, with the scope as a number; "unix:" for an unnamed Unix
/// socket, empty for no address. In an abstract name control characters, backslashes and bytes that are not
/// UTF-8 are written as \xNN; a path is as it is, whatever bytes a peer has put there. Throws std::bad_alloc.
/// Cost: a few allocations, if the text is long.
UNIO_API std::string to_string(endpoint const& e);

} // namespace unio
