// Shows     a pipeline of coroutines: one reads lines from a pipe, three work on them, one collects. The
//           channels between them hold items in transit and slow down senders that are too fast; closing one
//           ends the stages behind it.
// Run       build/release/examples/example_channel_pipeline
// Read next include/unio/channel.hpp, include/unio/sync.hpp, ../echo_server/main.cpp

#include <unio/channel.hpp>
#include <unio/stream.hpp>
#include <unio/sync.hpp>
#include <unio/unio.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <string>

namespace {

using unio::channel;
using unio::task;

struct word {
  std::string text;
};
struct measured {
  std::string text;
  std::size_t length = 0;
};

// Reads words from a pipe, until its writer closes it.
task<> reads(unio::pipe_handle from, channel<word>& words) {
  std::array<char, 16> room{};
  std::string rest;
  for (;;) {
    auto const got = co_await from.co_read(room);
    if (!got.has_value() || got.bytes_transferred() == 0) break;
    for (char const c : std::string_view(room.data(), got.bytes_transferred())) {
      if (c != ' ') {
        rest += c;
        continue;
      }
      word next{std::exchange(rest, "")};
      (co_await words.co_send(std::move(next))).value(); // waits while the workers have enough
    }
  }
  words.close();
}

// One of several workers. The last one to end closes the results.
task<> works(channel<word>& words, channel<measured>& results, unio::latch& working) {
  while (auto w = co_await words.co_receive()) {
    measured m{std::move(w->text)};
    m.length = m.text.size();
    (co_await results.co_send(std::move(m))).value();
  }
  working.count_down();
}

task<> closes(channel<measured>& results, unio::latch& working) {
  (co_await working.co_wait()).value();
  results.close();
}

task<> writes(unio::pipe_handle to) {
  std::string_view const text = "what is sent is received once and in order whoever waits for it ";
  for (int i = 0; i != 100; ++i) {
    unio::const_buffer const bytes(text.data(), text.size());
    (co_await unio::co_write(to, bytes)).value();
  }
}

task<> collects(channel<measured>& results, std::map<std::size_t, int>& of_length) {
  while (auto const m = co_await results.co_receive()) ++of_length[m->length];
}

} // namespace

int main() {
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  auto pipe = unio::pipe_handle::anonymous().value();
  channel<word> words(4);
  channel<measured> results(4);
  unio::latch working(3);

  unio::async_run(m, writes(std::move(pipe.writer)), reads(std::move(pipe.reader), words),
                  works(words, results, working), works(words, results, working),
                  works(words, results, working), closes(results, working));
  std::map<std::size_t, int> of_length;
  unio::run(m, collects(results, of_length)); // the others run meanwhile

  int total = 0;
  for (auto const& [length, n] : of_length) {
    std::printf("%2zu letters: %4d words\n", length, n);
    total += n;
  }
  return total == 1300 ? 0 : 1;
}
