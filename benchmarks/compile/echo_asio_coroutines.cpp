// An echo server of Boost.Asio's: a coroutine per connection.

#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <utility>

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

asio::awaitable<void> echo(tcp::socket socket) try {
  std::array<char, 4096> room;
  for (;;) {
    const std::size_t n = co_await socket.async_read_some(asio::buffer(room), asio::use_awaitable);
    co_await asio::async_write(socket, asio::buffer(room, n), asio::use_awaitable);
  }
} catch (boost::system::system_error const&) {
}

asio::awaitable<void> serve(tcp::endpoint at) {
  const auto executor = co_await asio::this_coro::executor;
  tcp::acceptor listening(executor, at);
  for (;;)
    asio::co_spawn(executor, echo(co_await listening.async_accept(asio::use_awaitable)), asio::detached);
}

} // namespace

int main(int argc, char** argv) {
  auto const port = static_cast<unsigned short>(argc > 1 ? std::atoi(argv[1]) : 7777);
  asio::io_context context(1);
  asio::co_spawn(context, serve({asio::ip::address_v4::loopback(), port}), [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  });
  context.run();
}
