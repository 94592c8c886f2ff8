// runner/: statistics, ratios, rounds, and what is written.

#include "runner/program.hpp"
#include "runner/report.hpp"
#include "runner/rounds.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace {

using namespace benchmarks;

table times() {
  return {.name = "t", .title = "a <title>", .unit = "ns", .reference = "first", .counted = {}};
}

row measured(std::string subject, std::vector<double> runs, std::vector<parameter> parameters = {}) {
  return {.subject = std::move(subject), .parameters = std::move(parameters), .runs = std::move(runs)};
}

benchmark_case constant(std::string subject, double value) {
  return {.subject = std::move(subject), .parameters = {}, .run = [value](std::uint64_t n) {
            return sample{.elapsed_ns = static_cast<double>(n) * 1000, .value = value};
          }};
}

std::string contents(std::string const& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

std::string temporary(char const* name) { return (std::filesystem::temp_directory_path() / name).string(); }

TEST(statistics, of_odd_and_even_counts) {
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({4, 1, 2, 3}), 2.5);
  EXPECT_DOUBLE_EQ(spread({90, 100, 120}), 0.3);
  EXPECT_EQ(spread({0, 0}), 0);
}

TEST(ratio, above_one_always_means_that_the_first_is_better) {
  table t = times();
  const report less_is_better{.of = &t, .rows = {}};
  EXPECT_EQ(*ratio(less_is_better, measured("fast", {50}), measured("slow", {100})), 2);
  table u = times();
  u.higher_is_better = true;
  const report more_is_better{.of = &u, .rows = {}};
  EXPECT_EQ(*ratio(more_is_better, measured("fast", {100}), measured("slow", {50})), 2);
  EXPECT_FALSE(ratio(less_is_better, measured("fast", {50}), measured("absent", {})));
}

TEST(best_peer, is_none_of_ours_and_of_the_same_parameters) {
  table t = times();
  const report r{.of = &t,
                 .rows = {measured("first", {100}, {{"n", "1"}}), measured("second", {80}, {{"n", "1"}}),
                          measured("unio", {10}, {{"n", "1"}}), measured("third", {1}, {{"n", "2"}})}};
  EXPECT_EQ(best_peer_of(r, r.rows[2])->subject, "second");
  EXPECT_EQ(reference_of(r, r.rows[2])->subject, "first");
  EXPECT_EQ(reference_of(r, r.rows[3]), nullptr);
}

TEST(best_peer, without_a_compiler_is_everybodys_but_compilers_do_not_mix) {
  table t = times();
  const report r{.of = &t,
                 .rows = {measured("first", {100}), measured("peer", {50}, {{"compiler", "g++"}}),
                          measured("unio", {10}, {{"compiler", "clang++"}})}};
  EXPECT_EQ(best_peer_of(r, r.rows[2])->subject, "first");
}

TEST(groups, have_the_best_first_and_what_is_missing_last) {
  table t = times();
  row missing = measured("missing", {});
  missing.unavailable = "why";
  const report r{.of = &t, .rows = {missing, measured("slow", {9}), measured("fast", {3})}};
  const auto groups = grouped(r);
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0][0]->subject, "fast");
  EXPECT_EQ(groups[0][2]->subject, "missing");
}

TEST(rounds, have_each_case_once_in_an_order_of_their_own) {
  std::vector<std::string> orders(1);
  table t = times();
  for (char const* name : {"a", "b", "c", "d"})
    t.cases.push_back({.subject = name,
                       .parameters = {{"half", *name < 'c' ? "first" : "second"}},
                       .run =
                           [&orders, name](std::uint64_t) {
                             if (orders.back().size() == 4) orders.emplace_back();
                             orders.back() += name;
                             return sample{.value = 1};
                           },
                       .unavailable = {},
                       .operations = 1});
  t.rounds = 64;
  const report r = measure_table(t, {});
  EXPECT_EQ(r.rows[0].runs.size(), 64u);
  EXPECT_EQ(orders.size(), 64u);
  // Those that are compared stay together.
  EXPECT_EQ(std::set(orders.begin(), orders.end()), (std::set<std::string>{"abcd", "abdc", "bacd", "badc"}));
}

