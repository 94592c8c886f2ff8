// unio/detail/any_stream.hpp: references to streams, from each other; old names.

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

inline task<io_result<std::size_t>> co_read_all(any_read_stream from, dynamic_buffer into, deadline d) {
  return co_read_all(from, into, read_all_limit, d);
}

inline task<io_result<std::size_t>> co_copy(any_read_stream from, any_write_stream to, deadline d) {
  return co_copy(from, to, no_limit, d);
}

// The names that these functions had before they were spelled as everything that is awaited.
[[deprecated("use co_read")]] inline task<io_result<mutable_buffers>> read(
    any_read_stream from, io_request<mutable_buffers> request, deadline d = {}) {
  return co_read(from, request, d);
}
[[deprecated("use co_write")]] inline task<io_result<const_buffers>> write(any_write_stream to,
                                                                           io_request<const_buffers> request,
                                                                           deadline d = {}) {
  return co_write(to, request, d);
}
[[deprecated("use co_read_until")]] inline task<io_result<std::size_t>> read_until(any_read_stream from,
                                                                                   dynamic_buffer into,
                                                                                   std::string_view delimiter,
                                                                                   deadline d = {}) {
  return co_read_until(from, into, delimiter, d);
}
[[deprecated("use co_read_all")]] inline task<io_result<std::size_t>> read_all(
    any_read_stream from, dynamic_buffer into, std::size_t limit = read_all_limit, deadline d = {}) {
  return co_read_all(from, into, limit, d);
}
[[deprecated("use co_read_all")]] inline task<io_result<std::size_t>> read_all(any_read_stream from,
                                                                               dynamic_buffer into,
                                                                               deadline d) {
  return co_read_all(from, into, d);
}
[[deprecated("use co_copy")]] inline task<io_result<std::size_t>> copy(any_read_stream from,
                                                                       any_write_stream to,
                                                                       extent_type limit = no_limit,
                                                                       deadline d = {}) {
  return co_copy(from, to, limit, d);
}
[[deprecated("use co_copy")]] inline task<io_result<std::size_t>> copy(any_read_stream from,
                                                                       any_write_stream to, deadline d) {
  return co_copy(from, to, d);
}

} // namespace unio
