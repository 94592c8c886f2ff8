// A server's context of OpenSSL, for the peers: TLS 1.3, tickets as they are by default.
#pragma once

#include "peer.hpp"

#include <openssl/pem.h>
#include <openssl/ssl.h>

#include <stdexcept>

namespace benchmarks {

class openssl_context {
 public:
  openssl_context() : context_(SSL_CTX_new(TLS_server_method())) {
    SSL_CTX_set_min_proto_version(context_, TLS1_3_VERSION);
    SSL_CTX_set_session_cache_mode(context_, SSL_SESS_CACHE_OFF);
    use(the_identity());
  }
  openssl_context(openssl_context const&) = delete;
  openssl_context& operator=(openssl_context const&) = delete;
  ~openssl_context() { SSL_CTX_free(context_); }
  [[nodiscard]] SSL_CTX* get() const noexcept { return context_; }

 private:
  void use(identity const& who) const {
    BIO* const c = BIO_new_mem_buf(who.certificate.data(), static_cast<int>(who.certificate.size()));
    BIO* const k = BIO_new_mem_buf(who.key.data(), static_cast<int>(who.key.size()));
    X509* const certificate = PEM_read_bio_X509(c, nullptr, nullptr, nullptr);
    EVP_PKEY* const key = PEM_read_bio_PrivateKey(k, nullptr, nullptr, nullptr);
    bool const fits =
        SSL_CTX_use_certificate(context_, certificate) == 1 && SSL_CTX_use_PrivateKey(context_, key) == 1;
    X509_free(certificate);
    EVP_PKEY_free(key);
    BIO_free(c);
    BIO_free(k);
    if (!fits) throw std::runtime_error("no certificate");
  }
  SSL_CTX* context_;
};

} // namespace benchmarks
