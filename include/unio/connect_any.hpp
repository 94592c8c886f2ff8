// unio/connect_any.hpp: connecting to the first of several addresses that answers ("Happy Eyeballs").
//
//   connect_any(addresses, 10s)   blocking
//   co_connect_any                the same within a coroutine
//   async_connect_any             the same as an operation with a receiver
//   connect_any_options           how long an attempt is alone; what is reported of the attempts
//
// unio/unio.hpp does not include this header, nor unio/async_task.hpp.
//
// Thread safety  the functions from any thread: each call is its own. What the options point to is written by
//                the thread that runs the coroutine or the multiplexer

#pragma once

#include <unio/async_task.hpp>
#include <unio/detail/standard.hpp>
#include <unio/socket_handle.hpp>

#include <span>
#include <string>
#include <vector>

namespace unio::inline v0_1 {

/// What became of one address. Success: no error. condition::canceled: another one was faster.
struct connect_attempt {
  endpoint to;
  failure why; ///< "connect 192.0.2.1:443: Connection refused"
};

struct connect_any_options {
  /// After this time without an answer the next address is tried as well; at once after a failure.
  std::chrono::milliseconds attempt_delay{250};
  std::vector<connect_attempt>* attempts = nullptr; ///< if given: those made, in order
  std::string* why = nullptr; ///< if given, set on failure to a sentence: each address and its error
};

/// Connects to one of these addresses, racing them as RFC 8305 says.
///
/// Effects       tries them in their order, but the families in turns, beginning with that of the first
/// Returns       the socket that was connected first. The others are closed, also those that connected
/// Errors        condition::timed_out if the time was over before all had failed; otherwise the first error
///               that is not about this host's own network (ENETUNREACH, EADDRNOTAVAIL, EAFNOSUPPORT), so a
///               host of one family reports what the other one met; EDESTADDRREQ for an empty list;
///               condition::canceled. It names the address that it is about, if there is one.
///               std::bad_alloc, after all attempts have ended
/// Deadline      bounds all attempts together
/// Cancellation  by the environment's stop token, at any point; no socket stays open. The blocking
///               form cannot be cancelled
/// Lifetime      the addresses, and what the options point to, outlive it
/// Cost          two frames and a block from the pool for each attempt, and for what starts them; no
///               allocation after warm-up; a timer while there is another address
/// Runs as       blocking: it drives the calling thread's own multiplexer until then, and throws as run()
/// Source        RFC 8305 §4, §5
UNIO_API result<socket_handle> connect_any(std::span<endpoint const> to, deadline d = {},
                                           connect_any_options options = {});

/// The same within a coroutine.
UNIO_API task<result<socket_handle>> co_connect_any(std::span<endpoint const> to, deadline d = {},
                                                    connect_any_options options = {});

/// The same, awaited by a receiver: see unio/async_task.hpp.
[[nodiscard]] UNIO_API async_task<result<socket_handle>> async_connect_any(std::span<endpoint const> to,
                                                                           deadline d = {},
                                                                           connect_any_options options = {});

/// As connect_any(), of which it is the old name.
[[deprecated("use connect_any")]] inline result<socket_handle> sync_connect_any(
    std::span<endpoint const> to, deadline d = {}, connect_any_options options = {}) {
  return connect_any(to, d, options);
}

/// "192.0.2.1:443: Connection refused; [2001:db8::1]:443: …"; without those that were overtaken. Throws
/// std::bad_alloc. Cost: a text for each attempt.
[[nodiscard]] UNIO_API std::string to_string(std::span<connect_attempt const> attempts);

namespace detail {

/// What connects to one address. `context` is passed on.
using connector = task<result<socket_handle>> (*)(void* context, endpoint const& to, deadline d);

/// co_connect_any() with attempts of another kind: of the simulation, say.
UNIO_API task<result<socket_handle>> connect_first(std::span<endpoint const> to, deadline d,
                                                   connect_any_options options, connector connect,
                                                   void* context);

} // namespace detail
} // namespace unio
