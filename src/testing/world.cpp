// The simulated system: objects, time, faults, records.

#include "testing/world.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace unio::testing {

namespace {

#define UNIO_NAME(name) #name,
constexpr char const* call_names[] = {UNIO_SIMULATED_CALLS(UNIO_NAME)};
#undef UNIO_NAME

bool reads(call c) noexcept { return c <= call::recvmmsg; }
bool writes(call c) noexcept { return c > call::recvmmsg && c <= call::sendmmsg; }
bool same_direction(call a, call b) noexcept { return (reads(a) && reads(b)) || (writes(a) && writes(b)); }

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

std::pair<std::shared_ptr<description>, std::shared_ptr<description>> make_pair_of_ends(
    std::size_t capacity) {
  std::shared_ptr<description> ends[2];
  std::shared_ptr<channel> ways[2];
  for (auto& way : ways) {
    way = std::make_shared<channel>(capacity, 1);
    way->readers = way->writers = 2; // each end counts for both, and takes both with it
  }
  for (int i = 0; i < 2; ++i) {
    ends[i] = std::make_shared<description>();
    ends[i]->kind = thing::socket;
    ends[i]->in = ways[i];
    ends[i]->out = ways[1 - i];
  }
  return {ends[0], ends[1]};
}

// A socket's direction has ended once one end has closed or shut it; both count for it from the start.
bool ended(description const& d, channel const& c) noexcept {
  return d.kind == thing::socket ? c.writers < 2 || c.readers < 2 : c.writers == 0;
}
bool broken(description const& d, channel const& c) noexcept {
  return d.kind == thing::socket ? ended(d, c) : c.readers == 0;
}

} // namespace

void channel::take(std::byte* to, std::size_t n) noexcept {
  std::memcpy(to, bytes_.data() + begin_, n);
  begin_ += n;
  if (begin_ == bytes_.size()) {
    bytes_.clear();
    begin_ = 0;
  } else if (begin_ > 4096 && begin_ > bytes_.size() / 2) {
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(begin_));
    begin_ = 0;
  }
}

// As unix_release_sock(): the peer is reset if something that it sent was never read.
description::~description() {
  if (in != nullptr) {
    if (out != nullptr && in->size() != 0) out->reset = true;
    --in->readers;
  }
  if (out != nullptr) --out->writers;
  if (in != nullptr && out != nullptr) --in->writers, --out->readers; // a closed socket ends both directions
}

world::world(simulation_options const& o) noexcept : options(o), random(o.seed) { answer_system_calls(this); }
world::~world() { answer_system_calls(nullptr); }

// ---- objects ----

int world::install(std::shared_ptr<description> d) {
  auto const free = std::find(table_.begin(), table_.end(), nullptr);
  int const fd = first_descriptor + static_cast<int>(free - table_.begin());
  if (free == table_.end()) {
    table_.push_back(std::move(d));
  } else {
    *free = std::move(d);
  }
  return fd;
}

description* world::find(int fd) const noexcept {
  auto const i = static_cast<std::size_t>(fd - first_descriptor);
  return fd >= first_descriptor && i < table_.size() ? table_[i].get() : nullptr;
}

int world::open_pipe(int& writer) {
  auto const c = std::make_shared<channel>(options.pipe_capacity, pipe_atomic_bytes);
  auto read_end = std::make_shared<description>();
  read_end->kind = thing::pipe;
  read_end->in = c;
  auto write_end = std::make_shared<description>();
  write_end->kind = thing::pipe;
  write_end->out = c;
  int const reader = install(std::move(read_end));
  writer = install(std::move(write_end));
  return reader;
}

int world::open_pair(int& second) {
  auto [a, b] = make_pair_of_ends(options.stream_capacity);
  int const first = install(std::move(a));
  second = install(std::move(b));
  return first;
}

int world::open_file(std::span<std::byte const> contents) {
  auto d = std::make_shared<description>();
  d->kind = thing::file;
  d->file = std::make_shared<file_data>();
  d->file->bytes.assign(contents.begin(), contents.end());
  d->file->inode = ++inodes_;
  return install(std::move(d));
}

int world::open_listener() {
  auto d = std::make_shared<description>();
  d->kind = thing::listener;
  return install(std::move(d));
}

int world::open_connection(int listener) {
  auto [client, server] = make_pair_of_ends(options.stream_capacity);
  find(listener)->waiting.push_back(std::move(server));
  return install(std::move(client));
}

