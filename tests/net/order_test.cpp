// src/net/order.hpp: the order of addresses, with the examples of RFC 6724 §10.2, and src/net/wire.hpp:
// what answers are read from, cut anywhere.

#include "net/order.hpp"

#include "net/name_server.hpp"
#include "net/wire.hpp"
#include "support/child.hpp"
#include "support/failing_calls.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using strings = std::vector<std::string>;

endpoint at(std::string const& text) {
  return unio::parse_endpoint(text.find(':') != text.npos ? "[" + text + "]:80" : text + ":80").value();
}

std::map<std::string, std::string> sources; // of this test
endpoint known_source(endpoint const& to) {
  auto const found = sources.find(to_string(to));
  return found != sources.end() ? at(found->second) : endpoint();
}

strings sorted(std::vector<std::pair<std::string, std::string>> const& destinations_and_sources) {
  sources.clear();
  unio::endpoint_list all;
  for (auto const& [to, from] : destinations_and_sources) {
    all.push_back(at(to));
    if (!from.empty()) sources[to_string(at(to))] = from;
  }
  unio::net::sort(all, &known_source);
  strings out;
  for (endpoint const& e : all) {
    std::string text = to_string(e);
    text.resize(text.rfind(':'));
    if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
    out.push_back(text);
  }
  return out;
}

TEST(order_of_addresses, is_that_of_the_examples_in_the_standard) {
  // Prefer matching scope.
  EXPECT_EQ(sorted({{"198.51.100.121", "169.254.13.78"}, {"2001:db8:1::1", "2001:db8:1::2"}}),
            (strings{"2001:db8:1::1", "198.51.100.121"}));
  EXPECT_EQ(sorted({{"2001:db8:1::1", "fe80::1"}, {"198.51.100.121", "198.51.100.117"}}),
            (strings{"198.51.100.121", "2001:db8:1::1"}));
  // Prefer higher precedence.
  EXPECT_EQ(sorted({{"10.1.2.3", "10.1.2.4"}, {"2001:db8:1::1", "2001:db8:1::2"}}),
            (strings{"2001:db8:1::1", "10.1.2.3"}));
  // Prefer smaller scope.
  EXPECT_EQ(sorted({{"2001:db8:1::1", "2001:db8:1::2"}, {"fe80::1", "fe80::2"}}),
            (strings{"fe80::1", "2001:db8:1::1"}));
  // Prefer matching label.
  EXPECT_EQ(sorted({{"2002:c633:6401::1", "2002:c633:6401::2"}, {"2001:db8:1::1", "2002:c633:6401::2"}}),
            (strings{"2002:c633:6401::1", "2001:db8:1::1"}));
  // Prefer higher precedence, again.
  EXPECT_EQ(sorted({{"2002:c633:6401::1", "2002:c633:6401::2"}, {"2001:db8:1::1", "2001:db8:1::2"}}),
            (strings{"2001:db8:1::1", "2002:c633:6401::1"}));
  // Prefer the longest matching prefix.
  EXPECT_EQ(sorted({{"2001:db8:3ffe::1", "2001:db8:1::2"}, {"2001:db8:1::1", "2001:db8:1::2"}}),
            (strings{"2001:db8:1::1", "2001:db8:3ffe::1"}));
}

TEST(order_of_addresses, puts_last_what_cannot_be_reached) {
  EXPECT_EQ(sorted({{"2001:db8::1", ""}, {"192.0.2.1", "192.0.2.9"}}), (strings{"192.0.2.1", "2001:db8::1"}));
}

TEST(order_of_addresses, keeps_what_the_rules_do_not_tell_apart) {
  EXPECT_EQ(sorted({{"192.0.2.7", "192.0.2.9"}, {"192.0.2.1", "192.0.2.9"}, {"192.0.2.8", "192.0.2.9"}}),
            (strings{"192.0.2.7", "192.0.2.1", "192.0.2.8"}));
}

TEST(order_of_addresses, asks_the_kernel_where_it_would_send_from) {
  EXPECT_EQ(unio::net::source_by_kernel(endpoint::ipv4_loopback(9)).family(), unio::address_family::ipv4);
  EXPECT_EQ(unio::net::source_by_kernel(at("255.255.255.255")).family(), unio::address_family::unspecified);
}

// Without standard streams a socket may get the number of one, and what is printed would travel.
TEST(order_of_addresses, is_not_asked_for_by_a_standard_stream) {
  test::expect_in_child([] {
    ::close(0);
    test::failing_calls calls;
    static int number = -1;
    calls.answer<&unio::sys::table::connect>([](int fd, sockaddr const* to, unsigned size) noexcept {
      number = fd;
      return unio::sys::kernel.connect(fd, to, size);
    });
    (void)unio::net::source_by_kernel(endpoint::ipv4_loopback(9));
    return CHILD_MEETS(number > 2);
  });
}

// ── answers ────────────────────────────────────────────────────────────────────────────────────────────────

using unio::net::question;
using unio::net::record;
using unio::net::verdict;

test::dns_query as_query(question const& q) {
  test::dns_query out;
  EXPECT_TRUE(test::parse_query(q.bytes(), out));
  return out;
}

TEST(answers, are_read_whole_or_not_at_all_wherever_they_are_cut) {
  question q;
  ASSERT_FALSE(q.write("many.test.", record::a, 7));
  auto const whole = test::answer_to(as_query(q), {test::a_record("192.0.2.1"), test::a_record("192.0.2.2")});
  for (std::size_t n = 0; n <= whole.size(); ++n) {
    std::vector<std::byte> const cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
    verdict v = q.judge(cut);
    unio::endpoint_list found;
    if (v == verdict::answered) v = unio::net::read_addresses(record::a, cut, 80, found);
    EXPECT_EQ(v == verdict::answered, n == whole.size()) << n;
    EXPECT_EQ(found.size(), n == whole.size() ? 2u : 0u);
  }
}

TEST(answers, must_have_the_question_but_for_the_case_of_its_letters) {
  question q;
  ASSERT_FALSE(q.write("Name.test.", record::a, 7));
  auto answer = test::answer_to(as_query(q), {test::a_record("192.0.2.1")});
  EXPECT_EQ(q.judge(answer), verdict::answered);
  answer[13] = std::byte{'n'};
  EXPECT_EQ(q.judge(answer), verdict::answered);
  answer[13] = std::byte{'m'};
  EXPECT_EQ(q.judge(answer), verdict::of_another);
  question other;
  ASSERT_FALSE(other.write("name.test.", record::aaaa, 7));
  EXPECT_EQ(other.judge(test::answer_to(as_query(q), {})), verdict::of_another);
}

TEST(questions, can_lose_their_extension) {
  question q, plain;
  ASSERT_FALSE(q.write("name.test", record::a, 7));
  ASSERT_FALSE(plain.write("name.test", record::a, 7, false));
  EXPECT_TRUE(q.is_extended());
  q.shorten();
  EXPECT_FALSE(q.is_extended());
  EXPECT_TRUE(std::ranges::equal(q.bytes(), plain.bytes()));
}

TEST(questions, are_not_asked_for_onion_services) {
  question q;
  EXPECT_EQ(q.write("abc.onion", record::a, 7), unio::resolve_error::no_such_name);
  EXPECT_EQ(q.write(std::string(70, 'a'), record::a, 7), unio::resolve_error::invalid_name);
  EXPECT_EQ(q.write(std::string(300, 'a'), record::a, 7), unio::resolve_error::invalid_name);
}

} // namespace
