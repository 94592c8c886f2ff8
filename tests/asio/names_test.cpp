// unio::asio with unio::net: names are looked up by unio's resolver, and all that Asio promises of a resolver
// holds: what flags mean, services, errors, cancelling, the end of the context, fork.

#include "asio/asio.hpp"
#include "net/files.hpp"
#include "net/name_server.hpp"

#include <unio/extend/foreign_names.hpp>

#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace test;
using ::failure;
using asio::ip::udp;
using flags = asio::ip::resolver_base;

/// What a look-up yields, as text: "192.0.2.1:80 [2001:db8::1]:80", or its error.
template <class Results> std::string text_of(failure e, Results const& found) {
  if (e) return e.message();
  std::string text;
  for (auto const& entry : found) {
    auto const to = entry.endpoint();
    std::string const address = to.address().to_string();
    text += (text.empty() ? "" : " ") + (to.address().is_v6() ? "[" + address + "]" : address) + ":" +
            std::to_string(to.port());
  }
  return text;
}

int threads_of_this_process() {
  auto const all = std::filesystem::directory_iterator("/proc/self/task");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

struct asio_names : ::testing::Test {
  asio_names() { unio::foreign_names::linked()->use(&resolver); }
  ~asio_names() override { unio::foreign_names::linked()->use(nullptr); }

  /// Both ways: awaited and blocking. They agree.
  template <class... Query> std::string look_up(Query const&... query) {
    tcp::resolver r(context);
    failure e;
    std::string const at_once = text_of(e, r.resolve(query..., e));
    std::string const with_error = e ? e.message() : at_once;
    std::optional<std::string> later;
    r.async_resolve(query...,
                    [&](failure f, tcp::resolver::results_type const& found) { later = text_of(f, found); });
    context.restart();
    context.run();
    EXPECT_EQ(later, with_error);
    return with_error;
  }

  // Some names are answered; "slow" is only after a minute, "broken" is not known to the server itself.
  std::vector<dns_answer> answer(dns_query const& q) {
    if (q.name == "slow.test") return {{answer_to(q, {a_record("192.0.2.9")}), 60s}};
    if (q.name == "broken.test") return {{answer_to(q, {}, server_failure)}};
    if (q.name == "refused.test") return {{answer_to(q, {}, refused)}};
    return known(q);
  }

  zone known = zone()
                   .add("both.test", a_record("192.0.2.1"))
                   .add("both.test", aaaa_record("2001:db8::1"))
                   .add("four.test", a_record("192.0.2.4"))
                   .add("six.test", aaaa_record("2001:db8::6"))
                   .add("1.2.0.192.in-addr.arpa", name_record(ptr, "both.test"));
  name_server server{[this](dns_query const& q) { return answer(q); }};
  name_files files;
  unio::resolver resolver{[this] {
    unio::resolver_options o = files.options(server.at());
    o.attempts = 1;
    return o;
  }()};
  asio::io_context context;
};

TEST_F(asio_names, are_asked_of_the_resolver_of_unio) {
  EXPECT_EQ(look_up("four.test", "80"), "192.0.2.4:80");
  std::vector<std::string> const asked = server.asked();
  EXPECT_NE(std::ranges::find(asked, "four.test 1"), asked.end()) << ::testing::PrintToString(asked);
}

TEST_F(asio_names, keep_the_texts_that_were_asked_for) {
  tcp::resolver r(context);
  auto const found = r.resolve("four.test", "https");
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found.begin()->host_name(), "four.test");
  EXPECT_EQ(found.begin()->service_name(), "https");
  EXPECT_EQ(found.begin()->endpoint().port(), 443);
}

TEST_F(asio_names, yield_both_families_or_the_one_wanted) {
  std::string const both = look_up("both.test", "80");
  EXPECT_TRUE(both == "192.0.2.1:80 [2001:db8::1]:80" || both == "[2001:db8::1]:80 192.0.2.1:80") << both;
  EXPECT_EQ(look_up(tcp::v4(), "both.test", "80"), "192.0.2.1:80");
  EXPECT_EQ(look_up(tcp::v6(), "both.test", "80"), "[2001:db8::1]:80");
}

