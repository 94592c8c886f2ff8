// A server and a client of HTTP, by Boost.Beast, that know nothing of unio: for `unio simulate`.
//
//   beast_http serve PORT         answers until its standard end: /N with N bytes, each the digit of N % 10
//   beast_http ask PORT           asks for pages of several sizes, over one connection and over new ones
//
// The client ends with 0 if each answer is whole, and belongs to its request.

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using failure = beast::error_code;

std::string page(std::size_t n) { return std::string(n, static_cast<char>('0' + n % 10)); }

class session : public std::enable_shared_from_this<session> {
 public:
  explicit session(tcp::socket s) : stream_(std::move(s)) {}

  void read() {
    request_ = {};
    stream_.expires_after(std::chrono::seconds(30));
    http::async_read(stream_, buffer_, request_, [self = shared_from_this()](failure e, std::size_t) {
      if (e) return self->end();
      self->answer();
    });
  }

 private:
  void answer() {
    response_ = {};
    response_.version(request_.version());
    response_.keep_alive(request_.keep_alive());
    response_.set(http::field::content_type, "text/plain");
    std::size_t const n = std::strtoul(std::string(request_.target().substr(1)).c_str(), nullptr, 10);
    response_.result(request_.method() == http::verb::get ? http::status::ok : http::status::bad_request);
    response_.body() = page(n);
    response_.prepare_payload();
    http::async_write(stream_, response_, [self = shared_from_this()](failure e, std::size_t) {
      if (e || !self->response_.keep_alive()) return self->end();
      self->read();
    });
  }
  void end() {
    failure ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

class server {
 public:
  server(asio::io_context& c, unsigned short port) : acceptor_(c, {asio::ip::address_v4::loopback(), port}) {
    accept();
  }

 private:
  void accept() {
    acceptor_.async_accept([this](failure e, tcp::socket s) {
      if (!e) std::make_shared<session>(std::move(s))->read();
      accept();
    });
  }
  tcp::acceptor acceptor_;
};

int serve(unsigned short port) {
  asio::io_context c(1);
  server const s(c, port);
  c.run();
  return 0;
}

bool get(beast::tcp_stream& to, beast::flat_buffer& buffer, std::size_t n, bool stays) {
  http::request<http::empty_body> request(http::verb::get, "/" + std::to_string(n), 11);
  request.set(http::field::host, "localhost");
  request.keep_alive(stays);
  http::write(to, request);
  http::response<http::string_body> response;
  http::read(to, buffer, response);
  bool const is_right = response.result() == http::status::ok && response.body() == page(n);
  if (!is_right) std::fprintf(stderr, "/%zu: %zu bytes\n", n, response.body().size());
  return is_right;
}

int ask(unsigned short port) {
  asio::io_context c(1);
  bool is_right = true;
  for (int round = 0; round != 2; ++round) {
    beast::tcp_stream to(c);
    beast::flat_buffer buffer;
    to.connect({asio::ip::address_v4::loopback(), port});
    for (std::size_t const n : {0, 1, 300, 5000}) is_right = get(to, buffer, n, true) && is_right;
    is_right = get(to, buffer, 42, false) && is_right;
    failure end;
    char one = 0;
    to.socket().read_some(asio::buffer(&one, 1), end);
    is_right = end == asio::error::eof && is_right;
  }
  return is_right ? 0 : 1;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto const port = static_cast<unsigned short>(std::atoi(argv[2]));
  return argv[1] == std::string_view("serve") ? serve(port) : ask(port);
}
