// tls_asio: ssl::stream with coroutines, on a context of OpenSSL's with the same settings as the others.

#include "openssl_context.hpp"
#include "peer.hpp"

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <exception>

namespace {

using namespace benchmarks;
namespace asio = boost::asio;

using executor = asio::io_context::executor_type; // not any_io_executor: calls through a table cost more
using socket_type = asio::basic_stream_socket<asio::ip::tcp, executor>;
using stream_type = asio::ssl::stream<socket_type>;

class server final : public tls_server {
 public:
  server() : context_(asio::ssl::context::tls_server) {
    context_.set_options(asio::ssl::context::no_tlsv1_2 | asio::ssl::context::no_tlsv1_1);
    SSL_CTX_set_session_cache_mode(context_.native_handle(), SSL_SESS_CACHE_OFF);
    context_.use_certificate_chain(asio::buffer(the_identity().certificate));
    context_.use_private_key(asio::buffer(the_identity().key), asio::ssl::context::pem);
  }
  void meet(int socket) override {
    with(socket, [](stream_type&) -> asio::awaitable<void, executor> { co_return; });
  }
  void receive(int socket, std::uint64_t bytes) override {
    with(socket, [this, bytes](stream_type& s) -> asio::awaitable<void, executor> {
      for (std::uint64_t left = bytes; left != 0;)
        left -= co_await s.async_read_some(asio::buffer(block_), asio::deferred);
    });
  }
  void send(int socket, std::uint64_t bytes) override {
    with(socket, [this, bytes](stream_type& s) -> asio::awaitable<void, executor> {
      for (std::uint64_t left = bytes; left != 0; left -= block_.size())
        co_await asio::async_write(s, asio::buffer(block_), asio::deferred);
    });
  }

 private:
  template <class F> void with(int socket, F f) {
    stream_type stream(socket_type(io_.get_executor(), asio::ip::tcp::v4(), socket), context_);
    auto const body = [&]() -> asio::awaitable<void, executor> {
      co_await stream.async_handshake(asio::ssl::stream_base::server, asio::deferred);
      co_await asio::async_write(stream, asio::buffer("x", 1), asio::deferred);
      co_await f(stream);
    };
    asio::co_spawn(io_, body(), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    io_.restart();
    io_.run();
  }
  asio::io_context io_{1};
  asio::ssl::context context_;
  std::vector<unsigned char> block_ = std::vector<unsigned char>(block_bytes, 'x');
};

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "asio coroutines", [] { return std::make_unique<server>(); });
  return subject_main(argc, argv, cases);
}
