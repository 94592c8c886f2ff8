// Datagrams on the simulated network: what is lost, doubled, reordered and marked there, a protocol that
// gets along with all of it, and operations that are stopped at any moment.

#include "simulation/support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

endpoint const server_at = endpoint::ipv4({10, 0, 0, 1}, 7000);
endpoint const client_at = endpoint::ipv4({10, 0, 0, 2}, 7001);

// ---- a protocol ------------------------------------------------------------------------------------------

struct exchange {
  datagram_handle server, client;
  bool is_done = false;
  int answered = 0;
  int repeated = 0;
};

task<> serve(exchange& x) {
  std::array<std::byte, 64> room;
  datagram_info info;
  while (!x.is_done) {
    auto const got = co_await x.server.co_receive_from(unio::mutable_buffer(room), info, 1ms);
    if (got.error() == condition::timed_out) continue;
    EXPECT_TRUE(got) << got.error().message();
    if (!got) co_return;
    EXPECT_EQ(info.from, client_at);
    EXPECT_EQ(info.to, endpoint::ipv4({10, 0, 0, 1}, 0));
    auto const sent = co_await x.server.co_send_to({.to = info.from, .from = info.to}, got->front());
    EXPECT_EQ(sent.bytes_transferred(), got.bytes_transferred());
  }
}

// Asks until it is answered. What was asked before may be answered late, or twice.
task<> ask(exchange& x, int questions) {
  std::array<std::byte, 64> room;
  datagram_info info;
  for (int i = 0; i != questions;) {
    auto const sent = co_await x.client.co_send_to({.to = server_at}, unio::const_buffer(&i, sizeof i));
    EXPECT_EQ(sent.bytes_transferred(), sizeof i);
    for (;;) {
      auto const got = co_await x.client.co_receive_from(unio::mutable_buffer(room), info, 50us);
      if (got.error() == condition::timed_out) {
        ++x.repeated;
        break;
      }
      int answer = -1;
      EXPECT_EQ(got.bytes_transferred(), sizeof answer);
      std::memcpy(&answer, room.data(), sizeof answer);
      EXPECT_LE(answer, i);
      if (answer != i) continue;
      ++x.answered;
      ++i;
      break;
    }
  }
  x.is_done = true;
}

TEST(simulated_datagrams, carry_a_protocol_that_asks_again) {
  int repeated = 0;
  for_seeds(1000, [&](simulation& s) {
    exchange x{.server = s.datagrams(server_at), .client = s.datagrams(client_at)};
    bool served = false;
    bool asked = false;
    unio::async_run(s.multiplexer(), [](exchange& e, bool& ended) -> task<> {
      co_await serve(e);
      ended = true;
    }(x, served));
    unio::async_run(s.multiplexer(), [](exchange& e, bool& ended) -> task<> {
      co_await ask(e, 20);
      ended = true;
    }(x, asked));
    EXPECT_TRUE(run_until(s, [&] { return served && asked; }));
    EXPECT_EQ(x.answered, 20);
    repeated += x.repeated;
  });
  if (std::getenv("UNIO_SEED") == nullptr) {
    EXPECT_GT(repeated, 100) << "nothing was ever lost";
  }
}

// ---- the network -----------------------------------------------------------------------------------------

struct fates {
  int lost = 0;
  int doubled = 0;
  int reordered = 0;
  int marked = 0;
};

// Sends numbered datagrams, with blocking calls, and says what became of them.
fates fates_of(simulation& s) {
  fates f;
  datagram_handle server = s.datagrams(server_at);
  datagram_handle client = s.datagrams(client_at);
  server.set_multiplexer(nullptr);
  client.set_multiplexer(nullptr);
  constexpr int count = 50;
  for (int i = 0; i != count; ++i)
    EXPECT_TRUE(client.send_to({.to = server_at, .ecn = ecn::ect0}, unio::const_buffer(&i, sizeof i)));
  std::array<int, count> times{};
  int last = -1;
  for (;;) {
    int i = -1;
    datagram_info info;
    auto const got = server.receive_from(unio::mutable_buffer(&i, sizeof i), info, 1ms);
    if (!got) {
      EXPECT_EQ(got.error(), condition::timed_out);
      break;
    }
    EXPECT_TRUE(0 <= i && i < count);
    if (i < 0 || i >= count) break;
    ++times[static_cast<std::size_t>(i)];
    if (i < last) ++f.reordered;
    last = i;
    EXPECT_TRUE(info.ecn == ecn::ect0 || info.ecn == ecn::congestion);
    if (info.ecn == ecn::congestion) ++f.marked;
    EXPECT_FALSE(info.truncated);
  }
  for (int const t : times) {
    EXPECT_LE(t, 2);
    if (t == 0) ++f.lost;
    if (t == 2) ++f.doubled;
  }
  return f;
}

