// unio/asio.hpp with Boost: Beast's HTTP and websockets, and Asio's ssl::stream, on streams of unio's.

#include "asio_flavour.hpp"
#include "support/test.hpp"
#include "tls/certificates.hpp"

#include <unio/tls.hpp>

#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

namespace {

namespace beast = boost::beast;
namespace http = beast::http;
namespace websocket = beast::websocket;
using namespace asio_tests;
using stream = unio::asio_stream<unio::socket_handle>;
using unio::asio_context;

template <class Stream> asio::awaitable<void> serve(Stream s) {
  beast::flat_buffer buffer;
  for (;;) {
    http::request<http::string_body> request;
    auto const [ec, n] = co_await http::async_read(s, buffer, request, tokens::as_tuple(asio::use_awaitable));
    if (ec) break;
    http::response<http::string_body> response(http::status::ok, request.version());
    response.body() = std::string(request.target()) + request.body();
    response.keep_alive(request.keep_alive());
    response.prepare_payload();
    co_await http::async_write(s, response, asio::use_awaitable);
  }
}
template <class Stream> asio::awaitable<void> ask(Stream& s, std::size_t size, int& answers) {
  beast::flat_buffer buffer;
  for (int i = 0; i != 3; ++i) {
    http::request<http::string_body> request(http::verb::post, "/path", 11);
    request.set(http::field::host, "example.test");
    request.body() = std::string(size, 'b');
    request.prepare_payload();
    co_await http::async_write(s, request, asio::use_awaitable);
    http::response<http::string_body> response;
    co_await http::async_read(s, buffer, response, asio::use_awaitable);
    if (response.body() == "/path" + request.body()) ++answers;
  }
}

TEST(asio_beast, serves_http) {
  asio_context context;
  ends e(context);
  int answers = 0;
  asio::co_spawn(context, serve(std::move(e.a)), asio::detached);
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    co_await ask(e.b, 10, answers);
    beast::close_socket(beast::get_lowest_layer(e.b));
  });
  context.run();
  EXPECT_EQ(answers, 3);
  EXPECT_FALSE(e.b.is_open());
}

TEST(asio_beast, serves_http_with_bodies_of_many_reads) {
  asio_context context;
  ends e(context);
  int answers = 0;
  asio::co_spawn(context, serve(std::move(e.a)), asio::detached);
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    co_await ask(e.b, 700'000, answers);
    e.b.close();
  });
  context.run();
  EXPECT_EQ(answers, 3);
}

TEST(asio_beast, serves_http_synchronously) {
  asio_context context;
  ends e(context);
  http::request<http::string_body> request(http::verb::get, "/x", 11);
  request.prepare_payload();
  http::write(e.a, request);
  beast::flat_buffer buffer;
  http::request<http::string_body> got;
  http::read(e.b, buffer, got);
  EXPECT_EQ(got.target(), "/x");
}

