// unio/detail/accept_loop.hpp: the loop behind co_for_each_connection().

#pragma once

#include <unio/task_group.hpp>

namespace unio::inline v0_1 {
namespace detail {

/// How long to wait after accepting has failed `times` times in a row.
[[nodiscard]] UNIO_API deadline accept_pause(int times) noexcept;

struct tell_nobody {
  void operator()(std::error_code) const noexcept {}
};

/// What the compiler says of what cannot be called, as what_to_await.
template <class F> struct what_is_called {
  static_assert(std::invocable<F&, socket_handle>,
                "co_for_each_connection calls this with a socket: write [](unio::socket_handle s) { ... }");
};
struct no_handler {
  template <class F>
    requires(!std::invocable<F&, socket_handle>)
  no_handler(F&&) { // NOLINT: implicit
    (void)what_is_called<F>();
  }
};

} // namespace detail

template <class... OnShortage>
task<result<void>> co_for_each_connection(listening_socket_handle&, detail::no_handler, OnShortage&&...) {
  __builtin_unreachable();
}

template <class F, class OnShortage>
  requires(std::invocable<F&, socket_handle> && std::invocable<OnShortage&, std::error_code>)
task<result<void>> co_for_each_connection(listening_socket_handle& listener, F f, OnShortage on_shortage) {
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

/// As co_for_each_connection(), of which it is the old name.
template <class F, class... OnShortage>
[[deprecated("use co_for_each_connection"), nodiscard]] auto for_each_connection(
    listening_socket_handle& listener, F f, OnShortage... on_shortage) {
  return co_for_each_connection(listener, std::move(f), std::move(on_shortage)...);
}

} // namespace unio
