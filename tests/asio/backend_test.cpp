// unio::asio: programs of Asio, on the driver under test. What Asio promises, and what a driver could break:
// each kind of descriptor, timers and signals; every way to run; cancelling and closing, from anywhere;
// numbers that come again; threads that come and go; fork.

#include "asio/asio.hpp"

#include <gtest/gtest.h>

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace test;

/// Runs until `done`, and says whether that came within ten seconds.
template <class Done> bool run_until(asio::io_context& c, Done done) {
  auto const until = clock::now() + 10s;
  while (!done() && clock::now() < until) {
    c.restart();
    c.run_one_for(100ms);
  }
  return done();
}

struct echo : std::enable_shared_from_this<echo> {
  explicit echo(tcp::socket s) : socket(std::move(s)) {}
  void read() {
    socket.async_read_some(asio::buffer(data), [self = shared_from_this()](failure e, std::size_t n) {
      if (e) return;
      asio::async_write(self->socket, asio::buffer(self->data, n), [self](failure w, std::size_t) {
        if (!w) self->read();
      });
    });
  }
  tcp::socket socket;
  std::array<char, 512> data{};
};

struct echo_server {
  explicit echo_server(asio::io_context& c) : acceptor(c, {asio::ip::address_v4::loopback(), 0}) { accept(); }
  void accept() {
    acceptor.async_accept([this](failure e, tcp::socket s) {
      if (e) return;
      std::make_shared<echo>(std::move(s))->read();
      accept();
    });
  }
  tcp::acceptor acceptor;
};

/// Sends `rounds` messages and counts the answers that are right.
struct client : std::enable_shared_from_this<client> {
  client(asio::any_io_executor const& where, int n) : socket(where), left(n) {}
  void start(tcp::endpoint const& to, std::function<void(int)> done) {
    finished = std::move(done);
    socket.async_connect(to, [self = shared_from_this()](failure e) {
      if (!e) return self->ask();
      self->finished(-1);
    });
  }
  void ask() {
    if (left-- == 0) return finished(right);
    std::memset(data.data(), left & 127, data.size());
    asio::async_write(socket, asio::buffer(data), [self = shared_from_this()](failure e, std::size_t) {
      if (e) return self->finished(-1);
      self->answer.fill(-1);
      asio::async_read(self->socket, asio::buffer(self->answer), [self](failure r, std::size_t) {
        if (r) return self->finished(-1);
        if (self->answer == self->data) ++self->right;
        self->ask();
      });
    });
  }
  tcp::socket socket;
  int left;
  int right = 0;
  std::function<void(int)> finished;
  std::array<char, 64> data{};
  std::array<char, 64> answer{};
};

/// How many descriptors of this process are of that kind.
int open_descriptors(std::string_view kind) {
  int n = 0;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone; // the iteration's own
    n += std::filesystem::read_symlink(entry.path(), gone).string() == kind;
  }
  return n;
}

// Without it the suites would show nothing of the drivers that they are named after.
TEST(asio_backend, runs_on_the_driver_that_was_chosen) {
  constexpr std::string_view ring = "anon_inode:[io_uring]";
  constexpr std::string_view epoll = "anon_inode:[eventpoll]";
  int const rings = open_descriptors(ring);
  int const epolls = open_descriptors(epoll);
  asio::io_context c;
  asio::steady_timer t(c); // a reactor is made when it is needed
  char const* const wanted = std::getenv("UNIO_DRIVER");
  if (wanted != nullptr && std::string_view(wanted) == "uring") {
    EXPECT_EQ(open_descriptors(ring), rings + 1);
    EXPECT_EQ(open_descriptors(epoll), epolls);
  } else if (wanted != nullptr) {
    EXPECT_EQ(open_descriptors(epoll), epolls + 1);
    EXPECT_EQ(open_descriptors(ring), rings);
  } else { // one of them, and no more
    EXPECT_EQ(open_descriptors(ring) + open_descriptors(epoll), rings + epolls + 1);
  }
}

// ── each kind ──────────────────────────────────────────────────────────────────────────────────────────────

TEST(asio_backend, answers_sixteen_clients) {
  asio::io_context c;
  echo_server server(c);
  int done = 0;
  int right = 0;
  for (int i = 0; i < 16; ++i) {
    std::make_shared<client>(c.get_executor(), 50)->start(server.acceptor.local_endpoint(), [&](int n) {
      right += n;
      if (++done == 16) c.stop();
    });
  }
  c.run();
  EXPECT_EQ(done, 16);
  EXPECT_EQ(right, 16 * 50);
}

TEST(asio_backend, moves_more_than_the_buffers_of_a_socket_hold) {
  asio::io_context c;
  connection pair(c);
  std::vector<char> const sent(8 << 20, 'x');
  std::vector<char> got(sent.size());
  std::size_t n = 0;
  asio::async_write(pair.here, asio::buffer(sent), [](failure e, std::size_t) { EXPECT_FALSE(e); });
  asio::async_read(pair.there, asio::buffer(got), [&](failure e, std::size_t all) {
    EXPECT_FALSE(e);
    n = all;
  });
  c.run();
  EXPECT_EQ(n, sent.size());
  EXPECT_TRUE(got == sent);
}

