// unio's sockets in a program of Asio's: an echo server and its client as coroutines of Asio's.
//
//   g++ -std=c++23 main.cpp $(pkg-config --cflags --libs unio_asio_adapter) && ./a.out
//
// The context's loop is a multiplexer of unio's, so tasks of unio's run in it, too. With Boost.Asio:
// -DUNIO_ASIO_BOOST, and boost::asio for asio. Next: docs/howto/asio-adapter.md.

#include <unio/asio.hpp>
#include <unio/when.hpp>

#include <array>
#include <asio.hpp>
#include <chrono>
#include <cstdio>
#include <string>

using stream = unio::asio_stream<unio::socket_handle>;
using namespace std::chrono_literals;

asio::awaitable<void> echo(stream peer) {
  std::array<char, 1024> room;
  std::error_code ec;
  while (!ec) {
    auto const n =
        co_await peer.async_read_some(asio::buffer(room), asio::redirect_error(asio::use_awaitable, ec));
    if (!ec) co_await asio::async_write(peer, asio::buffer(room.data(), n), asio::use_awaitable);
  }
}

asio::awaitable<void> serve(unio::asio_acceptor& acceptor) {
  asio::co_spawn(acceptor.get_executor(), echo(co_await acceptor.async_accept(asio::use_awaitable)),
                 asio::detached);
}

// A task of unio's, which the client awaits.
unio::task<std::string> greeting() {
  (void)co_await unio::co_sleep(1ms);
  co_return "hello from a task";
}

asio::awaitable<void> ask(unio::asio_context& context, unio::endpoint server) {
  stream peer(context, unio::socket_handle::create(server.family()).value());
  co_await peer.async_connect(server, asio::use_awaitable);
  std::string text = co_await unio::async_start(greeting(), asio::use_awaitable);
  co_await asio::async_write(peer, asio::buffer(text), asio::use_awaitable);
  co_await asio::async_read(peer, asio::buffer(text), asio::use_awaitable);
  std::printf("%s\n", text.c_str());
}

// An operation of Asio's in a task of unio's.
unio::task<> wait(asio::steady_timer& timer) {
  unio::result<void> const r = co_await timer.async_wait(unio::use_task);
  std::printf("Asio's timer: %s\n", r.has_value() ? "expired" : r.error().message().c_str());
}

int main() {
  unio::asio_context context;
  unio::asio_acceptor acceptor(context, unio::endpoint::ipv4_loopback(0));
  asio::co_spawn(context, serve(acceptor), asio::detached);
  asio::co_spawn(context, ask(context, acceptor.local_endpoint()), asio::detached);
  asio::steady_timer timer(context, 10ms);
  unio::async_run(context.multiplexer(), wait(timer));
  context.run();
}
