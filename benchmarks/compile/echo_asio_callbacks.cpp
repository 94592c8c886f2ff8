// An echo server of Boost.Asio's: callbacks, and an object per connection that they share.

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <utility>

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

class session : public std::enable_shared_from_this<session> {
 public:
  explicit session(tcp::socket s) : socket_(std::move(s)) {}

  void read() {
    socket_.async_read_some(asio::buffer(room_),
                            [self = shared_from_this()](boost::system::error_code error, std::size_t n) {
                              if (!error) self->write(n);
                            });
  }

 private:
  void write(std::size_t n) {
    asio::async_write(socket_, asio::buffer(room_, n),
                      [self = shared_from_this()](boost::system::error_code error, std::size_t) {
                        if (!error) self->read();
                      });
  }

  tcp::socket socket_;
  std::array<char, 4096> room_;
};

void accept(tcp::acceptor& listening) {
  listening.async_accept([&listening](boost::system::error_code error, tcp::socket connection) {
    if (error) throw boost::system::system_error(error);
    std::make_shared<session>(std::move(connection))->read();
    accept(listening);
  });
}

} // namespace

int main(int argc, char** argv) {
  auto const port = static_cast<unsigned short>(argc > 1 ? std::atoi(argv[1]) : 7777);
  asio::io_context context(1);
  tcp::acceptor listening(context, {asio::ip::address_v4::loopback(), port});
  accept(listening);
  context.run();
}
