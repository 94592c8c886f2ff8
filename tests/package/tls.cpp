// Prints the version of the unio that it was built with, if unio::tls works.

#include <unio/tls.hpp>
#include <unio/unio.hpp>

#include <cstdio>

int main() {
  auto const context = unio::tls_context::client();
  if (!context) return 1;
  auto pair = unio::socket_handle::pair().value();
  unio::tls_stream stream(pair.first, *context, "example.org");
  if (unio::run(stream.co_handshake(unio::deadline::zero()))) return 1; // nobody is there
  auto const version = unio::version_string();
  std::printf("%.*s\n", static_cast<int>(version.size()), version.data());
}
