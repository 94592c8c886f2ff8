// Name servers that never come to an end: each loop that a server feeds looks at its limit. A look-up ends at
// its deadline and when it is stopped, whatever comes, and other coroutines run meanwhile.

#include "net/files.hpp"
#include "net/one_port.hpp"
#include "support/coroutine.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"

#include <unio/connect_to.hpp>
#include <unio/resolver.hpp>

#include <arpa/inet.h>

#include <ostream>

namespace {

using namespace test;

// What the server sends, again and again, once it was asked something. `q` is what was asked last.
using sends = dns_bytes (*)(dns_query const& q);

// On sockets of its own and not unio's: it sends as fast as the kernel takes it.
class endless_server : public sockets_of_one_port {
 public:
  endless_server(sends by_udp, sends by_tcp, bool only_answers) : udp_sends_(by_udp), tcp_sends_(by_tcp) {
    answers_only_ = only_answers;
    threads_[0] = std::thread([this] { feed_datagrams(); });
    threads_[1] = std::thread([this] { feed_connections(); });
  }
  endless_server(endless_server const&) = delete;
  endless_server& operator=(endless_server const&) = delete;
  ~endless_server() {
    ended_ = true;
    for (std::thread& t : threads_) t.join();
  }
  std::atomic<std::uint64_t> fed = 0; ///< messages

 private:
  [[nodiscard]] bool goes_on() const { return !ended_ && std::chrono::steady_clock::now() < until_; }

