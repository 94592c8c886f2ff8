// unio/accept_loop.hpp: accepts a server's connections, and survives shortages of descriptors and memory.
//
//   co_for_each_connection(listener, f)   within a coroutine: accepts until stopped or the socket fails
//
//   auto const start = [&](socket_handle s) { group.start(serve(std::move(s))); };
//   result<void> const ended = co_await co_for_each_connection(listener, start);
//
// Thread safety  co_for_each_connection() runs where its coroutine does: one loop for a socket at a time,
//                which no other thread uses meanwhile but to end the loop by its stop token

#pragma once

#include <unio/socket_handle.hpp>
#include <unio/timeout.hpp>

namespace unio::inline v0_1 {

namespace detail {
struct tell_nobody;
}

/// Within a coroutine: accepts connections and calls `f` with each.
///
/// Calls         `f(socket_handle)`. If it returns an awaitable (a task, say), awaits that before accepting
///               the next connection, which bounds their number. `on_shortage(std::error_code)` per shortage
/// Returns       why it ended: condition::canceled after a stop; the socket's error; why there is no driver
/// Errors        EMFILE, ENFILE, ENOBUFS, ENOMEM and EPERM do not end it: it retries after 5 ms, then longer,
///               up to 100 ms. Connections wait in the backlog meanwhile; one that dies there is skipped
/// Throws        what `f` and `on_shortage` throw
/// Resumes       on the executor of the coroutine's environment, and calls `f` there
/// Cancellation  by the environment's stop token. A connection accepted nevertheless is passed to `f`
/// Destruction   of the awaiting coroutine closes a connection that was accepted and not yet passed to `f`
/// Lifetime      the listening socket outlives it. `f` and `on_shortage` are kept in its frame
/// Cost          a frame from the pool; for each connection that of co_accept()
/// Source        accept(2). async_accept_many is the same for receivers
template <class F, class OnShortage = detail::tell_nobody>
  requires(std::invocable<F&, socket_handle> && std::invocable<OnShortage&, std::error_code>)
[[nodiscard]] task<result<void>> co_for_each_connection(listening_socket_handle& listener, F f,
                                                        OnShortage on_shortage = {});

} // namespace unio

#include <unio/detail/accept_loop.hpp>
