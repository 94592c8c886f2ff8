// What the system's files say of looking up names, and whether we can do that without the C library.
//
// direct_or_libc() is the rule by which the C library is asked.

#include "net/config.hpp"

#include "handle/sockets.hpp"
#include "net/names.hpp"
#include "net/wire.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace unio::inline v0_1::net {
namespace {

constexpr std::string_view blanks = " \t\r\v\f";

// The next word, or an empty one at the end.
std::string_view next_word(std::string_view& rest) noexcept {
  std::size_t const begin = std::min(rest.find_first_not_of(blanks), rest.size());
  rest.remove_prefix(begin);
  std::size_t const end = std::min(rest.find_first_of(blanks), rest.size());
  std::string_view const word = rest.substr(0, end);
  rest.remove_prefix(end);
  return word;
}

// Calls `f` with each line, without its end.
template <class F> void for_each_line(std::string_view text, F f) {
  while (!text.empty()) {
    std::size_t const end = std::min(text.find('\n'), text.size());
    f(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

// An address without a port, as it stands in these files.
endpoint address(std::string_view text, std::uint16_t port) {
  std::string const at =
      text.find(':') != text.npos ? "[" + std::string(text) + "]:" : std::string(text) + ":";
  char const* wrong = nullptr;
  int code = 0;
  endpoint const found = detail::sockets::parse(at + std::to_string(port), wrong, code); // keeps no failure
  return wrong == nullptr && found.family() != address_family::unix_path ? found : endpoint();
}

// A number that is bounded as glibc bounds it (resolv.h: RES_MAXNDOTS, RES_MAXRETRANS, RES_MAXRETRY).
bool take_number(std::string_view option, std::string_view name, unsigned least, unsigned most,
                 unsigned& into) noexcept {
  if (!option.starts_with(name)) return false;
  option.remove_prefix(name.size());
  unsigned value = 0;
  auto const [end, failed] = std::from_chars(option.data(), option.data() + option.size(), value);
  if (failed == std::errc::result_out_of_range) value = most;
  if (end == option.data()) return true; // as atoi(3) would, it is 0; what was there before is safer
  into = std::clamp(value, least, most);
  return true;
}

void take_option(resolv_conf& into, std::string_view option) {
  unsigned seconds = 0;
  if (take_number(option, "ndots:", 0, 15, into.ndots)) return;
  if (take_number(option, "attempts:", 1, 5, into.attempts)) return;
  if (take_number(option, "timeout:", 1, 30, seconds)) {
    if (seconds != 0) into.timeout = std::chrono::seconds(seconds);
    return;
  }
  if (option == "rotate") {
    into.rotate = true;
  } else if (option == "single-request" || option == "single-request-reopen") {
    into.single_request = true;
  } else if (option == "use-vc" || option == "usevc" || option == "tcp") {
    into.use_tcp = true;
  } else if (option != "edns0" && option != "trust-ad" && option != "no-reload" && into.unknown.empty()) {
    into.unknown = option; // what the three do, we do in any case, or does not concern addresses
  }
}

constexpr std::size_t most_servers = 3; // resolv.h: MAXNS
constexpr std::size_t most_domains = 32;

} // namespace

resolv_conf parse_resolv_conf(std::string_view text) {
  resolv_conf conf;
  for_each_line(text, [&](std::string_view line) {
    if (line.starts_with(';') || line.starts_with('#')) return;
    std::string_view const keyword = next_word(line);
    if (keyword == "nameserver") {
      std::string_view const word = next_word(line);
      endpoint server = ipv4_of_number(word, name_port);
      if (server.size() == 0) server = address(word, name_port);
      if (server.size() != 0 && conf.servers.size() != most_servers) conf.servers.push_back(server);
    } else if (keyword == "domain") {
      conf.search.clear();
      if (std::string_view const name = next_word(line); !name.empty() && name != ".")
        conf.search.push_back(without_dot(name));
    } else if (keyword == "search") {
      conf.search.clear();
      for (std::string_view name = next_word(line); !name.empty(); name = next_word(line))
        if (name != "." && conf.search.size() != most_domains) conf.search.push_back(without_dot(name));
    } else if (keyword == "options") {
      for (std::string_view option = next_word(line); !option.empty(); option = next_word(line)) {
        if (option.starts_with('#') || option.starts_with(';')) break;
        take_option(conf, option);
      }
    } else if (!keyword.empty() && conf.unknown.empty()) {
      conf.unknown = keyword; // sortlist, or what a later libc knows
    }
  });
  if (conf.servers.empty()) conf.servers.push_back(endpoint::ipv4_loopback(name_port));
  return conf;
}

nss_hosts parse_nsswitch(std::string_view text) {
  nss_hosts hosts;
  for_each_line(text, [&](std::string_view line) {
    line = line.substr(0, line.find('#'));
    std::size_t const begin = line.find_first_not_of(blanks);
    if (begin == line.npos) return;
    line.remove_prefix(begin);
    std::size_t const colon = line.find(':');
    if (colon == line.npos) return;
    std::string_view name = line.substr(0, colon);
    if (std::size_t const end = name.find_last_not_of(blanks); end != name.npos)
      name = name.substr(0, end + 1);
    if (name != "hosts") return;
    hosts.is_there = true;
    hosts.sources.clear(); // the last of several lines counts
    std::string_view rest = line.substr(colon + 1);
    bool returns = false; // the last service ends the search, whatever comes after it
    for (;;) {
      rest.remove_prefix(std::min(rest.find_first_not_of(blanks), rest.size()));
      if (rest.empty()) break;
      if (!rest.starts_with('[')) {
        std::string_view const word = rest.substr(0, rest.find_first_of(" \t\r\v\f["));
        rest.remove_prefix(word.size());
        if (returns) hosts.sources.back().is_standard = false;
        returns = false;
        hosts.sources.push_back({lower(word), true});
        continue;
      }
      std::size_t const close = rest.find(']');
      if (close == rest.npos || hosts.sources.empty()) {
        hosts.is_malformed = true;
        return;
      }
      std::string_view actions = rest.substr(1, close - 1);
      rest.remove_prefix(close + 1);
      for (std::string_view action = next_word(actions); !action.empty(); action = next_word(actions)) {
        std::size_t const equals = action.find('=');
        if (equals == action.npos) {
          hosts.is_malformed = true;
          return;
        }
        std::string const status = lower(action.substr(0, equals)), what = lower(action.substr(equals + 1));
        nss_source& source = hosts.sources.back();
        if (status == "success" && what == "return") continue;
        if (status != "notfound" && status != "unavail" && status != "tryagain") {
          source.is_standard = false; // a negation, say
        } else if (what == "return") {
          returns = true; // nothing changes if it is the last
        } else if (what != "continue") {
          source.is_standard = false;
        }
      }
    }
  });
  return hosts;
}

// ── hosts ──────────────────────────────────────────────────────────────────────────────────────────────────

hosts_table::hosts_table(std::string_view text) { hosts_parser(*this).add(text); }

std::size_t hosts_parser::end_of_words(std::string_view text) noexcept {
  return text.find_last_of("\n \t\r\v\f") + 1;
}

void hosts_parser::add(std::string_view text) {
  while (!text.empty()) {
    std::size_t const end =
        std::min(text.find_first_of(at_ == place::ignored ? "\n" : "\n# \t\r\v\f"), text.size());
    if (end != 0 && at_ != place::ignored) add_word(text.substr(0, end));
    if (end == text.size()) return;
    if (text[end] == '#') at_ = place::ignored;
    if (text[end] == '\n') at_ = place::address;
    text.remove_prefix(end + 1);
  }
}

void hosts_parser::add_word(std::string_view word) {
  if (at_ == place::address) {
    address_ = address(word, 0);
    at_ = address_.size() != 0 ? place::names : place::ignored;
    text_ = to_string(address_);
    return;
  }
  if (word.size() > 254) return;
  std::string name = without_dot(word);
  if (!name.empty() && add_address(into_.addresses_[lower(name)]))
    into_.names_[text_].push_back(std::move(name));
}

// False: the list has it. Long lists are not searched, so that a line takes the same time wherever it stands.
bool hosts_parser::add_address(endpoint_list& to) {
  constexpr std::size_t few = 16;
  if (to.size() < few) {
    if (std::ranges::find(to, address_) != to.end()) return false;
  } else {
    std::set<std::string>& known = known_[&to];
    if (known.empty())
      for (endpoint const& e : to) known.insert(to_string(e));
    if (!known.insert(text_).second) return false;
  }
  to.push_back(address_);
  return true;
}

endpoint_list const* hosts_table::find(std::string_view name) const {
  if (name.ends_with('.')) name.remove_suffix(1);
  auto const found = addresses_.find(lower(name));
  return found != addresses_.end() ? &found->second : nullptr;
}

std::vector<std::string> const* hosts_table::names_of(endpoint const& address) const {
  std::string text = to_string(address);
  if (std::size_t const colon = text.rfind(':'); colon != text.npos) text.replace(colon + 1, text.npos, "0");
  auto const found = names_.find(text);
  return found != names_.end() ? &found->second : nullptr;
}

// ── the rule ───────────────────────────────────────────────────────────────────────────────────────────────

// Go's net/conf.go, hostLookupOrder, with one difference: [NOTFOUND=return] of a service that others follow
// is not taken for the default.
choice direct_or_libc(settings const& s, resolver_options const& options, std::string_view host) {
  if (options.way == resolve_way::direct) return {resolve_way::direct, "direct: so it was asked for"};
  auto const libc = [](std::string why) { return choice{resolve_way::libc, "libc: " + std::move(why)}; };
  if (options.way == resolve_way::libc) return libc("so it was asked for");
  if (!s.forces_libc.empty()) return libc(s.forces_libc + " is set");
  if (options.servers.empty() && !s.conf.unknown.empty())
    return libc("resolv.conf has " + quoted(s.conf.unknown));
  if (host.find_first_of("\\%") != host.npos) return libc("the name is escaped or has a scope");
  std::string_view name = host;
  if (name.ends_with('.')) name.remove_suffix(1);
  if (ends_with(name, ".local")) return libc("names in .local are for multicast DNS");

  if (!options.servers.empty()) return {resolve_way::direct, "direct: servers were given"};
  if (!s.nss.is_there) return {resolve_way::direct, "direct: nsswitch.conf says nothing of hosts"};
  if (s.nss.is_malformed) return libc("nsswitch.conf cannot be understood");
  std::string asked;
  for (nss_source const& source : s.nss.sources) {
    if (source.name == "files" || source.name == "dns") {
      if (!source.is_standard)
        return libc("nsswitch.conf has actions of its own after '" + source.name + "'");
      asked += (asked.empty() ? "" : " ") + source.name;
    } else if (source.name == "myhostname") {
      if (is_localhost(name) || equal(name, "_gateway") || equal(name, "_outbound") ||
          equal(name, s.own_name))
        return libc("nsswitch.conf asks 'myhostname' for this name");
    } else if (source.name.starts_with("mdns")) {
      if (s.mdns_is_wider) return libc("mdns.allow lets 'mdns' answer other names than those in .local");
    } else {
      return libc("nsswitch.conf names " + quoted(source.name));
    }
  }
  if (asked.find("dns") == asked.npos) return libc("nsswitch.conf does not ask dns");
  if (asked.starts_with("dns ")) return libc("nsswitch.conf asks dns before files");
  return {resolve_way::direct, "direct: nsswitch.conf asks " + asked};
}

} // namespace unio::net
