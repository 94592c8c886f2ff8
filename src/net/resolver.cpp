// resolver: from a name to questions, and from their answers to a result.
//
//   text of an address ─► done            name ─► hosts, localhost ─► done
//   name ─► who asks? ─► the C library
//                    └─► the name with each domain of the search list ─► questions ─► sorted addresses
//
// What is asked under way belongs to the state, which each call shares, so that the resolver may be destroyed
// before they have ended: its event stops them.

#include "core/failed_with.hpp"
#include "handle/sockets.hpp"
#include "net/libc.hpp"
#include "net/names.hpp"
#include "net/order.hpp"
#include "net/query.hpp"
#include "net/system_files.hpp"
#include "sys/calls.hpp"

#include <unio/detail/time_limit.hpp>
#include <unio/sync.hpp>
#include <unio/when.hpp>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace unio::inline v0_1 {

using namespace net;

struct resolver::state {
  explicit state(resolver_options o) : options(std::move(o)), files(options) {}

  resolver_options const options;
  system_files files;
  event ended;
  std::atomic<unsigned> rotation{0};
};

namespace {

using shared_state = std::shared_ptr<resolver::state>;
using strings = std::vector<std::string>;

// Of a call that begins now.
deadline moment(deadline d) noexcept { return detail::time_limit(d).next(); }

// ── names ──────────────────────────────────────────────────────────────────────────────────────────────────

// An address as text, with or without a scope. None: it is a name.
result<endpoint> literal(std::string_view host, std::uint16_t port) {
  if (host.find(':') == host.npos) return ipv4_of_number(host, port);
  result<endpoint> parsed = parse_endpoint("[" + std::string(host) + "]:" + std::to_string(port));
  if (!parsed.has_value()) return resolve_error::invalid_name;
  return parsed;
}

bool is_wanted(endpoint const& e, address_family family) noexcept {
  return family == address_family::unspecified || e.family() == family;
}

// The complete names to ask for, in their order: resolv.conf(5), ndots and search.
strings candidates(resolv_conf const& conf, std::string_view name) {
  strings all;
  auto const add = [&](std::string const& complete) {
    if (what_is_wrong_with(complete) == nullptr) all.push_back(complete); // too long with that domain
  };
  std::string const plain(name);
  if (name.ends_with('.')) return {plain};
  bool const first = static_cast<unsigned>(std::ranges::count(name, '.')) >= conf.ndots;
  if (first) add(plain + ".");
  for (std::string const& domain : conf.search) add(plain + "." + domain + ".");
  if (!first) add(plain + ".");
  return all;
}

// ── questions ──────────────────────────────────────────────────────────────────────────────────────────────

std::error_code error_of(verdict v) noexcept {
  switch (v) {
    case verdict::answered:
      return {};
    case verdict::no_data:
      return resolve_error::no_data;
    case verdict::no_such_name:
      return resolve_error::no_such_name;
    case verdict::server_failed:
    case verdict::not_implemented:
      return resolve_error::server_failed;
    case verdict::refused:
      return resolve_error::refused;
    case verdict::malformed:
    case verdict::truncated:
      return resolve_error::malformed_answer;
    case verdict::unanswered:
    case verdict::of_another:
      break;
  }
  return resolve_error::no_answer;
}

// Whether the next name of the search list may be asked for, and which error says most in the end: that a
// server has failed, since it may be otherwise next time; then that there is a name without data.
int weight(std::error_code e) noexcept {
  if (e == resolve_error::no_such_name) return 1;
  if (e == resolve_error::no_data) return 2;
  if (e == resolve_error::server_failed || e == resolve_error::refused ||
      e == resolve_error::malformed_answer)
    return 3;
  return 4; // no answer, no time, no sockets: the next name would meet the same
}

// Of the questions of one name: nothing if one was answered; otherwise what says most.
std::error_code outcome(std::span<asked const> questions) noexcept {
  std::error_code worst;
  for (asked const& q : questions) {
    std::error_code const e = error_of(q.known);
    if (!e) return {};
    if (!worst || weight(e) > weight(worst)) worst = e;
  }
  return worst;
}

struct kind_of_question {
  record type;
  verdict (*read)(asked& self, std::span<std::byte const> answer);
  void* into;
};

// Asks for each candidate in turn. `found`, if given, is set to whether all questions of the last one were
// answered for good.
task<std::error_code> ask_in_turn(shared_state s, std::shared_ptr<settings const> how, strings names,
                                  std::span<kind_of_question const> kinds, std::uint16_t port, deadline limit,
                                  std::chrono::milliseconds grace) {
  asked questions[2];
  std::span<asked> const all(questions, kinds.size());
  std::error_code worst = resolve_error::invalid_name; // if no candidate is a name
  bool is_first = true;
  for (std::string const& name : names) {
    std::uint16_t ids[2] = {};
    (void)sys::getrandom(ids, sizeof(ids), 0);
    for (std::size_t i = 0; i != kinds.size(); ++i) {
      all[i] = asked{.read = kinds[i].read, .into = kinds[i].into, .port = port};
      if (auto const e = all[i].q.write(name, kinds[i].type, ids[i])) co_return e;
    }
    unsigned const first = how->conf.rotate ? s->rotation.fetch_add(1, std::memory_order_relaxed) : 0;
    asking const a{.how = *how, .questions = all, .limit = limit, .grace = grace, .first_server = first};
    std::error_code e = co_await ask(a);
    if (!e) e = outcome(all);
    if (!e || e == condition::canceled || e == condition::timed_out) co_return e;
    if (is_first || weight(e) > weight(worst)) worst = e;
    is_first = false;
    if (weight(e) == 4) break;
  }
  co_return worst;
}

verdict take_addresses(asked& q, std::span<std::byte const> answer) {
  return read_addresses(q.q.type(), answer, q.port, *static_cast<endpoint_list*>(q.into));
}

failure not_resolved(std::error_code why, std::string_view host) noexcept {
  return detail::failed_with(why, "resolve", host);
}

task<io_result<endpoint_list>> ask_for_addresses(shared_state s, std::shared_ptr<settings const> how,
                                                 std::string host, std::uint16_t port, deadline limit,
                                                 resolve_options o) {
  endpoint_list six, four;
  kind_of_question kinds[2];
  std::size_t n = 0;
  if (o.family != address_family::ipv4) kinds[n++] = {record::aaaa, &take_addresses, &six};
  if (o.family != address_family::ipv6) kinds[n++] = {record::a, &take_addresses, &four};
  strings names = candidates(how->conf, host);
  auto const e =
      co_await ask_in_turn(std::move(s), std::move(how), std::move(names),
                           std::span<kind_of_question const>(kinds, n), port, limit, o.family_delay);
  if (e) co_return not_resolved(e, host);
  six.insert(six.end(), four.begin(), four.end());
  net::sort(six);
  co_return six;
}

// ── whole calls ────────────────────────────────────────────────────────────────────────────────────────────

// As hosts(5) has them, or RFC 6761 §6.3; empty: neither knows the name.
endpoint_list without_asking(settings const& how, std::string_view host, std::uint16_t port,
                             address_family family) {
  endpoint_list found;
  std::size_t of_ipv4 = 0, of_ipv6 = 0;
  auto const add = [&](endpoint const& e) {
    std::size_t& n = e.family() == address_family::ipv4 ? of_ipv4 : of_ipv6;
    if (is_wanted(e, family) && n++ < most_addresses) found.push_back(with_port(e, port));
  };
  if (endpoint_list const* const known = how.hosts != nullptr ? how.hosts->find(host) : nullptr) {
    for (endpoint const& e : *known) add(e);
  } else if (is_localhost(host)) {
    add(endpoint::ipv6_loopback(port));
    add(endpoint::ipv4_loopback(port));
  }
  net::sort(found);
  return found;
}

task<io_result<endpoint_list>> look_up(shared_state s, std::string host, std::uint16_t port, deadline d,
                                       resolve_options o) {
  deadline const limit = moment(d);
  if (host.find('\0') != host.npos) co_return not_resolved(resolve_error::invalid_name, host);
  result<endpoint> const address = literal(host, port);
  if (!address.has_value()) co_return not_resolved(address.error(), host);
  if (address->size() != 0) {
    if (!is_wanted(*address, o.family)) co_return not_resolved(resolve_error::no_data, host);
    co_return endpoint_list{*address};
  }
  auto known = co_await s->files.co_now(limit);
  if (!known.has_value()) co_return not_resolved(known.error(), host);
  std::shared_ptr<settings const> how = std::move(*known);
  if (direct_or_libc(*how, s->options, host).way == resolve_way::libc) {
    // getaddrinfo(3) would take it for this host.
    if (host.empty()) co_return not_resolved(resolve_error::invalid_name, host);
    co_return co_await resolve_by_libc(std::move(host), port, o.family, limit);
  }
  if (what_is_wrong_with(host) != nullptr) co_return not_resolved(resolve_error::invalid_name, host);
  if (endpoint_list found = without_asking(*how, host, port, o.family); !found.empty()) co_return found;
  if (is_localhost(host)) co_return not_resolved(resolve_error::no_data, host); // no server is asked for it
  co_return co_await ask_for_addresses(std::move(s), std::move(how), std::move(host), port, limit, o);
}

task<io_result<strings>> look_up_names(shared_state s, endpoint address, deadline d) {
  deadline const limit = moment(d);
  std::string const name = reverse_name(address);
  auto const fails = [&](std::error_code e) {
    return detail::failed_with(e, "names_of", detail::sockets::object_of(address));
  };
  if (name.empty()) co_return fails(resolve_error::invalid_name);
  auto const known = co_await s->files.co_now(limit);
  if (!known.has_value()) co_return fails(known.error());
  std::shared_ptr<settings const> const& how = *known;
  if (direct_or_libc(*how, s->options, {}).way == resolve_way::libc)
    co_return co_await names_by_libc(address, limit);
  if (how->hosts != nullptr)
    if (strings const* const found = how->hosts->names_of(address); found != nullptr) co_return *found;
  // A list that the answers fill, and whose address they are: read_names() wants both.
  struct both {
    endpoint of;
    strings names;
  } into{address, {}};
  kind_of_question const kind[] = {{record::ptr,
                                    [](asked& q, std::span<std::byte const> answer) {
                                      both& b = *static_cast<both*>(q.into);
                                      return read_names(answer, b.of, b.names);
                                    },
                                    &into}};
  strings names{name + "."};
  auto const e = co_await ask_in_turn(std::move(s), how, std::move(names), kind, 0, limit, {});
  if (e) co_return fails(e);
  co_return std::move(into.names);
}

// Records that only servers have.
template <class List>
task<io_result<List>> look_up_records(shared_state s, std::string name, record type,
                                      verdict (*read)(asked&, std::span<std::byte const>), deadline d) {
  deadline const limit = moment(d);
  auto const fails = [&](std::error_code e) {
    return detail::failed_with(e, type == record::srv ? "services" : "texts", name);
  };
  if (what_is_wrong_with(name) != nullptr) co_return fails(resolve_error::invalid_name);
  auto const known = co_await s->files.co_now(limit);
  if (!known.has_value()) co_return fails(known.error());
  std::shared_ptr<settings const> const& how = *known;
  List found;
  kind_of_question const kind[] = {{type, read, &found}};
  strings names = candidates(how->conf, name);
  auto const e = co_await ask_in_turn(std::move(s), how, std::move(names), kind, 0, limit, {});
  if (e) co_return fails(e);
  co_return found;
}

// A call, which the end of the resolver stops. Whatever the call yields or throws is a success for
// when_any(): it is over.
template <class T> struct ended_with {
  std::optional<io_result<T>> value;
  std::exception_ptr thrown;
};
template <class T> task<ended_with<T>> ends(task<io_result<T>> call) {
  ended_with<T> e;
#if UNIO_HAS_EXCEPTIONS
  try {
    e.value.emplace(co_await std::move(call));
  } catch (...) {
    e.thrown = std::current_exception();
  }
#else
  e.value.emplace(co_await std::move(call));
#endif
  co_return e;
}
template <class T> task<io_result<T>> while_it_exists(shared_state s, task<io_result<T>> call) {
  if (s->ended.is_set()) co_return detail::failed(-ECANCELED, "resolve");
  auto either = co_await when_any(ends(std::move(call)), s->ended.co_wait());
  auto& outcome = std::get<0>(either.outcomes);
  if (!outcome.has_value()) detail::rethrow(outcome.error());
  if (outcome->thrown != nullptr) detail::rethrow(outcome->thrown);
  co_return std::move(*outcome->value);
}

task<io_result<endpoint_list>> with_reason(task<io_result<endpoint_list>> call, std::string host,
                                           std::string* why) {
  io_result<endpoint_list> r = co_await std::move(call);
  if (!r.has_value()) *why = "looking up " + quoted(host) + ": " + r.error().code().message();
  co_return r;
}

} // namespace

