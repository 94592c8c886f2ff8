// An echo server on Asio, by callbacks or (variant `coroutines`) by coroutines. Compiled several times: with
// Boost's Asio and with that which stands alone, on epoll and on io_uring (ASIO_HAS_IO_URING,
// ASIO_DISABLE_EPOLL), and on unio::asio. A context that one thread runs is told so, which saves it its locks
// (Asio, concurrency hints). Connections need no strand where several threads run one: each has one operation
// at a time. With `--strands` each has one all the same, as one with a timer or a second operation needs it.

#include "asio_flavour.hpp"
#include "server.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <deque>
#include <exception>
#include <iostream>
#include <memory>
#include <thread>
#include <vector>

namespace {

using asio::ip::tcp;

class session {
 public:
  explicit session(tcp::socket s) : socket_(std::move(s)) {}
  // Each operation owns the session.
  static void read(std::unique_ptr<session> self) {
    session& s = *self;
    s.socket_.async_read_some(asio::buffer(s.buffer_),
                              [self = std::move(self)](error_code e, std::size_t n) mutable {
                                if (!e) write(std::move(self), n);
                              });
  }

 private:
  static void write(std::unique_ptr<session> self, std::size_t bytes) {
    session& s = *self;
    asio::async_write(s.socket_, asio::buffer(s.buffer_.data(), bytes),
                      [self = std::move(self)](error_code e, std::size_t) mutable {
                        if (!e) read(std::move(self));
                      });
  }

  tcp::socket socket_;
  std::array<char, echo_buffer_size> buffer_;
};

void accept_by_callbacks(tcp::acceptor& listening, bool on_strands) {
  auto const accepted = [&listening, on_strands](error_code e, tcp::socket s) {
    if (e) echo_fail("accept", e.value());
    s.set_option(tcp::no_delay(true));
    session::read(std::make_unique<session>(std::move(s)));
    accept_by_callbacks(listening, on_strands);
  };
  if (on_strands) {
    listening.async_accept(asio::make_strand(listening.get_executor()), accepted);
  } else {
    listening.async_accept(accepted);
  }
}

using awaited_socket = asio::use_awaitable_t<>::as_default_on_t<tcp::socket>;
using awaited_acceptor = asio::use_awaitable_t<>::as_default_on_t<tcp::acceptor>;

asio::awaitable<void> echo(awaited_socket s) try {
  std::array<char, echo_buffer_size> buffer;
  for (;;) {
    std::size_t const n = co_await s.async_read_some(asio::buffer(buffer));
    co_await asio::async_write(s, asio::buffer(buffer.data(), n));
  }
} catch (system_error const&) {
  // The end of the connection.
}

asio::awaitable<void> accept_by_coroutines(awaited_acceptor listening, bool on_strands) {
  for (;;) {
    asio::any_io_executor where = listening.get_executor();
    if (on_strands) where = asio::make_strand(where);
    awaited_socket s = co_await listening.async_accept(where);
    s.set_option(tcp::no_delay(true));
    asio::co_spawn(where, echo(std::move(s)), asio::detached);
  }
}

void arm(asio::steady_timer& timer) {
  asio::steady_timer::duration const due = std::chrono::nanoseconds(echo_timer_armed());
  timer.expires_at(asio::steady_timer::time_point(due));
  timer.async_wait([&timer](error_code e) {
    if (e) echo_fail("timer", e.value());
    echo_timer_fired();
    arm(timer);
  });
}

void compute_after(asio::steady_timer& timer, int milliseconds) {
  timer.expires_after(std::chrono::milliseconds(milliseconds));
  timer.async_wait([&timer, milliseconds](error_code e) {
    if (e) echo_fail("timer", e.value());
    echo_compute(milliseconds);
    compute_after(timer, milliseconds);
  });
}

// A context, and its socket that listens.
struct place {
  place(int hint, tcp::endpoint const& at, bool shares_port) : context(hint), listening(context) {
    listening.open(at.protocol());
    listening.set_option(tcp::acceptor::reuse_address(true));
    int const on = 1;
    if (shares_port && ::setsockopt(listening.native_handle(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)
      echo_fail("setsockopt", errno);
    listening.bind(at);
    listening.listen(echo_backlog);
  }
  void begin_to_accept(bool by_coroutines, bool on_strands) {
    if (!by_coroutines) return accept_by_callbacks(listening, on_strands);
    asio::co_spawn(context, accept_by_coroutines(awaited_acceptor(std::move(listening)), on_strands),
                   [](std::exception_ptr e) {
                     if (e) std::rethrow_exception(e);
                   });
  }

  asio::io_context context;
  tcp::acceptor listening;
};

} // namespace

int main(int argc, char** argv) try {
  int const threads = echo_number(argc, argv, "--threads", 1);
  bool const is_one_each = threads > 1 && echo_flag(argc, argv, "--one-each") != 0;
  int const hint = is_one_each || threads == 1 ? ASIO_HINT_WITHOUT_LOCKS : threads;
  tcp::endpoint at(asio::ip::address_v4::loopback(), echo_port(argc, argv));
  std::deque<place> places;
  for (int i = 0; i < (is_one_each ? threads : 1); ++i)
    at = places.emplace_back(hint, at, is_one_each).listening.local_endpoint();
  place& first = places.front();
  asio::steady_timer timer(first.context);
  if (echo_timer_wanted(argc, argv)) arm(timer);
  asio::steady_timer computes(first.context);
  int const busy_ms = echo_number(argc, argv, "--busy", 0);
  if (busy_ms != 0) compute_after(computes, busy_ms);
  echo_announce(first.listening.native_handle());
  bool const by_coroutines = echo_variant(argc, argv, "coroutines") != 0;
  bool const on_strands = echo_flag(argc, argv, "--strands") != 0;
  for (place& p : places) p.begin_to_accept(by_coroutines, on_strands);
  std::vector<std::jthread> others;
  for (int i = 1; i < threads; ++i)
    others.emplace_back([&context = is_one_each ? places[static_cast<std::size_t>(i)].context
                                                : first.context] { context.run(); });
  first.context.run();
  return 0;
} catch (std::exception const& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
