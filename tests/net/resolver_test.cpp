// resolver.hpp against a name server of ours, on the driver under test: answers in order and out of order,
// late, lost, cut, wrong and forged; names that need no query; stopped at any point.

#include "net/files.hpp"
#include "support/child.hpp"
#include "support/failing_calls.hpp"
#include "support/kernel.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"

#include <unio/connect_any.hpp>
#include <unio/resolver.hpp>

#include <arpa/inet.h>
#include <netdb.h>

namespace {

using namespace test;

zone example() {
  zone z;
  z.add("both.test", a_record("192.0.2.1"))
      .add("both.test", aaaa_record("2001:db8::1"))
      .add("four.test", a_record("192.0.2.4"))
      .add("six.test", aaaa_record("2001:db8::6"))
      .add("empty.test", txt_record({"nothing else"}))
      .add("host.corp.test", a_record("192.0.2.9"));
  return z;
}

std::vector<std::string> texts(io_result<endpoint_list> const& r) {
  std::vector<std::string> all;
  if (!r.has_value()) return {r.error().code().message()};
  for (endpoint const& e : *r) all.push_back(unio::to_string(e));
  std::ranges::sort(all);
  return all;
}
using strings = std::vector<std::string>;

dns_handler after(std::chrono::milliseconds delay, unsigned type, dns_handler f) {
  return [=](dns_query const& q) {
    auto answers = f(q);
    if (q.type == type)
      for (dns_answer& answer : answers) answer.after = delay;
    return answers;
  };
}
dns_handler lost(unsigned type, dns_handler f) {
  return [=](dns_query const& q) { return q.type == type ? std::vector<dns_answer>() : f(q); };
}

struct resolver_ : ::testing::Test {
  name_files files;
};
struct example_resolver_ : resolver_ {
  name_server server{example()};
};

TEST_F(example_resolver_, finds_the_addresses_of_both_families) {
  resolver names(files.options(server.at()));
  EXPECT_EQ(texts(names.resolve("both.test", 443, 10s)), (strings{"192.0.2.1:443", "[2001:db8::1]:443"}));
  EXPECT_EQ(texts(names.resolve("FOUR.Test", 80, 10s)), strings{"192.0.2.4:80"});
  EXPECT_EQ(texts(names.resolve("six.test", 80, 10s)), strings{"[2001:db8::6]:80"});
}

TEST_F(example_resolver_, finds_the_addresses_of_one_family_if_asked_for) {
  resolver names(files.options(server.at()));
  EXPECT_EQ(texts(names.resolve("both.test", 1, 10s, {.family = address_family::ipv6})),
            strings{"[2001:db8::1]:1"});
  EXPECT_EQ(names.resolve("four.test", 1, 10s, {.family = address_family::ipv6}).error(),
            resolve_error::no_data);
  EXPECT_EQ(server.asked(), (strings{"both.test 28", "four.test 28"}));
}

TEST_F(resolver_, tells_apart_why_there_is_no_address) {
  zone const z = example();
  name_server server([&](dns_query const& q) -> std::vector<dns_answer> {
    if (q.name == "broken.test") return {{answer_to(q, {}, server_failure)}};
    if (q.name == "secret.test") return {{answer_to(q, {}, refused)}};
    return z(q);
  });
  resolver_options o = files.options(server.at());
  o.attempts = 1;
  resolver names(o);
  std::string why;
  EXPECT_EQ(names.resolve("none.test", 1, 10s, {.why = &why}).error(), resolve_error::no_such_name);
  EXPECT_EQ(why, "looking up 'none.test': there is no such name");
  EXPECT_EQ(names.resolve("none.test", 1, 10s).error().message(), "resolve none.test: there is no such name");
  EXPECT_EQ(names.services("none.test", 10s).error().message(), "services none.test: there is no such name");
  EXPECT_EQ(names.texts("none.test", 10s).error().message(), "texts none.test: there is no such name");
  EXPECT_EQ(names.names_of(endpoint::ipv4({192, 0, 2, 77}, 9), 10s).error().message(),
            "names_of 192.0.2.77:9: there is no such name");
  EXPECT_EQ(names.resolve("empty.test", 1, 10s).error(), resolve_error::no_data);
  EXPECT_EQ(names.resolve("broken.test", 1, 10s).error(), resolve_error::server_failed);
  EXPECT_EQ(names.resolve("secret.test", 1, 10s).error(), resolve_error::refused);
  EXPECT_STREQ(unio::resolve_category().name(), "unio.resolve");
}

TEST(resolver, has_a_text_for_each_reason) {
  std::set<std::string> texts;
  for (int i = 1; i <= static_cast<int>(resolve_error::libc_failed); ++i) {
    std::string const text = make_error_code(static_cast<resolve_error>(i)).message();
    EXPECT_EQ(text.find("error "), text.npos) << text;
    EXPECT_TRUE(texts.insert(text).second) << text;
  }
  EXPECT_EQ(unio::resolve_category().message(77), "error 77 of resolving");
}

TEST_F(resolver_, does_not_wait_for_a_family_whose_answer_is_late_or_lost) {
  for (unsigned const type : {a, aaaa}) {
    name_server late(after(5s, type, example()));
    name_server losing(lost(type, example()));
    for (name_server const* server : {&late, &losing}) {
      resolver names(files.options(server->at()));
      std::string const other = type == a ? "[2001:db8::1]:1" : "192.0.2.1:1";
      EXPECT_EQ(texts(names.resolve("both.test", 1, 60s, {.family_delay = 1ms})), strings{other});
    }
  }
}

TEST_F(resolver_, waits_for_the_other_family_as_long_as_it_is_told) {
  name_server late(after(50ms, aaaa, example()));
  resolver names(files.options(late.at()));
  EXPECT_EQ(texts(names.resolve("both.test", 1, 60s, {.family_delay = 30s})),
            (strings{"192.0.2.1:1", "[2001:db8::1]:1"}));
}

TEST_F(resolver_, asks_again_when_an_answer_is_lost) {
  std::atomic<int> n = 0;
  zone const z = example();
  name_server server([&](dns_query const& q) { return n++ < 2 ? std::vector<dns_answer>() : z(q); });
  resolver_options o = files.options(server.at());
  o.timeout = 20ms;
  o.attempts = 500; // a busy machine answers some of them too late
  resolver names(o);
  EXPECT_EQ(texts(names.resolve("four.test", 1, 60s)), strings{"192.0.2.4:1"});
}

TEST_F(resolver_, says_that_nobody_answers_or_that_the_time_is_over) {
  name_server silent([](dns_query const&) { return std::vector<dns_answer>(); });
  resolver_options o = files.options(silent.at());
  o.timeout = 10ms;
  resolver names(o);
  EXPECT_EQ(names.resolve("four.test", 1, 60s).error(), resolve_error::no_answer);
  while (silent.asked().size() < 4) std::this_thread::sleep_for(1ms); // it may not have seen them yet
  EXPECT_EQ(silent.asked().size(), 4u);                               // two families, twice
  o.timeout = 60s;
  resolver patient(o);
  EXPECT_EQ(patient.resolve("four.test", 1, 20ms).error(), condition::timed_out);
  EXPECT_EQ(patient.resolve("four.test", 1, unio::deadline::zero()).error(), condition::would_block);
}

TEST_F(resolver_, goes_on_to_the_next_server) {
  name_server good(example());
  name_server broken(
      [](dns_query const& q) -> std::vector<dns_answer> { return {{answer_to(q, {}, server_failure)}}; });
  endpoint const nobody = [] {
    auto s = unio::datagram_handle::bind(endpoint::ipv4_loopback(0)).value();
    return s.local_endpoint().value();
  }();
  resolver_options o = files.options(broken.at());
  o.servers = {nobody, broken.at(), good.at()};
  o.timeout = 20s;
  resolver names(o);
  EXPECT_EQ(texts(names.resolve("both.test", 1, 60s)), (strings{"192.0.2.1:1", "[2001:db8::1]:1"}));
}

TEST_F(resolver_, asks_by_tcp_what_was_truncated) {
  zone z;
  for (int i = 1; i != 200; ++i) z.add("many.test", a_record("192.0.2." + std::to_string(i)));
  name_server server([&](dns_query const& q) -> std::vector<dns_answer> {
    if (!q.by_tcp && q.type == a) return {{truncated_answer_to(q)}};
    return z(q);
  });
  resolver names(files.options(server.at()));
  EXPECT_EQ(names.resolve("many.test", 1, 60s).value().size(), 199u);
  // Another server does not say so, and sends what does not fit.
  name_server careless([&](dns_query const& q) { return z(q); });
  resolver other(files.options(careless.at()));
  EXPECT_EQ(other.resolve("many.test", 1, 60s).value().size(), 199u);
}

TEST_F(resolver_, asks_by_tcp_although_the_other_answer_is_lost) {
  zone const z = example();
  name_server server([&](dns_query const& q) -> std::vector<dns_answer> {
    if (q.type == aaaa) return {};
    if (!q.by_tcp) return {{truncated_answer_to(q)}};
    return z(q);
  });
  resolver_options o = files.options(server.at());
  o.timeout = 30s;
  resolver names(o);
  EXPECT_EQ(texts(names.resolve("both.test", 1, 60s, {.family_delay = 1ms})), strings{"192.0.2.1:1"});
}

TEST_F(example_resolver_, can_ask_by_tcp_only) {
  resolver_options o = files.options(server.at());
  o.use_tcp = true;
  resolver names(o);
  EXPECT_EQ(texts(names.resolve("four.test", 1, 60s)), strings{"192.0.2.4:1"});
  for (std::string const& q : server.asked()) EXPECT_TRUE(q.ends_with(" tcp")) << q;
}

TEST_F(resolver_, goes_on_when_a_server_ends_a_tcp_connection) {
  name_server hangs_up([](dns_query const& q) -> std::vector<dns_answer> {
    if (q.by_tcp) return {{dns_bytes()}};
    return {{truncated_answer_to(q)}};
  });
  resolver_options o = files.options(hangs_up.at());
  o.attempts = 1;
  resolver names(o);
  EXPECT_EQ(names.resolve("four.test", 1, 60s).error(), resolve_error::malformed_answer);
  name_server good(example());
  o.servers = {hangs_up.at(), good.at()};
  resolver both(o);
  EXPECT_EQ(texts(both.resolve("four.test", 1, 60s)), strings{"192.0.2.4:1"});
}

TEST_F(resolver_, ignores_what_is_no_answer_to_its_question) {
  zone const z = example();
  name_server server([&](dns_query const& q) -> std::vector<dns_answer> {
    dns_query other = q;
    other.raw[0] ^= std::byte{1}; // another id
    auto forged = answer_to(other, {a_record("203.0.113.66")});
    other = q;
    other.raw[13] = std::byte{'x'}; // another name
    auto of_another = answer_to(other, {a_record("203.0.113.66")});
    std::vector<dns_answer> all = {{dns_bytes(5)}, {q.raw}, {forged}, {of_another}};
    auto const good = z(q);
    all.insert(all.end(), good.begin(), good.end());
    return all;
  });
  resolver names(files.options(server.at()));
  EXPECT_EQ(texts(names.resolve("four.test", 1, 60s)), strings{"192.0.2.4:1"});
}

TEST_F(resolver_, survives_an_answer_cut_at_any_byte) {
  std::atomic<std::size_t> length = 0;
  zone const z = example();
  name_server server([&](dns_query const& q) -> std::vector<dns_answer> {
    auto answers = z(q);
    answers[0].raw.resize(std::min(answers[0].raw.size(), length.load()));
    return answers;
  });
  resolver_options o = files.options(server.at());
  o.attempts = 1;
  o.timeout = 2ms;
  resolver names(o);
  std::size_t const whole = answer_to(
                                [] {
                                  dns_query q;
                                  q.raw.assign(12, std::byte{0});
                                  auto const name = wire_name("four.test");
                                  q.raw.insert(q.raw.end(), name.begin(), name.end());
                                  q.raw.resize(q.raw.size() + 4);
                                  return q;
                                }(),
                                {a_record("192.0.2.4")})
                                .size();
  for (; length != whole; ++length) {
    auto const r = names.resolve("four.test", 1, 60s, {.family = address_family::ipv4});
    EXPECT_TRUE(r.error() == resolve_error::malformed_answer || r.error() == resolve_error::no_answer)
        << length << " " << r.error().code().message();
  }
  o.timeout = 20s;
  resolver patient(o);
  EXPECT_EQ(texts(patient.resolve("four.test", 1, 60s, {.family = address_family::ipv4})),
            strings{"192.0.2.4:1"});
}

TEST_F(resolver_, asks_without_the_extension_where_a_server_does_not_know_it) {
  zone const z = example();
  name_server server([&](dns_query const& q) -> std::vector<dns_answer> {
    if (q.extended) return {{answer_to(q, {}, form_error)}};
    return z(q);
  });
  resolver names(files.options(server.at()));
  EXPECT_EQ(texts(names.resolve("both.test", 1, 60s)), (strings{"192.0.2.1:1", "[2001:db8::1]:1"}));
}

TEST_F(resolver_, follows_other_names_within_an_answer) {
  name_server server([](dns_query const& q) -> std::vector<dns_answer> {
    if (q.type != a) return {{answer_to(q, {name_record(cname, "real.test")})}};
    dns_record address = a_record("192.0.2.77");
    address.owner = "real.test";
    return {{answer_to(q, {name_record(cname, "real.test"), address})}};
  });
  resolver names(files.options(server.at()));
  EXPECT_EQ(texts(names.resolve("alias.test", 1, 60s)), strings{"192.0.2.77:1"});
}

TEST_F(resolver_, does_not_take_a_referral_for_an_answer) {
  name_server lame([](dns_query const& q) -> std::vector<dns_answer> {
    auto answer = answer_to(q, {});
    answer[3] = std::byte{0}; // neither authoritative nor recursive
    return {{answer}};
  });
  resolver_options o = files.options(lame.at());
  o.attempts = 1;
  resolver names(o);
  EXPECT_EQ(names.resolve("four.test", 1, 60s).error(), resolve_error::server_failed);
}

// ── names ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(example_resolver_, tries_the_search_list_as_ndots_says) {
  resolver_options o = files.options(server.at());
  o.search = {"wrong.test", "corp.test"};
  resolver names(o);
  EXPECT_EQ(texts(names.resolve("host", 1, 60s, {.family = address_family::ipv4})), strings{"192.0.2.9:1"});
  EXPECT_EQ(server.asked(), (strings{"host.wrong.test 1", "host.corp.test 1"}));
}

