// Shows     workers that share nothing: each has a thread, a multiplexer and a listening socket of its own on
//           the same address (SO_REUSEPORT), and the kernel spreads the connections over them.
// Run       build/release/examples/example_reuse_port_workers
// Read next <unio/socket_handle.hpp>, <unio/socket_options.hpp>, examples/own_multiplexer_per_thread

#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

struct worker {
  unio::listening_socket_handle listener;
  int served = 0;

  // Every coroutine below runs on the thread that calls this, so nothing is locked.
  void run(unio::stop_token stop) { unio::run(accept_connections(), {.stop = stop}); }

 private:
  unio::task<> accept_connections() {
    (void)co_await unio::co_for_each_connection(
        listener, [this](unio::socket_handle s) { return serve(std::move(s)); });
  }
  unio::task<> serve(unio::socket_handle connection) {
    ++served;
    (void)co_await connection.co_write(std::string_view("served"), 5s);
  }
};

} // namespace

int main() {
  std::array<worker, 2> workers;
  unio::endpoint at = unio::endpoint::ipv4_loopback(0);
  for (worker& w : workers) {
    w.listener = unio::listening_socket_handle::listen(at, {.reuse_port = true}).value();
    at = w.listener.local_endpoint().value(); // the port that was chosen for the first is that of all
    w.listener.set(unio::option::no_delay, true).value(); // accepted sockets inherit it
  }

  int answered = 0;
  {
    unio::stop_source stop;
    std::vector<std::jthread> threads;
    for (worker& w : workers) threads.emplace_back([&] { w.run(stop.get_token()); });
    for (int i = 0; i < 50; ++i) {
      auto client = unio::socket_handle::connected_to(at, 5s).value();
      std::array<char, 16> room;
      if (client.read(room, 5s).bytes_transferred() == 6) ++answered;
    }
    stop.request_stop();
  }
  for (worker const& w : workers) std::printf("a worker served %d of %d\n", w.served, answered);
  return answered == 50 ? 0 : 1;
}
