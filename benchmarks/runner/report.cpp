// Statistics, the table, the JSON.

#include "runner/report.hpp"

#include "runner/machine.hpp"
#include "tools/support/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
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
  const double middle = median(values);
  return middle > 0 ? (highest(values) - lowest(values)) / middle : 0;
}

std::optional<double> ratio(report const& r, row const& of, row const& to) {
  if (of.runs.empty() || to.runs.empty()) return std::nullopt;
  const double ours = median(of.runs);
  const double theirs = median(to.runs);
  if (!(ours > 0) || !(theirs > 0)) return std::nullopt;
  return r.of->higher_is_better ? ours / theirs : theirs / ours;
}

namespace {

// What was measured, without how it was built.
std::vector<parameter> same_for_all(std::vector<parameter> parameters) {
  std::erase_if(parameters, [](parameter const& p) { return p.name == "compiler"; });
  return parameters;
}

bool compare(row const& a, row const& b) {
  if (a.parameters == b.parameters) return true;
  const bool one_is_everybodys =
      same_for_all(a.parameters) == a.parameters || same_for_all(b.parameters) == b.parameters;
  return one_is_everybodys && same_for_all(a.parameters) == same_for_all(b.parameters);
}

bool better(report const& r, row const& a, row const& b) {
  const double x = median(a.runs);
  const double y = median(b.runs);
  return r.of->higher_is_better ? x > y : x < y;
}

} // namespace

row const* reference_of(report const& r, row const& of) {
  for (row const& to : r.rows)
    if (to.subject == r.of->reference && !to.runs.empty() && compare(of, to)) return &to;
  return nullptr;
}

row const* best_peer_of(report const& r, row const& of) {
  row const* best = nullptr;
  for (row const& to : r.rows) {
    if (is_ours(to.subject) || to.runs.empty() || !compare(of, to)) continue;
    if (best == nullptr || better(r, to, *best)) best = &to;
  }
  return best;
}

std::optional<verdict> verdict_on(report const& r, row const& line) {
  if (!r.of->wanted) return std::nullopt;
  const std::optional<budget> wanted = r.of->wanted(line.subject, line.parameters);
  if (!wanted) return std::nullopt;
  row const* const peer = wanted->is_to_best ? best_peer_of(r, line) : reference_of(r, line);
  const std::optional<double> is = peer != nullptr ? ratio(r, line, *peer) : std::nullopt;
  if (!is) return std::nullopt;
  return verdict{.wanted = *wanted, .peer = peer, .ratio = *is};
}

std::vector<std::vector<row const*>> grouped(report const& r) {
  std::vector<std::vector<row const*>> groups;
  for (row const& line : r.rows) {
    const auto same = [&](std::vector<row const*> const& g) {
      return g.front()->parameters == line.parameters;
    };
    auto group = std::ranges::find_if(groups, same);
    if (group == groups.end()) group = groups.insert(groups.end(), std::vector<row const*>());
    group->push_back(&line);
  }
  for (auto& group : groups) {
    std::ranges::sort(group, [&](row const* a, row const* b) {
      if (a->runs.empty() != b->runs.empty()) return b->runs.empty();
      if (!a->runs.empty() && (better(r, *a, *b) || better(r, *b, *a))) return better(r, *a, *b);
      return a < b; // as they were given
    });
  }
  return groups;
}

