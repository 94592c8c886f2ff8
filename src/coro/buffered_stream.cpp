#include "coro/rounds.hpp"
#include "coro/stream.hpp"

#include <unio/buffered_stream.hpp>

#include <algorithm>

namespace unio::inline v0_1 {

using detail::bytes_moved;
using detail::give_a_turn;
using detail::rounds;
using detail::time_limit;

static_assert(stream<buffered_stream> && read_stream<line_reader> && write_stream<buffered_writer>);

// ---- reading ----------------------------------------------------------------------------------------------

void buffered_reader::consume(std::size_t n) noexcept {
  UNIO_EXPECTS(n <= size(), "more was consumed than had been read ahead");
  begin_ += n;
  if (begin_ == end_) begin_ = end_ = 0;
}

mutable_buffers buffered_reader::make_room() noexcept {
  if (begin_ != 0) {
    std::memmove(memory_.data(), memory_.data() + begin_, size());
    end_ -= begin_;
    begin_ = 0;
  }
  return mutable_buffer(memory_.data() + end_, memory_.size() - end_);
}

std::size_t buffered_reader::take(io_result<mutable_buffers> const& got) noexcept {
  std::size_t const n = detail::brought(got, mutable_buffer(memory_.data() + end_, memory_.size() - end_));
  end_ += n;
  failed_ = got.error();
  return n;
}

std::size_t buffered_reader::give(mutable_buffers const& to) noexcept {
  std::size_t given = 0;
  for (mutable_buffer const b : to) {
    std::size_t const n = std::min(b.size(), size());
    if (n != 0) std::memcpy(b.data(), memory_.data() + begin_, n);
    given += n;
    consume(n);
  }
  return given;
}

bool detail::buffered_read::at_once(answer_type& a) const noexcept {
  if (from->size() == 0 && request.buffers.bytes() != 0) return false;
  std::size_t const n = from->give(request.buffers);
  a = answer_type(result<mutable_buffers>(request.buffers.first(n)), n);
  return true;
}
task<io_result<mutable_buffers>> detail::buffered_read::slowly(bool yields) const {
  return yields ? give_a_turn(*this) : from->read_slowly(request, until);
}

task<io_result<mutable_buffers>> buffered_reader::read_slowly(io_request<mutable_buffers> request,
                                                              deadline d) {
  if (failed_) co_return {std::exchange(failed_, {}), 0};
  if (request.buffers.bytes() >= capacity()) {
    request.offset = no_offset;
    co_return co_await stream_.co_read(request, d);
  }
  mutable_buffers const room = make_room();
  io_result<mutable_buffers> const got = co_await stream_.co_read(room, d);
  if (take(got) == 0 && failed_) co_return {std::exchange(failed_, {}), 0};
  std::size_t const n = give(request.buffers);
  co_return {result<mutable_buffers>(request.buffers.first(n)), n};
}

bool detail::buffered_peek::at_once(answer_type& a) const noexcept {
  if (from->size() < bytes) return false;
  a = answer_type(result<const_buffer>(from->buffered()), from->size());
  return true;
}
task<io_result<const_buffer>> detail::buffered_peek::slowly(bool yields) const {
  return yields ? give_a_turn(*this) : from->peek_slowly(bytes, until);
}

task<io_result<const_buffer>> buffered_reader::peek_slowly(std::size_t bytes, deadline d) {
  if (bytes > capacity()) co_return {detail::system_error(EMSGSIZE), size()};
  rounds limit(d);
  for (bool first = true; size() < bytes; first = false) {
    if (failed_) co_return {std::exchange(failed_, {}), size()};
    if (!first)
      if (std::error_code const over = co_await limit.another()) co_return {over, size()};
    mutable_buffers const room = make_room();
    io_result<mutable_buffers> const got = co_await stream_.co_read(room, limit.next());
    if (take(got) == 0 && !failed_) {
      error const why = size() == 0 ? error::end_of_stream : error::truncated;
      co_return {make_error_code(why), size()};
    }
  }
  co_return {result<const_buffer>(buffered()), size()};
}

// The size of the first line, line end included; 0 if there is none.
std::size_t buffered_reader::find_line(std::size_t from) const noexcept {
  if (from == size()) return 0;
  std::byte const* const start = memory_.data() + begin_;
  void const* const end = std::memchr(start + from, '\n', size() - from);
  return end == nullptr ? 0 : static_cast<std::size_t>(static_cast<std::byte const*>(end) - start) + 1;
}

std::string_view buffered_reader::line(std::size_t n) noexcept {
  std::string_view text(reinterpret_cast<char const*>(memory_.data() + begin_), n);
  if (text.ends_with('\n')) {
    text.remove_suffix(1);
    if (text.ends_with('\r')) text.remove_suffix(1);
  }
  consume(n);
  return text;
}

bool detail::buffered_line::at_once(answer_type& a) const noexcept {
  std::size_t const n = from->find_line(0);
  if (n == 0) return false;
  a = answer_type(result<std::string_view>(from->line(n)), n);
  return true;
}
task<io_result<std::string_view>> detail::buffered_line::slowly(bool yields) const {
  return yields ? give_a_turn(*this) : from->read_line_slowly(until);
}

task<io_result<std::string_view>> buffered_reader::read_line_slowly(deadline d) {
  rounds limit(d);
  for (bool first = true;; first = false) {
    std::size_t const searched = size(); // without finding a line end
    if (failed_) co_return {std::exchange(failed_, {}), searched};
    if (searched == capacity()) co_return {detail::system_error(EMSGSIZE), searched};
    if (!first)
      if (std::error_code const over = co_await limit.another()) co_return {over, searched};
    mutable_buffers const room = make_room();
    io_result<mutable_buffers> const got = co_await stream_.co_read(room, limit.next());
    bool const ended = take(got) == 0 && !failed_;
    if (ended && searched == 0) co_return {make_error_code(error::end_of_stream), 0};
    std::size_t const n = ended ? searched : find_line(searched);
    if (n != 0) co_return {result<std::string_view>(line(n)), n};
  }
}

// ---- writing ----------------------------------------------------------------------------------------------

std::size_t buffered_writer::take(const_buffers const& from) noexcept {
  std::size_t taken = 0;
  for (const_buffer const b : from) {
    std::size_t const n = std::min(b.size(), room());
    if (n != 0) std::memcpy(memory_.data() + end_, b.data(), n);
    end_ += n;
    taken += n;
  }
  return taken;
}

bool detail::buffered_write::at_once(answer_type& a) const noexcept {
  std::size_t const bytes = request.buffers.bytes();
  bool const straight_through = to->unwritten().empty() && bytes >= to->capacity();
  if (bytes != 0 && (straight_through || to->room() == 0)) return false;
  std::size_t const n = to->take(request.buffers);
  a = answer_type(result<const_buffers>(request.buffers.first(n)), n);
  return true;
}
task<io_result<const_buffers>> detail::buffered_write::slowly(bool yields) const {
  return yields ? give_a_turn(*this) : to->write_slowly(request, until);
}

task<io_result<const_buffers>> buffered_writer::write_slowly(io_request<const_buffers> request, deadline d) {
  time_limit const limit(d);
  if (!unwritten().empty()) {
    io_result<void> const flushed = co_await co_flush(limit.next());
    if (!flushed.has_value()) co_return {flushed.error(), 0};
  }
  if (request.buffers.bytes() >= capacity()) {
    request.offset = no_offset;
    co_return co_await stream_.co_write(request, limit.next());
  }
  std::size_t const n = take(request.buffers);
  co_return {result<const_buffers>(request.buffers.first(n)), n};
}

task<io_result<void>> buffered_writer::co_flush(deadline d) {
  rounds limit(d);
  std::size_t moved = 0;
  while (begin_ != end_) {
    if (moved != 0)
      if (std::error_code const over = co_await limit.another()) co_return {over, moved};
    const_buffers const rest(unwritten());
    io_result<const_buffers> const taken = co_await stream_.co_write(rest, limit.next());
    std::size_t const n = bytes_moved(taken, rest.bytes());
    moved += n;
    begin_ += n;
    if (begin_ == end_) break;
    if (!taken.has_value()) co_return {taken.error(), moved};
    if (n == 0) co_return {detail::system_error(EIO), moved};
  }
  begin_ = end_ = 0;
  co_return {result<void>(), moved};
}

// ---- copying ----------------------------------------------------------------------------------------------

task<io_result<std::size_t>> co_copy(buffered_reader& from, any_write_stream to, extent_type limit,
                                     deadline d) {
  rounds time(d);
  std::size_t moved = 0;
  while (moved != limit) {
    if (moved != 0)
      if (std::error_code const over = co_await time.another()) co_return {over, moved};
    io_result<const_buffer> const ahead = co_await from.co_peek(1, time.next());
    if (!ahead.has_value()) {
      if (ahead.error() == condition::end_of_stream) break;
      co_return {ahead.error(), moved};
    }
    const_buffer const piece(ahead->data(), std::min<extent_type>(ahead->size(), limit - moved));
    io_result<const_buffers> const taken = co_await to.co_write(const_buffers(piece), time.next());
    std::size_t const n = bytes_moved(taken, piece.size());
    from.consume(n);
    moved += n;
    if (!taken.has_value() && (n != piece.size())) co_return {taken.error(), moved};
    if (n == 0) co_return {detail::system_error(EIO), moved};
  }
  co_return {result<std::size_t>(moved), moved};
}

} // namespace unio
