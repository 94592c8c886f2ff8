// Sends that are started in a turn that has other work: a ring performs them with the rest of the turn, the
// other drivers at once. A receiver sees no difference: promises P1, P2, P3.

#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

class kernel_batch : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_batch);

// A socket that reads once, and does something when it has.
struct reader {
  reader(unio::io_multiplexer& m, std::function<void(reader&)> f)
      : c(local_connection(&m)), then(std::move(f)) {
    read = unio::connect(unio::async_read(c.socket, unio::mutable_buffer(memory)), after{this});
    read.start();
  }
  reader(reader const&) = delete;
  reader& operator=(reader const&) = delete;

  void send(unio::const_buffers what, unio::deadline d = {}) {
    write = unio::connect(unio::async_write(c.socket, what, d), tell{&told});
    write.start();
  }

  struct after {
    reader* self = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers>&& got) { self->bytes = got.bytes_transferred(); }
    void set_done() { self->then(*self); }
  };

  connection c;
  std::array<char, 64> memory{};
  std::size_t bytes = 0;
  std::function<void(reader&)> then;
  tally told;
  unio::io_operation_connection<unio::async_read, after> read;
  unio::io_operation_connection<unio::async_write, tell> write;
};

// Readers whose reads all have ended before any receiver is called: the first of them starts what it starts
// while the others wait.
struct crowd {
  crowd(unio::io_multiplexer& on, std::size_t n, std::function<void(reader&)> then) : m(on) {
    for (std::size_t i = 0; i < n; ++i) readers.emplace_back(m, then);
    submit_all(m);
    for (reader& r : readers) r.c.peer.write("abc");
  }
  [[nodiscard]] bool drive_to_end() {
    return drive(m, [this] {
      bool all = true;
      for (reader const& r : readers) all = all && r.told.ended();
      return all;
    });
  }

  unio::io_multiplexer& m;
  std::deque<reader> readers;
};

DRIVER_TEST(kernel_batch, answers_arrive_once_and_whole) {
  crowd all(m, 32, [](reader& r) { r.send(unio::const_buffer(r.memory.data(), r.bytes)); });
  ASSERT_TRUE(all.drive_to_end());
  for (reader const& r : all.readers) {
    EXPECT_TRUE(r.told.ended_once());
    EXPECT_EQ(r.told.values, 1);
    EXPECT_EQ(r.told.bytes, 3u);
    EXPECT_EQ(r.c.peer.read_some(), "abc");
  }
}

DRIVER_TEST(kernel_batch, gathered_and_empty_answers_arrive_too) {
  std::array<unio::const_buffer, 2> const pieces{unio::const_buffer("ab", 2), unio::const_buffer("cd", 2)};
  int n = 0;
  crowd all(m, 16,
            [&](reader& r) { r.send(n++ % 2 == 0 ? unio::const_buffers(pieces) : unio::const_buffers()); });
  ASSERT_TRUE(all.drive_to_end());
  std::size_t sent = 0;
  for (reader const& r : all.readers) {
    EXPECT_FALSE(r.told.error);
    EXPECT_EQ(r.c.peer.read_some(), std::string_view("abcd").substr(0, r.told.bytes));
    sent += r.told.bytes;
  }
  EXPECT_EQ(sent, 8u * 4u);
}

DRIVER_TEST(kernel_batch, a_send_that_must_not_wait_does_not) {
  int n = 0;
  crowd all(m, 8, [&](reader& r) {
    if (n++ % 2 == 0) fill(r.c.socket);
    r.send(unio::const_buffer(r.memory.data(), r.bytes), unio::deadline::zero());
  });
  ASSERT_TRUE(all.drive_to_end());
  int refused = 0;
  for (reader const& r : all.readers) {
    EXPECT_TRUE(r.told.ended_once());
    if (r.told.error) ++refused;
    if (r.told.error) {
      EXPECT_EQ(r.told.error, unio::condition::would_block);
    } else {
      EXPECT_EQ(r.c.peer.read_some(), "abc");
    }
  }
  EXPECT_EQ(refused, 4);
}

