// tls_context.hpp: what can be wrong with certificates, keys and options, and how it is said.

#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "tls/certificates.hpp"

namespace {

using namespace test;

TEST(tls_context, reads_certificates_and_keys_from_files_and_from_memory) {
  test::temporary_directory const here;
  here.write("chain.pem", test::the_identity().certificates.value() + test::the_authority().root().value());
  here.write("key.pem", test::the_identity().key.value());
  EXPECT_TRUE(tls_context::server({tls_pem::file(here / "chain.pem"), tls_pem::file(here / "key.pem")}));
  EXPECT_TRUE(tls_context::server({tls_pem::file(here / "chain.pem"), test::the_identity().key}));
  EXPECT_TRUE(tls_context::client());
  EXPECT_TRUE(tls_context::client({.roots = tls_pem::file(here / "chain.pem")}));
  EXPECT_FALSE(tls_context());
}

TEST(tls_context, says_which_file_is_missing) {
  std::string why;
  auto const made =
      tls_context::server({tls_pem::file("/nonexistent/a.pem"), test::the_identity().key}, {}, &why);
  EXPECT_EQ(made.error(), std::errc::no_such_file_or_directory);
  EXPECT_TRUE(contains(why, "certificate '/nonexistent/a.pem': No such file")) << why;
  EXPECT_EQ(made.error().message(), "tls_context certificate /nonexistent/a.pem: No such file or directory");
  EXPECT_FALSE(tls_context::client({.roots = tls_pem::file("/nonexistent/b.pem")}, &why));
  EXPECT_TRUE(contains(why, "root certificates '/nonexistent/b.pem'")) << why;
  EXPECT_FALSE(
      tls_context::server({test::the_identity().certificates, tls_pem::file("/nonexistent/k")}, {}, &why));
  EXPECT_TRUE(contains(why, "private key '/nonexistent/k'")) << why;
}

TEST(tls_context, says_why_a_file_cannot_be_read) {
  std::string why;
  EXPECT_EQ(tls_context::client({.roots = tls_pem::file("/")}, &why).error(), std::errc::is_a_directory);
  EXPECT_TRUE(contains(why, "root certificates '/': Is a directory")) << why;
  tls_pem const unreadable = tls_pem::file("/proc/self/mem"); // nothing is at its beginning
  EXPECT_EQ(tls_context::server({unreadable, test::the_identity().key}).error(), std::errc::io_error);
  EXPECT_EQ(tls_context::server({test::the_identity().certificates, unreadable}).error(),
            std::errc::io_error);
}

// A variable that was not set, say: it must not mean that the system's roots are trusted.
TEST(tls_context, takes_nothing_that_was_given_for_nothing) {
  std::string why;
  EXPECT_EQ(tls_context::client({.roots = tls_pem::file("")}, &why).error(),
            std::errc::no_such_file_or_directory);
  EXPECT_TRUE(contains(why, "root certificates ''")) << why;
  EXPECT_EQ(tls_context::client({.roots = tls_pem::text("")}, &why).error().category(), unio::tls_category());
  EXPECT_FALSE(tls_context::client({.identity = {tls_pem::file(""), tls_pem::file("")}}));
  EXPECT_TRUE(tls_pem().empty());
  EXPECT_FALSE(tls_pem::text("").empty());
}

TEST(tls_context, refuses_the_name_of_a_file_with_a_nul) {
  test::temporary_directory const here;
  here.write("root.pem", test::the_authority().root().value());
  std::string why;
  auto const made =
      tls_context::client({.roots = tls_pem::file(here / "root.pem" + std::string("\0x", 2))}, &why);
  EXPECT_EQ(made.error(), unio::error::embedded_nul);
  EXPECT_TRUE(contains(why, "root.pem\\x00x")) << why;
}

TEST(tls_context, says_what_is_wrong_with_a_text) {
  std::string why;
  auto made = tls_context::server({tls_pem::text("nonsense"), test::the_identity().key}, {}, &why);
  EXPECT_EQ(made.error().category(), unio::tls_category());
  EXPECT_TRUE(contains(why, "certificate in memory: no start line")) << why;
  EXPECT_EQ(made.error().message(), "tls_context certificate in memory: no start line");
  std::string damaged = test::the_identity().certificates.value();
  damaged.replace(damaged.size() / 2, 8, "????????");
  EXPECT_FALSE(tls_context::server({tls_pem::text(damaged), test::the_identity().key}, {}, &why));
  EXPECT_TRUE(contains(why, "bad base64")) << why;
  // One that is damaged behind a good one is no end of the list.
  EXPECT_FALSE(
      tls_context::client({.roots = tls_pem::text(test::the_authority().root().value() + damaged)}, &why));
  EXPECT_TRUE(contains(why, "bad base64")) << why;
}

TEST(tls_context, refuses_a_key_of_another_certificate) {
  std::string why;
  tls_identity const other = test::the_authority().issue();
  auto const made = tls_context::server({test::the_identity().certificates, other.key}, {}, &why);
  EXPECT_FALSE(made);
  EXPECT_TRUE(contains(why, "private key in memory: ")) << why;
}

// OpenSSL would ask the terminal, and wait.
TEST(tls_context, refuses_a_key_with_a_passphrase_without_asking_for_it) {
  std::string why;
  tls_pem const key = tls_pem::text(
      "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
      "DEK-Info: AES-128-CBC,00000000000000000000000000000000\n\nAAAA\n-----END RSA PRIVATE KEY-----\n");
  EXPECT_FALSE(tls_context::server({test::the_identity().certificates, key}, {}, &why));
  EXPECT_TRUE(contains(why, "private key in memory: ")) << why;
}

TEST(tls_context, refuses_options_that_contradict_each_other) {
  std::string why;
  auto const refused = [&](unio::result<tls_context> const& made) {
    return made.error() == std::errc::invalid_argument && !std::exchange(why, {}).empty();
  };
  EXPECT_TRUE(refused(tls_context::server({}, {}, &why)));
  EXPECT_EQ(tls_context::server({}).error().message(),
            "tls_context (a server needs a certificate and its key): Invalid argument");
  EXPECT_TRUE(refused(
      tls_context::server(test::the_identity(), {.verification = unio::tls_verification::required}, &why)));
  EXPECT_TRUE(refused(tls_context::client({.verification = unio::tls_verification::requested}, &why)));
  EXPECT_TRUE(refused(tls_context::client(
      {.minimum = unio::tls_version::tls_1_3, .maximum = unio::tls_version::tls_1_2}, &why)));
  EXPECT_TRUE(refused(tls_context::client({.minimum = unio::tls_version::none}, &why)));
  EXPECT_TRUE(refused(tls_context::client({.protocols = {""}}, &why)));
  EXPECT_TRUE(refused(tls_context::client({.protocols = {std::string(256, 'x')}}, &why)));
  EXPECT_TRUE(refused(tls_context::client(
      {.by_name = [](std::string_view) -> tls_context const* { return nullptr; }}, &why)));
}

TEST(tls_errors, have_messages) {
  EXPECT_EQ(unio::tls_verification_category().message(10), "certificate has expired");
  EXPECT_TRUE(contains(unio::tls_category().message(1), "of OpenSSL"));
  EXPECT_STREQ(unio::tls_category().name(), "unio.tls");
}

} // namespace
