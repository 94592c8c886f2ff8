// Shows     CppCon 2015, *Coroutines: a negative overhead abstraction*: one small program as blocking calls,
//           as callbacks, as a state machine written by hand, and as a coroutine. Compare the four files;
//           they do the same.
// Run       build/release/examples/example_tcp_reader
// Read next blocking.cpp, callbacks.cpp, state_machine.cpp, coroutine.cpp, in this order

#include "tcp_reader.hpp"

#include <unio/stream.hpp>
#include <unio/unio.hpp>

#include <cstdio>
#include <string>
#include <thread>

namespace {

constexpr std::size_t sent = 10'000;
constexpr std::int64_t wanted = 12'000;

int right = 0;

void tell(char const* how, outcome const& left) {
  std::printf("%-14s %s\n", how,
              left ? (std::to_string(*left) + " bytes missing").c_str() : left.error().message().c_str());
  if (left && *left == wanted - static_cast<std::int64_t>(sent)) ++right;
}

bool has_ended = false;

} // namespace

int main() {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto const here = listening.local_endpoint().value();
  std::thread server([&] {
    std::string const text(sent, 'x');
    for (int i = 0; i != 4; ++i) {
      auto connection = listening.accept().value();
      unio::run(unio::co_write(connection, text)).value();
    }
  });

  tell("blocking", read_blocking(here, wanted));
  for (auto const start : {read_with_callbacks, read_with_states}) {
    has_ended = false;
    start(here, wanted, [](outcome left) {
      tell("multiplexed", left);
      has_ended = true;
    });
    while (!has_ended) unio::this_thread::multiplexer().run().value();
  }
  tell("awaited", unio::run(read_awaited(here, wanted)));

  server.join();
  return right == 4 ? 0 : 1;
}
