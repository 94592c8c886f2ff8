// unio/accept_loop.hpp: a server's connections, one after the other, also when something is short.
//
//   for_each_connection(listener, f)   within a coroutine: accepts until it is stopped or the listening
//                                      socket fails
//
//   auto const start = [&](socket_handle s) { group.start(serve(std::move(s))); };
//   result<void> const ended = co_await for_each_connection(listener, start);
//
// co_accept() fails when the process has too many descriptors open. This waits until some are closed.

#pragma once

#include <unio/socket_handle.hpp>
#include <unio/timeout.hpp>

#include <concepts>
#include <system_error>
#include <type_traits>
#include <utility>

namespace unio {

namespace detail {

/// How long to wait after accepting has failed so many times in a row.
[[nodiscard]] UNIO_API deadline accept_pause(int times) noexcept;

struct tell_nobody {
  void operator()(std::error_code) const noexcept {}
};

} // namespace detail

/// Within a coroutine: accepts connections and calls `f` with each.
///
/// Calls         `f(socket_handle)`. If that returns something that can be awaited, a task for example,
///               awaits it before it accepts the next connection: this is how to bound their number.
///               `on_shortage(std::error_code)` once each time a shortage begins
/// Returns       why it has ended, never a success: condition::canceled after a stop; what the listening
///               socket failed with; why there is no driver
/// Errors        EMFILE, ENFILE, ENOBUFS, ENOMEM and EPERM do not end it: it pauses for 5 ms, then longer, up
///               to 100 ms, and goes on. Connections wait in the backlog meanwhile; it passes over one that
///               dies there
/// Throws        what `f` and `on_shortage` throw
/// Resumes       on the executor of the coroutine's environment; `f` is called there
/// Cancellation  by the environment's stop token. A connection that was accepted all the same is given to `f`
/// Destruction   of the coroutine that awaits it closes a connection that was accepted and not given to `f`
/// Lifetime      the listening socket outlives it. `f` and `on_shortage` are kept in its frame
/// Cost          a frame from the pool; for each connection that of co_accept()
/// Source        accept(2). async_accept_many is the same for receivers
template <class F, class OnShortage = detail::tell_nobody>
  requires(std::invocable<F&, socket_handle> && std::invocable<OnShortage&, std::error_code>)
[[nodiscard]] task<result<void>> for_each_connection(listening_socket_handle& listener, F f,
                                                     OnShortage on_shortage = {}) {
  for (int failed = 0;;) {
    io_result<socket_handle> accepted = co_await listener.co_accept();
    if (accepted.has_value()) {
      failed = 0;
      if constexpr (detail::can_be_awaited<std::invoke_result_t<F&, socket_handle>>) {
        (void)co_await f(std::move(*accepted));
      } else {
        f(std::move(*accepted));
      }
      continue;
    }
    if (!async_accept::may_go_on(accepted.error())) co_return accepted.error();
    if (failed++ == 0) on_shortage(accepted.error());
    io_result<void> const paused = co_await co_sleep(detail::accept_pause(failed));
    if (!paused.has_value())
      co_return paused.error(); // stopped; or there is no driver, and nothing would slow this loop down
  }
}

} // namespace unio