std::size_t world::open_descriptors() const noexcept {
  return static_cast<std::size_t>(
      std::count_if(table_.begin(), table_.end(), [](auto const& d) { return d != nullptr; }));
}

bool world::is_ready(int fd, readiness what) const noexcept {
  description const* const d = find(fd);
  if (d == nullptr || d->kind == thing::file) return true;
  if (what == readiness::exceptional) return false;
  if (d->kind == thing::listener) return what == readiness::readable && !d->waiting.empty();
  if (d->kind == thing::datagrams) return what == readiness::writable || !d->arrived.empty();
  if (what == readiness::writable)
    return d->out != nullptr && (broken(*d, *d->out) || d->out->room() >= d->out->atomic());
  return d->in != nullptr && (d->in->size() != 0 || ended(*d, *d->in));
}

// ---- time ----

void world::add_event(std::int64_t due, std::function<void()> f) {
  event e{due, events_made_++, std::move(f)};
  auto const later = [](event const& a, event const& b) {
    return a.due != b.due ? a.due > b.due : a.number > b.number;
  };
  events_.insert(std::upper_bound(events_.begin(), events_.end(), e, later), std::move(e));
}

std::function<void()> world::take_event() {
  if (events_.empty() || events_.back().due > now_) return {};
  std::function<void()> f = std::move(events_.back().f);
  events_.pop_back();
  note("event", 0, 0);
  return f;
}

bool world::sleep_until(std::int64_t until) noexcept {
  std::int64_t const event_due = events_.empty() ? deadline::forever : events_.back().due;
  now_ = std::max(now_, std::min(until, event_due));
  return event_due <= now_;
}

bool world::pass(std::int64_t until) noexcept {
  if (turn_ != nullptr && turn_(backend_)) {
    std::int64_t const tick = options.delays ? static_cast<std::int64_t>(random.below(1000)) : 0;
    (void)sleep_until(std::min(until, now_ + tick));
  } else {
    if (until == deadline::forever && events_.empty()) return false;
    (void)sleep_until(until);
  }
  while (std::function<void()> const f = take_event()) f();
  return true;
}

// ---- faults and records ----

bool world::add_fault(std::string_view name, int nth, int error) {
  bool const any_read = name == "read*";
  if (any_read || name == "write*") {
    faults_.push_back({any_read ? call::read : call::write, true, nth, error});
    return true;
  }
  auto const known = std::find(std::begin(call_names), std::end(call_names), name);
  if (known == std::end(call_names)) return false;
  faults_.push_back({static_cast<call>(known - std::begin(call_names)), false, nth, error});
  return true;
}

bool world::count_of(std::string_view name, std::uint64_t& n) const noexcept {
  bool known = false;
  n = 0;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    auto const c = static_cast<call>(i);
    if (name == call_names[i] || (name == "read*" && reads(c)) || (name == "write*" && writes(c))) {
      n += counts_[i];
      known = true;
    }
  }
  return known;
}

void world::note(char const* what, std::int64_t a, std::int64_t b) noexcept {
  auto mix = [this](std::uint64_t x) {
    fingerprint_ = (fingerprint_ ^ x) * 0x100000001b3 ^ fingerprint_ >> 29;
  };
  for (char const* p = what; *p != '\0'; ++p) mix(static_cast<unsigned char>(*p));
  mix(static_cast<std::uint64_t>(a));
  mix(static_cast<std::uint64_t>(b));
  mix(static_cast<std::uint64_t>(now_));
  if (!options.record) return;
  char line[128];
  std::snprintf(line, sizeof line, "%lld %s %lld %lld\n", static_cast<long long>(now_), what,
                static_cast<long long>(a), static_cast<long long>(b));
  trace_ += line;
}

int world::enter(call c, int fd) noexcept {
  ++counts_[static_cast<std::size_t>(c)];
  for (fault& f : faults_)
    if (f.which == c || (f.any_of_direction && same_direction(f.which, c))) --f.left;
  auto const due = std::find_if(faults_.begin(), faults_.end(), [](fault const& f) { return f.left == 0; });
  if (due != faults_.end()) {
    int const error = due->error;
    std::erase_if(faults_, [](fault const& f) { return f.left == 0; });
    return leave(c, fd, -error);
  }
  // Only what can be interrupted, or can be not ready, is.
  bool const moves = reads(c) || writes(c) || c == call::accept4;
  if ((moves || c == call::poll) && options.interruptions && random.one_in(16)) return leave(c, fd, -EINTR);
  if (moves && options.spurious_wakeups && random.one_in(8)) return leave(c, fd, -EAGAIN);
  return 0;
}

