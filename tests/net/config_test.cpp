// src/net/config.hpp and system_files.hpp: what resolv.conf, nsswitch.conf and hosts say, and who asks for a
// name because of it.

#include "net/config.hpp"

#include "net/files.hpp"
#include "net/names.hpp"
#include "net/system_files.hpp"
#include "support/drivers.hpp"
#include "support/test.hpp"

namespace {

using namespace unio::net;
using namespace test;
using strings = std::vector<std::string>;

strings texts(unio::endpoint_list const& all) {
  strings out;
  for (endpoint const& e : all) out.push_back(to_string(e));
  return out;
}

TEST(resolv_conf, has_servers_and_a_search_list) {
  resolv_conf const c = parse_resolv_conf(
      "# comment\n; another\nnameserver 192.0.2.1\n"
      "  nameserver   2001:db8::1  \nnameserver fe80::1%1\n"
      "nameserver 192.0.2.4\nsearch one.test two.test.\r\n");
  EXPECT_EQ(texts(c.servers),
            (strings{"192.0.2.1:53", "[2001:db8::1]:53", "[fe80::1%1]:53"})); // three at most
  EXPECT_EQ(c.search, (strings{"one.test", "two.test"}));
  EXPECT_TRUE(c.unknown.empty());
}

TEST(resolv_conf, takes_the_last_of_search_and_domain) {
  EXPECT_EQ(parse_resolv_conf("search a b\ndomain c.test").search, strings{"c.test"});
  EXPECT_EQ(parse_resolv_conf("domain c.test\nsearch a b").search, (strings{"a", "b"}));
  EXPECT_TRUE(parse_resolv_conf("search a\nsearch .\n").search.empty());
}

TEST(resolv_conf, has_options_within_the_bounds_of_glibc) {
  resolv_conf const c = parse_resolv_conf(
      "options ndots:99 timeout:7 attempts:3 rotate\noptions single-request "
      "use-vc edns0 trust-ad no-reload # comment x\n");
  EXPECT_EQ(c.ndots, 15u);
  EXPECT_EQ(c.timeout, std::chrono::seconds(7));
  EXPECT_EQ(c.attempts, 3u);
  EXPECT_TRUE(c.rotate && c.single_request && c.use_tcp);
  EXPECT_TRUE(c.unknown.empty()) << c.unknown;
  EXPECT_EQ(parse_resolv_conf("options attempts:0 ndots:x timeout:99999999999999").attempts, 1u);
  EXPECT_EQ(parse_resolv_conf("options ndots:x").ndots, 1u);
  EXPECT_EQ(parse_resolv_conf("options timeout:99999999999999").timeout, std::chrono::seconds(30));
}

TEST(resolv_conf, names_the_first_thing_that_it_does_not_know) {
  EXPECT_EQ(parse_resolv_conf("options ndots:1 inet6 debug").unknown, "inet6");
  EXPECT_EQ(parse_resolv_conf("sortlist 192.0.2.0\noptions debug").unknown, "sortlist");
}

TEST(resolv_conf, has_defaults_where_the_file_says_nothing) {
  resolv_conf const c = parse_resolv_conf("nameserver nonsense\nnameserver\nnameserver unix:/x\n");
  EXPECT_EQ(texts(c.servers), strings{"127.0.0.1:53"});
  EXPECT_EQ(c.ndots, 1u);
  EXPECT_EQ(c.attempts, 2u);
  EXPECT_EQ(c.timeout, std::chrono::seconds(5));
}

std::string described(nss_hosts const& h) {
  std::string out = h.is_there ? "" : "none";
  if (h.is_malformed) return "malformed";
  for (nss_source const& s : h.sources) out += s.name + (s.is_standard ? " " : "! ");
  return out;
}

TEST(nsswitch, has_services_and_whether_their_actions_change_anything) {
  EXPECT_EQ(described(parse_nsswitch("passwd: files\n hosts:\tfiles dns # comment\nservices: db\n")),
            "files dns ");
  EXPECT_EQ(described(parse_nsswitch("hosts: files dns\nhosts: sss\n")), "sss ");
  EXPECT_EQ(
      described(parse_nsswitch("hosts: Files [SUCCESS=return NOTFOUND=continue] dns [NOTFOUND=return]")),
      "files dns ");
  EXPECT_EQ(described(parse_nsswitch("hosts: files [NOTFOUND=return] dns")), "files! dns ");
  EXPECT_EQ(described(parse_nsswitch("hosts: files mdns4_minimal [NOTFOUND=return] dns")),
            "files mdns4_minimal! dns ");
  EXPECT_EQ(described(parse_nsswitch("hosts: resolve [!UNAVAIL=return] dns")), "resolve! dns ");
  EXPECT_EQ(described(parse_nsswitch("hosts: files[success=merge]dns")), "files! dns ");
  EXPECT_EQ(described(parse_nsswitch("hosts: files [oops] dns")), "malformed");
  EXPECT_EQ(described(parse_nsswitch("hosts: files [oops=")), "malformed");
  EXPECT_EQ(described(parse_nsswitch("hosts: [NOTFOUND=return]")), "malformed");
  EXPECT_EQ(described(parse_nsswitch("hosts:")), "");
  EXPECT_EQ(described(parse_nsswitch("host: files")), "none");
}

TEST(hosts_file, is_read_both_ways) {
  hosts_table const t(
      "127.0.0.1\tlocalhost\n192.0.2.1 One.Test one # two\n192.0.2.2 one\nnonsense three\n"
      "2001:db8::1 one.\n  192.0.2.1 more\n192.0.2.9\n");
  ASSERT_NE(t.find("ONE"), nullptr);
  EXPECT_EQ(texts(*t.find("one.")), (strings{"192.0.2.1:0", "192.0.2.2:0", "[2001:db8::1]:0"}));
  EXPECT_EQ(t.find("two"), nullptr);
  EXPECT_EQ(t.find("three"), nullptr);
  EXPECT_EQ(t.find(""), nullptr);
  EXPECT_EQ(*t.names_of(unio::parse_endpoint("192.0.2.1:99").value()), (strings{"One.Test", "one", "more"}));
  EXPECT_EQ(t.names_of(unio::parse_endpoint("192.0.2.9:0").value()), nullptr);
}

TEST(hosts_file, may_come_in_pieces_that_end_between_two_words) {
  std::string const text =
      "127.0.0.1\tlocalhost\n192.0.2.1 One.Test one # two 192.0.2.8\n192.0.2.2 one\nnonsense three\n"
      "2001:db8::1 one.#x\n  192.0.2.1 more\r\n192.0.2.9\n192.0.2.7 last";
  hosts_table const whole(text);
  for (std::size_t size = 1; size != text.size(); ++size) {
    hosts_table pieces;
    hosts_parser parser(pieces);
    std::string rest;
    for (std::size_t at = 0; at < text.size(); at += size) {
      rest += text.substr(at, size);
      std::size_t const end = hosts_parser::end_of_words(rest);
      parser.add(std::string_view(rest).substr(0, end));
      rest.erase(0, end);
    }
    parser.add(rest);
    ASSERT_EQ(pieces.size(), whole.size()) << size;
    for (char const* const name : {"localhost", "one.test", "one", "more", "last"}) {
      ASSERT_NE(pieces.find(name), nullptr) << size << name;
      EXPECT_EQ(*pieces.find(name), *whole.find(name)) << size << name;
    }
    for (char const* const at : {"192.0.2.1:0", "192.0.2.2:0", "192.0.2.7:0", "[2001:db8::1]:0"})
      EXPECT_EQ(*pieces.names_of(unio::parse_endpoint(at).value()),
                *whole.names_of(unio::parse_endpoint(at).value()))
          << size << at;
  }
}

TEST(hosts_file, has_each_address_of_a_name_once_however_many_there_are) {
  std::string text;
  for (int round = 0; round != 2; ++round)
    for (int i = 0; i != 300; ++i)
      text += "10.0." + std::to_string(i / 250) + "." + std::to_string(i % 250) + " many MANY\n";
  hosts_table const t(text);
  ASSERT_NE(t.find("many"), nullptr);
  EXPECT_EQ(t.find("many")->size(), 300u);
  EXPECT_EQ(t.find("many")->at(299), unio::parse_endpoint("10.0.1.49:0").value());
  EXPECT_EQ(*t.names_of(unio::parse_endpoint("10.0.1.49:0").value()), strings{"many"});
}

// There may be many lines of them, and only the latest failures are known by what they were about.
TEST(hosts_file, keeps_no_failure_of_what_is_no_address) {
  unio::failure const before = unio::detail::failed_on(-ENOENT, "try", "kept", 4);
  std::string text;
  for (int i = 0; i != 300; ++i) text += "none name.test\n";
  EXPECT_EQ(hosts_table(text).size(), 0u);
  EXPECT_EQ(before.object(), "kept");
}

// As lists have it that block advertisers. Searching what a name or an address has already, for each line,
// would take some hundred times as long as where they differ.
TEST(hosts_file, takes_no_longer_where_an_address_has_many_names_or_a_name_many_addresses) {
  constexpr int n = 40'000;
  std::string different, names, addresses;
  for (int i = 0; i != n; ++i) {
    std::string const name = "ad" + std::to_string(i) + ".test\n";
    std::string const address = "10.0." + std::to_string(i >> 8) + "." + std::to_string(i & 255) + " ";
    different += address + name;
    names += "0.0.0.0 " + name;
    addresses += address + "one.test\n";
  }
  auto const best_of_three = [](std::string const& text) {
    auto best = std::chrono::steady_clock::duration::max();
    for (int i = 0; i != 3; ++i) {
      auto const begun = std::chrono::steady_clock::now();
      hosts_table const t(text);
      best = std::min(best, std::chrono::steady_clock::now() - begun);
      EXPECT_TRUE(t.size() == n || t.find("one.test")->size() == n);
    }
    return best;
  };
  auto const bound = 20 * best_of_three(different);
  EXPECT_LT(best_of_three(names), bound);
  EXPECT_LT(best_of_three(addresses), bound);
}

TEST(hosts_file, is_read_a_piece_at_a_time) {
  test::name_files files;
  std::string text;
  for (int i = 0; i != 20'000; ++i) text += "0.0.0.0 ad" + std::to_string(i) + ".test\n";
  files.write("hosts", text + "192.0.2.1 last.test");
  unio::resolver_options const o = files.options();
  files_reading reading(o, nullptr);
  int pieces = 1;
  while (!reading.some()) ++pieces;
  EXPECT_GE(pieces, 20);
  auto const found = reading.take();
  EXPECT_EQ(found->hosts->size(), 20'001u);
  EXPECT_NE(found->hosts->find("last.test"), nullptr);
  files_reading again(o, found.get());
  EXPECT_TRUE(again.some()); // none has changed
  EXPECT_EQ(again.take()->hosts, found->hosts);
}

TEST(files_that_are_half_read, are_begun_anew_if_one_of_them_has_changed) {
  test::name_files files;
  files.write("hosts", std::string(100'000, '\n') + "192.0.2.1 old.test\n");
  unio::resolver_options const o = files.options();
  files_reading reading(o, nullptr);
  EXPECT_FALSE(reading.some());
  EXPECT_TRUE(reading.can_go_on());
  files.write("hosts", "192.0.2.1 new.test\n");
  EXPECT_FALSE(reading.can_go_on());
}

TEST(resolv_conf, takes_each_form_of_an_ipv4_address) {
  EXPECT_EQ(texts(parse_resolv_conf("nameserver 10.1\nnameserver 0x7f000001\n").servers),
            (strings{"10.0.0.1:53", "127.0.0.1:53"}));
}

choice chosen(std::string const& nss, std::string const& host, std::string const& conf = "",
              unio::resolver_options const& o = {}) {
  settings s;
  s.nss = parse_nsswitch(nss);
  s.conf = parse_resolv_conf(conf);
  s.own_name = "here";
  return direct_or_libc(s, o, host);
}

TEST(the_rule, asks_directly_where_that_is_what_the_c_library_would_do) {
  for (char const* const nss :
       {"hosts: files dns", "hosts: files mdns4_minimal [NOTFOUND=return] dns", "hosts: files dns myhostname",
        "hosts: files dns [SUCCESS=return]", "passwd: files"})
    EXPECT_EQ(chosen(nss, "example.org").way, resolve_way::direct) << nss;
  EXPECT_EQ(chosen("hosts: files dns", "example.org").why, "direct: nsswitch.conf asks files dns");
}

TEST(the_rule, leaves_to_the_c_library_what_only_that_knows) {
  struct {
    char const *nss, *host, *conf, *why;
  } const cases[] = {
      {"hosts: files sss dns", "x.test", "", "libc: nsswitch.conf names 'sss'"},
      {"hosts: files resolve [!UNAVAIL=return] dns", "x.test", "", "libc: nsswitch.conf names 'resolve'"},
      {"hosts: files [NOTFOUND=return] dns", "x.test", "",
       "libc: nsswitch.conf has actions of its own after 'files'"},
      {"hosts: dns files", "x.test", "", "libc: nsswitch.conf asks dns before files"},
      {"hosts: files", "x.test", "", "libc: nsswitch.conf does not ask dns"},
      {"hosts: files [", "x.test", "", "libc: nsswitch.conf cannot be understood"},
      {"hosts: files dns", "printer.LOCAL", "", "libc: names in .local are for multicast DNS"},
      {"hosts: files dns", "printer.local.", "", "libc: names in .local are for multicast DNS"},
      {"hosts: files dns", "fe80::1%eth0", "", "libc: the name is escaped or has a scope"},
      {"hosts: files dns", "a\\046b", "", "libc: the name is escaped or has a scope"},
      {"hosts: files dns", "x.test", "options debug", "libc: resolv.conf has 'debug'"},
      {"hosts: files myhostname dns", "HERE", "", "libc: nsswitch.conf asks 'myhostname' for this name"},
      {"hosts: files myhostname dns", "_gateway", "", "libc: nsswitch.conf asks 'myhostname' for this name"},
      {"hosts: files myhostname dns", "localhost", "", "libc: nsswitch.conf asks 'myhostname' for this name"},
  };
  for (auto const& c : cases) {
    choice const got = chosen(c.nss, c.host, c.conf);
    EXPECT_EQ(got.way, resolve_way::libc) << c.nss << " " << c.host;
    EXPECT_EQ(got.why, c.why);
  }
}

TEST(the_rule, does_as_it_is_told) {
  unio::resolver_options o;
  o.way = resolve_way::direct;
  EXPECT_EQ(chosen("hosts: sss", "x.local", "options debug", o).way, resolve_way::direct);
  o.way = resolve_way::libc;
  EXPECT_EQ(chosen("hosts: files dns", "x", "", o).way, resolve_way::libc);
  o.way = resolve_way::by_rule;
  o.servers = {unio::endpoint::ipv4_loopback(53)};
  EXPECT_EQ(chosen("hosts: sss", "x", "", o).why, "direct: servers were given");
}

TEST(capabilities_of_a_resolver, say_how_names_are_looked_up_and_why) {
  test::name_files files;
  files.write("resolv.conf", "nameserver 192.0.2.53\nsearch corp.test\n");
  files.write("nsswitch.conf", "hosts: files dns\n");
  unio::resolver const names(files.options());
  unio::resolver_capabilities c = names.capabilities();
  EXPECT_EQ(c.way, resolve_way::direct);
  EXPECT_EQ(c.why, "direct: nsswitch.conf asks files dns");
  EXPECT_EQ(texts(c.servers), strings{"192.0.2.53:53"});
  EXPECT_EQ(c.search, strings{"corp.test"});
  EXPECT_EQ(names.capabilities("printer.local").way, resolve_way::libc);
  files.write("nsswitch.conf", "hosts: files sss dns\n"); // as long as before or not: its time differs
  EXPECT_EQ(names.capabilities().why, "libc: nsswitch.conf names 'sss'");
  files.write("nsswitch.conf", "hosts: files dns\n");
  for (char const* const name : {"RES_OPTIONS", "LOCALDOMAIN", "HOSTALIASES"}) {
    test::environment_variable const set(name, "x");
    EXPECT_EQ(names.capabilities().why, "libc: " + std::string(name) + " is set");
  }
}

TEST(capabilities_of_a_resolver, have_defaults_where_there_are_no_files) {
  test::name_files const files;
  unio::resolver const names(files.options());
  EXPECT_EQ(names.capabilities().way, resolve_way::direct);
  EXPECT_EQ(texts(names.capabilities().servers), strings{"127.0.0.1:53"});
}

TEST(names_as_text, have_bounds) {
  EXPECT_EQ(what_is_wrong_with("a-b.c_d.0"), nullptr);
  EXPECT_EQ(what_is_wrong_with("example.org."), nullptr);
  EXPECT_STREQ(what_is_wrong_with(""), "the name is empty");
  EXPECT_STREQ(what_is_wrong_with("."), "the name is empty");
  EXPECT_STREQ(what_is_wrong_with("a..b"), "a part of the name is empty");
  EXPECT_STREQ(what_is_wrong_with("a.b.."), "a part of the name is empty");
  EXPECT_NE(what_is_wrong_with(std::string("a\0b", 3)), nullptr);
  EXPECT_EQ(quoted("a\x1b[1m"), "'a\\x1b[1m'");
}

} // namespace
