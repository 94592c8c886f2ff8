// Shows     a server on several threads that run one multiplexer. A connection is a task, begun by a thread
//           that has time; what connections share is on a strand. A thread leaves while they are open: what
//           it was doing goes on with the others. Without arguments it is its own client.
// Run       build/release/examples/example_echo_server_on_threads [ADDRESS], such as 127.0.0.1:7777
// Read next docs/howto/several-threads.md, ../thread_pool/main.cpp, ../reuse_port_workers/main.cpp

#include <unio/unio.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr int threads = 3;

class server {
 public:
  server(unio::io_multiplexer& m, unio::listening_socket_handle l)
      : m_(m), listening_(std::move(l)), counting_(m.executor()) {
    start(accept_connections());
  }

  // Each thread calls it, at any time. It returns when the server has ended or this thread may leave.
  void run() { (void)unio::run(m_, unio::when_any(is_over_.co_wait(), may_leave_.co_wait())); }
  // From any thread.
  void let_one_thread_leave() { may_leave_.set(); }
  void stop() { stop_.request_stop(); }

  // Once all threads have returned.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  // From any thread: a task of its own, which another thread may begin.
  void start(unio::task<> t) {
    ++tasks_;
    auto const ended = [this](unio::task_outcome<void>) {
      if (--tasks_ == 0) is_over_.set();
    };
    unio::async_run(m_.executor(), std::move(t), ended, {.stop = stop_.get_token()});
  }

  unio::task<> accept_connections() {
    (void)co_await unio::co_for_each_connection(listening_,
                                                [this](unio::socket_handle s) { start(echo(std::move(s))); });
  }

  unio::task<> echo(unio::socket_handle socket) {
    std::array<char, 4096> room;
    for (;;) {
      auto const got = co_await socket.co_read(room, 30s);
      if (!got || got->empty()) co_return;
      std::size_t const n = got->bytes();
      if (!co_await unio::co_write(socket, *got, 30s)) co_return;
      co_await unio::run_on(counting_, count(n));
    }
  }

  unio::task<> count(std::size_t n) { // on the strand: one at a time
    bytes_ += n;
    co_return;
  }

  unio::io_multiplexer& m_;
  unio::listening_socket_handle listening_;
  unio::strand<unio::multiplexer_executor> counting_;
  unio::stop_source stop_;
  std::atomic<int> tasks_ = 0;
  unio::event is_over_;
  unio::auto_reset_event may_leave_; // each set() is for one thread
  std::size_t bytes_ = 0;            // touched on the strand
};

// ---- a client ---------------------------------------------------------------------------------------------

// Each of its connections says something and hears it again, `rounds` times. How often that worked.
int talk_to(std::vector<unio::socket_handle>& connections, int rounds) {
  int answered = 0;
  std::array<char, 8> room;
  for (int i = 0; i != rounds; ++i)
    for (unio::socket_handle& c : connections)
      if (c.write(std::string_view("hello"), 10s) && c.read(room, 10s).bytes_transferred() == 5) ++answered;
  return answered;
}

int be_the_client(unio::endpoint const& there, server& s) {
  std::vector<unio::socket_handle> connections;
  for (int i = 0; i != 16; ++i) connections.push_back(unio::socket_handle::connected_to(there, 10s).value());
  int const before = talk_to(connections, 10);
  s.let_one_thread_leave(); // while 16 reads are in flight
  int const after = talk_to(connections, 10);
  std::printf("%d answers, and %d after a thread had been asked to leave\n", before, after);
  return before + after;
}

} // namespace

int main(int argc, char** argv) {
  auto const at = unio::parse_endpoint(argc > 1 ? argv[1] : "127.0.0.1:0").value();
  auto listening = unio::listening_socket_handle::listen(at).value();
  auto const here = listening.local_endpoint().value();
  auto m = unio::io_multiplexer::best_available(threads).value();
  server s(*m, std::move(listening));
  int answers = 0;
  {
    std::vector<std::jthread> running;
    for (int i = 0; i != threads; ++i) running.emplace_back([&] { s.run(); });
    if (argc > 1) {
      (void)unio::signal_handle::create({SIGINT, SIGTERM}).value().wait();
    } else {
      answers = be_the_client(here, s);
    }
    s.stop();
  } // each thread has ended
  std::printf("%zu bytes\n", s.bytes());
  return argc > 1 || (answers == 320 && s.bytes() == 320 * 5) ? 0 : 1;
}
