// The command `unio`: its subcommands.

#include "bench.hpp"
#include "checks.hpp"
#include "complain.hpp"
#include "cp.hpp"
#include "doctor.hpp"
#include "echo.hpp"
#include "lock.hpp"
#include "resolve.hpp"
#include "rm.hpp"
#include "simulate.hpp"
#include "tools/support/output.hpp"
#include "tour.hpp"
#include "trace.hpp"
#include "variables.hpp"
#include "walk.hpp"

#include <unio/extend/raw_ring.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

int show_capabilities() {
  std::string why;
  auto const chosen = tour::chosen_driver(why);
  if (!chosen) {
    complain(fmt::format("unio: {}\n", why));
    return 1;
  }
  tools::print(unio::to_string(*chosen));
  return 0;
}

// Of the kernel's, whichever driver is used.
int show_operations() {
  tools::print("operation         kernel  unio\n");
  for (unio::ring_operation const& o : unio::ring_operations()) {
    std::string const name = o.name.empty() ? fmt::format("number {}", o.number) : o.name;
    tools::print("{:<16}  {:<6}  {}\n", name, o.is_known ? "yes" : "no", o.use);
  }
  return 0;
}

// Where an option takes several values CLI11 makes two of "[a,b]", which is a file's name like any other, and
// no setting prevents it in all of its versions. So a mark stands before such a value while CLI11 has it.
constexpr char mark = '\x01';

std::vector<std::string> marked(int argc, char** argv) {
  auto const needs_mark = [](std::string_view value) {
    return value.starts_with('[') || value.starts_with(mark);
  };
  std::vector<std::string> all;
  bool may_be_option = true;
  for (int i = 1; i < argc; ++i) {
    std::string& argument = all.emplace_back(argv[i]);
    auto const equals = argument.find('=');
    if (needs_mark(argument))
      argument.insert(0, 1, mark);
    else if (may_be_option && argument.starts_with("--") && equals != argument.npos &&
             needs_mark(std::string_view(argument).substr(equals + 1)))
      argument.insert(equals + 1, 1, mark);
    if (argument == "--") may_be_option = false;
  }
  return all;
}

// Of `app` and its subcommands: no option's variable or check sees the mark.
void take_marks_away(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_expected_max() == 0) continue; // a flag
    option->transform([](std::string value) {
      if (value.starts_with(mark)) value.erase(0, 1);
      return value;
    });
  }
  for (CLI::App* subcommand : app.get_subcommands([](CLI::App*) { return true; }))
    take_marks_away(*subcommand);
}

// Moves the words behind the first "--" into `command`, and returns the end of those before: CLI11 would
// split "[a,b]" into two words.
char** take_command(int argc, char** argv, std::vector<std::string>& command) {
  char** const end = argv + argc;
  char** const dashes = std::find(argv, end, std::string_view("--"));
  if (dashes != end) command.assign(dashes + 1, end);
  return dashes;
}

// The exit status; also of what has failed it is said that its output is lost.
int finished(int status) {
  int const printed = tools::finish_output("unio");
  return status != 0 ? status : printed;
}

int wrong_usage(CLI::App const& app, CLI::ParseError const& e) {
  std::string what = e.what();
  std::erase(what, mark);
  auto const parsed = app.get_subcommands();
  std::string const which = parsed.empty() ? "" : " " + parsed.back()->get_name();
  complain(fmt::format("unio: {}\nTry: unio{} --help\n", escaped(what), which));
  return 2;
}

void describe_tour(CLI::App& app, tour::options& o) {
  app.add_option("file", o.file,
                 "What to move; by default the largest of the system's libraries up to 64 MiB")
      ->type_name("FILE")
      ->check(not_empty);
  app.add_option("--json", o.json, "Write the rows to this file as well")->type_name("OUT")->check(not_empty);
  auto const only = [&o](std::string const& name) {
    for (tour::driver const d : {tour::driver::uring, tour::driver::epoll}) {
      if (name == setting(d)) o.only = d;
    }
  };
  app.add_option_function<std::string>("--driver", only, "Only the rows of this driver")
      ->type_name("uring|epoll")
      ->check(one_of({setting(tour::driver::uring), setting(tour::driver::epoll)}));
}

