// unio/detail/socket_handle.hpp: how the operations of sockets are described.

#pragma once

#include <unio/socket_handle.hpp>

namespace unio::inline v0_1 {

class UNIO_API async_connected : public detail::connect_operation,
                                 public detail::standard_sender<async_connected> {
 public:
  using result_type = io_result<socket_handle>;
  async_connected() = default;
  explicit async_connected(endpoint const& to, connect_options const& options = {},
                           unio::deadline d = {}) noexcept
      : async_connected(socket_handle::create(to.family(), options), to, options.multiplexer, d) {}
  /// Once: the socket is the caller's from then on.
  [[nodiscard]] result_type result() noexcept {
    if (outcome_value() >= 0) return static_cast<socket_handle&&>(*made_);
    // What `options.from` was refused for names that; all else the peer.
    bool const is_about_from = (static_cast<std::uint32_t>(made_.error().origin()) & detail::is_object) != 0;
    return is_about_from && outcome_value() == detail::to_native(made_.error()) ? made_.error() : failed();
  }

 private:
  async_connected(unio::result<socket_handle> made, endpoint const& to, io_multiplexer* m,
                  unio::deadline d) noexcept
      : connect_operation(made ? made->native_handle() : -1, m, to, d),
        made_(static_cast<unio::result<socket_handle>&&>(made)) {
    if (!made_) refuse_with(detail::to_native(made_.error()));
  }
  unio::result<socket_handle> made_;
};

UNIO_SENDER_FORMS(async_connected, (endpoint const&, to), (connect_options const&, options))

inline io_awaitable<async_connected> socket_handle::co_connected_to(endpoint const& to,
                                                                    connect_options const& options,
                                                                    deadline d) noexcept {
  return io_awaitable<async_connected>(std::in_place, to, options, d);
}
inline io_awaitable<async_connected> socket_handle::co_connected_to(endpoint const& to, deadline d) noexcept {
  return co_connected_to(to, connect_options(), d);
}

inline async_connect::async_connect(socket_handle& h, endpoint const& to, unio::deadline d) noexcept
    : connect_operation(h.native_handle(), h.own_multiplexer(), to, d) {}

} // namespace unio
