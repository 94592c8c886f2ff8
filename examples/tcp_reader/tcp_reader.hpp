// The same small program written four times: connects, reads into 4 KiB until `total` bytes have come or the
// stream ends, and returns how many are missing.

#pragma once

#include <unio/endpoint.hpp>
#include <unio/result.hpp>
#include <unio/task.hpp>

#include <cstddef>
#include <cstdint>

inline constexpr std::size_t room_bytes = 4096;

using outcome = unio::result<std::int64_t>;

outcome read_blocking(unio::endpoint const& from, std::int64_t total);

// Both call `done` once, at the end, and own themselves.
using callback = void (*)(outcome);
void read_with_callbacks(unio::endpoint const& from, std::int64_t total, callback done);
void read_with_states(unio::endpoint const& from, std::int64_t total, callback done);

unio::task<outcome> read_awaited(unio::endpoint from, std::int64_t total);
