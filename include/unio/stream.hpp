// unio/stream.hpp: byte streams of any kind, and what is done with them.
//
//   read_stream, write_stream, stream               types that can be read from, written to, both
//   any_read_stream, any_write_stream, any_stream   a reference to any of them, in two words
//   co_read, co_write                               all of it
//   co_read_until                                   up to a delimiter
//   co_read_all                                     up to the end, and no more than a limit
//   co_copy                                         from one stream to another
//   dynamic_buffer                                  a container that grows as bytes come
//
//   unio::io_result<std::size_t> const copied = co_await unio::co_copy(file, socket);
//
// The functions are no templates: each transfer on a stream that is no handle of unio's costs a frame, on a
// handle none. For lines and buffering see unio/buffered_stream.hpp.
//
// Thread safety  the functions run where their coroutine does; one read and one write of a stream at a time

#pragma once

#include <unio/detail/stream.hpp>

namespace unio::inline v0_1 {

/// A type whose bytes can be read: `co_await s.co_read(request)` yields an io_result<mutable_buffers>.
/// co_read may take a deadline after the request.
///
/// With room in the request a read waits until at least one byte has arrived. Then it yields
///
///   no error   the buffers that were filled: 1 byte … size of all. Perhaps not those passed in
///   no error   and no byte: the end of the stream. Functions that need more bytes (the free co_read(),
///              co_read_until(), co_peek()) report it as condition::end_of_stream
///   an error   bytes_transferred() bytes, 0 … size of all, reached the request's buffers before it
///
/// Without room it yields no byte and no error, at once. The handles of unio are read streams.
///
/// Concurrency  one read and one write at a time
/// Source       D2052R0 §4.1; cppcoro, readable_stream
template <class S>
concept read_stream = requires(S& s, io_request<mutable_buffers> request) {
  { s.co_read(request) } -> detail::awaits<io_result<mutable_buffers>>;
};

/// A type that takes bytes: `co_await s.co_write(request)` yields an io_result<const_buffers>. co_write may
/// take a deadline after the request.
///
/// With bytes in the request a write waits until at least one byte was taken. Then it yields
///
///   no error   the buffers that were taken: 1 byte … size of all
///   an error   bytes_transferred() bytes, 0 … size of all, were taken before it happened
///
/// Without bytes it yields no byte and no error, at once. The handles of unio are write streams.
template <class S>
concept write_stream = requires(S& s, io_request<const_buffers> request) {
  { s.co_write(request) } -> detail::awaits<io_result<const_buffers>>;
};

/// Both.
template <class S>
concept stream = read_stream<S> && write_stream<S>;

class any_stream;

/// A reference to any read stream, which converts to it implicitly. Default: none.
///
/// Lifetime       the stream outlives it, and does not move. A class derived from io_handle is read as one
/// Thread safety  distinct and shared: safe; the stream as its type says
/// Cost           of a read on a handle, or on a stream whose co_read returns a task: none; on any other: a
///                frame
/// Size           16 bytes
class any_read_stream : public detail::stream_reference {
 public:
  any_read_stream() = default;
  template <read_stream S>
    requires(!std::derived_from<S, detail::stream_reference>)
  any_read_stream(S& s) noexcept : stream_reference(s) {} // NOLINT: implicit
  inline any_read_stream(any_stream s) noexcept;          // NOLINT: implicit
  /// Reads: see read_stream. Preconditions: it refers to a stream.
  ///
  /// Returns, errors, buffers, cancellation  the stream's
  [[nodiscard]] UNIO_API detail::stream_awaitable<async_read> co_read(io_request<mutable_buffers> request,
                                                                      deadline d = {}) const;
};

/// A reference to any write stream.
///
/// Lifetime, thread safety, cost, size  as any_read_stream
class any_write_stream : public detail::stream_reference {
 public:
  any_write_stream() = default;
  template <write_stream S>
    requires(!std::derived_from<S, detail::stream_reference>)
  any_write_stream(S& s) noexcept : stream_reference(s) {} // NOLINT: implicit
  inline any_write_stream(any_stream s) noexcept;          // NOLINT: implicit
  /// Writes: see write_stream. Preconditions: it refers to a stream.
  ///
  /// Returns, errors, buffers, cancellation  the stream's
  [[nodiscard]] UNIO_API detail::stream_awaitable<async_write> co_write(io_request<const_buffers> request,
                                                                        deadline d = {}) const;
};

/// A reference to any stream.
///
/// Lifetime, thread safety, cost, size  as any_read_stream
class any_stream : public detail::stream_reference {
 public:
  any_stream() = default;
  template <stream S>
    requires(!std::derived_from<S, detail::stream_reference>)
  any_stream(S& s) noexcept : stream_reference(s) {} // NOLINT: implicit

  /// As any_read_stream::co_read.
  [[nodiscard]] detail::stream_awaitable<async_read> co_read(io_request<mutable_buffers> request,
                                                             deadline d = {}) const;
  /// As any_write_stream::co_write.
  [[nodiscard]] detail::stream_awaitable<async_write> co_write(io_request<const_buffers> request,
                                                               deadline d = {}) const;
};

/// A reference to a container that bytes are appended to, up to a limit: std::string, std::vector of chars or
/// bytes, or any other with data, size, capacity and resize.
///
/// Lifetime       the container outlives it
/// Thread safety  the container's
/// Errors         what resize() throws
/// Cost           the container's, and a call through a pointer
/// Size           24 bytes
class dynamic_buffer {
 public:
  static constexpr std::size_t unlimited = static_cast<std::size_t>(-1);
  template <class C>
    requires(!std::same_as<std::remove_cv_t<C>, dynamic_buffer>) && requires(C& c, std::size_t n) {
      c.resize(n);
      { c.data() } -> std::convertible_to<void*>;
      { c.size() } -> std::convertible_to<std::size_t>;
      { c.capacity() } -> std::convertible_to<std::size_t>;
      requires sizeof(*c.data()) == 1;
    }
  dynamic_buffer(C& c, std::size_t max_size = unlimited) noexcept // NOLINT: implicit
      : container_(__builtin_addressof(c)),
        functions_(&detail::container_functions_of<C>),
        max_size_(max_size) {}