TEST_F(example_resolver_, tries_a_name_with_dots_as_it_is_first) {
  resolver_options o = files.options(server.at());
  o.search = {"test"};
  resolver names(o);
  EXPECT_EQ(texts(names.resolve("host.corp", 1, 60s, {.family = address_family::ipv4})),
            strings{"192.0.2.9:1"});
  EXPECT_EQ(server.asked(), (strings{"host.corp 1", "host.corp.test 1"}));
}

TEST_F(example_resolver_, leaves_the_search_list_alone_for_a_name_with_a_final_dot) {
  resolver_options o = files.options(server.at());
  o.search = {"corp.test"};
  resolver names(o);
  EXPECT_EQ(names.resolve("host.", 1, 60s, {.family = address_family::ipv4}).error(),
            resolve_error::no_such_name);
  EXPECT_EQ(server.asked(), strings{"host 1"});
  EXPECT_EQ(texts(names.resolve("four.test.", 1, 60s)), strings{"192.0.2.4:1"});
}

TEST_F(resolver_, says_what_a_server_met_although_another_name_does_not_exist) {
  name_server server([](dns_query const& q) -> std::vector<dns_answer> {
    return {{answer_to(q, {}, q.name == "x.one.test" ? server_failure : nx_domain)}};
  });
  resolver_options o = files.options(server.at());
  o.search = {"one.test", "two.test"};
  o.attempts = 1;
  resolver names(o);
  EXPECT_EQ(names.resolve("x", 1, 60s).error(), resolve_error::server_failed);
}

