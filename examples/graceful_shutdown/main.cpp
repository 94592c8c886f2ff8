// Shows     how a server ends in order: at a signal it accepts no more, lets what is being served finish
//           within a grace, stops the rest, and says how it went. Without arguments it is its own client,
//           and sends itself the signal.
// Run       build/release/examples/example_graceful_shutdown [ADDRESS], such as 127.0.0.1:7777
// Read next ../supervisor/main.cpp, <unio/task_group.hpp>, docs/howto/graceful-shutdown.md

#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

namespace {

struct tally {
  int served = 0;
  int stopped = 0;
};

// One request, which takes its time, and one answer.
unio::task<> serve(unio::socket_handle socket, std::chrono::milliseconds work, tally& all) {
  std::string request;
  auto const asked = co_await unio::co_read_until(socket, unio::dynamic_buffer(request, 1024), "\n", 30s);
  if (!asked) co_return;
  auto const done = co_await unio::co_sleep(work); // in place of work
  if (!done) {
    ++all.stopped;
    co_return;
  }
  auto const sent = co_await unio::co_write(socket, request, 5s);
  if (sent) ++all.served;
}

unio::task<unio::result<void>> accept_until_stopped(unio::listening_socket_handle& listening,
                                                    unio::task_group& connections,
                                                    std::chrono::milliseconds work, tally& all) {
  co_return co_await unio::co_for_each_connection(
      listening, [&](unio::socket_handle s) { connections.start(serve(std::move(s), work, all)); });
}

// Accepts until a signal comes, then ends what it has started.
unio::task<tally> serve_until(unio::signal_handle& signals, unio::listening_socket_handle listening,
                              std::chrono::milliseconds work, std::chrono::milliseconds grace) {
  tally all;
  unio::task_group connections(co_await unio::this_coro::environment);
  (void)co_await unio::when_any(accept_until_stopped(listening, connections, work, all), signals.co_wait());
  (void)listening.close(); // who connects from now on is refused
  std::printf("%zu are still being served\n", connections.running());
  auto const in_time = co_await unio::timeout(grace, connections.co_join()); // asks them to stop, and waits
  std::printf("%s\n", in_time ? "all have finished" : "the grace is over: the rest was stopped");
  co_return all;
}

// ---- a client ---------------------------------------------------------------------------------------------

unio::task<bool> ask(unio::endpoint there, std::string_view text) {
  auto socket = unio::socket_handle::create(there.family()).value();
  if (!co_await socket.co_connect(there)) co_return false;
  if (!co_await unio::co_write(socket, text)) co_return false;
  std::string answer;
  auto const got = co_await unio::co_read_until(socket, unio::dynamic_buffer(answer, 1024), "\n");
  co_return got.has_value();
}

unio::task<> try_it(unio::endpoint there) {
  bool const first = co_await ask(there, "first\n");
  std::printf("first: %s\n", first ? "answered" : "not answered");
  auto second = ask(there, "second\n");
  auto signal_soon = []() -> unio::task<> {
    (void)co_await unio::co_sleep(5ms);
    std::raise(SIGTERM);
  };
  auto [answered] = co_await unio::when_all(std::move(second), signal_soon());
  std::printf("second: %s\n", answered ? "answered" : "not answered");
}

} // namespace

int main(int argc, char** argv) {
  auto const at = unio::parse_endpoint(argc > 1 ? argv[1] : "127.0.0.1:0").value();
  auto signals = unio::signal_handle::create({SIGINT, SIGTERM}).value();
  auto listening = unio::listening_socket_handle::listen(at).value();
  auto const here = listening.local_endpoint().value();
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  bool client_has_ended = argc > 1;
  auto const says = [&](unio::task_outcome<void>) { client_has_ended = true; };
  if (!client_has_ended) unio::async_run(m, try_it(here), says);
  auto const work = argc > 1 ? 1s : 50ms;
  tally const all = unio::run(serve_until(signals, std::move(listening), work, 10s));
  while (!client_has_ended) m.run().value();
  std::printf("%d served, %d stopped\n", all.served, all.stopped);
  return argc > 1 || (all.served == 2 && all.stopped == 0) ? 0 : 1;
}
