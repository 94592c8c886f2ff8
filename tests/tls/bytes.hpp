// The network of an engine, without a network.

#pragma once

#include <unio/tls_engine.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

namespace test {

using unio::tls_engine;

/// Puts bytes in, as if they had arrived.
inline void feed(tls_engine& e, std::string_view bytes) {
  while (!bytes.empty()) {
    unio::mutable_buffer const room = e.input_room();
    std::size_t const n = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), n);
    e.input_arrived(n);
    bytes.remove_prefix(n);
  }
}

/// Takes out at most `most` bytes, as if they had been sent.
inline std::string take(tls_engine& e, std::size_t most = static_cast<std::size_t>(-1)) {
  std::string bytes;
  while (e.has_output() && bytes.size() != most) {
    unio::const_buffer const next = e.output();
    std::size_t const n = std::min(next.size(), most - bytes.size());
    bytes.append(reinterpret_cast<char const*>(next.data()), n);
    e.output_taken(n);
  }
  return bytes;
}

} // namespace test
