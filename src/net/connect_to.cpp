// connect_to: connects to an address; looks a name up, has its addresses race, and once more those of the
// family that was late.

#include "core/failed_with.hpp"
#include "handle/sockets.hpp"
#include "net/names.hpp"

#include <unio/connect_to.hpp>
#include <unio/detail/time_limit.hpp>

#include <algorithm>
#include <charconv>
#include <utility>

namespace unio::inline v0_1 {
namespace {

// What is wrong with the text, or null.
char const* take_apart(std::string_view text, host_port& into) noexcept {
  std::string_view port;
  if (text.starts_with('[')) {
    std::size_t const close = text.find(']');
    if (close == text.npos) return "the bracket is not closed";
    into.host = text.substr(1, close - 1);
    port = text.substr(close + 1);
    if (into.host.find(':') == into.host.npos) return "what stands in the brackets is not an IPv6 address";
    if (!port.starts_with(':')) return "the port is missing";
  } else {
    std::size_t const colon = text.rfind(':');
    if (colon == text.npos) return "the port is missing";
    into.host = text.substr(0, colon);
    port = text.substr(colon);
    if (into.host.find(':') != into.host.npos) return "an IPv6 address stands in brackets: [::1]:80";
  }
  port.remove_prefix(1);
  if (into.host.empty()) return "the host is missing";
  if (into.host.find('\0') != into.host.npos) return "the host contains a NUL byte";
  if (port.empty()) return "the port is missing";
  auto const [end, failed] = std::from_chars(port.data(), port.data() + port.size(), into.port);
  if (failed == std::errc::result_out_of_range) return "the port is over 65535";
  if (failed != std::errc() || end != port.data() + port.size()) return "the port is not a number";
  return nullptr;
}

failure unreadable(char const* operation, std::string_view text, char const* wrong) noexcept {
  return detail::failed(detail::native(error::invalid_address), operation,
                        detail::sockets::object_of(text, wrong));
}

// The kernel, too, says of an address that does not answer that the time is over.
bool is_over(std::error_code e, deadline limit) noexcept {
  return !e || e == condition::canceled ||
         (e == condition::timed_out && detail::time_limit(limit).has_passed());
}

// Says why, where that is asked for.
void explain(std::string* why, std::string_view text, std::string const& reason) {
  if (why != nullptr) *why = "connecting to " + net::quoted(text) + ": " + reason;
}

// A stop says nothing of the address.
failure explained(std::string* why, endpoint const& to, failure e) {
  if (why == nullptr) return e;
  std::string const text = to_string(to);
  explain(why, text, (e == condition::canceled ? "" : text + ": ") + e.code().message());
  return e;
}

// A Unix socket cannot have that path.
task<result<socket_handle>> refuse_path(std::string text, int code, char const* wrong, std::string* why) {
  explain(why, text, wrong);
  co_return detail::failed(code, "connect_to", detail::sockets::object_of(text, wrong));
}

// There is nothing to look up, and no other address to race with.
task<result<socket_handle>> connect_to_address(endpoint to, deadline d, address_family wanted,
                                               std::string* why) {
  if (wanted != address_family::unspecified && wanted != to.family()) [[unlikely]] {
    std::string const text = to_string(to);
    explain(why, text, "it is an address of another family");
    co_return detail::failed_with(make_error_code(resolve_error::no_data), "connect_to", text);
  }
  environment const& here = co_await this_coro::environment;
  if (here.stop.stop_requested()) [[unlikely]]
    co_return explained(why, to, detail::failed(-ECANCELED, "connect"));
  io_result<socket_handle> s = co_await socket_handle::co_connected_to(to, d);
  if (!s.has_value()) [[unlikely]]
    co_return explained(why, to, s.error());
  co_return std::move(*s);
}

task<result<socket_handle>> connect_to_name(std::string text, deadline d, connect_to_options o) {
  deadline const limit = detail::time_limit(d).next();
  std::string reason;
  connect_any_options const racing{.attempt_delay = o.attempt_delay,
                                   .why = o.why != nullptr ? &reason : nullptr};
  host_port parts;
  if (char const* const wrong = take_apart(text, parts); wrong != nullptr) {
    explain(o.why, text, wrong);
    co_return unreadable("connect_to", text, wrong);
  }

  resolver& names = o.names != nullptr ? *o.names : resolver::of_the_system();
  resolve_options asking{.family = o.family, .family_delay = o.family_delay};
  io_result<endpoint_list> const found = co_await names.co_resolve(parts.host, parts.port, limit, asking);
  if (!found.has_value()) {
    explain(o.why, text, "looking up the name: " + found.error().code().message());
    co_return found.error();
  }
  result<socket_handle> s = co_await co_connect_any(*found, limit, racing);
  if (is_over(s.error(), limit) || o.family != address_family::unspecified) {
    if (!s.has_value()) explain(o.why, text, reason.empty() ? s.error().message() : reason);
    co_return s;
  }
  std::string const reasons_before = std::exchange(reason, {});
  bool const has_both =
      std::ranges::any_of(*found, [&](endpoint const& e) { return e.family() != found->front().family(); });
  if (!has_both) { // its addresses may have been late, or lost
    asking.family =
        found->front().family() == address_family::ipv4 ? address_family::ipv6 : address_family::ipv4;
    io_result<endpoint_list> const others = co_await names.co_resolve(parts.host, parts.port, limit, asking);
    if (others.has_value()) {
      result<socket_handle> second = co_await co_connect_any(*others, limit, racing);
      if (is_over(second.error(), limit)) s = std::move(second);
    } else if (is_over(others.error(), limit)) {
      s = others.error();
    }
  }
  if (!s.has_value()) explain(o.why, text, reason.empty() ? reasons_before : reasons_before + "; " + reason);
  co_return s;
}

// Of what is no address.
[[gnu::noinline]] task<result<socket_handle>> connect_to_other(std::string_view host_and_port, deadline d,
                                                               connect_to_options const& options, int code,
                                                               char const* wrong) {
  std::string text(host_and_port);
  if (host_and_port.starts_with(detail::sockets::unix_prefix)) // no name of a host
    return refuse_path(std::move(text), code, wrong, options.why);
  return connect_to_name(std::move(text), d, options);
}

} // namespace

task<result<socket_handle>> co_connect_to(std::string_view host_and_port, deadline d,
                                          connect_to_options options) {
  char const* wrong = nullptr;
  int code = 0;
  endpoint const address = detail::sockets::parse(host_and_port, wrong, code);
  if (wrong != nullptr) [[unlikely]]
    return connect_to_other(host_and_port, d, options, code, wrong);
  return connect_to_address(address, d, options.family, options.why);
}

async_task<result<socket_handle>> async_connect_to(std::string_view host_and_port, deadline d,
                                                   connect_to_options options) {
  return async_task<result<socket_handle>>(co_connect_to(host_and_port, d, options));
}

result<socket_handle> connect_to(std::string_view host_and_port, deadline d, connect_to_options options) {
  return run(co_connect_to(host_and_port, d, options));
}

result<host_port> parse_host_port(std::string_view text, std::string* why) {
  host_port parts;
  if (char const* const wrong = take_apart(text, parts); wrong != nullptr) {
    if (why != nullptr) *why = net::quoted(text) + ": " + wrong;
    return unreadable("parse_host_port", text, wrong);
  }
  return parts;
}

} // namespace unio
