// OpenSSL itself as a peer of an engine: for what an engine never does.

#pragma once

#include "tls/engines.hpp"

#include <openssl/ssl.h>

namespace test {

/// A connection of OpenSSL's between two queues in memory.
class raw_peer {
 public:
  raw_peer(SSL_CTX* context, bool is_server)
      : ssl_(SSL_new(context)), in_(BIO_new(BIO_s_mem())), out_(BIO_new(BIO_s_mem())) {
    SSL_set_bio(ssl_, in_, out_);
    if (is_server) {
      SSL_set_accept_state(ssl_);
    } else {
      SSL_set_connect_state(ssl_);
    }
  }
  raw_peer(raw_peer const&) = delete;
  raw_peer& operator=(raw_peer const&) = delete;
  ~raw_peer() {
    SSL_set_shutdown(ssl_, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); // its sessions stay good
    SSL_free(ssl_);
  }

  [[nodiscard]] SSL* ssl() const noexcept { return ssl_; }
  /// What it has to send.
  std::string take() {
    std::string bytes(1 << 18, '\0');
    int const n = BIO_read(out_, bytes.data(), static_cast<int>(bytes.size()));
    bytes.resize(n < 0 ? 0 : static_cast<std::size_t>(n));
    return bytes;
  }
  void feed(std::string_view bytes) {
    if (!bytes.empty()) BIO_write(in_, bytes.data(), static_cast<int>(bytes.size()));
  }
  /// Until neither has anything to say.
  void shake_hands(tls_engine& e) {
    for (int i = 0; i != 10; ++i) {
      (void)SSL_do_handshake(ssl_);
      test::feed(e, take());
      (void)e.handshake();
      feed(test::take(e));
    }
  }

 private:
  SSL* ssl_;
  BIO* in_;
  BIO* out_;
};

} // namespace test
