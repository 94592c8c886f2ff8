// The main program of whatever has cases.

#include "support/fields.hpp"
#include "support/measure.hpp"
#include "tools/support/system_calls.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <string_view>

namespace benchmarks {
namespace {

constexpr std::string_view usage = R"(usage: {0} --list                                lists the cases
       {0} --run CASE OPERATIONS [nothing|allocations|system_calls]
                                             runs one of them once: under perf, strace, callgrind ...
       {0} --serve                               runs them for `unio bench`, which asks on standard input
)";

counting counting_named(std::string const& name) {
  if (name == "nothing") return counting::nothing;
  if (name == "allocations") return counting::allocations;
  if (name == "system_calls") return counting::system_calls;
  throw std::invalid_argument("nothing, allocations and system_calls can be counted, not " + name);
}

std::uint64_t number(std::string const& text) {
  std::uint64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument("not a number: " + text);
  return n;
}

// In a child of its own, which is traced; between the marks that measure() makes.
sample count_system_calls(benchmark_case const& c, std::uint64_t operations) {
  const std::optional<std::uint64_t> calls = tools::system_calls_of([&] {
    (void)c.run(operations);
    return true;
  });
  if (!calls) return {};
  return {.extra = {{"system calls", static_cast<double>(*calls) / static_cast<double>(operations)}}};
}

sample run(std::vector<benchmark_case> const& cases, std::string const& which, std::string const& operations,
           std::string const& what) {
  const std::uint64_t i = number(which);
  if (i >= cases.size() || !cases[i].run) throw std::invalid_argument("no case " + which + " here");
  const std::uint64_t n = number(operations);
  if (n == 0) throw std::invalid_argument("no operations to do");
  const counting counted = counting_named(what);
  count_now(counted);
  sample s = counted == counting::system_calls ? count_system_calls(cases[i], n) : cases[i].run(n);
  count_now(counting::nothing);
  return s;
}

std::string line_of(sample const& s) {
  std::string out = fmt::format("sample\t{}\t{}", s.elapsed_ns, s.value);
  for (figure const& f : s.extra) out += fmt::format("\t{}={}", f.name, f.value);
  if (s.histogram.empty()) return out;
  out += "\thistogram";
  for (bucket const& b : s.histogram) out += fmt::format("\t{}:{}", b.upper, b.count);
  return out;
}

std::string line_of(benchmark_case const& c) {
  std::string out = c.run ? fmt::format("case\t{}\t{}", c.operations, c.subject)
                          : fmt::format("missing\t{}\t{}", c.unavailable, c.subject);
  for (parameter const& p : c.parameters) out += fmt::format("\t{}={}", p.name, p.value);
  return out;
}

// A line without its end; false at the end of the input.
bool read_line(std::string& line) {
  line.clear();
  for (int c = std::getchar(); c != EOF; c = std::getchar()) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
  }
  return false;
}

void say(std::string const& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

int serve(std::vector<benchmark_case> const& cases) {
  for (benchmark_case const& c : cases) say(line_of(c));
  say("end");
  for (std::string line; read_line(line);) {
    const std::vector<std::string> fields = split(line);
    if (fields.size() != 4 || fields[0] != "run") throw std::invalid_argument("not understood: " + line);
    try {
      say(line_of(run(cases, fields[1], fields[2], fields[3])));
    } catch (std::exception const& e) {
      count_now(counting::nothing);
      say(fmt::format("failed\t{}", e.what()));
    }
  }
  return 0;
}

} // namespace

int subject_main(int argc, char** argv, std::vector<benchmark_case> const& cases) try {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::string option = arguments.empty() ? "" : arguments[0];
  if (option == "--serve" && arguments.size() == 1) return serve(cases);
  if (option == "--list" && arguments.size() == 1) {
    for (std::size_t i = 0; i < cases.size(); ++i) fmt::print("{}\t{}\n", i, line_of(cases[i]));
    return 0;
  }
  if (option == "--run" && (arguments.size() == 3 || arguments.size() == 4)) {
    say(line_of(run(cases, arguments[1], arguments[2], arguments.size() == 4 ? arguments[3] : "nothing")));
    return 0;
  }
  fmt::print(option == "--help" ? stdout : stderr, fmt::runtime(usage), argv[0]);
  return option == "--help" ? 0 : 2;
} catch (std::invalid_argument const& e) {
  fmt::print(stderr, "{}: {}\n", argv[0], e.what());
  return 2;
} catch (std::exception const& e) {
  fmt::print(stderr, "{}: {}\n", argv[0], e.what());
  return 1;
}

} // namespace benchmarks
