// Shows     one multiplexer that two threads run. An operation stays with the thread that started it, if that
//           runs it; an idle thread takes posted work; the atomic_ forms may be cancelled by any thread.
// Run       build/release/examples/example_shared_multiplexer
// Read next ../own_multiplexer_per_thread/main.cpp, which is faster where the work can be divided beforehand

#include <unio/unio.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

namespace {

constexpr int threads = 2;
constexpr std::size_t pipes = 8;
std::atomic<std::size_t> finished{0};

struct receiver {
  std::size_t pipe = 0;
  void set_value(unio::io_result<unio::mutable_buffers>&& got) {
    std::printf("pipe %zu: %s\n", pipe, got ? "read" : got.error().message().c_str());
  }
  void set_done() { ++finished; }
};

struct connection {
  unio::anonymous_pipe pipe;
  std::array<char, 16> room;
  unio::io_operation_connection<unio::atomic_async_read, receiver> read;
};

void run(unio::io_multiplexer& m) {
  while (finished < pipes) m.try_run_for(std::chrono::milliseconds(10)).value();
}

} // namespace

int main() {
  auto m = unio::io_multiplexer::best_available(threads).value();
  std::vector<connection> all(pipes);
  for (std::size_t i = 0; i < pipes; ++i) {
    connection& c = all[i];
    c.pipe = unio::pipe_handle::anonymous().value();
    c.pipe.reader.set_multiplexer(m.get());
    c.read = unio::connect(unio::atomic_async_read(c.pipe.reader, c.room), receiver{i});
  }
  {
    std::vector<std::jthread> running;
    for (int i = 0; i < threads; ++i) running.emplace_back([&] { run(*m); });
    for (connection& c : all) {
      m->post([&c] { c.read.start(); }).value(); // by one of the two
    }
    for (std::size_t i = 1; i < pipes; ++i) all[i].pipe.writer.write(std::string_view("x")).value();
    // Nothing is written to the first: it is cancelled, from a thread that runs nothing.
    while (finished < pipes) {
      all[0].read.cancel();
      std::this_thread::yield();
    }
  }
}
