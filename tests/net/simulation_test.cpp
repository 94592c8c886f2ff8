// Names inside of the simulation: the files, the name server, its datagrams and connections are simulated,
// and so is the time. Datagrams are lost, doubled and reordered, connections are reset, calls interrupted.

#include "net/name_server.hpp"
#include "simulation/support.hpp"
#include "support/test.hpp"

#include <unio/connect_to.hpp>
#include <unio/resolver.hpp>

namespace {

using namespace test;

endpoint const server_at = endpoint::ipv4({10, 0, 0, 53}, 53);

void put(simulation& sim, char const* path, std::string_view text) {
  sim.put_file(path, std::as_bytes(std::span(text)));
}

// /etc, and a resolver that looks there: nothing in the program knows of the simulation.
struct network {
  explicit network(simulation& s, dns_handler h) : sim(s), handler(std::move(h)) {
    put(sim, "/etc/resolv.conf", "nameserver 10.0.0.53\noptions timeout:1 attempts:5\n");
    put(sim, "/etc/nsswitch.conf", "hosts: files dns\n");
    put(sim, "/etc/hosts", "10.0.0.7 printer\n");
    socket = unio::datagram_handle::bind(server_at).value();
  }
  simulation& sim;
  dns_handler handler;
  unio::datagram_handle socket;
};

zone simulated_zone() {
  zone z;
  z.add("both.test", a_record("10.0.0.1")).add("both.test", aaaa_record("2001:db8::1"));
  return z;
}

template <class T> task<T> beside_a_server(network& n, task<T> client) {
  auto both = co_await unio::when_any(
      [](task<T> t) -> task<std::optional<T>> { co_return co_await std::move(t); }(std::move(client)),
      [](network& x) -> task<std::optional<T>> {
        co_await serve_datagrams(x.socket, x.handler);
        co_return std::nullopt;
      }(n));
  co_return std::move(**std::get<0>(both.outcomes));
}

task<io_result<endpoint_list>> look_up(std::string host, unio::deadline d, unio::resolve_options o = {}) {
  unio::resolver names;
  co_return co_await names.co_resolve(host, 80, d, o);
}

TEST(simulated_names, are_found_although_datagrams_are_lost_doubled_and_reordered) {
  int whole = 0, halves = 0, none = 0;
  for_seeds(500, [&](simulation& sim) {
    {
      network n(sim, simulated_zone());
      auto const r = unio::run(beside_a_server(n, look_up("both.test", 60s)));
      if (!r.has_value()) {
        ++none; // five datagrams in a row were lost
        EXPECT_EQ(r.error(), resolve_error::no_answer);
      } else {
        (r->size() == 2 ? whole : halves)++;
        for (endpoint const& e : *r) EXPECT_EQ(e.port(), 80);
      }
    }
  });
  EXPECT_GT(whole, 250);
  EXPECT_GT(halves, 5);
  EXPECT_LT(none, 5);
}

TEST(simulated_names, in_the_hosts_file_are_found_without_a_server) {
  simulation sim(simulation_options::orderly());
  {
    network n(sim, [](dns_query const&) { return std::vector<dns_answer>(); });
    auto const r = unio::run(look_up("printer", 1s));
    ASSERT_TRUE(r.has_value()) << r.error().message();
    EXPECT_EQ(r->front(), endpoint::ipv4({10, 0, 0, 7}, 80));
  }
  expect_at_rest(sim);
}

TEST(simulated_names, wait_fifty_milliseconds_for_the_other_family_and_a_second_for_an_answer) {
  for (bool const all : {false, true}) {
    simulation sim(simulation_options::orderly());
    {
      zone const z = simulated_zone();
      network n(sim,
                [&](dns_query const& q) { return all || q.type == aaaa ? std::vector<dns_answer>() : z(q); });
      auto const before = sim.now();
      auto const r = unio::run(beside_a_server(n, look_up("both.test", 60s)));
      auto const took = std::chrono::round<std::chrono::milliseconds>(sim.now() - before);
      if (all) {
        EXPECT_EQ(r.error(), resolve_error::no_answer);
        EXPECT_EQ(took, 5s); // five times a second
      } else {
        EXPECT_EQ(r.value().size(), 1u);
        EXPECT_GE(took, 50ms);
        EXPECT_LT(took, 100ms);
      }
    }
    expect_at_rest(sim);
  }
}

// "single-request" is for what loses one of two questions that come together, or all of one kind.
TEST(simulated_names, that_are_asked_for_one_after_the_other_have_time_each) {
  for (unsigned const lost : {unsigned{a}, unsigned{aaaa}}) {
    simulation sim(simulation_options::orderly());
    {
      zone const z = simulated_zone();
      network n(sim, [&](dns_query const& q) { return q.type == lost ? std::vector<dns_answer>() : z(q); });
      put(sim, "/etc/resolv.conf", "nameserver 10.0.0.53\noptions single-request timeout:1 attempts:1\n");
      auto const r = unio::run(beside_a_server(n, look_up("both.test", 60s)));
      ASSERT_TRUE(r.has_value()) << r.error().message();
      EXPECT_EQ(r->front().family(), lost == a ? address_family::ipv6 : address_family::ipv4);
    }
    expect_at_rest(sim);
  }
}

TEST(simulated_names, end_at_the_deadline_or_when_they_are_stopped_and_leave_no_socket_open) {
  int found = 0, late = 0, stopped = 0;
  for_seeds(500, [&](simulation& sim) {
    dice d{sim.seed()};
    {
      network n(sim, simulated_zone());
      auto const limit = std::chrono::microseconds(d.below(12'000));
      unio::stop_source stop;
      bool const stops = d.below(2) == 0;
      if (stops) sim.after(std::chrono::microseconds(d.below(12'000)), [&] { stop.request_stop(); });
      auto const r = unio::run(beside_a_server(n, look_up("both.test", limit)), {.stop = stop.get_token()});
      if (r.has_value()) {
        ++found;
      } else if (r.error() == condition::canceled) {
        ++stopped;
        EXPECT_TRUE(stops);
      } else {
        ++late;
        EXPECT_TRUE(r.error() == condition::timed_out || r.error() == condition::would_block)
            << r.error().message();
      }
      sim.advance(20ms); // so that the stop comes, if it has not
      (void)sim.multiplexer().try_run();
    }
  });
  EXPECT_GT(found, 20);
  EXPECT_GT(late, 20);
  EXPECT_GT(stopped, 20);
}

TEST(simulated_names, that_only_the_c_library_finds_are_refused) {
  unio::testing::simulation sim(unio::testing::simulation_options::orderly());
  unio::resolver names; // the rule leaves what ends in .local to the C library
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(names.resolve("printer.local", 80).error(), std::errc::function_not_supported);
  EXPECT_NE(::testing::internal::GetCapturedStderr(), "");
  EXPECT_NE(sim.refused().find("getaddrinfo(3) is not simulated\n"), std::string::npos) << sim.refused();
}

TEST(simulated_names, lead_to_a_connection_past_an_address_that_is_silent) {
  simulation sim(simulation_options::orderly());
  {
    network n(sim, simulated_zone());
    // The IPv6 address comes first, and nothing that is sent there arrives.
    sim.set_route(endpoint::ipv6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0),
                  {.is_lost = true});
    auto const listener = unio::listening_socket_handle::listen(endpoint::ipv4({10, 0, 0, 1}, 80)).value();
    auto const before = sim.now();
    std::string why;
    auto const s = unio::run(beside_a_server(n, [](std::string& w) -> task<result<socket_handle>> {
      unio::resolver names;
      co_return co_await unio::co_connect_to("both.test:80", 10s, {.names = &names, .why = &w});
    }(why)));
    ASSERT_TRUE(s.has_value()) << why;
    EXPECT_EQ(s->remote_endpoint().value(), endpoint::ipv4({10, 0, 0, 1}, 80));
    auto const took = sim.now() - before;
    EXPECT_GE(took, 250ms);
    EXPECT_LT(took, 400ms);
  }
  expect_at_rest(sim);
}

// The kernel gives up on a silent address by itself, with the error of a deadline.
TEST(simulated_names, that_were_late_lead_to_a_connection_where_the_others_are_silent) {
  simulation sim(simulation_options::orderly());
  {
    zone const z = simulated_zone();
    int lost = 0;
    network n(sim, [&](dns_query const& q) {
      return q.type == a && lost++ == 0 ? std::vector<dns_answer>() : z(q);
    });
    sim.set_route(endpoint::ipv6({0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 0),
                  {.is_lost = true});
    auto const listener = unio::listening_socket_handle::listen(endpoint::ipv4({10, 0, 0, 1}, 80)).value();
    std::string why;
    auto const s = unio::run(beside_a_server(n, [](std::string& w) -> task<result<socket_handle>> {
      unio::resolver names;
      co_return co_await unio::co_connect_to("both.test:80", {}, {.names = &names, .why = &w});
    }(why)));
    ASSERT_TRUE(s.has_value()) << why;
    EXPECT_EQ(s->remote_endpoint().value(), endpoint::ipv4({10, 0, 0, 1}, 80));
  }
  expect_at_rest(sim);
}

} // namespace