int world::leave(call c, int fd, std::int64_t r) noexcept {
  note(call_names[static_cast<std::size_t>(c)], fd == 0 ? 0 : fd - first_descriptor, r);
  return static_cast<int>(r);
}

// Performs a call on what `fd` stands for: f(description) returns its result. `waits`: a file
// never reports -EAGAIN.
template <class F> std::int64_t world::on(call c, int fd, F f, bool waits) noexcept {
  description* const d = find(fd);
  if (d == nullptr) return leave(c, fd, -EBADF);
  bool const never_again = waits && d->kind == thing::file;
  if (int const e = enter(c, fd); e != 0 && !(e == -EAGAIN && never_again)) return e;
  return leave(c, fd, f(*d));
}

// ---- bytes ----

std::size_t world::bounded(std::size_t n) noexcept {
  if (options.max_transfer_bytes != 0) n = std::min(n, options.max_transfer_bytes);
  if (n > 1 && options.short_transfers && random.one_in(3)) n = 1 + random.below(n);
  return n;
}

std::int64_t world::read_channel(channel& c, iovec const* v, std::size_t n) noexcept {
  std::size_t const bytes = bounded(std::min(n, c.size()));
  for_pieces(v, bytes, [&](std::byte* p, std::size_t size) { c.take(p, size); });
  return static_cast<std::int64_t>(bytes);
}

std::int64_t world::write_channel(channel& c, iovec const* v, std::size_t n) noexcept {
  std::size_t bytes = bounded(n);
  if (bytes > c.room()) bytes = bytes <= c.atomic() ? 0 : c.room();
  if (bytes == 0) return -EAGAIN;
  for_pieces(v, bytes, [&](std::byte const* p, std::size_t size) { c.put(p, size); });
  return static_cast<std::int64_t>(bytes);
}

