// Records cost no allocation of unio's once warm: blocks and frames come from the pool. What OpenSSL
// allocates is counted apart, and reported. Handshakes allocate.

#include "alloc/counting.hpp"
#include "tls/engines.hpp"

#include <unio/run.hpp>
#include <unio/tls.hpp>
#include <unio/unio.hpp>

#include <openssl/crypto.h>

#include <algorithm>
#include <cstdlib>

namespace {

using namespace test;
using unio::task;
using unio::tls_stream;

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
        while (c.server.read(got).what == outcome::done) {
        }
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
        auto const [r, w] = co_await unio::when_all(unio::read(b, room, std::chrono::seconds(10)),
                                                    unio::write(a, std::string_view(text).substr(0, size)));
        if (!r.has_value() || !w.has_value()) std::abort();
        auto const nothing = co_await b.co_read(room, unio::deadline::zero());
        if (nothing.error() != unio::condition::would_block) std::abort();
      }
    }
    co_return costs_so_far() - before;
  };
  EXPECT_EQ(unio::run(body(client, server)), costs{});
}

} // namespace
