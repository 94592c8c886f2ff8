// The page: a chart and a table for each report, in one file that needs no network and no script.
//
//   bars         a bar per subject with a whisker from the least to the most; ours stand out
//   curves       a line per subject along one parameter, or along the percentiles
//   histograms   one small picture per subject, all of a group with the same axis

#include "runner/machine.hpp"
#include "runner/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace benchmarks {
namespace {

constexpr double chart_width = 860;
constexpr double label_width = 270;

constexpr std::string_view style = R"(
:root { color-scheme: light dark; --back: #fff; --text: #1c2024; --faint: #60646c; --rule: #d9dce1;
  --peer: #a9b0ba; --ours: #0b68cb;
  --c0: #0b68cb; --c1: #c2410c; --c2: #15803d; --c3: #9333ea; --c4: #b45309; --c5: #0e7490; --c6: #be185d;
  --c7: #4d7c0f; }
@media (prefers-color-scheme: dark) { :root { --back: #15181c; --text: #e6e8eb; --faint: #a0a6af;
  --rule: #363c44; --peer: #6b7480; --ours: #5aa9ff;
  --c0: #5aa9ff; --c1: #fb923c; --c2: #4ade80; --c3: #c084fc; --c4: #fbbf24; --c5: #22d3ee; --c6: #f472b6;
  --c7: #a3e635; } }
body { background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; max-width: 1100px;
  margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.25rem; margin-top: 3rem; border-top: 1px solid var(--rule);
  padding-top: 1.2rem; } h3 { font-size: 1rem; margin: 1.4rem 0 .3rem; }
p.faint, caption { color: var(--faint); } nav a { margin-right: 1em; color: var(--ours); }
svg { display: block; max-width: 100%; height: auto; font: 12px system-ui, sans-serif; }
  svg text { fill: var(--text); } svg .faint { fill: var(--faint); }
.peer { fill: var(--peer); } .ours { fill: var(--ours); } .whisker, .axis { stroke: var(--text); fill: none; }
  .grid { stroke: var(--rule); fill: none; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; margin: .8rem 0;
  font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid var(--rule); text-align: right;
  white-space: nowrap; }
  th.left, td.left { text-align: left; } tr.ours-row td { font-weight: 600; }
.flag { color: var(--faint); font-weight: 400; }
)";

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string parameters_text(std::vector<parameter> const& parameters, std::string_view without = {}) {
  std::string out;
  for (parameter const& p : parameters)
    if (p.name != without) out += (out.empty() ? "" : ", ") + p.name + " " + p.value;
  return out;
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view css = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" class=\"{}\">{}</text>\n", x, y,
                     anchor, css, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view css) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" class=\"{}\"/>\n", x1, y1,
                     x2, y2, css);
}

std::string svg(double width, double height, std::string_view title, std::string const& content) {
  return fmt::format(
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" role=\"img\" aria-label=\"{}\">\n{}</svg>\n",
      width, height, width, escaped(title), content);
}

// ── bars ───────────────────────────────────────────────────────────────────────────────────────────────

std::string bars(report const& r, std::vector<row const*> const& group) {
  double most = 0;
  for (row const* l : group)
    if (!l->runs.empty()) most = std::max(most, highest(l->runs));
  if (!(most > 0)) return "";
  const double room = chart_width - label_width - 80;
  std::string content;
  double y = 4;
  for (row const* l : group) {
    content += text_at(label_width - 8, y + 13, "end", l->subject);
    if (l->runs.empty()) {
      content += text_at(label_width, y + 13, "start", "not available", "faint");
    } else {
      const auto x = [&](double value) { return label_width + room * value / most; };
      const double middle = median(l->runs);
      content += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"14\" "
          "class=\"{}\"><title>{}</title></rect>\n",
          label_width, y + 2, std::max(x(middle) - label_width, 1.0), is_ours(l->subject) ? "ours" : "peer",
          escaped(fmt::format("{}: {} {}, {} to {}", l->subject, short_number(middle), r.of->unit,
                              short_number(lowest(l->runs)), short_number(highest(l->runs)))));
      content += line(x(lowest(l->runs)), y + 9, x(highest(l->runs)), y + 9, "whisker");
      content += line(x(lowest(l->runs)), y + 5, x(lowest(l->runs)), y + 13, "whisker");
      content += line(x(highest(l->runs)), y + 5, x(highest(l->runs)), y + 13, "whisker");
      content +=
          text_at(x(std::max(middle, highest(l->runs))) + 6, y + 13, "start", short_number(middle), "faint");
    }
    y += 20;
  }
  return svg(chart_width, y + 4, r.of->title, content);
}

