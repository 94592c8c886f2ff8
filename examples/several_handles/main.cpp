// Shows     one thread that waits for whichever of several handles is ready, without coroutines: poll_any,
//           with an entry for each handle, which says what was found.
// Run       build/release/examples/example_several_handles
// Read next ../callbacks/main.cpp, <unio/poll_any.hpp>

#include <unio/unio.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

int main() {
  // Three producers, each with a pipe of its own.
  std::vector<unio::pipe_handle> readers;
  std::vector<std::jthread> producers;
  for (auto const pause : {3ms, 5ms, 8ms}) {
    auto [reader, writer] = unio::pipe_handle::anonymous().value();
    readers.push_back(std::move(reader));
    producers.emplace_back([pause, to = std::move(writer)]() mutable {
      for (int i = 0; i != 3; ++i) {
        std::this_thread::sleep_for(pause);
        to.write(std::string_view("x")).value();
      }
    }); // its end of the pipe closes with it
  }

  std::vector<unio::poll_entry> each;
  for (auto& r : readers) each.emplace_back(r, unio::readiness_set::readable);
  int messages = 0;
  while (!each.empty()) {
    unio::poll_any(each, 10s).value();
    std::erase_if(each, [&](unio::poll_entry const& e) {
      if (!e.is_ready()) return false;
      auto& reader = *std::ranges::find(readers, e.native_handle(), &unio::pipe_handle::native_handle);
      std::array<char, 16> room;
      auto const got = reader.read(room).value();
      messages += static_cast<int>(got.bytes());
      return got.bytes() == 0; // the end of the stream: it is not waited for any more
    });
  }
  std::printf("%d messages of 3 producers\n", messages);
  return messages == 9 ? 0 : 1;
}