TEST(asio_backend, yields_the_end_of_a_stream) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  failure end;
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { end = e; });
  asio::post(c, [&] { pair.here.close(); });
  c.run();
  EXPECT_EQ(end, asio::error::eof);
}

TEST(asio_backend, yields_the_end_that_came_with_the_last_bytes) {
  asio::io_context c;
  connection pair(c);
  char bytes[16];
  std::size_t got = 0;
  failure end;
  pair.there.async_read_some(asio::buffer(bytes), [&](failure, std::size_t n) {
    got = n;
    pair.there.async_read_some(asio::buffer(bytes), [&](failure e, std::size_t) { end = e; });
  });
  c.poll(); // it waits
  pair.here.send(asio::buffer("x", 1));
  pair.here.close();
  c.restart();
  c.run_for(5s);
  EXPECT_EQ(got, 1u);
  EXPECT_EQ(end, asio::error::eof);
}

TEST(asio_backend, each_operation_has_the_error_of_a_stream_that_has_ended) {
  asio::io_context c;
  asio::local::stream_protocol::socket here(c);
  asio::local::stream_protocol::socket there(c);
  asio::local::connect_pair(here, there);
  char bytes[3];
  int ended = 0;
  for (char& b : bytes)
    there.async_read_some(asio::buffer(&b, 1),
                          [&](failure e, std::size_t) { ended += e == asio::error::eof; });
  c.poll();
  here.shutdown(asio::socket_base::shutdown_send);
  EXPECT_TRUE(run_until(c, [&] { return ended == 3; }));
  for (int i = 0; i != 4; ++i) {
    failure why;
    here.async_write_some(asio::buffer("x", 1), [&](failure e, std::size_t) { why = e; });
    EXPECT_TRUE(run_until(c, [&] { return !!why; })) << i;
    EXPECT_EQ(why, asio::error::broken_pipe);
    if (!why) break;
  }
  here.cancel();
  there.cancel();
  c.restart();
  c.run();
}

TEST(asio_backend, tells_that_nobody_listens) {
  asio::io_context c;
  tcp::acceptor gone(c, {asio::ip::address_v4::loopback(), 0});
  auto const where = gone.local_endpoint();
  gone.close();
  tcp::socket socket(c);
  failure refused;
  socket.async_connect(where, [&](failure e) { refused = e; });
  c.run();
  EXPECT_EQ(refused, asio::error::connection_refused);
}

TEST(asio_backend, exchanges_datagrams) {
  using asio::ip::udp;
  asio::io_context c;
  udp::socket a(c, {asio::ip::address_v4::loopback(), 0});
  udp::socket b(c, {asio::ip::address_v4::loopback(), 0});
  std::array<char, 16> data{};
  udp::endpoint from;
  std::size_t n = 0;
  b.async_receive_from(asio::buffer(data), from, [&](failure e, std::size_t got) {
    EXPECT_FALSE(e);
    n = got;
  });
  a.async_send_to(asio::buffer("abc", 3), b.local_endpoint(),
                  [](failure e, std::size_t) { EXPECT_FALSE(e); });
  c.run();
  EXPECT_EQ(n, 3u);
  EXPECT_EQ(from, a.local_endpoint());
}

TEST(asio_backend, waits_for_readiness_that_is_there_and_that_comes) {
  asio::io_context c;
  connection pair(c);
  int order = 0;
  int writable = 0;
  int readable = 0;
  pair.here.async_wait(tcp::socket::wait_write, [&](failure e) {
    EXPECT_FALSE(e);
    writable = ++order;
    asio::write(pair.here, asio::buffer("x", 1));
  });
  pair.there.async_wait(tcp::socket::wait_read, [&](failure e) {
    EXPECT_FALSE(e);
    readable = ++order;
  });
  c.run();
  EXPECT_EQ(writable, 1);
  EXPECT_EQ(readable, 2);
  // Once more: nothing has changed, and it is ready all the same.
  c.restart();
  pair.there.async_wait(tcp::socket::wait_read, [&](failure e) {
    EXPECT_FALSE(e);
    ++order;
  });
  c.run_for(5s);
  EXPECT_EQ(order, 3);
}

TEST(asio_backend, does_not_take_bytes_that_are_gone_for_readiness) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  for (int i = 0; i != 3; ++i) {
    bool ready = false;
    pair.there.async_wait(tcp::socket::wait_read, [&](failure) { ready = true; });
    c.restart();
    c.poll();
    EXPECT_FALSE(ready);
    asio::write(pair.here, asio::buffer("x", 1));
    EXPECT_TRUE(run_until(c, [&] { return ready; }));
    asio::read(pair.there, asio::buffer(&byte, 1));
    asio::write(pair.here, asio::buffer("x", 1)); // this change is reported when the context runs next
    asio::read(pair.there, asio::buffer(&byte, 1));
  }
}