std::int64_t world::read(call c, int fd, iovec const* v, std::size_t n, std::int64_t at,
                         bool no_wait) noexcept {
  auto const perform = [&](description& d) -> std::int64_t {
    std::size_t const wanted = size_of(v, n);
    if (d.kind == thing::file) {
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
    if (d.in == nullptr) return -EBADF;
    if (wanted == 0) return 0;
    if (d.in->size() != 0) return read_channel(*d.in, v, wanted);
    if (std::exchange(d.in->reset, false)) return -ECONNRESET;
    return ended(d, *d.in) ? 0 : -EAGAIN;
  };
  return on(c, fd, perform, !no_wait);
}

std::int64_t world::write(call c, int fd, iovec const* v, std::size_t n, std::int64_t at,
                          bool no_wait) noexcept {
  auto const perform = [&](description& d) -> std::int64_t {
    std::size_t const wanted = size_of(v, n);
    if (d.kind == thing::file) {
      std::uint64_t const to = at < 0 ? d.position : static_cast<std::uint64_t>(at);
      std::size_t const bytes = wanted != 0 ? bounded(wanted) : 0;
      if (to + bytes > d.file->bytes.size()) d.file->bytes.resize(to + bytes);
      std::byte* target = d.file->bytes.data() + to;
      for_pieces(v, bytes, [&](std::byte const* p, std::size_t piece) {
        std::memcpy(target, p, piece);
        target += piece;
      });
      if (at < 0) d.position += bytes;
      return static_cast<std::int64_t>(bytes);
    }
    if (d.out == nullptr) return -EBADF;
    if (broken(d, *d.out)) return -EPIPE;
    return wanted == 0 ? 0 : write_channel(*d.out, v, wanted);
  };
  return on(c, fd, perform, !no_wait);
}

// ---- the other calls ----

std::int64_t world::accept(int fd) noexcept {
  return on(call::accept4, fd, [this](description& d) -> std::int64_t {
    if (d.kind != thing::listener) return -EINVAL;
    if (d.waiting.empty()) return -EAGAIN;
    std::shared_ptr<description> accepted = std::move(d.waiting.front());
    d.waiting.pop_front();
    return install(std::move(accepted));
  });
}

// The number is free whatever is reported, as on Linux.
std::int64_t world::close(int fd) noexcept {
  if (find(fd) == nullptr) return leave(call::close, fd, -EBADF);
  table_[static_cast<std::size_t>(fd - first_descriptor)] = nullptr;
  if (int const e = enter(call::close, fd); e != 0) return e;
  return leave(call::close, fd, 0);
}

std::int64_t world::shutdown(int fd, int how) noexcept {
  return on(call::shutdown, fd, [how](description& d) -> std::int64_t {
    if (d.kind != thing::socket) return -ENOTSOCK;
    // Shutting one's sending half ends the peer's reading half, and the other way round (unix_shutdown).
    constexpr int never_again = -1'000;
    if (how != SHUT_RD) d.out->writers = never_again;
    if (how != SHUT_WR) d.in->writers = never_again;
    return 0;
  });
}

std::int64_t world::sync(call c, int fd) noexcept {
  return on(c, fd, [](description& d) { return d.kind == thing::file ? 0 : -EINVAL; });
}

std::int64_t world::fcntl(int fd, int command, long argument) noexcept {
  return on(call::fcntl, fd, [&](description& d) -> std::int64_t {
    channel* const way = d.kind == thing::pipe ? (d.in != nullptr ? d.in : d.out).get() : nullptr;
    switch (command) {
      case F_GETFD:
        return FD_CLOEXEC;
      case F_GETFL:
        return O_RDWR | O_NONBLOCK;
      case F_SETFD:
      case F_SETFL:
        return 0;
      case F_DUPFD_CLOEXEC:
        return install(table_[static_cast<std::size_t>(fd - first_descriptor)]);
      case F_SETPIPE_SZ:
        if (way == nullptr) return -EBADF;
        if (argument <= 0 || static_cast<std::size_t>(argument) < way->size()) return -EBUSY;
        way->set_capacity(static_cast<std::size_t>(argument));
        return argument;
      case F_GETPIPE_SZ:
        return way != nullptr ? static_cast<std::int64_t>(way->capacity()) : -EBADF;
      case F_OFD_SETLK: {
        if (d.kind != thing::file) return -EBADF;
        // A simulated file cannot be opened twice, so the lock is contended by an imaginary other process.
        bool const unlocks = reinterpret_cast<struct flock const*>(argument)->l_type == F_UNLCK;
        return !unlocks && options.delays && random.one_in(3) ? -EAGAIN : 0;
      }
      case F_OFD_SETLKW:
        return d.kind == thing::file ? 0 : -EBADF;
      default:
        return -EINVAL;
    }
  });
}

std::int64_t world::stat(int fd, struct stat* s) noexcept {
  return on(call::fstat, fd, [s](description& d) {
    *s = {};
    s->st_nlink = 1;
    s->st_mode = 0600 | (d.kind == thing::file ? S_IFREG : d.kind == thing::pipe ? S_IFIFO : S_IFSOCK);
    if (d.file != nullptr) {
      s->st_size = static_cast<off_t>(d.file->bytes.size());
      s->st_ino = d.file->inode;
    }
    return 0;
  });
}

std::int64_t world::truncate(int fd, std::int64_t size) noexcept {
  return on(call::ftruncate, fd, [size](description& d) {
    if (d.kind != thing::file || size < 0) return -EINVAL;
    d.file->bytes.resize(static_cast<std::size_t>(size));
    return 0;
  });
}

std::int64_t world::zero(int fd, int mode, std::int64_t at, std::int64_t n) noexcept {
  return on(call::fallocate, fd, [=](description& d) {
    if (d.kind != thing::file) return -ESPIPE;
    if ((mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) == 0 || at < 0 || n <= 0) return -EOPNOTSUPP;
    std::span<std::byte> const all = d.file->bytes;
    std::span const from = all.subspan(std::min(all.size(), static_cast<std::size_t>(at)));
    std::ranges::fill(from.first(std::min(from.size(), static_cast<std::size_t>(n))), std::byte{});
    return 0;
  });
}

std::int64_t world::get_option(int fd, int level, int name, void* v, unsigned* size) noexcept {
  return on(call::getsockopt, fd, [=](description& d) {
    if (level != SOL_SOCKET || *size < sizeof(int)) return -ENOPROTOOPT;
    int value = 0;
    if (name == SO_ACCEPTCONN) value = d.kind == thing::listener ? 1 : 0;
    if ((name == SO_SNDBUF || name == SO_RCVBUF) && d.out != nullptr)
      value = static_cast<int>(d.out->capacity());
    std::memcpy(v, &value, sizeof value);
    *size = sizeof value;
    return 0;
  });
}

// There is no wire that an option could matter to.
std::int64_t world::set_option(int fd) noexcept {
  return on(call::setsockopt, fd, [](description&) { return 0; });
}

} // namespace unio::testing
