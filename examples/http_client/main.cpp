// Shows     an HTTP client: a page by name, over TLS, through redirections, in chunks, with one deadline for
//           all of it. The page goes to the standard output as it arrives.
// Run       build/release/examples/example_http_client URL [ROOTS.pem], such as https://example.org/
// Read next ../file_server/main.cpp, <unio/connect_to.hpp>. The idea is liburing4cpp's http_client

#include "../support/http.hpp"

#include <unio/connect_to.hpp>
#include <unio/tls.hpp>
#include <unio/unio.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>

using namespace std::chrono_literals;

namespace {

[[noreturn]] void fail(std::string const& what) { throw std::runtime_error(what); }
template <class Result> auto value(Result got, std::string const& what) {
  if (!got) throw std::system_error(got.error(), what);
  return *std::move(got);
}

http::url parse(std::string const& text) {
  auto const found = http::url::parse(text);
  if (!found) fail("'" + text + "' is no address that begins with http:// or https://");
  return *found;
}

// Writes what arrives to the standard output: as many bytes, or all until the end.
unio::task<> show(unio::buffered_stream& from, std::uint64_t bytes) {
  std::array<char, 16384> room;
  while (bytes != 0) {
    unio::mutable_buffer const wanted(room.data(), std::min<std::uint64_t>(room.size(), bytes));
    auto const got = co_await from.co_read(wanted);
    unio::mutable_buffers const parts = value(got, "reading");
    if (got.bytes_transferred() == 0) {
      if (bytes == unio::no_limit) co_return;
      fail("the page is shorter than it should be");
    }
    for (unio::mutable_buffer const part : parts)
      if (std::fwrite(part.data(), 1, part.size(), stdout) != part.size())
        fail("the standard output is full");
    if (bytes != unio::no_limit) bytes -= got.bytes_transferred();
  }
}

// RFC 9112 §6.3.
unio::task<> show_body(unio::buffered_stream& from, http::head const& head) {
  std::string_view const coding = head["transfer-encoding"], length = head["content-length"];
  if (coding.empty() && length.empty()) co_return co_await show(from, unio::no_limit);
  if (coding.empty()) {
    auto const bytes = http::number(length, 10);
    if (!bytes) fail("a length that is none");
    co_return co_await show(from, *bytes);
  }
  if (coding != "chunked") fail("an unknown coding: " + std::string(coding));
  for (std::uint64_t bytes = 1; bytes != 0;) {
    std::string_view const line = value(co_await from.co_read_line(), "reading");
    auto const size = http::number(line.substr(0, line.find_first_of("; ")), 16);
    if (!size) fail("a chunk without a length");
    co_await show(from, bytes = *size);
    if (bytes != 0 && !value(co_await from.co_read_line(), "reading").empty())
      fail("a chunk that is too long");
  }
}

unio::task<std::string> read_head(unio::buffered_stream& from) {
  std::string text;
  for (bool is_last = false; !is_last;) {
    std::string_view const line = value(co_await from.co_read_line(), "reading");
    is_last = line.empty();
    text.append(line).append("\r\n");
    if (text.size() > 65'536) fail("an answer that is nothing but its head");
  }
  co_return text;
}

// Shows it, or says where it is: an absolute URL, or a target on the same host.
unio::task<std::string> get(http::url const& from, unio::tls_context const& trust) {
  std::string const there = from.host_and_port();
  auto socket = value(co_await unio::co_connect_to(there), there);
  unio::tls_stream secure(socket, trust, from.name());
  if (from.is_secure) {
    auto const met = co_await secure.co_handshake();
    if (!secure.why().empty()) fail(secure.why());
    value(met, from.host);
  }
  unio::any_stream const wire = from.is_secure ? unio::any_stream(secure) : unio::any_stream(socket);
  std::string const request = "GET " + from.target + " HTTP/1.1\r\nHost: " + from.host +
                              "\r\nUser-Agent: unio\r\nConnection: close\r\n\r\n";
  value(co_await unio::co_write(wire, request), "writing");

  unio::buffered_stream in(wire, 16'384);
  for (;;) {
    std::string const text = co_await read_head(in);
    auto const head = http::head::parse(text);
    if (!head || !head->line().starts_with("HTTP/1.")) fail("an answer that is no HTTP");
    std::string_view const status =
        head->line().substr(std::min(head->line().find(' ') + 1, head->line().size()));
    if (status.starts_with('1')) continue; // more follows
    if (status.starts_with('3') && !(*head)["location"].empty()) co_return std::string((*head)["location"]);
    if (!status.starts_with("200")) fail(from.host + from.target + ": " + std::string(status));
    co_await show_body(in, *head);
    co_return "";
  }
}

unio::task<> fetch(std::string text, unio::tls_context trust) {
  for (int redirections = 0; redirections != 6; ++redirections) {
    http::url const here = parse(text);
    std::string const next = co_await get(here, trust);
    if (next.empty()) co_return;
    std::string const scheme = text.substr(0, text.find("//"));
    text = next.starts_with("//")  ? scheme + next
           : next.starts_with('/') ? scheme + "//" + here.host + next
                                   : next;
    if (here.is_secure && !parse(text).is_secure)
      fail("'" + text + "' is not secure, where '" + here.host + "' is");
  }
  fail("it only leads elsewhere");
}

unio::task<unio::result<void>> fetch_in_time(std::string text, unio::tls_context trust) {
  co_return co_await unio::timeout(30s, fetch(std::move(text), std::move(trust)));
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) return std::fprintf(stderr, "usage: example_http_client URL [ROOTS.pem]\n"), 2;
  unio::tls_options options;
  if (argc > 2) options.roots = unio::tls_pem::file(argv[2]);
  std::string why;
  auto const trust = unio::tls_context::client(options, &why);
  if (!trust) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  try {
    unio::run(fetch_in_time(argv[1], *trust)).value();
    if (std::fflush(stdout) == 0) return 0;
    why = "the standard output is full";
  } catch (std::exception const& e) {
    why = e.what();
  }
  return std::fprintf(stderr, "%s\n", why.c_str()), 1;
}
