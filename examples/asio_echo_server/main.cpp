// Shows     a program of Asio on unio's drivers: nothing in it knows of unio. It is compiled with unio::asio,
//           and UNIO_DRIVER chooses epoll or uring when it runs. Without arguments it is its own client.
// Run       build/release/examples/example_asio_echo_server [PORT]
// Read next ../echo_server/main.cpp, the same with unio's own operations; docs/howto/asio.md

#include <array>
#include <asio.hpp>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

namespace {

using asio::ip::tcp;

class session : public std::enable_shared_from_this<session> {
 public:
  explicit session(tcp::socket s) : socket_(std::move(s)) {}
  void read() {
    socket_.async_read_some(asio::buffer(room_),
                            [self = shared_from_this()](asio::error_code e, std::size_t n) {
                              if (!e) self->write(n);
                            });
  }

 private:
  void write(std::size_t n) {
    asio::async_write(socket_, asio::buffer(room_, n),
                      [self = shared_from_this()](asio::error_code e, std::size_t) {
                        if (!e) self->read();
                      });
  }
  tcp::socket socket_;
  std::array<char, 4096> room_{};
};

void accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([&acceptor](asio::error_code e, tcp::socket s) {
    if (!acceptor.is_open()) return;
    if (!e) {
      std::make_shared<session>(std::move(s))->read();
      return accept(acceptor);
    }
    // Out of descriptors, perhaps: others will end.
    auto const pause = std::make_shared<asio::steady_timer>(acceptor.get_executor(), 100ms);
    pause->async_wait([&acceptor, pause](asio::error_code) { accept(acceptor); });
  });
}

} // namespace

int main(int argc, char** argv) {
  bool const serves = argc > 1;
  std::string_view const text = serves ? argv[1] : "0";
  unsigned short port = 0;
  auto const [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (wrong != std::errc() || end != text.data() + text.size()) {
    std::fputs("usage: example_asio_echo_server [PORT]\n", stderr);
    return 2;
  }
  asio::io_context context;
  tcp::acceptor acceptor(context, {asio::ip::address_v6::loopback(), port});
  accept(acceptor);
  if (serves) {
    asio::signal_set signals(context, SIGINT, SIGTERM);
    signals.async_wait([&](asio::error_code, int) { context.stop(); });
    std::printf("port %u\n", acceptor.local_endpoint().port());
    std::fflush(stdout);
    context.run();
    return 0;
  }

  tcp::socket client(context);
  std::string answer;
  client.async_connect(acceptor.local_endpoint(), [&](asio::error_code e) {
    if (e) return;
    asio::write(client, asio::buffer("hello\n", 6));
    asio::async_read_until(client, asio::dynamic_buffer(answer), '\n', [&](asio::error_code, std::size_t) {
      client.close();
      acceptor.close();
    });
  });
  context.run();
  std::printf("%s", answer.c_str());
  return answer == "hello\n" ? 0 : 1;
}
