// The coroutine waits: blocking.cpp with co_await where the thread would wait. State, buffer and socket are
// its variables.

#include "tcp_reader.hpp"

#include <unio/unio.hpp>

#include <array>

unio::task<outcome> read_awaited(unio::endpoint from, std::int64_t total) {
  auto socket = unio::socket_handle::create(from.family());
  if (!socket) co_return socket.error();
  auto const connected = co_await socket->co_connect(from);
  if (!connected) co_return connected.error();
  std::array<char, room_bytes> room;
  do {
    auto const got = co_await socket->co_read(room);
    if (!got) co_return got.error();
    if (got->empty()) break;
    total -= static_cast<std::int64_t>(got.bytes_transferred());
  } while (total > 0);
  co_return total;
}