template <class Stream> asio::awaitable<void> echo_messages(Stream& s, websocket::close_reason& reason) {
  websocket::stream<Stream&> ws(s);
  co_await ws.async_accept(asio::use_awaitable);
  beast::flat_buffer buffer;
  for (;;) {
    auto const [ec, n] = co_await ws.async_read(buffer, tokens::as_tuple(asio::use_awaitable));
    if (ec) break;
    co_await ws.async_write(buffer.data(), asio::use_awaitable);
    buffer.consume(buffer.size());
  }
  reason = ws.reason();
}
template <class Stream>
asio::awaitable<void> exchange_messages(Stream& s, int& echoed, asio_error_code& closed) {
  websocket::stream<Stream&> ws(s);
  co_await ws.async_handshake("example.test", "/", asio::use_awaitable);
  for (std::size_t const size : {1u, 1000u, 200'000u}) {
    std::string const sent(size, 'm');
    co_await ws.async_write(asio::buffer(sent), asio::use_awaitable);
    beast::flat_buffer buffer;
    co_await ws.async_read(buffer, asio::use_awaitable);
    if (beast::buffers_to_string(buffer.data()) == sent) ++echoed;
  }
  co_await ws.async_close("bye", asio::redirect_error(asio::use_awaitable, closed));
}

TEST(asio_beast, exchanges_messages_on_a_websocket_and_closes_it) {
  asio_context context;
  ends e(context);
  int echoed = 0;
  asio_error_code closed;
  websocket::close_reason reason;
  asio::co_spawn(context, echo_messages(e.a, reason), asio::detached);
  asio::co_spawn(context, exchange_messages(e.b, echoed, closed), asio::detached);
  // Beast's timers are Asio's, with a thread of their own.
  context.run_for(10s);
  EXPECT_EQ(echoed, 3);
  EXPECT_FALSE(closed) << closed.message();
  EXPECT_EQ(reason.reason, "bye");
  EXPECT_FALSE(e.a.is_open()); // torn down
}

TEST(asio_beast, tears_down_synchronously) {
  asio_context context;
  ends e(context);
  asio_error_code ec;
  e.b.write_some(asio::buffer("rest", 4));
  e.b.close();
  using websocket::teardown;
  teardown(beast::role_type::server, e.a, ec);
  EXPECT_FALSE(ec);
  EXPECT_FALSE(e.a.is_open());
}

struct tls {
  asio::ssl::context server{asio::ssl::context::tls_server};
  asio::ssl::context client{asio::ssl::context::tls_client};
  tls() {
    auto const& identity = test::the_identity();
    server.use_certificate_chain(asio::buffer(identity.certificates.value()));
    server.use_private_key(asio::buffer(identity.key.value()), asio::ssl::context::pem);
    client.add_certificate_authority(asio::buffer(test::the_authority().root().value()));
    client.set_verify_mode(asio::ssl::verify_peer);
    client.set_verify_callback(asio::ssl::host_name_verification("example.test"));
  }
};

TEST(asio_ssl, runs_asios_tls_on_a_stream_of_unios) {
  asio_context context;
  tls t;
  ends e(context);
  asio::ssl::stream<stream> server(std::move(e.a), t.server), client(std::move(e.b), t.client);
  std::string const sent(100'000, 's');
  std::string got(sent.size(), ' ');
  asio_error_code closed;
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    co_await server.async_handshake(asio::ssl::stream_base::server, asio::use_awaitable);
    co_await asio::async_write(server, asio::buffer(sent), asio::use_awaitable);
    co_await server.async_shutdown(asio::redirect_error(asio::use_awaitable, closed));
  });
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    co_await client.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
    co_await asio::async_read(client, asio::buffer(got), asio::use_awaitable);
    asio_error_code ignored;
    co_await client.async_shutdown(asio::redirect_error(asio::use_awaitable, ignored));
    client.lowest_layer().close();
  });
  context.run();
  EXPECT_EQ(got, sent);
  EXPECT_FALSE(closed) << closed.message();
}

TEST(asio_ssl, runs_websockets_over_asios_tls) {
  asio_context context;
  tls t;
  ends e(context);
  asio::ssl::stream<stream> server(std::move(e.a), t.server), client(std::move(e.b), t.client);
  int echoed = 0;
  asio_error_code closed;
  websocket::close_reason reason;
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    co_await server.async_handshake(asio::ssl::stream_base::server, asio::use_awaitable);
    co_await echo_messages(server, reason);
  });
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    co_await client.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
    co_await exchange_messages(client, echoed, closed);
  });
  context.run_for(10s);
  EXPECT_EQ(echoed, 3);
}

TEST(asio_ssl, speaks_with_unios_tls_stream_on_the_other_side) {
  asio_context context;
  ends e(context);
  auto const trust = test::client();
  auto const own = test::server();
  unio::tls_stream server_tls(e.a.wrapped(), own);
  unio::tls_stream client_tls(e.b.wrapped(), trust, "example.test");
  unio::asio_stream<unio::tls_stream&> server(context, server_tls), client(context, client_tls);
  int answers = 0;
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    auto const met = co_await unio::async_start(context, server_tls.co_handshake(), asio::use_awaitable);
    EXPECT_TRUE(met.has_value());
    co_await serve(std::move(server));
  });
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    auto const met = co_await unio::async_start(context, client_tls.co_handshake(), asio::use_awaitable);
    EXPECT_TRUE(met.has_value());
    co_await ask(client, 50'000, answers);
    (void)co_await unio::async_start(context, client_tls.co_shutdown(), asio::use_awaitable);
  });
  context.run();
  EXPECT_EQ(answers, 3);
}

} // namespace
