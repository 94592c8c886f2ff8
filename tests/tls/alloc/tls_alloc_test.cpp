// Records cost no allocation of unio's once warm: blocks and frames come from the pool. What OpenSSL
// allocates is counted apart, and reported. Handshakes allocate.

#include "alloc/counting.hpp"
#include "support/test.hpp"
#include "tls/engines.hpp"

#include <unio/tls.hpp>

#include <openssl/crypto.h>

namespace {

using namespace test;

constinit thread_local std::uint64_t openssl_allocations = 0;

void* counted_malloc(std::size_t n, char const*, int) {
  ++openssl_allocations;
  return std::malloc(n);
}
void* counted_realloc(void* p, std::size_t n, char const*, int) {
  ++openssl_allocations;
  return std::realloc(p, n);
}
void counted_free(void* p, char const*, int) { std::free(p); }

// Before OpenSSL has allocated anything.
bool const counts = CRYPTO_set_mem_functions(&counted_malloc, &counted_realloc, &counted_free) == 1;

constexpr int warm_up = 100;
constexpr int measured = 200;

TEST(tls_alloc, the_engine_allocates_nothing_for_a_record) {
  ASSERT_TRUE(counts);
  connection c;
  c.open();
  std::string const text = numbered(20'000);
  std::string got(text.size(), '\0');
  costs before;
  std::uint64_t openssl_before = 0;
  for (int i = -warm_up; i != measured; ++i) {
    if (i == 0) {
      before = costs_so_far();
      openssl_before = openssl_allocations;
    }
    for (std::size_t const size : {std::size_t{1}, std::size_t{1000}, text.size()}) {
      if (write_all(c.client, std::string_view(text).substr(0, size)) != size) std::abort();
      while (c.client.has_output()) {
        unio::const_buffer const next = c.client.output();
        unio::mutable_buffer const room = c.server.input_room();
        std::size_t const n = std::min(next.size(), room.size());
        std::memcpy(room.data(), next.data(), n);
        c.client.output_taken(n);
        c.server.input_arrived(n);
        while (c.server.read(got).what == outcome::done) continue;
      }
    }
    if (i % 10 == 0 && c.client.update_keys(false).what != outcome::done) std::abort();
  }
  EXPECT_EQ(costs_so_far() - before, costs{});
  RecordProperty("openssl", std::to_string(openssl_allocations - openssl_before));
  std::printf("OpenSSL: %.1f allocations a round of 4 records\n",
              double(openssl_allocations - openssl_before) / measured);
}

TEST(tls_alloc, streams_allocate_nothing_for_reads_and_writes) {
  unio::socket_pair p = unio::socket_handle::pair().value();
  unio::tls_context const of_client = test::client(), of_server = test::server();
  tls_stream client(p.first, of_client, "example.test"), server(p.second, of_server);
  auto const body = [](tls_stream& a, tls_stream& b) -> task<costs> {
    auto const [x, y] = co_await unio::when_all(a.co_handshake(), b.co_handshake());
    if (!x.has_value() || !y.has_value()) std::abort();
    std::string const text = numbered(20'000);
    std::string got(text.size(), '\0');
    costs before;
    for (int i = -warm_up; i != measured; ++i) {
      if (i == 0) before = costs_so_far();
      for (std::size_t const size : {std::size_t{1}, std::size_t{1000}, text.size()}) {
        // The read begins first, and has to wait.
        unio::mutable_buffer const room(got.data(), size);
        auto const [r, w] =
            co_await unio::when_all(unio::co_read(b, room, std::chrono::seconds(10)),
                                    unio::co_write(a, std::string_view(text).substr(0, size)));
        if (!r.has_value() || !w.has_value()) std::abort();
        auto const nothing = co_await b.co_read(room, unio::deadline::zero());
        if (nothing.error() != unio::condition::would_block) std::abort();
      }
    }
    co_return costs_so_far() - before;
  };
  EXPECT_EQ(unio::run(body(client, server)), costs{});
}

#ifdef __cpp_exceptions

// Each allocation of each step of a handshake fails once: an error or a sentence less, and no more.
TEST(tls_alloc, memory_that_is_missing_once_fails_a_connection_and_not_the_program) {
  std::string const names[] = {"a-host-with-a-long-name.wild.test", "a-host-with-a-long-name.other.test",
                               std::string("no name of a host, and long")};
  unio::tls_context const of_client = test::client(), of_server = test::server();
  enum { creation, at_client, at_server, steps };
  for (std::string const& name : names) {
    for (int step = 0; step != steps; ++step) {
      for (std::uint64_t n = 1; n != 100; ++n) {
        auto const failing = [&](int in, auto f) {
          if (in == step) fail_allocation(n);
          f();
          if (in == step) fail_allocation(0);
        };
        std::optional<unio::tls_engine> client;
        failing(creation, [&] { client.emplace(of_client, name); });
        unio::tls_engine server(of_server);
        for (int i = 0; i != 4; ++i) {
          failing(at_client, [&] { (void)client->handshake(); });
          feed(server, take(*client));
          failing(at_server, [&] { (void)server.handshake(); });
          feed(*client, take(server));
          if (client->is_connected() && server.is_connected()) break;
        }
        bool const is_good = name == names[0];
        EXPECT_TRUE(is_good || !client->is_connected()) << name;
        EXPECT_TRUE(client->is_connected() || client->error()) << name << ' ' << step << ' ' << n;
        std::error_code const e = client->error();
        bool const lacks_memory =
            e == std::errc::not_enough_memory || server.error() == std::errc::not_enough_memory;
        EXPECT_TRUE(!is_good || !e || lacks_memory) << step << ' ' << n << client->error().message();
      }
    }
  }
}

// Two ends that have met.
struct two_streams {
  unio::socket_pair sockets = unio::socket_handle::pair().value();
  unio::tls_context of_client = test::client(), of_server = test::server();
  tls_stream client{sockets.first, of_client, "example.test"}, server{sockets.second, of_server};
  two_streams() {
    auto const both = [](tls_stream& a, tls_stream& b) -> task<bool> {
      auto const [x, y] = co_await unio::when_all(a.co_handshake(), b.co_handshake());
      co_return x.has_value() && y.has_value();
    };
    if (!unio::run(both(client, server))) std::abort();
  }
};

// Calls `f`, the n-th allocation of which fails. False: that was reported.
template <class F> bool with_failing_allocation(std::uint64_t n, F f) {
  unio::frame_pool::trim(); // nothing is in stock
  bool told = false;
  try {
    fail_allocation(n);
    f();
  } catch (std::bad_alloc const&) {
    told = true;
  }
  fail_allocation(0);
  return !told;
}

task<io_result<mutable_buffers>> read_some(tls_stream& s, mutable_buffers room) {
  co_return co_await s.co_read(room, unio::deadline::zero());
}

std::string read_what_is_there(tls_stream& s) {
  std::string all, room(30'000, '\0');
  for (;;) {
    auto const r = unio::run(read_some(s, unio::mutable_buffer(room)));
    if (!r.has_value()) return all;
    all.append(room, 0, r.bytes_transferred());
  }
}

// What ends with std::bad_alloc is written again by a caller that can, so nothing of it may arrive.
TEST(tls_alloc, write_for_which_memory_is_missing_has_written_what_it_says) {
  two_streams ends;
  std::string const text = numbered(40'000);
  std::vector<unio::const_buffer> list;
  for (std::size_t at = 0; at != text.size(); at += 100) list.emplace_back(text.data() + at, 100);
  int told = 0;
  for (std::uint64_t n = 1; n != 40; ++n) {
    std::size_t written = 0;
    bool const fine = with_failing_allocation(n, [&] {
      written =
          unio::run(ends.client.co_write(std::span<unio::const_buffer const>(list))).bytes_transferred();
    });
    if (!fine) ++told;
    ASSERT_TRUE(unio::run(ends.client.co_flush()).has_value());
    EXPECT_EQ(read_what_is_there(ends.server).size(), written) << n;
  }
  EXPECT_NE(told, 0) << "the canary";
}

// What a read has taken it yields, though what is to be sent cannot be for want of memory. That is seen where
// frames are not pooled, as with a sanitizer: elsewhere there is one of the same size by then.
TEST(tls_alloc, read_for_which_memory_is_missing_loses_no_byte) {
  std::string const text = numbered(1'000), much(60'000, 'x');
  int told = 0;
  for (std::uint64_t n = 1; n != 20; ++n) {
    two_streams ends;
    while (!ends.server.connection().has_output()) // the socket takes no more
      (void)unio::run(ends.server.co_write(std::string_view(much), unio::deadline::zero()));
    ASSERT_EQ(unio::run(ends.client.co_write(std::string_view(text))).bytes_transferred(), text.size());
    std::string room(30'000, '\0');
    io_result<mutable_buffers> r;
    bool const fine =
        with_failing_allocation(n, [&] { r = unio::run(ends.server.co_read(unio::mutable_buffer(room))); });
    if (!fine) ++told;
    if (r.error() == std::errc::not_enough_memory) continue; // OpenSSL has none either: the stream is over
    room.resize(r.bytes_transferred());
    EXPECT_EQ(room + read_what_is_there(ends.server), text) << n;
  }
  EXPECT_NE(told, 0) << "the canary";
}

#endif

} // namespace
