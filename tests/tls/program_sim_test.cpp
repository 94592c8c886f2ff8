// The TLS server of the examples, word for word, and a client of an address, on the sockets that they open in
// a simulation: connections that are reset at any moment, peers that are silent, limits in virtual time.

#ifndef __clang__ // types of an anonymous namespace in a file that is included: only here
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

#include "simulation/support.hpp"
#include "support/test.hpp"
#include "tls/certificates.hpp"

#include <unio/tls.hpp>
#include <unio/unio.hpp>

#pragma GCC diagnostic ignored "-Wreturn-type" // of a main() that is none here, and never called

// In a namespace of its own. Its includes stand above.
#define main program
namespace tls_server {
#include "../../examples/tls_server/main.cpp"
}
#undef main

namespace {

using namespace test;

unio::task<unio::result<void>> fetch(endpoint at, std::string name, unio::tls_context trust,
                                     std::string& page) {
  auto socket = unio::socket_handle::create(at.family()).value();
  if (auto const connected = co_await socket.co_connect(at); !connected) co_return connected.error();
  unio::tls_stream secure(socket, trust, name);
  if (auto const met = co_await secure.co_handshake(); !met) co_return met.error();
  std::string const request = "GET / HTTP/1.1\r\nHost: " + name + "\r\nConnection: close\r\n\r\n";
  if (auto const sent = co_await unio::co_write(secure, request); !sent) co_return sent.error();
  std::array<char, 4096> room;
  for (;;) {
    auto const got = co_await secure.co_read(room);
    if (!got) co_return got.error(); // cut off: condition::truncated
    if (got.bytes_transferred() == 0) co_return {};
    page.append(room.data(), got.bytes_transferred());
  }
}

unio::task<unio::result<void>> fetch_in_time(endpoint at, std::string name, unio::tls_context trust,
                                             std::string& page) {
  co_return co_await unio::timeout(10s, fetch(at, name, trust, page));
}

endpoint const here = endpoint::ipv4({10, 0, 0, 1}, 443);

struct fetched {
  std::error_code why;
  std::string page;
};

unio::task<> ask(fetched& f, unio::tls_context const& trust, unio::stop_source& all_asked) {
  unio::result<void> const r = co_await fetch_in_time(here, "example.test", trust, f.page);
  f.why = r.error();
  all_asked.request_stop();
}

// Both programs; what they say on the standard error is theirs.
fetched fetch_page(simulation& s) {
  static unio::tls_context const identity = test::server({.resumption = false});
  static unio::tls_context const trust = test::client({.resumption = false});
  fetched f;
  unio::stop_source all_asked;
  ::testing::internal::CaptureStderr();
  {
    auto listening = unio::listening_socket_handle::listen(here).value();
    unio::async_run(s.multiplexer(), ask(f, trust, all_asked));
    (void)unio::run(tls_server::serve_all(listening, identity), {.stop = all_asked.get_token()});
  }
  (void)::testing::internal::GetCapturedStderr();
  EXPECT_EQ(s.refused(), "");
  return f;
}

bool is_whole(std::string const& page) {
  return page.ends_with("\r\n\r\nYou speak TLS_AES_256_GCM_SHA384.\n");
}

TEST(simulated_program, fetches_a_page_over_tls_or_says_why_not) {
  int whole = 0, broken = 0;
  for_seeds(400, [&](simulation& s) {
    fetched const f = fetch_page(s);
    EXPECT_TRUE(f.why || is_whole(f.page)) << f.page;
    if (!s.options().resets) {
      EXPECT_FALSE(f.why) << f.why.message();
    }
    ++(f.why ? broken : whole);
  });
  EXPECT_GT(whole, 200);
  EXPECT_GT(broken, 10) << "no connection was reset";
}

// Every call that moves bytes finds the connection gone, one in each run.
TEST(simulated_program, fetches_over_tls_on_a_connection_that_breaks_at_each_step) {
  for (char const* const calls : {"read*", "write*"}) {
    std::uint64_t all = 0;
    for (int nth = 0; nth == 0 || static_cast<std::uint64_t>(nth) <= all; ++nth) {
      SCOPED_TRACE(std::string(calls) + " " + std::to_string(nth));
      simulation_options o = simulation_options::orderly();
      o.max_transfer_bytes = 400;
      simulation s(o);
      if (nth != 0) s.fail(calls, nth, ECONNRESET);
      auto const began = unio::now();
      fetched const f = fetch_page(s);
      EXPECT_TRUE(f.why || is_whole(f.page)) << f.page;
      EXPECT_LE(unio::now() - began, 11s);
      if (nth == 0) {
        EXPECT_FALSE(f.why) << f.why.message();
        all = s.calls(calls);
        EXPECT_GT(all, 5u);
      }
      expect_at_rest(s);
    }
  }
}

SEEDED_TEST(simulated_program, gives_up_on_a_tls_server_that_is_silent, 200) {
  auto listening = unio::listening_socket_handle::listen(here).value(); // nobody accepts
  static unio::tls_context const trust = test::client({.resumption = false});
  if (s.seed() % 2 == 0) s.set_route(here, {.is_lost = true});
  std::string page;
  auto const began = unio::now();
  ::testing::internal::CaptureStderr();
  auto const r = unio::run(fetch_in_time(here, "example.test", trust, page));
  (void)::testing::internal::GetCapturedStderr();
  bool const was_reset = r.error() == std::errc::connection_reset || r.error() == std::errc::broken_pipe;
  EXPECT_TRUE(r.error() == unio::condition::timed_out || was_reset) << r.error().message();
  if (!was_reset) {
    EXPECT_GE(unio::now() - began, 10s);
  }
  EXPECT_LE(unio::now() - began, 11s);
  EXPECT_EQ(page, "");
}

} // namespace
