// Shows     thread per core: each thread runs its own multiplexer and listening socket, and the kernel
//           spreads the connections among them (SO_REUSEPORT). Nothing is shared, so nothing is locked.
// Run       build/release/examples/example_own_multiplexer_per_thread
// Read next examples/shared_multiplexer/main.cpp, the other way to use several threads

#include <unio/unio.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <thread>
#include <vector>

namespace {

constexpr int threads = 4;
constexpr int clients = 32;
std::atomic<int> total{0};

struct acceptor {
  int* accepted;
  void set_value(unio::io_result<unio::socket_handle>&& got) {
    if (!got) return;
    ++*accepted; // this thread's
    ++total;
  }
  void set_done() {}
};

void serve(int thread, unio::listening_socket_handle& listening) {
  int accepted = 0;
  auto operation = unio::connect(unio::async_accept_many(listening), acceptor{&accepted});
  operation.start();
  unio::io_multiplexer& m = unio::this_thread::multiplexer(); // made for this thread on first use
  while (total < clients) m.try_run_for(std::chrono::milliseconds(10)).value();
  operation.cancel();
  while (!operation.finished()) m.run().value();
  std::printf("thread %d accepted %d on %s\n", thread, accepted, m.capabilities().driver);
}

} // namespace

int main() {
  std::array<unio::listening_socket_handle, threads> listening;
  unio::endpoint at = unio::endpoint::ipv4_loopback(0);
  for (auto& l : listening) {
    l = unio::listening_socket_handle::listen(at, {.reuse_port = true}).value();
    at = l.local_endpoint().value(); // the port that the kernel chose for the first
  }

  std::vector<std::jthread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(serve, i, std::ref(listening[i]));
  for (int i = 0; i < clients; ++i) (void)unio::socket_handle::connected_to(at).value();
}
