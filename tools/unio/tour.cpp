#include "tour.hpp"

#include "report.hpp"
#include "source.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace tour {
namespace {

struct close_stream {
  void operator()(std::FILE* f) const noexcept { (void)std::fclose(f); }
};
using stream = std::unique_ptr<std::FILE, close_stream>;

int fail(std::string_view line) {
  fmt::print(stderr, "unio: {}\n", line);
  return 1;
}

std::string setting_of(char const* variable) {
  char const* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

bool wants_colour() {
  return ::isatty(STDOUT_FILENO) == 1 && setting_of("NO_COLOR").empty() && setting_of("TERM") != "dumb";
}

// ── which drivers ────────────────────────────────────────────────────────────────────────────────────────────

struct drivers {
  std::vector<driver> used;
  std::vector<skipped_driver> skipped;
};

// `only`: --driver, or what UNIO_DRIVER was before the rows set it.
drivers look_for_drivers(std::optional<driver> only, unio::capabilities const& chosen) {
  drivers found;
  for (driver const d : {driver::uring, driver::epoll}) {
    if (only && *only != d) continue;
    auto const made = make_multiplexer(d);
    if (made) {
      found.used.push_back(d);
    } else {
      found.skipped.push_back({d, chosen.why.empty() ? made.error().message() : chosen.why});
    }
  }
  return found;
}

// ── the rows ─────────────────────────────────────────────────────────────────────────────────────────────────

void show(std::string const& text) {
  fmt::print("{}", text);
  (void)std::fflush(stdout);
}

// System calls are counted first, while this process has one thread: the children are forks of it.
std::vector<std::optional<double>> count_all(std::vector<row_kind> const& kinds, source const& from) {
  std::vector<std::optional<double>> counts;
  for (row_kind const& k : kinds) counts.push_back(count_system_calls(k, from));
  return counts;
}

std::vector<row_result> run_all(drivers const& on, source const& from, table const& t) {
  std::vector<row_kind> const kinds = all_rows(on.used);
  auto const calls = count_all(kinds, from);
  std::vector<row_result> rows;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    row_result row = run_row(kinds[i], from);
    row.system_calls_per_mb = calls[i];
    show(t.line(row));
    rows.push_back(std::move(row));
  }
  for (skipped_driver const& d : on.skipped) {
    for (row_kind const& k : all_rows({d.which})) {
      if (k.on) show(t.skipped(k.handle, k.how, d));
    }
  }
  return rows;
}

bool write_all(std::FILE* f, std::string const& text) {
  return std::fwrite(text.data(), 1, text.size(), f) == text.size() && std::fflush(f) == 0;
}

} // namespace

int run(options const& o) {
  if (o.only) ::setenv("UNIO_DRIVER", setting(*o.only), 1);
  std::string const forced = setting_of("UNIO_DRIVER");
  auto chosen = unio::io_multiplexer::best_available(1);
  if (!chosen) return fail(chosen.error().message());
  unio::capabilities const c = (*chosen)->capabilities();
  chosen->reset();

  std::string why;
  auto const opened = open_file(o.file.empty() ? choose_file() : o.file, why);
  if (!opened) return fail(why);
  stream json;
  if (!o.json.empty()) {
    json.reset(std::fopen(o.json.c_str(), "we"));
    if (json == nullptr) return fail(o.json + ": " + std::strerror(errno));
  }

  machine const here = this_machine(c);
  table const t(wants_colour());
  show(heading(here, opened->what) + t.head());
  std::optional<driver> only;
  if (!forced.empty()) only = forced == setting(driver::epoll) ? driver::epoll : driver::uring;
  drivers const on = look_for_drivers(only, c);
  auto const rows = run_all(on, opened->what, t);

  if (json != nullptr && !write_all(json.get(), to_json(here, opened->what, rows, on.skipped))) {
    return fail(o.json + ": " + std::strerror(errno));
  }
  return std::all_of(rows.begin(), rows.end(), [](row_result const& r) { return r.is_ok(); }) ? 0 : 1;
}

} // namespace tour
