// Shows     a fast sender and a slow receiver: what is read ahead fills a window of 64 KiB, then the sender
//           has to wait. A stop or a deadline loses nothing of what has been read.
// Run       build/release/examples/example_receiving_window
// Read next include/unio/receiving.hpp: what is promised

#include <unio/unio.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

namespace {

using namespace std::chrono_literals;

constexpr std::size_t megabytes = 4;

unio::task<> send(unio::socket_handle& to, std::size_t& sent) {
  std::string const text(4096, 'x');
  for (std::size_t i = 0; i != megabytes * 256; ++i) {
    if (!co_await unio::co_write(to, text)) co_return;
    sent += text.size();
  }
  (void)to.shutdown(unio::socket_handle::side::send);
}

unio::task<std::size_t> receive(unio::socket_handle& from, unio::buffer_pool& pool) {
  unio::receiving in(from, pool, {.window = 64 * 1024});
  std::size_t bytes = 0, most = 0;
  for (int n = 0;; ++n) {
    unio::lent_buffer const* const next = co_await in.co_next(10s);
    if (next == nullptr) break;
    bytes += next->size();
    if (n % 64 == 0) (void)co_await unio::co_sleep(1ms); // is slow
    most = std::max(most, in.kept());
  }
  if (in.error()) std::printf("it ended with: %s\n", in.error().message().c_str());
  std::printf("%zu bytes; %zu buffers of %zu bytes were read ahead at most\n", bytes, most, pool.size());
  co_return bytes;
}

} // namespace

int main() {
  auto& multiplexer = unio::this_thread::multiplexer();
  unio::buffer_pool pool(256, 4096);
  auto ends = unio::socket_handle::pair().value();
  std::size_t sent = 0;
  unio::async_run(multiplexer, send(ends.first, sent));
  std::size_t const received = unio::run(multiplexer, receive(ends.second, pool));
  std::printf("%zu of %zu buffers are lent\n", pool.lent(), pool.count());
  return received == sent && pool.lent() == 0 ? 0 : 1;
}
