// An authority and certificates of it, made anew for each program: none lies in a file that could expire.

#pragma once

#include <unio/tls_context.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace test {

struct certificate_options {
  std::string names = "DNS:example.test"; ///< as subjectAltName of x509v3_config(5); empty: none
  std::string subject = "example.test";   ///< its CN
  long from_seconds = -3600;              ///< from now
  long to_seconds = 3600;
  bool rsa = false; ///< else Ed25519, whose signatures have one size
};

class authority {
 public:
  explicit authority(std::string_view name = "unio test authority");
  ~authority();
  authority(authority const&) = delete;
  authority& operator=(authority const&) = delete;

  /// Its own certificate.
  [[nodiscard]] unio::tls_pem const& root() const noexcept { return root_; }
  [[nodiscard]] unio::tls_identity issue(certificate_options const& options = {}) const;

 private:
  struct keys;
  std::unique_ptr<keys> keys_;
  unio::tls_pem root_;
};

/// One for all tests.
authority const& the_authority();
/// A server called example.test, 127.0.0.1 and ::1.
unio::tls_identity const& the_identity();

/// Contexts that fit.
unio::tls_context server(unio::tls_options const& options = {});
unio::tls_context client(unio::tls_options options = {});

} // namespace test
