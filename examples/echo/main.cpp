// Shows     a whole server: any number of connections, each a task, which echoes until its peer leaves or is
//           silent for 30 seconds.
// Run       build/release/examples/example_echo [ADDRESS], such as unix:/tmp/echo; else 127.0.0.1:7777
// Read next ../echo_server_awaited/main.cpp: one that ends in order; docs/course

#include <unio/unio.hpp>

#include <array>

unio::task<> echo(unio::socket_handle socket) {
  std::array<char, 4096> room;
  while (auto const got = co_await socket.co_read(room, std::chrono::seconds(30))) {
    if (got->empty()) co_return; // the peer has left
    auto const sent = co_await unio::co_write(socket, *got, std::chrono::seconds(30));
    if (!sent) co_return;
  }
}

unio::task<unio::result<void>> serve(unio::listening_socket_handle& listening) {
  unio::task_group connections(co_await unio::this_coro::environment);
  co_return co_await unio::co_for_each_connection(
      listening, [&](unio::socket_handle socket) { connections.start(echo(std::move(socket))); });
}

int main(int argc, char** argv) {
  auto const here = unio::parse_endpoint(argc > 1 ? argv[1] : "127.0.0.1:7777").value();
  auto listening = unio::listening_socket_handle::listen(here).value();
  unio::run(serve(listening)).value(); // until the socket fails
}
