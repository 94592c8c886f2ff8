#include "peer.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <system_error>

namespace benchmarks {
namespace {

template <class Write> std::string pem_of(Write write) {
  BIO* const b = BIO_new(BIO_s_mem());
  if (write(b) != 1) throw std::runtime_error("no certificate");
  char* data = nullptr;
  long const size = BIO_get_mem_data(b, &data);
  std::string text(data, static_cast<std::size_t>(size));
  BIO_free(b);
  return text;
}

identity make_identity() {
  EVP_PKEY* const key = EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256");
  X509* const c = X509_new();
  X509_set_version(c, 2);
  ASN1_INTEGER_set(X509_get_serialNumber(c), 1);
  X509_gmtime_adj(X509_getm_notBefore(c), -3600);
  X509_gmtime_adj(X509_getm_notAfter(c), 24 * 3600);
  X509_set_pubkey(c, key);
  X509_set_issuer_name(c, X509_get_subject_name(c));
  if (key == nullptr || X509_sign(c, key, EVP_sha256()) <= 0) throw std::runtime_error("no certificate");
  identity const made{pem_of([&](BIO* b) { return PEM_write_bio_X509(b, c); }), pem_of([&](BIO* b) {
                        return PEM_write_bio_PrivateKey(b, key, nullptr, nullptr, 0, nullptr, nullptr);
                      })};
  X509_free(c);
  EVP_PKEY_free(key);
  return made;
}

enum class work { handshakes, receive, send };

// In the child: the client, always OpenSSL on a socket that blocks.
void be_client(sockaddr_in const& to, work what, std::uint64_t n) {
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  std::vector<unsigned char> block(16 * 1024, 'x');
  for (std::uint64_t i = 0; i != (what == work::handshakes ? n : 1); ++i) {
    int const s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int const on = 1;
    ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (::connect(s, reinterpret_cast<sockaddr const*>(&to), sizeof to) != 0) return;
    SSL* const ssl = SSL_new(context);
    SSL_set_fd(ssl, s);
    if (SSL_connect(ssl) != 1 || SSL_read(ssl, block.data(), 1) != 1) return;
    if (what == work::receive) {
      for (std::uint64_t left = n * mib; left != 0; left -= block.size())
        if (SSL_write(ssl, block.data(), static_cast<int>(block.size())) <= 0) return;
      (void)::read(s, block.data(), 1); // until the subject has closed it
    } else if (what == work::send) {
      while (SSL_read(ssl, block.data(), static_cast<int>(block.size())) > 0) {
      }
    } else {
      (void)SSL_shutdown(ssl);
    }
    SSL_free(ssl);
    ::close(s);
  }
}

double processor_ns() {
  timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

sample run(tls_server& server, work what, std::uint64_t n) {
  int const listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  if (::bind(listening, reinterpret_cast<sockaddr const*>(&here), sizeof here) != 0 ||
      ::listen(listening, 16) != 0 ||
      ::getsockname(listening, reinterpret_cast<sockaddr*>(&here), &size) != 0)
    throw std::system_error(errno, std::generic_category(), "a listening socket");
  helper_process const client([&] { be_client(here, what, n); });
  auto const accept = [&] {
    int const s = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    if (s < 0) throw std::system_error(errno, std::generic_category(), "accept");
    int const on = 1;
    ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return s;
  };
  double spent = 0;
  sample s = measure(n, [&] {
    double const before = processor_ns();
    if (what == work::handshakes) {
      for (std::uint64_t i = 0; i != n; ++i) server.meet(accept());
    } else if (what == work::receive) {
      server.receive(accept(), n * mib);
    } else {
      server.send(accept(), n * mib);
    }
    spent = processor_ns() - before;
  });
  ::close(listening);
  s.value = spent / 1000 / static_cast<double>(n);
  return s;
}

} // namespace

identity const& the_identity() {
  static identity const one = make_identity();
  return one;
}

void add_cases(std::vector<benchmark_case>& to, std::string const& subject,
               std::function<std::unique_ptr<tls_server>()> make) {
  struct kind {
    char const* name;
    work what;
  };
  for (kind const& k : {kind{"handshake", work::handshakes}, kind{"receive 1 MiB", work::receive},
                        kind{"send 1 MiB", work::send}})
    to.push_back({.subject = subject,
                  .parameters = {{"work", k.name}},
                  .run = [make, what = k.what](std::uint64_t n) { return run(*make(), what, n); }});
}

} // namespace benchmarks
