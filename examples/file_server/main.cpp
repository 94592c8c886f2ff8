// Shows     a web server of files: GET and HEAD, keep-alive, pipelining, ranges, conditions. The bytes go
//           from the file through a pipe to the socket, and never enter this process.
// Run       build/release/examples/example_file_server DIRECTORY ADDRESS, such as . 127.0.0.1:8080
// Read next ../http_client/main.cpp, <unio/splice.hpp>. The idea is liburing4cpp's file_server

#include "../support/http.hpp"

#include <unio/unio.hpp>

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <string>

using namespace std::chrono_literals;

namespace {

struct connection {
  unio::socket_handle socket;
  unio::anonymous_pipe pipe;
  unio::path_handle const& root;

  // False, as below: the connection cannot go on.
  unio::task<bool> say(std::string head) {
    co_return (co_await unio::co_write(socket, head, 30s)).has_value();
  }

  unio::task<bool> send(unio::file_handle& file, http::part p) {
    while (p.begin < p.end) {
      std::size_t left = std::min<std::uint64_t>(p.end - p.begin, 65'536);
      auto const got = co_await unio::co_splice(file, pipe.writer, {.bytes = left, .from_offset = p.begin});
      if (!got || *got == 0) co_return false; // the file has become shorter
      p.begin += *got;
      for (left = *got; left != 0;) {
        auto const sent = co_await unio::co_splice(pipe.reader, socket, {.bytes = left}, 30s);
        if (!sent) co_return false;
        left -= *sent;
      }
    }
    co_return true;
  }

  unio::task<bool> answer(std::string_view text) {
    auto const asked = http::head::parse(text);
    std::string_view const line = asked ? asked->line() : "";
    std::size_t const a = std::min(line.find(' '), line.size()),
                      b = std::min(line.find(' ', a + 1), line.size());
    bool const is_head = line.substr(0, a) == "HEAD";
    std::string_view const version = line.substr(std::min(b + 1, line.size()));
    bool const is_understood = (is_head || line.substr(0, a) == "GET") && version.starts_with("HTTP/1.");
    bool const has_body =
        asked && !((*asked)["content-length"].empty() && (*asked)["transfer-encoding"].empty());
    if (!is_understood || has_body) {
      co_await say("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
      co_return false;
    }
    bool const goes_on = version != "HTTP/1.0" && (*asked)["connection"] != "close";
    std::string const path = http::path_of(line.substr(a + 1, b - a - 1));
    auto file = co_await unio::co_open(root, path);
    struct stat is{};
    if (path.empty() || !file || ::fstat(file->native_handle(), &is) != 0 || !S_ISREG(is.st_mode))
      co_return co_await say("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n") && goes_on;

    auto const size = static_cast<std::uint64_t>(is.st_size);
    char etag[64], date[64];
    std::snprintf(etag, sizeof etag, "\"%lx-%lx-%lx\"", is.st_mtim.tv_sec, is.st_mtim.tv_nsec, is.st_size);
    std::tm day{};
    std::strftime(date, sizeof date, "%a, %d %b %Y %T GMT", ::gmtime_r(&is.st_mtim.tv_sec, &day));
    std::string const about = std::string("ETag: ") + etag + "\r\nLast-Modified: " + date +
                              (goes_on ? "\r\n\r\n" : "\r\nConnection: close\r\n\r\n");
    std::string_view const known = (*asked)["if-none-match"], since = (*asked)["if-modified-since"];
    if (known == etag || (known.empty() && since == date))
      co_return co_await say("HTTP/1.1 304 Not Modified\r\n" + about) && goes_on;

    std::string_view const range = (*asked)["range"], only_of = (*asked)["if-range"];
    bool const may_be_part = only_of.empty() || only_of == etag || only_of == date;
    http::part const wanted = may_be_part ? http::part_of(range, size) : http::part{0, size};
    std::string const bytes = "Content-Length: " + std::to_string(wanted.end - wanted.begin) + "\r\n";
    if (wanted.begin == 0 && wanted.end == size) {
      if (!co_await say("HTTP/1.1 200 OK\r\nAccept-Ranges: bytes\r\n" + bytes + about)) co_return false;
    } else if (wanted.begin >= size) {
      co_return co_await say(
          "HTTP/1.1 416 Range Not Satisfiable\r\nContent-Length: 0\r\nContent-Range: bytes */" +
          std::to_string(size) + "\r\n" + about) &&
          goes_on;
    } else {
      std::string const which = std::to_string(wanted.begin) + "-" + std::to_string(wanted.end - 1);
      if (!co_await say("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes " + which + "/" +
                        std::to_string(size) + "\r\n" + bytes + about))
        co_return false;
    }
    if (!is_head && !co_await send(*file, wanted)) co_return false;
    co_return goes_on;
  }
};

unio::task<> serve(unio::socket_handle socket, unio::path_handle const& root) {
  auto pipe = unio::pipe_handle::anonymous();
  if (!pipe) co_return;
  connection c{std::move(socket), std::move(*pipe), root};
  std::string text;
  for (;;) {
    auto const end =
        co_await unio::co_read_until(c.socket, unio::dynamic_buffer(text, 8192), "\r\n\r\n", 30s);
    if (!end) co_return; // it has gone, says nothing, or says too much
    if (!co_await c.answer(std::string_view(text).substr(0, *end))) co_return;
    text.erase(0, *end);
  }
}

unio::task<unio::result<void>> serve_all(unio::listening_socket_handle& listening,
                                         unio::path_handle const& root) {
  unio::task_group connections(co_await unio::this_coro::environment);
  auto const start = [&](unio::socket_handle s) { connections.start(serve(std::move(s), root)); };
  unio::result<void> const ended = co_await unio::co_for_each_connection(listening, start);
  co_await connections.co_join();
  co_return ended;
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: example_file_server DIRECTORY ADDRESS\n"), 2;
  auto const root = unio::path_handle::path(argv[1]);
  if (!root) return std::fprintf(stderr, "%s\n", root.error().message().c_str()), 1;
  std::string why;
  auto const at = unio::parse_endpoint(argv[2], &why);
  if (!at) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  auto listening = unio::listening_socket_handle::listen(*at);
  if (!listening) return std::fprintf(stderr, "%s\n", listening.error().message().c_str()), 1;
  unio::ignore_sigpipe().value(); // splice(2) would raise it
  std::printf("listening on %s\n", to_string(listening->local_endpoint().value()).c_str());
  std::fflush(stdout);
  auto const ended = unio::run(serve_all(*listening, *root));
  return std::fprintf(stderr, "%s\n", ended.error().message().c_str()), 1;
}