TEST(asio_backend, receives_urgent_data) {
  asio::io_context c;
  connection pair(c);
  bool urgent = false;
  pair.there.async_wait(tcp::socket::wait_error, [&](failure e) { urgent = !e; });
  c.poll();
  EXPECT_FALSE(urgent);
  pair.here.send(asio::buffer("!", 1), asio::socket_base::message_out_of_band);
  EXPECT_TRUE(run_until(c, [&] { return urgent; }));
}

TEST(asio_backend, bytes_are_no_urgent_data) {
  asio::io_context c;
  connection pair(c);
  bool urgent = false;
  pair.there.async_wait(tcp::socket::wait_error, [&](failure e) { urgent = !e; });
  bool come = false;
  pair.there.async_wait(tcp::socket::wait_read, [&](failure) { come = true; });
  c.poll();
  pair.here.send(asio::buffer("x", 1));
  EXPECT_TRUE(run_until(c, [&] { return come; }));
  c.restart();
  c.poll();
  EXPECT_FALSE(urgent);
  pair.here.send(asio::buffer("!", 1), asio::socket_base::message_out_of_band);
  EXPECT_TRUE(run_until(c, [&] { return urgent; }));
}

TEST(asio_backend, reads_on_past_urgent_data) {
  asio::io_context c;
  connection pair(c);
  std::string got;
  char bytes[16];
  std::function<void()> const read = [&] {
    pair.there.async_read_some(asio::buffer(bytes), [&](failure e, std::size_t n) {
      got.append(bytes, n);
      if (!e && got.size() != 4) read();
    });
  };
  read();
  c.poll(); // it waits
  pair.here.send(asio::buffer("12", 2));
  pair.here.send(asio::buffer("!", 1), tcp::socket::message_out_of_band);
  pair.here.send(asio::buffer("34", 2));
  c.restart();
  c.run_for(5s);
  EXPECT_EQ(got, "1234");
}

TEST(asio_backend, reads_and_writes_descriptors) {
  asio::io_context c;
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  asio::posix::stream_descriptor reader(c, ends[0]);
  asio::posix::stream_descriptor writer(c, ends[1]);
  std::string text;
  asio::async_read_until(reader, asio::dynamic_buffer(text), '\n',
                         [](failure e, std::size_t) { EXPECT_FALSE(e); });
  asio::async_write(writer, asio::buffer("line\n", 5), [](failure e, std::size_t) { EXPECT_FALSE(e); });
  c.run();
  EXPECT_EQ(text, "line\n");
}

// By completions a file is always ready, and a number that is no descriptor is refused by each operation.
#if !UNIO_TESTS_COMPLETIONS
TEST(asio_backend, refuses_to_wait_for_a_regular_file) {
  asio::io_context c;
  std::FILE* const file = std::tmpfile();
  ASSERT_NE(file, nullptr);
  asio::posix::stream_descriptor d(c, ::dup(::fileno(file)));
  std::fclose(file);
  failure why;
  d.async_wait(asio::posix::stream_descriptor::wait_read, [&](failure e) { why = e; });
  bool wrote = false;
  d.async_write_some(asio::buffer("x", 1), [&](failure e, std::size_t) { wrote = !e; });
  c.run();
  EXPECT_EQ(why, asio::error::operation_not_supported);
  EXPECT_TRUE(wrote);
}

TEST(asio_backend, refuses_a_number_that_is_no_descriptor) {
  asio::io_context c;
  asio::posix::stream_descriptor d(c);
  failure why;
  d.assign(1 << 20, why);
  EXPECT_EQ(why, asio::error::bad_descriptor);
}

#endif

TEST(asio_backend, connects_unix_sockets) {
  asio::io_context c;
  asio::local::stream_protocol::socket a(c);
  asio::local::stream_protocol::socket b(c);
  asio::local::connect_pair(a, b);
  char byte = 0;
  b.async_read_some(asio::buffer(&byte, 1), [](failure e, std::size_t) { EXPECT_FALSE(e); });
  asio::async_write(a, asio::buffer("y", 1), [](failure e, std::size_t) { EXPECT_FALSE(e); });
  c.run();
  EXPECT_EQ(byte, 'y');
}

TEST(asio_backend, a_unix_socket_whose_peer_has_no_room_is_refused_or_waits) {
  using local = asio::local::stream_protocol;
  asio::io_context c;
  std::string const path = "/tmp/unio_asio_no_room_" + std::to_string(::getpid());
  ::unlink(path.c_str());
  local::acceptor acceptor(c);
  acceptor.open();
  acceptor.bind(path);
  acceptor.listen(0);
  local::socket first(c);
  first.connect(path);
  local::socket second(c);
  bool ended = false;
  failure why;
  second.async_connect(path, [&](failure e) {
    ended = true;
    why = e;
  });
  c.run_for(20ms);
  acceptor.accept();
  EXPECT_TRUE(run_until(c, [&] { return ended; }));
  EXPECT_TRUE(!why || why == asio::error::no_buffer_space) << why.message();
  ::unlink(path.c_str());
}