TEST_F(asio_names, map_ipv4_where_that_is_asked_for) {
  EXPECT_EQ(look_up(tcp::v6(), "four.test", "80", flags::v4_mapped), "[::ffff:192.0.2.4]:80");
  EXPECT_EQ(look_up(tcp::v6(), "both.test", "80", flags::v4_mapped), "[2001:db8::1]:80");
  std::string const all = look_up(tcp::v6(), "both.test", "80", flags::v4_mapped | flags::all_matching);
  EXPECT_NE(all.find("[2001:db8::1]:80"), all.npos) << all;
  EXPECT_NE(all.find("[::ffff:192.0.2.1]:80"), all.npos) << all;
  // Without the family they mean nothing.
  EXPECT_EQ(look_up("four.test", "80", flags::v4_mapped | flags::all_matching), "192.0.2.4:80");
}

TEST_F(asio_names, know_services_by_name_and_number) {
  EXPECT_EQ(look_up("four.test", "http"), "192.0.2.4:80");
  EXPECT_EQ(look_up("four.test", ""), "192.0.2.4:0");
  EXPECT_EQ(look_up("four.test", "80", flags::numeric_service), "192.0.2.4:80");
  EXPECT_EQ(look_up("four.test", "http", flags::numeric_service),
            failure(asio::error::host_not_found).message());
  EXPECT_EQ(look_up("four.test", "no-such-service"), failure(asio::error::service_not_found).message());
}

TEST_F(asio_names, ask_no_server_for_an_address) {
  EXPECT_EQ(look_up("192.0.2.7", "80"), "192.0.2.7:80");
  EXPECT_EQ(look_up("2001:db8::7", "80"), "[2001:db8::7]:80");
  EXPECT_EQ(look_up("192.0.2.7", "80", flags::numeric_host), "192.0.2.7:80");
  EXPECT_EQ(look_up("four.test", "80", flags::numeric_host), failure(asio::error::host_not_found).message());
  EXPECT_EQ(look_up(tcp::v4(), "2001:db8::7", "80"), failure(asio::error::host_not_found).message());
  EXPECT_EQ(look_up(tcp::v4(), "", "80", flags::passive), "0.0.0.0:80");
  EXPECT_EQ(look_up(tcp::v4(), "", "80"), "127.0.0.1:80");
  EXPECT_TRUE(server.asked().empty());
}

TEST_F(asio_names, leave_out_families_that_this_host_has_not) {
  // As the C library decides for an address that every host has.
  std::string const all = look_up("both.test", "80", flags::address_configured);
  EXPECT_FALSE(all.empty());
  addrinfo hints{};
  hints.ai_flags = AI_ADDRCONFIG | AI_NUMERICHOST;
  hints.ai_family = AF_INET6;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* six = nullptr;
  bool const has_six = ::getaddrinfo("2001:db8::1", "80", &hints, &six) == 0;
  if (six != nullptr) ::freeaddrinfo(six);
  EXPECT_TRUE(has_six || all.find("2001") == all.npos) << all;
}

TEST_F(asio_names, serve_other_protocols) {
  udp::resolver r(context);
  failure e;
  EXPECT_EQ(text_of(e, r.resolve("four.test", "domain", e)), "192.0.2.4:53");
  asio::ip::icmp::resolver icmp(context);
  EXPECT_EQ(text_of(e, icmp.resolve("four.test", "", e)), "192.0.2.4:0");
  EXPECT_FALSE(e) << e.message();
}

