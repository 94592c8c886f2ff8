// Statistics, the table, the JSON.

#include "support/report.hpp"

#include "support/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <memory>
#include <system_error>

namespace benchmarks {

double median(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double lowest(std::vector<double> const& values) { return *std::ranges::min_element(values); }
double highest(std::vector<double> const& values) { return *std::ranges::max_element(values); }

double spread(std::vector<double> const& values) {
  return (highest(values) - lowest(values)) / median(values);
}

std::optional<double> ratio(report const& r, row const& of) {
  if (of.runs.empty()) return std::nullopt;
  for (row const& to : r.rows) {
    if (to.subject == r.reference && to.parameters == of.parameters && !to.runs.empty())
      return median(to.runs) / median(of.runs);
  }
  return std::nullopt;
}

// ── table ──────────────────────────────────────────────────────────────────────────────────────────────

namespace {

constexpr double spread_worth_a_flag = 0.10;

// Three significant digits, without an exponent.
std::string figure(double value) {
  if (value >= 100) return fmt::format("{:.0f}", value);
  if (value >= 10) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

std::vector<std::string> cells(report const& r, row const& line) {
  std::vector<std::string> out;
  for (parameter const& p : line.parameters) out.push_back(p.value);
  out.push_back(line.subject);
  if (line.runs.empty()) {
    out.insert(out.end(), {"-", "-", "-", "-", "not available: " + line.unavailable});
    return out;
  }
  const std::optional<double> times = ratio(r, line);
  const double apart = spread(line.runs);
  out.push_back(figure(median(line.runs)));
  out.push_back(figure(lowest(line.runs)) + " - " + figure(highest(line.runs)));
  out.push_back(fmt::format("{:.2f}", line.allocations));
  out.push_back(times ? fmt::format("{:.2f}", *times) : "-");
  out.push_back(apart > spread_worth_a_flag ? fmt::format("spread {:.0f} %", apart * 100) : "");
  return out;
}

// Rows with the same parameters stand together, groups and their rows in the order in which they were given.
std::vector<row const*> grouped(report const& r) {
  std::vector<row const*> out;
  for (row const& first : r.rows) {
    const auto same = [&](row const* other) { return other->parameters == first.parameters; };
    if (std::ranges::any_of(out, same)) continue;
    for (row const& other : r.rows)
      if (same(&other)) out.push_back(&other);
  }
  return out;
}

} // namespace

void print_table(report const& r) {
  if (r.rows.empty()) {
    fmt::print("{}: no cases\n", r.benchmark);
    return;
  }
  const machine here = this_machine();
  std::size_t rounds = 0;
  for (row const& line : r.rows) rounds = std::max(rounds, line.runs.size());
  fmt::print("{}: ns per {}, median of {} interleaved runs; ratio to '{}', above 1 is faster\n", r.benchmark,
             r.operation, rounds, r.reference);
  fmt::print("{}, {} processors, {}, load {}\n\n", here.cpu, here.processors, here.kernel, here.load);

  const std::size_t keys = r.rows.front().parameters.size();
  std::vector<std::string> head;
  for (parameter const& p : r.rows.front().parameters) head.push_back(p.name);
  head.insert(head.end(), {"subject", "median", "min - max", "allocs", "ratio", ""});
  std::vector<std::vector<std::string>> lines = {head};
  for (row const* line : grouped(r)) lines.push_back(cells(r, *line));

  std::vector<std::size_t> widths(head.size(), 0);
  for (auto const& line : lines)
    for (std::size_t i = 0; i < head.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  for (std::size_t l = 0; l < lines.size(); ++l) {
    const bool new_group =
        l > 1 && !std::equal(lines[l].begin(), lines[l].begin() + static_cast<std::ptrdiff_t>(keys),
                             lines[l - 1].begin());
    if (new_group) fmt::print("\n");
    std::string text;
    for (std::size_t i = 0; i < head.size(); ++i) {
      const bool is_figure = i > keys && i + 1 < head.size();
      if (is_figure) text += fmt::format("{:>{}}  ", lines[l][i], widths[i]);
      if (!is_figure) text += fmt::format("{:<{}}  ", lines[l][i], widths[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    fmt::print("{}\n", text);
  }
}

// ── JSON ───────────────────────────────────────────────────────────────────────────────────────────────

namespace {

std::string quoted(std::string const& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string number_or_string(std::string const& text) {
  long long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::to_string(number) : quoted(text);
}

std::string object(std::vector<parameter> const& parameters) {
  std::string out;
  for (parameter const& p : parameters)
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", quoted(p.name), number_or_string(p.value));
  return "{" + out + "}";
}

std::string object(row const& line) {
  const std::string start =
      fmt::format("{{\"subject\": {}, \"params\": {}, ", quoted(line.subject), object(line.parameters));
  if (line.runs.empty()) return start + fmt::format("\"unavailable\": {}}}", quoted(line.unavailable));
  std::string runs;
  for (const double ns : line.runs) runs += fmt::format("{}{:.4f}", runs.empty() ? "" : ", ", ns);
  return start +
         fmt::format(
             "\"unit\": \"ns\", \"median\": {:.4f}, \"min\": {:.4f}, \"max\": {:.4f}, \"runs\": [{}], "
             "\"extra\": {{\"allocations\": {:.4f}}}}}",
             median(line.runs), lowest(line.runs), highest(line.runs), runs, line.allocations);
}

} // namespace

void write_json(report const& r, std::string const& file) {
  const machine here = this_machine();
  std::string rows;
  std::string ratios;
  for (row const& line : r.rows) {
    rows += fmt::format("{}\n    {}", rows.empty() ? "" : ",", object(line));
    const std::optional<double> times = ratio(r, line);
    if (!times || line.subject == r.reference) continue;
    ratios += fmt::format("{}\n    {{\"of\": {}, \"to\": {}, \"params\": {}, \"value\": {:.4f}}}",
                          ratios.empty() ? "" : ",", quoted(line.subject), quoted(r.reference),
                          object(line.parameters), *times);
  }
  const std::string text = fmt::format(
      "{{\n  \"bench\": {},\n  \"machine\": {{\"cpu\": {}, \"processors\": {}, \"kernel\": {}, \"load\": "
      "{}}},\n"
      "  \"rows\": [{}\n  ],\n  \"ratios\": [{}\n  ]\n}}\n",
      quoted(r.benchmark), quoted(here.cpu), here.processors, quoted(here.kernel), quoted(here.load), rows,
      ratios);

  const auto close = [](std::FILE* f) { std::fclose(f); };
  const std::unique_ptr<std::FILE, decltype(close)> out(std::fopen(file.c_str(), "w"), close);
  const bool written = out && std::fwrite(text.data(), 1, text.size(), out.get()) == text.size() &&
                       std::fflush(out.get()) == 0;
  if (!written) throw std::system_error(errno, std::generic_category(), file);
}

} // namespace benchmarks