TEST(rounds, keep_a_subject_that_fails_with_its_reason) {
  table t = times();
  t.cases.push_back(constant("first", 7));
  t.cases.push_back({.subject = "bad", .parameters = {}, .run = [](std::uint64_t) -> sample {
                       throw std::runtime_error("no luck");
                     }});
  t.cases.push_back({.subject = "absent", .parameters = {}, .run = nullptr, .unavailable = "not installed"});
  const report r = measure_table(t, {.rounds = 2, .run_ms = 0.01});
  ASSERT_EQ(r.rows.size(), 3u);
  EXPECT_EQ(r.rows[0].runs, (std::vector<double>{7, 7}));
  EXPECT_EQ(r.rows[1].unavailable, "no luck");
  EXPECT_EQ(r.rows[2].unavailable, "not installed");
}

TEST(rounds, merge_histograms) {
  table t = times();
  t.cases.push_back({.subject = "h",
                     .parameters = {},
                     .run = [](std::uint64_t) { return sample{.value = 1, .histogram = {{1, 2}, {5, 1}}}; },
                     .unavailable = {},
                     .operations = 1});
  const report r = measure_table(t, {.rounds = 3});
  ASSERT_EQ(r.rows[0].histogram.size(), 2u);
  EXPECT_EQ(r.rows[0].histogram[0].count, 6u);
}

TEST(sample, is_read_as_it_was_said) {
  const sample s = sample_from("sample\t1000\t2.5\tp99 µs=7\tx=y=3\thistogram\t1.5:10\t20:1");
  EXPECT_EQ(s.elapsed_ns, 1000);
  EXPECT_EQ(s.value, 2.5);
  ASSERT_EQ(s.extra.size(), 2u);
  EXPECT_EQ(s.extra[1].name, "x=y");
  ASSERT_EQ(s.histogram.size(), 2u);
  EXPECT_EQ(s.histogram[0].count, 10u);
}

TEST(sample, that_is_none_is_refused) {
  EXPECT_THROW(sample_from("sample\t1"), std::runtime_error);
  EXPECT_THROW(sample_from("hello"), std::runtime_error);
  EXPECT_THROW(sample_from("sample\t1\tx"), std::exception);
  try {
    sample_from("failed\tthe reason");
    FAIL();
  } catch (std::runtime_error const& e) {
    EXPECT_STREQ(e.what(), "the reason");
  }
}

TEST(program, that_is_missing_is_a_case_with_the_reason) {
  const auto cases = program_cases({.programs = "/nowhere"}, "some_bench");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_FALSE(cases[0].run);
  EXPECT_EQ(cases[0].unavailable, "not built: /nowhere/some_bench");
}

TEST(program, that_knows_no_serve_is_a_case_with_the_reason) {
  const auto cases = program_cases({.programs = "/bin"}, "true");
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].unavailable, "/bin/true ended early");
}

TEST(program, says_its_exit_status_and_its_output) {
  child_program ends({"/bin/sh", "-c", "echo hello; exit 3"}, -1);
  const auto [output, status] = ends.wait(std::chrono::seconds(10));
  EXPECT_EQ(output, "hello\n");
  EXPECT_EQ(status, 3);
  EXPECT_THROW(child_program({"/nowhere/program"}, -1), std::system_error);
}

TEST(program, that_says_nothing_is_given_up) {
  child_program sleeps({"/bin/sleep", "30"}, -1);
  EXPECT_THROW(sleeps.read_line(std::chrono::seconds(0)), std::runtime_error);
}

TEST(page, escapes_what_it_shows_and_refers_to_nothing) {
  table t = times();
  report r{.of = &t, .rows = {measured("first", {1, 2, 3}), measured("unio <x>", {1})}};
  r.rows[0].histogram = {{1, 5}, {9, 1}};
  const std::string file = temporary("unio_bench_test.html");
  write_html({r}, file);
  const std::string page = contents(file);
  std::filesystem::remove(file);
  EXPECT_NE(page.find("unio &lt;x&gt;"), std::string::npos);
  EXPECT_EQ(page.find("<x>"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);
  EXPECT_NE(page.find("<svg"), std::string::npos);
}

TEST(json, has_the_ratios_and_the_reasons) {
  table t = times();
  report r{
      .of = &t,
      .rows = {measured("first", {4}, {{"depth", "10"}}), measured("unio \"q\"", {2}, {{"depth", "10"}})}};
  r.rows.push_back({.subject = "gone", .parameters = {}, .unavailable = "not here"});
  const std::string file = temporary("unio_bench_test.json");
  write_json({r}, false, file);
  const std::string text = contents(file);
  std::filesystem::remove(file);
  EXPECT_NE(text.find(R"({"of": "unio \"q\"", "to": "first", "params": {"depth": 10}, "value": 2})"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(R"("unavailable": "not here")"), std::string::npos);
  EXPECT_THROW(write_json({r}, false, "/nowhere/file.json"), std::system_error);
}

} // namespace