TEST_F(asio_names, fail_with_the_errors_of_asio) {
  EXPECT_EQ(look_up("nowhere.test", "80"), failure(asio::error::host_not_found).message());
  EXPECT_EQ(look_up(tcp::v6(), "four.test", "80"), failure(asio::error::host_not_found).message());
  EXPECT_EQ(look_up("broken.test", "80"), failure(asio::error::host_not_found_try_again).message());
  EXPECT_EQ(look_up("refused.test", "80"), failure(asio::error::host_not_found_try_again).message());
  EXPECT_EQ(look_up("not..a.name", "80"), failure(asio::error::host_not_found).message());
  tcp::resolver r(context);
  EXPECT_THROW(r.resolve("nowhere.test", "80"), std::exception);
}

TEST_F(asio_names, leave_canonical_names_to_asio) {
  tcp::resolver r(context);
  auto const found = r.resolve("localhost", "80", flags::canonical_name);
  EXPECT_FALSE(found.empty());
  EXPECT_FALSE(found.begin()->host_name().empty());
}

TEST_F(asio_names, are_found_for_addresses) {
  tcp::resolver r(context);
  auto const of = [&](char const* address, unsigned short port) {
    std::string text;
    tcp::endpoint const to(asio::ip::make_address(address), port);
    r.async_resolve(to, [&](failure e, tcp::resolver::results_type const& found) {
      text = e ? e.message() : found.begin()->host_name() + " " + found.begin()->service_name();
    });
    context.restart();
    context.run();
    failure e;
    auto const now = r.resolve(to, e);
    EXPECT_EQ(e ? e.message() : now.begin()->host_name() + " " + now.begin()->service_name(), text);
    return text;
  };
  EXPECT_EQ(of("192.0.2.1", 80), "both.test http");
  EXPECT_EQ(of("192.0.2.200", 1), "192.0.2.200 tcpmux"); // it has none
  EXPECT_EQ(of("192.0.2.200", 65000), "192.0.2.200 65000");
}

TEST_F(asio_names, of_many_are_asked_at_once) {
  auto const before = threads_of_this_process(); // other tests may have left workers
  tcp::resolver slow(context), r(context);
  slow.async_resolve("slow.test", "80",
                     [](failure e, auto const&) { EXPECT_EQ(e, asio::error::operation_aborted); });
  int found = 0;
  for (int i = 0; i != 100; ++i)
    r.async_resolve("four.test", "80", [&](failure e, auto const& all) {
      EXPECT_EQ(text_of(e, all), "192.0.2.4:80");
      if (++found == 100) slow.cancel();
    });
  context.run();
  EXPECT_EQ(found, 100);
  EXPECT_LT(threads_of_this_process(), before + 4);
}

TEST_F(asio_names, end_at_once_when_they_are_cancelled) {
  tcp::resolver r(context), other(context);
  failure got;
  bool other_is_aborted = false;
  r.async_resolve("slow.test", "80", [&](failure e, auto const& found) {
    got = e;
    EXPECT_TRUE(found.empty());
    other.cancel();
  });
  other.async_resolve("slow.test", "80", [&](failure e, auto const&) {
    EXPECT_EQ(got, asio::error::operation_aborted); // not before it was cancelled itself
    other_is_aborted = e == asio::error::operation_aborted;
  });
  asio::post(context, [&] { r.cancel(); });
  auto const begin = clock::now();
  context.run();
  EXPECT_LT(since(begin), 5s);
  EXPECT_EQ(got, asio::error::operation_aborted);
  EXPECT_TRUE(other_is_aborted);
}

TEST_F(asio_names, end_with_their_resolver_and_go_on_when_it_moves) {
  failure of_destroyed, of_assigned;
  std::string moved;
  auto const begin = clock::now();
  {
    tcp::resolver r(context);
    r.async_resolve("slow.test", "80", [&](failure e, auto const&) { of_destroyed = e; });
  }
  tcp::resolver a(context), b(context);
  a.async_resolve("four.test", "80", [&](failure e, auto const& found) { moved = text_of(e, found); });
  b.async_resolve("slow.test", "80", [&](failure e, auto const&) { of_assigned = e; });
  b = std::move(a);
  context.run();
  EXPECT_LT(since(begin), 5s);
  EXPECT_EQ(of_destroyed, asio::error::operation_aborted);
  EXPECT_EQ(of_assigned, asio::error::operation_aborted);
  EXPECT_EQ(moved, "192.0.2.4:80");
}

