// Shows     D2052R0 §4.3.3: many reads begun at once, each bound to its receiver, and a loop that polls each
//           of them. Nothing here allocates, throws, locks or waits.
// Run       build/release/examples/example_d2052_4_3_connect_start
// Read next ../d2052_4_3_complete_io/main.cpp, which replaces the loop

#include <unio/unio.hpp>

#include <array>
#include <cstdio>
#include <string_view>
#include <utility>

namespace {

constexpr std::size_t N = 16;

struct pipe_read_receiver {
  std::size_t idx = 0;

  void set_value(unio::io_result<unio::pipe_handle::buffers_type>&& filled) {
    std::printf("pipe %zu read %zu bytes\n", idx, filled.bytes_transferred());
  }
  void set_done() {}
};

} // namespace

int main() {
  std::array<std::array<char, 64>, N> memory;
  std::array<unio::pipe_handle, N> writers;
  std::array<std::pair<unio::pipe_handle, unio::pipe_handle::buffer_type>, N> pipes;
  for (std::size_t n = 0; n < N; n++) {
    auto ends = unio::pipe_handle::anonymous().value();
    pipes[n] = {std::move(ends.reader), memory[n]};
    writers[n] = std::move(ends.writer);
  }

  // Connect the reads of all pipes to their receivers.
  std::array<unio::io_operation_connection<unio::async_read, pipe_read_receiver>, N> connections;
  for (std::size_t n = 0; n < N; n++) {
    connections[n] =
        unio::connect(unio::async_read(pipes[n].first,          // the handle to read
                                       {{pipes[n].second}, 0}), // the buffer to fill, and the offset
                      pipe_read_receiver{n});
  }

  // Begin to read all of them.
  for (std::size_t n = 0; n < N; n++) connections[n].start();
  for (auto& writer : writers) writer.write(std::string_view("hello")).value();

  // Poll until all of them have read something, or failed to.
  bool done;
  do {
    done = true;
    for (auto& i : connections) {
      if (unio::io_status::completed != i.poll()) done = false;
    }
  } while (!done);
}
