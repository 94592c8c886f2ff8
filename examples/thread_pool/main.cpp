// Shows     a pool of threads that runs tasks and their I/O, and a strand, on which tasks share without a
//           lock.
// Run       build/release/examples/example_thread_pool
// Read next ../priority_executor/main.cpp: an executor of your own

#include <unio/unio.hpp>

#include <cstdio>
#include <string_view>
#include <utility>

namespace {

using pool_strand = unio::strand<unio::thread_pool::executor_type>;

// Only tasks on the strand touch it.
struct statistics {
  std::size_t chunks = 0;
  std::size_t bytes = 0;
};

unio::task<> add(statistics& all, std::size_t bytes) {
  ++all.chunks;
  all.bytes += bytes;
  co_return;
}

// Runs on any thread of the pool; updates the statistics on the strand, and returns.
unio::task<> reader(unio::socket_handle source, pool_strand counting, statistics& all) {
  char room[64];
  for (;;) {
    auto const got = co_await source.co_read(unio::mutable_buffer(room));
    if (got.value().empty() || got.bytes_transferred() == 0) co_return; // the end of the stream
    unio::task<> addition = add(all, got.bytes_transferred());
    co_await unio::run_on(counting, std::move(addition));
  }
}

unio::task<> writer(unio::socket_handle sink, int times) {
  for (int i = 0; i != times; ++i) (co_await sink.co_write(std::string_view("sixteen bytes..."))).value();
}

} // namespace

int main() {
  unio::thread_pool pool(4);
  unio::strand counting{pool.executor()};
  statistics all;
  for (int i = 0; i != 8; ++i) {
    auto pair = unio::socket_handle::pair().value();
    unio::async_run(pool.executor(), reader(std::move(pair.first), counting, all));
    unio::async_run(pool.executor(), writer(std::move(pair.second), 100));
  }
  pool.join(); // until nothing is queued, running or in flight
  std::printf("%zu bytes\n", all.bytes);
  return all.bytes == 8 * 100 * 16 ? 0 : 1;
}