  void feed_datagrams() {
    std::byte room[2048];
    sockaddr_in from{};
    dns_query q;
    bool is_asked = false;
    while (goes_on()) {
      pollfd p{udp_, POLLIN, 0};
      if (::poll(&p, 1, is_asked && !answers_only_ ? 0 : 5) > 0) {
        unsigned size = sizeof(from);
        ssize_t const n =
            ::recvfrom(udp_, room, sizeof(room), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &size);
        is_asked = n > 0 && parse_query(std::span(room).first(static_cast<std::size_t>(n)), q);
      } else if (answers_only_) {
        continue;
      }
      if (!is_asked || udp_sends_ == nullptr) continue;
      dns_bytes const m = udp_sends_(q);
      (void)::sendto(udp_, m.data(), m.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
                     reinterpret_cast<sockaddr*>(&from), sizeof(from));
      ++fed;
    }
  }
  void feed_connections() {
    while (goes_on()) {
      pollfd p{tcp_, POLLIN, 0};
      if (::poll(&p, 1, 5) <= 0) continue;
      int const c = ::accept4(tcp_, nullptr, nullptr, SOCK_CLOEXEC);
      timeval const patience{.tv_sec = 0, .tv_usec = 50'000};
      (void)::setsockopt(c, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
      (void)::setsockopt(c, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
      std::byte room[2048];
      ssize_t const n = ::recv(c, room, sizeof(room), 0);
      dns_query q;
      if (n > 2 && parse_query(std::span(room).subspan(2, static_cast<std::size_t>(n) - 2), q) &&
          tcp_sends_ != nullptr) {
        dns_bytes const one = tcp_sends_(q);
        dns_bytes many;
        do {
          many.push_back(static_cast<std::byte>(one.size() >> 8));
          many.push_back(static_cast<std::byte>(one.size() & 255));
          many.insert(many.end(), one.begin(), one.end());
          if (answers_only_) break;
        } while (many.size() < 100'000);
        while (goes_on()) {
          if (::send(c, many.data(), many.size(), MSG_NOSIGNAL) < 0 && errno != EAGAIN) break;
          ++fed;
          if (answers_only_) break;
        }
      }
      ::close(c);
    }
  }

  sends const udp_sends_, tcp_sends_;
  bool answers_only_ = false; // one message for each question
  std::atomic<bool> ended_ = false;
  std::chrono::steady_clock::time_point const until_ = std::chrono::steady_clock::now() + 100s;
  std::thread threads_[2];
};

dns_bytes of_another_id(dns_query const& q) {
  dns_bytes m = answer_to(q, {a_record("203.0.113.66")});
  m[0] ^= std::byte{1};
  return m;
}
dns_bytes of_another_name(dns_query const& q) {
  dns_bytes m = answer_to(q, {a_record("203.0.113.66")});
  m[13] = std::byte{'x'};
  return m;
}
dns_bytes empty(dns_query const&) { return {}; }
dns_bytes large(dns_query const&) { return dns_bytes(65535); }
dns_bytes the_question(dns_query const& q) { return q.raw; }
dns_bytes truncated(dns_query const& q) { return truncated_answer_to(q); }
dns_bytes form_errors(dns_query const& q) { return answer_to(q, {}, form_error); }
dns_bytes failures(dns_query const& q) { return answer_to(q, {}, server_failure); }
dns_bytes referrals(dns_query const& q) {
  dns_bytes m = answer_to(q, {});
  m[3] = std::byte{0};
  return m;
}
dns_bytes names_in_a_ring(dns_query const& q) {
  dns_record back = name_record(cname, q.name);
  back.owner = "b.test";
  dns_record there = name_record(cname, "b.test");
  return answer_to(q, {there, back, there, back});
}

struct peer {
  char const* name;
  sends by_udp, by_tcp;
  bool answers_only = false; ///< it answers each question once; the resolver goes on asking
};
constexpr peer peers[] = {
    {"datagrams_of_another_id", &of_another_id, nullptr},
    {"datagrams_of_another_name", &of_another_name, nullptr},
    {"empty_datagrams", &empty, nullptr},
    {"the_question_itself", &the_question, nullptr},
    {"messages_of_another_id", &truncated, &of_another_id},
    {"empty_messages", &truncated, &empty},
    {"large_messages", &truncated, &large},
    {"truncated_by_both_ways", &truncated, &truncated, true},
    {"that_it_does_not_understand", &form_errors, nullptr, true},
    {"that_it_has_failed", &failures, nullptr, true},
    {"referrals", &referrals, nullptr, true},
};

void PrintTo(peer const& p, std::ostream* out) { *out << p.name; }

class endless : public ::testing::TestWithParam<peer> {
 protected:
  resolver_options options() {
    resolver_options o = files_.options(server_.at);
    o.timeout = 1h; // of one answer
    o.attempts = 1'000'000'000;
    return o;
  }
  // Far beyond the deadlines here, far below the server's patience.
  void expect_prompt() const { EXPECT_LT(std::chrono::steady_clock::now() - begun_, 60s); }

  name_files files_;
  endless_server server_{GetParam().by_udp, GetParam().by_tcp, GetParam().answers_only};
  std::chrono::steady_clock::time_point const begun_ = std::chrono::steady_clock::now();
};

unio::task<> ticks(std::uint64_t& n) {
  for (;;) {
    auto const slept = co_await unio::co_sleep(1ms);
    if (!slept.has_value()) co_return;
    ++n;
  }
}

TEST_P(endless, ends_at_the_deadline) {
  resolver names(options());
  std::uint64_t ticked = 0;
  unio::stop_source enough;
  unio::async_run(unio::this_thread::multiplexer(), ticks(ticked), {.stop = enough.get_token()});
  for (auto const family : {unio::address_family::unspecified, unio::address_family::ipv4})
    EXPECT_EQ(names.resolve("a.test", 1, 200ms, {.family = family}).error(), condition::timed_out);
  EXPECT_EQ(unio::run(unio::co_connect_to("a.test:1", 50ms, {.names = &names})).error(),
            condition::timed_out);
  EXPECT_EQ(names.texts("a.test", 50ms).error(), condition::timed_out);
  EXPECT_EQ(names.names_of(endpoint::ipv4({192, 0, 2, 1}, 0), 50ms).error(), condition::timed_out);
  expect_prompt();
  EXPECT_GT(ticked, 0u);
  EXPECT_GT(server_.fed.load(), 0u); // the canary
  enough.request_stop();
  (void)unio::this_thread::multiplexer().try_run_for(1ms);
}

TEST_P(endless, ends_when_it_is_stopped) {
  resolver names(options());
  unio::stop_source stop;
  std::thread stops([&] {
    while (server_.fed == 0) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
    stop.request_stop();
  });
  auto const r = unio::run(names.co_resolve("a.test", 1), {.stop = stop.get_token()});
  stops.join();
  EXPECT_EQ(r.error(), condition::canceled);
  expect_prompt();
}

TEST_P(endless, ends_with_the_resolver) {
  auto names = std::make_unique<resolver>(options());
  auto const both = [](std::unique_ptr<resolver>& r) -> unio::task<std::error_code> {
    auto const ends_it = [](std::unique_ptr<resolver>& it) -> unio::task<> {
      (void)co_await unio::co_sleep(50ms);
      it.reset();
    };
    auto const all = co_await unio::when_all_outcomes(r->co_resolve("a.test", 1), ends_it(r));
    co_return std::get<0>(all)->error();
  };
  EXPECT_EQ(unio::run(both(names)), condition::canceled);
  expect_prompt();
}

TEST(endless_answer, of_names_that_lead_to_each_other_is_read_once) {
  name_files files;
  endless_server server(&names_in_a_ring, nullptr, true);
  resolver names(files.options(server.at));
  EXPECT_EQ(names.resolve("a.test", 1, 60s).error(), unio::resolve_error::no_data);
  EXPECT_LE(server.fed.load(), 2u); // for both families
}

INSTANTIATE_TEST_SUITE_P(servers, endless, ::testing::ValuesIn(peers),
                         [](auto const& peer) { return std::string(peer.param.name); });

} // namespace
