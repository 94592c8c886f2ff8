// Handlers as Asio's operations have them.
// any: 3 errors: the handler is called with the operation's result: write [](auto result) { ... }

#include <unio/callback.hpp>
#include <unio/socket_handle.hpp>

void starts(unio::socket_handle& s, unio::mutable_buffer room, unio::io_multiplexer& m) {
  unio::start(unio::async_read(s, room), [](std::error_code, std::size_t) {});
  unio::start(m, unio::async_read(s, room), [](std::error_code) {});
  unio::start(m.executor(), unio::async_read(s, room), [] {});
}
