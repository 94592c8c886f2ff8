#include "tls/certificates.hpp"

#include "support/test.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

namespace test {
namespace {

void check(bool good, char const* what) {
  if (good) return;
  std::fprintf(stderr, "certificates: %s failed\n", what);
  std::abort();
}

EVP_PKEY* make_key(bool rsa) {
  EVP_PKEY* const k = rsa ? EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", std::size_t{2048})
                          : EVP_PKEY_Q_keygen(nullptr, nullptr, "ED25519");
  check(k != nullptr, "a key");
  return k;
}

template <class Write> std::string pem_of(Write write) {
  BIO* const b = BIO_new(BIO_s_mem());
  check(write(b) == 1, "PEM");
  char* data = nullptr;
  long const size = BIO_get_mem_data(b, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(b);
  return text;
}

void extend(X509* c, X509* issuer, int what, char const* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, c, nullptr, nullptr, 0);
  X509_EXTENSION* const e = X509V3_EXT_conf_nid(nullptr, &context, what, value);
  check(e != nullptr && X509_add_ext(c, e, -1) == 1, value);
  X509_EXTENSION_free(e);
}

X509* make_certificate(EVP_PKEY* key, std::string_view subject, certificate_options const& o) {
  static std::atomic<long> serial{1};
  X509* const c = X509_new();
  X509_set_version(c, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(c), serial++);
  X509_gmtime_adj(X509_getm_notBefore(c), o.from_seconds);
  X509_gmtime_adj(X509_getm_notAfter(c), o.to_seconds);
  X509_set_pubkey(c, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_UTF8,
                             reinterpret_cast<unsigned char const*>(subject.data()),
                             static_cast<int>(subject.size()), -1, 0);
  return c;
}

} // namespace

struct authority::keys {
  EVP_PKEY* key;
  X509* certificate;
};

authority::authority(std::string_view name) : keys_(std::make_unique<keys>()) {
  keys_->key = make_key(false);
  X509* const c = keys_->certificate = make_certificate(keys_->key, name, {});
  X509_set_issuer_name(c, X509_get_subject_name(c));
  extend(c, c, NID_basic_constraints, "critical,CA:TRUE");
  extend(c, c, NID_key_usage, "critical,keyCertSign,cRLSign");
  extend(c, c, NID_subject_key_identifier, "hash");
  check(X509_sign(c, keys_->key, nullptr) > 0, "signing");
  root_ = unio::tls_pem::text(pem_of([&](BIO* b) { return PEM_write_bio_X509(b, c); }));
}

authority::~authority() {
  X509_free(keys_->certificate);
  EVP_PKEY_free(keys_->key);
}

unio::tls_identity authority::issue(certificate_options const& o) const {
  EVP_PKEY* const key = make_key(o.rsa);
  X509* const c = make_certificate(key, o.subject, o);
  X509_set_issuer_name(c, X509_get_subject_name(keys_->certificate));
  extend(c, keys_->certificate, NID_basic_constraints, "CA:FALSE");
  extend(c, keys_->certificate, NID_authority_key_identifier, "keyid");
  if (!o.names.empty()) extend(c, keys_->certificate, NID_subject_alt_name, o.names.c_str());
  check(X509_sign(c, keys_->key, nullptr) > 0, "signing");
  unio::tls_identity who{unio::tls_pem::text(pem_of([&](BIO* b) { return PEM_write_bio_X509(b, c); })),
                         unio::tls_pem::text(pem_of([&](BIO* b) {
                           return PEM_write_bio_PrivateKey(b, key, nullptr, nullptr, 0, nullptr, nullptr);
                         }))};
  X509_free(c);
  EVP_PKEY_free(key);
  return who;
}

authority const& the_authority() {
  static authority const one;
  return one;
}

unio::tls_identity const& the_identity() {
  static unio::tls_identity const one =
      the_authority().issue({.names = "DNS:example.test,DNS:*.wild.test,IP:127.0.0.1,IP:::1"});
  return one;
}

unio::tls_context server(unio::tls_options const& options) {
  std::string why;
  auto made = unio::tls_context::server(the_identity(), options, &why);
  check(made.has_value(), why.c_str());
  return *made;
}

unio::tls_context client(unio::tls_options options) {
  if (options.roots.empty()) options.roots = the_authority().root();
  std::string why;
  auto made = unio::tls_context::client(options, &why);
  check(made.has_value(), why.c_str());
  return *made;
}

} // namespace test
