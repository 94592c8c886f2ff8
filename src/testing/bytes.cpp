// The simulated system: reading and writing.

#include "testing/ends.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace unio::inline v0_1::testing {
namespace {

std::size_t size_of(iovec const* v, std::size_t n) noexcept {
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < n; ++i) bytes += v[i].iov_len;
  return bytes;
}

// Calls f(memory, size) for the pieces of the first `bytes` bytes.
template <class F> void for_pieces(iovec const* v, std::size_t bytes, F f) {
  for (; bytes != 0; ++v) {
    std::size_t const here = std::min(bytes, v->iov_len);
    if (here != 0) f(static_cast<std::byte*>(v->iov_base), here);
    bytes -= here;
  }
}

bool is_of_socket(description const& d) noexcept {
  return d.kind == thing::listener || d.kind == thing::socket || d.kind == thing::datagrams;
}

bool is_unconnected(description const& d) noexcept {
  return d.kind == thing::listener || (d.kind == thing::socket && d.in == nullptr);
}

} // namespace

std::size_t world::bounded(std::size_t n) noexcept {
  if (options.max_transfer_bytes != 0) n = std::min(n, options.max_transfer_bytes);
  if (n <= 1 || !options.short_transfers || !random.one_in(3)) return n;
  std::size_t const fewer = 1 + random.below(n);
  if (on_story != nullptr && fewer != n)
    on_story(("moves " + std::to_string(fewer) + " of " + std::to_string(n) + " bytes").c_str());
  n = fewer;
  return n;
}

std::int64_t world::read_channel(channel& c, iovec const* v, std::size_t n) noexcept {
  std::size_t const bytes = bounded(c, std::min(n, c.size()));
  for_pieces(v, bytes, [&](std::byte* p, std::size_t size) { c.take(p, size); });
  return static_cast<std::int64_t>(bytes);
}

std::int64_t world::write_channel(description& d, iovec const* v, std::size_t n) noexcept {
  channel& c = *d.out;
  std::size_t bytes = bounded(c, n);
  if (bytes > c.room()) bytes = bytes <= c.atomic() ? 0 : c.room();
  if (bytes == 0) return -EAGAIN;
  if (d.line != nullptr) {
    send_over(*d.line, c, v, bytes);
  } else {
    for_pieces(v, bytes, [&](std::byte const* p, std::size_t size) { c.put(p, size); });
  }
  return static_cast<std::int64_t>(bytes);
}

void world::send_over(line& l, channel& c, iovec const* v, std::size_t bytes) noexcept {
  std::vector<std::byte> all;
  all.reserve(bytes);
  for_pieces(v, bytes, [&](std::byte const* p, std::size_t size) { all.insert(all.end(), p, p + size); });
  bool const is_read = c.readers >= 2; // else the peer has gone
  std::shared_ptr<channel> const& way = l.ways[&c == l.ways[0].get() ? 0 : 1];
  if (!is_read) refuse_bytes(l, way);
  if (is_read && l.latency == 0) c.put(all.data(), all.size());
  if (is_read && l.latency != 0) {
    std::int64_t const jitter =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(l.latency)));
    c.under_way += bytes;
    c.arrives_at = std::max(c.arrives_at, moment(l.latency + jitter / 4));
    later(c.arrives_at, [way, all = std::move(all)] {
      if (way->is_cut) return;
      way->under_way -= all.size();
      way->put(all.data(), all.size());
    });
  }
  if (l.bytes_until_reset < 0) return;
  l.bytes_until_reset -= static_cast<std::int64_t>(std::min<std::size_t>(bytes, 1 << 20));
  if (l.bytes_until_reset < 0) reset(l);
}

// The peer has closed having read everything, or ended both directions: its system answers what still comes
// with a reset, and the writer's calls fail from then on, no earlier. So do those of a peer that has not
// closed (tcp_rcv_state_process).
void world::refuse_bytes(line const& l, std::shared_ptr<channel> const& way) noexcept {
  if (way->breaks_at != deadline::forever) return;
  way->breaks_at = moment(2 * l.latency);
  if (l.latency == 0) {
    way->break_off();
    way->refused = true;
  } else {
    later(moment(l.latency), [way] { way->break_off(); });
    later(way->breaks_at, [way] { way->refused = true; });
  }
  note("refused bytes", 0, 0);
}

// eventfd(2): eight bytes each time.
std::int64_t world::read_event(description& d, iovec const* v, std::size_t n) noexcept {
  if (n < sizeof(d.count)) return -EINVAL;
  if (d.count == 0) return -EAGAIN;
  std::uint64_t taken = d.is_semaphore ? 1 : d.count;
  d.count -= taken;
  if (d.is_timer && d.interval > 0) { // those since the first that was not read
    taken = 1 + static_cast<std::uint64_t>((now_ - d.due) / d.interval);
    d.due += static_cast<std::int64_t>(taken) * d.interval;
    expect_timer(share(&d));
  } else if (d.is_timer) {
    d.due = 0;
  }
  auto const* from = reinterpret_cast<std::byte const*>(&taken);
  for_pieces(v, sizeof(taken), [&](std::byte* p, std::size_t size) {
    std::memcpy(p, from, size);
    from += size;
  });
  return sizeof(taken);
}

