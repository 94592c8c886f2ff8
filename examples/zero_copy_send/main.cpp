// Shows     an operation with two ends. set_value: the bytes are accepted. set_done: the memory is free
//           again. For a zero-copy send these are different moments, since the network may read the pages
//           until the peer has the bytes.
// Run       build/release/examples/example_zero_copy_send
// Read next <unio/socket_handle.hpp>, <unio/operation.hpp>

#include <unio/unio.hpp>

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <thread>
#include <vector>

namespace {

using std::chrono::steady_clock;

struct receiver {
  std::size_t* sent;
  steady_clock::time_point began = steady_clock::now();

  void set_value(unio::io_result<unio::const_buffers>&& r) {
    *sent = r.bytes_transferred();
    say("set_value: the bytes are on their way");
  }
  void set_done() { say("set_done:  the memory is free"); }

 private:
  void say(char const* what) const {
    auto const us =
        std::chrono::duration_cast<std::chrono::microseconds>(steady_clock::now() - began).count();
    std::printf("%6lld us  %s\n", static_cast<long long>(us), what);
  }
};

// Leaves the bytes unread for a while, so that the pages stay in use.
void receive(unio::socket_handle& peer) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::vector<std::byte> room(65536);
  while (peer.read(room).value().bytes() != 0) {
  }
}

} // namespace

int main() {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto socket = unio::socket_handle::connected_to(listening.local_endpoint().value()).value();
  auto peer = listening.accept().value();

  std::vector<std::byte> const bytes(100'000);
  std::size_t sent = 0;
  {
    std::jthread const other([&] { receive(peer); });
    auto operation = unio::connect(unio::async_send_zero_copy(socket, bytes), receiver{&sent});
    operation.start();
    while (!operation.completed()) socket.multiplexer()->run().value();
    while (!operation.finished()) socket.multiplexer()->run().value();
    socket.shutdown(unio::socket_handle::side::send).value();
  }
  bool const avoids_copy = socket.multiplexer()->capabilities().zero_copy_send;
  std::printf("%zu bytes; this driver %s\n", sent, avoids_copy ? "can send without copying" : "copies");
  return sent != 0 ? 0 : 1;
}
