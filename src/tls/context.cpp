// Contexts: certificates and keys, what is asked of the peer, names, protocols, sessions.

#include "core/escaped.hpp"
#include "core/failed_with.hpp"
#include "tls/openssl.hpp"

#include <unio/tls_engine.hpp>

#include <openssl/pem.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace unio::inline v0_1 {

using detail::bio_owner;
using detail::certificate_owner;
using detail::key_owner;
using detail::session_owner;
using detail::tls_state;

namespace {

std::error_code const invalid{EINVAL, std::system_category()};

constexpr char const* operation = "tls_context";

// Reads PEM, and says what is wrong with it.
class pem_reader {
 public:
  pem_reader(tls_pem const& pem, char const* what, std::string* why) : pem_(pem), what_(what), why_(why) {
    ERR_clear_error();
    std::string const& v = pem.value();
    if (pem.is_file() && v.find('\0') != v.npos) { // which OpenSSL would take for the end of the name
      error_ = failed_by(make_error_code(unio::error::embedded_nul));
      return;
    }
    bio_.reset(pem.is_file() ? BIO_new_file(v.c_str(), "r")
                             : BIO_new_mem_buf(v.data(), static_cast<int>(v.size())));
    if (bio_ == nullptr) error_ = failed();
  }
  explicit operator bool() const noexcept { return bio_ != nullptr; }
  [[nodiscard]] failure error() const noexcept { return error_; }

  // OpenSSL would ask the terminal for a passphrase.
  static int no_passphrase(char*, int, int, void*) noexcept { return -1; }

  /// Null at the end, or at an error: failed() if nothing was read.
  certificate_owner certificate() noexcept {
    return certificate_owner(PEM_read_bio_X509(bio_.get(), nullptr, &no_passphrase, nullptr));
  }
  key_owner key() noexcept {
    return key_owner(PEM_read_bio_PrivateKey(bio_.get(), nullptr, &no_passphrase, nullptr));
  }
  /// Whether reading has ended because there was no more.
  [[nodiscard]] bool at_end() const noexcept {
    unsigned long const e = ERR_peek_last_error();
    return ERR_GET_LIB(e) == ERR_LIB_PEM && ERR_GET_REASON(e) == PEM_R_NO_START_LINE && !read_error();
  }
  failure failed() {
    std::error_code const cannot_be_read = read_error();
    std::error_code const e = detail::take_error();
    return failed_by(cannot_be_read ? cannot_be_read : e);
  }

 private:
  // What read(2) has just said, which OpenSSL takes for the end of a file.
  [[nodiscard]] std::error_code read_error() const noexcept {
    int const last = errno;
    std::FILE* from = nullptr;
    if (!pem_.is_file() || BIO_get_fp(bio_.get(), &from) <= 0 || std::ferror(from) == 0) return {};
    return {last != 0 ? last : EIO, std::system_category()};
  }
  failure failed_by(std::error_code e) {
    if (why_ != nullptr)
      *why_ = std::string(what_) + " " + (pem_.is_file() ? detail::in_quotes(pem_.value()) : "in memory") +
              ": " + e.message();
    detail::failed_object o; // "private key /etc/key.pem"
    o.append(what_);
    o.append(pem_.is_file() ? " " : " in memory");
    if (pem_.is_file()) o.append(pem_.value().data(), pem_.value().size());
    return detail::failed_with(e, operation, o);
  }
  tls_pem const& pem_;
  char const* what_;
  std::string* why_;
  bio_owner bio_;
  failure error_;
};

failure use_identity(SSL_CTX* context, tls_identity const& who, std::string* why) {
  pem_reader chain(who.certificates, "certificate", why);
  if (!chain) return chain.error();
  certificate_owner const own = chain.certificate();
  if (own == nullptr || SSL_CTX_use_certificate(context, own.get()) != 1) return chain.failed();
  while (certificate_owner const more = chain.certificate())
    if (SSL_CTX_add1_chain_cert(context, more.get()) != 1) return chain.failed();
  if (!chain.at_end()) return chain.failed();
  pem_reader text(who.key, "private key", why);
  if (!text) return text.error();
  key_owner const key = text.key();
  if (key == nullptr) return text.failed();
  ERR_clear_error();
  if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
    return text.failed(); // such as: key values mismatch
  return {};
}

failure use_roots(SSL_CTX* context, tls_pem const& roots, bool names_them, std::string* why) {
  pem_reader text(roots, "root certificates", why);
  if (!text) return text.error();
  bool any = false;
  while (certificate_owner const root = text.certificate()) {
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), root.get()) != 1) return text.failed();
    if (names_them && SSL_CTX_add_client_CA(context, root.get()) != 1) return text.failed();
    any = true;
  }
  if (!any || !text.at_end()) return text.failed();
  ERR_clear_error();
  return {};
}