std::int64_t world::write_event(description& d, iovec const* v, std::size_t n) noexcept {
  std::uint64_t more = 0;
  if (n < sizeof(more) || d.is_timer) return -EINVAL;
  auto* to = reinterpret_cast<std::byte*>(&more);
  for_pieces(v, sizeof(more), [&](std::byte const* p, std::size_t size) {
    std::memcpy(to, p, size);
    to += size;
  });
  if (more > description::most_counted) return -EINVAL;
  if (description::most_counted - d.count < more) return -EAGAIN;
  d.count += more;
  ++d.news;
  return sizeof(more);
}

std::int64_t world::read(call c, int fd, iovec const* v, std::size_t n, std::int64_t at,
                         bool no_wait) noexcept {
  auto const perform = [&](description& d) -> std::int64_t {
    std::size_t const wanted = size_of(v, n);
    bool const receives = c == call::recv || c == call::recvmsg; // waits, though it wants nothing
    if (receives && !is_of_socket(d)) return -ENOTSOCK;
    if (d.kind == thing::name && d.file_node != nullptr && (d.status & O_PATH) == 0) return -EISDIR;
    if (d.kind == thing::file) {
      if (at < -1) return -EINVAL;
      if ((d.status & O_ACCMODE) == O_WRONLY) return -EBADF;
      if (d.file_node != nullptr && is_failing(*d.file_node)) return -EIO;
      if (d.file->is_random) {
        for_pieces(v, wanted, [&](std::byte* p, std::size_t piece) { (void)fill_random(p, piece); });
        return static_cast<std::int64_t>(wanted);
      }
      std::uint64_t const from = at < 0 ? d.position : static_cast<std::uint64_t>(at);
      std::uint64_t const size = d.file->bytes.size();
      std::size_t const bytes = from < size ? bounded(std::min<std::size_t>(wanted, size - from)) : 0;
      std::byte const* source = d.file->bytes.data() + (bytes != 0 ? from : 0);
      for_pieces(v, bytes, [&](std::byte* p, std::size_t piece) {
        std::memcpy(p, source, piece);
        source += piece;
      });
      if (at < 0) d.position += bytes;
      return static_cast<std::int64_t>(bytes);
    }
    if (at >= 0) return -ESPIPE;
    if (d.kind == thing::event) return read_event(d, v, wanted);
    if (is_unconnected(d)) {
      if (d.is_connecting) return -EAGAIN;
      if (d.failure != 0) return -std::exchange(d.failure, 0);
      return d.was_refused ? 0 : d.family == AF_UNIX ? -EINVAL : -ENOTCONN;
    }
    if (d.in == nullptr) return -EBADF;
    if (wanted == 0 && !receives) return 0;
    if (d.in->size() != 0) return read_channel(*d.in, v, wanted);
    if (!ended(d, *d.in, now_)) return -EAGAIN;
    return std::exchange(d.in->reset, false) ? -ECONNRESET : 0;
  };
  return on(c, fd, perform, !no_wait);
}

std::int64_t world::write(call c, int fd, iovec const* v, std::size_t n, std::int64_t at,
                          bool no_wait) noexcept {
  auto const perform = [&](description& d) -> std::int64_t {
    std::size_t const wanted = size_of(v, n);
    if ((c == call::send || c == call::sendmsg) && !is_of_socket(d)) return -ENOTSOCK;
    if (d.kind == thing::file) {
      if (at < -1) return -EINVAL;
      if ((d.status & O_ACCMODE) == O_RDONLY) return -EBADF;
      if (d.file_node != nullptr && is_failing(*d.file_node)) return -EIO;
      std::uint64_t const length = d.file->bytes.size();
      bool const appends = (d.status & O_APPEND) != 0; // wherever it was told to write: pwrite(2), BUGS
      std::uint64_t const to = appends ? length : at < 0 ? d.position : static_cast<std::uint64_t>(at);
      std::size_t bytes = wanted != 0 ? bounded(wanted) : 0;
      if (bytes != 0 && to >= largest_file) return -EFBIG;
      if (bytes != 0) bytes = std::min<std::uint64_t>(bytes, largest_file - to);
      if (d.file_node != nullptr && bytes != 0 && to + bytes > length) {
        std::uint64_t const most = length + std::min<std::uint64_t>(disk_room(), 1ULL << 40);
        if (to >= most) return -ENOSPC;
        bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, most - to));
      }
      if (bytes != 0 && to + bytes > d.file->bytes.size()) d.file->bytes.resize(to + bytes);
      std::byte* target = d.file->bytes.data() + to;
      for_pieces(v, bytes, [&](std::byte const* p, std::size_t piece) {
        std::memcpy(target, p, piece);
        target += piece;
      });
      if (at < 0) d.position = to + bytes;
      return static_cast<std::int64_t>(bytes);
    }
    if (at >= 0) return -ESPIPE;
    if (d.kind == thing::event) return write_event(d, v, wanted);
    if (is_unconnected(d)) {
      if (d.is_connecting) return -EAGAIN;
      if (d.failure != 0) return -std::exchange(d.failure, 0);
      return d.family == AF_UNIX ? -ENOTCONN : -EPIPE;
    }
    if (d.out == nullptr) return -EBADF;
    if (wanted == 0 && (d.kind == thing::pipe || c == call::writev)) return 0;
    if (broken(d, *d.out, now_)) { // tcp_reset(): the first call of either direction reports it
      if (d.line != nullptr && std::exchange(d.in->reset, false)) return -ECONNRESET;
      d.out->refused = false;
      return -EPIPE;
    }
    return wanted == 0 ? 0 : write_channel(d, v, wanted);
  };
  return on(c, fd, perform, !no_wait);
}

} // namespace unio::testing
