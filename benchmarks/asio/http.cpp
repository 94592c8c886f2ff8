// An HTTP server on Beast: each connection is asked again and again (keep-alive), and answers with a short
// text. Compiled several times, as echo/asio.cpp is.

#include "echo/server.h"

#include <boost/asio.hpp>
#include <boost/beast.hpp>
#include <exception>
#include <iostream>
#include <memory>
#include <optional>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;

constexpr char const text[] = "A short text, as an answer of some program would be.\n";

class session {
 public:
  explicit session(tcp::socket s) : stream_(std::move(s)), input_(echo_buffer_size) {}
  // Each operation owns the session.
  static void read(std::unique_ptr<session> self) {
    session& s = *self;
    s.request_ = {};
    http::async_read(s.stream_, s.input_, s.request_,
                     [self = std::move(self)](error_code e, std::size_t) mutable {
                       if (!e) write(std::move(self));
                     });
  }

 private:
  static void write(std::unique_ptr<session> self) {
    session& s = *self;
    s.answer_.emplace(http::status::ok, s.request_.version());
    s.answer_->set(http::field::content_type, "text/plain");
    s.answer_->body() = text;
    s.answer_->keep_alive(s.request_.keep_alive());
    s.answer_->prepare_payload();
    http::async_write(s.stream_, *s.answer_, [self = std::move(self)](error_code e, std::size_t) mutable {
      if (!e && self->answer_->keep_alive()) read(std::move(self));
    });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer input_;
  http::request<http::empty_body> request_;
  std::optional<http::response<http::string_body>> answer_;
};

void accept(tcp::acceptor& listening) {
  listening.async_accept([&listening](error_code e, tcp::socket s) {
    if (e) echo_fail("accept", e.value());
    s.set_option(tcp::no_delay(true));
    session::read(std::make_unique<session>(std::move(s)));
    accept(listening);
  });
}

} // namespace

int main(int argc, char** argv) try {
  asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
  tcp::acceptor listening(context, tcp::v4());
  listening.set_option(tcp::acceptor::reuse_address(true));
  listening.bind({asio::ip::address_v4::loopback(), echo_port(argc, argv)});
  listening.listen(echo_backlog);
  echo_announce(listening.native_handle());
  accept(listening);
  context.run();
  return 0;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
