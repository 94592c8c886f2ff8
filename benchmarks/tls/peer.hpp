// What all subjects have in common: the certificate, the client on the other processor, the cases.
#pragma once

#include "support/helper_process.hpp"
#include "support/measure.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace benchmarks {

/// A fresh P-256 certificate and its key, as PEM.
struct identity {
  std::string certificate;
  std::string key;
};
identity const& the_identity();

inline constexpr std::size_t block_bytes = 64 * 1024; ///< what a subject reads or writes at a time
inline constexpr std::size_t mib = 1024 * 1024;

/// What a server does with connections; a subject is one. Throws what goes wrong.
class tls_server {
 public:
  virtual ~tls_server() = default;
  /// A whole handshake on a connected socket, which it closes, and one byte written.
  virtual void meet(int socket) = 0;
  /// The same, and then `bytes` bytes received, or sent.
  virtual void receive(int socket, std::uint64_t bytes) = 0;
  virtual void send(int socket, std::uint64_t bytes) = 0;
};

/// The cases of a subject, on a server that `make` makes for each run.
void add_cases(std::vector<benchmark_case>& to, std::string const& subject,
               std::function<std::unique_ptr<tls_server>()> make);

} // namespace benchmarks
