// What OpenSSL calls: the BIO between it and an engine's queues (engine.cpp), and what it asks and tells in a
// handshake.

#include "core/escaped.hpp"
#include "tls/openssl.hpp"

#include <unio/tls_engine.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace unio::inline v0_1::detail {

struct tls_hooks {
  static tls_engine& engine_of(SSL const* s) noexcept {
    return *static_cast<tls_engine*>(SSL_get_app_data(s));
  }

  static int read(BIO* b, char* to, int size) noexcept {
    tls_engine& e = *static_cast<tls_engine*>(BIO_get_data(b));
    BIO_clear_retry_flags(b);
    std::size_t const n = std::min(static_cast<std::size_t>(size), e.in_.size());
    if (n == 0) {
      e.found_none_ = true;
      BIO_set_retry_read(b);
      return -1;
    }
    std::memcpy(to, e.in_.data(), n);
    e.in_.taken(n);
    if (!e.filling_) e.in_.release_if_empty();
    return static_cast<int>(n);
  }
  static int write(BIO* b, char const* from, int size) noexcept {
    tls_engine& e = *static_cast<tls_engine*>(BIO_get_data(b));
    BIO_clear_retry_flags(b);
    auto const n = static_cast<std::size_t>(size);
    if (!e.back_.reserve(n)) { // without retry: the connection fails
      e.no_memory_ = true;
      return -1;
    }
    std::memcpy(e.back_.room().data(), from, n);
    e.back_.filled(n);
    return size;
  }
  static long control(BIO*, int command, long, void*) noexcept { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO_METHOD* method() noexcept {
    static constinit std::atomic<BIO_METHOD*> made{nullptr};
    if (BIO_METHOD* const m = made.load(std::memory_order_acquire); m != nullptr) return m;
    BIO_METHOD* const m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "unio");
    if (m == nullptr) return m;
    BIO_meth_set_read(m, &read);
    BIO_meth_set_write(m, &write);
    BIO_meth_set_ctrl(m, &control);
    BIO_METHOD* other = nullptr;
    if (made.compare_exchange_strong(other, m, std::memory_order_acq_rel)) return m;
    BIO_meth_free(m);
    return other;
  }

  // A common name is none of those that are compared (RFC 9525 §6.3), which the subject alone would not show.
  static std::string shown_when_refused(X509_STORE_CTX* c, X509* certificate) {
    bool const lacks_names = X509_STORE_CTX_get_error(c) == X509_V_ERR_HOSTNAME_MISMATCH &&
                             X509_get_ext_by_NID(certificate, NID_subject_alt_name, -1) < 0;
    return subject_of(certificate) + (lacks_names ? ", without a subjectAltName" : "");
  }

  // Remembers whose certificate was refused. Changes nothing.
  static int verified(int is_good, X509_STORE_CTX* c) noexcept {
    if (is_good == 0) {
      auto* const s = static_cast<SSL*>(X509_STORE_CTX_get_ex_data(c, SSL_get_ex_data_X509_STORE_CTX_idx()));
      X509* const certificate = X509_STORE_CTX_get_current_cert(c);
      if (s != nullptr && certificate != nullptr)
        (void)with_memory([&] { engine_of(s).refused_ = shown_when_refused(c, certificate); });
    }
    return is_good;
  }

  static int new_session(SSL* s, SSL_SESSION* session) noexcept {
    tls_engine& e = engine_of(s);
    if (e.name_.empty() || SSL_SESSION_is_resumable(session) != 1) return 0;
    return with_memory([&] { e.state_->keep_session(e.name_, session); }) ? 1 : 0;
  }