resolver::resolver(resolver_options options) : state_(std::make_shared<state>(std::move(options))) {}
resolver::~resolver() { state_->ended.set(); }

resolver& resolver::of_the_system() {
  // Never deleted: its threads and tasks may outlive main().
  static constinit std::atomic<resolver*> names{nullptr};
  if (resolver* const r = names.load(std::memory_order_acquire); r != nullptr) return *r;
  auto mine = std::make_unique<resolver>();
  resolver* other = nullptr;
  return names.compare_exchange_strong(other, mine.get(), std::memory_order_acq_rel) ? *mine.release()
                                                                                     : *other;
}

task<io_result<endpoint_list>> resolver::co_resolve(std::string_view host, std::uint16_t port, deadline d,
                                                    resolve_options options) {
  auto call = while_it_exists(state_, look_up(state_, std::string(host), port, d, options));
  if (options.why == nullptr) return call;
  return with_reason(std::move(call), std::string(host), options.why);
}

task<io_result<strings>> resolver::co_names_of(endpoint const& address, deadline d) {
  return while_it_exists(state_, look_up_names(state_, address, d));
}

task<io_result<std::vector<service_host>>> resolver::co_services(std::string_view name, deadline d) {
  auto const read = [](asked& q, std::span<std::byte const> answer) {
    return read_services(answer, *static_cast<std::vector<service_host>*>(q.into));
  };
  return while_it_exists(
      state_, look_up_records<std::vector<service_host>>(state_, std::string(name), record::srv, read, d));
}

task<io_result<strings>> resolver::co_texts(std::string_view name, deadline d) {
  auto const read = [](asked& q, std::span<std::byte const> answer) {
    return read_texts(answer, *static_cast<strings*>(q.into));
  };
  return while_it_exists(state_, look_up_records<strings>(state_, std::string(name), record::txt, read, d));
}

resolver_capabilities resolver::capabilities(std::string_view host) const {
  std::shared_ptr<settings const> const how = state_->files.now();
  choice c = direct_or_libc(*how, state_->options, host);
  return {c.way, std::move(c.why), how->conf.servers, how->conf.search};
}

} // namespace unio