TEST_F(asio_names, wait_for_nothing_when_the_context_ends) {
  auto const begin = clock::now();
  auto alive = std::make_shared<int>();
  std::weak_ptr<int> const seen = alive;
  {
    asio::io_context c;
    tcp::resolver r(c);
    r.async_resolve("slow.test", "80", [alive](failure, auto const&) { ADD_FAILURE() << "was called"; });
    alive.reset();
    c.run_for(20ms);
    EXPECT_FALSE(seen.expired());
  }
  EXPECT_TRUE(seen.expired());
  EXPECT_LT(since(begin), 5s);
}

TEST_F(asio_names, come_while_contexts_end_and_resolvers_cancel) {
  // What is answered at the moment at which it is cancelled belongs to one of the two.
  for (int i = 0; i != 200; ++i) {
    asio::io_context c;
    tcp::resolver r(c), s(c);
    std::atomic<int> called{0};
    r.async_resolve("four.test", "80", [&](failure, auto const&) { ++called; });
    s.async_resolve("both.test", "80", [&](failure, auto const&) { ++called; });
    if (i % 3 == 0) c.run_one();
    if (i % 3 == 1) std::this_thread::sleep_for(std::chrono::microseconds(i * 5));
    r.cancel();
    if (i % 2 == 0) continue;
    c.run();
    EXPECT_EQ(called, 2);
  }
}

TEST_F(asio_names, serve_contexts_of_several_threads) {
  asio::io_context c(4);
  std::atomic<int> found{0};
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<tcp::resolver>> all;
  for (int i = 0; i != 50; ++i) {
    all.push_back(std::make_unique<tcp::resolver>(c));
    all.back()->async_resolve("four.test", "80", [&](failure e, auto const&) { found += e ? 0 : 1; });
  }
  for (int i = 0; i != 4; ++i) threads.emplace_back([&] { c.run(); });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(found, 50);
}

TEST_F(asio_names, are_left_to_asio_in_a_context_without_locks) {
  asio::io_context c(ASIO_TEST_HINT(UNSAFE));
  tcp::resolver r(c);
  failure got;
  r.async_resolve("four.test", "80", [&](failure e, auto const&) { got = e; });
  c.run();
  EXPECT_EQ(got, asio::error::operation_not_supported); // as Asio says
}

TEST_F(asio_names, are_asked_again_in_a_child_of_fork) {
  tcp::resolver r(context);
  std::string got;
  r.async_resolve("four.test", "80", [&](failure e, auto const& found) { got = text_of(e, found); });
  context.notify_fork(asio::execution_context::fork_prepare);
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(20);
    context.notify_fork(asio::execution_context::fork_child);
    context.run();
    ::_exit(got == "192.0.2.4:80" ? 0 : 1);
  }
  context.notify_fork(asio::execution_context::fork_parent);
  context.run();
  EXPECT_EQ(got, "192.0.2.4:80");
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Unio's thread answers at any moment, and has the list of look-ups then.
TEST_F(asio_names, a_child_of_fork_ends_its_context_while_names_are_answered) {
  constexpr int forks = 60;
  for (int i = 0; i != forks; ++i) {
    auto own = std::make_unique<asio::io_context>();
    auto r = std::make_unique<tcp::resolver>(*own);
    int ended = 0;
    for (int n = 0; n != 20; ++n)
      r->async_resolve(n % 2 != 0 ? "four.test" : "slow.test", "80", [&](failure, auto const&) { ++ended; });
    pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(20);
      r.reset();
      own.reset();
      ::_exit(0);
    }
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << i;
    r->cancel();
    own->run();
    EXPECT_EQ(ended, 20);
  }
}

} // namespace
