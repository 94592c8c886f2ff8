// unio/detail/buffered_forms.hpp: what the functions of buffered streams return.

#pragma once

#include <unio/buffered_stream.hpp>

namespace unio::inline v0_1 {

inline detail::buffered_awaitable<detail::buffered_read> buffered_reader::co_read(
    io_request<mutable_buffers> request, deadline d) noexcept {
  return detail::buffered_awaitable<detail::buffered_read>({this, request, d});
}
inline detail::buffered_awaitable<detail::buffered_peek> buffered_reader::co_peek(std::size_t bytes,
                                                                                  deadline d) noexcept {
  return detail::buffered_awaitable<detail::buffered_peek>({this, bytes, d});
}
inline detail::buffered_awaitable<detail::buffered_line> buffered_reader::co_read_line(deadline d) noexcept {
  return detail::buffered_awaitable<detail::buffered_line>({this, d});
}
inline detail::buffered_awaitable<detail::buffered_write> buffered_writer::co_write(
    io_request<const_buffers> request, deadline d) noexcept {
  return detail::buffered_awaitable<detail::buffered_write>({this, request, d});
}
inline detail::buffered_awaitable<detail::buffered_line> line_reader::co_next(deadline d) noexcept {
  return co_read_line(d);
}

inline line_reader lines(any_read_stream from, std::size_t bytes) { return line_reader(from, bytes); }
inline line_reader lines(any_read_stream from, mutable_buffer memory) noexcept {
  return line_reader(from, memory);
}

inline task<io_result<std::size_t>> co_copy(buffered_reader& from, any_write_stream to, deadline d) {
  return co_copy(from, to, no_limit, d);
}

// The old name: see detail/any_stream.hpp.
[[deprecated("use co_copy")]] inline task<io_result<std::size_t>> copy(buffered_reader& from,
                                                                       any_write_stream to,
                                                                       extent_type limit = no_limit,
                                                                       deadline d = {}) {
  return co_copy(from, to, limit, d);
}
[[deprecated("use co_copy")]] inline task<io_result<std::size_t>> copy(buffered_reader& from,
                                                                       any_write_stream to, deadline d) {
  return co_copy(from, to, d);
}

} // namespace unio
