// Against other programs: openssl s_client and s_server, curl.

#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "tls/command.hpp"
#include "tls/engines.hpp"

#include <unio/tls.hpp>

namespace {

using namespace test;

// Certificates in files, for programs that want them there.
struct files {
  temporary_directory directory;
  unio::tls_identity client_identity = the_authority().issue({.names = "", .subject = "a client"});
  files() {
    directory.write("root.pem", the_authority().root().value());
    directory.write("server.pem", the_identity().certificates.value());
    directory.write("server.key", the_identity().key.value());
    directory.write("client.pem", client_identity.certificates.value());
    directory.write("client.key", client_identity.key.value());
  }
  std::string operator()(std::string_view name) const { return directory / name; }
};

char const* flag_of(tls_version v) { return v == tls_version::tls_1_2 ? "-tls1_2" : "-tls1_3"; }

class tls_with_openssl : public ::testing::Test {
 protected:
  void SetUp() override {
    command version({"openssl", "version"});
    if (!version.is_there() || version.wait() != 0) GTEST_SKIP() << "openssl is not installed";
    listening_ = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  }
  [[nodiscard]] std::string port() const { return std::to_string(listening_.local_endpoint()->port()); }
  std::vector<std::string> s_client(std::vector<std::string> const& more) const {
    std::vector<std::string> words{"openssl",
                                   "s_client",
                                   "-connect",
                                   "127.0.0.1:" + port(),
                                   "-CAfile",
                                   files_("root.pem"),
                                   "-verify_return_error",
                                   "-verify_hostname",
                                   "example.test",
                                   "-servername",
                                   "example.test"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Accepts one connection and has `serve` talk to it.
  template <class Serve> void serve_one(unio::tls_context const& context, Serve serve) {
    auto const body = [](unio::listening_socket_handle& l, unio::tls_context const& c, Serve& f) -> task<> {
      auto socket = co_await l.co_accept(20s);
      EXPECT_TRUE(socket.has_value());
      if (!socket.has_value()) co_return;
      tls_stream stream(*socket, c);
      auto const met = co_await stream.co_handshake(20s);
      EXPECT_TRUE(met.has_value()) << stream.why();
      if (met.has_value()) co_await f(stream);
    };
    unio::run(body(listening_, context, serve));
  }

  files files_;
  unio::listening_socket_handle listening_;
};

task<std::string> read_line(tls_stream& s) {
  std::string line;
  auto const n = co_await unio::co_read_until(s, line, "\n", 20s);
  EXPECT_TRUE(n.has_value()) << n.error().message() << s.why();
  co_return line;
}

TEST_F(tls_with_openssl, its_client_talks_to_our_server_and_each_ends_its_direction) {
  for (tls_version const v : versions) {
    command other(s_client({flag_of(v), "-quiet", "-no_ign_eof"}));
    other.say("hello\n");
    serve_one(test::server(), [&](tls_stream& s) -> task<> {
      EXPECT_EQ(s.connection().version(), v);
      EXPECT_EQ(s.connection().server_name(), "example.test");
      std::string const line = co_await read_line(s);
      EXPECT_EQ(line, "hello\n");
      EXPECT_TRUE((co_await unio::co_write(s, std::string_view("and hello to you\n"))).has_value());
      other.line_after("and hello to"); // it does not read on once it has been told to end
      other.say_no_more();              // it ends its direction
      std::array<char, 10> room;
      auto const end = co_await s.co_read(room, 20s);
      EXPECT_TRUE(end.has_value() && end->bytes() == 0) << end.error().message();
      EXPECT_TRUE((co_await s.co_shutdown(tls_stream::send, 20s)).has_value());
    });
    EXPECT_EQ(other.wait(), 0);
    EXPECT_NE(other.output().find("and hello to you"), std::string::npos) << other.output();
  }
}

TEST_F(tls_with_openssl, its_client_shows_its_certificate) {
  for (tls_version const v : versions) {
    command other(s_client({flag_of(v), "-cert", files_("client.pem"), "-key", files_("client.key")}));
    other.say("hello\n");
    auto const strict =
        test::server({.verification = unio::tls_verification::required, .roots = the_authority().root()});
    serve_one(strict, [&](tls_stream& s) -> task<> {
      EXPECT_EQ(s.connection().peer_subject(), "CN=a client");
      EXPECT_EQ(co_await read_line(s), "hello\n");
      EXPECT_TRUE((co_await s.co_shutdown()).has_value());
    });
    (void)other.wait();
  }
}

TEST_F(tls_with_openssl, its_client_resumes) {
  for (tls_version const v : versions) {
    auto const context = test::server();
    for (bool const second : {false, true}) {
      command other(
          s_client({flag_of(v), second ? "-sess_in" : "-sess_out", files_("session"), "-no_ign_eof"}));
      other.say("hello\n");
      serve_one(context, [&](tls_stream& s) -> task<> {
        EXPECT_EQ(s.connection().is_resumed(), second);
        EXPECT_EQ(co_await read_line(s), "hello\n");
        EXPECT_TRUE(
            (co_await unio::co_write(s, std::string_view("x\n"))).has_value()); // the tickets are before it
        other.line_after("x");
        EXPECT_TRUE((co_await s.co_shutdown()).has_value());
      });
      (void)other.wait();
      if (v == tls_version::tls_1_3 && second) {
        EXPECT_NE(other.output().find("Reused, TLSv1.3"), std::string::npos) << other.output();
      }
    }
  }
}

// Its commands K (new keys, and ours too) and k (new keys).
TEST_F(tls_with_openssl, its_client_updates_keys) {
  command other(s_client({"-tls1_3"}));
  other.say("one\n");
  serve_one(test::server(), [&](tls_stream& s) -> task<> {
    EXPECT_EQ(co_await read_line(s), "one\n");
    for (std::string_view const asked : {"K\n", "k\n", "K\n"}) {
      std::uint64_t const before = s.connection().input_count();
      std::array<char, 10> room;
      other.say(asked);
      while (s.connection().input_count() == before) {
        auto const nothing = co_await s.co_read(room, 5ms);
        EXPECT_EQ(nothing.error(), unio::condition::timed_out);
        if (nothing.error() != unio::condition::timed_out) co_return;
      }
      other.say("two\n");
      EXPECT_EQ(co_await read_line(s), "two\n");
      EXPECT_TRUE((co_await unio::co_write(s, std::string_view("three\n"))).has_value());
      EXPECT_TRUE((co_await s.co_update_keys(true)).has_value()) << "and ours";
    }
    EXPECT_TRUE((co_await unio::co_write(s, std::string_view("four\n"))).has_value());
    EXPECT_TRUE((co_await s.co_shutdown()).has_value());
  });
  (void)other.wait();
  EXPECT_NE(other.output().find("four"), std::string::npos) << other.output();
}

TEST_F(tls_with_openssl, curl_fetches_from_our_server) {
  command version({"curl", "--version"});
  if (!version.is_there() || version.wait() != 0) GTEST_SKIP() << "curl is not installed";
  for (std::string const option : {"--tlsv1.3", "--tls-max"}) {
    std::vector<std::string> words{"curl",
                                   "--silent",
                                   "--show-error",
                                   "--max-time",
                                   "20",
                                   "--cacert",
                                   files_("root.pem"),
                                   "--resolve",
                                   "example.test:" + port() + ":127.0.0.1",
                                   option};
    if (option == "--tls-max") words.emplace_back("1.2");
    words.push_back("https://example.test:" + port() + "/");
    command other(words);
    serve_one(test::server({.protocols = {"http/1.1"}}), [&](tls_stream& s) -> task<> {
      EXPECT_EQ(s.connection().protocol(), "http/1.1");
      std::string request;
      EXPECT_TRUE((co_await unio::co_read_until(s, request, "\r\n\r\n", 20s)).has_value());
      EXPECT_TRUE(request.starts_with("GET / HTTP/1.1\r\n")) << request;
      EXPECT_TRUE(
          (co_await unio::co_write(s, std::string_view("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")))
              .has_value());
      EXPECT_TRUE((co_await unio::co_write(s, numbered(500'000))).has_value());
      EXPECT_TRUE((co_await s.co_shutdown()).has_value());
    });
    EXPECT_EQ(other.wait(), 0) << other.output();
    EXPECT_EQ(other.output(), numbered(500'000));
  }
}

// ---- our client -------------------------------------------------------------------------------------------

class tls_with_s_server : public tls_with_openssl {
 protected:
  // Connects to it and talks.
  template <class Talk> void talk_to(command& server, unio::tls_context const& context, Talk talk) {
    std::string const at = server.line_after("ACCEPT ");
    auto const port = static_cast<std::uint16_t>(std::atoi(at.substr(at.rfind(':') + 1).c_str()));
    ASSERT_NE(port, 0) << server.output();
    auto const body = [](std::uint16_t p, unio::tls_context const& c, Talk& f) -> task<> {
      auto socket = unio::socket_handle::connected_to(unio::endpoint::ipv4_loopback(p), 20s);
      EXPECT_TRUE(socket.has_value()) << socket.error().message();
      if (!socket.has_value()) co_return;
      tls_stream stream(*socket, c, "example.test");
      auto const met = co_await stream.co_handshake(20s);
      EXPECT_TRUE(met.has_value()) << stream.why();
      if (met.has_value()) co_await f(stream);
    };
    unio::run(body(port, context, talk));
  }
  std::vector<std::string> s_server(std::vector<std::string> const& more) const {
    std::vector<std::string> words{"openssl", "s_server",           "-4",   "-accept",           "0",
                                   "-cert",   files_("server.pem"), "-key", files_("server.key")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(tls_with_s_server, our_client_talks_to_it_and_resumes) {
  for (tls_version const v : versions) {
    command other(s_server({flag_of(v), "-rev", "-naccept", "2"}));
    auto const context = test::client();
    for (bool const second : {false, true})
      talk_to(other, context, [&](tls_stream& s) -> task<> {
        EXPECT_EQ(s.connection().version(), v);
        EXPECT_TRUE((co_await unio::co_write(s, std::string_view("stressed\n"))).has_value());
        EXPECT_EQ(co_await read_line(s), "desserts\n");
        EXPECT_EQ(s.connection().is_resumed(), second);
        EXPECT_TRUE((co_await s.co_shutdown()).has_value());
        std::array<char, 10> room;
        auto const end = co_await s.co_read(room, 20s);
        EXPECT_TRUE(end.has_value() && end->bytes() == 0) << end.error().message();
      });
    EXPECT_EQ(other.wait(), 0) << other.output();
  }
}

TEST_F(tls_with_s_server, our_client_shows_its_certificate) {
  for (tls_version const v : versions) {
    command other(s_server({flag_of(v), "-rev", "-naccept", "1", "-Verify", "1", "-verify_return_error",
                            "-CAfile", files_("root.pem"), "-alpn", "p2,p1"}));
    talk_to(other, test::client({.identity = files_.client_identity, .protocols = {"p1"}}),
            [&](tls_stream& s) -> task<> {
              EXPECT_TRUE((co_await unio::co_write(s, std::string_view("abc\n"))).has_value());
              EXPECT_EQ(co_await read_line(s), "cba\n");
              EXPECT_EQ(s.connection().protocol(), "p1");
              EXPECT_TRUE((co_await s.co_shutdown()).has_value());
            });
    (void)other.wait();
  }
}

TEST_F(tls_with_s_server, keys_are_updated_from_both_sides) {
  command other(s_server({"-tls1_3", "-naccept", "1"}));
  talk_to(other, test::client(), [&](tls_stream& s) -> task<> {
    for (std::string_view const asked : {"K\n", "k\n"}) {
      EXPECT_TRUE((co_await s.co_update_keys(true)).has_value());
      EXPECT_TRUE((co_await unio::co_write(s, std::string_view("ours\n"))).has_value());
      std::uint64_t const before = s.connection().input_count();
      std::array<char, 10> room;
      other.say(asked);
      while (s.connection().input_count() == before) {
        auto const nothing = co_await s.co_read(room, 5ms);
        EXPECT_EQ(nothing.error(), unio::condition::timed_out);
        if (nothing.error() != unio::condition::timed_out) co_return;
      }
      EXPECT_TRUE((co_await unio::co_write(s, std::string_view("answered\n"))).has_value());
      other.line_after("answered");
    }
    EXPECT_TRUE((co_await s.co_shutdown()).has_value());
  });
  (void)other.wait();
}

} // namespace
