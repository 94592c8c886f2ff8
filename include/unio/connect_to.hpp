// unio/connect_to.hpp: connecting to a host by its name.
//
//   connect_to("example.org:443", 10s)   blocking: resolves and races
//   co_connect_to, async_connect_to      the same within a coroutine; with a receiver
//   parse_host_port                      example.org:443   127.0.0.1:80   [::1]:80
//
// Link with unio::net.
//
// Thread safety  the functions from any thread: each call is its own; the resolver is shared as it says

#pragma once

#include <unio/connect_any.hpp>
#include <unio/resolver.hpp>

namespace unio::inline v0_1 {

struct connect_to_options {
  resolver* names = nullptr; ///< null: resolver::of_the_system()
  address_family family = address_family::unspecified;
  std::chrono::milliseconds attempt_delay{250}; ///< see connect_any_options
  std::chrono::milliseconds family_delay{50};   ///< see resolve_options; RFC 8305 §3
  std::string* why = nullptr; ///< if given, set on failure to a sentence that names the host and what failed
};

/// Connects to "HOST:PORT", which may be whatever parse_endpoint() reads, or a name.
///
/// Effects       resolves the name and races its addresses as connect_any(). Addresses of one family do not
///               wait for those of the other for longer than `family_delay`; if none of them answers, the
///               other family is asked for once more
/// Returns       the socket
/// Errors        error::invalid_address for a text without a host or a port; ENAMETOOLONG and
///               error::embedded_nul for the path of a Unix socket; those of resolver::co_resolve() and
///               connect_any(); condition::timed_out, canceled
/// Deadline      bounds all of it together
/// Cancellation  by the environment's stop token, at any point. The blocking form cannot be cancelled
/// Lifetime      the resolver, and what the options point to, outlive it; the text need not
/// Cost          that of resolver::co_resolve() and connect_any(), and a frame
/// Runs as       blocking: it drives the calling thread's own multiplexer until then, and throws as run()
/// Source        RFC 8305
UNIO_API result<socket_handle> connect_to(std::string_view host_and_port, deadline d = {},
                                          connect_to_options options = {});

/// The same within a coroutine.
UNIO_API task<result<socket_handle>> co_connect_to(std::string_view host_and_port, deadline d = {},
                                                   connect_to_options options = {});

/// The same, awaited by a receiver: see unio/async_task.hpp.
[[nodiscard]] UNIO_API async_task<result<socket_handle>> async_connect_to(std::string_view host_and_port,
                                                                          deadline d = {},
                                                                          connect_to_options options = {});

/// As connect_to(), of which it is the old name.
[[deprecated("use connect_to")]] inline result<socket_handle> sync_connect_to(
    std::string_view host_and_port, deadline d = {}, connect_to_options options = {}) {
  return connect_to(host_and_port, d, options);
}

struct host_port {
  std::string_view host; ///< without brackets; refers to the text
  std::uint16_t port = 0;
};

/// Takes "HOST:PORT" apart. An IPv6 address stands in brackets. The host is not looked up, nor is its name
/// checked.
///
/// Returns  the two parts, as views of the text
/// Errors   error::invalid_address. `*why`, if given, is set to a sentence that says what is wrong
/// Throws   std::bad_alloc, where `why` is given
/// Cost     none
UNIO_API result<host_port> parse_host_port(std::string_view text, std::string* why = nullptr);

} // namespace unio
