// Shows     a TLS client: fetches a page by name, with ten seconds for all of it. The server has to prove its
//           name.
// Run       build/release/examples/example_tls_client HOST[:PORT] [ROOTS.pem], such as example.org. Without
//           ROOTS.pem the system's are trusted
// Read next ../http_client/main.cpp, ../tls_server/main.cpp, <unio/tls.hpp>

#include <unio/connect_to.hpp>
#include <unio/tls.hpp>
#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;

namespace {

unio::task<std::string> fetch(std::string host, std::string port, unio::tls_context trust) {
  std::string const there = host + ":" + port;
  unio::socket_handle socket = (co_await unio::co_connect_to(there)).value();
  unio::tls_stream secure(socket, trust, host);
  if (!co_await secure.co_handshake()) throw std::runtime_error(secure.why());
  std::string const request = "GET / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n";
  (co_await unio::co_write(secure, request)).value();
  std::string page;
  for (std::array<char, 4096> room;;) {
    auto const got = co_await secure.co_read(room);
    page.append(room.data(), got.bytes_transferred());
    if (got.value().empty()) co_return page;
  }
}

unio::task<unio::result<std::string>> fetch_in_time(std::string host, std::string port,
                                                    unio::tls_context trust) {
  co_return co_await unio::timeout(10s, fetch(std::move(host), std::move(port), std::move(trust)));
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3)
    return std::fprintf(stderr, "usage: example_tls_client HOST[:PORT] [ROOTS.pem]\n"), 2;
  std::string why;
  unio::tls_options options;
  if (argc > 2) options.roots = unio::tls_pem::file(argv[2]);
  auto const trust = unio::tls_context::client(options, &why);
  if (!trust) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  std::string const there = argv[1];
  std::size_t const colon = there.find(':');
  std::string const port = colon == there.npos ? "443" : there.substr(colon + 1);
  try {
    std::string const page = unio::run(fetch_in_time(there.substr(0, colon), port, *trust)).value();
    std::fwrite(page.data(), 1, page.size(), stdout);
    if (std::fflush(stdout) != 0) return std::fprintf(stderr, "the standard output is full\n"), 1;
  } catch (std::exception const& e) {
    return std::fprintf(stderr, "%s: %s\n", argv[1], e.what()), 1;
  }
}
