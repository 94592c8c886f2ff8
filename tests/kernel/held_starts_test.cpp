// held_starts.hpp: what a loop that is not unio's starts while it has more to start. On a ring all of it goes
// to the kernel in one call, and nothing of it is forgotten; with epoll it is as without.

#include "support/child.hpp"
#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/test.hpp"
#include "support/tiny_rings.hpp"

#include <unio/extend/held_starts.hpp>

namespace {

using namespace test;

class kernel_held_starts : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_held_starts);

constexpr std::size_t n_peers = 16;

#define SKIP_ON_TINY_RINGS()                                 \
  if (are_tiny() && GetParam() == std::string_view("uring")) \
  GTEST_SKIP() << "a ring of one entry holds nothing"

// Connections to which something is sent, outside of any turn.
struct peers {
  explicit peers(unio::io_multiplexer& on, std::size_t n = n_peers) : m(on) {
    for (std::size_t i = 0; i < n; ++i) all.push_back(local_connection(&m));
    (void)m.try_run(); // as a loop has that is under way
  }
  void send(std::size_t i) {
    writes.emplace_back(unio::async_write(all[i].socket, unio::const_buffer("abc", 3))).start();
  }
  void send_to_all() {
    for (std::size_t i = 0; i < all.size(); ++i) send(i);
  }
  void expect_that_all_have_it() {
    ASSERT_TRUE(drive(m, [this] { return all_ended(writes); }));
    for (auto const& w : writes) {
      expect_ended_once(w);
      EXPECT_FALSE(w.error);
      EXPECT_EQ(w.bytes, 3u);
    }
    for (connection const& c : all) EXPECT_EQ(c.peer.read_some(), "abc");
  }
  // What the kernel has, without another turn of the multiplexer.
  [[nodiscard]] std::size_t have_it() const {
    std::size_t n = 0;
    for (connection const& c : all) n += c.peer.read_some() == "abc" ? 1 : 0;
    return n;
  }

  unio::io_multiplexer& m;
  std::deque<connection> all;
  std::deque<watched<unio::async_write>> writes;
};

int calls_to_enter() { return failing_calls::count<&unio::sys::table::io_uring_enter>(); }
int calls_to_send() { return failing_calls::count<&unio::sys::table::send>(); }

DRIVER_TEST(kernel_held_starts, go_to_a_ring_in_one_call) {
  SKIP_ON_TINY_RINGS();
  peers p(m);
  failing_calls counted;
  int const entered = calls_to_enter(), sent = calls_to_send();
  {
    held_starts const together(m);
    p.send_to_all();
    if (is_ring()) {
      EXPECT_EQ(calls_to_enter(), entered);
      EXPECT_EQ(p.have_it(), 0u);
    }
  }
  EXPECT_EQ(calls_to_enter() - entered, is_ring() ? 1 : 0);
  EXPECT_EQ(calls_to_send() - sent, is_ring() ? 0 : int{n_peers});
  EXPECT_EQ(p.have_it(), n_peers); // before the multiplexer runs
  ASSERT_TRUE(drive(m, [&] { return all_ended(p.writes); }));
  for (auto const& w : p.writes) expect_ended_once(w);
}

DRIVER_TEST(kernel_held_starts, are_tried_one_by_one_without_it) {
  peers p(m);
  failing_calls counted;
  int const sent = calls_to_send();
  p.send_to_all();
  EXPECT_EQ(calls_to_send() - sent, int{n_peers});
  p.expect_that_all_have_it();
}

DRIVER_TEST(kernel_held_starts, of_reads_yield_what_has_arrived) {
  SKIP_ON_TINY_RINGS();
  peers p(m);
  for (connection const& c : p.all) c.peer.write("xyz");
  std::deque<std::array<char, 8>> memory(n_peers);
  std::deque<watched<unio::async_read>> reads;
  failing_calls counted;
  int const entered = calls_to_enter();
  {
    held_starts const together(m);
    for (std::size_t i = 0; i < n_peers; ++i)
      reads.emplace_back(unio::async_read(p.all[i].socket, unio::mutable_buffer(memory[i]))).start();
  }
  EXPECT_EQ(calls_to_enter() - entered, is_ring() ? 1 : 0);
  ASSERT_TRUE(drive(m, [&] { return all_ended(reads); }));
  for (auto const& r : reads) EXPECT_EQ(r.bytes, 3u);
}

DRIVER_TEST(kernel_held_starts, go_when_an_exception_leaves_the_scope) {
  peers p(m);
  try {
    held_starts const together(m);
    p.send_to_all();
    throw std::runtime_error("a handler's");
  } catch (std::runtime_error const&) {
    EXPECT_EQ(p.have_it(), n_peers);
  }
  ASSERT_TRUE(drive(m, [&] { return all_ended(p.writes); }));
}

DRIVER_TEST(kernel_held_starts, go_with_the_last_of_several) {
  SKIP_ON_TINY_RINGS();
  peers p(m);
  {
    held_starts const outer(m);
    {
      held_starts const inner(m);
      p.send(0);
    }
    if (is_ring()) {
      EXPECT_TRUE(p.all[0].peer.read_some().empty());
    }
    for (std::size_t i = 1; i < n_peers; ++i) p.send(i);
  }
  p.expect_that_all_have_it();
}

DRIVER_TEST(kernel_held_starts, go_when_the_multiplexer_runs) {
  peers p(m);
  held_starts const together(m);
  p.send_to_all();
  p.expect_that_all_have_it();
}

