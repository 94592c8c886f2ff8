// Cancelling, deadlines and destruction against the real kernel: promises P1, P2, P3, P5, P6.

#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

class kernel_cancel : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_cancel);

void cancel_hundred(int ring_entries, bool submitted) {
  auto const m = made_multiplexer(ring_entries);
  {
    std::deque<pending_read> reads;
    for (int i = 0; i < 100; ++i) reads.emplace_back(*m);
    if (submitted) {
      for (int i = 0; i < 120; ++i) (void)m->try_run();
    } else {
      (void)m->try_run(); // some are with the kernel, most are not
    }
    // Each third has its bytes before it is cancelled.
    for (std::size_t i = 0; i < reads.size(); i += 3) reads[i].peer.write("abc");
    for (pending_read& r : reads) r.cancel();
    ASSERT_TRUE(drive(*m, [&] { return all_ended(reads); }));
    for (std::size_t i = 0; i < reads.size(); ++i) {
      pending_read& r = reads[i];
      EXPECT_TRUE(r.ended_once());
      EXPECT_EQ(r.values, 1);
      if (r.error) {
        EXPECT_EQ(r.error, unio::condition::canceled);
      }
      // P3: what the result does not report can still be read.
      std::string seen(r.memory.data(), r.bytes);
      char rest[16];
      ssize_t const n = ::recv(r.socket.native_handle(), rest, sizeof rest, MSG_DONTWAIT);
      if (n > 0) seen.append(rest, static_cast<std::size_t>(n));
      EXPECT_EQ(seen, i % 3 == 0 ? "abc" : "");
    }
    EXPECT_EQ(m->counters().cancels, 100u);
  }
  expect_nothing_in_flight(*m);
}

// Case 3, P5; corosio's submit_cancel_by_user_data gives up silently when the queue is full.
ISOLATED_TEST(kernel_cancel, reaches_all_reads_when_the_submission_queue_has_one_entry) {
  cancel_hundred(1, true);
}
ISOLATED_TEST(kernel_cancel, reaches_all_reads_when_the_submission_queue_has_two_entries) {
  cancel_hundred(2, true);
}
ISOLATED_TEST(kernel_cancel, reaches_reads_that_wait_to_be_submitted) { cancel_hundred(1, false); }

