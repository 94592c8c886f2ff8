// Shows     D2052R0 §4.3.3: asking the multiplexer which of many reads are ready, instead of asking each of
//           them. complete_io never sleeps: the loop keeps a processor busy, and reacts soonest.
// Run       build/release/examples/example_d2052_4_3_complete_io
// Read next ../d2052_4_3_run/main.cpp, the same but asleep

#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string_view>
#include <thread>
#include <utility>

namespace {

constexpr int N = 16;

struct pipe_read_receiver {
  int idx = 0;

  void set_value(unio::io_result<unio::pipe_handle::buffers_type>&& filled) {
    std::printf("pipe %d read %zu bytes\n", idx, filled.bytes_transferred());
  }
  void set_done() {}
};

// Writes to one pipe after the other, with pauses.
void write_to_all(std::array<unio::pipe_handle, N>& writers) {
  for (auto& writer : writers) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    writer.write(std::string_view("hello")).value();
  }
}

} // namespace

int main() {
  std::array<std::array<char, 64>, N> memory;
  std::array<unio::pipe_handle, N> writers;
  std::array<std::pair<unio::pipe_handle, unio::pipe_handle::buffer_type>, N> pipes;
  std::array<unio::io_operation_connection<unio::async_read, pipe_read_receiver>, N> connections;
  for (int n = 0; n < N; n++) {
    auto ends = unio::pipe_handle::anonymous().value();
    pipes[n] = {std::move(ends.reader), memory[n]};
    writers[n] = std::move(ends.writer);
    connections[n] =
        unio::connect(unio::async_read(pipes[n].first, {{pipes[n].second}, 0}), pipe_read_receiver{n});
    connections[n].start();
  }
  std::jthread const other(write_to_all, std::ref(writers));

  // The count includes reads that completed inside start(). Nothing else uses this thread's multiplexer.
  int done = 0;
  while (done < N) {
    int const completed = pipes[0].first.multiplexer()->complete_io().value();
    if (completed > 0) done += completed;
  }
}