TEST_F(example_resolver_, asks_nobody_for_an_address) {
  resolver names(files.options(server.at()));
  EXPECT_EQ(texts(names.resolve("127.0.0.1", 80)), strings{"127.0.0.1:80"});
  EXPECT_EQ(texts(names.resolve("::1", 80)), strings{"[::1]:80"});
  EXPECT_EQ(texts(names.resolve("fe80::1%1", 80)), strings{"[fe80::1%1]:80"});
  EXPECT_EQ(names.resolve("::1", 80, {}, {.family = address_family::ipv4}).error(), resolve_error::no_data);
  EXPECT_EQ(names.resolve("1::2::3", 80).error(), resolve_error::invalid_name);
  EXPECT_EQ(names.resolve("fe80::1%no-such-interface", 80).error(), resolve_error::invalid_name);
  EXPECT_TRUE(server.asked().empty());
}

TEST_F(example_resolver_, takes_a_number_for_an_address_as_the_c_library_does) {
  resolver names(files.options(server.at()));
  for (char const* const text :
       {"10.1", "10.1.2", "0x0a000001", "0XA.0x1", "167772161", "012.0.0.1", "0", "1.2.3.4", "0xfacade"}) {
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_family = AF_INET;
    wanted.ai_socktype = SOCK_STREAM;
    ASSERT_EQ(::getaddrinfo(text, nullptr, &wanted, &found), 0) << text;
    char address[64] = {};
    (void)::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(found->ai_addr)->sin_addr, address,
                      sizeof(address));
    ::freeaddrinfo(found);
    EXPECT_EQ(texts(names.resolve(text, 80)), strings{std::string(address) + ":80"}) << text;
    EXPECT_EQ(names.resolve(text, 80, {}, {.family = address_family::ipv6}).error(), resolve_error::no_data);
  }
  EXPECT_TRUE(server.asked().empty());
  for (char const* const name : {"1.2.3.4.5", "256.256.256.256", "10.", "08", "face", "0x", "4294967296"})
    EXPECT_EQ(names.resolve(name, 80, 60s).error(), resolve_error::no_such_name) << name;
  EXPECT_EQ(server.asked().size(), 14u); // two families each
}