  [[nodiscard]] std::byte* data() const noexcept { return functions_->data(container_); }
  [[nodiscard]] std::size_t size() const noexcept { return functions_->size(container_); }
  [[nodiscard]] std::size_t capacity() const noexcept { return functions_->capacity(container_); }
  [[nodiscard]] std::size_t max_size() const noexcept { return max_size_; }
  void resize(std::size_t n) const { functions_->resize(container_, n); }

 private:
  void* container_;
  detail::container_functions const* functions_;
  std::size_t max_size_;
};

// The functions below are tasks: what they refer to must outlive them. The deadline is for the whole task: a
// span counts from its start. It is checked between transfers, and passed on to streams that take one; with a
// deadline of zero they do what can be done without waiting, in at most 1,024 transfers. With errors
// bytes_transferred() says how far it came.

/// Reads until the request's buffers are full.
///
/// Effects       fills `request.buffers`: bytes that a stream returns in other memory are copied there
/// Returns       the request's buffers. An error that comes with the last byte is left to the next read
/// Errors        condition::end_of_stream if the stream ended before the first byte, truncated if it did
///               before the last; timed_out, would_block, canceled; the stream's own
/// Preconditions see read_stream
/// Buffers       the caller's, an array of buffers included
/// Cancellation  by the environment's stop token, which the stream's reads see
/// Cost          a frame from the pool; the stream's reads
UNIO_API task<io_result<mutable_buffers>> co_read(any_read_stream from, io_request<mutable_buffers> request,
                                                  deadline d = {});

/// Writes all of the request's buffers.
///
/// Effects       takes from `request.buffers` in order
/// Returns       the request's buffers
/// Errors        condition::timed_out, would_block, canceled; EIO if the stream takes nothing without an
///               error; the stream's own (EPIPE)
/// Buffers, cancellation, cost  as co_read()
UNIO_API task<io_result<const_buffers>> co_write(any_write_stream to, io_request<const_buffers> request,
                                                 deadline d = {});

/// Reads until `into` contains the delimiter. Searches the bytes that `into` already has, and may read beyond
/// the delimiter: remove what was used before the next call.
///
/// Effects       appends what it reads, also if it fails later
/// Returns       the size of `into` up to the end of the delimiter; bytes_transferred() is what was appended
/// Errors        condition::end_of_stream if the stream ended and `into` is empty, truncated if it ended and
///               `into` is not; std::errc::message_size at its max_size(); otherwise as co_read()
/// Cancellation  what was read by then stays in `into`
/// Preconditions the delimiter is not empty
/// Buffers       the delimiter's text must outlive the task
/// Cost          a frame from the pool; the container's growth, none once its capacity suffices
UNIO_API task<io_result<std::size_t>> co_read_until(any_read_stream from, dynamic_buffer into,
                                                    std::string_view delimiter, deadline d = {});

/// The most that co_read_all() appends unless it is told another number: 16 MiB.
inline constexpr std::size_t read_all_limit = std::size_t{16} << 20;

/// Reads until the end of the stream: `unio::run(unio::co_read_all(file, text))`, with a std::string.
///
/// Effects       appends what it reads, also if it fails later
/// Returns       how many bytes were appended: 0 if the stream had ended before
/// Errors        std::errc::message_size if the stream has more than `limit` bytes, or more than `into` may
///               have (its max_size()): then all that is allowed was appended, and one byte more was read,
///               which is lost; timed_out, would_block, canceled; the stream's own. bytes_transferred() is
///               what was appended
/// Cancellation  as co_read()
/// Cost          a frame from the pool; the container's growth, none once its capacity suffices and has 512
///               bytes more. Its resize() writes zeros where up to 16 KiB are to be read
UNIO_API task<io_result<std::size_t>> co_read_all(any_read_stream from, dynamic_buffer into,
                                                  std::size_t limit = read_all_limit, deadline d = {});
task<io_result<std::size_t>> co_read_all(any_read_stream from, dynamic_buffer into, deadline d);

/// co_copy() without a limit.
inline constexpr extent_type no_limit = static_cast<extent_type>(-1);

/// Copies until the end of `from`, or until `limit` bytes have moved. If both are handles and one of them is
/// a pipe (to be read: one without a name), the bytes stay in the kernel; otherwise it copies blocks of 64
/// KiB.
///
/// Returns       how many bytes reached `to`: less than `limit` if `from` ended
/// Errors        as co_read() and co_write(), except that the end of the stream is none.
///               bytes_transferred() is what reached `to`. Up to one block may be read and not written; a
///               buffered_reader keeps it
/// Concurrency   a read of `from` and a write of `to`, one at a time
/// Cancellation  by the environment's stop token, which the reads and writes see
/// Cost          a frame and, unless it splices, a block from the pool
/// Runs as       splice(2) · reads and writes
UNIO_API task<io_result<std::size_t>> co_copy(any_read_stream from, any_write_stream to,
                                              extent_type limit = no_limit, deadline d = {});
task<io_result<std::size_t>> co_copy(any_read_stream from, any_write_stream to, deadline d);

} // namespace unio

#include <unio/detail/any_stream.hpp>
