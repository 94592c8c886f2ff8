// endpoint.hpp: addresses from text and back, and what is not an address.

#include "support/posix.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using namespace std::string_literals;

TEST(endpoint, reads_its_own_text_back) {
  char const* const texts[] = {
      "0.0.0.0:0",
      "127.0.0.1:80",
      "255.255.255.255:65535",
      "1.20.103.4:9",
      "[::]:0",
      "[::1]:80",
      "[1::]:80",
      "[2001:db8::1]:443",
      "[2001:db8:0:1:1:1:1:1]:443",
      "[1:2:3:4:5:6:7:8]:1",
      "[0:2:3:4:5:6:7:8]:1",
      "[1:2:3:4:5:6:7:0]:1",
      "[1:0:0:2::3]:1",
      "[1::2:0:0:3]:1",
      "[::ffff:192.0.2.1]:7",
      "[::ffff]:7",
      "[::fffe:0:1]:7",
      "[::ffff:0.0.0.1]:7",
      "[::102:304]:7",
      "[64:ff9b::c000:201]:7",
      "[fe80::1%2]:80",
      "[fe80::1%4294967295]:80",
      "unix:/run/x",
      "unix:relative",
      "unix:/a b:c]",
      "unix:@abstract",
      "unix:@a/b",
      "unix:@a\\x00b",
      "unix:@\\x00",
      "unix:@a\\x5cb\\x0a",
  };
  for (std::string const text : texts) {
    std::string why;
    unio::result<endpoint> const e = parse_endpoint(text, &why);
    ASSERT_TRUE(e) << text << ": " << why;
    EXPECT_EQ(to_string(*e), text);
    EXPECT_TRUE(why.empty());
  }
}

TEST(endpoint, prints_ipv6_in_its_one_canonical_form) {
  struct {
    char const* read;
    char const* printed;
  } const cases[] = {
      {"[0:0:0:0:0:0:0:1]:1", "[::1]:1"},
      {"[2001:0DB8:0000:0000:0000:0000:0000:0001]:1", "[2001:db8::1]:1"},
      {"[2001:db8::0:1]:1", "[2001:db8::1]:1"},
      {"[1:2:3::5:6:7:8]:1", "[1:2:3:0:5:6:7:8]:1"}, // one group alone is not shortened
      {"[::ffff:c000:201]:1", "[::ffff:192.0.2.1]:1"},
      {"[1:2:3:4:5:6:1.2.3.4]:1", "[1:2:3:4:5:6:102:304]:1"},
      {"[1:0:0:0:2:0:0:3]:1", "[1::2:0:0:3]:1"}, // of several runs the longest
      {"[1:0:0:2:0:0:0:3]:1", "[1:0:0:2::3]:1"},
      {"[1:0:0:2:3:0:0:4]:1", "[1::2:3:0:0:4]:1"}, // of equal ones the first
  };
  for (auto const& c : cases) {
    unio::result<endpoint> const e = parse_endpoint(c.read);
    ASSERT_TRUE(e) << c.read;
    EXPECT_EQ(to_string(*e), c.printed);
    EXPECT_EQ(parse_endpoint(c.printed).value(), *e);
  }
}

