// unio bench: the published tables, with the peers beside us.

#include "runner/machine.hpp"
#include "runner/program.hpp"
#include "runner/report.hpp"
#include "runner/rounds.hpp"
#include "support/placement.hpp"
#include "tools/support/output.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>

namespace benchmarks {
namespace {

struct options {
  std::string name;
  std::string json;
  std::string html;
  std::string pin;
  measuring how;
  settings set;
};

int complain(std::string const& line, int status) {
  std::fputs(fmt::format("unio bench: {}\n", line).c_str(), stderr); // fmt::print would throw
  return status;
}

int list_tables() {
  for (table_entry const& t : tables()) fmt::print("{:<11} {}\n", t.name, t.shows);
  return tools::finish_output("unio bench");
}

std::string names_of_tables() {
  std::string out;
  for (table_entry const& t : tables()) out += t.name + ", ";
  return out + "all and list";
}

// "0,1" or "0-1": the first is for subjects, the second for their helpers.
void place(options& o) {
  if (o.pin.empty()) return;
  const std::size_t middle = o.pin.find_first_of(",-");
  std::size_t end = 0;
  const auto number = [&](std::string const& text) {
    const int n = text.empty() || text[0] < '0' || text[0] > '9' ? -1 : std::stoi(text, &end);
    if (n < 0 || end != text.size() || n >= static_cast<int>(std::thread::hardware_concurrency()))
      throw CLI::ValidationError(
          "--pin", fmt::format("no processor '{}' here; give one or two of 0 ... {}, as in 0,1", text,
                               std::thread::hardware_concurrency() - 1));
    return n;
  };
  o.set.subject_cpu = number(o.pin.substr(0, middle));
  o.set.helper_cpu = middle == std::string::npos ? o.set.subject_cpu : number(o.pin.substr(middle + 1));
  ::setenv(subject_cpu_variable, std::to_string(o.set.subject_cpu).c_str(), 1);
  ::setenv(helper_cpu_variable, std::to_string(o.set.helper_cpu).c_str(), 1);
}

// The whole run would be lost if the file could not be written in the end.
void check_writable(std::string const& file) {
  if (file.empty()) return;
  const bool existed = std::filesystem::exists(file);
  if (!std::ofstream(file, std::ios::app)) throw std::system_error(errno, std::generic_category(), file);
  if (!existed) std::filesystem::remove(file);
}

void show_progress(std::string const& line) {
  std::fputs(("\r\033[K" + line).c_str(), stderr);
  std::fflush(stderr);
}

void show(report const& r, bool is_first) {
  try {
    if (!is_first) fmt::print("\n\n");
    print_table(r);
  } catch (std::system_error const& e) { // fmt::print does not say which file
    throw std::system_error(e.code(), "standard output");
  }
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::generic_category(), "standard output");
}

int measure_tables(options& o) {
  std::deque<table> made; // reports refer to them
  std::vector<report> reports;
  const bool all = o.name == "all";
  for (table_entry const& entry : tables()) {
    if (!all && entry.name != o.name) continue;
    if (o.how.progress) o.how.progress(entry.name + ": starting its programs");
    made.push_back(entry.make(o.set));
    reports.push_back(measure_table(made.back(), o.how));
    made.back().cases.clear(); // their programs end
    if (o.how.progress) o.how.progress("");
    // After each table, so that a run that ends early leaves what there is.
    if (!o.json.empty()) write_json(reports, all, o.json);
    if (!o.html.empty()) write_html(reports, o.html);
    show(reports.back(), reports.size() == 1);
  }
  if (reports.empty())
    return complain(fmt::format("no table '{}'; there are {}", o.name, names_of_tables()), 2);
  for (report const& r : reports)
    for (row const& line : r.rows)
      if (!line.runs.empty()) return tools::finish_output("unio bench");
  return complain("nothing could be measured", 1);
}

int command(int argc, char** argv) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  options o;
  o.set.programs = here;
#ifdef UNIO_COMMAND // of an installed unio
  o.set.unio = UNIO_COMMAND;
#else
  o.set.unio = here.parent_path() / "tools/unio/unio";
#endif
  CLI::App app("Measures a published table with its peers, in interleaved runs.", "unio bench");
  app.add_option("name", o.name, "The table: " + names_of_tables())->required()->type_name("NAME");
  app.add_flag("--quick", o.how.quick, "Few cases and short runs: to see that it works");
  app.add_option("--json", o.json, "Write the result to this file as well")->type_name("FILE");
  app.add_option("--html", o.html, "Write a page with charts to this file as well")->type_name("FILE");
  app.add_option("--pin", o.pin, "Subjects on the first processor, their helpers on the second: 0,1")
      ->type_name("CPUS");
  app.add_option("--rounds", o.how.rounds, "Runs per case instead of the table's own number")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  app.add_option("--run-ms", o.how.run_ms, "Length of a run instead of the table's own")
      ->check(CLI::Range(0.001, 60'000.0))
      ->type_name("MS");
  app.add_option("--only", o.how.only, "Subjects whose name contains this, and the reference")
      ->type_name("TEXT");
  app.add_option("--with", o.set.other, "The same program of another compiler's build; may be repeated")
      ->type_name("PROGRAM");
  try {
    app.parse(argc, argv);
    o.set.quick = o.how.quick;
    place(o);
  } catch (CLI::Success const& e) {
    std::ostringstream text;
    (void)app.exit(e, text, text);
    fmt::print("{}", text.str());
    return tools::finish_output("unio bench");
  } catch (CLI::ParseError const& e) {
    return complain(fmt::format("{}\n\n{}", e.what(), app.help()), 2);
  }
  if (o.name == "list") return list_tables();
#ifndef NDEBUG
  complain("built without NDEBUG: these figures mean little", 0);
#endif
  check_writable(o.json);
  check_writable(o.html);
  (void)this_machine();
  if (::isatty(STDERR_FILENO) == 1) o.how.progress = show_progress;
  return measure_tables(o);
}

} // namespace
} // namespace benchmarks

int main(int argc, char** argv) {
  tools::open_what_is_standard();
  std::signal(SIGPIPE, SIG_IGN); // a program that ends early is an error of writing to it
  try {
    return benchmarks::command(argc, argv);
  } catch (std::exception const& e) {
    return benchmarks::complain(e.what(), 1);
  }
}
