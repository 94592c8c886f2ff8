// core/escaped.hpp: text from outside in messages: nothing in it ends a line, commands a terminal or is lost.

#include "core/escaped.hpp"

#include "support/test.hpp"

namespace {

using namespace std::string_literals;
using unio::detail::escaped;
using unio::detail::in_quotes;

TEST(escaped, leaves_printable_text_as_it_is) {
  for (std::string_view const text : {"", "a b~!\"'", "caf\u00e9", "\u00a0", "\u65e5\u672c\u8a9e",
                                      "\U0001f600", "\u2027\u202f", "\U0010ffff"})
    EXPECT_EQ(escaped(text), text);
}

TEST(escaped, writes_control_characters_and_backslashes_as_numbers) {
  EXPECT_EQ(escaped("a\nb\r\t\x1b[31m\x7f"), "a\\x0ab\\x0d\\x09\\x1b[31m\\x7f");
  EXPECT_EQ(escaped("\0"s), "\\x00");
  EXPECT_EQ(escaped("\\x0a"), "\\x5cx0a"); // cannot be taken for a line end
  EXPECT_EQ(escaped("\u0080\u009b1m\u009f"), "\\xc2\\x80\\xc2\\x9b1m\\xc2\\x9f");
}

TEST(escaped, writes_bytes_that_are_no_utf8_as_numbers) {
  EXPECT_EQ(escaped("\xff\x9b"), "\\xff\\x9b");
  EXPECT_EQ(escaped("\xc3"), "\\xc3");                            // cut
  EXPECT_EQ(escaped("\xe2\x82z"), "\\xe2\\x82z");                 // cut
  EXPECT_EQ(escaped("\xc0\x8a"), "\\xc0\\x8a");                   // a line end in two bytes
  EXPECT_EQ(escaped("\xe0\x80\x8a"), "\\xe0\\x80\\x8a");          // … in three
  EXPECT_EQ(escaped("\xed\xa0\x80"), "\\xed\\xa0\\x80");          // a surrogate
  EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); // above U+10FFFF
}

TEST(escaped, writes_separators_and_marks_of_direction_as_numbers) {
  EXPECT_EQ(escaped("a\u2028b\u2029"), "a\\xe2\\x80\\xa8b\\xe2\\x80\\xa9");
  EXPECT_EQ(escaped("\u202egnp.exe"), "\\xe2\\x80\\xaegnp.exe");
  EXPECT_EQ(escaped("\u061c\u200f\u2066"), "\\xd8\\x9c\\xe2\\x80\\x8f\\xe2\\x81\\xa6");
}

TEST(escaped, keeps_the_quotes_that_it_stands_in_unique) {
  EXPECT_EQ(in_quotes("it's"), "'it\\x27s'");
  EXPECT_EQ(in_quotes("it's", '"'), "\"it's\"");
  EXPECT_EQ(in_quotes(std::string(300, 'x')), "'" + std::string(255, 'x') + "…'");
  EXPECT_EQ(in_quotes("caf\u00e9", '\'', 4), "'caf\\xc3…'");
}

TEST(escaped, is_what_a_failure_shows_of_its_object) {
  std::string const name = "x\n2026-11-24 sshd: Accepted\x1b[31m";
  unio::failure const f = unio::detail::failed_on(-ENOENT, "open", name.data(), name.size());
  EXPECT_EQ(f.object(), "x\\x0a2026-11-24 sshd: Accepted\\x1b[31m");
  EXPECT_EQ(f.message(), "open x\\x0a2026-11-24 sshd: Accepted\\x1b[31m: No such file or directory");
}

TEST(escaped, is_what_a_failure_shows_of_a_path_that_is_an_address) {
  using unio::endpoint;
  EXPECT_EQ(unio::socket_handle::connected_to(endpoint::unix_path("no/such\n[x").value()).error().object(),
            "unix:no/such\\x0a[x");
  EXPECT_EQ(unio::socket_handle::connected_to(endpoint::unix_path("@no-such\n").value()).error().object(),
            "unix:@no-such\\x0a"); // once, as parse_endpoint reads it
}

} // namespace