// What the kernel is given, byte by byte: as RFC 4291 writes the address down, not as this library reads it.
TEST(endpoint, of_ipv6_has_exactly_these_bytes) {
  struct {
    char const* text;
    unsigned char address[16];
    std::uint16_t port;
    std::uint32_t scope;
  } const cases[] = {
      {"[::]:0", {}, 0, 0},
      {"[::1]:80", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 80, 0},
      {"[1::]:256", {0, 1}, 256, 0},
      {"[2001:db8:0:1:2:30:400:ffff]:65535",
       {0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 1, 0, 2, 0, 0x30, 0x04, 0, 0xff, 0xff},
       65535,
       0},
      {"[fe80::aBcD%7]:258", {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xab, 0xcd}, 258, 7},
      {"[ff02::1%4294967295]:1", {0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1, 4294967295u},
      {"[fe80::1%lo]:1", {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, 1, 1},
      {"[::ffff:192.0.2.33]:7", {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 33}, 7, 0},
      {"[64:ff9b::192.0.2.33]:7", {0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0, 192, 0, 2, 33}, 7, 0},
  };
  for (auto const& c : cases) {
    endpoint const e = parse_endpoint(c.text).value();
    ASSERT_EQ(e.size(), sizeof(sockaddr_in6)) << c.text;
    sockaddr_in6 a;
    std::memcpy(&a, e.data(), sizeof a);
    EXPECT_EQ(a.sin6_family, AF_INET6);
    EXPECT_EQ(std::memcmp(&a.sin6_addr, c.address, 16), 0) << c.text << " became " << to_string(e);
    unsigned char port[2];
    std::memcpy(port, &a.sin6_port, 2);
    EXPECT_EQ(port[0] * 256 + port[1], c.port) << "network order";
    EXPECT_EQ(a.sin6_flowinfo, 0u);
    EXPECT_EQ(a.sin6_scope_id, c.scope) << "in this machine's order";
    endpoint const made = endpoint::ipv6(c.address, c.port, c.scope);
    EXPECT_EQ(made, e);
    EXPECT_EQ(std::memcmp(made.data(), e.data(), e.size()), 0);
  }
}

TEST(endpoint, reads_the_name_of_an_interface_as_its_number) {
  unio::result<endpoint> const e = parse_endpoint("[fe80::1%lo]:80");
  ASSERT_TRUE(e);
  EXPECT_EQ(to_string(*e), "[fe80::1%1]:80");
}

TEST(endpoint, refuses_what_is_not_an_address_and_names_it) {
  struct {
    std::string text;
    char const* quoted;
    char const* reason;
  } const cases[] = {
      {"", "\"\"", "empty"},
      {":", "\":\"", "neither"},
      {":80", "\":80\"", "neither"},
      {"127.0.0.1", "\"127.0.0.1\"", "missing"},
      {"127.0.0.1:", "\"127.0.0.1:\"", "port is missing"},
      {"127.0.0.1:http", "\"127.0.0.1:http\"", "not a number"},
      {"127.0.0.1:-1", "\"127.0.0.1:-1\"", "not a number"},
      {"127.0.0.1:+1", "\"127.0.0.1:+1\"", "not a number"},
      {"127.0.0.1: 80", "\"127.0.0.1: 80\"", "not a number"},
      {"127.0.0.1:80 ", "\"127.0.0.1:80 \"", "not a number"},
      {"127.0.0.1:080", "\"127.0.0.1:080\"", "zero"},
      {"127.0.0.1:00", "\"127.0.0.1:00\"", "zero"},
      {"127.0.0.1:65536", "\"127.0.0.1:65536\"", "65535"},
      {"127.0.0.1:99999999999999999999999", "\"127.0.0.1:99999999999999999999999\"", "65535"},
      {"127.0.0.01:80", "\"127.0.0.01:80\"", "zero"},
      {"0177.0.0.1:80", "\"0177.0.0.1:80\"", "zero"},
      {"0x7f.0.0.1:80", "\"0x7f.0.0.1:80\"", "neither"},
      {"127.1:80", "\"127.1:80\"", "four numbers"},
      {"2130706433:80", "\"2130706433:80\"", "four numbers"},
      {"1.2.3.4.5:80", "\"1.2.3.4.5:80\"", "four numbers"},
      {"1.2.3.4.:80", "\"1.2.3.4.:80\"", "four numbers"},
      {"1..3.4:80", "\"1..3.4:80\"", "four numbers"},
      {"1.2.3.256:80", "\"1.2.3.256:80\"", "255"},
      {"1.2.3.4444444444444:80", "\"1.2.3.4444444444444:80\"", "255"},
      {" 1.2.3.4:80", "\" 1.2.3.4:80\"", "neither"},
      {"localhost:80", "\"localhost:80\"", "neither"},
      {"::1:80", "\"::1:80\"", "brackets"},
      {"::1", "\"::1\"", "brackets"},
      {"[::1]", "\"[::1]\"", "colon"},
      {"[::1]80", "\"[::1]80\"", "colon"},
      {"[::1]:", "\"[::1]:\"", "port is missing"},
      {"[::1", "\"[::1\"", "bracket"},
      {"[::1:80", "\"[::1:80\"", "bracket"},
      {"[]:80", "\"[]:80\"", "IPv6"},
      {"[127.0.0.1]:80", "\"[127.0.0.1]:80\"", "IPv6"},
      {"[1:2:3:4:5:6:7]:80", "\"[1:2:3:4:5:6:7]:80\"", "IPv6"},
      {"[1:2:3:4:5:6:7:8:9]:80", "\"[1:2:3:4:5:6:7:8:9]:80\"", "IPv6"},
      {"[1::2::3]:80", "\"[1::2::3]:80\"", "IPv6"},
      {"[:::]:80", "\"[:::]:80\"", "IPv6"},
      {"[12345::]:80", "\"[12345::]:80\"", "IPv6"},
      {"[::g]:80", "\"[::g]:80\"", "IPv6"},
      {"[::1.2.3]:80", "\"[::1.2.3]:80\"", "IPv6"},
      {"[::1.2.3.04]:80", "\"[::1.2.3.04]:80\"", "IPv6"},
      {"[ ::1]:80", "\"[ ::1]:80\"", "IPv6"},
      {"[[::1]]:80", "\"[[::1]]:80\"", "colon"},
      {"[fe80::1%]:80", "\"[fe80::1%]:80\"", "scope"},
      {"[fe80::1%0]:80", "\"[fe80::1%0]:80\"", "scope"},
      {"[fe80::1%01]:80", "\"[fe80::1%01]:80\"", "scope"},
      {"[fe80::1%4294967296]:80", "\"[fe80::1%4294967296]:80\"", "scope"},
      {"[fe80::1%no-such-if]:80", "\"[fe80::1%no-such-if]:80\"", "scope"},
      {"[fe80::1%a-name-that-is-too-long]:80", "\"[fe80::1%a-name-that-is-too-long]:80\"", "too long"},
      {"unix:", "\"unix:\"", "empty"},
      {"unix:@", "\"unix:@\"", "empty"},
      {"unix:@a\\", "\"unix:@a\\x5c\"", "backslash"},
      {"unix:@a\\n", "\"unix:@a\\x5cn\"", "backslash"},
      {"unix:@a\\x0", "\"unix:@a\\x5cx0\"", "backslash"},
      {"unix:@a\\xg0", "\"unix:@a\\x5cxg0\"", "backslash"},
      {"UNIX:/x", "\"UNIX:/x\"", "neither"},
      {"/run/x", "\"/run/x\"", "missing"},
      {"1.2.3.4:80\n", "\"1.2.3.4:80\\x0a\"", "not a number"},
      {"\x1b[2J:80", "\"\\x1b[2J:80\"", "neither"},
      {"caf\xc3\xa9:80", "\"caf\xc3\xa9:80\"", "neither"},
  };
  for (auto const& c : cases) {
    std::string why;
    unio::result<endpoint> const e = parse_endpoint(c.text, &why);
    EXPECT_FALSE(e) << c.text;
    EXPECT_EQ(e.error(), error::invalid_address) << c.text;
    EXPECT_TRUE(why.starts_with(c.quoted)) << c.text << " → " << why;
    EXPECT_NE(why.find(c.reason), std::string::npos) << c.text << " → " << why;
  }
}

TEST(endpoint, refuses_a_port_over_65535) {
  EXPECT_EQ(parse_endpoint("127.0.0.1:65535").value().port(), 65535);
  EXPECT_EQ(parse_endpoint("127.0.0.1:65536").error(), error::invalid_address);
}

TEST(endpoint, refuses_embedded_nul_bytes_and_shows_them) {
  for (std::string const& text : {"127.0.0.1:80\0"s, "\0"s, "unix:/a\0b"s, "[::1\0]:80"s}) {
    std::string why;
    EXPECT_EQ(parse_endpoint(text, &why).error(), error::embedded_nul);
    EXPECT_NE(why.find("\\x00"), std::string::npos) << why;
  }
  EXPECT_EQ(endpoint::unix_path(std::string_view("a\0b", 3)).error(), error::embedded_nul);
}

// The kernel compares all bytes of an abstract name, as many as the size of the address says (unix(7)).
TEST(endpoint, takes_abstract_names_of_any_bytes) {
  std::string const name("a\0b\n\\@\xff", 7);
  endpoint const e = endpoint::unix_abstract(name).value();
  EXPECT_TRUE(e.is_abstract());
  EXPECT_EQ(e.path(), name);
  EXPECT_EQ(to_string(e), "unix:@a\\x00b\\x0a\\x5c@\\xff");
  EXPECT_EQ(parse_endpoint(to_string(e)).value(), e);
  EXPECT_NE(e, endpoint::unix_abstract(name.substr(0, 1)).value());
  EXPECT_NE(endpoint::unix_abstract(std::string("a\0", 2)).value(), endpoint::unix_abstract("a").value());
  EXPECT_EQ(endpoint::unix_abstract("x").value(), endpoint::unix_path("@x").value());
  std::string const longest(endpoint::max_unix_path, '\0');
  EXPECT_EQ(endpoint::unix_abstract(longest).value().path(), longest);
  EXPECT_EQ(endpoint::unix_abstract(longest + "b").error().value(), ENAMETOOLONG);
  EXPECT_EQ(endpoint::unix_abstract("").error(), std::errc::invalid_argument);
}

TEST(endpoint, takes_unix_paths_of_up_to_107_bytes) {
  std::string const longest(endpoint::max_unix_path, 'a');
  EXPECT_EQ(parse_endpoint("unix:" + longest).value().path(), longest);
  EXPECT_EQ(parse_endpoint("unix:@" + longest).value().path(), longest);
  std::string why;
  EXPECT_EQ(parse_endpoint("unix:" + longest + "b", &why).error().value(), ENAMETOOLONG);
  EXPECT_NE(why.find("107"), std::string::npos);
  EXPECT_EQ(endpoint::unix_path("@" + longest + "b").error().value(), ENAMETOOLONG);
  EXPECT_EQ(endpoint::unix_path("").error(), std::errc::invalid_argument);
}

TEST(endpoint, cuts_a_long_text_in_the_sentence_about_it) {
  std::string why;
  EXPECT_EQ(parse_endpoint(std::string(100'000, 'x'), &why).error(), error::invalid_address);
  EXPECT_LT(why.size(), 400U);
}

TEST(endpoint, does_not_need_to_say_why) { EXPECT_FALSE(parse_endpoint("nonsense")); }

TEST(endpoint, knows_its_family_port_and_path) {
  EXPECT_EQ(endpoint().family(), address_family::unspecified);
  EXPECT_EQ(endpoint::ipv4_loopback(80).family(), address_family::ipv4);
  EXPECT_EQ(endpoint::ipv4_any(80).port(), 80);
  EXPECT_EQ(endpoint::ipv6_loopback(81).family(), address_family::ipv6);
  EXPECT_EQ(endpoint::ipv6_any(81).port(), 81);
  endpoint const path = endpoint::unix_path("/run/x").value();
  EXPECT_EQ(path.family(), address_family::unix_path);
  EXPECT_EQ(path.path(), "/run/x");
  EXPECT_FALSE(path.is_abstract());
  EXPECT_EQ(path.port(), 0);
  EXPECT_TRUE(endpoint::unix_path("@x").value().is_abstract());
}

TEST(endpoint, equals_one_of_the_same_address_and_no_other) {
  std::uint8_t const address[16] = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  EXPECT_EQ(endpoint::ipv4_loopback(1), endpoint::ipv4({127, 0, 0, 1}, 1));
  EXPECT_NE(endpoint::ipv4_loopback(1), endpoint::ipv4_loopback(2));
  EXPECT_NE(endpoint::ipv4_any(1), endpoint::ipv6_any(1));
  EXPECT_EQ(endpoint::ipv6(address, 1, 2), endpoint::ipv6(address, 1, 2));
  EXPECT_NE(endpoint::ipv6(address, 1, 2), endpoint::ipv6(address, 1, 3));
  EXPECT_NE(endpoint::unix_path("x").value(), endpoint::unix_path("@x").value());
  EXPECT_EQ(endpoint(), endpoint());
  EXPECT_NE(endpoint(), endpoint::ipv4_any(0));
}

TEST(endpoint, of_an_unnamed_unix_socket_prints_as_such) {
  endpoint const unnamed = endpoint::unix_unnamed();
  EXPECT_EQ(unnamed.size(), 2U);
  EXPECT_EQ(to_string(unnamed), "unix:");
  EXPECT_EQ(unnamed.path(), "");
  EXPECT_FALSE(unnamed.is_abstract());
  EXPECT_EQ(to_string(endpoint()), "");
}

TEST(endpoint, whose_path_begins_with_an_at_sign_is_not_printed_as_abstract) {
  endpoint odd = endpoint::unix_path("xx").value();
  static_cast<char*>(odd.data())[2] = '@';
  EXPECT_EQ(to_string(odd), "unix:./@x");
}

} // namespace
