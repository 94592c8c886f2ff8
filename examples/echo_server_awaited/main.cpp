// Shows     a server whose connections are tasks: a limit to how long each may be idle, and an orderly end
//           when SIGINT or SIGTERM comes: it accepts no more connections, asks the open ones to stop, and
//           then leaves. Without arguments it is its own client, and sends itself the signal.
// Run       build/release/examples/example_echo_server_awaited [ADDRESS], such as 127.0.0.1:7777 or
//           unix:/tmp/echo
// Read next ../echo_server/main.cpp: the same with receivers; <unio/stream.hpp>, <unio/run.hpp>

#include <unio/stream.hpp>
#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

using namespace std::chrono_literals;

namespace {

// Written by the signal handler, awaited by the server.
unio::event_handle end_wanted;

void on_signal(int) { (void)end_wanted.signal(); }

void handle_signals() {
  end_wanted = unio::event_handle::create().value();
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  for (int const signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

// One connection. It ends with its stream, after 30 seconds of silence, when its peer takes nothing for as
// long, or when it is asked to stop.
unio::task<> echo(unio::socket_handle socket) {
  std::array<char, 4096> room;
  for (;;) {
    auto const got = co_await socket.co_read(room, 30s);
    if (!got || got->empty()) co_return;
    auto const sent = co_await unio::co_write(socket, *got, 30s);
    if (!sent) co_return;
  }
}

class server {
 public:
  explicit server(unio::listening_socket_handle l) : listening_(std::move(l)) { start(accept_connections()); }
  // Asks everything to stop, and waits.
  void end() {
    stop_.request_stop();
    while (tasks_ != 0) unio::this_thread::multiplexer().run().value();
  }
  [[nodiscard]] int served() const { return served_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  // Without descriptors it waits until other connections have ended.
  unio::task<> accept_connections() {
    auto const serve = [this](unio::socket_handle connection) {
      ++served_;
      start(echo(std::move(connection)));
    };
    auto const says = [](std::error_code why) {
      std::fprintf(stderr, "accept: %s\n", why.message().c_str());
    };
    unio::result<void> const ended = co_await unio::co_for_each_connection(listening_, serve, says);
    if (ended.error() == unio::condition::canceled) co_return;
    says(ended.error());
    failed_ = true;
    (void)end_wanted.signal();
  }
  void start(unio::task<> t) {
    ++tasks_;
    auto const ended = [this](unio::task_outcome<void>) { --tasks_; };
    unio::async_run(unio::this_thread::multiplexer(), std::move(t), ended, {.stop = stop_.get_token()});
  }

  unio::listening_socket_handle listening_;
  unio::stop_source stop_;
  int tasks_ = 0;
  int served_ = 0;
  bool failed_ = false;
};

unio::task<> wait_for_signal() { (void)co_await end_wanted.co_wait(); }

// ---- a client ---------------------------------------------------------------------------------------------

bool echoed = false;

void talk_to(unio::endpoint const& there) {
  auto socket = unio::socket_handle::connected_to(there).value();
  std::array<char, 64> room;
  for (std::string_view const line : {"one", "two", "three"}) {
    socket.write(line).value();
    auto const got = socket.read(room).value();
    std::printf("%.*s\n", static_cast<int>(got.bytes()), room.data());
  }
  std::raise(SIGTERM);
  echoed = socket.read(room).value().empty(); // it stays connected: the server ends the connection
}

} // namespace

int main(int argc, char** argv) {
  std::string why;
  auto const at = unio::parse_endpoint(argc > 1 ? argv[1] : "127.0.0.1:0", &why);
  if (!at) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  handle_signals();
  auto listening = unio::listening_socket_handle::listen(*at).value();
  auto const here = listening.local_endpoint().value();
  server s(std::move(listening));
  std::thread client;
  if (argc == 1) client = std::thread(talk_to, here);
  unio::run(wait_for_signal());
  s.end();
  std::printf("%d served, none left\n", s.served());
  if (client.joinable()) client.join();
  return !s.failed() && (argc > 1 || echoed) ? 0 : 1;
}
