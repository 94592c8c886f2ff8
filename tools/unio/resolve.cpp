#include "resolve.hpp"

#include "checks.hpp"
#include "complain.hpp"
#include "numbers.hpp"
#include "tools/support/output.hpp"

#include <unio/connect_to.hpp>
#include <unio/resolver.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <chrono>

namespace resolve {
namespace {

// CLI::Range lets pass what is no number.
std::string seconds(std::string const& text) {
  auto const m = measure_of(text);
  return m && m->unit.empty() && m->number >= 0.001 && m->number <= 86400
             ? std::string()
             : fmt::format("\"{}\" is no number of seconds from 0.001 to 86400", text);
}

} // namespace

void describe(CLI::App& app, options& o) {
  app.add_option("name", o.name, "The host")->type_name("NAME")->required();
  app.add_option("--server", o.server, "Ask this name server, as 192.0.2.1:53 or [2001:db8::1]:53")
      ->type_name("ADDRESS:PORT")
      ->check(not_empty);
  app.add_option("--timeout", o.timeout_s, "Give up after this many seconds (5)")
      ->type_name("SECONDS")
      ->check(seconds);
  CLI::Option* const four = app.add_flag("--ipv4", o.only_ipv4, "Only IPv4 addresses");
  app.add_flag("--ipv6", o.only_ipv6, "Only IPv6 addresses")->excludes(four);
  app.add_flag("--explain", o.explain, "Say on stderr who is asked, and why");
}

int run(options const& o) {
  unio::resolver_options how;
  if (!o.server.empty()) {
    std::string why;
    auto const server = unio::parse_endpoint(o.server, &why);
    if (!server || server->family() == unio::address_family::unix_path) {
      complain(fmt::format("unio: --server: {}\n", server ? "a Unix path is no name server" : why));
      return 2;
    }
    how.servers = {*server};
  }
  unio::resolver names(how);
  if (o.explain) complain(fmt::format("unio: {}\n", names.capabilities(o.name).why));
  std::string why;
  unio::resolve_options asking{.why = &why};
  if (o.only_ipv4) asking.family = unio::address_family::ipv4;
  if (o.only_ipv6) asking.family = unio::address_family::ipv6;
  auto const found = names.resolve(o.name, 0, std::chrono::duration<double>(o.timeout_s), asking);
  if (!found) {
    complain(fmt::format("unio: {}\n", why));
    return 1;
  }
  for (unio::endpoint const& e : *found) {
    std::string text = unio::to_string(e);
    text.resize(text.rfind(':'));
    if (text.starts_with('[')) text = text.substr(1, text.size() - 2);
    tools::print("{}\n", text);
  }
  return tools::finish_output("unio");
}

} // namespace resolve
