// Shows     a server that serves at most so many connections at once; the others wait in the backlog of the
//           listening socket, which costs them time and this process nothing.
// Run       build/release/examples/example_connection_limit
// Read next <unio/task_group.hpp>, <unio/sync.hpp>, docs/howto/limiting-connections.md

#include <unio/unio.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <vector>

using namespace std::chrono_literals;

namespace {

struct observed {
  int now = 0;
  int most = 0;
  int served = 0;
};

unio::task<> serve(unio::socket_handle socket, unio::semaphore& places, observed& o) {
  o.most = std::max(o.most, ++o.now);
  std::array<char, 64> room;
  auto const got = co_await socket.co_read(room, 10s);
  if (got)
    (void)co_await unio::co_write(socket, unio::const_buffer(room.data(), got.bytes_transferred()), 10s);
  --o.now;
  ++o.served;
  places.release();
}

unio::task<> serve_at_most(unio::listening_socket_handle& listening, std::uint32_t limit, observed& o) {
  unio::semaphore places(limit);
  unio::task_group connections(co_await unio::this_coro::environment);
  // A task: it is awaited before the next connection is accepted.
  auto const admit = [&](unio::socket_handle socket) -> unio::task<> {
    connections.start(serve(std::move(socket), places, o));
    (void)co_await places.co_acquire();
  };
  auto first = co_await places.co_acquire(); // for the connection that is accepted next
  if (!first) co_return;
  (void)co_await unio::co_for_each_connection(listening, admit);
  co_await connections.co_join();
}

unio::task<> ask(unio::endpoint there) {
  auto socket = unio::socket_handle::create(there.family()).value();
  (co_await socket.co_connect(there)).value();
  (co_await unio::co_sleep(1ms)).value();
  (co_await unio::co_write(socket, unio::const_buffer("hello", 5))).value();
  std::array<char, 64> room;
  (co_await socket.co_read(room)).value();
}

unio::task<> ask_many(unio::endpoint there, int clients) {
  std::vector<unio::task<>> all;
  for (int i = 0; i != clients; ++i) all.push_back(ask(there));
  co_await unio::when_all(all);
}

} // namespace

int main() {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto const here = listening.local_endpoint().value();
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  observed o;
  unio::stop_source stop;
  bool ended = false;
  auto const says = [&](unio::task_outcome<void>) { ended = true; };
  unio::async_run(m, serve_at_most(listening, 3, o), says, {.stop = stop.get_token()});
  unio::run(ask_many(here, 20));
  stop.request_stop();
  while (!ended) m.run().value();
  std::printf("%d served, %d at once\n", o.served, o.most);
  return o.served == 20 && o.most <= 3 ? 0 : 1;
}