failure says(std::error_code e, std::string* why, std::string_view text) {
  if (why != nullptr) *why = detail::escaped(text);
  detail::failed_object o; // "(a server needs a certificate and its key)"
  o.append("(");
  o.append(text.data(), text.size(), o.capacity - 2);
  o.append(")");
  return detail::failed_with(e, operation, o);
}

failure use_protocols(tls_state& state, std::vector<std::string> const& protocols, std::string* why) {
  for (std::string const& p : protocols) {
    if (p.empty() || p.size() > 255)
      return says(invalid, why, "protocol '" + p + "': a name has 1 to 255 bytes");
    state.protocols.push_back(static_cast<unsigned char>(p.size()));
    state.protocols.insert(state.protocols.end(), p.begin(), p.end());
  }
  return {};
}

} // namespace

// ---- what OpenSSL calls -----------------------------------------------------------------------------------

namespace detail {
namespace {

int choose_protocol(SSL*, unsigned char const** chosen, unsigned char* size, unsigned char const* offered,
                    unsigned offered_size, void* state) noexcept {
  std::vector<unsigned char> const& ours = static_cast<tls_state*>(state)->protocols;
  unsigned char* found = nullptr;
  if (SSL_select_next_proto(&found, size, ours.data(), static_cast<unsigned>(ours.size()), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL; // RFC 7301 §3.2: no_application_protocol
  *chosen = found;
  return SSL_TLSEXT_ERR_OK;
}

// With it the server says that it has understood the name.
int name_understood(SSL*, int*, void*) noexcept { return SSL_TLSEXT_ERR_OK; }

} // namespace

tls_state::~tls_state() { SSL_CTX_free(context); }

session_owner tls_state::take_session(std::string_view name) noexcept {
  std::scoped_lock const lock(mutex_);
  auto const at = std::find_if(sessions_.begin(), sessions_.end(), [&](kept& k) { return k.name == name; });
  if (at == sessions_.end()) return nullptr;
  if (SSL_SESSION_get_protocol_version(at->session.get()) != TLS1_3_VERSION) {
    SSL_SESSION_up_ref(at->session.get());
    return session_owner(at->session.get());
  }
  session_owner s = std::move(at->session);
  sessions_.erase(at);
  return s;
}

void tls_state::keep_session(std::string_view name, SSL_SESSION* session) {
  std::scoped_lock const lock(mutex_);
  std::erase_if(sessions_, [&](kept const& k) { return k.name == name; });
  if (sessions_.size() == most_sessions) sessions_.erase(sessions_.begin());
  sessions_.push_back({std::string(name), nullptr});
  sessions_.back().session.reset(session); // not before the last that may throw
}

} // namespace detail

// ---- making one -------------------------------------------------------------------------------------------

bool tls_context::is_server() const noexcept { return state_ != nullptr && state_->is_server; }

result<tls_context> tls_context::make(tls_identity const& who, tls_options const& options, bool is_server,
                                      std::string* why) {
  auto state = std::make_shared<tls_state>();
  ERR_clear_error();
  SSL_CTX* const context = state->context = SSL_CTX_new(TLS_method());
  if (context == nullptr) {
    std::error_code const e = detail::take_error();
    return says(e, why, "OpenSSL: " + e.message());
  }
  state->is_server = is_server;
  state->by_name = options.by_name;
  if (!is_server && options.by_name) return says(invalid, why, "by_name is for servers");
  if (options.minimum < tls_version::tls_1_2 || options.maximum > tls_version::tls_1_3 ||
      options.minimum > options.maximum)
    return says(invalid, why, "the versions are TLS 1.2, TLS 1.3, or from the one to the other");
  SSL_CTX_set_min_proto_version(context, static_cast<int>(options.minimum));
  SSL_CTX_set_max_proto_version(context, static_cast<int>(options.maximum));
  SSL_CTX_set_options(context,
                      SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_CIPHER_SERVER_PREFERENCE);
  // One record of the protocol at a time, so that what it makes us answer is bounded.
  SSL_CTX_clear_mode(context, SSL_MODE_AUTO_RETRY);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_default_passwd_cb(context, &pem_reader::no_passphrase);

  tls_verification verification = options.verification;
  if (verification == tls_verification::by_role)
    verification = is_server ? tls_verification::none : tls_verification::required;
  if (!is_server && verification == tls_verification::requested)
    return says(invalid, why, "a client cannot only request a certificate: servers always have one");
  if (verification != tls_verification::none) state->verify_mode |= SSL_VERIFY_PEER;
  if (verification == tls_verification::required) state->verify_mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;

  if (!who.certificates.empty() || !who.key.empty()) {
    if (failure const e = use_identity(context, who, why)) return e;
  } else if (is_server) {
    return says(invalid, why, "a server needs a certificate and its key");
  }
  if (!options.roots.empty()) {
    if (failure const e = use_roots(context, options.roots, is_server, why)) return e;
  } else if (is_server && verification != tls_verification::none) {
    return says(invalid, why, "a server that verifies clients needs the roots of their certificates");
  } else if (!is_server) {
    SSL_CTX_set_default_verify_paths(context);
  }
  if (failure const e = use_protocols(*state, options.protocols, why)) return e;

  if (is_server) {
    // Tickets need no cache. Each context has an id of its own, without which a ticket that was obtained
    // where no certificate is asked for would do where one is (CVE-2025-23419 of nginx).
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    unsigned char id[16];
    if (RAND_bytes(id, sizeof id) != 1) return says(detail::take_error(), why, "OpenSSL has no random bytes");
    SSL_CTX_set_session_id_context(context, id, sizeof id);
    if (!options.resumption) {
      SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
      SSL_CTX_set_num_tickets(context, 0);
    }
    if (!state->protocols.empty()) SSL_CTX_set_alpn_select_cb(context, &detail::choose_protocol, state.get());
    SSL_CTX_set_tlsext_servername_callback(context, &detail::name_understood);
  } else {
    SSL_CTX_set_session_cache_mode(context, options.resumption
                                                ? SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL
                                                : SSL_SESS_CACHE_OFF);
    if (!options.resumption) SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    if (!state->protocols.empty() &&
        SSL_CTX_set_alpn_protos(context, state->protocols.data(),
                                static_cast<unsigned>(state->protocols.size())) != 0)
      return says(detail::take_error(), why, "protocols");
  }
  detail::set_hooks(context, is_server);
  tls_context made;
  made.state_ = std::move(state);
  return made;
}

result<tls_context> tls_context::client(tls_options const& options, std::string* why) {
  return make(options.identity, options, false, why);
}

result<tls_context> tls_context::server(tls_identity const& who, tls_options const& options,
                                        std::string* why) {
  return make(who, options, true, why);
}

} // namespace unio