// ── curves ─────────────────────────────────────────────────────────────────────────────────────────────

struct curve {
  std::string name;
  std::vector<std::optional<double>> values; // one per position
};

// Positions at equal distances; the values by their logarithm if they differ much.
std::string curves(std::string_view title, std::string_view unit, std::vector<std::string> const& positions,
                   std::vector<curve> const& all) {
  double least = HUGE_VAL;
  double most = 0;
  for (curve const& c : all) {
    for (auto const& v : c.values) {
      if (!v || !(*v > 0)) continue;
      least = std::min(least, *v);
      most = std::max(most, *v);
    }
  }
  if (!(most > 0) || positions.size() < 2) return "";
  const bool logarithmic = most / least > 20;
  const double left = 64;
  const double right = chart_width - 20;
  const double top = 14;
  const double bottom = 300;
  const auto x = [&](std::size_t i) {
    return left +
           (right - left) * (static_cast<double>(i) + 0.02) / (static_cast<double>(positions.size()) - 0.96);
  };
  const double low = logarithmic ? std::log10(least) : 0;
  const double high = logarithmic ? std::log10(most) : most;
  const auto y = [&](double v) {
    return bottom - (bottom - top) * ((logarithmic ? std::log10(v) : v) - low) / std::max(high - low, 1e-9);
  };

  std::string content;
  for (int i = 0; i <= 4; ++i) {
    const double at = low + (high - low) * i / 4;
    const double v = logarithmic ? std::pow(10, at) : at;
    const double level = bottom - (bottom - top) * i / 4;
    content += line(left, level, right, level, "grid") +
               text_at(left - 6, level + 4, "end", short_number(v), "faint");
  }
  for (std::size_t i = 0; i < positions.size(); ++i)
    content += text_at(x(i), bottom + 18, "middle", positions[i], "faint");
  content +=
      text_at(left, bottom + 36, "start", std::string(unit) + (logarithmic ? ", logarithmic" : ""), "faint");

  double legend = bottom + 60;
  std::size_t n = 0;
  for (curve const& c : all) {
    std::string points;
    std::string dots;
    const std::string colour = fmt::format("var(--c{})", n % 8);
    for (std::size_t i = 0; i < c.values.size(); ++i) {
      if (!c.values[i] || !(*c.values[i] > 0)) continue;
      points += fmt::format("{:.1f},{:.1f} ", x(i), y(*c.values[i]));
      dots += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}</title></circle>\n", x(i),
          y(*c.values[i]), colour,
          escaped(fmt::format("{}, {}: {} {}", c.name, positions[i], short_number(*c.values[i]), unit)));
    }
    // Ours are solid and thick, peers thin; beyond eight lines the dashes differ.
    const std::string dashes = n >= 16 ? "2 3" : n >= 8 ? "7 3" : "none";
    const double thickness = is_ours(c.name) ? 2.6 : 1.3;
    content += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{}\" "
        "stroke-dasharray=\"{}\"/>\n{}",
        points, colour, thickness, dashes, dots);
    const double column = static_cast<double>(n % 3) * (chart_width / 3);
    content += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"{3}\" "
        "stroke-width=\"{4}\" stroke-dasharray=\"{5}\"/>\n",
        column, legend - 4, column + 26, colour, thickness, dashes);
    content += text_at(column + 32, legend, "start", c.name);
    if (++n % 3 == 0) legend += 18;
  }
  return svg(chart_width, legend + 14, title, content);
}

