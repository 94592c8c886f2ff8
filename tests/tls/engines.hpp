// Two engines that talk to each other without a network: as many bytes at a time as a test wants.

#pragma once

#include "support/test.hpp"
#include "support/texts.hpp"
#include "tls/bytes.hpp"
#include "tls/certificates.hpp"

#include <unio/tls_engine.hpp>

namespace test {

using outcome = unio::tls_engine::outcome;

/// Moves at most `most` bytes of each. False: there were none.
inline bool exchange(tls_engine& a, tls_engine& b, std::size_t most = static_cast<std::size_t>(-1)) {
  std::string const from_a = take(a, most);
  std::string const from_b = take(b, most);
  feed(b, from_a);
  feed(a, from_b);
  return !from_a.empty() || !from_b.empty();
}

/// Until neither has anything to say. The outcomes are those of the last calls.
struct met {
  outcome client = outcome::wants_input;
  outcome server = outcome::wants_input;
};
inline met shake_hands(tls_engine& client, tls_engine& server,
                       std::size_t most = static_cast<std::size_t>(-1)) {
  met m;
  do {
    if (m.client == outcome::wants_input) m.client = client.handshake().what;
    if (m.server == outcome::wants_input) m.server = server.handshake().what;
  } while (exchange(client, server, most));
  return m;
}

/// Writes all of it, as far as the engine takes it without sending.
inline std::size_t write_all(tls_engine& e, std::string_view bytes) {
  std::size_t written = 0;
  while (written != bytes.size()) {
    tls_engine::progress const p =
        e.write(unio::const_buffer(bytes.data() + written, bytes.size() - written));
    if (p.what != outcome::done) break;
    written += p.bytes;
  }
  return written;
}

/// Reads what is there, and says why there is no more.
inline outcome read_all(tls_engine& e, std::string& into, std::size_t at_a_time = 20'000) {
  std::string room(at_a_time, '\0');
  for (;;) {
    tls_engine::progress const p = e.read(room);
    if (p.what != outcome::done) return p.what;
    into.append(room, 0, p.bytes);
  }
}

/// A connection between two engines.
struct connection {
  unio::tls_context of_client, of_server;
  tls_engine client, server;
  explicit connection(unio::tls_options const& client_options = {},
                      unio::tls_options const& server_options = {}, std::string_view name = "example.test")
      : of_client(test::client(client_options)),
        of_server(test::server(server_options)),
        client(of_client, name),
        server(of_server) {}
  /// Expects that they understand each other.
  void open() {
    met const m = shake_hands(client, server);
    EXPECT_EQ(m.client, outcome::done) << client.why();
    EXPECT_EQ(m.server, outcome::done) << server.why();
  }
};

inline constexpr unio::tls_version versions[] = {unio::tls_version::tls_1_2, unio::tls_version::tls_1_3};

} // namespace test
