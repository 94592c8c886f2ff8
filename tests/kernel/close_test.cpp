// Closing and descriptor numbers against the real kernel: promises P4, P7; cases 17 to 25.

#include "support/child.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/stack_extent.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "sys/sanitizer.hpp"

#include <sys/eventfd.h>
#include <sys/un.h>

#include <barrier>
#include <sstream>

namespace {

using namespace test;

class kernel_close : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_close);

// Case 17, P4; liburing#568, #932: closing does not cancel, and the kernel's reference keeps the end of the
// stream back.
DRIVER_TEST(kernel_close, ends_a_read_and_the_peer_sees_the_end) {
  for (bool const over_tcp : {false, true}) {
    for (bool const submitted : {false, true}) {
      connection c = over_tcp ? tcp_connection(&m) : local_connection(&m);
      std::array<char, 16> memory{};
      started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
      if (submitted) submit_all(m);
      EXPECT_TRUE(c.socket.close().has_value());
      EXPECT_TRUE(read.ended_once());
      EXPECT_EQ(read.error, unio::condition::canceled);
      EXPECT_TRUE(c.peer.sees_end());
    }
  }
}

DRIVER_TEST(kernel_close, ends_a_write_and_the_peer_sees_all_that_was_reported) {
  connection c = local_connection(&m);
  std::size_t const before = fill(c.socket);
  std::string const more = pattern(100'000, before);
  started write{unio::async_write(c.socket, unio::const_buffer(more))};
  submit_all(m);
  EXPECT_FALSE(write.ended());
  EXPECT_TRUE(c.socket.close().has_value());
  EXPECT_TRUE(write.ended_once());
  EXPECT_EQ(write.error, unio::condition::canceled);
  bool ended = false;
  EXPECT_EQ(c.peer.read_some(1 << 24, &ended), pattern(before));
  EXPECT_TRUE(ended);
}

DRIVER_TEST(kernel_close, ends_accepting_and_frees_the_port) {
  for (bool const many : {false, true}) {
    auto [accepting, port] = listener(&m);
    tally told;
    auto one = unio::connect(unio::async_accept(accepting), tell{&told});
    auto all = unio::connect(unio::async_accept_many(accepting), tell{&told});
    many ? all.start() : one.start();
    submit_all(m);
    EXPECT_TRUE(accepting.close().has_value());
    EXPECT_TRUE(told.ended_once());
    EXPECT_EQ(told.error, unio::condition::canceled);
    EXPECT_EQ(raw_connection(port).fd(), -1) << "somebody still listens";
    EXPECT_EQ(errno, ECONNREFUSED);
  }
}

// libuv's tcp_close_while_connecting.
DRIVER_TEST(kernel_close, ends_connecting) {
  // No connection is accepted: behind the backlog handshakes are not answered.
  auto const [full, port] = raw_listener(0);
  raw const first = raw_connection(port, SOCK_NONBLOCK);
  raw const second = raw_connection(port, SOCK_NONBLOCK);
  for (int i = 0; i < 4; ++i) {
    auto s = unio::socket_handle::create(unio::address_family::ipv4).value();
    s.set_multiplexer(&m);
    started connect{unio::async_connect(s, unio::endpoint::ipv4_loopback(port))};
    submit_all(m);
    if (connect.ended()) continue; // there was room yet
    EXPECT_TRUE(s.close().has_value());
    EXPECT_TRUE(connect.ended_once());
    EXPECT_EQ(connect.error, unio::condition::canceled);
  }
  EXPECT_GE(m.counters().cancels, 1u);
}

DRIVER_TEST(kernel_close, as_an_operation_ends_a_read_too) {
  connection c = tcp_connection(&m);
  std::array<char, 16> memory{};
  started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
  submit_all(m);
  watched close{unio::async_close(std::move(c.socket))};
  EXPECT_TRUE(read.ended_once());
  EXPECT_EQ(read.error, unio::condition::canceled);
  close.start();
  ASSERT_TRUE(drive(m, [&] { return close.ended(); }));
  EXPECT_FALSE(close.error);
  EXPECT_TRUE(c.peer.sees_end());
}

// Case 18, P4; liburing#363, ntex#911: the old read took what came for the number's next owner.
DRIVER_TEST(kernel_close, lets_no_old_read_take_the_bytes_of_the_numbers_next_owner) {
  for (int round = 0; round < 100; ++round) {
    connection old = local_connection(&m);
    int const number = old.socket.native_handle();
    std::array<char, 16> old_memory{};
    started old_read{unio::async_read(old.socket, unio::mutable_buffer(old_memory))};
    if (round % 2 == 0) submit_all(m);
    raw const kept = raw(::dup(number)); // what it led to lives on
    EXPECT_TRUE(old.socket.close().has_value());

    connection fresh = local_connection(&m);
    if (fresh.socket.native_handle() != number) { // by force
      int const fd = fresh.socket.release();
      ASSERT_EQ(::dup3(fd, number, O_CLOEXEC), number);
      ::close(fd);
      // Adopting is what gives a handle a number of the program's choice.
      auto adopted = unio::io_handle::adopt(number).value();
      adopted.set_multiplexer(&m);
      fresh.peer.write("new");
      old.peer.write("old");
      std::array<char, 16> memory{};
      auto const r = adopted.read(unio::mutable_buffer(memory));
      ASSERT_TRUE(r.has_value());
      EXPECT_EQ(std::string(memory.data(), r.bytes_transferred()), "new");
    } else {
      std::array<char, 16> memory{};
      started read{unio::async_read(fresh.socket, unio::mutable_buffer(memory))};
      submit_all(m);
      old.peer.write("old"); // an edge of what the number led to before
      submit_all(m);
      EXPECT_FALSE(read.ended());
      fresh.peer.write("new");
      ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
      EXPECT_EQ(std::string(memory.data(), read.bytes), "new");
    }
    EXPECT_TRUE(old_read.ended_once());
    EXPECT_EQ(old_read.bytes, 0u);
    EXPECT_EQ(old_memory[0], '\0');
    EXPECT_EQ(kept.read_some(), "old");
  }
}

// Case 19; libuv#4323: after a close and an open in one turn epoll reported the old descriptor for ever.
DRIVER_TEST(kernel_close, and_open_in_one_turn_a_thousand_times_confuses_nobody) {
  for (int round = 0; round < 1000; ++round) {
    pending_read read(m);
    if (round % 3 != 0) (void)m.try_run();
    if (round % 2 == 0) {
      read.peer.write("x");
      ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
      EXPECT_EQ(read.bytes, 1u);
    } else {
      read.peer.close(); // a hang-up that must not be reported for ever
    }
    EXPECT_TRUE(read.socket.close().has_value());
    EXPECT_TRUE(read.ended_once());
  }
  std::uint64_t const turns = m.counters().turns;
  unio::timer_handle timer(100ms, &m);
  EXPECT_TRUE(timer.wait().has_value());
  EXPECT_LT(m.counters().turns - turns, 50u);
}

// Case 20; libuv's closed_fd_events.
DRIVER_TEST(kernel_close, of_a_descriptor_whose_duplicate_lives_does_not_spin) {
  connection c = local_connection(&m);
  raw const duplicate(::dup(c.socket.native_handle()));
  std::array<char, 4> memory{};
  started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
  submit_all(m);
  EXPECT_TRUE(c.socket.close().has_value());
  EXPECT_TRUE(read.ended_once());
  std::uint64_t const turns = m.counters().turns;
  for (int i = 0; i < 20; ++i) {
    c.peer.write("x");
    unio::timer_handle timer(5ms, &m);
    EXPECT_TRUE(timer.wait().has_value());
  }
  EXPECT_LT(m.counters().turns - turns, 100u);
  EXPECT_EQ(duplicate.read_some().size(), 20u);
  EXPECT_EQ(memory[0], '\0');
}

// The same with the hang-up of the peer while nothing is read, which epoll tells of again and again unless
// asked for edges.
DRIVER_TEST(kernel_close, of_the_peer_does_not_spin_while_nobody_reads) {
  connection c = local_connection(&m);
  std::array<char, 4> memory{};
  c.peer.write("x");
  started read{unio::async_poll(c.socket, unio::readiness::exceptional)};
  submit_all(m);
  c.peer.close();
  std::uint64_t const turns = m.counters().turns;
  unio::timer_handle timer(100ms, &m);
  EXPECT_TRUE(timer.wait().has_value());
  EXPECT_LT(m.counters().turns - turns, 50u);
  auto const r = c.socket.read(unio::mutable_buffer(memory));
  EXPECT_EQ(r.bytes_transferred(), 1u);
}

// Case 21.
DRIVER_TEST(kernel_close, twice_is_closing_once) {
  connection c = local_connection(&m);
  int const number = c.socket.native_handle();
  EXPECT_TRUE(c.socket.close().has_value());
  raw const other(::dup(2)); // takes the number
  EXPECT_EQ(other.fd(), number);
  EXPECT_TRUE(c.socket.close().has_value());
  EXPECT_NE(::fcntl(other.fd(), F_GETFD), -1);
}

// Closes a handle when a value comes, or at the end.
template <class Handle> class closes {
 public:
  closes(Handle* h, tally* t, bool when_it_ends = false) : handle_(h), to_(t), at_end_(when_it_ends) {}
  template <class Result> void set_value(Result&& r) noexcept {
    tell{to_}.set_value(static_cast<Result&&>(r));
    if (!at_end_) close();
  }
  void set_done() noexcept {
    ++to_->ends;
    if (at_end_) close();
  }

 private:
  void close() noexcept { EXPECT_TRUE(handle_->close().has_value()); }
  Handle* handle_ = nullptr;
  tally* to_ = nullptr;
  bool at_end_ = false;
};

DRIVER_TEST(kernel_close, is_allowed_to_the_receiver_of_a_read) {
  for (bool const at_end : {false, true}) {
    for (bool const waits : {false, true}) {
      connection c = local_connection(&m);
      std::array<char, 4> memory{};
      tally told;
      auto read = unio::connect(unio::async_read(c.socket, unio::mutable_buffer(memory)),
                                closes<unio::socket_handle>{&c.socket, &told, at_end});
      if (!waits) c.peer.write("x");
      read.start();
      if (waits) submit_all(m);
      if (waits) c.peer.write("x");
      ASSERT_TRUE(drive(m, [&] { return told.ended(); }));
      EXPECT_TRUE(told.ended_once());
      EXPECT_EQ(told.values, 1);
      EXPECT_FALSE(c.socket.is_open());
      EXPECT_TRUE(c.peer.sees_end());
    }
  }
}

DRIVER_TEST(kernel_close, is_allowed_to_the_receiver_of_accepting_many) {
  auto [accepting, port] = listener(&m);
  tally told;
  auto accept = unio::connect(unio::async_accept_many(accepting),
                              closes<unio::listening_socket_handle>{&accepting, &told});
  accept.start();
  submit_all(m);
  raw const a = raw_connection(port);
  raw const b = raw_connection(port);
  ASSERT_TRUE(drive(m, [&] { return told.ended(); }));
  EXPECT_TRUE(told.ended_once());
  EXPECT_FALSE(accepting.is_open());
  EXPECT_EQ(told.error, unio::condition::canceled);
  EXPECT_GE(told.accepted.size(), 1u);
}

// Its handler starts another operation, which completes at once.
DRIVER_TEST(kernel_close, outside_of_run_calls_no_handler_inside_another) {
  connection c = local_connection(&m);
  std::array<char, 4> memory{};
  unio::timer_handle past(std::chrono::steady_clock::now(), &m);
  bool inside = false;
  int ended = 0;
  int nested = 0;
  unio::start(unio::async_read(c.socket, unio::mutable_buffer(memory)), [&](auto const& r) {
    EXPECT_EQ(r.error(), unio::condition::canceled);
    inside = true;
    unio::start(unio::async_wait(past), [&](auto const&) {
      ++ended;
      nested += inside ? 1 : 0;
    });
    inside = false;
    ++ended;
  });
  submit_all(m);
  EXPECT_TRUE(c.socket.close().has_value());
  ASSERT_TRUE(drive(m, [&] { return ended == 2; }));
  EXPECT_EQ(nested, 0);
}

// ---- a peer that does not read keeps the pages of what was sent without copying

// A send whose bytes the kernel has accepted, and whose pages it still has where it does not copy.
struct unread : connection {
  explicit unread(unio::io_multiplexer& m) : connection(tcp_connection(&m)), bytes(pattern(8 << 20)) {
    send.emplace(unio::async_send_zero_copy(socket, unio::const_buffer(bytes)));
    EXPECT_TRUE(drive(m, [&] { return send->values == 1; }));
    EXPECT_FALSE(send->error) << send->error.message();
  }
  std::string bytes;
  std::optional<started<unio::async_send_zero_copy>> send;
};

DRIVER_TEST(kernel_close, of_a_connection_whose_peer_does_not_read_ends_although_pages_are_sent) {
  unread u(m);
  EXPECT_TRUE(u.socket.close().has_value());
  EXPECT_TRUE(u.send->ended_once());
  EXPECT_EQ(u.send->values, 1);
}

DRIVER_TEST(kernel_close, is_not_needed_to_destroy_a_send_of_pages_to_a_peer_that_does_not_read) {
  unread u(m);
  u.send.reset();
}

DRIVER_TEST(kernel_close, is_not_needed_to_stop_a_send_of_pages_to_a_peer_that_does_not_read) {
  unread u(m);
  u.send->cancel();
  EXPECT_TRUE(drive(m, [&] { return u.send->ended(); }));
  EXPECT_EQ(u.send->values, 1);
}

ISOLATED_TEST(kernel_close, is_not_needed_to_end_what_sends_pages_to_a_peer_that_does_not_read) {
  auto m = made_multiplexer();
  unread u(*m);
  m.reset();
  EXPECT_TRUE(u.send->ended_once());
  u.socket.set_multiplexer(nullptr);
}

// A stop that comes before the bytes were accepted, and is beaten by them.
DRIVER_TEST(kernel_close, of_a_connection_ends_when_a_stop_came_before_the_pages_were_sent) {
  connection c = tcp_connection(&m);
  std::string const bytes = pattern(8 << 20);
  started send{unio::async_send_zero_copy(c.socket, unio::const_buffer(bytes))};
  send.cancel();
  EXPECT_TRUE(drive(m, [&] { return send.ended(); }));
}

// The peer reads, if late: it gets every byte.
DRIVER_TEST(kernel_close, gives_a_peer_that_reads_all_pages_that_were_sent) {
  unread u(m);
  std::size_t const sent = u.send->bytes;
  std::string received;
  std::thread peer([&] {
    std::this_thread::sleep_for(20ms);
    while (received.size() < sent && u.peer.wait()) received += u.peer.read_some();
  });
  EXPECT_TRUE(u.socket.close().has_value());
  peer.join();
  EXPECT_EQ(received.size(), sent);
  EXPECT_TRUE(u.bytes.starts_with(received));
  EXPECT_TRUE(u.peer.sees_end());
}

// The same when nothing else happens that would move things on.
DRIVER_TEST(kernel_close, is_allowed_to_the_receiver_of_accepting_many_at_the_only_connection) {
  auto [accepting, port] = listener(&m);
  tally told;
  std::optional accept(unio::connect(unio::async_accept_many(accepting),
                                     closes<unio::listening_socket_handle>{&accepting, &told}));
  accept->start();
  submit_all(m);
  raw const only = raw_connection(port);
  ASSERT_TRUE(drive(m, [&] { return told.ended(); }));
  EXPECT_TRUE(told.ended_once());
  EXPECT_EQ(told.error, unio::condition::canceled);
  EXPECT_EQ(told.accepted.size(), 1u);
}

// Waiting for the end of what is in flight takes turns of the loop inside of a turn.
DRIVER_TEST(kernel_close, by_a_receiver_is_noticed_by_the_run_that_told_it) {
  unio::timer_handle never(1h, &m);
  started waits{unio::async_wait(never)};
  connection told_of = local_connection(&m), closed = local_connection(&m);
  std::array<char, 4> memory{}, other_memory{};
  tally told;
  started other{unio::async_read(closed.socket, unio::mutable_buffer(other_memory))};
  auto read = unio::connect(unio::async_read(told_of.socket, unio::mutable_buffer(memory)),
                            closes<unio::socket_handle>{&closed.socket, &told});
  read.start();
  submit_all(m);
  told_of.peer.write("x");
  auto const before = std::chrono::steady_clock::now();
  EXPECT_GT(m.try_run_for(20s).value_or(0), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 10s) << "it slept on";
  EXPECT_TRUE(told.ended_once());
  EXPECT_TRUE(other.ended_once());
}

// Closes a handle at the end, and notes how deep in the stack that is.
struct notes_depth {
  unio::socket_handle* handle;
  int* ended;
  stack_extent* stack;
  void set_value(unio::io_result<unio::mutable_buffers>) noexcept {}
  void set_done() noexcept {
    stack->look();
    ++*ended;
    EXPECT_TRUE(handle->close().has_value());
  }
};

// Many receivers that are called in one turn and close their handles are not nested in each other.
DRIVER_TEST(kernel_close, by_many_receivers_at_once_needs_no_more_stack_than_by_one) {
  struct one : reading {
    std::optional<unio::io_operation_connection<unio::async_read, notes_depth>> read;
  };
  std::deque<one> all(1000);
  int ended = 0;
  stack_extent stack;
  for (one& o : all) {
    static_cast<connection&>(o) = local_connection(&m);
    o.read.emplace(unio::async_read(o.socket, unio::mutable_buffer(o.memory)),
                   notes_depth{&o.socket, &ended, &stack});
    o.read->start();
  }
  submit_all(m);
  for (one& o : all) o.peer.write("x");
  ASSERT_TRUE(drive(m, [&] { return ended == 1000; }));
  EXPECT_LT(stack.bytes(), 64u * 1024);
}

DRIVER_TEST(kernel_close, by_another_thread_ends_what_is_in_flight) {
  for (int round = 0; round < 20; ++round) {
    pending_read read(m);
    unio::socket_handle& socket = read.socket;
    std::thread closer([&] {
      if (round % 2 == 0) std::this_thread::sleep_for(1ms);
      EXPECT_TRUE(socket.close().has_value());
    });
    bool const ended = drive(m, [&] { return read.ended(); });
    std::atomic<bool> joined = false;
    std::thread joiner([&] {
      closer.join();
      joined = true;
      m.wake();
    });
    EXPECT_TRUE(drive(m, [&] { return joined.load(); })); // close() may ask it to end what is in flight
    joiner.join();
    ASSERT_TRUE(ended);
    EXPECT_TRUE(read.ended_once());
    EXPECT_EQ(read.error, unio::condition::canceled);
    EXPECT_TRUE(read.peer.sees_end());
  }
}

// The number that is closed is one that the chain has not come to: nothing is in flight on it but the wish to
// use it.
DRIVER_TEST(kernel_close, by_another_thread_ends_a_chain_before_it_meets_the_numbers_next_owner) {
  connection first = local_connection(&m), second = local_connection(nullptr);
  std::array<char, 4> memory{};
  started chain{unio::async_link(unio::async_read(first.socket, unio::mutable_buffer(memory)),
                                 unio::async_write(second.socket, unio::const_buffer("x", 1)))};
  submit_all(m);
  std::atomic<bool> closed = false;
  std::thread closer([&] {
    EXPECT_TRUE(second.socket.close().has_value());
    closed = true;
    m.wake();
  });
  EXPECT_TRUE(drive(m, [&] { return closed.load(); }));
  closer.join();
  EXPECT_TRUE(chain.ended_once()) << "told before the number can be another's";
  EXPECT_EQ(chain.error, unio::condition::canceled);
  EXPECT_TRUE(second.peer.sees_end());
}

// Ends the test where it would hang.
template <class Reached> void await(Reached reached, char const* what) {
  for (int i = 0; i != 1000; ++i) {
    if (reached()) return;
    std::this_thread::sleep_for(10ms);
  }
  ADD_FAILURE() << "hangs: " << what;
  std::_Exit(1);
}

// Engines are asked newest first. The first of them ends while the second one is slow to answer; the third
// has the read.
ISOLATED_TEST(kernel_close, by_another_thread_finds_what_is_in_flight_though_a_thread_ends_meanwhile) {
  connection c = local_connection(nullptr);
  std::array<char, 16> memory{};
  tally told;
  std::atomic<int> ready = 0;
  std::atomic<bool> closes = false, closed = false;
  std::thread reader([&] {
    auto const m = made_multiplexer();
    auto read = unio::connect(unio::async_read(c.socket, unio::mutable_buffer(memory)), tell{&told});
    read.start(m.get());
    submit_all(*m);
    ++ready;
    EXPECT_TRUE(drive(*m, [&] { return told.ended() || closed; }));
    EXPECT_TRUE(told.ended_once()) << "the number is given back while a read is in flight on it";
    EXPECT_EQ(told.error, unio::condition::canceled);
  });
  await([&] { return ready == 1; }, "the reader");
  std::thread slow([&] {
    auto const m = made_multiplexer();
    submit_all(*m);
    ++ready;
    while (!closes) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(200ms);
    EXPECT_TRUE(drive(*m, [&] { return closed.load(); }));
  });
  await([&] { return ready == 2; }, "the slow one");
  std::thread ends([&] {
    auto const m = made_multiplexer();
    submit_all(*m);
    ++ready;
    while (!closes) std::this_thread::sleep_for(1ms);
    auto const end = std::chrono::steady_clock::now() + 50ms;
    while (std::chrono::steady_clock::now() < end) (void)m->try_run_for(1ms);
  });
  await([&] { return ready == 3; }, "the one that ends");
  closes = true;
  EXPECT_TRUE(c.socket.close().has_value());
  closed = true;
  ends.join();
  slow.join();
  reader.join();
  EXPECT_TRUE(c.peer.sees_end());
}

ISOLATED_TEST(kernel_close, by_another_thread_does_not_wait_for_threads_that_do_not_use_it) {
  auto const idle = made_multiplexer(); // this thread's, which then waits for others
  pending_read other_read(*idle);
  submit_all(*idle);

  connection c = local_connection(nullptr);
  std::atomic<bool> reads = false, closed = false;
  std::thread reader([&] {
    auto const m = made_multiplexer();
    std::array<char, 4> room{};
    started read{unio::async_read(c.socket, unio::mutable_buffer(room)), m.get()};
    submit_all(*m);
    reads = true;
    EXPECT_TRUE(drive(*m, [&] { return closed.load(); }));
    EXPECT_TRUE(read.ended_once());
  });
  std::thread closer([&] {
    await([&] { return reads.load(); }, "the reader");
    EXPECT_TRUE(c.socket.close().has_value());
    closed = true;
  });
  await([&] { return closed.load(); }, "close()");
  closer.join();
  reader.join();
  EXPECT_TRUE(c.peer.sees_end());
  EXPECT_FALSE(other_read.ended());
  other_read.peer.write("x"); // what it was asked meanwhile is no more, and does no harm
  ASSERT_TRUE(drive(*idle, [&] { return other_read.ended(); }));
  EXPECT_EQ(other_read.bytes, 1u);
}

// A chain that waits for its second descriptor has done with the first.
ISOLATED_TEST(kernel_close, of_what_a_chain_has_passed_does_not_wait_for_threads_that_do_not_use_it) {
  auto const idle = made_multiplexer(); // this thread's, which then waits for the other
  pending_read read_unused(*idle);
  submit_all(*idle);

  std::atomic<bool> closed = false;
  std::thread other([&] {
    auto const m = made_multiplexer();
    connection first = local_connection(m.get());
    connection second = local_connection(m.get());
    std::array<char, 4> one{}, two{};
    bool ended = false;
    auto both = [](connection& a, connection& b, std::array<char, 4>& x, std::array<char, 4>& y,
                   bool& done) -> unio::task<> {
      auto const r = co_await unio::co_link(unio::async_read(a.socket, unio::mutable_buffer(x)),
                                            unio::async_read(b.socket, unio::mutable_buffer(y)));
      EXPECT_EQ(r.completed(), 2u);
      done = true;
    };
    unio::async_run(*m, both(first, second, one, two, ended));
    submit_all(*m);
    first.peer.write("abcd");
    for (int turn = 0; turn != 50; ++turn) (void)m->try_run_for(1ms);
    EXPECT_FALSE(ended);
    EXPECT_TRUE(first.socket.close().has_value());
    closed = true;
    second.peer.write("abcd");
    EXPECT_TRUE(drive(*m, [&] { return ended; }));
  });
  await([&] { return closed.load(); }, "close()");
  other.join();
  read_unused.peer.write("x");
  ASSERT_TRUE(drive(*idle, [&] { return read_unused.ended(); }));
}

DRIVER_TEST(kernel_close,
            by_another_thread_returns_where_nothing_is_in_flight_and_nobody_runs_the_multiplexer) {
  pending_read read(m);
  submit_all(m);
  read.peer.write("x");
  ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
  std::atomic<bool> closed = false;
  std::thread closer([&] {
    EXPECT_TRUE(read.socket.close().has_value());
    closed = true;
  });
  await([&] { return closed.load(); }, "close()");
  closer.join();
  EXPECT_TRUE(read.peer.sees_end());
}

ISOLATED_TEST(kernel_close, of_each_others_handles_by_several_threads_ends) {
  constexpr int threads = 3;
  std::array<connection, threads> all;
  std::barrier together(threads);
  std::atomic<int> over = 0;
  auto const work = [&](std::size_t me) {
    auto const m = made_multiplexer();
    for (int round = 0; round != 200; ++round) {
      all[me] = local_connection(nullptr);
      std::array<char, 4> memory{};
      started read{unio::async_read(all[me].socket, unio::mutable_buffer(memory)), m.get()};
      if (round % 2 == 0) submit_all(*m);
      together.arrive_and_wait();
      EXPECT_TRUE(all[(me + 1) % threads].socket.close().has_value());
      EXPECT_TRUE(drive(*m, [&] { return read.ended(); }));
      EXPECT_TRUE(read.ended_once());
      EXPECT_EQ(read.error, unio::condition::canceled);
      together.arrive_and_wait();
      EXPECT_TRUE(all[(me + 1) % threads].peer.sees_end());
      together.arrive_and_wait();
    }
    ++over;
  };
  std::vector<std::thread> running;
  for (std::size_t i = 0; i != threads; ++i) running.emplace_back(work, i);
  await([&] { return over == threads; }, "threads that close each other's handles");
  for (std::thread& t : running) t.join();
}

// Notes its end, and the first of all waits for another thread.
class first_waits {
 public:
  struct place {
    std::atomic<int> ended = 0;
    std::atomic<int> first = -1;
    std::atomic<bool> goes_on = false;
  };
  first_waits(place* p, int number) : place_(p), number_(number) {}
  void set_value(unio::io_result<unio::mutable_buffers> const& r) noexcept { EXPECT_TRUE(r.has_value()); }
  void set_done() noexcept {
    int none = -1;
    if (place_->first.compare_exchange_strong(none, number_))
      await([this] { return place_->goes_on.load(); }, "the receiver that is told first");
    ++place_->ended;
  }

 private:
  place* place_;
  int number_;
};

// What is read has arrived, and its receiver waits in the queue behind another one.
DRIVER_TEST(kernel_close, by_another_thread_waits_until_a_result_that_was_there_before_was_told) {
  std::array<connection, 2> c{local_connection(nullptr), local_connection(nullptr)};
  std::array<std::array<char, 4>, 2> memory{};
  first_waits::place place;
  auto one =
      unio::connect(unio::async_read(c[0].socket, unio::mutable_buffer(memory[0])), first_waits(&place, 0));
  auto two =
      unio::connect(unio::async_read(c[1].socket, unio::mutable_buffer(memory[1])), first_waits(&place, 1));
  one.start(&m);
  two.start(&m);
  submit_all(m);
  c[0].peer.write("x");
  c[1].peer.write("x");
  std::atomic<bool> closed = false;
  std::thread closer([&] {
    await([&] { return place.first != -1; }, "the first receiver");
    std::thread lets_go([&] {
      std::this_thread::sleep_for(50ms);
      place.goes_on = true;
    });
    EXPECT_TRUE(c[place.first == 0 ? 1 : 0].socket.close().has_value());
    // Its receiver is called next, after the one that waits for goes_on.
    EXPECT_TRUE(place.goes_on) << "closed before its reader was about to be told";
    closed = true;
    lets_go.join();
  });
  EXPECT_TRUE(drive(m, [&] { return place.ended == 2 && closed; }));
  closer.join();
}

ISOLATED_TEST(kernel_close, of_what_a_pool_has_used_works_after_the_pools_end) {
  connection c = local_connection(nullptr);
  c.peer.write("x");
  {
    unio::thread_pool pool(2);
    auto const read = [](unio::socket_handle& s) -> unio::task<std::size_t> {
      std::array<char, 4> memory{};
      auto const r = co_await s.co_read(unio::mutable_buffer(memory));
      EXPECT_EQ((co_await s.co_read(unio::mutable_buffer(memory), 1ms)).error(), unio::condition::timed_out);
      co_return r.bytes_transferred();
    };
    EXPECT_EQ(unio::sync_wait(pool.executor(), read(c.socket)), 1u);
  }
  EXPECT_TRUE(c.socket.close().has_value());
  EXPECT_TRUE(c.peer.sees_end());
}

// P7: every way to a descriptor.
template <class F>
void for_each_new_descriptor(unio::io_multiplexer& m, temporary_directory const& directory, F f) {
  using mode = unio::handle::mode;
  using creation = unio::handle::creation;
  directory.write("file", "text");
  auto file = unio::file_handle::file(directory.handle(), "file").value();
  f("file", file.native_handle());
  f("always_new",
    unio::file_handle::file(directory.handle(), "n", mode::write, creation::always_new)->native_handle());
  f("temp_inode", unio::file_handle::temp_inode(directory.handle())->native_handle());
  f("temp_file", unio::file_handle::temp_file(directory.handle())->native_handle());
  f("uniquely_named", unio::file_handle::uniquely_named_file(directory.handle())->native_handle());
  f("mapped", unio::mapped_file_handle::mapped_file(directory.handle(), "file")->native_handle());
  f("path", unio::path_handle::path(directory.path())->native_handle());
  f("clone", file.clone()->native_handle());
  unio::path_handle anchor = unio::path_handle::path(directory.path()).value();
  anchor.set_multiplexer(&m);
  std::vector<unio::io_result<unio::file_handle>> opened;
  auto open = unio::connect(unio::async_open(anchor, "file"), keep{&opened});
  open.start();
  ASSERT_TRUE(drive(m, [&] { return open.finished(); }));
  f("async_open", opened.at(0).has_value() ? opened[0]->native_handle() : -1);
  auto pipe = unio::pipe_handle::anonymous().value();
  f("pipe reader", pipe.reader.native_handle());
  f("pipe writer", pipe.writer.native_handle());
  f("named pipe", unio::pipe_handle::create(directory.handle(), "fifo")->native_handle());
  auto pair = unio::socket_handle::pair().value();
  f("pair first", pair.first.native_handle());
  f("pair second", pair.second.native_handle());
  f("event", unio::event_handle::create()->native_handle());
  auto [accepting, port] = listener(&m);
  f("listener", accepting.native_handle());
  auto const client = unio::socket_handle::connected_to(unio::endpoint::ipv4_loopback(port)).value();
  f("client", client.native_handle());
  auto const accepted = accepting.accept().value();
  f("accepted", accepted.native_handle());
  started accept{unio::async_accept_many(accepting)};
  submit_all(m);
  raw const one = raw_connection(port);
  raw const two = raw_connection(port);
  ASSERT_TRUE(drive(m, [&] { return accept.accepted.size() == 2; }));
  f("accepted by a ring", accept.accepted[0].native_handle());
  f("accepted by a ring", accept.accepted[1].native_handle());
  auto const adopted = unio::io_handle::adopt(::eventfd(0, 0)).value();
  f("adopted", adopted.native_handle());
  accept.cancel();
  ASSERT_TRUE(drive(m, [&] { return accept.ended(); }));
}

DRIVER_TEST(kernel_close, on_exec_is_set_on_every_descriptor) {
  temporary_directory const directory;
  int seen = 0;
  for_each_new_descriptor(m, directory, [&](char const* what, int fd) {
    int const flags = ::fcntl(fd, F_GETFD);
    EXPECT_TRUE(flags >= 0 && (flags & FD_CLOEXEC) != 0) << what << " " << fd << ": " << flags;
    ++seen;
  });
  EXPECT_EQ(seen, 21);
  for (std::string const& open : open_descriptors()) { // and what the multiplexer keeps for itself
    int const fd = std::atoi(open.c_str());
    EXPECT_TRUE(fd <= 2 || (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0) << open;
  }
}

// Case 25: nothing that a program prints may end up in a socket.
ISOLATED_TEST(kernel_close, of_the_standard_streams_gives_their_numbers_to_nobody) {
  temporary_directory const directory;
  int const failed = in_child([&] {
    ::close(0);
    ::close(1);
    ::close(2);
    auto const m = made_multiplexer();
    int number = 0;
    int lowest = 1 << 20;
    int which = 0;
    for_each_new_descriptor(*m, directory, [&](char const*, int fd) {
      ++number;
      if (fd < lowest) {
        lowest = fd;
        which = number;
      }
    });
    for (int const fd : {0, 1, 2})
      if (::fcntl(fd, F_GETFD) != -1) return 100 + fd; // taken by what the multiplexer keeps for itself
    return lowest > 2 && number == 21 ? 0 : which;
  });
  EXPECT_EQ(failed, 0) << "(1..: the number of the first that is too low; 100..: what is still open)";
}

// Case 23; asio#523, CVE-2024-21626: a child that is started meanwhile inherits nothing.
ISOLATED_TEST(kernel_close, on_exec_leaves_no_moment_for_a_child_of_another_thread) {
  if (unio::sys::is_sanitized) GTEST_SKIP() << "the sanitizer itself opens /proc/self/maps, to be inherited";
  std::atomic<bool> stop = false;
  temporary_directory const directory;
  directory.write("file", "text");
  std::thread opener([&] {
    auto const m = made_multiplexer();
    auto [accepting, port] = listener(m.get());
    unio::path_handle anchor = unio::path_handle::path(directory.path()).value();
    anchor.set_multiplexer(m.get());
    while (!stop) {
      started accept{unio::async_accept(accepting)};
      auto client = unio::socket_handle::connected_to(unio::endpoint::ipv4_loopback(port)).value();
      (void)client.linger(0);
      ASSERT_TRUE(drive(*m, [&] { return accept.ended(); }));
      started open{unio::async_open(anchor, "file")};
      ASSERT_TRUE(drive(*m, [&] { return open.ended(); }));
      (void)unio::pipe_handle::anonymous();
      (void)unio::event_handle::create();
      auto const other = unio::io_multiplexer::best_available(1);
    }
  });
  for (int i = 0; i < 40; ++i) {
    program_end const listing = run_program({"/bin/ls", "/proc/self/fd"});
    EXPECT_EQ(listing.status, 0) << listing.output;
    std::istringstream words(listing.output);
    for (int fd; words >> fd;) EXPECT_LE(fd, 3) << "inherited"; // 3 is the listing's own
  }
  stop = true;
  opener.join();
}

// The canary for the test above: without close-on-exec it is noticed.
ISOLATED_TEST(kernel_close, on_exec_missing_would_be_noticed) {
  raw const leaked(::fcntl(2, F_DUPFD, 40));
  program_end const listing = run_program({"/bin/ls", "/proc/self/fd"});
  EXPECT_NE(listing.output.find(std::to_string(leaked.fd())), std::string::npos);
}

} // namespace