TEST(simulated_datagrams, are_lost_doubled_reordered_and_marked_where_that_is_allowed) {
  fates all;
  for_seeds(200, [&](simulation& s) {
    fates const f = fates_of(s);
    simulation_options const& o = s.options();
    EXPECT_TRUE(o.lost_datagrams || f.lost == 0);
    EXPECT_TRUE(o.double_datagrams || f.doubled == 0);
    EXPECT_TRUE(o.reordered_datagrams || f.reordered == 0);
    EXPECT_TRUE(o.congestion || f.marked == 0);
    all.lost += f.lost;
    all.doubled += f.doubled;
    all.reordered += f.reordered;
    all.marked += f.marked;
  });
  if (std::getenv("UNIO_SEED") != nullptr) return;
  EXPECT_GT(all.lost, 100);
  EXPECT_GT(all.doubled, 100);
  EXPECT_GT(all.reordered, 100);
  EXPECT_GT(all.marked, 100);
}

SEEDED_TEST(simulated_datagrams, arrive_in_order_and_once_on_an_orderly_network, 1,
            simulation_options::orderly) {
  fates const f = fates_of(s);
  EXPECT_EQ(f.lost + f.doubled + f.reordered + f.marked, 0);
}

TEST(simulated_datagrams, are_the_same_with_the_same_seed) {
  for (std::uint64_t seed = 0; seed != 20; ++seed) {
    std::uint64_t fingerprints[2];
    for (std::uint64_t& f : fingerprints) {
      simulation s(simulation_options::from_seed(seed));
      (void)fates_of(s);
      f = s.fingerprint();
    }
    EXPECT_EQ(fingerprints[0], fingerprints[1]) << seed;
  }
}

TEST(simulated_datagrams, are_cut_into_segments_also_where_the_kernel_refuses) {
  for (bool const refuses : {false, true}) {
    simulation s(simulation_options::orderly());
    datagram_handle server = s.datagrams(server_at);
    datagram_handle client = s.datagrams(client_at);
    for (int call = 1; refuses && call <= 2; ++call) s.fail("sendmsg", call, EIO); // it is tried twice
    std::string const bytes(2500, 'x');
    auto const sent = client.send_to({.to = server_at, .segment = 1000}, unio::const_buffer(bytes));
    ASSERT_TRUE(sent) << sent.error().message();
    EXPECT_EQ(sent.bytes_transferred(), bytes.size());
    for (std::size_t const size : {1000U, 1000U, 500U}) {
      char memory[2000];
      datagram_info info;
      EXPECT_EQ(server.receive_from(unio::mutable_buffer(memory), info, 1ms).bytes_transferred(), size);
    }
    EXPECT_EQ(s.calls("sendmsg"), refuses ? 5U : 1U);
  }
}

SEEDED_TEST(simulated_datagrams, move_in_batches, 300) {
  datagram_handle server = s.datagrams(server_at);
  datagram_handle client = s.datagrams(client_at);
  constexpr std::size_t count = 40;
  std::array<int, count> numbers;
  std::array<unio::datagram_to_send, count> out;
  for (std::size_t i = 0; i != count; ++i) {
    numbers[i] = static_cast<int>(i);
    out[i] = {.how = {.to = server_at}, .bytes = unio::const_buffer(&numbers[i], sizeof(int))};
  }
  for (std::size_t sent = 0; sent != count;) {
    auto const r = client.send_batch(std::span(out).subspan(sent));
    ASSERT_TRUE(r) << r.error().message();
    ASSERT_NE(*r, 0U);
    sent += *r;
  }
  std::array<int, count> memory;
  std::array<unio::received_datagram, count> in;
  for (std::size_t i = 0; i != count; ++i) in[i].room = unio::mutable_buffer(&memory[i], sizeof(int));
  for (;;) {
    auto const r = server.receive_batch(in, 1ms);
    if (r.error() == condition::timed_out) break;
    ASSERT_TRUE(r) << r.error().message();
    ASSERT_NE(*r, 0U);
    EXPECT_EQ(r.bytes_transferred(), *r * sizeof(int));
    for (std::size_t i = 0; i != *r; ++i) {
      EXPECT_EQ(in[i].info.from, client_at);
      EXPECT_TRUE(0 <= memory[i] && memory[i] < static_cast<int>(count));
    }
  }
}

// ---- stopped at any moment -------------------------------------------------------------------------------

