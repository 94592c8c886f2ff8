// unio/resolver.hpp: names of hosts to addresses, and back.
//
//   resolver          co_resolve · co_names_of · co_services · co_texts, and the same polled and blocking
//   resolve_error     why a name has no address
//   capabilities()    whether queries are unio's own or the C library's, and why
//
//   unio::resolver names;
//   auto const found = co_await names.co_resolve("example.org", 443, 5s);
//   auto const socket = co_await unio::co_connect_any(*found, 10s);
//
// unio/connect_to.hpp does both. Link with unio::net, which needs c-ares.

#pragma once

#include <unio/async_task.hpp>
#include <unio/detail/standard.hpp>
#include <unio/endpoint.hpp>
#include <unio/io_request.hpp>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace unio::inline v0_1 {

using endpoint_list = std::vector<endpoint>;

/// Why a name has no answer. In the codes of resolve_category().
enum class resolve_error {
  no_such_name = 1, ///< there is no such name (NXDOMAIN)
  no_data,          ///< the name exists, but has none of what was asked for
  server_failed,    ///< the servers say that they cannot find out (SERVFAIL)
  refused,          ///< the servers refuse to answer (REFUSED)
  no_answer,        ///< no server has answered, however often it was asked
  malformed_answer, ///< an answer is not what RFC 1035 describes
  invalid_name,     ///< the text cannot be a name: too long, an empty label, characters that are not allowed
  libc_failed,      ///< the C library has failed for a reason that it does not tell
};

/// The category of resolve_error. Lifetime: static. Concurrency: any thread. Cost: none.
UNIO_API std::error_category const& resolve_category() noexcept;
/// The code of an error, in that category.
inline std::error_code make_error_code(resolve_error e) noexcept {
  return {static_cast<int>(e), resolve_category()};
}

/// Who asks the servers.
enum class resolve_way : std::uint8_t {
  by_rule, ///< the first of the next two that gives the system's answer
  direct,  ///< unio: cancellable at any point, simulated, no threads
  libc,    ///< getaddrinfo(3), on threads of its own: whatever nsswitch.conf(5) asks for
};

struct resolver_options {
  resolve_way way = resolve_way::by_rule;
  endpoint_list servers{};              ///< ask these, in place of those in resolv.conf
  std::vector<std::string> search{};    ///< if `servers` are given: in place of the search list there
  std::chrono::milliseconds timeout{0}; ///< for one answer of one server; 0: as resolv.conf says, or 5 s
  int attempts = 0;                     ///< how often each server is asked; 0: as resolv.conf says, or 2
  bool use_tcp = false;                 ///< ask by TCP only
  std::chrono::milliseconds check_every{5000}; ///< how often at most files are looked at for changes
  std::string resolv_conf = "/etc/resolv.conf";
  std::string nsswitch_conf = "/etc/nsswitch.conf";
  std::string hosts = "/etc/hosts";
};

/// What one look-up may be told.
struct resolve_options {
  address_family family = address_family::unspecified; ///< ipv4 or ipv6: only addresses of that family
  /// How long the addresses of one family wait for those of the other, which may be late or lost.
  std::chrono::milliseconds family_delay{50};
  std::string* why = nullptr; ///< if given, set on failure to a sentence that names the host and the reason
};

/// One host of a service, from an SRV record.
struct service_host {
  std::string host;
  std::uint16_t port = 0;
  std::uint16_t priority = 0; ///< lower ones are to be tried first
  std::uint16_t weight = 0;   ///< among those of one priority: how often this one is to be chosen
};

/// How a resolver works here and now.
struct resolver_capabilities {
  resolve_way way = resolve_way::direct; ///< never by_rule
  std::string why;                       ///< in one line: "libc: nsswitch.conf names 'sss'"
  endpoint_list servers;                 ///< that are asked directly
  std::vector<std::string> search;       ///< domains that are tried for short names
};

