#include "coro/stream.hpp"

#include "coro/rounds.hpp"

#include <unio/splice.hpp>

#include <algorithm>

namespace unio::inline v0_1 {

using detail::bytes_moved;
using detail::rounds;
using detail::unmoved;

static_assert(sizeof(any_stream) == 16 && sizeof(dynamic_buffer) == 24);
static_assert(stream<io_handle> && stream<any_stream> && read_stream<any_read_stream> &&
              write_stream<any_write_stream>);

detail::stream_awaitable<async_read> any_read_stream::co_read(io_request<mutable_buffers> request,
                                                              deadline d) const {
  UNIO_EXPECTS(object_ != nullptr, "an any_stream that refers to nothing was read");
  if (io_handle* const h = handle(); h != nullptr)
    return detail::stream_awaitable<async_read>(async_read(*h, request, d));
  return detail::stream_awaitable<async_read>(operations_->read(object_, request, d));
}

detail::stream_awaitable<async_write> any_write_stream::co_write(io_request<const_buffers> request,
                                                                 deadline d) const {
  UNIO_EXPECTS(object_ != nullptr, "an any_stream that refers to nothing was written");
  if (io_handle* const h = handle(); h != nullptr)
    return detail::stream_awaitable<async_write>(async_write(*h, request, d));
  return detail::stream_awaitable<async_write>(operations_->write(object_, request, d));
}

task<io_result<mutable_buffers>> co_read(any_read_stream from, io_request<mutable_buffers> request,
                                         deadline d) {
  unmoved<mutable_buffer> rest(request.buffers);
  rounds limit(d);
  for (bool first = true; !rest.empty(); first = false) {
    std::size_t const so_far = rest.moved();
    if (!first)
      if (std::error_code const over = co_await limit.another()) co_return {over, so_far};
    io_request<mutable_buffers> const wanted(rest.next(), request.offset);
    io_result<mutable_buffers> const got = co_await from.co_read(wanted, limit.next());
    std::size_t const n = detail::brought(got, wanted.buffers);
    rest.advance(n);
    if (request.offset != no_offset) request.offset += n;
    if (rest.empty()) break;
    if (!got.has_value()) co_return {got.error(), rest.moved()};
    if (n == 0) {
      error const why = so_far == 0 ? error::end_of_stream : error::truncated;
      co_return {make_error_code(why), so_far};
    }
  }
  co_return {result<mutable_buffers>(request.buffers), rest.moved()};
}

task<io_result<const_buffers>> co_write(any_write_stream to, io_request<const_buffers> request, deadline d) {
  unmoved<const_buffer> rest(request.buffers);
  rounds limit(d);
  for (bool first = true; !rest.empty(); first = false) {
    if (!first)
      if (std::error_code const over = co_await limit.another()) co_return {over, rest.moved()};
    io_request<const_buffers> const wanted(rest.next(), request.offset);
    io_result<const_buffers> const taken = co_await to.co_write(wanted, limit.next());
    std::size_t const n = bytes_moved(taken, wanted.buffers.bytes());
    rest.advance(n);
    if (request.offset != no_offset) request.offset += n;
    if (rest.empty()) break;
    if (!taken.has_value()) co_return {taken.error(), rest.moved()};
    if (n == 0) co_return {detail::system_error(EIO), rest.moved()};
  }
  co_return {result<const_buffers>(request.buffers), rest.moved()};
}

// ---- co_read_until, co_read_all ---------------------------------------------------------------------------

namespace {

constexpr std::size_t least_room = 512;
constexpr std::size_t most_room = 16 * 1024; // resize() writes zeros there first

// Room at the end of a container; the unfilled part is removed again, also if the task is destroyed
// first.
class appended {
 public:
  appended(dynamic_buffer to, std::size_t room) : to_(to), size_(to.size()) { to_.resize(size_ + room); }
  appended(appended const&) = delete;
  appended& operator=(appended const&) = delete;
  ~appended() { to_.resize(size_); }
  [[nodiscard]] mutable_buffer memory() const noexcept { return {to_.data() + size_, to_.size() - size_}; }
  void fill(std::size_t n) noexcept { size_ += n; }

