// asio/, and what it needs of echo/ and runner/: what is wanted of a row, an answer's end, a summary of
// strace's.

#include "asio/wanted.hpp"
#include "echo/calls.hpp"
#include "echo/http_answer.hpp"
#include "runner/report.hpp"

#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>

namespace {

using namespace benchmarks;

std::optional<budget> wanted(std::string const& subject, std::string const& work) {
  return wanted_of_asio(subject, {{"work", work}, {"connections", "16"}});
}

TEST(wanted, of_epoll_is_what_asio_achieves_and_of_a_ring_more_than_its_better_reactor) {
  EXPECT_EQ(wanted("unio asio, epoll", work_callbacks)->ratio, 1);
  EXPECT_FALSE(wanted("unio asio, epoll", work_callbacks)->is_to_best);
  EXPECT_EQ(wanted("unio asio, io_uring", work_coroutines)->ratio, 1.1);
  EXPECT_TRUE(wanted("unio asio, io_uring", work_coroutines)->is_to_best);
  EXPECT_EQ(wanted("unio asio, io_uring", work_http)->ratio, 1.15);
  EXPECT_EQ(wanted("unio asio, io_uring", work_on_strands)->ratio, 1);
  EXPECT_EQ(wanted("unio adapter, io_uring", work_coroutines)->ratio, 1);
}

TEST(wanted, of_peers_is_nothing) { EXPECT_FALSE(wanted("asio, io_uring", work_callbacks)); }

TEST(verdict, compares_with_the_reference_or_the_best_peer) {
  table t{
      .name = "t", .title = "", .unit = "", .higher_is_better = true, .reference = "first", .counted = {}};
  report r{.of = &t,
           .rows = {{.subject = "first", .parameters = {}, .runs = {100}},
                    {.subject = "second", .parameters = {}, .runs = {200}},
                    {.subject = "unio", .parameters = {}, .runs = {150}}}};
  EXPECT_FALSE(verdict_on(r, r.rows[2]));
  t.wanted = [](std::string const& subject, auto const&) {
    return is_ours(subject) ? std::optional(budget{.ratio = 1.2}) : std::nullopt;
  };
  EXPECT_FALSE(verdict_on(r, r.rows[0]));
  EXPECT_EQ(verdict_on(r, r.rows[2])->ratio, 1.5);
  EXPECT_FALSE(verdict_on(r, r.rows[2])->is_missed());
  t.wanted = [](auto const&, auto const&) { return std::optional(budget{.ratio = 1, .is_to_best = true}); };
  EXPECT_EQ(verdict_on(r, r.rows[2])->ratio, 0.75);
  EXPECT_EQ(verdict_on(r, r.rows[2])->peer->subject, "second");
  EXPECT_TRUE(verdict_on(r, r.rows[2])->is_missed());
  r.rows[1].runs.clear();
  r.rows[0].runs.clear();
  EXPECT_FALSE(verdict_on(r, r.rows[2]));
}

TEST(http_answer, ends_where_its_length_says) {
  std::string const head = "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 12\r\n\r\n";
  EXPECT_EQ(size_of_http_answer(head), head.size() + 12);
  EXPECT_EQ(size_of_http_answer(head + "abc"), head.size() + 12);
  EXPECT_EQ(size_of_http_answer("HTTP/1.1 200 OK\r\nContent-Length: 12\r\n"), 0u);
  EXPECT_EQ(size_of_http_answer(""), 0u);
}

TEST(http_answer, that_is_no_success_or_has_no_length_fails) {
  EXPECT_THROW((void)size_of_http_answer("HTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\n"),
               std::runtime_error);
  EXPECT_THROW((void)size_of_http_answer("HTTP/1.1 200 OK\r\nServer: x\r\n\r\n"), std::runtime_error);
  EXPECT_THROW((void)size_of_http_answer("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"), std::runtime_error);
  EXPECT_THROW((void)size_of_http_answer("HTTP/1.1 200 OK\r\nContent-Length: 12x\r\n\r\n"),
               std::runtime_error);
}

TEST(calls, are_the_total_of_a_summary) {
  std::istringstream some(
      "    calls syscall\n--------- -----\n     1234 read\n       12 write\n--------- -----\n     1246 "
      "total\n");
  std::istringstream none("strace: attach: ptrace(PTRACE_SEIZE, 1): Operation not permitted\n");
  EXPECT_EQ(total_of_calls(some), 1246u);
  EXPECT_THROW((void)total_of_calls(none), std::runtime_error);
}

} // namespace
