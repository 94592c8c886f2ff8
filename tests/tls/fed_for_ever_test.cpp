// Loops of TLS that a peer feeds, fed for ever with messages that bring no data: each ends by its deadline,
// by a stop of another thread, and by a timeout() around it. In memory, where each read completes at once;
// and over sockets that always have bytes.

#include "support/test.hpp"
#include "tls/raw_peer.hpp"

#include <unio/tls.hpp>

#include <openssl/pem.h>
#include <sys/socket.h>

namespace {

using namespace test;
using ended = unio::result<void>;

constexpr auto soon = 50ms;
constexpr auto watchdog = 30s;

std::error_code const broken{EPROTO, std::system_category()};

/// A peer without an end, until the watchdog: a client's first. `more()` is what comes next.
class peer {
 public:
  using clock = std::chrono::steady_clock;

  explicit peer(bool meets) {
    if (!meets) return;
    unio::tls_identity const& who = the_identity();
    context_ = SSL_CTX_new(TLS_server_method());
    use(who.certificates.value(), [&](BIO* b) {
      X509* const c = PEM_read_bio_X509(b, nullptr, nullptr, nullptr);
      SSL_CTX_use_certificate(context_, c);
      X509_free(c);
    });
    use(who.key.value(), [&](BIO* b) {
      EVP_PKEY* const k = PEM_read_bio_PrivateKey(b, nullptr, nullptr, nullptr);
      SSL_CTX_use_PrivateKey(context_, k);
      EVP_PKEY_free(k);
    });
    server_.emplace(context_, true);
  }
  peer(peer const&) = delete;
  peer& operator=(peer const&) = delete;
  ~peer() {
    server_.reset();
    SSL_CTX_free(context_);
  }

  [[nodiscard]] bool is_tired() const { return clock::now() >= until_; }
  void has_patience(clock::duration d) { until_ = clock::now() + d; }

  /// What it answers to a client's messages, and then without end.
  std::string more() {
    // HelloRequests, four bytes of zeros each, which OpenSSL skips while a client waits for the ServerHello.
    if (!server_) return std::string("\x16\x03\x03\x40\x00", 5) + std::string(0x4000, '\0');
    if (SSL_is_init_finished(server_->ssl()) == 0) {
      (void)SSL_do_handshake(server_->ssl());
    } else {
      for (int i = 0; i != tickets_; ++i) {
        SSL_new_session_ticket(server_->ssl());
        SSL_do_handshake(server_->ssl());
      }
    }
    return server_->take();
  }
  void hear(std::string_view bytes) {
    if (server_) server_->feed(bytes);
  }
  /// So many tickets at a time. "At once" is over after a thousand times.
  void flood(int tickets) { tickets_ = tickets; }

 private:
  template <class Use> static void use(std::string const& pem, Use use) {
    BIO* const b = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
    use(b);
    BIO_free(b);
  }
  SSL_CTX* context_ = nullptr;
  std::optional<raw_peer> server_;
  int tickets_ = 0;
  clock::time_point until_ = clock::now() + watchdog;
};

/// It in memory, as a stream: each transfer is complete at once.
struct transport {
  peer& with;
  std::string kept = {};

  task<io_result<mutable_buffers>> co_read(io_request<mutable_buffers> request) {
    if (kept.empty()) kept = with.more();
    if (with.is_tired() || kept.empty()) co_return io_result<mutable_buffers>(broken, 0);
    std::size_t const n = std::min(kept.size(), request.buffers.front().size());
    std::memcpy(request.buffers.front().data(), kept.data(), n);
    kept.erase(0, n);
    co_return io_result<mutable_buffers>(unio::result<mutable_buffers>(request.buffers.first(n)), n);
  }
  task<io_result<const_buffers>> co_write(io_request<const_buffers> request) {
    unio::const_buffer const b = request.buffers.front();
    with.hear({reinterpret_cast<char const*>(b.data()), b.size()});
    co_return io_result<const_buffers>(unio::result<const_buffers>(request.buffers.first(b.size())),
                                       b.size());
  }
};

/// It at the other end of a socket, in a thread of its own.
class at_a_socket {
 public:
  explicit at_a_socket(peer& p) : peer_(p), thread_([this] { serve(); }) {}
  at_a_socket(at_a_socket const&) = delete;
  at_a_socket& operator=(at_a_socket const&) = delete;
  ~at_a_socket() {
    ::shutdown(ends_.second.native_handle(), SHUT_RDWR);
    thread_.join();
  }
  unio::socket_handle& end() noexcept { return ends_.first; }

