// The whole program with Asio: callbacks, or a coroutine where COROUTINE is defined.

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <cstdlib>

namespace {

namespace asio = boost::asio;
using executor = asio::io_context::executor_type;
using socket_type = asio::basic_stream_socket<asio::ip::tcp, executor>;

struct reader {
  socket_type socket;
  std::int64_t left;
  std::array<char, 4096> room{};

#if defined(COROUTINE)
  asio::awaitable<void, executor> read_all(asio::ip::tcp::endpoint from) {
    co_await socket.async_connect(from, asio::deferred);
    do {
      left -= static_cast<std::int64_t>(co_await socket.async_read_some(asio::buffer(room), asio::deferred));
    } while (left > 0);
  }
#else
  void begin(asio::ip::tcp::endpoint const& from) {
    socket.async_connect(from, [this](boost::system::error_code const& error) {
      if (!error) read_next();
    });
  }
  void read_next() {
    socket.async_read_some(asio::buffer(room),
                           [this](boost::system::error_code const& error, std::size_t bytes) {
                             left -= static_cast<std::int64_t>(bytes);
                             if (!error && left > 0) read_next();
                           });
  }
#endif
};

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  asio::io_context io(1);
  asio::ip::tcp::endpoint const from(asio::ip::address_v4::loopback(),
                                     static_cast<std::uint16_t>(std::atoi(argv[1])));
  reader r{.socket = socket_type(io.get_executor()), .left = std::atoll(argv[2])};
#if defined(COROUTINE)
  asio::co_spawn(io, r.read_all(from), asio::detached);
#else
  r.begin(from);
#endif
  io.run();
  return r.left == 0 ? 0 : 1;
}