int command(int argc, char** argv) {
  CLI::App app("One I/O: every operation as a call, polled, awaited or multiplexed.", "unio");
  app.set_version_flag("--version", std::string("unio ") + std::string(unio::version_string()));
  app.require_subcommand(0, 1);
  tour::options o;
  describe_tour(
      *app.add_subcommand("tour", "Move a file through everything unio has, and compare (the default)"), o);
  CLI::App& capabilities =
      *app.add_subcommand("capabilities", "Print which driver is used, what of it, and why");
  bool operations = false;
  capabilities.add_flag("--operations", operations,
                        "Instead: each operation of io_uring, whether the kernel knows it, and what unio "
                        "does with it");
  doctor::options h;
  CLI::App& health =
      *app.add_subcommand("doctor", "Tell what this machine offers and keeps back, and what to change");
  doctor::describe(health, h);
  echo::options e;
  CLI::App& echo_server = *app.add_subcommand("echo", "Serve connections by sending back what they send");
  echo::describe(echo_server, e);
  lock::options l;
  CLI::App& locked_command =
      *app.add_subcommand("lock", "Run a command while names are locked, or show who holds them");
  lock::describe(locked_command, l);
  resolve::options r;
  CLI::App& look_up = *app.add_subcommand("resolve", "Print the addresses of a host");
  resolve::describe(look_up, r);
  walk::options w;
  CLI::App& walker = *app.add_subcommand("walk", "List what is below directories, or count it");
  walk::describe(walker, w);
  cp::options c;
  CLI::App& copier = *app.add_subcommand("cp", "Copy files and trees, each put in place as one");
  cp::describe(copier, c);
  rm::options d;
  CLI::App& remover =
      *app.add_subcommand("rm", "Remove files and trees, whatever others do at the same time");
  rm::describe(remover, d);
  simulate::options s;
  CLI::App& simulator =
      *app.add_subcommand("simulate", "Run a program in a simulated system, once for each seed");
  simulate::describe(simulator, s);
  trace::options t;
  CLI::App& tracer = *app.add_subcommand("trace", "Tell how long the operations of a program take");
  trace::describe(tracer, t);
  if (argc > 1 && argv[1] == std::string_view("simulate"))
    argc = static_cast<int>(take_command(argc, argv, s.command) - argv);
  if (argc > 1 && argv[1] == std::string_view("trace"))
    argc = static_cast<int>(take_command(argc, argv, t.command) - argv);
  bool const is_lock = argc > 1 && argv[1] == std::string_view("lock");
  if (is_lock) argc = static_cast<int>(take_command(argc, argv, l.command) - argv);
  app.add_subcommand("bench", "Measure a published table, the peers beside us: bench list, bench --help");
  take_marks_away(app);
  try {
    std::vector<std::string> arguments = marked(argc, argv);
    std::ranges::reverse(arguments); // as CLI11 wants them
    app.parse(std::move(arguments));
  } catch (CLI::Success const& success) { // --help, --version
    std::ostringstream text;
    (void)app.exit(success, text, text);
    tools::print(text.str());
    return tools::finish_output("unio");
  } catch (CLI::ParseError const& error) {
    return wrong_usage(app, error);
  }
  if (locked_command.parsed()) return lock::run(l);
  if (simulator.parsed()) return finished(simulate::run(s));
  if (tracer.parsed()) return finished(trace::run(t));
  if (walker.parsed()) return walk::run(w);
  if (remover.parsed()) return rm::run(d);
  if (copier.parsed()) return cp::run(c);
  if (std::string const wrong = wrong_variable(o.only || !e.driver.empty()); !wrong.empty()) {
    complain(fmt::format("unio: {}\n", wrong));
    return 1;
  }
  if (echo_server.parsed()) return echo::run(e);
  if (look_up.parsed()) return resolve::run(r);
  return finished(health.parsed()          ? doctor::run(h)
                  : !capabilities.parsed() ? tour::run(o)
                  : operations             ? show_operations()
                                           : show_capabilities());
}

} // namespace

int main(int argc, char** argv) {
  tools::open_what_is_standard();
  try {
    if (argc > 1 && std::string_view(argv[1]) == "bench")
      return bench::run(argv + 1); // has options of its own
    return command(argc, argv);
  } catch (std::exception const& e) {
    complain(fmt::format("unio: {}\n", e.what()));
    return 1;
  }
}