  // Before any extension is looked at, so that tickets are compared with the context that is chosen. Called
  // again where the client was asked to begin again, with other keys: all else must be as it was (RFC 8446
  // §4.1.2), or a client would be let in by the rules of one name and be taken for one that asks for another.
  static int hello(SSL* s, int* alert, void*) noexcept {
    tls_engine& e = engine_of(s);
    std::string_view name;
    unsigned char const* list = nullptr;
    std::size_t size = 0;
    // RFC 6066 §3: the size of the list; then the kind (0: a host name), the size and the bytes of a name.
    if (SSL_client_hello_get0_ext(s, TLSEXT_TYPE_server_name, &list, &size) == 1) {
      auto const number = [&](std::size_t at) { return std::size_t{list[at]} << 8 | list[at + 1]; };
      if (size < 5 || number(0) != size - 2 || list[2] != TLSEXT_NAMETYPE_host_name ||
          number(3) != size - 5 || number(3) > TLSEXT_MAXLEN_host_name) {
        *alert = SSL_AD_DECODE_ERROR;
        return SSL_CLIENT_HELLO_ERROR;
      }
      name = {reinterpret_cast<char const*>(list + 5), size - 5};
    }
    if (std::exchange(e.greeted_, true)) {
      if (name == e.name_) return SSL_CLIENT_HELLO_SUCCESS;
      *alert = SSL_AD_ILLEGAL_PARAMETER;
      return SSL_CLIENT_HELLO_ERROR;
    }
    if (!with_memory([&] { e.name_ = name; })) {
      e.no_memory_ = true;
      *alert = SSL_AD_INTERNAL_ERROR;
      return SSL_CLIENT_HELLO_ERROR;
    }
    if (!e.state_->by_name) return SSL_CLIENT_HELLO_SUCCESS;
    tls_context const* const chosen = e.state_->by_name(e.name_);
    if (chosen == nullptr) return SSL_CLIENT_HELLO_SUCCESS;
    std::shared_ptr<tls_state> const& state = tls_state::of(*chosen);
    if (state == nullptr || !state->is_server || SSL_set_SSL_CTX(s, state->context) == nullptr) {
      *alert = SSL_AD_INTERNAL_ERROR;
      return SSL_CLIENT_HELLO_ERROR;
    }
    // These are copied when a connection is made, not when its context changes (SSL_set_SSL_CTX).
    SSL_set_verify(s, state->verify_mode, &verified);
    SSL_set_min_proto_version(s, static_cast<int>(SSL_CTX_get_min_proto_version(state->context)));
    SSL_set_max_proto_version(s, static_cast<int>(SSL_CTX_get_max_proto_version(state->context)));
    SSL_clear_options(s, SSL_OP_NO_TICKET);
    SSL_set_options(s, SSL_CTX_get_options(state->context));
    SSL_set_num_tickets(s, SSL_CTX_get_num_tickets(state->context));
    e.state_ = state;
    return SSL_CLIENT_HELLO_SUCCESS;
  }
};

bool set_hooks(SSL* s, tls_engine& e, int verify_mode) noexcept {
  BIO_METHOD* const method = tls_hooks::method();
  BIO* const bio = method != nullptr ? BIO_new(method) : nullptr;
  if (bio == nullptr) return false;
  BIO_set_data(bio, &e);
  BIO_set_init(bio, 1);
  SSL_set_bio(s, bio, bio);
  SSL_set_app_data(s, &e);
  SSL_set_verify(s, verify_mode, &tls_hooks::verified);
  return true;
}

void set_hooks(SSL_CTX* context, bool is_server) noexcept {
  if (is_server) {
    SSL_CTX_set_client_hello_cb(context, &tls_hooks::hello, nullptr);
  } else {
    SSL_CTX_sess_set_new_cb(context, &tls_hooks::new_session);
  }
}

std::string subject_of(X509* certificate) {
  bio_owner const text(BIO_new(BIO_s_mem()));
  if (text == nullptr || X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0,
                                            XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB) < 0)
    return {};
  char* data = nullptr;
  long const size = BIO_get_mem_data(text.get(), &data);
  std::string_view rest(data, static_cast<std::size_t>(size));
  // OpenSSL escapes with backslashes, which stay, and not all that should be.
  std::string out;
  for (std::size_t at = rest.find('\\'); at != rest.npos; at = rest.find('\\')) {
    out += escaped(rest.substr(0, at)) + '\\';
    rest.remove_prefix(at + 1);
  }
  return out += escaped(rest);
}

} // namespace unio::detail
