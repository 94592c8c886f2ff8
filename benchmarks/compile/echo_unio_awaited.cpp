// An echo server of unio's: a coroutine per connection.

#include <unio/run.hpp>
#include <unio/socket_handle.hpp>
#include <unio/stream.hpp>

#include <array>
#include <cstdlib>
#include <utility>

namespace {

unio::task<> echo(unio::socket_handle socket) {
  std::array<char, 4096> room;
  for (;;) {
    auto const got = co_await socket.co_read(room);
    if (!got || got->empty()) co_return;
    auto const sent =
        co_await unio::co_write(socket, unio::const_buffer(room.data(), got.bytes_transferred()));
    if (!sent) co_return;
  }
}

unio::task<> serve(unio::endpoint at) {
  auto listening = unio::listening_socket_handle::listen(at).value();
  for (;;) {
    auto connection = co_await listening.co_accept();
    unio::async_run(unio::this_thread::multiplexer(), echo(std::move(connection).value()));
  }
}

} // namespace

int main(int argc, char** argv) {
  auto const port = static_cast<unsigned short>(argc > 1 ? std::atoi(argv[1]) : 7777);
  unio::run(serve(unio::endpoint::ipv4_loopback(port)));
}
