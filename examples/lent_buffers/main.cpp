// Shows     ten thousand connections that hold no buffer while they are silent. When all of them speak at
//           once they share sixteen; those that find none wait for one, in the order of their arrival.
// Run       build/release/examples/example_lent_buffers
// Read next ../registered_buffers/main.cpp; include/unio/buffer_pool.hpp: what a pool promises

#include <unio/unio.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <vector>

namespace {

unio::task<> echo(unio::socket_handle& socket, unio::buffer_pool& pool) {
  for (;;) {
    auto got = co_await socket.co_receive(pool);
    if (!got.has_value() || !*got) co_return; // the peer has left
    if (!co_await unio::co_write(socket, unio::const_buffer(got->data(), got->size()))) co_return;
  } // here the buffer goes home
}

unio::task<> ask(unio::socket_handle& socket, int& answers) {
  char text[] = "hello";
  (void)co_await socket.co_write(unio::const_buffer(text, sizeof text));
  auto const got = co_await socket.co_read(unio::mutable_buffer(text));
  if (got.has_value() && got.bytes_transferred() == sizeof text) ++answers;
  (void)socket.shutdown(unio::socket_handle::side::send);
}

// As many connections as this process may have descriptors for.
std::size_t affordable(std::size_t wanted) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  return std::min<std::size_t>(wanted, (files.rlim_cur - 100) / 2);
}

} // namespace

int main() {
  auto& multiplexer = unio::this_thread::multiplexer();
  unio::buffer_pool pool(16, 4096);
  std::vector<unio::socket_pair> connections;
  for (std::size_t n = affordable(10'000); connections.size() != n;)
    connections.push_back(unio::socket_handle::pair().value());

  for (auto& c : connections) unio::async_run(multiplexer, echo(c.first, pool));
  (void)multiplexer.try_run_for(std::chrono::milliseconds(1));
  std::printf("%zu connections are silent: %zu buffers lent\n", connections.size(), pool.lent());

  int answers = 0;
  for (auto& c : connections) unio::async_run(multiplexer, ask(c.second, answers));
  while (multiplexer.run().value() != 0) {
  }
  std::printf("%d answers through %zu buffers of %zu bytes, %zu lent\n", answers, pool.count(), pool.size(),
              pool.lent());
  return answers == static_cast<int>(connections.size()) && pool.lent() == 0 ? 0 : 1;
}