std::string short_number(double value) {
  const double size = std::fabs(value);
  if (size >= 100) return fmt::format("{:.0f}", value);
  if (size >= 10) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

// ── table ──────────────────────────────────────────────────────────────────────────────────────────────

namespace {

std::vector<std::string> names(std::vector<parameter> const& parameters) {
  std::vector<std::string> out;
  for (parameter const& p : parameters) out.push_back(p.name);
  return out;
}

// All that occur, in the order of their first appearance.
struct columns {
  std::vector<std::string> parameters;
  std::vector<std::string> extra;

  explicit columns(report const& r) {
    const auto note = [](std::vector<std::string>& list, std::string const& name) {
      if (std::ranges::find(list, name) == list.end()) list.push_back(name);
    };
    for (row const& line : r.rows) {
      for (std::string const& name : names(line.parameters)) note(parameters, name);
      for (extra_column const& e : line.extra) note(extra, e.name);
    }
  }
};

std::string ratio_cell(report const& r, row const& of, row const* to) {
  if (to == nullptr) return "-";
  const std::optional<double> times = ratio(r, of, *to);
  return times ? fmt::format("{:.2f}", *times) : "-";
}

std::vector<std::string> cells(report const& r, columns const& all, row const& line) {
  std::vector<std::string> out;
  for (std::string const& name : all.parameters) {
    const auto p = std::ranges::find(line.parameters, name, &parameter::name);
    out.push_back(p != line.parameters.end() ? p->value : "");
  }
  out.push_back(line.subject);
  if (line.runs.empty()) {
    out.insert(out.end(), 4 + (r.of->wanted ? 1 : 0) + all.extra.size(), "-");
    out.push_back("not available: " + line.unavailable);
    return out;
  }
  out.push_back(short_number(median(line.runs)));
  out.push_back(short_number(lowest(line.runs)) + " - " + short_number(highest(line.runs)));
  out.push_back(ratio_cell(r, line, reference_of(r, line)));
  out.push_back(ratio_cell(r, line, best_peer_of(r, line)));
  const std::optional<verdict> judged = verdict_on(r, line);
  if (r.of->wanted)
    out.push_back(
        judged ? fmt::format("{:.2f}{}", judged->wanted.ratio, judged->wanted.is_to_best ? " to best" : "")
               : "-");
  for (std::string const& name : all.extra) {
    const auto e = std::ranges::find(line.extra, name, &extra_column::name);
    out.push_back(e != line.extra.end() ? short_number(median(e->runs)) : "-");
  }
  const double apart = spread(line.runs);
  const bool is_missed = judged && judged->is_missed();
  out.emplace_back(is_missed ? "missed" : "");
  if (apart > spread_worth_a_flag)
    out.back() += fmt::format("{}spread {:.0f} %", is_missed ? ", " : "", apart * 100);
  return out;
}

// In columns on the terminal: a letter of two bytes takes one.
std::size_t width(std::string const& text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string aligned(std::string const& text, std::size_t to, bool right) {
  const std::string space(to - width(text), ' ');
  return right ? space + text : text + space;
}

} // namespace

void print_table(report const& r) {
  machine const& here = this_machine();
  std::size_t rounds = 0;
  for (row const& line : r.rows) rounds = std::max(rounds, line.runs.size());
  fmt::print("{}: {}\n", r.of->name, r.of->title);
  fmt::print(
      "{} ({} is better), medians of {} interleaved runs; a ratio above 1 is better than '{}', than the best "
      "peer\n",
      r.of->unit, r.of->higher_is_better ? "more" : "less", rounds, r.of->reference);
  fmt::print("{}, {} processors, {}, {}, pinned: {}, load {}\n\n", here.cpu, here.processors, here.kernel,
             here.compiler, here.pinned, here.load);
  if (r.rows.empty()) {
    fmt::print("no cases\n");
    return;
  }

  const columns all(r);
  const std::size_t keys = all.parameters.size();
  std::vector<std::string> head = all.parameters;
  head.insert(head.end(), {"subject", "median", "min - max", "ratio", "to best"});
  if (r.of->wanted) head.emplace_back("wanted");
  head.insert(head.end(), all.extra.begin(), all.extra.end());
  head.emplace_back();
  const auto groups = grouped(r);
  std::vector<std::vector<std::string>> lines = {head};
  for (auto const& group : groups)
    for (row const* line : group) lines.push_back(cells(r, all, *line));

  std::vector<std::size_t> widths(head.size(), 0);
  for (auto const& line : lines)
    for (std::size_t i = 0; i + 1 < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  std::size_t l = 0;
  const auto print = [&] {
    std::string text;
    for (std::size_t i = 0; i < head.size(); ++i) {
      const bool is_figure = i > keys && i + 1 < head.size();
      text += i + 1 < head.size() ? aligned(lines[l][i], widths[i], is_figure) + "  " : lines[l][i];
    }
    text.erase(text.find_last_not_of(' ') + 1);
    fmt::print("{}\n", text);
    ++l;
  };
  print();
  for (auto const& group : groups) {
    if (l > 1 && keys > 0) fmt::print("\n");
    for (std::size_t i = 0; i < group.size(); ++i) print();
  }
  for (std::string const& note : r.of->notes) fmt::print("\n{}\n", note);
}

// ── JSON ───────────────────────────────────────────────────────────────────────────────────────────────

namespace {

using tools::quoted;

// JSON knows neither infinity nor "not a number".
std::string number(double value) { return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null"; }

std::string number_or_string(std::string const& text) {
  long long n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number ? std::to_string(n) : quoted(text);
}

template <class Range, class F> std::string list(Range const& of, F&& f) {
  std::string out;
  for (auto const& item : of) out += (out.empty() ? "" : ", ") + f(item);
  return out;
}

std::string object(std::vector<parameter> const& parameters) {
  return "{" +
         list(parameters,
              [](parameter const& p) { return quoted(p.name) + ": " + number_or_string(p.value); }) +
         "}";
}

std::string extras(row const& line) {
  std::string out =
      list(line.extra, [](extra_column const& e) { return quoted(e.name) + ": " + number(median(e.runs)); });
  if (!line.histogram.empty()) {
    out += out.empty() ? "" : ", ";
    out += "\"histogram\": [" +
           list(line.histogram,
                [](bucket const& b) { return fmt::format("[{}, {}]", number(b.upper), b.count); }) +
           "]";
  }
  return "{" + out + "}";
}

std::string object(report const& r, row const& line) {
  const std::string start = fmt::format("{{\"subject\": {}, \"params\": {}, \"unit\": {}, ",
                                        quoted(line.subject), object(line.parameters), quoted(r.of->unit));
  if (line.runs.empty()) return start + fmt::format("\"unavailable\": {}}}", quoted(line.unavailable));
  std::string wanted;
  if (const std::optional<verdict> v = verdict_on(r, line))
    wanted = fmt::format(", \"wanted\": {{\"to\": {}, \"ratio\": {}, \"is\": {}}}", quoted(v->peer->subject),
                         number(v->wanted.ratio), number(v->ratio));
  return start + fmt::format("\"median\": {}, \"min\": {}, \"max\": {}, \"runs\": [{}], \"extra\": {}{}}}",
                             number(median(line.runs)), number(lowest(line.runs)), number(highest(line.runs)),
                             list(line.runs, number), extras(line), wanted);
}

void add_ratio(std::vector<std::string>& to, report const& r, row const& of, row const* peer) {
  if (peer == nullptr || peer == &of) return;
  const std::optional<double> times = ratio(r, of, *peer);
  if (!times) return;
  to.push_back(fmt::format("{{\"of\": {}, \"to\": {}, \"params\": {}, \"value\": {}}}", quoted(of.subject),
                           quoted(peer->subject), object(of.parameters), number(*times)));
}

std::string lines(std::vector<std::string> const& items) {
  std::string out;
  for (std::string const& item : items) out += (out.empty() ? "\n    " : ",\n    ") + item;
  return out + "\n  ";
}

std::string object(report const& r) {
  machine const& here = this_machine();
  std::vector<std::string> rows;
  std::vector<std::string> ratios;
  for (row const& line : r.rows) {
    rows.push_back(object(r, line));
    row const* const reference = reference_of(r, line);
    add_ratio(ratios, r, line, reference);
    if (row const* const best = best_peer_of(r, line); is_ours(line.subject) && best != reference)
      add_ratio(ratios, r, line, best);
  }
  const std::string about = fmt::format(
      "\"bench\": {},\n  \"title\": {},\n  \"better\": \"{}\",\n  \"reference\": {}", quoted(r.of->name),
      quoted(r.of->title), r.of->higher_is_better ? "more" : "less", quoted(r.of->reference));
  const std::string made = fmt::format("\"command\": {},\n  \"commit\": {},\n  \"date\": {}",
                                       quoted(r.command), quoted(here.commit), quoted(here.date));
  const std::string on = fmt::format(
      "{{\"cpu\": {}, \"processors\": {}, \"kernel\": {}, \"compiler\": {}, \"pinned\": {}, \"load\": {}}}",
      quoted(here.cpu), here.processors, quoted(here.kernel), quoted(here.compiler), quoted(here.pinned),
      quoted(here.load));
  return fmt::format(
      "{{\n  {},\n  {},\n  \"machine\": {},\n  \"notes\": [{}],\n  \"rows\": [{}],\n  \"ratios\": [{}]\n}}",
      about, made, on, list(r.of->notes, quoted), lines(rows), lines(ratios));
}

} // namespace

void write_file(std::string const& file, std::string const& text) {
  std::FILE* const out = std::fopen(file.c_str(), "w");
  bool written = out != nullptr && std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (out != nullptr) written = std::fclose(out) == 0 && written;
  if (!written) throw std::system_error(errno, std::generic_category(), file);
}

void write_json(std::vector<report> const& reports, bool several, std::string const& file) {
  std::string text;
  for (report const& r : reports) text += (text.empty() ? "" : ",\n") + object(r);
  write_file(file, (several ? "[" + text + "]" : text) + "\n");
}

} // namespace benchmarks