/// Finds addresses by names as this system does.
///
/// Names in the hosts file, addresses as text (also with a scope: fe80::1%eth0; of IPv4 each form of inet(3):
/// 10.1, 0x7f000001) and localhost need no query.
/// Otherwise it asks the servers of resolv.conf itself if that gives what getaddrinfo(3) would give (the rule
/// of Go's net package): nsswitch.conf asks files and dns only, or mdns and myhostname where those do not
/// matter; resolv.conf has no unknown option; the name does not end in .local, and contains neither '\' nor
/// '%'; and none of the variables RES_OPTIONS, LOCALDOMAIN and HOSTALIASES is set. The files are read again
/// when they have changed.
///
/// Names          ASCII; with a final dot the search list is not used
/// Errors         codes of resolve_category(); timed_out, canceled; EMFILE and the like. An awaited or
///                blocking call throws std::bad_alloc
/// Deadlines      bound each call as a whole; without one, the servers' timeouts do
/// Cancellation   by the environment's stop token, at once. The C library cannot be stopped: its thread goes
///                on alone, and is waited for neither then nor when the process exits
/// Destruction    ends queries that are under way with condition::canceled, at once
/// Lifetime       a look-up copies what it is asked for, and may outlive the resolver: see Destruction. What
///                `why` points to must outlive the look-up
/// Thread safety  distinct and shared: safe, but for destruction
/// Fork           the child may use it as well. Queries under way stay with the parent
/// Cost           no thread; a socket, a few frames and one or two datagrams for each name that is asked for.
///                A hosts file that has changed is read by one look-up, which lets other coroutines run after
///                each 16 KiB; capabilities() reads it in one piece.
///                libc: at most 8 threads for the process, which end when idle
/// Source         resolv.conf(5), nsswitch.conf(5), hosts(5); RFC 1034, RFC 1035, RFC 6724, RFC 6761
class UNIO_API resolver {
 public:
  /// As the system's files say.
  resolver() : resolver(resolver_options()) {}
  explicit resolver(resolver_options options);
  resolver(resolver const&) = delete;
  resolver& operator=(resolver const&) = delete;
  ~resolver();
  /// One for the whole process, which is never destroyed.
  static resolver& of_the_system();

  /// The addresses of a host, with `port`.
  ///
  /// Returns  one or more, the best first (RFC 6724)
  /// Errors   as the class; no_data if it has none, or none of the family asked for
  [[nodiscard]] task<io_result<endpoint_list>> co_resolve(std::string_view host, std::uint16_t port,
                                                          deadline d = {}, resolve_options options = {});
  /// The names of a host with this address, from the hosts file or the servers; the port is ignored.
  [[nodiscard]] task<io_result<std::vector<std::string>>> co_names_of(endpoint const& address,
                                                                      deadline d = {});
  /// The hosts of a service, as "_imaps._tcp.example.org": by priority, then the heavier ones first.
  ///
  /// Errors  no_data also where the only record says that there is no such service (RFC 2782: ".")
  [[nodiscard]] task<io_result<std::vector<service_host>>> co_services(std::string_view name,
                                                                       deadline d = {});
  /// The texts (TXT) of a name, each in one piece. They are any bytes.
  [[nodiscard]] task<io_result<std::vector<std::string>>> co_texts(std::string_view name, deadline d = {});

  /// co_resolve(), blocking: drives the calling thread's own multiplexer while it waits. Throws as run().
  io_result<endpoint_list> resolve(std::string_view host, std::uint16_t port, deadline d = {},
                                   resolve_options options = {}) {
    return run(co_resolve(host, port, d, options));
  }
  /// co_names_of(), blocking.
  io_result<std::vector<std::string>> names_of(endpoint const& address, deadline d = {}) {
    return run(co_names_of(address, d));
  }
  /// co_services(), blocking.
  io_result<std::vector<service_host>> services(std::string_view name, deadline d = {}) {
    return run(co_services(name, d));
  }
  /// co_texts(), blocking.
  io_result<std::vector<std::string>> texts(std::string_view name, deadline d = {}) {
    return run(co_texts(name, d));
  }

  /// How names are looked up; of a name, if given, since the rule looks at it too. Blocks while files are
  /// read.
  [[nodiscard]] resolver_capabilities capabilities(std::string_view host = {}) const;

  struct state;

 private:
  std::shared_ptr<state> state_;
};

/// A look-up as an operation with a receiver: see unio/async_task.hpp. co_names_of() and the others likewise:
/// `async_task(names.co_names_of(address))`. Otherwise as co_resolve().
[[nodiscard]] inline async_task<io_result<endpoint_list>> async_resolve(resolver& names,
                                                                        std::string_view host,
                                                                        std::uint16_t port, deadline d = {},
                                                                        resolve_options options = {}) {
  return async_task<io_result<endpoint_list>>(names.co_resolve(host, port, d, options));
}

} // namespace unio

template <> struct std::is_error_code_enum<unio::resolve_error> : std::true_type {};
