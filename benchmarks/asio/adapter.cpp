// An echo server of Asio's coroutines on unio's sockets: <unio/asio.hpp>. But for the types of its sockets
// and its context it does what echo/asio.cpp does by coroutines.

#include "echo/server.h"

#include <unio/asio.hpp>

#include <array>
#include <asio.hpp>
#include <cerrno>
#include <exception>
#include <iostream>

namespace {

using stream = unio::asio_stream<unio::socket_handle>;

asio::awaitable<void> echo(stream s) try {
  std::array<char, echo_buffer_size> buffer;
  for (;;) {
    std::size_t const n = co_await s.async_read_some(asio::buffer(buffer), asio::use_awaitable);
    co_await asio::async_write(s, asio::buffer(buffer.data(), n), asio::use_awaitable);
  }
} catch (asio::system_error const&) {
  // The end of the connection.
}

asio::awaitable<void> accept(unio::asio_acceptor& listening) {
  for (;;) {
    stream s = co_await listening.async_accept(asio::use_awaitable);
    echo_no_delay(s.wrapped().native_handle());
    asio::co_spawn(listening.get_executor(), echo(std::move(s)), asio::detached);
  }
}

} // namespace

int main(int argc, char** argv) try {
  unio::asio_context context;
  unio::asio_acceptor listening(context, unio::endpoint::ipv4_loopback(echo_port(argc, argv)));
  echo_announce(listening.wrapped().native_handle());
  asio::co_spawn(context, accept(listening), [](std::exception_ptr e) {
    if (e) std::rethrow_exception(e);
  });
  context.run();
  return 0;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