TEST(asio_backend, delivers_signals) {
  asio::io_context c;
  asio::signal_set signals(c, SIGUSR1, SIGUSR2);
  std::vector<int> got;
  std::function<void(failure, int)> next = [&](failure e, int number) {
    if (e) return;
    got.push_back(number);
    if (got.size() < 2) signals.async_wait(next);
  };
  signals.async_wait(next);
  std::thread other([] {
    ::kill(::getpid(), SIGUSR1);
    std::this_thread::sleep_for(20ms);
    ::kill(::getpid(), SIGUSR2);
  });
  c.run();
  other.join();
  EXPECT_EQ(got, (std::vector<int>{SIGUSR1, SIGUSR2}));
}

// ── timers ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST(asio_backend, fires_timers_in_order) {
  asio::io_context c;
  auto const start = clock::now();
  std::vector<int> order;
  asio::steady_timer late(c, 60ms);
  asio::steady_timer early(c, 20ms);
  late.async_wait([&](failure e) { order.push_back(e ? -1 : 2); });
  early.async_wait([&](failure e) { order.push_back(e ? -1 : 1); });
  c.run();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
  EXPECT_GE(since(start), 60ms);
}

TEST(asio_backend, a_timer_that_another_thread_sets_wakes_the_runner) {
  asio::io_context c;
  asio::steady_timer far(c, 1h);
  far.async_wait([](failure e) { EXPECT_EQ(e, aborted); });
  std::thread runner([&] { c.run(); });
  std::this_thread::sleep_for(50ms); // it waits for an hour
  auto const start = clock::now();
  asio::steady_timer near(c, 20ms);
  std::atomic<int> took{-1};
  near.async_wait([&](failure) {
    took = static_cast<int>(since(start).count());
    far.cancel();
  });
  runner.join();
  EXPECT_GE(took, 19);
  EXPECT_LT(took, 5000);
}

TEST(asio_backend, a_timer_can_be_set_again_and_be_cancelled) {
  asio::io_context c;
  asio::steady_timer t(c, 1h);
  int was_cancelled = 0;
  bool fired = false;
  t.async_wait([&](failure e) { was_cancelled += e == aborted; });
  EXPECT_EQ(t.expires_after(10ms), 1u);
  t.async_wait([&](failure e) { fired = !e; });
  c.run();
  EXPECT_TRUE(fired);
  EXPECT_EQ(was_cancelled, 1);
}

TEST(asio_backend, timers_fire_while_handlers_keep_it_busy) {
  asio::io_context c;
  asio::steady_timer t(c, 30ms);
  bool fired = false;
  t.async_wait([&](failure) { fired = true; });
  std::function<void()> spin = [&] {
    if (!fired) asio::post(c, spin);
  };
  spin();
  auto const start = clock::now();
  c.run_for(10s);
  EXPECT_TRUE(fired);
  EXPECT_LT(since(start), 9s);
}

// ── every way to run ───────────────────────────────────────────────────────────────────────────────────────

TEST(asio_backend, runs_for_a_time_and_no_longer) {
  asio::io_context c;
  auto const work = asio::make_work_guard(c);
  auto const start = clock::now();
  EXPECT_EQ(c.run_for(50ms), 0u);
  EXPECT_GE(since(start), 49ms);
  EXPECT_LT(since(start), 5s);
  EXPECT_EQ(c.run_one_for(1ms), 0u);
  EXPECT_EQ(c.poll(), 0u);
  EXPECT_EQ(c.poll_one(), 0u);
}

TEST(asio_backend, polls_what_is_ready_one_at_a_time) {
  asio::io_context c;
  connection pair(c);
  asio::write(pair.here, asio::buffer("ab", 2));
  char a = 0;
  char b = 0;
  pair.there.async_read_some(asio::buffer(&a, 1), [](failure, std::size_t) {});
  pair.there.async_read_some(asio::buffer(&b, 1), [](failure, std::size_t) {});
  EXPECT_EQ(c.poll_one(), 1u);
  EXPECT_EQ(c.poll_one(), 1u);
  EXPECT_EQ(c.poll_one(), 0u);
  EXPECT_EQ(a, 'a');
  EXPECT_EQ(b, 'b');
}

TEST(asio_backend, stops_and_goes_on) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  bool got = false;
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { got = !e; });
  std::thread runner([&] { c.run(); });
  std::this_thread::sleep_for(20ms);
  c.stop(); // wakes it
  runner.join();
  EXPECT_FALSE(got);
  asio::write(pair.here, asio::buffer("x", 1));
  c.restart();
  c.run();
  EXPECT_TRUE(got);
}

