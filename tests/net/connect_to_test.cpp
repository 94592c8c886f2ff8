// connect_to.hpp: from "host:port" to a socket, on the driver under test.

#include "net/files.hpp"
#include "support/test.hpp"

#include <unio/connect_to.hpp>

namespace {

using namespace test;

struct host {
  explicit host(dns_handler handler) : server(std::move(handler)), names(files.options(server.at())) {}
  host() : host(zone().add("here.test", a_record("127.0.0.1")).add("gone.test", a_record("127.0.0.2"))) {}
  [[nodiscard]] std::string at(std::string const& name) const {
    return name + ":" + std::to_string(listener.local_endpoint().value().port());
  }
  name_files files;
  name_server server;
  resolver names;
  unio::listening_socket_handle listener =
      unio::listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
};

TEST(connect_to, connects_to_a_host_by_its_name) {
  host h;
  auto const s = unio::run(unio::co_connect_to(h.at("here.test"), 60s, {.names = &h.names}));
  ASSERT_TRUE(s.has_value()) << s.error().message();
  EXPECT_EQ(s->remote_endpoint().value(), h.listener.local_endpoint().value());
  EXPECT_TRUE(unio::connect_to(h.at("localhost"), 60s, {.names = &h.names}).has_value());
}

TEST(connect_to, takes_addresses_too) {
  host h;
  EXPECT_TRUE(unio::connect_to(h.at("127.0.0.1"), 60s).has_value());
  if (auto const six = unio::listening_socket_handle::listen(endpoint::ipv6_loopback(0)); six.has_value()) {
    std::string const at = to_string(six->local_endpoint().value());
    EXPECT_TRUE(unio::connect_to(at, 60s).has_value());
  }
  EXPECT_TRUE(h.server.asked().empty());
}

// It is no host "unix" with a strange port.
TEST(connect_to, says_what_is_wrong_with_the_path_of_a_unix_socket) {
  std::string why;
  std::string const longest = "unix:/nonexistent/" + std::string(94, 'x');
  EXPECT_EQ(unio::connect_to(longest, 60s, {.why = &why}).error(), std::errc::no_such_file_or_directory);
  EXPECT_EQ(unio::connect_to(longest + "x", 60s, {.why = &why}).error(), std::errc::filename_too_long);
  EXPECT_TRUE(why.ends_with("': the path of a Unix socket is at most 107 bytes long")) << why;
  EXPECT_EQ(unio::connect_to(longest + ":80", 60s, {.why = &why}).error(), std::errc::filename_too_long);
  EXPECT_EQ(unio::connect_to(std::string_view("unix:/a\0b:80", 12), 60s, {.why = &why}).error(),
            unio::error::embedded_nul);
  EXPECT_EQ(unio::connect_to("unix:@", 60s, {.why = &why}).error(), unio::error::invalid_address);
  EXPECT_EQ(why, "connecting to 'unix:@': the path is empty");
}

TEST(connect_to, names_the_host_and_what_failed) {
  host h;
  std::string why;
  EXPECT_EQ(unio::connect_to("none.test:80", 60s, {.names = &h.names, .why = &why}).error(),
            resolve_error::no_such_name);
  EXPECT_EQ(why, "connecting to 'none.test:80': looking up the name: there is no such name");
  std::uint16_t const port = h.listener.local_endpoint().value().port();
  (void)h.listener.close();
  EXPECT_EQ(
      unio::connect_to("gone.test:" + std::to_string(port), 60s, {.names = &h.names, .why = &why}).error(),
      std::errc::connection_refused);
  EXPECT_EQ(why, "connecting to 'gone.test:" + std::to_string(port) + "': 127.0.0.2:" + std::to_string(port) +
                     ": " + std::make_error_code(std::errc::connection_refused).message());
  EXPECT_EQ(unio::connect_to("127.0.0.1:" + std::to_string(port), 60s, {.why = &why}).error(),
            std::errc::connection_refused);
  EXPECT_NE(why.find("127.0.0.1"), why.npos);
}

TEST(connect_to, names_in_its_failure_what_failed) {
  host h;
  auto const failing = [&](std::string const& text) {
    return unio::connect_to(text, 60s, {.names = &h.names}).error().message();
  };
  EXPECT_EQ(failing("none.test:80"), "resolve none.test: there is no such name");
  EXPECT_EQ(failing("none.test"), "connect_to \"none.test\" (the port is missing): " +
                                      make_error_code(unio::error::invalid_address).message());
  std::string const port = std::to_string(h.listener.local_endpoint().value().port());
  (void)h.listener.close();
  std::string const refused = ": " + std::make_error_code(std::errc::connection_refused).message();
  EXPECT_EQ(failing("gone.test:" + port), "connect 127.0.0.2:" + port + refused);
  EXPECT_EQ(failing("127.0.0.1:" + port), "connect 127.0.0.1:" + port + refused);
}

TEST(connect_to, keeps_no_failure_of_a_name_that_is_no_address) {
  host h;
  unio::failure const before = unio::detail::failed_on(-ENOENT, "try", "kept", 4);
  for (int i = 0; i != 300; ++i)
    ASSERT_TRUE(unio::connect_to(h.at("here.test"), 60s, {.names = &h.names}).has_value());
  EXPECT_EQ(before.object(), "kept");
}

TEST(connect_to, does_not_wait_for_a_late_family) {
  zone const z = zone().add("here.test", a_record("127.0.0.1")).add("here.test", aaaa_record("2001:db8::1"));
  host h([&](dns_query const& q) { return q.type == aaaa ? std::vector<dns_answer>() : z(q); });
  EXPECT_TRUE(unio::connect_to(h.at("here.test"), 60s, {.names = &h.names, .family_delay = 1ms}).has_value());
}

TEST(connect_to, asks_once_more_for_the_family_that_was_late) {
  // The first query for IPv4 is lost; at the IPv6 address nobody listens.
  zone const z = zone().add("here.test", a_record("127.0.0.1")).add("here.test", aaaa_record("::1"));
  std::atomic<int> lost = 0;
  host h([&](dns_query const& q) { return q.type == a && lost++ == 0 ? std::vector<dns_answer>() : z(q); });
  std::string why;
  auto const s =
      unio::connect_to(h.at("here.test"), 60s, {.names = &h.names, .family_delay = 1ms, .why = &why});
  EXPECT_TRUE(s.has_value()) << why;
  EXPECT_EQ(h.server.asked().back(), "here.test 1");
}

TEST(connect_to, ends_at_its_deadline_and_when_it_is_stopped) {
  host h([](dns_query const&) { return std::vector<dns_answer>(); });
  std::string why;
  EXPECT_EQ(unio::connect_to("slow.test:80", 10ms, {.names = &h.names, .why = &why}).error(),
            condition::timed_out);
  EXPECT_TRUE(why.starts_with("connecting to 'slow.test:80': looking up the name: ")) << why;
  unio::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      unio::run(unio::co_connect_to("slow.test:80", {}, {.names = &h.names}), {.stop = stop.get_token()})
          .error(),
      condition::canceled);
}

