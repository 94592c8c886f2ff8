// src/tls/openssl.hpp: what the files here share of OpenSSL: owners, and its errors as ours.

#pragma once

#include <unio/tls_context.hpp>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace unio::inline v0_1::detail {

template <auto Free> struct openssl_free {
  template <class T> void operator()(T* p) const noexcept { (void)Free(p); }
};
template <class T, auto Free> using owner = std::unique_ptr<T, openssl_free<Free>>;
using bio_owner = owner<BIO, BIO_free>;
using certificate_owner = owner<X509, X509_free>;
using key_owner = owner<EVP_PKEY, EVP_PKEY_free>;
using session_owner = owner<SSL_SESSION, SSL_SESSION_free>;

/// The error that OpenSSL's queue of this thread begins with, as it says itself that what it adds later is
/// less exact (ERR_get_error(3)). Empties the queue. EPROTO if there is none.
std::error_code take_error() noexcept;

/// A certificate's subject in one line.
std::string subject_of(X509* certificate);

/// Has `context` call the engine of each connection (hooks.cpp).
void set_hooks(SSL_CTX* context, bool is_server) noexcept;
/// Has `s` read and write the bytes of its engine, and call it. False: there was no memory.
[[nodiscard]] bool set_hooks(SSL* s, tls_engine& e, int verify_mode) noexcept;

/// Calls `f`. False: there was no memory for it.
template <class F> bool with_memory(F f) noexcept {
#if UNIO_HAS_EXCEPTIONS
  try {
    f();
  } catch (std::bad_alloc const&) {
    return false;
  }
#else
  f();
#endif
  return true;
}

/// What a context is made of. Immutable, but for the sessions, which have a lock.
class tls_state {
 public:
  ~tls_state();
  SSL_CTX* context = nullptr;
  bool is_server = false;
  int verify_mode = SSL_VERIFY_NONE;
  std::vector<unsigned char> protocols; // as in the protocol: each with its length before it
  std::function<tls_context const*(std::string_view)> by_name;

  static std::shared_ptr<tls_state> const& of(tls_context const& c) noexcept { return c.state_; }

  /// The session that was kept for a server. Of TLS 1.3 it is used once (RFC 8446 §C.4), of TLS 1.2 often.
  session_owner take_session(std::string_view name) noexcept;
  /// Takes it over. Throws std::bad_alloc; then it has not.
  void keep_session(std::string_view name, SSL_SESSION* session);

 private:
  static constexpr std::size_t most_sessions = 256;
  struct kept {
    std::string name;
    session_owner session;
  };
  std::mutex mutex_;
  std::vector<kept> sessions_; // the latest last
};

} // namespace unio::detail