simulation_options reliable(std::uint64_t seed) noexcept {
  simulation_options o = simulation_options::from_seed(seed);
  o.lost_datagrams = o.double_datagrams = false;
  return o;
}

// Whatever happens to an operation, each datagram that arrived is received by somebody, or is still there.
TEST(simulated_datagrams, are_not_lost_by_operations_that_are_cancelled_or_destroyed) {
  int cancelled = 0;
  for_seeds<reliable>(1500, [&](simulation& s) {
    dice d(s.seed());
    datagram_handle server = s.datagrams(server_at);
    datagram_handle client = s.datagrams(client_at);
    std::array<char, 8> memory[3];
    datagram_info info[3];
    tally results[3];
    std::optional<unio::io_operation_connection<unio::async_receive_from, tell>> operations[3];
    for (std::size_t i = 0; i != 3; ++i) {
      operations[i].emplace(unio::async_receive_from(server, unio::mutable_buffer(memory[i]), info[i], 1ms),
                            tell{&results[i]});
      operations[i]->start();
    }
    std::size_t const sent = d.below(4);
    for (std::size_t i = 0; i != sent; ++i) {
      char const byte = 'x';
      started sending(unio::async_send_to(client, {.to = server_at}, unio::const_buffer(&byte, 1)));
      EXPECT_TRUE(run_until(s, [&] { return sending.ended(); }));
      EXPECT_EQ(sending.tally::bytes, 1U);
    }
    for (std::uint64_t turns = d.below(6); turns != 0; --turns) (void)s.multiplexer().try_run();
    operations[d.below(3)]->cancel();
    std::optional<std::size_t> destroyed;
    if (d.below(2) == 0) destroyed = d.below(3);
    if (destroyed) operations[*destroyed].reset();
    EXPECT_TRUE(run_until(s, [&] {
      for (std::size_t i = 0; i != 3; ++i)
        if (destroyed != i && !results[i].ended()) return false;
      return true;
    }));
    std::size_t received = 0;
    for (std::size_t i = 0; i != 3; ++i) {
      if (destroyed == i) continue;
      expect_ended_once(results[i]);
      if (results[i].error == condition::canceled) ++cancelled;
      EXPECT_TRUE(!results[i].error || results[i].error == condition::canceled ||
                  results[i].error == condition::timed_out)
          << results[i].error.message();
      EXPECT_EQ(results[i].bytes, results[i].error ? 0U : 1U);
      received += results[i].bytes;
    }
    while (server.receive_from(unio::mutable_buffer(memory[0]), info[0], 1ms)) ++received;
    // Only the one that was destroyed may have had one that nobody is told of.
    EXPECT_LE(received, sent);
    EXPECT_GE(received + (destroyed ? 1 : 0), sent);
  });
  if (std::getenv("UNIO_SEED") == nullptr) {
    EXPECT_GT(cancelled, 100);
  }
}

TEST(simulated_datagrams, connect_and_are_named) {
  simulation s(simulation_options::orderly());
  datagram_handle server = s.datagrams(server_at);
  datagram_handle client = s.datagrams(client_at);
  datagram_handle other = s.datagrams(endpoint::ipv4({10, 0, 0, 3}, 1));
  EXPECT_EQ(server.local_endpoint().value(), server_at);
  EXPECT_FALSE(client.remote_endpoint());
  ASSERT_TRUE(client.connect(server_at));
  EXPECT_EQ(client.remote_endpoint().value(), server_at);
  ASSERT_TRUE(other.send_to({.to = client_at}, unio::const_buffer("no", 2)));
  ASSERT_TRUE(server.send_to({.to = client_at}, unio::const_buffer("yes", 3)));
  char memory[8];
  datagram_info info;
  EXPECT_EQ(client.receive_from(unio::mutable_buffer(memory), info, 1ms).bytes_transferred(), 3U);
  ASSERT_TRUE(client.send_to({}, unio::const_buffer("", 0)));
  auto const empty = server.receive_from(unio::mutable_buffer(memory), info, 1ms);
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty.bytes_transferred(), 0U);
  ASSERT_TRUE(client.disconnect());
  EXPECT_EQ(client.send_to({}, unio::const_buffer("x", 1)).error().value(), EDESTADDRREQ);
  EXPECT_EQ(client.send_to({.to = server_at}, unio::const_buffer(memory, 0)).bytes_transferred(), 0U);
  // A buffer that is one byte too short.
  ASSERT_TRUE(server.send_to({.to = client_at}, unio::const_buffer("12345678", 8)));
  EXPECT_EQ(client.receive_from(unio::mutable_buffer(memory, 7), info, 1ms).bytes_transferred(), 7U);
  EXPECT_TRUE(info.truncated);
}

} // namespace