TEST(connect_to, can_be_polled) {
  struct keeper {
    std::optional<result<socket_handle>>* got;
    void set_value(result<socket_handle> r) noexcept { got->emplace(std::move(r)); }
    static void set_done() noexcept {}
  };
  host h;
  std::optional<result<socket_handle>> got;
  auto op = unio::connect(unio::async_connect_to(h.at("here.test"), 60s, {.names = &h.names}), keeper{&got});
  op.start();
  while (op.poll() == unio::io_status::pending) continue;
  EXPECT_TRUE(got->has_value());
}

TEST(host_and_port, are_taken_apart) {
  auto const parts = [](std::string_view text) {
    std::string why;
    auto const r = unio::parse_host_port(text, &why);
    return r.has_value() ? std::string(r->host) + " " + std::to_string(r->port) : why;
  };
  EXPECT_EQ(parts("example.org:443"), "example.org 443");
  EXPECT_EQ(parts("[::1]:80"), "::1 80");
  EXPECT_EQ(parts("[fe80::1%eth0]:65535"), "fe80::1%eth0 65535");
  EXPECT_EQ(parts("127.0.0.1:0"), "127.0.0.1 0");
  EXPECT_EQ(parts("example.org"), "'example.org': the port is missing");
  EXPECT_EQ(parts("example.org:"), "'example.org:': the port is missing");
  EXPECT_EQ(parts(":80"), "':80': the host is missing");
  EXPECT_EQ(parts("::1:80"), "'::1:80': an IPv6 address stands in brackets: [::1]:80");
  EXPECT_EQ(parts("[::1:80"), "'[::1:80': the bracket is not closed");
  EXPECT_EQ(parts("[::1]80"), "'[::1]80': the port is missing");
  EXPECT_EQ(parts("[name]:80"), "'[name]:80': what stands in the brackets is not an IPv6 address");
  EXPECT_EQ(parts("a:65536"), "'a:65536': the port is over 65535");
  EXPECT_EQ(parts("a:99999999999999999999"), "'a:99999999999999999999': the port is over 65535");
  EXPECT_EQ(parts("a:-1"), "'a:-1': the port is not a number");
  EXPECT_EQ(parts("a:80x"), "'a:80x': the port is not a number");
  EXPECT_EQ(parts(""), "'': the port is missing");
  EXPECT_EQ(parts(std::string_view("a\0b:80", 6)), "'a\\x00b:80': the host contains a NUL byte");
}

} // namespace