TEST(asio_backend, an_exception_of_a_handler_leaves_it_usable) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  int got = 0;
  for (int i = 0; i < 2; ++i) {
    pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure, std::size_t) {
      if (++got == 1) throw std::runtime_error("x");
    });
  }
  asio::write(pair.here, asio::buffer("ab", 2));
  EXPECT_THROW(c.run(), std::runtime_error);
  c.run();
  EXPECT_EQ(got, 2);
}

// ── cancelling and closing ─────────────────────────────────────────────────────────────────────────────────

TEST(asio_backend, cancel_ends_all_that_waits) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  int ended = 0;
  for (int i = 0; i < 3; ++i)
    pair.there.async_read_some(asio::buffer(&byte, 1),
                               [&](failure e, std::size_t) { ended += e == aborted; });
  c.poll();
  pair.there.cancel();
  c.run();
  EXPECT_EQ(ended, 3);
  // And what comes after is not touched by it.
  asio::write(pair.here, asio::buffer("x", 1));
  bool got = false;
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { got = !e; });
  c.restart();
  c.run();
  EXPECT_TRUE(got);
}

TEST(asio_backend, a_slot_cancels_its_operation_alone) {
  asio::io_context c;
  connection pair(c);
  char a = 0;
  char b = 0;
  asio::cancellation_signal signal;
  failure first;
  failure second = aborted;
  pair.there.async_read_some(
      asio::buffer(&a, 1),
      asio::bind_cancellation_slot(signal.slot(), [&](failure e, std::size_t) { first = e; }));
  pair.there.async_read_some(asio::buffer(&b, 1), [&](failure e, std::size_t) { second = e; });
  c.poll();
  signal.emit(asio::cancellation_type::all);
  asio::write(pair.here, asio::buffer("x", 1));
  c.restart();
  c.run();
  EXPECT_EQ(first, aborted);
  EXPECT_FALSE(second);
  EXPECT_EQ(b, 'x');
}

TEST(asio_backend, a_slot_cancels_a_timer) {
  asio::io_context c;
  asio::steady_timer t(c, 1h);
  asio::cancellation_signal signal;
  failure ended;
  t.async_wait(asio::bind_cancellation_slot(signal.slot(), [&](failure e) { ended = e; }));
  asio::post(c, [&] { signal.emit(asio::cancellation_type::total); });
  c.run();
  EXPECT_EQ(ended, aborted);
}

TEST(asio_backend, close_ends_what_waits_and_the_peer_sees_it_at_once) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  failure ended;
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { ended = e; });
  c.poll();
  pair.there.close();
  pollfd p{.fd = pair.here.native_handle(), .events = POLLRDHUP, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 1000), 1); // though nobody runs the context
  c.restart();
  c.run();
  EXPECT_EQ(ended, aborted);
}

TEST(asio_backend, an_address_is_free_once_its_acceptor_was_closed) {
  asio::io_context c;
  // This process's own address of the loopback's: on a shared one another process may get the port between.
  tcp::endpoint const any(asio::ip::address_v4(0x7f80'0000U + static_cast<unsigned>(::getpid()) % 0x40'0000),
                          0);
  for (int i = 0; i < 50; ++i) {
    tcp::acceptor a(c, any);
    auto const where = a.local_endpoint();
    a.async_accept([](failure e, tcp::socket const&) { EXPECT_EQ(e, aborted); });
    c.restart();
    c.poll();
    a.close();
    tcp::acceptor again(c);
    again.open(where.protocol());
    failure e;
    again.bind(where, e);
    EXPECT_FALSE(e) << e.message();
    again.listen(1, e);
    EXPECT_FALSE(e) << e.message();
  }
}

TEST(asio_backend, close_by_another_thread_waits_for_no_handler) {
  asio::io_context c;
  connection pair(c);
  connection busy(c);
  char byte = 0;
  std::atomic<bool> ended{false};
  std::atomic<bool> sleeps{false};
  std::atomic<bool> closed{false};
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { ended = e == aborted; });
  busy.there.async_wait(tcp::socket::wait_read, [&](failure) {
    sleeps = true;
    while (!closed) std::this_thread::sleep_for(1ms);
  });
  asio::write(busy.here, asio::buffer("x", 1));
  std::thread runner([&] { c.run(); });
  while (!sleeps) std::this_thread::sleep_for(1ms);
  pair.there.close();
  pollfd p{.fd = pair.here.native_handle(), .events = POLLRDHUP, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 1000), 1);
  closed = true;
  runner.join();
  EXPECT_TRUE(ended);
}

TEST(asio_backend, close_by_another_thread_reaches_a_runner_that_sleeps) {
  for (int i = 0; i < 20; ++i) {
    asio::io_context c;
    connection pair(c);
    char byte = 0;
    std::atomic<bool> ended{false};
    pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { ended = e == aborted; });
    std::thread runner([&] { c.run(); });
    std::this_thread::sleep_for(2ms);
    pair.there.close();
    runner.join();
    EXPECT_TRUE(ended);
  }
}

// ── numbers ────────────────────────────────────────────────────────────────────────────────────────────────

