// TLS over simulated sockets: short transfers, delays, stops and deadlines at any moment, on connections that
// hold less than a record. Every byte arrives once, in order, and each direction ends where it was ended.
//
// Certificates and signatures are of one size here (Ed25519), so that a seed decides everything.

#include "simulation/support.hpp"
#include "support/test.hpp"
#include "tls/certificates.hpp"

#include <unio/tls.hpp>

namespace {

using namespace test;

std::string bytes_of(std::size_t n, std::uint64_t from) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i != n; ++i) s[i] = static_cast<char>(byte_at(from + i));
  return s;
}

simulation_options tight(std::uint64_t seed) noexcept {
  simulation_options o = simulation_options::from_seed(seed);
  if (seed % 4 != 0) o.stream_capacity = 1 + (seed * 37) % 3000;
  return o;
}

bool may_continue(std::error_code e) { return e == condition::timed_out || e == condition::canceled; }

// One end, and how far it has come.
struct end_of {
  tls_stream stream;
  std::string text; // to write
  std::size_t written = 0;
  bool updates_keys = false;
  bool forgets = false; // the canary: what a write took just before a stop is written again
  bool met = false;
  bool said_end = false;
  std::string got;
  bool heard_end = false;
  std::error_code failed = {};
  [[nodiscard]] bool done() const { return (said_end && heard_end) || failed; }
};

deadline some_time(dice& d) {
  return d.below(3) == 0 ? deadline(std::chrono::microseconds(1 + d.below(60))) : deadline();
}

// Each goes on where the last one was stopped. They end when they are stopped, not when they run out of time.
task<> meet(end_of& e, dice& d) {
  while (!e.met && !e.failed) {
    auto const met = co_await e.stream.co_handshake(some_time(d));
    if (met.has_value()) {
      e.met = true;
    } else if (!may_continue(met.error())) {
      e.failed = met.error();
    } else if (met.error() == condition::canceled) {
      co_return;
    }
  }
}
task<> write_all(end_of& e, dice& d) {
  while (!e.said_end && !e.failed) {
    std::error_code why;
    if (e.written == e.text.size()) {
      auto const said = co_await e.stream.co_shutdown(tls_stream::send, some_time(d));
      why = said.error();
      e.said_end = said.has_value();
    } else if (e.updates_keys && d.below(8) == 0) {
      auto const updated = co_await e.stream.co_update_keys(d.below(2) == 0, some_time(d));
      why = updated.error();
    } else {
      unio::const_buffer const next(e.text.data() + e.written,
                                    std::min(1 + d.below(900), e.text.size() - e.written));
      auto const taken = co_await e.stream.co_write(unio::const_buffers(next), some_time(d));
      if (!e.forgets || !(co_await unio::this_coro::stop_token).stop_requested())
        e.written += taken.has_value() ? taken->bytes() : taken.bytes_transferred();
      why = taken.error();
    }
    if (why == condition::canceled) co_return;
    if (why && !may_continue(why)) e.failed = why;
  }
}
task<> read_all(end_of& e, dice& d) {
  std::array<char, 700> room;
  while (!e.heard_end && !e.failed) {
    mutable_buffers const wanted(mutable_buffer(room.data(), 1 + d.below(room.size())));
    io_result<mutable_buffers> const got = co_await e.stream.co_read(wanted, some_time(d));
    if (got.has_value()) {
      std::size_t const n = got->bytes();
      e.heard_end = n == 0;
      e.got.append(room.data(), n);
    } else if (got.error() == condition::canceled) {
      co_return;
    } else if (!may_continue(got.error())) {
      e.failed = got.error();
    }
  }
}
task<> live(end_of& e, dice& d) {
  co_await meet(e, d);
  if (e.met) co_await unio::when_all(write_all(e, d), read_all(e, d));
}

class started {
 public:
  started(simulation& s, task<> t, unio::stop_token stop) {
    unio::async_run(s.multiplexer(), std::move(t), [this](unio::task_outcome<void>) { done_ = true; },
                    {.stop = stop});
  }
  started(started const&) = delete;
  started& operator=(started const&) = delete;
  ~started() { EXPECT_TRUE(done_) << "a task is left behind"; }
  [[nodiscard]] bool done() const { return done_; }

 private:
  bool done_ = false;
};

