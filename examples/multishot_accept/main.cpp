// Shows     one operation with many values: it accepts connections until it is cancelled. set_value for each,
//           set_done once.
// Run       build/release/examples/example_multishot_accept
// Read next ../echo_server/main.cpp

#include <unio/unio.hpp>

#include <cstdio>
#include <thread>
#include <vector>

namespace {

constexpr int clients = 5;

struct acceptor {
  std::vector<unio::socket_handle>* accepted;
  bool* was_canceled;

  void set_value(unio::io_result<unio::socket_handle>&& got) {
    if (got) {
      std::printf("accepted %s\n", to_string(got->remote_endpoint().value()).c_str());
      accepted->push_back(std::move(*got));
    } else {
      *was_canceled = got.error() == unio::condition::canceled; // the last value is the reason of the end
    }
  }
  void set_done() {}
};

} // namespace

int main() {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto const here = listening.local_endpoint().value();

  std::vector<unio::socket_handle> accepted;
  bool was_canceled = false;
  auto operation = unio::connect(unio::async_accept_many(listening), acceptor{&accepted, &was_canceled});
  operation.start();

  std::jthread const other([here] {
    for (int i = 0; i < clients; ++i) (void)unio::socket_handle::connected_to(here).value();
  });
  while (accepted.size() < clients) listening.multiplexer()->run().value();

  operation.cancel();
  while (!operation.finished()) listening.multiplexer()->run().value();
  return was_canceled ? 0 : 1;
}