// Rows that differ in nothing but the parameter `over` and the subject.
std::string curves_over(report const& r, std::string const& over) {
  std::vector<std::string> positions;
  std::vector<std::string> groups;
  const auto position_of = [&](row const& l) {
    const auto p = std::ranges::find(l.parameters, over, &parameter::name);
    return p != l.parameters.end() ? p->value : std::string();
  };
  for (row const& l : r.rows) {
    if (std::ranges::find(positions, position_of(l)) == positions.end()) positions.push_back(position_of(l));
    const std::string group = parameters_text(l.parameters, over);
    if (std::ranges::find(groups, group) == groups.end()) groups.push_back(group);
  }
  const bool are_numbers = std::ranges::all_of(positions, [](std::string const& p) {
    return !p.empty() && p.find_first_not_of("0123456789") == std::string::npos;
  });
  if (are_numbers) std::ranges::sort(positions, {}, [](std::string const& p) { return std::stod(p); });

  std::string out;
  for (std::string const& group : groups) {
    std::vector<curve> all;
    for (row const& l : r.rows) {
      if (parameters_text(l.parameters, over) != group || l.runs.empty()) continue;
      auto c = std::ranges::find(all, l.subject, &curve::name);
      if (c == all.end())
        c = all.insert(all.end(), {l.subject, std::vector<std::optional<double>>(positions.size())});
      c->values[static_cast<std::size_t>(std::ranges::find(positions, position_of(l)) - positions.begin())] =
          median(l.runs);
    }
    const auto is_there = [&](std::size_t at) {
      return std::ranges::any_of(all, [&](curve const& c) { return c.values[at].has_value(); });
    };
    std::size_t there = 0;
    for (std::size_t at = 0; at < positions.size(); ++at) there += is_there(at) ? 1 : 0;
    if (there < 2) continue; // a point is no curve
    const std::string picture = curves(r.of->title, r.of->unit + " over " + over, positions, all);
    if (!picture.empty() && !group.empty()) out += "<h3>" + escaped(group) + "</h3>\n";
    out += picture;
  }
  return out;
}

// The extras "p50 µs", "p99 µs" … "max µs" of a group.
std::string percentiles(std::vector<row const*> const& group) {
  std::vector<std::string> names;
  for (row const* l : group)
    for (extra_column const& e : l->extra) {
      const bool is_percentile =
          (e.name.starts_with('p') && e.name.size() > 1 && e.name[1] >= '0' && e.name[1] <= '9') ||
          e.name.starts_with("max ");
      if (is_percentile && std::ranges::find(names, e.name) == names.end()) names.push_back(e.name);
    }
  std::vector<curve> all;
  for (row const* l : group) {
    if (l->runs.empty()) continue;
    curve c{.name = l->subject, .values = {}};
    for (std::string const& name : names) {
      const auto e = std::ranges::find(l->extra, name, &extra_column::name);
      c.values.push_back(e != l->extra.end() ? std::optional(median(e->runs)) : std::nullopt);
    }
    all.push_back(std::move(c));
  }
  return curves("percentiles", "µs at each percentile", names, all);
}

// ── histograms ─────────────────────────────────────────────────────────────────────────────────────────

// How many fell between each two of `columns` equal steps of the logarithm.
constexpr std::size_t columns = 80;

std::array<double, columns> stepped(std::vector<bucket> const& buckets, double low, double high) {
  std::array<double, columns> out{};
  for (bucket const& b : buckets) {
    const double at = (std::log10(std::max(b.upper, 1e-6)) - low) / std::max(high - low, 1e-9);
    const auto i = static_cast<std::size_t>(std::clamp(at, 0.0, 1.0) * (columns - 1));
    out[i] += static_cast<double>(b.count);
  }
  return out;
}

std::string histograms(std::vector<row const*> const& group) {
  double least = HUGE_VAL;
  double most = 0;
  for (row const* l : group) {
    if (l->histogram.empty()) continue;
    least = std::min(least, l->histogram.front().upper);
    most = std::max(most, l->histogram.back().upper);
  }
  if (!(most > 0)) return "";
  const double low = std::log10(std::max(least, 1e-3));
  const double high = std::log10(most);
  const double room = chart_width - label_width - 20;
  std::string content;
  double y = 0;
  for (row const* l : group) {
    if (l->histogram.empty()) continue;
    const std::array<double, columns> heights = stepped(l->histogram, low, high);
    // By the logarithm: the tail is what one looks for, and it is one in ten thousand.
    const double tallest = std::log1p(*std::ranges::max_element(heights));
    content += text_at(label_width - 8, y + 34, "end", l->subject);
    for (std::size_t i = 0; i < columns; ++i) {
      if (!(heights[i] > 0)) continue;
      const double height = 36 * std::log1p(heights[i]) / tallest;
      content +=
          fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" class=\"{}\"/>\n",
                      label_width + room * static_cast<double>(i) / columns, y + 38 - height,
                      room / columns - 0.6, height, is_ours(l->subject) ? "ours" : "peer");
    }
    content += line(label_width, y + 38, label_width + room, y + 38, "grid");
    y += 44;
  }
  content += text_at(label_width, y + 12, "start", short_number(std::pow(10, low)) + " µs", "faint");
  content += text_at(label_width + room, y + 12, "end", short_number(most) + " µs", "faint");
  content += text_at(label_width + room / 2, y + 12, "middle", "both axes logarithmic", "faint");
  return svg(chart_width, y + 20, "histograms", content);
}