// ── a large hosts file ─────────────────────────────────────────────────────────────────────────────────────

// As those have it that block advertisers, with one name of use at the end.
std::string many_lines() {
  std::string text;
  for (int i = 0; i != 50'000; ++i) text += "0.0.0.0 ad" + std::to_string(i) + ".test\n";
  return text + "192.0.2.1 last.test\n";
}

TEST_F(resolver_, lets_others_run_while_it_reads_a_large_hosts_file) {
  files.write("hosts", many_lines());
  resolver names(files.options(endpoint::ipv4_loopback(9)));
  auto const both = [](resolver& r) -> task<int> {
    std::atomic<bool> is_over = false;
    auto const looks_up = [](resolver& it, std::atomic<bool>& over) -> task<> {
      auto const found = co_await it.co_resolve("last.test", 1);
      EXPECT_EQ(texts(found), strings{"192.0.2.1:1"});
      over = true;
    };
    auto const counts = [](std::atomic<bool> const& over) -> task<int> {
      int turns = 0;
      while (!over) {
        co_await unio::co_yield_now();
        ++turns;
      }
      co_return turns;
    };
    auto const all = co_await unio::when_all(looks_up(r, is_over), counts(is_over));
    co_return std::get<0>(all);
  };
  EXPECT_GE(unio::run(both(names)), 50);
}

TEST_F(resolver_, reads_its_files_once_for_look_ups_that_begin_together) {
  files.write("hosts", many_lines());
  resolver names(files.options(endpoint::ipv4_loopback(9)));
  int found = 0;
  for (int i = 0; i != 20; ++i)
    unio::async_run(unio::this_thread::multiplexer(), names.co_resolve("last.test", 1), [&](auto outcome) {
      EXPECT_EQ(texts(*outcome), strings{"192.0.2.1:1"});
      ++found;
    });
  // Waits for no coroutine of its own thread.
  auto const asks = [](resolver const& r, int& done) -> task<> {
    for (int i = 0; i != 5; ++i) co_await unio::co_yield_now();
    unio::resolve_way const way = r.capabilities().way;
    EXPECT_EQ(way, unio::resolve_way::direct);
    ++done;
  };
  unio::async_run(unio::this_thread::multiplexer(), asks(names, found));
  while (found != 21) (void)unio::this_thread::multiplexer().run();
}

// Nothing says that the multiplexer of another look-up is run again.
TEST_F(resolver_, does_not_depend_on_a_look_up_that_is_not_run_any_more) {
  files.write("hosts", many_lines());
  resolver names(files.options(endpoint::ipv4_loopback(9)));
  auto const m = made_multiplexer();
  bool is_over = false;
  unio::async_run(*m, names.co_resolve("last.test", 1), [&](auto outcome) {
    EXPECT_EQ(texts(*outcome), strings{"192.0.2.1:1"});
    is_over = true;
  });
  for (int i = 0; i != 10; ++i) (void)m->try_run(1);
  ASSERT_FALSE(is_over); // it has begun to read the files
  EXPECT_EQ(texts(names.resolve("last.test", 1, 60s)), strings{"192.0.2.1:1"});
  ASSERT_FALSE(is_over);
  EXPECT_EQ(texts(names.resolve("last.test", 1, unio::deadline::zero())), strings{"192.0.2.1:1"});
  while (!is_over) (void)m->run();
}

TEST_F(resolver_, goes_on_reading_where_a_look_up_whose_time_was_over_has_left_off) {
  files.write("hosts", many_lines());
  resolver names(files.options(endpoint::ipv4_loopback(9)));
  std::vector<std::string> said;
  for (int i = 0; i != 10'000 && said != strings{"192.0.2.1:1"}; ++i) {
    auto const r = names.resolve("last.test", 1, 1ms);
    said = texts(r);
    if (!r.has_value()) {
      EXPECT_EQ(r.error(), condition::timed_out);
    }
  }
  EXPECT_EQ(said, strings{"192.0.2.1:1"});
  unio::stop_source stop;
  stop.request_stop();
  resolver other(files.options(endpoint::ipv4_loopback(9)));
  EXPECT_EQ(unio::run(other.co_resolve("last.test", 1), {.stop = stop.get_token()}).error(),
            condition::canceled);
  EXPECT_EQ(texts(other.resolve("last.test", 1, unio::deadline::zero())), strings{"192.0.2.1:1"});
}

TEST_F(example_resolver_, knows_localhost_itself) {
  resolver names(files.options(server.at()));
  for (char const* const name : {"localhost", "LocalHost.", "app.localhost"})
    EXPECT_EQ(texts(names.resolve(name, 80)), (strings{"127.0.0.1:80", "[::1]:80"})) << name;
  EXPECT_EQ(texts(names.resolve("localhost", 80, {}, {.family = address_family::ipv4})),
            strings{"127.0.0.1:80"});
  EXPECT_TRUE(server.asked().empty());
}

TEST_F(example_resolver_, refuses_what_cannot_be_a_name) {
  resolver names(files.options(server.at()));
  std::string const label(63, 'a');
  std::string const longest = label + "." + label + "." + label + "." + std::string(61, 'a');
  ASSERT_EQ(longest.size(), 253u);
  EXPECT_EQ(names.resolve(longest, 1, 60s).error(), resolve_error::no_such_name);
  EXPECT_EQ(names.resolve(longest + ".", 1, 60s).error(), resolve_error::no_such_name);
  std::size_t const before = server.asked().size();
  EXPECT_GT(before, 0u);
  for (std::string const& wrong :
       {longest + "a", std::string(64, 'a') + ".test", std::string("a..test"), std::string(".test"),
        std::string("."), std::string(), std::string("a b"), std::string("a/b"),
        std::string("m\xc3\xbcnchen.test"), std::string("[::1]"), std::string("four.test\0.evil", 15),
        std::string(100'000, 'a')})
    EXPECT_EQ(names.resolve(wrong, 1, 60s).error(), resolve_error::invalid_name) << wrong.substr(0, 80);
  EXPECT_EQ(server.asked().size(), before);
}

TEST_F(example_resolver_, reads_the_hosts_file_and_reads_it_again) {
  resolver names(files.options(server.at()));
  files.write("hosts", "192.0.2.50 printer Printer.corp # a comment\n2001:db8::50 printer\n");
  EXPECT_EQ(texts(names.resolve("PRINTER", 9, 60s)), (strings{"192.0.2.50:9", "[2001:db8::50]:9"}));
  EXPECT_EQ(texts(names.resolve("printer.corp.", 9, 60s)), strings{"192.0.2.50:9"});
  EXPECT_TRUE(server.asked().empty());
  files.write("hosts", "192.0.2.51 printer\n192.0.2.4 localhost\n");
  EXPECT_EQ(texts(names.resolve("printer", 9, 60s)), strings{"192.0.2.51:9"});
  EXPECT_EQ(texts(names.resolve("localhost", 9, 60s)), strings{"192.0.2.4:9"});
}

// What cannot be looked at is not taken for what is not there until the next look, which may be in an hour.
TEST_F(resolver_, looks_again_at_files_for_which_there_was_no_descriptor) {
  files.write("hosts", "192.0.2.7 known.test\n");
  resolver_options o = files.options(endpoint::ipv4_loopback(9)); // where nobody answers
  o.timeout = 20ms;
  o.attempts = 1;
  for (bool const was_read : {false, true}) {
    o.check_every = was_read ? 0ms : std::chrono::milliseconds(1h);
    resolver names(o);
    if (was_read) {
      EXPECT_EQ(texts(names.resolve("known.test", 1, 10s)), strings{"192.0.2.7:1"});
    }
    {
      failing_calls calls;
      calls.fail<&table::openat>(EMFILE, {.times = which_calls::all});
      EXPECT_EQ(names.resolve("known.test", 1, 10s).has_value(), was_read);
    }
    EXPECT_EQ(texts(names.resolve("known.test", 1, 10s)), strings{"192.0.2.7:1"});
  }
}

TEST_F(example_resolver_, takes_256_addresses_of_each_family_from_the_hosts_file) {
  std::string text;
  for (int i = 0; i != 300; ++i) {
    text += "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250) + " many\n";
    text += "2001:db8::" + std::to_string(i) + " many\n";
  }
  files.write("hosts", text);
  resolver names(files.options(server.at()));
  EXPECT_EQ(texts(names.resolve("many", 9, 60s)).size(), 512u);
}

TEST_F(example_resolver_, looks_at_files_no_more_often_than_it_is_told) {
  resolver_options o = files.options(server.at());
  for (std::chrono::milliseconds const span :
       {std::chrono::milliseconds(1h), std::chrono::milliseconds::max()}) {
    o.check_every = span;
    files.write("hosts", "192.0.2.50 printer\n");
    resolver names(o);
    EXPECT_EQ(texts(names.resolve("printer", 9, 60s)), strings{"192.0.2.50:9"});
    files.write("hosts", "192.0.2.51 printer\n");
    EXPECT_EQ(texts(names.resolve("printer", 9, 60s)), strings{"192.0.2.50:9"}) << span.count();
  }
}

// ── other records ──────────────────────────────────────────────────────────────────────────────────────────

TEST_F(resolver_, finds_the_names_of_an_address) {
  zone z;
  z.add("1.2.0.192.in-addr.arpa", name_record(ptr, "one.test"));
  z.add("1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
        name_record(ptr, "six.test"));
  z.add("3.2.0.192.in-addr.arpa", name_record(ptr, "evil\x1b[31m.test"));
  name_server server(z);
  resolver_options o = files.options(server.at());
  o.attempts = 1;
  resolver names(o);
  files.write("hosts", "192.0.2.50 printer printer.corp\n");
  EXPECT_EQ(names.names_of(unio::parse_endpoint("192.0.2.1:80").value(), 60s).value(), strings{"one.test"});
  EXPECT_EQ(names.names_of(unio::parse_endpoint("[2001:db8::1]:0").value(), 60s).value(),
            strings{"six.test"});
  EXPECT_EQ(names.names_of(unio::parse_endpoint("[::ffff:192.0.2.1]:0").value(), 60s).value(),
            strings{"one.test"});
  EXPECT_EQ(names.names_of(unio::parse_endpoint("192.0.2.50:7").value(), 60s).value(),
            (strings{"printer", "printer.corp"}));
  EXPECT_EQ(names.names_of(unio::parse_endpoint("192.0.2.2:0").value(), 60s).error(),
            resolve_error::no_such_name);
  EXPECT_EQ(names.names_of(unio::parse_endpoint("192.0.2.3:0").value(), 60s).error(),
            resolve_error::malformed_answer);
  EXPECT_EQ(names.names_of(endpoint::unix_path("/x").value()).error(), resolve_error::invalid_name);
}

TEST_F(resolver_, finds_the_hosts_of_a_service) {
  zone z;
  z.add("_imaps._tcp.test", srv_record(20, 0, 993, "backup.test"))
      .add("_imaps._tcp.test", srv_record(10, 1, 993, "light.test"))
      .add("_imaps._tcp.test", srv_record(10, 9, 1993, "heavy.test"))
      .add("_none._tcp.test", srv_record(0, 0, 0, ""));
  name_server server(z);
  resolver names(files.options(server.at()));
  auto const found = names.services("_imaps._tcp.test", 60s).value();
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].host, "heavy.test");
  EXPECT_EQ(found[0].port, 1993);
  EXPECT_EQ(found[1].host, "light.test");
  EXPECT_EQ(found[2].host, "backup.test");
  EXPECT_EQ(found[2].priority, 20);
  EXPECT_EQ(names.services("_none._tcp.test", 60s).error(), resolve_error::no_data);
  EXPECT_EQ(names.services("_other._tcp.test", 60s).error(), resolve_error::no_such_name);
}

TEST_F(resolver_, finds_the_texts_of_a_name) {
  zone z;
  z.add("txt.test", txt_record({"one ", "piece"})).add("txt.test", txt_record({std::string("\0\xff", 2)}));
  name_server server(z);
  resolver names(files.options(server.at()));
  auto found = names.texts("txt.test", 60s).value();
  std::ranges::sort(found);
  EXPECT_EQ(found, (strings{std::string("\0\xff", 2), "one piece"}));
  EXPECT_EQ(names.texts("none.test", 60s).error(), resolve_error::no_such_name);
}

// ── styles, stops and ends ─────────────────────────────────────────────────────────────────────────────────

struct keeper {
  std::optional<io_result<endpoint_list>>* got;
  void set_value(io_result<endpoint_list> r) noexcept { got->emplace(std::move(r)); }
  static void set_done() noexcept {}
};

TEST_F(example_resolver_, finds_the_same_in_every_style) {
  resolver names(files.options(server.at()));
  strings const wanted = {"192.0.2.1:1", "[2001:db8::1]:1"};
  EXPECT_EQ(texts(names.resolve("both.test", 1, 60s)), wanted);
  EXPECT_EQ(texts(unio::run([](resolver& n) -> task<io_result<endpoint_list>> {
              co_return co_await n.co_resolve("both.test", 1, 60s);
            }(names))),
            wanted);
  std::optional<io_result<endpoint_list>> got;
  auto op = unio::connect(unio::async_resolve(names, "both.test", 1, 60s), keeper{&got});
  op.start();
  while (op.poll() == unio::io_status::pending) continue;
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(texts(*got), wanted);
}

TEST_F(resolver_, ends_when_it_is_asked_to_stop) {
  name_server silent([](dns_query const&) { return std::vector<dns_answer>(); });
  resolver names(files.options(silent.at()));
  auto const r = unio::run([](resolver& n) -> task<io_result<endpoint_list>> {
    co_return co_await unio::timeout(10ms, n.co_resolve("four.test", 1));
  }(names));
  EXPECT_EQ(r.error(), condition::timed_out);
  std::optional<io_result<endpoint_list>> got;
  auto op = unio::connect(unio::async_resolve(names, "four.test", 1), keeper{&got});
  op.start();
  for (int i = 0; i != 5; ++i) EXPECT_EQ(op.poll(), unio::io_status::pending);
  op.cancel();
  while (op.poll() == unio::io_status::pending) continue;
  EXPECT_EQ(got->error(), condition::canceled);
  auto destroyed = unio::connect(unio::async_resolve(names, "four.test", 1), ignore());
}

TEST_F(resolver_, may_be_destroyed_with_queries_under_way) {
  name_server silent([](dns_query const&) { return std::vector<dns_answer>(); });
  auto names = std::make_unique<resolver>(files.options(silent.at()));
  std::vector<std::error_code> ends;
  for (int i = 0; i != 5; ++i)
    unio::async_run(unio::this_thread::multiplexer(), names->co_resolve("four.test", 1),
                    [&](unio::task_outcome<io_result<endpoint_list>> o) { ends.push_back(o->error()); });
  for (int i = 0; i != 20; ++i) (void)unio::this_thread::multiplexer().try_run();
  EXPECT_TRUE(ends.empty());
  names.reset();
  while (ends.size() != 5) (void)unio::this_thread::multiplexer().run();
  for (std::error_code const& e : ends) EXPECT_EQ(e, condition::canceled);
}

TEST_F(example_resolver_, may_be_destroyed_before_a_look_up_begins) {
  auto names = std::make_unique<resolver>(files.options(server.at()));
  auto call = names->co_resolve("four.test", 1);
  names.reset();
  EXPECT_EQ(unio::run(std::move(call)).error(), condition::canceled);
  EXPECT_TRUE(server.asked().empty());
}

TEST_F(example_resolver_, is_used_by_many_threads_at_once) {
  files.write("hosts", "192.0.2.50 printer\n");
  resolver names(files.options(server.at()));
  std::vector<std::thread> threads;
  for (int t = 0; t != 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i != 50; ++i) {
        if (t == 0) files.write("hosts", "192.0.2.50 printer\n192.0.2." + std::to_string(i) + " other\n");
        EXPECT_EQ(texts(names.resolve("both.test", 1, 60s)), (strings{"192.0.2.1:1", "[2001:db8::1]:1"}));
      }
    });
  for (std::thread& t : threads) t.join();
}