// Whatever was sent is reported, and what is reported as not sent was not.
DRIVER_TEST(kernel_batch, a_cancelled_send_has_sent_what_it_says) {
  int n = 0;
  crowd all(m, 16, [&](reader& r) {
    r.send(unio::const_buffer(r.memory.data(), r.bytes));
    if (n++ % 2 == 0) r.write.cancel();
  });
  ASSERT_TRUE(all.drive_to_end());
  for (reader const& r : all.readers) {
    EXPECT_TRUE(r.told.ended_once());
    EXPECT_TRUE(!r.told.error || r.told.error == unio::condition::canceled);
    EXPECT_EQ(r.c.peer.read_some(), std::string_view("abc").substr(0, r.told.bytes));
  }
}

DRIVER_TEST(kernel_batch, a_send_without_room_ends_at_its_deadline) {
  crowd all(m, 8, [](reader& r) {
    fill(r.c.socket);
    r.send(unio::const_buffer(r.memory.data(), r.bytes), 5ms);
  });
  ASSERT_TRUE(all.drive_to_end());
  for (reader const& r : all.readers) {
    EXPECT_TRUE(r.told.ended_once());
    EXPECT_EQ(r.told.error, unio::condition::timed_out);
    EXPECT_EQ(r.told.bytes, 0u);
  }
}

DRIVER_TEST(kernel_batch, a_long_send_reports_how_much_there_was_room_for) {
  std::string const much = pattern(8 << 20);
  crowd all(m, 4, [&](reader& r) { r.send(unio::const_buffer(much.data(), much.size())); });
  ASSERT_TRUE(all.drive_to_end());
  for (reader const& r : all.readers) {
    EXPECT_FALSE(r.told.error);
    EXPECT_GT(r.told.bytes, 0u);
    EXPECT_EQ(r.c.peer.read_some(much.size()), much.substr(0, r.told.bytes));
  }
}

DRIVER_TEST(kernel_batch, closing_ends_a_send_that_was_started_a_moment_before) {
  crowd all(m, 8, [](reader& r) {
    r.send(unio::const_buffer(r.memory.data(), r.bytes));
    (void)r.c.socket.close();
  });
  ASSERT_TRUE(all.drive_to_end());
  for (reader const& r : all.readers) {
    EXPECT_TRUE(r.told.ended_once());
    EXPECT_EQ(r.c.peer.read_some(), std::string_view("abc").substr(0, r.told.bytes));
  }
}

// Who looks at one operation only, again and again, takes no turns; the sends of others have to go all the
// same.
DRIVER_TEST(kernel_batch, sends_go_while_only_another_operation_is_polled) {
  crowd all(m, 4, [](reader& r) { r.send(unio::const_buffer(r.memory.data(), r.bytes)); });
  for (int turns = 0; turns != 1000 && all.readers.front().bytes == 0; ++turns) (void)m.run(1);
  reader other(m, [](reader&) {}); // not submitted yet, either
  auto const end = std::chrono::steady_clock::now() + 30s;
  reader const& first = all.readers.front();
  std::string got;
  while (got.empty() && std::chrono::steady_clock::now() < end) {
    EXPECT_EQ(other.read.poll(), unio::io_status::pending);
    got = first.c.peer.read_some();
  }
  EXPECT_EQ(got, "abc");
  other.c.peer.write("x");
  ASSERT_TRUE(all.drive_to_end());
  ASSERT_TRUE(drive(m, [&] { return other.bytes != 0; }));
}

// A ring is entered for the reads anyway: one call for all, and none for a send.
ISOLATED_TEST(kernel_batch, a_ring_takes_the_sends_of_a_turn_together) {
  auto const m = made_multiplexer(256);
  if (std::string_view(m->capabilities().driver) != "io_uring") GTEST_SKIP() << "for io_uring only";
  crowd all(*m, 32, [](reader& r) { r.send(unio::const_buffer(r.memory.data(), r.bytes)); });
  std::uint64_t const before = m->counters().submissions;
  ASSERT_TRUE(all.drive_to_end());
  EXPECT_GE(m->counters().submissions - before,
            16u); // some turns have one result only, whose send has no company
}

} // namespace
