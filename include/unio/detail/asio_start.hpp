// unio/detail/asio_start.hpp: implements async_start.

#pragma once

#include <unio/asio.hpp>
#include <unio/detail/asio_operation.hpp>
#include <unio/detail/asio_task.hpp>

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

/// The executor of the asio_context whose run() the calling thread is in.
[[nodiscard]] inline asio_executor asio_here() noexcept {
  UNIO_EXPECTS(asio_frame::innermost != nullptr, "async_start() without an executor, outside of run()");
  return static_cast<asio_context const&>(asio_frame::innermost->service().owner()).get_executor();
}

} // namespace unio::detail

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

template <class Executor, class Sender, class Token>
  requires std::derived_from<std::remove_cvref_t<Sender>, io_operation>
auto async_start(Executor const& executor, Sender&& sender, Token&& token) {
  using signature =
      typename detail::asio_result<typename std::remove_cvref_t<Sender>::result_type>::signature;
  if constexpr (std::derived_from<Executor, detail::net::execution_context>) {
    return async_start(const_cast<Executor&>(executor).get_executor(), static_cast<Sender&&>(sender),
                       static_cast<Token&&>(token));
  } else {
    return detail::net::async_initiate<Token, signature>(detail::asio_initiates<Executor>{executor}, token,
                                                         static_cast<Sender&&>(sender));
  }
}
template <class Sender, class Token>
  requires std::derived_from<std::remove_cvref_t<Sender>, io_operation>
auto async_start(Sender&& sender, Token&& token) {
  return async_start(detail::asio_here(), static_cast<Sender&&>(sender), static_cast<Token&&>(token));
}
template <class Executor, class T, class Token>
auto async_start(Executor const& executor, task<T> t, Token&& token) {
  using signature = typename detail::asio_value_of_task::of<T>::signature;
  if constexpr (std::derived_from<Executor, detail::net::execution_context>) {
    return async_start(const_cast<Executor&>(executor).get_executor(), std::move(t),
                       static_cast<Token&&>(token));
  } else {
    return detail::net::async_initiate<Token, signature>(detail::asio_initiates_task<Executor>{executor},
                                                         token, std::move(t));
  }
}
template <class T, class Token> auto async_start(task<T> t, Token&& token) {
  return async_start(detail::asio_here(), std::move(t), static_cast<Token&&>(token));
}

} // namespace unio
