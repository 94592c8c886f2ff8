// Shows     a program that hangs, and how it tells why: two sides of a connection each wait for the other to
//           speak first, and dump_pending names both. It does so by itself, then stops; with an argument it
//           hangs until it is killed, and tells whenever SIGUSR1 arrives.
// Run       build/release/examples/example_hang [for-ever]
// Read next <unio/pending.hpp>, docs/howto/finding-a-hang.md

#include <unio/unio.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <sstream>
#include <string>

namespace {

// Both begin by listening. This is the defect.
unio::task<> polite_client(unio::socket_handle server) {
  std::array<char, 64> greeting;
  auto const got = co_await server.co_read(greeting);
  if (got) (void)co_await unio::co_write(server, unio::const_buffer("HELO\n", 5));
}

unio::task<> polite_server(unio::socket_handle client) {
  std::array<char, 64> hello;
  auto const got = co_await client.co_read(hello);
  if (got) (void)co_await unio::co_write(client, unio::const_buffer("220 ready\n", 10));
}

unio::task<> converse() {
  auto pair = unio::socket_handle::pair().value();
  co_await unio::when_all(polite_client(std::move(pair.first)), polite_server(std::move(pair.second)));
}

// What a watchdog would do.
unio::task<std::string> dump_later() {
  (void)co_await unio::co_sleep(std::chrono::milliseconds(10));
  std::ostringstream text;
  unio::dump_pending(text);
  co_return text.str();
}

} // namespace

int main(int argc, char**) {
  if (argc > 1) {
    unio::dump_pending_on_signal(SIGUSR1).value();
    unio::run(converse());
  }
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  unio::stop_source stop;
  bool ended = false;
  auto const says = [&](unio::task_outcome<void>) { ended = true; };
  unio::async_run(m, converse(), says, {.stop = stop.get_token()});
  std::string const text = unio::run(dump_later());
  std::cout << text;
  stop.request_stop();
  while (!ended) m.run().value();
  return text.find("read on socket") != text.npos ? 0 : 1;
}