 private:
  void serve() const {
    int const fd = ends_.second.native_handle();
    while (!peer_.is_tired()) {
      char room[4096];
      if (::ssize_t const n = ::recv(fd, room, sizeof room, MSG_DONTWAIT); n > 0)
        peer_.hear({room, static_cast<std::size_t>(n)});
      std::string const next = peer_.more();
      if (next.empty()) std::this_thread::sleep_for(1ms);
      for (std::string_view rest = next; !rest.empty();) {
        ::ssize_t const n = ::send(fd, rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN) return;
        if (n < 0 && peer_.is_tired()) break;
        if (n < 0) std::this_thread::yield();
        rest.remove_prefix(n < 0 ? 0 : static_cast<std::size_t>(n));
      }
    }
    ::shutdown(fd, SHUT_RDWR);
  }
  peer& peer_;
  unio::socket_pair ends_ = unio::socket_handle::pair().value();
  std::thread thread_;
};

task<ended> handshakes(tls_stream& s, deadline d) { co_return co_await s.co_handshake(d); }
task<ended> reads(tls_stream& s, deadline d) {
  char byte;
  auto const got = co_await s.co_read(unio::mutable_buffer(&byte, 1), d);
  if (!got.has_value()) co_return got.error();
  co_return ended();
}

ended stopped(task<ended> t) {
  unio::stop_source stop;
  std::optional<unio::task_outcome<ended>> outcome;
  std::thread stopper([&] {
    std::this_thread::sleep_for(soon);
    stop.request_stop();
  });
  unio::async_run(unio::this_thread::multiplexer(), std::move(t),
                  [&](unio::task_outcome<ended> o) { outcome.emplace(std::move(o)); },
                  {.stop = stop.get_token()});
  while (!outcome) (void)unio::this_thread::multiplexer().run();
  stopper.join();
  return **outcome;
}
task<ended> timed(task<ended> t) { co_return co_await unio::timeout(soon, std::move(t)); }

// The limits, one after the other: a call that was ended by one goes on with the next.
template <class Loop> void expect_that_it_ends(Loop loop) {
  EXPECT_EQ(unio::run(loop(deadline(soon))).error(), condition::timed_out);
  EXPECT_EQ(stopped(loop({})).error(), condition::canceled);
  EXPECT_EQ(unio::run(timed(loop({}))).error(), condition::timed_out);
}

TEST(tls_fed_for_ever, handshake_ends_by_each_limit) {
  unio::tls_context const context = test::client();
  peer in_memory(false);
  transport t{in_memory};
  tls_stream s(t, context, "example.test");
  expect_that_it_ends([&](deadline d) { return handshakes(s, d); });
  EXPECT_EQ(unio::run(s.co_handshake(deadline::zero())).error(), condition::would_block);
  peer outside(false);
  at_a_socket far(outside);
  tls_stream over_socket(far.end(), context, "example.test");
  expect_that_it_ends([&](deadline d) { return handshakes(over_socket, d); });
}

TEST(tls_fed_for_ever, read_ends_by_each_limit) {
  unio::tls_context const context = test::client();
  peer in_memory(true);
  transport t{in_memory};
  tls_stream s(t, context, "example.test");
  ASSERT_TRUE(unio::run(s.co_handshake()).has_value()) << s.why();
  in_memory.flood(1);
  expect_that_it_ends([&](deadline d) { return reads(s, d); });
  EXPECT_EQ(unio::run(reads(s, deadline::zero())).error(), condition::would_block);
  peer outside(true);
  outside.flood(20);
  at_a_socket far(outside);
  tls_stream over_socket(far.end(), context, "example.test");
  ASSERT_TRUE(unio::run(over_socket.co_handshake(watchdog)).has_value()) << over_socket.why();
  expect_that_it_ends([&](deadline d) { return reads(over_socket, d); });
}

// It ends when its peer does.
task<ended> asks_no_limit(transport& t, deadline) {
  unio::tls_context const context = test::client();
  unio::tls_engine e(context, "example.test");
  while (e.handshake().what == outcome::wants_input) {
    auto const got = co_await t.co_read(io_request<mutable_buffers>(e.input_room()));
    e.input_arrived(got.bytes_transferred());
    if (!got.has_value()) co_return got.error();
  }
  co_return e.error();
}

TEST(tls_fed_for_ever, canary_that_asks_no_limit_outlives_its_limits) {
  peer p(false);
  transport t{p};
  p.has_patience(10 * soon);
  EXPECT_EQ(unio::run(asks_no_limit(t, soon)).error(), broken);
  p.has_patience(10 * soon);
  EXPECT_EQ(stopped(asks_no_limit(t, {})).error(), broken);
}

} // namespace