struct contexts {
  unio::tls_context of_client, of_server;
  explicit contexts(std::uint64_t seed)
      : of_client(
            test::client({.maximum = seed % 3 == 0 ? unio::tls_version::tls_1_2 : unio::tls_version::tls_1_3,
                          .resumption = false})),
        of_server(test::server({.resumption = seed % 2 == 0})) {}
};

// Whether all arrived.
bool converse(simulation& s, int stops, bool forgets = false) {
  dice d(s.seed());
  contexts const both(s.seed());
  auto [a, b] = s.stream_pair();
  end_of client{tls_stream(a, both.of_client, "example.test"), bytes_of(d.below(5000), 0)};
  end_of server{tls_stream(b, both.of_server), bytes_of(d.below(5000), 1'000'000)};
  client.forgets = forgets;
  client.updates_keys = server.updates_keys = s.seed() % 3 != 0;
  for (int attempt = 0; attempt <= stops; ++attempt) {
    unio::stop_source stop;
    started one(s, live(client, d), stop.get_token());
    started two(s, live(server, d), stop.get_token());
    if (attempt != stops) {
      for (std::uint64_t turns = d.below(120); turns != 0; --turns) (void)s.multiplexer().try_run();
      if (d.below(4) == 0) s.advance(std::chrono::microseconds(d.below(100)));
      stop.request_stop();
    }
    bool const ended = run_until(s, [&] { return one.done() && two.done(); });
    EXPECT_TRUE(ended) << "nothing goes on";
    if (!ended) std::abort();
  }
  if (forgets) return server.got == client.text;
  EXPECT_FALSE(client.failed) << client.failed.message() << ": " << client.stream.why();
  EXPECT_FALSE(server.failed) << server.failed.message() << ": " << server.stream.why();
  EXPECT_TRUE(client.got == server.text) << client.got.size() << " of " << server.text.size();
  EXPECT_TRUE(server.got == client.text) << server.got.size() << " of " << client.text.size();
  return true;
}

TEST(simulated_tls, every_byte_arrives_once_in_both_directions) {
  for_seeds<tight>(300, [](simulation& s) { (void)converse(s, 0); });
}

TEST(simulated_tls, whatever_is_stopped_and_when) {
  for_seeds<tight>(700, [](simulation& s) { (void)converse(s, 6); });
}

TEST(simulated_tls, canary_of_a_writer_that_repeats_what_was_taken) {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed != 200 && wrong == 0; ++seed) {
    simulation s(tight(seed));
    if (!converse(s, 6, true)) ++wrong;
  }
  EXPECT_EQ(wrong, 1) << "the harness sees nothing";
}

// The peer is gone at any moment: an error on this side, never the end, never bytes that were not sent.
SEEDED_TEST(simulated_tls, a_peer_that_vanishes_at_any_moment_is_an_error, 400, tight) {
  dice d(s.seed());
  contexts const both(s.seed());
  auto [a, b] = s.stream_pair();
  end_of client{tls_stream(a, both.of_client, "example.test"), bytes_of(20'000, 0)};
  end_of server{tls_stream(b, both.of_server), bytes_of(20'000, 1'000'000)};
  unio::stop_source stop, never;
  started one(s, live(client, d), never.get_token());
  {
    started two(s, live(server, d), stop.get_token());
    for (std::uint64_t turns = d.below(300); turns != 0; --turns) (void)s.multiplexer().try_run();
    stop.request_stop();
    ASSERT_TRUE(run_until(s, [&] { return two.done(); }));
  }
  (void)b.close();
  ASSERT_TRUE(run_until(s, [&] { return one.done(); }));
  EXPECT_TRUE(client.failed || (client.said_end && client.heard_end));
  EXPECT_TRUE(!client.heard_end || server.written == server.text.size());
  EXPECT_EQ(client.got, server.text.substr(0, client.got.size()));
}

TEST(simulated_tls, a_seed_decides_everything) {
  for (std::uint64_t seed = 0; seed != 20; ++seed) {
    std::uint64_t first = 0;
    for (int round = 0; round != 2; ++round) {
      simulation s(tight(seed));
      (void)converse(s, 3);
      if (round == 0) first = s.fingerprint();
      EXPECT_EQ(s.fingerprint(), first) << "UNIO_SEED=" << seed;
    }
  }
}

} // namespace
