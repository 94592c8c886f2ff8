// unio/tls_context.hpp: what TLS connections have in common: whom they trust, and who they are.
//
//   tls_version, tls_verification   what a connection must have
//   tls_pem, tls_identity           certificates and keys, in files or in memory
//   tls_options                     what may be chosen
//   tls_context                     of clients or of a server; made once, used by many connections
//
// Link with unio::tls, which needs OpenSSL 3.0.

#pragma once

#include <unio/result.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace unio::inline v0_1 {

class tls_context;
class tls_engine;
namespace detail {
class tls_state;
}

/// Versions of the protocol, by their numbers in it. Older ones are not spoken.
enum class tls_version : std::uint16_t { none = 0, tls_1_2 = 0x0303, tls_1_3 = 0x0304 };

/// What is asked of the other side's certificate.
enum class tls_verification : std::uint8_t {
  by_role,   ///< clients: required. Servers: none
  none,      ///< it is not looked at. A client then may be talking to anybody
  requested, ///< servers: a client may have none; one that it has must be good
  required,  ///< it must lead to a root, be valid now, and (of a server) have its name as a subjectAltName
};

/// Certificates or a private key as PEM: the name of a file, or the text itself. Default: none. A file
/// without a name and a text without a byte are not none: what is made of them fails.
///
/// Thread safety  distinct: safe; shared: any number of readers
/// Errors         none: nothing is read or checked before a context is made of it
/// Cost           the text is moved
class tls_pem {
 public:
  tls_pem() = default;
  /// What is in a file.
  static tls_pem file(std::string path) { return {static_cast<std::string&&>(path), source::file}; }
  /// The text itself.
  static tls_pem text(std::string pem) { return {static_cast<std::string&&>(pem), source::text}; }

  /// Whether there is none.
  [[nodiscard]] bool empty() const noexcept { return from_ == source::none; }
  [[nodiscard]] bool is_file() const noexcept { return from_ == source::file; }
  [[nodiscard]] std::string const& value() const noexcept { return value_; }

 private:
  enum class source : std::uint8_t { none, file, text };
  tls_pem(std::string value, source from) : value_(static_cast<std::string&&>(value)), from_(from) {}
  std::string value_;
  source from_ = source::none;
};

/// Who one is.
struct tls_identity {
  tls_pem certificates{}; ///< one's own first, then those that lead to a root
  tls_pem key{};          ///< of the first certificate, without a passphrase
};

struct tls_options {
  tls_version minimum = tls_version::tls_1_2;
  tls_version maximum = tls_version::tls_1_3;
  tls_verification verification = tls_verification::by_role;
  tls_pem roots{};                      ///< certificates to trust. None: clients trust the system's
  tls_identity identity = {};           ///< of a client whose server asks for a certificate
  std::vector<std::string> protocols{}; ///< application protocols (ALPN), the preferred first
  bool resumption = true;               ///< later connections may shorten their handshakes
  /// Servers: which context serves the client that asks for this name (SNI, empty if it asks for none),
  /// before anything else is decided. Null: this one. Called inside handshakes, on any thread that performs
  /// one; the context that it points to is copied. The name is what the client has sent, perhaps no name at
  /// all. Must not throw.
  std::function<tls_context const*(std::string_view name)> by_name{};
};

/// What connections have in common. A copy is the same context.
///
/// 0-RTT, renegotiation and compression are off. Resumption is by tickets: a server's end with its context; a
/// client's context keeps the latest of each server name, for 256 names, and uses those of TLS 1.3 once. A
/// ticket is never accepted by another context than the one it is of.
///
/// Thread safety  distinct and shared: safe, but for assignment
/// Lifetime       connections keep what they need of it
/// Cost           making one: what OpenSSL allocates, and reading the files. Copying: an atomic increment
/// Size           16 bytes
/// Source         RFC 8446, RFC 5246; SSL_CTX_new(3)
class UNIO_API tls_context {
 public:
  /// None: connections of it fail.
  tls_context() = default;

  /// For clients.
  ///
  /// Errors  what a file or a text has: ENOENT, EACCES, a code of tls_category(); error::embedded_nul for the
  ///         name of a file; EINVAL for a contradiction in the options. They name the file: "tls_context
  ///         private key /etc/key.pem: …". `*why`, if given, is set to a sentence about it
  /// Blocks  while files are read. The system's roots are looked up in handshakes, as they are needed
  static result<tls_context> client(tls_options const& options = {}, std::string* why = nullptr);
  /// For a server of this identity. Errors as client().
  static result<tls_context> server(tls_identity const& who, tls_options const& options = {},
                                    std::string* why = nullptr);

  [[nodiscard]] explicit operator bool() const noexcept { return state_ != nullptr; }
  /// True if it is a server's. False also without a context.
  [[nodiscard]] bool is_server() const noexcept;

 private:
  friend class tls_engine;
  friend class detail::tls_state;
  static result<tls_context> make(tls_identity const& who, tls_options const& options, bool is_server,
                                  std::string* why);
  std::shared_ptr<detail::tls_state> state_;
};

/// The category of OpenSSL's codes: of a protocol that was broken, of a PEM that cannot be read. Lifetime:
/// static. Concurrency: any thread. Cost: none.
UNIO_API std::error_category const& tls_category() noexcept;
/// Why a certificate was refused: the codes of X509_verify_cert_error_string(3). Lifetime: static.
/// Concurrency: any thread. Cost: none.
UNIO_API std::error_category const& tls_verification_category() noexcept;

} // namespace unio
