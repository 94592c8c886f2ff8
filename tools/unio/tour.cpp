#include "tour.hpp"

#include "complain.hpp"
#include "report.hpp"
#include "source.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>

namespace tour {
namespace {

struct close_stream {
  void operator()(std::FILE* f) const noexcept { (void)std::fclose(f); }
};
using stream = std::unique_ptr<std::FILE, close_stream>;

int fail(std::string_view line) {
  complain(fmt::format("unio: {}\n", line));
  return 1;
}

std::string setting_of(char const* variable) {
  char const* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

bool wants_colour() {
  return ::isatty(STDOUT_FILENO) == 1 && setting_of("NO_COLOR").empty() && setting_of("TERM") != "dumb";
}

// ── the file ──────────────────────────────────────────────────────────────────────────────────────────────

// Written before the handler is installed.
std::string line_of_a_lost_file;
pid_t whose_line = 0; // traced children print nothing

void on_bus_error(int number, siginfo_t* info, void*) {
  if (info->si_code != BUS_ADRERR) { // not from a map: once more, without this handler
    std::signal(number, SIG_DFL);
    return;
  }
  if (::getpid() == whose_line)
    (void)!::write(STDERR_FILENO, line_of_a_lost_file.data(), line_of_a_lost_file.size());
  ::_exit(1);
}

// The file is mapped. If another process truncates it, reading a lost page raises SIGBUS.
void end_if_file_is_lost(std::string const& path) {
  line_of_a_lost_file = "unio: " + escaped(path) + ": became shorter while it was read, or cannot be read\n";
  whose_line = ::getpid();
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

// ── which drivers ─────────────────────────────────────────────────────────────────────────────────────────

struct drivers {
  std::vector<driver> wanted;
  std::vector<skipped_driver> skipped; ///< those of them that this system does not offer

  [[nodiscard]] skipped_driver const* skip(row_kind const& k) const noexcept {
    for (skipped_driver const& d : skipped) {
      if (k.on == d.which) return &d;
    }
    return nullptr;
  }
};

// `only`: --driver, or UNIO_DRIVER before the rows set it.
drivers look_for_drivers(std::optional<driver> only) {
  drivers found;
  for (driver const d : {driver::uring, driver::epoll}) {
    if (only && *only != d) continue;
    found.wanted.push_back(d);
    if (auto const made = make_multiplexer(d); !made) found.skipped.push_back({d, made.error().message()});
  }
  return found;
}

// ── the rows ──────────────────────────────────────────────────────────────────────────────────────────────

void show(std::string const& text) {
  bool const is_written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if (!is_written || std::fflush(stdout) != 0)
    throw std::system_error(errno, std::system_category(), "standard output");
}

// System calls are counted first, while this process has one thread: the children are forks of it.
std::vector<std::optional<double>> count_all(std::vector<row_kind> const& kinds, drivers const& on,
                                             source const& from) {
  std::vector<std::optional<double>> counts;
  for (row_kind const& k : kinds) {
    counts.push_back(on.skip(k) == nullptr ? count_system_calls(k, from) : std::nullopt);
  }
  return counts;
}

std::vector<row_result> run_all(drivers const& on, source const& from, table const& t) {
  std::vector<row_kind> const kinds = all_rows(on.wanted);
  auto const calls = count_all(kinds, on, from);
  std::vector<row_result> rows;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (skipped_driver const* const d = on.skip(kinds[i])) {
      show(t.skipped(kinds[i], d->why));
      continue;
    }
    row_result row = run_row(kinds[i], from);
    row.system_calls_per_mb = calls[i];
    show(t.line(row));
    rows.push_back(std::move(row));
  }
  return rows;
}

bool write_all(stream f, std::string const& text) {
  bool const is_written = std::fwrite(text.data(), 1, text.size(), f.get()) == text.size();
  return std::fclose(f.release()) == 0 && is_written;
}

} // namespace

std::optional<unio::capabilities> chosen_driver(std::string& why) {
  auto const made = unio::io_multiplexer::best_available(1);
  if (made) return (*made)->capabilities();
  std::string const forced = setting_of("UNIO_DRIVER");
  why = (forced.empty() ? "" : "UNIO_DRIVER=" + escaped(forced) + ": ") + made.error().message();
  return {};
}

int run(options const& o) {
  if (o.only) ::setenv("UNIO_DRIVER", setting(*o.only), 1);
  std::string why;
  auto const chosen = chosen_driver(why);
  if (!chosen) return fail(why);
  std::string const path = o.file.empty() ? choose_file() : o.file;
  end_if_file_is_lost(path);
  auto const opened = open_file(path, why);
  if (!opened) return fail(why);
  stream json;
  if (!o.json.empty()) {
    std::error_code is_not_there;
    if (std::filesystem::equivalent(o.json, path, is_not_there))
      return fail(escaped(o.json) + ": is what is to be moved");
    json.reset(std::fopen(o.json.c_str(), "we"));
    if (json == nullptr) return fail(escaped(o.json) + ": " + std::strerror(errno));
  }

  machine const here = this_machine(*chosen);
  table const t(wants_colour());
  show(heading(here, opened->what) + t.head());
  std::optional<driver> only;
  if (std::string const forced = setting_of("UNIO_DRIVER"); !forced.empty()) {
    only = forced == setting(driver::epoll) ? driver::epoll : driver::uring;
  }
  drivers const on = look_for_drivers(only);
  auto const rows = run_all(on, opened->what, t);

  if (json != nullptr && !write_all(std::move(json), to_json(here, opened->what, rows, on.skipped))) {
    return fail(escaped(o.json) + ": " + std::strerror(errno));
  }
  return std::all_of(rows.begin(), rows.end(), [](row_result const& r) { return r.is_ok(); }) ? 0 : 1;
}

} // namespace tour
