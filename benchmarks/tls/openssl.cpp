// tls_openssl: OpenSSL as its manual pages have it, on a socket that blocks.

#include "openssl_context.hpp"
#include "peer.hpp"

#include <unistd.h>

#include <algorithm>

namespace {

using namespace benchmarks;

class server final : public tls_server {
 public:
  void meet(int socket) override { close(open(socket), socket); }
  void receive(int socket, std::uint64_t bytes) override {
    SSL* const ssl = open(socket);
    while (bytes != 0) {
      int const n = SSL_read(ssl, block_.data(), static_cast<int>(block_.size()));
      if (n <= 0) throw std::runtime_error("the stream has ended");
      bytes -= static_cast<std::uint64_t>(n);
    }
    close(ssl, socket);
  }
  void send(int socket, std::uint64_t bytes) override {
    SSL* const ssl = open(socket);
    for (; bytes != 0; bytes -= std::min<std::uint64_t>(bytes, block_.size()))
      if (SSL_write(ssl, block_.data(), static_cast<int>(block_.size())) <= 0)
        throw std::runtime_error("the stream has ended");
    (void)SSL_shutdown(ssl);
    close(ssl, socket);
  }

 private:
  SSL* open(int socket) {
    SSL* const ssl = SSL_new(context_.get());
    SSL_set_fd(ssl, socket);
    if (SSL_accept(ssl) != 1 || SSL_write(ssl, "x", 1) != 1) throw std::runtime_error("no handshake");
    return ssl;
  }
  static void close(SSL* ssl, int socket) {
    SSL_free(ssl);
    ::close(socket);
  }
  openssl_context context_;
  std::vector<unsigned char> block_ = std::vector<unsigned char>(block_bytes, 'x');
};

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "openssl, blocking", [] { return std::make_unique<server>(); });
  return subject_main(argc, argv, cases);
}