// Of a descriptor that was assigned, as an accepted one is, Asio does not say that it is about to be closed:
// others may have it too.
TEST(asio_backend, a_peer_sees_at_once_that_another_thread_has_closed) {
  asio::io_context c;
  asio::local::stream_protocol::socket here(c);
  asio::local::stream_protocol::socket there(c);
  asio::local::connect_pair(here, there);
  char byte = 0;
  there.async_read_some(asio::buffer(&byte, 1), [](failure, std::size_t) {});
  std::atomic<bool> is_busy{false};
  std::atomic<bool> closed{false};
  std::thread runner([&] {
    c.poll(); // watches it
    asio::post(c, [&] {
      is_busy = true;
      while (!closed) std::this_thread::yield();
    });
    c.run();
  });
  while (!is_busy) std::this_thread::yield();
  there.close();
  pollfd p{.fd = here.native_handle(), .events = POLLRDHUP, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 1000), 1); // though the runner is busy
  closed = true;
  runner.join();
}

TEST(asio_backend, a_number_that_comes_again_belongs_to_the_new_socket) {
  asio::io_context c;
  std::atomic<int> wrong{0};
  int again = 0;
  for (int i = 0; i < 200; ++i) {
    std::optional<connection> old(std::in_place, c);
    int const number = old->there.native_handle();
    char byte = 0;
    asio::write(old->here, asio::buffer("o", 1)); // its event may be under way when it is closed
    old->there.async_wait(tcp::socket::wait_read, [](failure) {});
    c.restart();
    c.poll();
    old->there.async_read_some(asio::buffer(&byte, 1), [](failure, std::size_t) {});
    old->there.async_read_some(asio::buffer(&byte, 1),
                               [&](failure e, std::size_t) { wrong += e != aborted; });
    old->there.close();
    connection fresh(c);
    again += number == fresh.here.native_handle() || number == fresh.there.native_handle();
    char got = 0;
    fresh.there.async_read_some(asio::buffer(&got, 1), [&](failure e, std::size_t) { wrong += e ? 1 : 0; });
    c.restart();
    c.poll();
    EXPECT_EQ(got, 0);
    asio::write(fresh.here, asio::buffer("n", 1));
    EXPECT_TRUE(run_until(c, [&] { return got != 0; }));
    EXPECT_EQ(got, 'n');
  }
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(again, 0);
}

TEST(asio_backend, a_number_that_another_thread_gets_is_watched) {
  asio::io_context c;
  auto work = asio::make_work_guard(c);
  std::thread runner([&] { c.run(); });
  for (int i = 0; i < 200; ++i) {
    auto pair = std::make_unique<connection>(c);
    char byte = 0;
    std::atomic<int> state{0};
    pair->there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { state = e ? -1 : 1; });
    asio::write(pair->here, asio::buffer("x", 1));
    auto const until = clock::now() + 10s;
    while (state == 0 && clock::now() < until) std::this_thread::yield();
    ASSERT_EQ(state, 1) << i;
  }
  work.reset();
  runner.join();
}

TEST(asio_backend, release_leaves_the_descriptor_alone_and_assign_takes_it) {
  asio::io_context c;
  asio::io_context d;
  connection pair(c);
  char byte = 0;
  failure ended;
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { ended = e; });
  c.poll();
  int const number = pair.there.release();
  c.restart();
  c.run();
  EXPECT_EQ(ended, aborted);
  tcp::socket moved(d);
  moved.assign(tcp::v4(), number);
  asio::write(pair.here, asio::buffer("z", 1));
  moved.async_read_some(asio::buffer(&byte, 1), [](failure e, std::size_t) { EXPECT_FALSE(e); });
  d.run();
  EXPECT_EQ(byte, 'z');
}

TEST(asio_backend, a_descriptor_released_and_assigned_to_the_same_context_is_watched) {
  asio::io_context c;
  connection pair(c);
  for (int i = 0; i < 3; ++i) {
    char byte = 0;
    pair.there.async_read_some(asio::buffer(&byte, 1), [](failure, std::size_t) {});
    c.restart();
    c.poll();
    int const number = pair.there.release();
    pair.there.assign(tcp::v4(), number);
    bool got = false;
    pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { got = !e; });
    c.restart();
    c.poll();
    EXPECT_FALSE(got);
    asio::write(pair.here, asio::buffer("x", 1));
    EXPECT_TRUE(run_until(c, [&] { return got; }));
  }
}

TEST(asio_backend, the_native_handle_may_be_used_behind_its_back) {
  asio::io_context c;
  connection pair(c);
  int seen = 0;
  std::function<void(failure)> next = [&](failure e) {
    if (e) return;
    char data[8];
    while (::recv(pair.there.native_handle(), data, sizeof data, MSG_DONTWAIT) > 0) ++seen;
    if (seen < 3) {
      pair.there.async_wait(tcp::socket::wait_read, next);
      asio::write(pair.here, asio::buffer("x", 1));
    }
  };
  pair.there.async_wait(tcp::socket::wait_read, next);
  asio::write(pair.here, asio::buffer("x", 1));
  c.run();
  EXPECT_GE(seen, 3);
}

