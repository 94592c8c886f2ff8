// What carries bytes, as two ends: `source` is where they are read, `sink` where they are written.

#pragma once

#include "support/posix.hpp"
#include "support/test.hpp"

namespace test {

struct pipe_ends {
  unio::pipe_handle source, sink;
  pipe_ends() {
    auto p = unio::pipe_handle::anonymous().value();
    source = std::move(p.reader);
    sink = std::move(p.writer);
  }
};

struct unix_ends {
  unio::socket_handle source, sink;
  unix_ends() {
    auto p = unio::socket_handle::pair().value();
    source = std::move(p.first);
    sink = std::move(p.second);
  }
};

template <bool IsIpv6> struct tcp_ends_on {
  static unio::endpoint any() {
    return IsIpv6 ? unio::endpoint::ipv6_loopback(0) : unio::endpoint::ipv4_loopback(0);
  }
  unio::socket_handle source, sink;
  tcp_ends_on() {
    auto listener = unio::listening_socket_handle::listen(any()).value();
    sink = unio::socket_handle::create(any().family()).value();
    // Small, so that they are soon full. What the listener has is inherited.
    int const least = 8192;
    (void)::setsockopt(listener.native_handle(), SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
    (void)sink.send_buffer(4096);
    (void)sink.connect(listener.local_endpoint().value()).value();
    source = listener.accept().value();
  }
};
using tcp_ends = tcp_ends_on<false>;
using tcp_ipv6_ends = tcp_ends_on<true>;

/// Why nothing can be tested over IPv6 here; empty if it can.
inline std::string no_ipv6() {
  auto const tried = unio::listening_socket_handle::listen(unio::endpoint::ipv6_loopback(0));
  return tried ? std::string() : "no IPv6 here: " + tried.error().message();
}

inline void put(unio::handle const& to, std::string_view text) {
  ASSERT_EQ(::write(to.native_handle(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
}

inline bool is_ready(unio::handle const& h, short events, int milliseconds) {
  pollfd p{.fd = h.native_handle(), .events = events, .revents = 0};
  return ::poll(&p, 1, milliseconds) > 0;
}

/// So many bytes, or what there is of them. It waits for them for a while.
inline std::string take(unio::handle const& from, std::size_t bytes) {
  std::string got;
  char block[16384];
  while (got.size() < bytes && is_ready(from, POLLIN, 10'000)) {
    ssize_t const r = ::read(from.native_handle(), block, std::min(sizeof block, bytes - got.size()));
    if (r <= 0) break;
    got.append(block, static_cast<std::size_t>(r));
  }
  return got;
}

} // namespace test