// Case 5, P3: what a cancelled write reports is exactly what the peer receives.
DRIVER_TEST(kernel_cancel, of_a_write_never_tears_the_stream) {
  connection c = local_connection(&m);
  ASSERT_TRUE(c.socket.send_buffer(4608).has_value());
  std::size_t sent = fill(c.socket);
  std::string received;
  for (int round = 0; round < 200; ++round) {
    std::string const piece = pattern(20'000, sent);
    started write{unio::async_write(c.socket, unio::const_buffer(piece))};
    submit_all(m);
    // It may now take some of it, none of it, or be at it.
    if (round % 4 != 0) received += c.peer.read_some(static_cast<std::size_t>(round) * 97 % 9000);
    if (round % 3 == 0) (void)m.try_run();
    write.cancel();
    ASSERT_TRUE(drive(m, [&] { return write.ended(); }));
    ASSERT_EQ(write.values, 1);
    if (write.error) {
      ASSERT_EQ(write.error, unio::condition::canceled);
      ASSERT_EQ(write.bytes, 0u);
    }
    sent += write.bytes;
  }
  received += c.peer.read_some();
  EXPECT_EQ(received.size(), sent);
  EXPECT_TRUE(received == pattern(sent)) << "the stream has a gap, or bytes twice";
}

// Case 8: the timer wins, the bytes win, both at once, and there is room for only one entry in the ring.
ISOLATED_TEST(kernel_cancel, by_deadline_races_bytes_on_a_ring_of_one_entry) {
  auto const m = made_multiplexer(1);
  {
    constexpr std::size_t count = 64;
    for (int round = 0; round < 10; ++round) {
      std::deque<pending_read> reads;
      for (std::size_t i = 0; i < count; ++i)
        reads.emplace_back(*m, std::chrono::microseconds(1 + static_cast<int>(i) * 97 % 4000));
      std::thread peer([&] {
        for (pending_read& r : reads) {
          r.peer.write("x");
          std::this_thread::sleep_for(30us);
        }
      });
      bool const all = drive(*m, [&] { return all_ended(reads); });
      peer.join();
      ASSERT_TRUE(all);
      for (pending_read& r : reads) {
        EXPECT_TRUE(r.ended_once());
        EXPECT_EQ(r.values, 1);
        if (r.error) {
          EXPECT_EQ(r.error, unio::condition::timed_out);
        }
        char rest[4];
        ssize_t const n = ::recv(r.socket.native_handle(), rest, sizeof rest, MSG_DONTWAIT);
        EXPECT_EQ(r.bytes + static_cast<std::size_t>(std::max<ssize_t>(n, 0)), 1u); // P3
      }
    }
  }
  expect_nothing_in_flight(*m);
}

// P6, case 7.
DRIVER_TEST(kernel_cancel, by_deadline_does_nothing_after_the_end) {
  pending_read early(m, 5ms);
  early.peer.write("abc");
  ASSERT_TRUE(drive(m, [&] { return early.ended(); }));
  EXPECT_EQ(early.bytes, 3u);
  unio::timer_handle timer(15ms, &m);
  EXPECT_TRUE(timer.wait().has_value());
  EXPECT_TRUE(early.ended_once());
  EXPECT_EQ(early.values, 1);
  EXPECT_EQ(m.counters().timeouts, 0u);
  // Far, past and zero.
  pending_read far(m, std::chrono::hours(24 * 365 * 300));
  pending_read past(m, std::chrono::steady_clock::now() - 1h);
  pending_read zero(m, 0ms);
  EXPECT_TRUE(zero.ended_once());
  EXPECT_EQ(zero.error, unio::condition::would_block);
  ASSERT_TRUE(drive(m, [&] { return past.ended(); }));
  EXPECT_EQ(past.error, unio::condition::timed_out);
  EXPECT_FALSE(far.ended());
  far.cancel();
  ASSERT_TRUE(drive(m, [&] { return far.ended(); }));
}

void destroy_with_in_flight(std::size_t count, bool submitted) {
  auto m = made_multiplexer();
  auto [accepting, port] = listener(nullptr);
  unio::timer_handle timer(1h, m.get());
  std::deque<pending_read> reads;
  std::optional<started<unio::async_accept_many>> accept;
  std::optional<started<unio::async_wait>> wait;
  accepting.set_multiplexer(m.get());
  if (count != 0) {
    accept.emplace(unio::async_accept_many(accepting));
    wait.emplace(unio::async_wait(timer));
  }
  for (std::size_t i = 0; i < count; ++i) reads.emplace_back(*m);
  raw const client = raw_connection(port);
  if (submitted) submit_all(*m);
  {
    signal_storm const storm;
    for (pending_read& r : reads) r.socket.set_multiplexer(nullptr);
    m.reset();
  }
  accepting.set_multiplexer(nullptr);
  timer.set_multiplexer(nullptr);
  auto const expect_canceled = [](tally const& one) {
    EXPECT_TRUE(one.ended_once());
    EXPECT_EQ(one.error, unio::condition::canceled);
  };
  for (pending_read const& r : reads) expect_canceled(r);
  if (count != 0) expect_canceled(*accept), expect_canceled(*wait);
}

// Case 10, P1; asio waits for the wrong ring, tokio's driver could not be dropped under signals.
ISOLATED_TEST(kernel_cancel, comes_with_the_end_of_a_multiplexer_that_was_never_run) {
  for (std::size_t const n : {0, 1, 2, 3, 16, 64}) destroy_with_in_flight(n, false);
}
ISOLATED_TEST(kernel_cancel, comes_with_the_end_of_a_multiplexer_amid_signals) {
  for (std::size_t const n : {0, 1, 2, 3, 16, 64}) destroy_with_in_flight(n, true);
}

// Case 11; corosio's drain_cqes_for advanced over the completions of others.
DRIVER_TEST(kernel_cancel, of_what_is_destroyed_leaves_other_completions_alone) {
  auto [first, first_port] = listener(&m);
  auto [second, second_port] = listener(&m);
  tally of_first;
  std::optional accept_first(unio::connect(unio::async_accept(first), tell{&of_first}));
  watched accept_second{unio::async_accept(second)};
  accept_first->start();
  accept_second.start();
  pending_read read(m);
  submit_all(m);
  // All completions are there when one of the three is destroyed.
  raw const a = raw_connection(first_port);
  raw const b = raw_connection(second_port);
  read.peer.write("abc");
  accept_first.reset();
  EXPECT_EQ(of_first.values, 0);
  ASSERT_TRUE(drive(m, [&] { return read.ended() && accept_second.ended(); }));
  EXPECT_EQ(read.bytes, 3u);
  EXPECT_EQ(accept_second.accepted.size(), 1u);
  EXPECT_EQ(m.counters().abandoned, 1u);
}

// Case 9, P2: destroying waits; the kernel does not write into the memory afterwards.
DRIVER_TEST(kernel_cancel, by_destruction_leaves_the_memory_alone_afterwards) {
  for (int round = 0; round < 100; ++round) {
    connection c = local_connection(&m);
    auto memory = std::make_unique<std::array<char, 64>>();
    memory->fill('.');
    tally told;
    {
      auto read = unio::connect(unio::async_read(c.socket, unio::mutable_buffer(*memory)), tell{&told});
      read.start();
      if (round % 2 == 0) submit_all(m);
    }
    c.peer.write("xxxxxxxx");
    submit_all(m);
    EXPECT_EQ((*memory)[0], '.');
    EXPECT_EQ(told.values, 0);
    char rest[16];
    EXPECT_EQ(::recv(c.socket.native_handle(), rest, sizeof rest, MSG_DONTWAIT), 8);
  }
}

// Case 22.
DRIVER_TEST(kernel_cancel, is_not_what_moving_a_handle_does) {
  pending_read read(m);
  submit_all(m);
  unio::socket_handle moved(std::move(read.socket));
  EXPECT_FALSE(read.socket.is_open());
  unio::socket_handle& same = moved;
  moved = std::move(same);
  EXPECT_TRUE(moved.is_open());
  submit_all(m);
  EXPECT_FALSE(read.ended());
  read.peer.write("abc");
  ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
  EXPECT_EQ(std::string(read.memory.data(), read.bytes), "abc");

  // Assigned over, it is closed: what is in flight on it ends, what is in flight on the other continues.
  connection other = local_connection(&m);
  started old_read{unio::async_read(moved, unio::mutable_buffer(read.memory))};
  started new_read{unio::async_read(other.socket, unio::mutable_buffer(read.memory))};
  submit_all(m);
  moved = std::move(other.socket);
  EXPECT_TRUE(old_read.ended_once());
  EXPECT_EQ(old_read.error, unio::condition::canceled);
  EXPECT_TRUE(read.peer.sees_end());
  EXPECT_FALSE(new_read.ended());
  other.peer.write("d");
  ASSERT_TRUE(drive(m, [&] { return new_read.ended(); }));
  EXPECT_EQ(new_read.bytes, 1u);
}

// The canary: what counts as open does notice a leak, and what counts as ended a loss.
ISOLATED_TEST(kernel_cancel, is_checked_by_what_notices_a_leak) {
  auto const before = open_descriptors();
  int const leaked = ::dup(2);
  EXPECT_NE(open_descriptors(), before);
  ::close(leaked);
  EXPECT_EQ(open_descriptors(), before);

  auto const m = made_multiplexer();
  {
    pending_read read(*m);
    EXPECT_NE(m->counters().started, m->counters().finished);
  }
  expect_nothing_in_flight(*m);
}

} // namespace
