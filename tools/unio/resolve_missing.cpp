// unio resolve where unio::net is not built.

#include "complain.hpp"
#include "resolve.hpp"

#include <CLI/CLI.hpp>

namespace resolve {

void describe(CLI::App& app, options& o) { app.add_option("name", o.name, "The host")->type_name("NAME"); }

int run(options const&) {
  complain("unio: this command was built without unio::net: c-ares was not there (package libc-ares-dev)\n");
  return 1;
}

} // namespace resolve
