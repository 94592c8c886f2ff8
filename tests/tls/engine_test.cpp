// tls_engine.hpp: two engines against each other, cut at every byte; who is trusted; what is agreed on; peers
// that send nonsense, too much, or half.

#include "support/child.hpp"
#include "support/test.hpp"
#include "tls/engines.hpp"
#include "tls/raw_peer.hpp"

#include <fcntl.h>
#include <openssl/pem.h>

namespace {

using namespace test;

tls_options only(tls_version v) { return {.minimum = v, .maximum = v}; }

// ---- happy ------------------------------------------------------------------------------------------------

TEST(tls_engine, two_sides_agree_and_exchange_bytes) {
  for (tls_version const v : versions) {
    connection c(only(v));
    EXPECT_EQ(c.client.version(), tls_version::none);
    c.open();
    for (tls_engine const* e : {&c.client, &c.server}) {
      EXPECT_TRUE(e->is_connected());
      EXPECT_EQ(e->version(), v);
      EXPECT_FALSE(e->cipher().empty());
      EXPECT_EQ(e->server_name(), "example.test");
      EXPECT_FALSE(e->is_resumed());
      EXPECT_TRUE(e->protocol().empty());
    }
    EXPECT_EQ(c.client.peer_subject(), "CN=example.test");
    EXPECT_EQ(c.client.peer_certificate(), the_identity().certificates.value());
    EXPECT_TRUE(c.server.peer_certificate().empty());
    EXPECT_TRUE(c.server.peer_subject().empty());
    std::string const text = numbered(40'000);
    ASSERT_EQ(write_all(c.client, text), text.size());
    ASSERT_EQ(write_all(c.server, text), text.size());
    exchange(c.client, c.server);
    std::string at_server, at_client;
    EXPECT_EQ(read_all(c.server, at_server), outcome::wants_input);
    EXPECT_EQ(read_all(c.client, at_client, 7), outcome::wants_input);
    EXPECT_EQ(at_server, text);
    EXPECT_EQ(at_client, text);
  }
}

TEST(tls_engine, each_direction_ends_by_itself) {
  for (tls_version const v : versions) {
    connection c(only(v));
    c.open();
    ASSERT_EQ(write_all(c.client, "last"), 4U);
    EXPECT_EQ(c.client.shutdown().what, outcome::done);
    EXPECT_EQ(c.client.shutdown().what, outcome::done) << "again";
    EXPECT_EQ(c.client.write(std::string_view("more")).what, outcome::failed);
    EXPECT_EQ(c.client.error(), std::errc::broken_pipe);
    exchange(c.client, c.server);
    c.client.input_ended(); // and says no more, which the server can still answer
    std::string got;
    EXPECT_EQ(read_all(c.server, got), outcome::ended);
    EXPECT_EQ(read_all(c.server, got), outcome::ended) << "again";
    EXPECT_EQ(got, "last");
    ASSERT_EQ(write_all(c.server, "answer"), 6U);
    EXPECT_EQ(c.server.shutdown().what, outcome::done);
    exchange(c.client, c.server);
    std::string answer;
    EXPECT_EQ(read_all(c.client, answer), outcome::ended);
    EXPECT_EQ(answer, "answer");
  }
}

TEST(tls_engine, keys_are_updated_without_losing_bytes) {
  connection c;
  c.open();
  std::string sent, got, back;
  for (int i = 0; i != 20; ++i) {
    EXPECT_EQ(c.client.update_keys(i % 2 == 0).what, outcome::done);
    sent += numbered(100);
    ASSERT_EQ(write_all(c.client, numbered(100)), 100U);
    ASSERT_EQ(write_all(c.server, "x"), 1U); // while the server has not seen it
    exchange(c.client, c.server);
    EXPECT_EQ(read_all(c.server, got), outcome::wants_input);
    ASSERT_EQ(write_all(c.server, "y"), 1U); // after it was answered
    exchange(c.client, c.server);
    EXPECT_EQ(read_all(c.client, back), outcome::wants_input);
  }
  EXPECT_EQ(got, sent);
  EXPECT_EQ(back.size(), 40U);
  connection old(only(tls_version::tls_1_2));
  old.open();
  EXPECT_EQ(old.client.update_keys(true).what, outcome::failed);
  EXPECT_EQ(old.client.error(), std::errc::operation_not_supported);
  EXPECT_EQ(write_all(old.client, "x"), 1U) << "which breaks nothing";
}

TEST(tls_engine, output_stays_where_it_is_until_it_was_taken) {
  connection c;
  c.open();
  ASSERT_EQ(write_all(c.client, numbered(1000)), 1000U);
  unio::const_buffer const first = c.client.output();
  std::string const before(reinterpret_cast<char const*>(first.data()), first.size());
  ASSERT_EQ(write_all(c.client, numbered(20'000)), 20'000U);
  EXPECT_EQ(c.client.output().data(), first.data());
  EXPECT_EQ(c.client.output().size(), first.size());
  EXPECT_EQ(std::string(reinterpret_cast<char const*>(first.data()), first.size()), before);
  std::string got;
  exchange(c.client, c.server);
  EXPECT_EQ(read_all(c.server, got), outcome::wants_input);
  EXPECT_EQ(got, numbered(1000) + numbered(20'000));
}

// ---- cut at every byte ------------------------------------------------------------------------------------

TEST(tls_engine, works_with_any_number_of_bytes_at_a_time) {
  std::string const text = numbered(18'000);
  for (tls_version const v : versions)
    for (std::size_t const most : {1U, 2U, 3U, 5U, 17U, 100U, 1000U, 1023U, 4096U}) {
      connection c(only(v));
      met const m = shake_hands(c.client, c.server, most);
      ASSERT_EQ(m.client, outcome::done);
      ASSERT_EQ(m.server, outcome::done);
      ASSERT_EQ(write_all(c.client, text), text.size());
      EXPECT_EQ(c.client.shutdown().what, outcome::done);
      std::string got;
      outcome o = outcome::wants_input;
      while (o == outcome::wants_input && exchange(c.client, c.server, most))
        o = read_all(c.server, got, most);
      EXPECT_EQ(o, outcome::ended);
      EXPECT_EQ(got, text);
    }
}

// Plays a connection until one side has been given its first `cut` bytes of the other; then that side's input
// ends. Returns how it ends there.
struct cut_result {
  bool was_cut = false;
  outcome what = outcome::wants_input;
  std::error_code error;
  std::string got;
};
cut_result cut_after(tls_version v, bool at_server, std::size_t cut, std::string_view text) {
  connection c(only(v));
  tls_engine& victim = at_server ? c.server : c.client;
  tls_engine& other = at_server ? c.client : c.server;
  cut_result r;
  bool written = false;
  std::size_t given = 0;
  outcome other_met = outcome::wants_input;
  for (;;) {
    if (!victim.is_connected()) {
      r.what = victim.handshake().what;
      if (r.what == outcome::done) r.what = outcome::wants_input;
    }
    if (victim.is_connected()) r.what = read_all(victim, r.got);
    if (r.what != outcome::wants_input) break;
    if (other_met == outcome::wants_input) other_met = other.handshake().what;
    if (other_met == outcome::done && !written) {
      written = true;
      EXPECT_EQ(write_all(other, text), text.size());
      EXPECT_EQ(other.shutdown().what, outcome::done);
    }
    std::string const to_other = take(victim);
    std::string const to_victim = take(other, cut - given);
    feed(other, to_other);
    feed(victim, to_victim);
    given += to_victim.size();
    if (given == cut && !r.was_cut) {
      r.was_cut = true;
      victim.input_ended();
    }
    if (to_other.empty() && to_victim.empty() && !r.was_cut) break;
  }
  if (r.what == outcome::failed) r.error = victim.error();
  return r;
}

TEST(tls_engine, input_that_ends_at_any_byte_is_truncated_and_never_the_end) {
  std::string const text = numbered(300);
  for (tls_version const v : versions)
    for (bool const at_server : {false, true}) {
      std::size_t cut = 0;
      for (;; ++cut) {
        ASSERT_LT(cut, 10'000U);
        cut_result const r = cut_after(v, at_server, cut, text);
        if (r.what == outcome::ended) {
          EXPECT_EQ(r.got, text);
          break;
        }
        ASSERT_TRUE(r.was_cut) << cut;
        ASSERT_EQ(r.what, outcome::failed) << cut;
        ASSERT_EQ(r.error, condition::truncated) << cut << r.error.message();
        ASSERT_TRUE(r.got.empty() || r.got == text) << cut;
      }
      EXPECT_GT(cut, 500U);
    }
}

// Each byte of either side wrong, one at a time: an error for this connection, never other bytes than were
// sent.
TEST(tls_engine, no_byte_can_be_changed) {
  std::string const text = numbered(100);
  for (tls_version const v : versions)
    for (bool const at_server : {false, true}) {
      bool reached_end = false;
      for (std::size_t at = 0; !reached_end; at += at_server ? 3 : 7) {
        ASSERT_LT(at, 10'000U);
        connection c(only(v));
        tls_engine& victim = at_server ? c.server : c.client;
        tls_engine& other = at_server ? c.client : c.server;
        std::size_t given = 0;
        std::string got;
        bool written = false;
        outcome mine = outcome::wants_input, its = outcome::wants_input;
        reached_end = true;
        for (int turns = 0; turns != 20; ++turns) {
          if (!victim.is_connected() && mine == outcome::wants_input) mine = victim.handshake().what;
          if (victim.is_connected()) mine = read_all(victim, got);
          if (its == outcome::wants_input) its = other.handshake().what;
          if (its == outcome::done && !written) {
            written = true;
            (void)write_all(other, text);
            (void)other.shutdown();
          }
          feed(other, take(victim));
          std::string bytes = take(other);
          if (at >= given && at < given + bytes.size()) {
            bytes[at - given] = static_cast<char>(bytes[at - given] ^ 0x11);
            reached_end = false;
          }
          given += bytes.size();
          feed(victim, bytes);
        }
        ASSERT_TRUE(got.empty() || got == text) << at;
        // The one exception: versions in headers of records, which RFC 8446 §5.1 has everyone ignore.
        if (!reached_end && victim.is_connected() && mine == outcome::ended) {
          ASSERT_EQ(got, text) << at;
        }
        ASSERT_LE(victim.queued(), 20'000U);
      }
    }
}

// ---- peers that are wrong ---------------------------------------------------------------------------------

TEST(tls_engine, nonsense_is_an_error_of_this_connection) {
  for (std::string_view const bytes :
       {std::string_view("GET / HTTP/1.1\r\nHost: example.test\r\n\r\n"),
        std::string_view("\0\0\0\0\0\0\0\0", 8), std::string_view("\x16\x03\x01\xff\xff\x01", 6),
        std::string_view("\x17\x03\x03\x00\x01x", 6), std::string_view("\x15\x03\x03\x00\x02\x02\x28", 7)}) {
    tls_context const of_server = test::server();
    tls_engine server(of_server);
    feed(server, bytes);
    EXPECT_EQ(server.handshake().what, outcome::failed);
    EXPECT_EQ(server.error().category(), unio::tls_category());
    EXPECT_FALSE(server.why().empty());
    EXPECT_LT(server.queued(), 100U) << "an alert at most";
    EXPECT_EQ(server.handshake().what, outcome::failed) << "and so it stays";
    EXPECT_EQ(server.write(std::string_view("x")).what, outcome::failed);
  }
}

TEST(tls_engine, records_that_are_too_long_break_a_connection) {
  connection c;
  c.open();
  feed(c.server, std::string("\x17\x03\x03\x50\x00", 5) + std::string(0x5000, 'x'));
  std::string got;
  EXPECT_EQ(read_all(c.server, got), outcome::failed);
  EXPECT_EQ(c.server.error().category(), unio::tls_category());
}

TEST(tls_engine, peer_that_only_asks_for_new_keys_holds_bounded_memory) {
  connection c;
  c.open();
  std::string got;
  std::size_t most = 0;
  outcome o = outcome::wants_input;
  for (int i = 0; i != 20'000 && o == outcome::wants_input; ++i) {
    ASSERT_EQ(c.client.update_keys(true).what, outcome::done);
    feed(c.server, take(c.client));
    o = read_all(c.server, got); // what it answers is not taken
    most = std::max(most, c.server.queued());
  }
  EXPECT_LE(most, tls_engine::output_limit + 16 * 1024);
  RecordProperty("queued", static_cast<int>(most));
  // Its answers taken, all goes on.
  feed(c.client, take(c.server));
  ASSERT_EQ(write_all(c.client, "x"), 1U);
  feed(c.server, take(c.client));
  while ((o = read_all(c.server, got)) == outcome::wants_output) feed(c.client, take(c.server));
  EXPECT_EQ(o, outcome::wants_input) << c.server.why();
  EXPECT_EQ(got, "x");
}

TEST(tls_engine, writes_stop_where_nobody_takes_the_output_and_reads_do_not) {
  connection c;
  c.open();
  std::string const text = numbered(300'000);
  std::size_t const written = write_all(c.client, text);
  EXPECT_LT(written, text.size());
  EXPECT_GE(written, 48U * 1024);
  EXPECT_LE(c.client.queued(), tls_engine::output_limit);
  EXPECT_EQ(c.client.write(text).what, outcome::wants_output);
  ASSERT_EQ(write_all(c.server, "still"), 5U);
  feed(c.client, take(c.server));
  std::string got;
  EXPECT_EQ(read_all(c.client, got), outcome::wants_input);
  EXPECT_EQ(got, "still");
}

// Both sides write without end and read what comes, through queues of a few bytes: nobody waits for ever.
TEST(tls_engine, both_directions_at_once_through_narrow_queues_never_wait_for_each_other) {
  connection c;
  c.open();
  std::string const text = numbered(200'000);
  std::string at_client, at_server;
  std::size_t from_client = 0, from_server = 0;
  int turns = 0;
  for (; (at_client.size() != text.size() || at_server.size() != text.size()) && turns != 100'000; ++turns) {
    from_client += write_all(c.client, std::string_view(text).substr(from_client, 900));
    from_server += write_all(c.server, std::string_view(text).substr(from_server, 900));
    if (turns % 50 == 0) (void)c.client.update_keys(true);
    exchange(c.client, c.server, 300);
    EXPECT_NE(read_all(c.client, at_client, 100), outcome::failed);
    EXPECT_NE(read_all(c.server, at_server, 100), outcome::failed);
  }
  EXPECT_EQ(at_client, text);
  EXPECT_EQ(at_server, text);
}

TEST(tls_engine, an_orderly_connection_needs_the_handshake_first) {
  connection c;
  std::array<char, 10> room;
  EXPECT_EQ(c.client.read(room).what, outcome::failed);
  EXPECT_EQ(c.client.error(), std::errc::not_connected);
  EXPECT_EQ(c.client.write(std::string_view("x")).what, outcome::failed);
  EXPECT_EQ(c.client.error(), std::errc::not_connected);
  EXPECT_EQ(c.client.shutdown().what, outcome::failed);
  EXPECT_EQ(c.client.update_keys(false).what, outcome::failed);
  c.open(); // none of it broke anything
}

// ---- whom it trusts ---------------------------------------------------------------------------------------

struct refusal {
  unio::failure error;
  std::string why;
  unio::failure at_server;
};
refusal refused(std::string_view name, unio::tls_identity const& who, tls_options const& options = {}) {
  tls_context const of_client = test::client(options);
  tls_context const of_server = tls_context::server(who).value();
  tls_engine client(of_client, name);
  tls_engine server(of_server);
  met const m = shake_hands(client, server);
  EXPECT_EQ(m.client, outcome::failed);
  if (m.server == outcome::done) { // TLS 1.3: it learns of it later
    std::string got;
    EXPECT_EQ(read_all(server, got), outcome::failed);
  }
  return {client.error(), client.why(), server.error()};
}

TEST(tls_verification, compares_the_name_of_the_server) {
  refusal const r = refused("other.test", the_identity());
  EXPECT_EQ(r.error.category(), unio::tls_verification_category());
  EXPECT_TRUE(
      contains(r.why, "'other.test': its certificate was refused: hostname mismatch (CN=example.test)"))
      << r.why;
  EXPECT_EQ(r.at_server.category(), unio::tls_category()) << "the server was told";
  EXPECT_TRUE(contains(refused("a.b.wild.test", the_identity()).why, "hostname mismatch"));
  EXPECT_TRUE(contains(refused("127.0.0.2", the_identity()).why, "IP address mismatch"));
}

TEST(tls_engine, names_the_call_and_the_server_in_its_failures) {
  connection c({}, {}, "example.test");
  EXPECT_EQ(c.client.handshake().what, outcome::wants_input);
  char byte = 'x';
  EXPECT_EQ(c.client.read(unio::mutable_buffer(reinterpret_cast<std::byte*>(&byte), 1)).what,
            outcome::failed);
  EXPECT_STREQ(c.client.error().operation(), "tls read");
  EXPECT_EQ(c.client.error().object(), "example.test");
  EXPECT_EQ(c.client.write(std::string_view("x")).what, outcome::failed);
  EXPECT_STREQ(c.client.error().operation(), "tls write");
  EXPECT_EQ(c.client.shutdown().what, outcome::failed);
  EXPECT_STREQ(c.client.error().operation(), "tls shutdown");
  EXPECT_EQ(c.client.update_keys(false).what, outcome::failed);
  EXPECT_STREQ(c.client.error().operation(), "tls update_keys");
  connection impossible({}, {}, std::string(300, 'x'));
  EXPECT_EQ(impossible.client.handshake().what, outcome::failed);
  EXPECT_STREQ(impossible.client.error().operation(), "tls create");
  EXPECT_TRUE(impossible.client.error().object().starts_with("...xxx"));
}

TEST(tls_engine, shows_no_name_that_a_client_has_sent_in_the_failures_of_a_server) {
  refusal const r = refused("other.test", the_identity());
  EXPECT_EQ(r.error.object(), "other.test");
  EXPECT_TRUE(r.at_server);
  EXPECT_NE(std::string_view(r.at_server.operation()), "");
  EXPECT_EQ(r.at_server.object(), "");
}

TEST(tls_engine, escapes_what_a_peer_has_sent_in_its_sentences) {
  // As the name of a server.
  SSL_CTX* const raw = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set_max_proto_version(raw, TLS1_2_VERSION);
  tls_context const of_server = test::server(only(tls_version::tls_1_3));
  {
    raw_peer client(raw, false);
    SSL_set_tlsext_host_name(client.ssl(), "x': fine\nsshd: Accepted\x1b[31m\u202e\xff");
    tls_engine server(of_server);
    client.shake_hands(server);
    EXPECT_EQ(server.error().category(), unio::tls_category());
    EXPECT_TRUE(server.why().starts_with(
        "'x\\x27: fine\\x0asshd: Accepted\\x1b[31m\\xe2\\x80\\xae\\xff': unsupported protocol"))
        << server.why();
  }
  SSL_CTX_free(raw);
  // In its certificate, where OpenSSL escapes some.
  authority const other("somebody else");
  refusal const r = refused("example.test", other.issue({.subject = "a\nb, c\u009b31m\u202ed\u00e9"}));
  EXPECT_TRUE(contains(r.why, "(CN=a\\0Ab\\, c\\xc2\\x9b31m\\xe2\\x80\\xaed\u00e9)")) << r.why;
}

TEST(tls_verification, accepts_each_name_that_the_certificate_has) {
  for (std::string_view const name : {"example.test", "EXAMPLE.test", "example.test.", "a.wild.test",
                                      "127.0.0.1", "::1", "0:0:0:0:0:0:0:1"}) {
    connection c({}, {}, name);
    c.open();
    bool const is_address = name.find(':') != name.npos || name == "127.0.0.1";
    EXPECT_EQ(c.server.server_name().empty(), is_address) << "an address is no server name: RFC 6066 §3";
    EXPECT_FALSE(c.server.server_name().ends_with('.'));
  }
}

TEST(tls_verification, refuses_what_is_not_signed_not_valid_yet_or_no_longer) {
  authority const other("somebody else");
  refusal r = refused("example.test", other.issue());
  EXPECT_EQ(r.error.category(), unio::tls_verification_category());
  EXPECT_TRUE(contains(r.why, "'example.test': its certificate was refused: unable to get local issuer"))
      << r.why;
  r = refused("example.test", the_authority().issue({.from_seconds = -100, .to_seconds = -10}));
  EXPECT_EQ(r.error.message(), "tls handshake example.test: certificate has expired");
  r = refused("example.test", the_authority().issue({.from_seconds = 100}));
  EXPECT_TRUE(contains(r.why, "not yet valid")) << r.why;
  // The system's roots know nothing of ours.
  tls_context const of_client = tls_context::client().value();
  tls_context const of_server = test::server();
  tls_engine client(of_client, "example.test");
  tls_engine server(of_server);
  EXPECT_EQ(shake_hands(client, server).client, outcome::failed);
  EXPECT_EQ(client.error().category(), unio::tls_verification_category());
}

TEST(tls_verification, needs_a_name_unless_it_is_off) {
  for (std::string_view const name :
       {std::string_view(), std::string_view("."), std::string_view("a\0b", 3)}) {
    connection c({}, {}, name);
    EXPECT_EQ(c.client.handshake().what, outcome::failed);
    EXPECT_EQ(c.client.error(), std::errc::invalid_argument);
    EXPECT_FALSE(c.client.why().empty());
  }
  std::string const long_name(300, 'x');
  connection too_long({}, {}, long_name);
  EXPECT_EQ(too_long.client.handshake().what, outcome::failed);
  connection off({.verification = tls_verification::none}, {}, "");
  off.open();
  tls_engine nothing{tls_context()};
  EXPECT_EQ(nothing.handshake().what, outcome::failed);
  EXPECT_EQ(nothing.error(), std::errc::invalid_argument);
}

// A dot in front means "any name below" to OpenSSL.
TEST(tls_verification, refuses_names_that_no_server_can_have) {
  for (std::string const& name :
       {std::string(".wild.test"), std::string(".test"), std::string("..test"), std::string("a..wild.test"),
        std::string("*.wild.test"), std::string("a.wild.test.."), std::string("a b"),
        std::string("a.wild.test\n"), std::string("caf\u00e9.test"), std::string("fe80::1%lo"),
        std::string(64, 'x') + ".test"}) {
    connection c({}, {}, name);
    EXPECT_EQ(c.client.handshake().what, outcome::failed) << name;
    EXPECT_EQ(c.client.error(), std::errc::invalid_argument) << name;
    EXPECT_TRUE(contains(c.client.why(), "no name that a server can have: ")) << c.client.why();
    EXPECT_FALSE(contains(c.client.why(), "\n"));
    EXPECT_FALSE(c.client.has_output()) << "nothing is said to anybody";
    connection off({.verification = tls_verification::none}, {}, name);
    EXPECT_EQ(off.client.handshake().what, outcome::failed) << "it would be sent";
  }
}

// RFC 9525 §6.3.
TEST(tls_verification, does_not_take_a_common_name_for_a_name) {
  refusal const r = refused("example.test", the_authority().issue({.names = ""}));
  EXPECT_EQ(r.error.category(), unio::tls_verification_category());
  EXPECT_EQ(r.why,
            "'example.test': its certificate was refused: hostname mismatch (CN=example.test, without a "
            "subjectAltName)");
  (void)refused("example.test", the_authority().issue({.names = "DNS:other.test"}));
  (void)refused("127.0.0.1", the_authority().issue({.names = "", .subject = "127.0.0.1"}));
}

TEST(tls_verification, of_clients_is_none_requested_or_required) {
  unio::tls_identity const who = the_authority().issue({.names = "", .subject = "a client"});
  authority const other("somebody else");
  for (tls_version const v : versions)
    for (tls_verification const asked : {tls_verification::requested, tls_verification::required}) {
      tls_options const server_options{.verification = asked, .roots = the_authority().root()};
      tls_options client_options = only(v);
      client_options.identity = who;
      connection good(client_options, server_options);
      good.open();
      EXPECT_EQ(good.server.peer_subject(), "CN=a client");
      connection without(only(v), server_options);
      std::string got;
      met m = shake_hands(without.client, without.server);
      if (asked == tls_verification::requested) {
        EXPECT_EQ(m.server, outcome::done);
        EXPECT_TRUE(without.server.peer_certificate().empty());
      } else {
        EXPECT_EQ(m.server, outcome::failed);
        EXPECT_TRUE(contains(without.server.why(), "peer did not return a certificate"))
            << without.server.why();
        if (m.client == outcome::done) m.client = read_all(without.client, got);
        EXPECT_EQ(m.client, outcome::failed) << "it is told";
      }
      client_options.identity = other.issue({.subject = "a stranger"});
      connection stranger(client_options, server_options);
      m = shake_hands(stranger.client, stranger.server);
      EXPECT_EQ(m.server, outcome::failed);
      EXPECT_EQ(stranger.server.error().category(), unio::tls_verification_category());
      EXPECT_TRUE(contains(stranger.server.why(), "(CN=a stranger)")) << stranger.server.why();
    }
}

TEST(tls_engine, speaks_only_the_versions_it_is_allowed) {
  connection c(only(tls_version::tls_1_2), only(tls_version::tls_1_3));
  met const m = shake_hands(c.client, c.server);
  EXPECT_EQ(m.server, outcome::failed);
  EXPECT_EQ(m.client, outcome::failed);
  EXPECT_TRUE(contains(c.server.why(), "unsupported protocol")) << c.server.why();
}

// ---- what is agreed on ------------------------------------------------------------------------------------

TEST(tls_protocols, the_server_chooses_its_first_that_the_client_has) {
  for (tls_version const v : versions) {
    tls_options o = only(v);
    o.protocols = {"http/1.1", "h2"};
    connection c(o, {.protocols = {"h3", "h2", "http/1.1"}});
    c.open();
    EXPECT_EQ(c.client.protocol(), "h2");
    EXPECT_EQ(c.server.protocol(), "h2");
    connection none(o, {.protocols = {"gopher"}});
    EXPECT_EQ(shake_hands(none.client, none.server).client, outcome::failed);
    EXPECT_TRUE(contains(none.client.why(), "no application protocol")) << none.client.why();
    connection silent(o);
    silent.open();
    EXPECT_TRUE(silent.client.protocol().empty());
    connection unasked(only(v), {.protocols = {"h2"}});
    unasked.open();
    EXPECT_TRUE(unasked.server.protocol().empty());
  }
}

TEST(tls_names, choose_the_context) {
  tls_context const one =
      tls_context::server(the_authority().issue({.names = "DNS:one.test", .subject = "one"}),
                          {.protocols = {"p1"}})
          .value();
  tls_context const two =
      tls_context::server(the_authority().issue({.names = "DNS:two.test", .subject = "two"}),
                          {.minimum = tls_version::tls_1_3,
                           .verification = tls_verification::required,
                           .roots = the_authority().root()})
          .value();
  std::string asked;
  tls_options const options{.by_name = [&](std::string_view name) -> tls_context const* {
    asked = name;
    return name == "one.test" ? &one : name == "two.test" ? &two : nullptr;
  }};
  for (tls_version const v : versions) {
    tls_options o = only(v);
    o.protocols = {"p1"};
    connection first(o, options, "one.test");
    first.open();
    EXPECT_EQ(first.client.peer_subject(), "CN=one");
    EXPECT_EQ(first.client.protocol(), "p1");
    connection own(only(v), options);
    own.open();
    EXPECT_EQ(asked, "example.test");
    EXPECT_EQ(own.client.peer_subject(), "CN=example.test");
    connection address(only(v), options, "127.0.0.1");
    address.open();
    EXPECT_EQ(asked, "");
    // The rules of the one that is chosen hold: its version, its certificates of clients.
    connection strict(only(v), options, "two.test");
    met const m = shake_hands(strict.client, strict.server);
    EXPECT_EQ(m.server, outcome::failed);
    EXPECT_TRUE(contains(strict.server.why(),
                         v == tls_version::tls_1_2 ? "unsupported protocol" : "did not return a certificate"))
        << strict.server.why();
  }
  tls_options known = only(tls_version::tls_1_3);
  known.identity = the_authority().issue({.subject = "a client"});
  connection good(known, options, "two.test");
  good.open();
  EXPECT_EQ(good.server.peer_subject(), "CN=a client");
}

void replace(std::string& in, std::string_view what, std::string_view by) {
  std::size_t const at = in.find(what);
  ASSERT_NE(at, in.npos);
  in.replace(at, what.size(), by);
}

// A server that knows none of the keys that a client has sent asks for another ClientHello, in which only
// those may change (RFC 8446 §4.1.2). A context is chosen once, and the name that is shown is the one it was
// chosen by.
TEST(tls_names, stay_the_same_where_a_client_has_to_begin_again) {
  using namespace std::string_view_literals;
  tls_context const open = tls_context::server(the_authority().issue({.names = "DNS:open.test"})).value();
  int asked = 0;
  tls_context const of_server = test::server({.by_name = [&](std::string_view name) -> tls_context const* {
    ++asked;
    return name == "open.test" ? &open : nullptr;
  }});
  SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
  SSL_CTX_set1_groups_list(context, "X25519:P-256");
  for (char const* const name : {"open.test", "closed.test"}) {
    asked = 0;
    tls_engine server(of_server);
    raw_peer client(context, false);
    SSL_set_tlsext_host_name(client.ssl(), "open.test");
    (void)SSL_do_handshake(client.ssl());
    std::string hello = client.take();
    replace(hello, "\x00\x04\x00\x1d\x00\x17"sv, "\x00\x04\x2a\x2a\x00\x17"sv); // the groups
    replace(hello, "\x00\x24\x00\x1d\x00\x20"sv, "\x00\x24\x2a\x2a\x00\x20"sv); // the key
    feed(server, hello);
    ASSERT_EQ(server.handshake().what, outcome::wants_input) << server.why();
    client.feed(take(server));
    SSL_set_tlsext_host_name(client.ssl(), name);
    (void)SSL_do_handshake(client.ssl());
    feed(server, client.take());
    EXPECT_EQ(server.handshake().what, name == "open.test"sv ? outcome::wants_input : outcome::failed)
        << server.why();
    EXPECT_EQ(server.server_name(), "open.test");
    EXPECT_EQ(asked, 1);
  }
  SSL_CTX_free(context);
}

// Several connections of the same two contexts, one after the other.
struct pair_of_contexts {
  tls_context of_client, of_server;
  bool resumed(std::string_view name = "example.test") const {
    tls_engine client(of_client, name), server(of_server);
    met const m = shake_hands(client, server);
    EXPECT_EQ(m.client, outcome::done) << client.why();
    EXPECT_EQ(m.server, outcome::done) << server.why();
    EXPECT_EQ(write_all(server, "x"), 1U);
    exchange(client, server);
    std::string got;
    EXPECT_EQ(read_all(client, got), outcome::wants_input); // and the tickets of TLS 1.3
    EXPECT_EQ(client.is_resumed(), server.is_resumed());
    EXPECT_EQ(client.peer_subject(), "CN=example.test") << "known again, though not shown again";
    return client.is_resumed();
  }
};

TEST(tls_resumption, shortens_later_handshakes_with_the_same_name) {
  for (tls_version const v : versions) {
    pair_of_contexts const c{test::client(only(v)), test::server()};
    EXPECT_FALSE(c.resumed());
    EXPECT_TRUE(c.resumed());
    EXPECT_TRUE(c.resumed());
    EXPECT_FALSE(c.resumed("a.wild.test")) << "another name";
    EXPECT_TRUE(c.resumed("a.wild.test"));
    EXPECT_TRUE(c.resumed()) << "is still known";
    pair_of_contexts const elsewhere{c.of_client, test::server()};
    EXPECT_FALSE(elsewhere.resumed()) << "another server's ticket";
  }
}

TEST(tls_resumption, can_be_off) {
  for (tls_version const v : versions) {
    tls_options off = only(v);
    off.resumption = false;
    pair_of_contexts const client_off{test::client(off), test::server()};
    EXPECT_FALSE(client_off.resumed());
    EXPECT_FALSE(client_off.resumed());
    pair_of_contexts const server_off{test::client(only(v)), test::server({.resumption = false})};
    EXPECT_FALSE(server_off.resumed());
    EXPECT_FALSE(server_off.resumed());
  }
}

// nginx once let a ticket of a name without client certificates in where they are required (CVE-2025-23419).
TEST(tls_resumption, does_not_carry_over_to_a_name_with_other_rules) {
  unio::tls_identity const both = the_authority().issue({.names = "DNS:open.test,DNS:closed.test"});
  tls_context const closed =
      tls_context::server(both, {.verification = tls_verification::required, .roots = the_authority().root()})
          .value();
  tls_context const open =
      tls_context::server(both, {.by_name = [&](std::string_view name) -> tls_context const* {
                            return name == "closed.test" ? &closed : nullptr;
                          }})
          .value();
  for (int const v : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    // A client that cheats: it keeps the session of one name and asks for the other with it.
    SSL_CTX* const context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(context, v);
    SSL_SESSION* session = nullptr;
    for (char const* const name : {"open.test", "open.test", "closed.test"}) {
      tls_engine server(open);
      raw_peer cheat(context, false);
      SSL_set_tlsext_host_name(cheat.ssl(), name);
      if (session != nullptr) SSL_set_session(cheat.ssl(), session);
      cheat.shake_hands(server);
      if (name == std::string_view("closed.test")) {
        EXPECT_FALSE(server.is_connected());
        EXPECT_TRUE(contains(server.why(), "did not return a certificate")) << server.why();
        continue;
      }
      ASSERT_TRUE(server.is_connected()) << server.why();
      EXPECT_EQ(server.is_resumed(), session != nullptr) << "as it should be with the same name";
      (void)write_all(server, "x");
      cheat.feed(take(server));
      char x = 0;
      EXPECT_EQ(SSL_read(cheat.ssl(), &x, 1), 1);
      SSL_SESSION_free(session);
      session = SSL_get1_session(cheat.ssl());
    }
    SSL_SESSION_free(session);
    SSL_CTX_free(context);
  }
}

// ---- a message in two records -----------------------------------------------------------------------------

// The context of a server of OpenSSL's whose tickets take two records.
SSL_CTX* context_of_long_tickets() {
  SSL_CTX* const context = SSL_CTX_new(TLS_server_method());
  BIO* const pem = BIO_new_mem_buf(the_identity().certificates.value().data(), -1);
  X509* const certificate = PEM_read_bio_X509(pem, nullptr, nullptr, nullptr);
  BIO* const key_pem = BIO_new_mem_buf(the_identity().key.value().data(), -1);
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(key_pem, nullptr, nullptr, nullptr);
  SSL_CTX_use_certificate(context, certificate);
  SSL_CTX_use_PrivateKey(context, key);
  SSL_CTX_set_verify(context, SSL_VERIFY_PEER, [](int, X509_STORE_CTX*) { return 1; });
  SSL_CTX_set_session_id_context(context, reinterpret_cast<unsigned char const*>("x"), 1);
  SSL_CTX_set_max_send_fragment(context, 512); // less than a ticket with the client's certificate in it
  EVP_PKEY_free(key);
  X509_free(certificate);
  BIO_free(pem);
  BIO_free(key_pem);
  return context;
}
constexpr std::size_t first_record = 512 + 5 + 17; // of such a ticket

tls_context client_of_long_tickets() {
  return test::client({.identity = the_authority().issue({.subject = "a client", .rsa = true})});
}

void connect(tls_engine& client, raw_peer& server) {
  for (int i = 0; i != 10 && !client.is_connected(); ++i) {
    (void)SSL_do_handshake(server.ssl());
    feed(client, server.take());
    (void)client.handshake();
    server.feed(take(client));
  }
  ASSERT_TRUE(client.is_connected()) << client.why();
  EXPECT_EQ(SSL_do_handshake(server.ssl()), 1);
}

// OpenSSL writes nothing while it has half a message. It says so, and goes on with the other half.
TEST(tls_engine, half_a_message_of_the_peer_delays_writes_and_breaks_nothing) {
  SSL_CTX* const context = context_of_long_tickets();
  for (bool const ends : {false, true}) {
    tls_context const of_client = client_of_long_tickets();
    tls_engine client(of_client, "example.test");
    raw_peer server(context, true);
    connect(client, server);
    std::string const tickets = server.take();
    ASSERT_GT(tickets.size(), 512U);
    std::string got;
    feed(client, std::string_view(tickets).substr(0, first_record));
    EXPECT_EQ(read_all(client, got), outcome::wants_input);
    EXPECT_EQ(client.write(std::string_view("x")).what, outcome::wants_input);
    EXPECT_EQ(client.shutdown().what, outcome::wants_input);
    EXPECT_EQ(client.update_keys(true).what, outcome::wants_input);
    if (ends) {
      client.input_ended();
      EXPECT_EQ(client.write(std::string_view("x")).what, outcome::failed);
      EXPECT_EQ(client.error(), condition::truncated);
      continue;
    }
    feed(client, std::string_view(tickets).substr(first_record));
    EXPECT_EQ(write_all(client, "x"), 1U);
    EXPECT_EQ(client.update_keys(true).what, outcome::done);
    EXPECT_EQ(write_all(client, "y"), 1U);
    EXPECT_EQ(client.shutdown().what, outcome::done);
    server.feed(take(client));
    char room[10];
    EXPECT_EQ(SSL_read(server.ssl(), room, 1), 1);
    EXPECT_EQ(SSL_read(server.ssl(), room + 1, 1), 1);
    EXPECT_EQ(std::string_view(room, 2), "xy");
    EXPECT_EQ(SSL_read(server.ssl(), room, 1), 0);
    EXPECT_EQ(SSL_get_shutdown(server.ssl()) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
  }
  SSL_CTX_free(context);
}

// After half a message no peer that keeps to the protocol ends its direction. A forked child has the same
// keys: the record that it sends second takes the place of the second half.
TEST(tls_engine, half_a_message_before_the_end_of_the_peer_fails_all_that_would_wait_for_the_rest) {
  SSL_CTX* const context = context_of_long_tickets();
  SSL_CTX_set_num_tickets(context, 0); // one later, when it is asked for
  using call = outcome (*)(tls_engine&);
  for (call const f : {call([](tls_engine& e) { return e.write(std::string_view("x")).what; }),
                       call([](tls_engine& e) { return e.shutdown().what; }),
                       call([](tls_engine& e) { return e.update_keys(true).what; })}) {
    tls_context const of_client = client_of_long_tickets();
    tls_engine client(of_client, "example.test");
    raw_peer server(context, true);
    connect(client, server);
    (void)server.take();
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    expect_in_child([&] {
      CHILD_EXPECTS(SSL_write(server.ssl(), "x", 1) == 1);
      (void)server.take();
      CHILD_EXPECTS(SSL_shutdown(server.ssl()) >= 0);
      std::string const end = server.take();
      return CHILD_MEETS(::write(ends[1], end.data(), end.size()) == static_cast<ssize_t>(end.size()));
    });
    char end[64];
    ssize_t const n = ::read(ends[0], end, sizeof end);
    ::close(ends[0]);
    ::close(ends[1]);
    ASSERT_GT(n, 0);
    ASSERT_EQ(SSL_new_session_ticket(server.ssl()), 1);
    ASSERT_EQ(SSL_do_handshake(server.ssl()), 1);
    std::string const ticket = server.take();
    ASSERT_GT(ticket.size(), first_record);
    std::string got;
    feed(client, std::string_view(ticket).substr(0, first_record));
    EXPECT_EQ(read_all(client, got), outcome::wants_input);
    EXPECT_EQ(f(client), outcome::wants_input);
    feed(client, std::string_view(end, static_cast<std::size_t>(n)));
    EXPECT_EQ(f(client), outcome::failed);
    EXPECT_EQ(client.error(), condition::truncated) << client.why();
    EXPECT_EQ(f(client), outcome::failed) << "and fails again";
  }
  SSL_CTX_free(context);
}

} // namespace