DRIVER_TEST(kernel_held_starts, go_when_a_blocking_call_drives_the_multiplexer) {
  peers p(m);
  connection c = local_connection(&m);
  held_starts const together(m);
  p.send_to_all();
  std::thread other([&] {
    for (connection const& each : p.all) EXPECT_TRUE(each.peer.wait());
    c.peer.write("x");
  });
  std::array<char, 1> one{};
  EXPECT_TRUE(c.socket.read(unio::mutable_buffer(one)).has_value());
  other.join();
  p.expect_that_all_have_it();
}

ISOLATED_TEST(kernel_held_starts, go_when_the_queue_is_full) {
  constexpr std::size_t room = 8;
  auto const m = made_multiplexer(room);
  peers p(*m, 2 * room + 3);
  {
    held_starts const together(*m);
    p.send_to_all();
    if (is_ring()) {
      EXPECT_EQ(p.have_it(), 2 * room);
    }
  }
  ASSERT_TRUE(drive(*m, [&] { return all_ended(p.writes); }));
  for (auto const& w : p.writes) EXPECT_EQ(w.bytes, 3u);
}

DRIVER_TEST(kernel_held_starts, call_no_receiver_at_the_end) {
  peers p(m);
  std::optional<held_starts> together(std::in_place, m);
  p.send_to_all();
  auto const ended = [&] {
    return std::ranges::count_if(p.writes, [](tally const& t) { return t.ended(); });
  };
  auto const before = ended();
  if (is_ring()) {
    EXPECT_EQ(before, 0);
  }
  together.reset();
  EXPECT_EQ(ended(), before);
  p.expect_that_all_have_it();
}

DRIVER_TEST(kernel_held_starts, can_be_cancelled_and_closed) {
  peers p(m);
  {
    held_starts const together(m);
    p.send_to_all();
    p.writes[0].cancel();
    ASSERT_TRUE(p.all[1].socket.close().has_value());
  }
  ASSERT_TRUE(drive(m, [&] { return all_ended(p.writes); }));
  for (auto const& w : p.writes) expect_ended_once(w);
}

// One that runs in a receiver's place leaves the rest of the turn as it is.
DRIVER_TEST(kernel_held_starts, of_posted_work_go_with_the_turn) {
  SKIP_ON_TINY_RINGS();
  peers p(m);
  failing_calls counted;
  int const entered = calls_to_enter();
  ASSERT_TRUE(m.post([&] {
                 held_starts const together(m);
                 p.send_to_all();
               }).has_value());
  (void)m.try_run();
  if (is_ring()) {
    EXPECT_LE(calls_to_enter() - entered, 2);
  }
  p.expect_that_all_have_it();
}

DRIVER_TEST(kernel_held_starts, by_a_thread_that_does_not_run_it_are_nothing) {
  peers p(m);
  std::thread([&] { held_starts const nothing(m); }).join();
  failing_calls counted;
  int const sent = calls_to_send();
  p.send_to_all();
  EXPECT_EQ(calls_to_send() - sent, int{n_peers});
  p.expect_that_all_have_it();
}

ISOLATED_TEST(kernel_held_starts, of_a_parent_are_not_the_childs) {
  SKIP_ON_TINY_RINGS();
  auto const m = made_multiplexer();
  peers p(*m);
  {
    std::optional<held_starts> together(std::in_place, *m);
    p.send_to_all();
    expect_in_child([&] {
      together.reset();
      return 0;
    });
    if (is_ring()) {
      EXPECT_EQ(p.have_it(), 0u);
    }
  }
  p.expect_that_all_have_it();
}

// Their thread ends, and leaves them to another one.
ISOLATED_TEST(kernel_held_starts, of_a_thread_that_ends_go_on_elsewhere) {
  auto const m = unio::io_multiplexer::best_available(2).value();
  connection c = local_connection(m.get());
  std::array<char, 8> memory{};
  tally told;
  auto read = unio::connect(unio::atomic_async_read(c.socket, unio::mutable_buffer(memory)), tell{&told});
  std::thread([&] {
    (void)m->try_run();
    // Not destroyed: the end of a thread that is never left by its scopes.
    alignas(held_starts) static std::byte room[sizeof(held_starts)];
    ::new (static_cast<void*>(room)) held_starts(*m);
    read.start();
  }).join();
  c.peer.write("abc");
  ASSERT_TRUE(drive(*m, [&] { return told.ended(); }));
  EXPECT_EQ(told.bytes, 3u);
  // The next thread has the slot of that one, and holds nothing.
  failing_calls counted;
  int const sent = calls_to_send();
  watched<unio::async_write> write(unio::async_write(c.socket, unio::const_buffer("abc", 3)));
  write.start();
  EXPECT_EQ(calls_to_send() - sent, 1);
  ASSERT_TRUE(drive(*m, [&] { return write.ended(); }));
}

// It is neither in run() nor comes to the end of its scope.
ISOLATED_TEST(kernel_held_starts, of_a_thread_that_stays_away_are_taken_by_another) {
  auto const m = unio::io_multiplexer::best_available(2).value();
  connection c = local_connection(m.get());
  std::array<char, 8> memory{};
  std::atomic<bool> ended = false, stop = false;
  auto read = unio::connect(unio::atomic_async_read(c.socket, unio::mutable_buffer(memory)),
                            calls{[&] { ended = true; }});
  std::thread other([&] {
    while (!stop) (void)m->try_run_for(1ms);
  });
  (void)m->try_run();
  {
    held_starts const together(*m);
    read.start();
    c.peer.write("abc");
    auto const until = std::chrono::steady_clock::now() + 30s;
    while (!ended && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(ended);
  }
  EXPECT_TRUE(drive(*m, [&] { return ended.load(); }));
  stop = true;
  other.join();
  EXPECT_EQ(memory[0], 'a');
}

} // namespace