TEST(asio_backend, a_socket_may_move_while_it_waits) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  pair.there.async_read_some(asio::buffer(&byte, 1), [](failure e, std::size_t) { EXPECT_FALSE(e); });
  tcp::socket moved(std::move(pair.there));
  asio::write(pair.here, asio::buffer("m", 1));
  c.run();
  EXPECT_EQ(byte, 'm');
}

// ── threads ────────────────────────────────────────────────────────────────────────────────────────────────

TEST(asio_backend, four_threads_run_it_with_strands) {
  asio::io_context c;
  echo_server server(c);
  std::atomic<int> right{0};
  std::atomic<int> done{0};
  constexpr int clients = 24;
  for (int i = 0; i < clients; ++i) {
    std::make_shared<client>(asio::make_strand(c), 40)->start(server.acceptor.local_endpoint(), [&](int n) {
      right += n;
      if (++done == clients) c.stop();
    });
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { c.run(); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(done, clients);
  EXPECT_EQ(right, clients * 40);
}

TEST(asio_backend, connections_come_and_go_on_four_threads) {
  asio::io_context c;
  echo_server server(c);
  std::atomic<int> right{0};
  std::atomic<int> left{400};
  // Each begins the next, on a number that was just closed, here or by another thread.
  std::function<void()> begin = [&] {
    auto next = std::make_shared<client>(asio::make_strand(c), 3);
    next->start(server.acceptor.local_endpoint(), [&, here = next.get()](int n) {
      right += n;
      here->socket.close();
      int const now_left = --left;
      if (now_left >= 16) begin();
      if (now_left == 0) c.stop();
    });
  };
  for (int i = 0; i < 16; ++i) begin();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { c.run_for(30s); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(left, 0);
  EXPECT_EQ(right, 400 * 3);
}

TEST(asio_backend, what_waits_is_brought_though_one_thread_computes) {
  asio::io_context c;
  connection pair(c);
  std::atomic<bool> computes{false};
  std::atomic<bool> got{false};
  std::atomic<bool> seen{false};
  char byte = 0;
  // The thread that was the first to wait computes, and the other is to get what comes.
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { got = !e; });
  asio::steady_timer t(c, 20ms);
  t.async_wait([&](failure) {
    computes = true;
    auto const until = clock::now() + 5s;
    while (!got && clock::now() < until) {
    }
    seen = got.load();
  });
  std::thread a([&] { c.run(); });
  std::thread b([&] {
    while (!computes) std::this_thread::sleep_for(1ms);
    c.run();
  });
  while (!computes) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  asio::write(pair.here, asio::buffer("x", 1));
  a.join();
  b.join();
  EXPECT_TRUE(seen);
}

TEST(asio_backend, what_a_thread_waited_for_is_there_for_the_next) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  bool got = false;
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { got = !e; });
  std::thread([&] { c.run_for(20ms); }).join(); // ends: what it had asked of a ring ends with it
  asio::write(pair.here, asio::buffer("x", 1));
  c.restart();
  c.run_for(10s);
  EXPECT_TRUE(got);
}

TEST(asio_backend, a_connection_that_a_thread_began_is_there_for_the_next) {
  asio::io_context c;
  full_listener full(c);
  tcp::socket s(c);
  bool ended = false;
  failure why;
  s.async_connect(full.acceptor.local_endpoint(), [&](failure e) {
    ended = true;
    why = e;
  });
  std::thread([&] { c.run_for(20ms); }).join();
  EXPECT_TRUE(run_until(c, [&] {
    full.accept_all();
    return ended;
  }));
  EXPECT_FALSE(why) << why.message();
}

TEST(asio_backend, a_thread_that_waits_goes_on_when_the_one_before_has_ended) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  std::atomic<bool> got{false};
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { got = !e; });
  std::thread first([&] { c.run_for(60ms); });
  std::this_thread::sleep_for(20ms);
  std::thread second([&] { c.run_for(10s); });
  first.join();
  std::this_thread::sleep_for(20ms);
  asio::write(pair.here, asio::buffer("x", 1));
  second.join();
  EXPECT_TRUE(got);
}

TEST(asio_backend, post_wakes_the_thread_that_waits) {
  asio::io_context c;
  auto work = asio::make_work_guard(c);
  connection pair(c);
  char byte = 0;
  pair.there.async_read_some(asio::buffer(&byte, 1), [](failure, std::size_t) {});
  std::thread runner([&] { c.run(); });
  int ran = 0;
  for (int i = 0; i < 100; ++i) {
    std::atomic<bool> done{false};
    asio::post(c, [&] {
      ++ran;
      done = true;
    });
    auto const until = clock::now() + 10s;
    while (!done && clock::now() < until) std::this_thread::yield();
    ASSERT_TRUE(done);
  }
  work.reset();
  pair.there.close();
  runner.join();
  EXPECT_EQ(ran, 100);
}

