// unio/buffered_stream.hpp: streams with a buffer in the program, for data in small pieces.
//
//   buffered_reader   read · peek · consume · read a line, over any read stream
//   buffered_writer   write · flush, over any write stream
//   buffered_stream   both, over any stream
//   lines             a stream as lines of text
//
//   auto text = unio::lines(socket);
//   while (auto line = co_await text.co_next()) use(*line);
//
// They are streams themselves: co_read(), co_write() and co_copy() take them. Bytes already in memory
// are returned without suspending and without a frame, except that every 64th call lets other coroutines run
// (co_yield_now).

#pragma once

#include <unio/detail/buffered_stream.hpp>
#include <unio/stream.hpp>

namespace unio::inline v0_1 {

inline constexpr std::size_t default_buffer_bytes = 4096;

/// Reads a stream ahead into its memory: a block of the frame pool, or the caller's.
///
/// Errors         std::bad_alloc when it is made with memory of its own. Of reading: the stream's, once the
///                bytes that came before are consumed
/// Thread safety  none; one operation at a time
/// Lifetime       the stream and the caller's memory outlive it; it outlives its operations; it does not move
/// Cancellation   by the environment's stop token. A stop, a deadline or an error loses no bytes: those that
///                arrived stay until they are read or consumed
/// Cost           one copy of what goes through its memory; a frame from the pool for a call that waits, none
///                for others
class UNIO_API buffered_reader {
 public:
  explicit buffered_reader(any_read_stream from, std::size_t bytes = default_buffer_bytes)
      : stream_(from), memory_(bytes) {}
  buffered_reader(any_read_stream from, mutable_buffer memory) noexcept : stream_(from), memory_(memory) {}

  /// What has been read ahead. Valid until the next operation.
  [[nodiscard]] const_buffer buffered() const noexcept { return {memory_.data() + begin_, end_ - begin_}; }
  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.size(); }
  /// Drops the first `n` bytes of buffered(). Preconditions: there are as many.
  void consume(std::size_t n) noexcept;

  /// Returns the bytes that have been read ahead; if there are none, reads. A request with room for
  /// capacity() bytes or more goes straight to the stream. Offsets are ignored. See read_stream.
  [[nodiscard]] detail::buffered_awaitable<detail::buffered_read> co_read(io_request<mutable_buffers> request,
                                                                          deadline d = {}) noexcept {
    return detail::buffered_awaitable<detail::buffered_read>({this, request, d});
  }

  /// Reads ahead until `bytes` bytes have arrived, and shows all that have, without consuming any.
  ///
  /// Returns  at least `bytes` bytes, valid until the next operation
  /// Errors   condition::end_of_stream or truncated if the stream ended first; std::errc::message_size for
  ///          more than capacity(); otherwise as co_read(). bytes_transferred() is how many bytes are there
  [[nodiscard]] detail::buffered_awaitable<detail::buffered_peek> co_peek(std::size_t bytes = 1,
                                                                          deadline d = {}) noexcept {
    return detail::buffered_awaitable<detail::buffered_peek>({this, bytes, d});
  }

  /// Reads a line, and consumes it.
  ///
  /// Returns  the line without its "\n" or "\r\n", which the last may lack; valid until the next operation
  /// Errors   condition::end_of_stream after the last line; std::errc::message_size for a line of capacity()
  ///          bytes without an end among them, also where no more follow: see buffered() and consume();
  ///          otherwise as co_read(), and a partial line stays buffered
  [[nodiscard]] detail::buffered_awaitable<detail::buffered_line> co_read_line(deadline d = {}) noexcept {
    return detail::buffered_awaitable<detail::buffered_line>({this, d});
  }

 private:
  friend struct detail::buffered_read;
  friend struct detail::buffered_peek;
  friend struct detail::buffered_line;
  task<io_result<mutable_buffers>> read_slowly(io_request<mutable_buffers> request, deadline d);
  task<io_result<const_buffer>> peek_slowly(std::size_t bytes, deadline d);
  task<io_result<std::string_view>> read_line_slowly(deadline d);
  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  mutable_buffers make_room() noexcept; // moves the buffered bytes to the front
  std::size_t take(io_result<mutable_buffers> const& got) noexcept;
  std::size_t give(mutable_buffers const& to) noexcept;
  std::string_view line(std::size_t n) noexcept; // `n` bytes, line end included
  [[nodiscard]] std::size_t find_line(std::size_t from) const noexcept;