// ── the table ──────────────────────────────────────────────────────────────────────────────────────────

std::string times(report const& r, row const& of, row const* to) {
  const std::optional<double> value = to != nullptr ? ratio(r, of, *to) : std::nullopt;
  return value ? fmt::format("{:.2f}", *value) : "–";
}

std::string group_table(report const& r, std::vector<row const*> const& group) {
  std::vector<std::string> extra;
  for (row const* l : group)
    for (extra_column const& e : l->extra)
      if (std::ranges::find(extra, e.name) == extra.end()) extra.push_back(e.name);
  std::string out = "<div class=\"scroll\"><table>\n<tr><th class=\"left\">subject</th><th>" +
                    escaped(r.of->unit) + "</th><th>min – max</th><th>× " + escaped(r.of->reference) +
                    "</th><th>× best peer</th>";
  for (std::string const& name : extra) out += "<th>" + escaped(name) + "</th>";
  out += "<th></th></tr>\n";
  for (row const* l : group) {
    out += fmt::format("<tr{}><td class=\"left\">{}</td>", is_ours(l->subject) ? " class=\"ours-row\"" : "",
                       escaped(l->subject));
    if (l->runs.empty()) {
      out += fmt::format("<td class=\"left flag\" colspan=\"{}\">not available: {}</td></tr>\n",
                         5 + extra.size(), escaped(l->unavailable));
      continue;
    }
    out += fmt::format("<td>{}</td><td>{} – {}</td><td>{}</td><td>{}</td>", short_number(median(l->runs)),
                       short_number(lowest(l->runs)), short_number(highest(l->runs)),
                       times(r, *l, reference_of(r, *l)), times(r, *l, best_peer_of(r, *l)));
    for (std::string const& name : extra) {
      const auto e = std::ranges::find(l->extra, name, &extra_column::name);
      out += "<td>" + (e != l->extra.end() ? short_number(median(e->runs)) : std::string("–")) + "</td>";
    }
    const double apart = spread(l->runs);
    out += fmt::format("<td class=\"flag\">{}</td></tr>\n",
                       apart > spread_worth_a_flag ? fmt::format("spread {:.0f} %", apart * 100) : "");
  }
  return out + "</table></div>\n";
}

std::string section(report const& r) {
  std::size_t rounds = 0;
  for (row const& l : r.rows) rounds = std::max(rounds, l.runs.size());
  std::string out = fmt::format(
      "<h2 id=\"{0}\">{0}: {1}</h2>\n<p class=\"faint\">{2}, {3} is better; medians of {4} interleaved runs, "
      "with the least and "
      "the most; a ratio above 1 is better than the peer.</p>\n",
      escaped(r.of->name), escaped(r.of->title), escaped(r.of->unit),
      r.of->higher_is_better ? "more" : "less", rounds);
  for (std::string const& over : r.of->curves_over) out += curves_over(r, over);
  for (auto const& group : grouped(r)) {
    const std::string heading = parameters_text(group.front()->parameters);
    if (!heading.empty()) out += "<h3>" + escaped(heading) + "</h3>\n";
    if (r.of->curves_over.empty()) out += bars(r, group);
    if (r.of->has_percentiles) out += percentiles(group);
    out += histograms(group);
    out += group_table(r, group);
  }
  for (std::string const& note : r.of->notes) out += "<p>" + escaped(note) + "</p>\n";
  return out;
}

} // namespace

void write_html(std::vector<report> const& reports, std::string const& file) {
  machine const& here = this_machine();
  std::string links;
  std::string sections;
  for (report const& r : reports) {
    links += fmt::format("<a href=\"#{0}\">{0}</a>", escaped(r.of->name));
    sections += section(r);
  }
  write_file(file,
             fmt::format("<!doctype html>\n<html lang=\"en\">\n<head><meta charset=\"utf-8\"><meta "
                         "name=\"viewport\" content=\"width=device-width\">"
                         "<title>unio bench</title><style>{}</style></head>\n<body>\n<h1>unio "
                         "bench</h1>\n<p>{}, {} processors, {}, {}; pinned: {}; "
                         "load {}.</p>\n<nav>{}</nav>\n{}</body>\n</html>\n",
                         style, escaped(here.cpu), here.processors, escaped(here.kernel),
                         escaped(here.compiler), escaped(here.pinned), escaped(here.load), links, sections));
}

} // namespace benchmarks