 private:
  dynamic_buffer to_;
  std::size_t size_;
};

std::size_t room_in(dynamic_buffer const& b) noexcept {
  std::size_t const size = b.size();
  if (size >= b.max_size()) return 0;
  return std::min(b.max_size() - size, std::clamp(b.capacity() - size, least_room, most_room));
}

// The end of the delimiter, or 0.
std::size_t find_end(dynamic_buffer const& in, std::string_view delimiter, std::size_t& from) noexcept {
  std::string_view const text(reinterpret_cast<char const*>(in.data()), in.size());
  std::size_t const at = text.find(delimiter, from);
  if (at != text.npos) return at + delimiter.size();
  from = text.size() >= delimiter.size() ? text.size() - delimiter.size() + 1 : 0;
  return 0;
}

} // namespace

task<io_result<std::size_t>> co_read_until(any_read_stream from, dynamic_buffer into,
                                           std::string_view delimiter, deadline d) {
  UNIO_EXPECTS(!delimiter.empty(), "an empty delimiter is everywhere");
  rounds limit(d);
  std::size_t count = 0;
  std::size_t searched = 0;
  for (bool first = true;; first = false) {
    if (std::size_t const end = find_end(into, delimiter, searched); end != 0)
      co_return {result<std::size_t>(end), count};
    if (!first)
      if (std::error_code const over = co_await limit.another()) co_return {over, count};
    std::size_t const room = room_in(into);
    if (room == 0) co_return {detail::system_error(EMSGSIZE), count};
    failure why;
    std::size_t n = 0;
    {
      appended space(into, room);
      mutable_buffers const wanted(space.memory());
      io_result<mutable_buffers> const got = co_await from.co_read(wanted, limit.next());
      n = detail::brought(got, wanted);
      why = got.error();
      space.fill(n);
    }
    count += n;
    if (why) {
      if (std::size_t const end = find_end(into, delimiter, searched); end != 0)
        co_return {result<std::size_t>(end), count};
      co_return {why, count};
    }
    if (n == 0) {
      error const e = into.size() == 0 ? error::end_of_stream : error::truncated;
      co_return {make_error_code(e), count};
    }
  }
}

task<io_result<std::size_t>> co_read_all(any_read_stream from, dynamic_buffer into, std::size_t limit,
                                         deadline d) {
  rounds time(d);
  std::size_t count = 0;
  for (bool first = true;; first = false) {
    if (!first)
      if (std::error_code const over = co_await time.another()) co_return {over, count};
    std::size_t const room = std::min(room_in(into), limit - count);
    failure why;
    std::size_t n = 0;
    if (room != 0) {
      appended space(into, room);
      mutable_buffers const wanted(space.memory());
      io_result<mutable_buffers> const got = co_await from.co_read(wanted, time.next());
      n = detail::brought(got, wanted);
      why = got.error();
      space.fill(n);
    } else { // only a read tells whether this was the end
      std::byte beyond[1];
      mutable_buffers const wanted(beyond);
      io_result<mutable_buffers> const got = co_await from.co_read(wanted, time.next());
      if (bytes_moved(got, 1) != 0) co_return {detail::system_error(EMSGSIZE), count};
      why = got.error();
    }
    count += n;
    if (why) co_return {why, count};
    if (n == 0) co_return {result<std::size_t>(count), count};
  }
}

// ---- co_copy ----------------------------------------------------------------------------------------------

namespace {

constexpr std::size_t block_bytes = 64 * 1024;
constexpr std::size_t most_spliced = 1 << 30;

// splice(2) needs a pipe on one side. A named pipe that had no writer yet would seem to have ended.
bool may_splice(any_read_stream from, any_write_stream to) noexcept {
  io_handle const* const a = from.handle();
  io_handle const* const b = to.handle();
  if (a == nullptr || b == nullptr) return false;
  auto const can = [](handle_kind k) {
    return k == handle_kind::pipe || k == handle_kind::stream_socket || k == handle_kind::file;
  };
  auto const takes = [&](handle_kind k) { return can(k) || k == handle_kind::named_pipe; };
  return can(a->kind()) && takes(b->kind()) &&
         (a->kind() == handle_kind::pipe || b->kind() == handle_kind::pipe ||
          b->kind() == handle_kind::named_pipe);
}

// Kinds do not show everything: a file opened for appending, a device, a simulated descriptor. Reading and
// writing report the real error, if there is one.
bool refuses_to_splice(std::error_code e) noexcept {
  return e.category() == std::system_category() &&
         (e.value() == EINVAL || e.value() == EBADF || e.value() == ENOSYS || e.value() == EOPNOTSUPP);
}

std::size_t at_most(extent_type limit, std::size_t moved, std::size_t most) noexcept {
  return static_cast<std::size_t>(std::min<extent_type>(limit - moved, most));
}

io_result<std::size_t> copied(std::size_t n) noexcept {
  return io_result<std::size_t>(result<std::size_t>(n), n);
}

} // namespace

task<io_result<std::size_t>> co_copy(any_read_stream from, any_write_stream to, extent_type limit,
                                     deadline d) {
  rounds time(d);
  std::size_t moved = 0;
  if (may_splice(from, to)) {
    for (;;) {
      if (moved == limit) co_return copied(moved);
      if (moved != 0)
        if (std::error_code const over = co_await time.another()) co_return {over, moved};
      splice_request const request{.bytes = at_most(limit, moved, most_spliced)};
      io_result<std::size_t> const n = co_await co_splice(*from.handle(), *to.handle(), request, time.next());
      if (!n.has_value()) {
        if (moved == 0 && refuses_to_splice(n.error())) break;
        co_return {n.error(), moved};
      }
      if (*n == 0) co_return copied(moved);
      moved += *n;
    }
  }
  detail::block const space(block_bytes);
  for (;;) {
    if (moved == limit) co_return copied(moved);
    if (moved != 0)
      if (std::error_code const over = co_await time.another()) co_return {over, moved};
    mutable_buffers const room(space.first(at_most(limit, moved, block_bytes)));
    io_result<mutable_buffers> const got = co_await from.co_read(room, time.next());
    std::size_t const n = bytes_moved(got, room.bytes());
    if (got.has_value() && n == 0) co_return copied(moved);
    // Written from where they are: bytes of a mapped file are not copied first.
    mutable_buffers const filled = got.has_value() ? *got : room.first(n);
    for (std::size_t i = 0; i != filled.size(); ++i) {
      const_buffer piece(filled[i]);
      while (!piece.empty()) {
        io_result<const_buffers> const taken = co_await to.co_write(const_buffers(piece), time.next());
        std::size_t const m = bytes_moved(taken, piece.size());
        moved += m;
        piece = const_buffer(piece.data() + m, piece.size() - m);
        if (!taken.has_value() && !piece.empty()) co_return {taken.error(), moved};
        if (m == 0) co_return {detail::system_error(EIO), moved};
        if (!piece.empty())
          if (std::error_code const over = co_await time.another()) co_return {over, moved};
      }
    }
    if (!got.has_value()) co_return {got.error(), moved};
  }
}

} // namespace unio