  any_read_stream stream_;
  detail::buffer_memory memory_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  failure failed_; // came together with bytes; reported once these are consumed
};

/// Collects what is written to a stream. The destructor cannot wait and writes nothing: flush first.
///
/// Errors         std::bad_alloc when it is made with memory of its own. Of writing: the stream's
/// Cancellation   by the environment's stop token. A stop, a deadline or an error loses no bytes: those that
///                were taken stay until they are written
/// Thread safety, lifetime, cost  as buffered_reader
class UNIO_API buffered_writer {
 public:
  explicit buffered_writer(any_write_stream to, std::size_t bytes = default_buffer_bytes)
      : stream_(to), memory_(bytes) {}
  buffered_writer(any_write_stream to, mutable_buffer memory) noexcept : stream_(to), memory_(memory) {}

  /// The bytes that were taken and are not written yet.
  [[nodiscard]] const_buffer unwritten() const noexcept { return {memory_.data() + begin_, end_ - begin_}; }
  [[nodiscard]] std::size_t capacity() const noexcept { return memory_.size(); }

  /// Takes what fits; if nothing fits, flushes first. A request of at least capacity() bytes goes straight to
  /// the stream if nothing is unwritten. Offsets are ignored. See write_stream.
  ///
  /// Returns  the buffers taken
  /// Errors   those of co_flush(): then none of the request was taken
  [[nodiscard]] detail::buffered_awaitable<detail::buffered_write> co_write(io_request<const_buffers> request,
                                                                            deadline d = {}) noexcept {
    return detail::buffered_awaitable<detail::buffered_write>({this, request, d});
  }

  /// Writes all that was taken.
  ///
  /// Returns  nothing; bytes_transferred() is how many were written, also with an error; the rest stays
  /// Errors   as co_write()
  [[nodiscard]] task<io_result<void>> co_flush(deadline d = {});

 private:
  friend struct detail::buffered_write;
  task<io_result<const_buffers>> write_slowly(io_request<const_buffers> request, deadline d);
  [[nodiscard]] std::size_t room() const noexcept { return memory_.size() - end_; }
  std::size_t take(const_buffers const& from) noexcept;

  any_write_stream stream_;
  detail::buffer_memory memory_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

/// Both directions of a stream, independent of each other: flush before waiting for an answer.
class buffered_stream : public buffered_reader, public buffered_writer {
 public:
  explicit buffered_stream(any_stream s, std::size_t read_bytes = default_buffer_bytes,
                           std::size_t write_bytes = default_buffer_bytes)
      : buffered_reader(s, read_bytes), buffered_writer(s, write_bytes) {}
  buffered_stream(any_stream s, mutable_buffer read_memory, mutable_buffer write_memory) noexcept
      : buffered_reader(s, read_memory), buffered_writer(s, write_memory) {}
};

/// A stream as lines of text, none longer than its memory.
class line_reader : public buffered_reader {
 public:
  using buffered_reader::buffered_reader;
  /// See buffered_reader::co_read_line.
  [[nodiscard]] detail::buffered_awaitable<detail::buffered_line> co_next(deadline d = {}) noexcept {
    return co_read_line(d);
  }
  /// As co_next(), of which it is the old name.
  [[deprecated("use co_next"), nodiscard]] detail::buffered_awaitable<detail::buffered_line> next(
      deadline d = {}) noexcept {
    return co_read_line(d);
  }
};
/// A line_reader over a stream, in memory of its own or the caller's. See buffered_reader.
[[nodiscard]] inline line_reader lines(any_read_stream from, std::size_t bytes = default_buffer_bytes) {
  return line_reader(from, bytes);
}
[[nodiscard]] inline line_reader lines(any_read_stream from, mutable_buffer memory) noexcept {
  return line_reader(from, memory);
}

/// As co_copy() from a stream; bytes that were read and could not be written stay in the reader.
///
/// Lifetime  the reader and the stream outlive the task
UNIO_API task<io_result<std::size_t>> co_copy(buffered_reader& from, any_write_stream to,
                                              extent_type limit = no_limit, deadline d = {});
inline task<io_result<std::size_t>> co_copy(buffered_reader& from, any_write_stream to, deadline d) {
  return co_copy(from, to, no_limit, d);
}

/// As co_copy(), of which it is the old name.
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