TEST(asio_backend, may_be_destroyed_by_another_thread_with_something_waiting) {
  auto c = std::make_unique<asio::io_context>();
  auto pair = std::make_unique<connection>(*c);
  char byte = 0;
  auto alive = std::make_shared<int>(1);
  pair->there.async_read_some(asio::buffer(&byte, 1), [alive](failure, std::size_t) { FAIL(); });
  asio::steady_timer t(*c, 1h);
  t.async_wait([alive](failure) { FAIL(); });
  std::thread([&] { c->run_for(10ms); }).join();
  EXPECT_EQ(alive.use_count(), 3);
  int const peer = ::dup(pair->here.native_handle());
  std::thread([&] {
    pair->there.close();
    pair->here.close();
    pair.reset();
  }).join();
  pollfd p{.fd = peer, .events = POLLRDHUP, .revents = 0};
  EXPECT_EQ(::poll(&p, 1, 1000), 1);
  ::close(peer);
}

TEST(asio_backend, handlers_end_with_their_context) {
  auto alive = std::make_shared<int>(1);
  {
    asio::io_context c;
    auto pair = std::make_shared<connection>(c);
    auto byte = std::make_shared<char>();
    // Each holds the socket that it waits for.
    pair->there.async_read_some(asio::buffer(byte.get(), 1), [alive, pair, byte](failure, std::size_t) {});
    auto t = std::make_shared<asio::steady_timer>(c, 1h);
    t->async_wait([alive, t](failure) {});
    c.poll();
    EXPECT_EQ(alive.use_count(), 3);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(asio_backend, takes_each_concurrency_hint) {
  for (int const hint : {1, ASIO_TEST_HINT(UNSAFE), ASIO_TEST_HINT(UNSAFE_IO), ASIO_TEST_HINT(SAFE)}) {
    asio::io_context c(hint);
    echo_server server(c);
    int right = 0;
    std::make_shared<client>(c.get_executor(), 20)->start(server.acceptor.local_endpoint(), [&](int n) {
      right = n;
      c.stop();
    });
    c.run();
    EXPECT_EQ(right, 20) << hint;
  }
}

TEST(asio_backend, contexts_of_several_threads_know_nothing_of_each_other) {
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      asio::io_context c(1);
      echo_server server(c);
      std::make_shared<client>(c.get_executor(), 100)->start(server.acceptor.local_endpoint(), [&](int n) {
        right += n;
        c.stop();
      });
      c.run();
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(right, 400);
}

// ── fork ───────────────────────────────────────────────────────────────────────────────────────────────────

/// What the child returned, or -1 after ten seconds.
int status_of(pid_t child) {
  for (auto const until = clock::now() + 10s; clock::now() < until; std::this_thread::sleep_for(1ms)) {
    int status = 0;
    if (::waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return -1;
}

TEST(asio_backend, goes_on_in_both_processes_after_a_fork) {
  asio::io_context c;
  connection for_child(c);
  connection for_parent(c);
  asio::signal_set signals(c, SIGUSR1);
  int signalled = 0;
  signals.async_wait([&](failure e, int) { signalled += !e; });
  char a = 0;
  char b = 0;
  bool in_child = false;
  bool in_parent = false;
  for_child.there.async_read_some(asio::buffer(&a, 1), [&](failure e, std::size_t) { in_child = !e; });
  for_parent.there.async_read_some(asio::buffer(&b, 1), [&](failure e, std::size_t) { in_parent = !e; });
  c.poll();
  c.notify_fork(asio::io_context::fork_prepare);
  pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    c.notify_fork(asio::io_context::fork_child);
    asio::write(for_child.here, asio::buffer("c", 1));
    ::kill(::getpid(), SIGUSR1);
    bool const ok = run_until(c, [&] { return in_child && signalled == 1; });
    for_child.there.close(); // this process's only
    for_parent.there.close();
    ::_exit(ok && a == 'c' && !in_parent ? 0 : 1);
  }
  c.notify_fork(asio::io_context::fork_parent);
  EXPECT_EQ(status_of(child), 0);
  asio::write(for_parent.here, asio::buffer("p", 1));
  EXPECT_TRUE(run_until(c, [&] { return in_parent; }));
  EXPECT_EQ(b, 'p');
  EXPECT_FALSE(in_child); // the child has read it
  EXPECT_EQ(signalled, 0);
}

TEST(asio_backend, a_child_that_only_closes_disturbs_nobody) {
  asio::io_context c;
  connection pair(c);
  char byte = 0;
  bool got = false;
  pair.there.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) { got = !e; });
  c.poll();
  pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pair.there.release(); // without notify_fork
    pair.here.close();
    ::_exit(0);
  }
  EXPECT_EQ(status_of(child), 0);
  asio::write(pair.here, asio::buffer("x", 1));
  EXPECT_TRUE(run_until(c, [&] { return got; }));
}

} // namespace
