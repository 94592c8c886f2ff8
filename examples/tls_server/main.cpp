// Shows     a TLS server: each connection is a task, which has five seconds for its handshake and ten for its
//           request, and says how it was encrypted.
// Run       build/release/examples/example_tls_server ADDRESS CERTIFICATES.pem KEY.pem, such as
//           127.0.0.1:8443; make the files with
//           openssl req -x509 -newkey ed25519 -nodes -subj /CN=localhost
//             -addext subjectAltName=DNS:localhost -keyout key.pem -out certificate.pem
// Read next ../tls_client/main.cpp, <unio/tls_context.hpp>

#include <unio/tls.hpp>
#include <unio/unio.hpp>

#include <chrono>
#include <cstdio>
#include <string>

using namespace std::chrono_literals;

namespace {

unio::task<> serve(unio::socket_handle socket, unio::tls_context const& identity) {
  unio::tls_stream secure(socket, identity);
  if (auto const met = co_await secure.co_handshake(5s); !met) {
    std::fprintf(stderr, "%s\n", secure.why().empty() ? met.error().message().c_str() : secure.why().c_str());
    co_return;
  }
  std::string request;
  auto const asked =
      co_await unio::co_read_until(secure, unio::dynamic_buffer(request, 8192), "\r\n\r\n", 10s);
  if (!asked) co_return;
  std::string const text = "You speak " + std::string(secure.connection().cipher()) + ".\n";
  std::string const answer =
      "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(text.size()) + "\r\n\r\n" +
      text;
  if (auto const sent = co_await unio::co_write(secure, answer, 10s); !sent) co_return;
  (void)co_await secure.co_shutdown(unio::tls_stream::send, 1s);
}

unio::task<unio::result<void>> serve_all(unio::listening_socket_handle& listening,
                                         unio::tls_context const& identity) {
  unio::task_group connections(co_await unio::this_coro::environment);
  auto const start = [&](unio::socket_handle s) { connections.start(serve(std::move(s), identity)); };
  unio::result<void> const ended = co_await unio::co_for_each_connection(listening, start);
  co_await connections.co_join();
  co_return ended;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 4)
    return std::fprintf(stderr, "usage: example_tls_server ADDRESS CERTIFICATES.pem KEY.pem\n"), 2;
  std::string why;
  auto const at = unio::parse_endpoint(argv[1], &why);
  if (!at) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  unio::tls_identity const who{unio::tls_pem::file(argv[2]), unio::tls_pem::file(argv[3])};
  auto const identity = unio::tls_context::server(who, {}, &why);
  if (!identity) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  auto listening = unio::listening_socket_handle::listen(*at);
  if (!listening) return std::fprintf(stderr, "%s\n", listening.error().message().c_str()), 1;
  std::printf("listening on %s\n", to_string(listening->local_endpoint().value()).c_str());
  std::fflush(stdout);
  auto const ended = unio::run(serve_all(*listening, *identity));
  return std::fprintf(stderr, "%s\n", ended.error().message().c_str()), 1;
}