TEST_F(example_resolver_, runs_many_look_ups_at_once_on_a_pool) {
  resolver names(files.options(server.at()));
  unio::thread_pool pool(2);
  auto const found = unio::sync_wait(pool.executor(), [](resolver& n) -> task<int> {
    std::vector<task<io_result<endpoint_list>>> all;
    for (int i = 0; i != 100; ++i) all.push_back(n.co_resolve("both.test", 1, 60s));
    auto values = co_await unio::when_all(all);
    int good = 0;
    for (io_result<endpoint_list> const& r : values) good += r.has_value() && r->size() == 2 ? 1 : 0;
    co_return good;
  }(names));
  EXPECT_EQ(found, 100);
}

TEST_F(example_resolver_, can_be_used_by_a_forked_child) {
  if (test::under_thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer lets no child of several threads start one";
  resolver names(files.options(server.at()));
  EXPECT_TRUE(names.resolve("four.test", 1, 60s).has_value());
  test::expect_in_child([&] {
    auto m = unio::io_multiplexer::best_available(1);
    CHILD_EXPECTS(m.has_value());
    return CHILD_MEETS(unio::run(**m, names.co_resolve("four.test", 1, 60s)).has_value());
  });
}

TEST_F(resolver_, reads_its_files_anew_in_a_child_whose_parent_has_half_read_them) {
  if (test::under_thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer lets no child of several threads start one";
  files.write("hosts", many_lines());
  resolver names(files.options(endpoint::ipv4_loopback(9)));
  auto const forks = [](resolver& r) -> task<pid_t> {
    for (int i = 0; i != 5; ++i) co_await unio::co_yield_now();
    pid_t const child = ::fork();
    if (child != 0) co_return child;
    auto m = unio::io_multiplexer::best_available(1);
    if (!m.has_value()) ::_exit(2);
    ::_exit(unio::run(**m, r.co_resolve("last.test", 1, 60s)).has_value() ? 0 : 1);
  };
  auto const both = [](resolver& r, auto& forking) -> task<pid_t> {
    auto const all = co_await unio::when_all(r.co_resolve("last.test", 1, 60s), forking(r));
    EXPECT_TRUE(std::get<0>(all).has_value());
    co_return std::get<1>(all);
  };
  pid_t const child = unio::run(both(names, forks));
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

} // namespace
