// src/handle/sockets.hpp: what stream sockets and datagram sockets share: making, naming, options.

#pragma once

#include "sys/descriptors.hpp"

#include <unio/endpoint.hpp>
#include <unio/result.hpp>
#include <unio/socket_options.hpp>

#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <string_view>

namespace unio::inline v0_1::detail::sockets {

/// Before the name of a Unix socket, in text.
inline constexpr std::string_view unix_prefix = "unix:";

/// The address as the object of a failure.
UNIO_API failed_object object_of(endpoint const& e) noexcept;
/// A text that could not be read, and why, as the object of a failure.
UNIO_API failed_object object_of(std::string_view text, char const* wrong) noexcept;

/// parse_endpoint() for texts that may as well be something else: no failure is kept. `wrong` becomes null,
/// or what is wrong; then `code` becomes the failure's negative code.
UNIO_API endpoint parse(std::string_view text, char const*& wrong, int& code);

inline failure failed_at(std::int64_t native_code, char const* operation, endpoint const& e) noexcept {
  return failed(native_code, operation, object_of(e));
}

inline result<void> done(std::int64_t r, char const* operation, int fd = -1) noexcept {
  if (r < 0) return failed(r, operation, fd);
  return {};
}

/// The system's number of a family. AF_UNSPEC: there is none.
inline int native_family(address_family family) noexcept {
  switch (family) {
    case address_family::ipv4:
      return AF_INET;
    case address_family::ipv6:
      return AF_INET6;
    case address_family::unix_path:
      return AF_UNIX;
    case address_family::unspecified:
      break;
  }
  return AF_UNSPEC;
}

/// `type`: SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET. A descriptor, or a negative code.
inline int make_socket(address_family family, int type) noexcept {
  int const native = native_family(family);
  if (native == AF_UNSPEC) return -EAFNOSUPPORT;
  return sys::above_standard(sys::socket(native, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

template <class T> std::int64_t set_option(int fd, int level, int name, T const& value) noexcept {
  return sys::setsockopt(fd, level, name, &value, sizeof(value));
}

/// Options by their names in unio/socket_options.hpp: 0 or a negative code (socket_options.cpp).
std::int64_t set_option(int fd, option_id id, int value) noexcept;
std::int64_t set_option(int fd, option_id id, std::chrono::microseconds value) noexcept;
std::int64_t set_option(int fd, option_id id, std::string_view value) noexcept;

/// The same of several in a row, until one fails. What has its default value is left alone.
class options_of {
 public:
  explicit options_of(int fd) noexcept : fd_(fd) {}
  template <class T> options_of& set(option_id id, T value) noexcept {
    if (error_ >= 0 && value != T{}) error_ = set_option(fd_, id, value);
    return *this;
  }
  options_of& set(option_id id, bool on) noexcept { return set(id, on ? 1 : 0); }
  [[nodiscard]] std::int64_t error() const noexcept { return error_; }

 private:
  int fd_;
  std::int64_t error_ = 0;
};

inline result<int> int_option(int fd, int level, int name) noexcept {
  int value = 0;
  unsigned size = sizeof(value);
  std::int64_t const r = sys::getsockopt(fd, level, name, &value, &size);
  if (r < 0) return failed(r, "getsockopt", fd);
  return value;
}

/// Whether it is known to be no Unix socket, of which kernels lose what one request for many is to say.
inline bool is_no_unix_socket(int fd) noexcept {
  result<int> const domain = int_option(fd, SOL_SOCKET, SO_DOMAIN);
  return domain && *domain != AF_UNIX;
}

/// getsockname(2) or getpeername(2), as an endpoint.
inline result<endpoint> name_of(int fd, std::int64_t (*ask)(int, sockaddr*, unsigned*) noexcept,
                                char const* operation) noexcept {
  endpoint e;
  unsigned size = endpoint::capacity;
  std::int64_t const r = ask(fd, static_cast<sockaddr*>(e.data()), &size);
  if (r < 0) return failed(r, operation, fd);
  e.resize(size < endpoint::capacity ? size : endpoint::capacity);
  return e;
}

inline std::int64_t bind_to(int fd, endpoint const& e) noexcept {
  return sys::bind(fd, static_cast<sockaddr const*>(e.data()), e.size());
}

} // namespace unio::detail::sockets
