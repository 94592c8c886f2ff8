// No allocation and no lock for datagrams and passed handles, once warm: called, connected and awaited, ready
// and waiting.

#include "alloc/rounds.hpp"
#include "support/coroutine.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

struct rig {
  std::unique_ptr<unio::io_multiplexer> m = unio::io_multiplexer::best_available(1).value();
  datagram_handle server =
      datagram_handle::bind(endpoint::ipv4_loopback(0),
                            {.destination = true, .ecn = true, .gro = true, .timestamps = true})
          .value();
  datagram_handle client = datagram_handle::bind(endpoint::ipv4_loopback(0)).value();
  unio::send_description how{.to = server.local_endpoint().value(), .segment = 1200, .ecn = unio::ecn::ect0};
  std::string bytes = std::string(5000, 'x');
  std::vector<char> memory = std::vector<char>(65535);
  unio::datagram_info info;

  rig() {
    server.set_multiplexer(m.get());
    client.set_multiplexer(m.get());
  }
  bool send() { return client.send_to(how, unio::const_buffer(bytes)).has_value(); }
  auto receiving(deadline d) {
    return unio::async_receive_from(server, unio::mutable_buffer(memory), info, d);
  }
};

TEST(datagram, costs_nothing_to_receive) {
  rig r;
  expect_free("called", [&] {
    return r.send() && r.server.receive_from(unio::mutable_buffer(r.memory), r.info, 10s).has_value();
  });
  for (bool const waits : {false, true})
    expect_free(waits ? "connected, waiting" : "connected, ready", [&] {
      return one_connected(*r.m, [&] { return r.receiving(10s); }, waits, [&] { (void)r.send(); });
    });
  expect_free("connected, atomic", [&] {
    return one_connected(
        *r.m,
        [&] {
          return unio::atomic_async_receive_from(r.server, unio::mutable_buffer(r.memory), r.info, 10s);
        },
        true, [&] { (void)r.send(); });
  });
}

TEST(datagram, costs_nothing_to_send) {
  rig r;
  auto const drain = [&] {
    return r.server.receive_from(unio::mutable_buffer(r.memory), r.info, 10s).has_value();
  };
  expect_free("called", [&] { return r.send() && drain(); });
  expect_free("connected", [&] {
    return one_connected(
               *r.m, [&] { return unio::async_send_to(r.client, r.how, unio::const_buffer(r.bytes), 10s); },
               false, [] {}) &&
           drain();
  });
}

unio::task<bool> exchange(rig& r) {
  auto const sent = co_await r.client.co_send_to(r.how, unio::const_buffer(r.bytes));
  auto const got = co_await r.server.co_receive_from(unio::mutable_buffer(r.memory), r.info, 10s);
  co_return sent.has_value() && got.has_value();
}

TEST(datagram, costs_nothing_to_await) {
  rig r;
  r.server.set_multiplexer(nullptr); // run() drives the thread's own
  r.client.set_multiplexer(nullptr);
  expect_free("awaited", [&] { return unio::run(exchange(r)); });
}

TEST(datagram, costs_nothing_in_batches) {
  rig r;
  std::array<unio::datagram_to_send, 20> out;
  for (auto& d : out) d = {.how = {.to = r.how.to}, .bytes = unio::const_buffer("hello", 5)};
  std::array<std::array<char, 16>, 20> memory;
  std::array<unio::received_datagram, 20> in;
  for (std::size_t i = 0; i < in.size(); ++i) in[i].room = unio::mutable_buffer(memory[i]);
  auto const send = [&] {
    for (auto& d : out) d.sent = 0;
    return r.client.send_batch(out).value() == out.size();
  };
  expect_free("called", [&] { return send() && r.server.receive_batch(in, 10s).has_value(); });
  expect_free("connected, waiting", [&] {
    return one_connected(
        *r.m, [&] { return unio::async_receive_batch(r.server, std::span(in), 10s); }, true,
        [&] { (void)send(); });
  });
}

TEST(passed_handles, cost_nothing) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  auto pair = unio::socket_handle::pair().value();
  pair.first.set_multiplexer(m.get());
  pair.second.set_multiplexer(m.get());
  unio::handle const* const list[] = {&pair.first, &pair.second};
  char memory[8];
  expect_free("called", [&] {
    return unio::send_handles(pair.first, unio::const_buffer("x", 1), list).has_value() &&
           unio::receive_handles(pair.second, unio::mutable_buffer(memory), 10s).has_value();
  });
  expect_free("connected, waiting", [&] {
    return one_connected(
        *m, [&] { return unio::async_receive_handles(pair.second, unio::mutable_buffer(memory), 10s); }, true,
        [&] { (void)unio::send_handles(pair.first, unio::const_buffer("x", 1), list); });
  });
}

// The canary: what allocates is noticed.
TEST(datagram, that_allocates_is_noticed) {
  costs const before = test::costs_so_far();
  auto const allocated = std::make_unique<unio::datagram_info>();
  EXPECT_NE(allocated, nullptr);
  EXPECT_NE(test::costs_so_far() - before, costs{});
}

} // namespace
