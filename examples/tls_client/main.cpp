// Shows     a TLS client: fetches a page, with ten seconds for all of it. The server has to prove its name.
// Run       build/release/examples/example_tls_client ADDRESS NAME [ROOTS.pem], such as
//           example_tls_client 93.184.215.14:443 example.org. Without ROOTS.pem the system's are trusted
// Read next ../tls_server/main.cpp, <unio/tls.hpp>

#include <unio/tls.hpp>
#include <unio/unio.hpp>

#include <chrono>
#include <cstdio>
#include <string>

using namespace std::chrono_literals;

namespace {

unio::task<unio::result<void>> fetch(unio::endpoint at, std::string name, unio::tls_context trust,
                                     std::string& page) {
  auto socket = unio::socket_handle::create(at.family()).value();
  if (auto const connected = co_await socket.co_connect(at); !connected) co_return connected.error();
  unio::tls_stream secure(socket, trust, name);
  if (auto const met = co_await secure.co_handshake(); !met) {
    std::fprintf(stderr, "%s\n", secure.why().c_str());
    co_return met.error();
  }
  std::string const request = "GET / HTTP/1.1\r\nHost: " + name + "\r\nConnection: close\r\n\r\n";
  if (auto const sent = co_await unio::write(secure, request); !sent) co_return sent.error();
  std::array<char, 4096> room;
  for (;;) {
    auto const got = co_await secure.co_read(room);
    if (!got) co_return got.error(); // cut off: condition::truncated
    if (got->empty() || got.bytes_transferred() == 0) co_return {};
    page.append(room.data(), got.bytes_transferred());
  }
}

unio::task<unio::result<void>> fetch_in_time(unio::endpoint at, std::string name, unio::tls_context trust,
                                             std::string& page) {
  co_return co_await unio::timeout(10s, fetch(at, name, trust, page));
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fprintf(stderr, "usage: example_tls_client ADDRESS NAME [ROOTS.pem]\n"), 2;
  std::string why;
  auto const at = unio::parse_endpoint(argv[1], &why);
  if (!at) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  unio::tls_options options;
  if (argc > 3) options.roots = unio::tls_pem::file(argv[3]);
  auto const trust = unio::tls_context::client(options, &why);
  if (!trust) return std::fprintf(stderr, "%s\n", why.c_str()), 1;

  std::string page;
  auto const fetched = unio::run(fetch_in_time(*at, argv[2], *trust, page));
  std::fwrite(page.data(), 1, page.size(), stdout);
  if (!fetched) return std::fprintf(stderr, "%s\n", fetched.error().message().c_str()), 1;
}
