// unio/detail/any_stream.hpp: references to streams, from each other.

#pragma once

#include <unio/stream.hpp>

namespace unio::inline v0_1 {

inline any_read_stream::any_read_stream(any_stream s) noexcept : stream_reference(s) {}
inline any_write_stream::any_write_stream(any_stream s) noexcept : stream_reference(s) {}
inline detail::stream_awaitable<async_read> any_stream::co_read(io_request<mutable_buffers> request,
                                                                deadline d) const {
  return any_read_stream(*this).co_read(request, d);
}
inline detail::stream_awaitable<async_write> any_stream::co_write(io_request<const_buffers> request,
                                                                  deadline d) const {
  return any_write_stream(*this).co_write(request, d);
}

inline task<io_result<std::size_t>> read_all(any_read_stream from, dynamic_buffer into, deadline d) {
  return read_all(from, into, read_all_limit, d);
}

inline task<io_result<std::size_t>> copy(any_read_stream from, any_write_stream to, deadline d) {
  return copy(from, to, no_limit, d);
}

} // namespace unio
