// The thread waits. This is what the program means; the other three must mean the same.

#include "tcp_reader.hpp"

#include <unio/unio.hpp>

#include <array>

outcome read_blocking(unio::endpoint const& from, std::int64_t total) {
  auto socket = unio::socket_handle::connected_to(from);
  if (!socket) return socket.error();
  std::array<char, room_bytes> room;
  do {
    auto const got = socket->read(room);
    if (!got) return got.error();
    if (got->empty()) break;
    total -= static_cast<std::int64_t>(got.bytes_transferred());
  } while (total > 0);
  return total;
}
