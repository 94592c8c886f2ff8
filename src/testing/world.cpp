// The simulated system: objects, time, and calls but those that read and write (bytes.cpp). Which calls fail
// is in records.cpp.

#include "testing/world.hpp"

#include "testing/addresses.hpp"
#include "testing/ends.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace unio::inline v0_1::testing {

namespace {

constexpr std::size_t page = 4096;

bool is_later(auto const& a, auto const& b) noexcept {
  return a.due != b.due ? a.due > b.due : a.number > b.number;
}

} // namespace

void connect_ends(description& a, description& b, std::size_t capacity, std::size_t atomic_bytes) {
  std::shared_ptr<channel> ways[2];
  for (auto& way : ways) {
    way = std::make_shared<channel>(capacity, atomic_bytes);
    way->readers = way->writers = 2; // each end counts for both, and takes both with it
  }
  a.in = b.out = ways[0];
  b.in = a.out = ways[1];
}

void channel::cut() noexcept {
  bytes_.clear();
  begin_ = under_way = 0;
  is_cut = true;
}

void channel::look(std::byte* to, std::size_t n) const noexcept {
  std::memcpy(to, bytes_.data() + begin_, n);
}

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
  if (file != nullptr) std::erase_if(file->locks, [this](auto const& l) { return l.owner == this; });
  for (auto const& w : waiting) w->out->break_off(); // it will never be accepted
  if (in != nullptr) {
    bool const was_read = in->size() + in->under_way == 0;
    bool const resets = line != nullptr && resets_when_closed(*this) && !is_over(*this, line->in->now());
    if (out != nullptr && (!was_read || resets)) out->break_off();
    if (line != nullptr && out != nullptr) line->in->tell_peer(*line, *in, *out);
    --in->readers;
  }
  if (out != nullptr) --out->writers;
  if (in != nullptr && out != nullptr) --in->writers, --out->readers; // a closed socket ends both directions
}

world::world(simulation_options const& o) noexcept : options(o), random(o.seed) {
  root_ = make_node(node_kind::directory, 0755);
  for (char const* const path : {"/etc", "/run", "/tmp", "/var/tmp"}) directory(path);
  answer_system_calls(this);
}
world::~world() {
  table_.clear(); // while there is a clock
  answer_system_calls(nullptr);
}

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

std::shared_ptr<description> world::share(int fd) const noexcept {
  return find(fd) != nullptr ? table_[static_cast<std::size_t>(fd - first_descriptor)] : nullptr;
}

int world::open_doorbell() noexcept {
  if (simulated_threads == nullptr) return -1;
  alone const inside;
  auto d = std::make_shared<description>();
  d->kind = thing::event;
  d->is_doorbell = true;
  return install(std::move(d));
}

bool world::was_rung(int doorbell) noexcept {
  description* const d = find(doorbell);
  return d != nullptr && std::exchange(d->count, 0) != 0;
}

int world::open_pipe(int& writer) {
  alone const inside;
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
  alone const inside;
  auto const a = std::make_shared<description>(), b = std::make_shared<description>();
  a->kind = b->kind = thing::socket;
  connect_ends(*a, *b, options.stream_capacity, 1);
  int const first = install(a);
  second = install(b);
  return first;
}

int world::open_file(std::span<std::byte const> contents) {
  alone const inside;
  auto d = std::make_shared<description>();
  d->kind = thing::file;
  d->file = std::make_shared<file_data>();
  d->file->bytes.assign(contents.begin(), contents.end());
  d->file->inode = ++inodes_;
  return install(std::move(d));
}

int world::open_listener() {
  alone const inside;
  auto d = std::make_shared<description>();
  d->kind = thing::listener;
  d->family = AF_UNIX;
  return install(std::move(d));
}

int world::open_connection(int listener) {
  alone const inside;
  auto const client = std::make_shared<description>(), server = std::make_shared<description>();
  client->kind = server->kind = thing::socket;
  connect_ends(*client, *server, options.stream_capacity, 1);
  find(listener)->waiting.push_back(server);
  ++find(listener)->news;
  return install(client);
}

std::int64_t world::pipe(int* fds) noexcept {
  if (int const e = enter(call::pipe, first_descriptor); e != 0) return e;
  fds[0] = open_pipe(fds[1]);
  return leave(call::pipe, fds[0], 0);
}

std::int64_t world::make_event(unsigned initial, bool is_semaphore) noexcept {
  if (int const e = enter(call::eventfd, first_descriptor); e != 0) return e;
  auto d = std::make_shared<description>();
  d->kind = thing::event;
  d->count = initial;
  d->is_semaphore = is_semaphore;
  int const fd = install(std::move(d));
  return leave(call::eventfd, fd, fd);
}

std::size_t world::open_descriptors() const noexcept {
  return static_cast<std::size_t>(std::count_if(
      table_.begin(), table_.end(), [](auto const& d) { return d != nullptr && !d->is_doorbell; }));
}

bool world::is_ready(int fd, readiness what) const noexcept {
  description const* const d = find(fd);
  if (d == nullptr || d->kind == thing::file) return true;
  if (what == readiness::exceptional) return false;
  if (d->kind == thing::listener) return what == readiness::readable && !d->waiting.empty();
  if (d->kind == thing::datagrams)
    return what == readiness::writable || !d->arrived.empty() || d->failure != 0;
  if (d->kind == thing::event && what == readiness::writable)
    return !d->is_timer && d->count != description::most_counted;
  if (d->kind == thing::event) return d->count != 0;
  if (d->kind == thing::socket && d->in == nullptr) return !d->is_connecting;
  if (what == readiness::writable)
    return d->out != nullptr && (broken(*d, *d->out, now_) || d->out->room() >= d->out->atomic());
  return d->in != nullptr && (d->in->size() != 0 || ended(*d, *d->in, now_));
}

// ---- time ----

void world::add_event(std::int64_t due, std::function<void()> f) {
  if (due == deadline::forever) return; // never
  event e{due, events_made_++, std::move(f)};
  events_.insert(std::upper_bound(events_.begin(), events_.end(), e, is_later<event, event>), std::move(e));
}

void world::later(std::int64_t due, std::function<void()> f) {
  if (due == deadline::forever) return;
  event e{due, events_made_++, std::move(f)};
  arrivals_.insert(std::upper_bound(arrivals_.begin(), arrivals_.end(), e, is_later<event, event>),
                   std::move(e));
}

void world::settle() noexcept {
  while (!arrivals_.empty() && arrivals_.back().due <= now_) {
    std::function<void()> const f = std::move(arrivals_.back().f);
    arrivals_.pop_back();
    f();
  }
}

void world::pass_moment() noexcept {
  constexpr std::int64_t moment = 1'000;
  if (!arrivals_.empty()) (void)sleep_until(now_ + moment);
}

void world::remove_kernel(void* backend) noexcept {
  std::erase_if(kernels_, [&](auto const& k) { return k.second == backend; });
}

bool world::turn_kernels(void* but) noexcept {
  bool busy = false;
  for (std::size_t i = 0; i != kernels_.size(); ++i)
    if (kernels_[i].second != but) busy = kernels_[i].first(kernels_[i].second) || busy;
  return busy;
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
  std::int64_t const arrival_due = arrivals_.empty() ? deadline::forever : arrivals_.back().due;
  std::int64_t const due = std::min({until, event_due, arrival_due});
  if (simulated_threads != nullptr) {
    simulated_threads->sleep(due);
  } else {
    now_ = std::max(now_, due);
  }
  settle();
  return !events_.empty() && events_.back().due <= now_;
}

bool world::pass(std::int64_t until) noexcept {
  if (turn_kernels(nullptr)) {
    std::int64_t const tick = options.delays ? static_cast<std::int64_t>(random.below(1000)) : 0;
    (void)sleep_until(std::min(until, now_ + tick));
  } else {
    if (until == deadline::forever && !has_event() && simulated_threads == nullptr) return false;
    (void)sleep_until(until);
  }
  while (std::function<void()> const f = take_event()) f();
  return true;
}

// ---- the other calls ----

std::int64_t world::accept(int fd, sockaddr* from, unsigned* size) noexcept {
  return on(call::accept4, fd, [&](description& d) -> std::int64_t {
    if (d.kind == thing::datagrams) return -EOPNOTSUPP;
    if (d.kind != thing::listener) return d.kind == thing::socket ? -EINVAL : -ENOTSOCK;
    if (d.waiting.empty()) return -EAGAIN;
    std::shared_ptr<description> accepted = std::move(d.waiting.front());
    d.waiting.pop_front();
    if (from != nullptr && size != nullptr) tell(accepted->peer, accepted->family, from, size);
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
  return on(call::shutdown, fd, [this, how](description& d) -> std::int64_t {
    if (d.kind == thing::datagrams && d.peer.family() != address_family::unspecified)
      return refuse("shutdown(2) of datagrams");
    bool const is_socket = d.kind == thing::datagrams || d.kind == thing::socket || d.kind == thing::listener;
    if (is_socket && how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return -EINVAL;
    if (d.kind == thing::socket && d.in == nullptr && d.family == AF_UNIX) return 0; // unix_shutdown()
    if (d.kind == thing::datagrams || (d.kind == thing::socket && d.in == nullptr)) return -ENOTCONN;
    if (d.kind == thing::listener) { // which listens no more: accept(2) fails, of those that wait too
      if (how == SHUT_WR) return 0;
      d.kind = thing::socket;
      for (auto const& w : d.waiting) w->out->break_off();
      d.waiting.clear();
      return 0;
    }
    if (d.kind != thing::socket) return -ENOTSOCK;
    if (is_over(d, now_)) return -ENOTCONN;
    // Shutting one's sending half ends the peer's reading half, and the other way round (unix_shutdown). The
    // peer of a connection over the network may go on sending (tcp_shutdown does nothing for SHUT_RD).
    constexpr int never_again = -1'000;
    if (how != SHUT_RD) {
      bool const is_first = !was_ended(d, *d.out);
      d.out->writers = never_again;
      if (d.line != nullptr && is_first) {
        d.out->ends_at = std::max(d.out->arrives_at, moment(d.line->latency));
        if (d.out->ends_at > now_) later(d.out->ends_at, [] {});
      }
    }
    if (how != SHUT_WR && d.line == nullptr) d.in->writers = never_again;
    if (how != SHUT_WR) d.reads_no_more = true;
    // What comes to a socket that neither sends nor receives is answered with a reset
    // (tcp_rcv_state_process).
    if (d.line != nullptr && d.reads_no_more && was_shut(*d.out) && d.in->readers == 2) {
      --d.in->readers;
      d.in->breaks_at = deadline::forever;
    }
    return 0;
  });
}

std::int64_t world::sync(call c, int fd) noexcept {
  return on(c, fd, [this](description& d) -> std::int64_t {
    if ((d.status & O_PATH) != 0) return -EBADF;
    if (d.kind != thing::file && d.kind != thing::name) return -EINVAL;
    return d.file_node != nullptr && is_failing(*d.file_node) ? -EIO : 0;
  });
}

std::int64_t world::fcntl(int fd, int command, long argument) noexcept {
  return on(call::fcntl, fd, [&](description& d) -> std::int64_t {
    channel* const way = d.kind == thing::pipe ? (d.in != nullptr ? d.in : d.out).get() : nullptr;
    switch (command) {
      case F_GETFD:
        return FD_CLOEXEC;
      case F_GETFL:
        if (d.file_node != nullptr) return d.status;
        if (d.kind == thing::pipe) return (d.in != nullptr ? O_RDONLY : O_WRONLY) | O_NONBLOCK;
        return O_RDWR | O_NONBLOCK;
      case F_SETFL:
        d.status = (d.status & (O_ACCMODE | O_PATH | O_SYNC)) |
                   static_cast<int>(argument & (O_APPEND | O_NONBLOCK | O_DIRECT));
        return 0;
      case F_SETFD:
        return 0;
      case F_DUPFD_CLOEXEC:
        return install(table_[static_cast<std::size_t>(fd - first_descriptor)]);
      case F_SETPIPE_SZ:
        if (way == nullptr) return -EBADF;
        argument = static_cast<unsigned>(argument); // as the kernel takes it
        if (argument > 1L << 31) return -EINVAL;
        argument =
            static_cast<long>(std::bit_ceil(std::max<std::size_t>(page, static_cast<std::size_t>(argument))));
        if (static_cast<std::size_t>(argument) < way->size()) return -EBUSY;
        way->set_capacity(static_cast<std::size_t>(argument));
        return argument;
      case F_GETPIPE_SZ:
        return way != nullptr ? static_cast<std::int64_t>(way->capacity()) : -EBADF;
      case F_OFD_SETLK:
      case F_OFD_SETLKW: {
        auto const& asked = *reinterpret_cast<struct flock const*>(argument);
        bool const may_wait = command == F_OFD_SETLKW;
        if (std::int64_t const e = refuse_lock(d, asked); e != 0) return e;
        // An imaginary other process contends for it too.
        bool const is_held = asked.l_type != F_UNLCK && options.delays && !may_wait && random.one_in(3);
        return is_held ? -EAGAIN : lock(d, asked, may_wait);
      }
      default:
        (void)refuse("fcntl(2) with this command");
        return -EINVAL;
    }
  });
}

std::int64_t world::truncate(int fd, std::int64_t size) noexcept {
  return on(call::ftruncate, fd, [size](description& d) {
    if (d.kind != thing::file || size < 0) return -EINVAL;
    if ((d.status & O_ACCMODE) == O_RDONLY) return -EINVAL; // ftruncate(2)
    if (static_cast<std::uint64_t>(size) > largest_file) return -EFBIG;
    d.file->bytes.resize(static_cast<std::size_t>(size));
    return 0;
  });
}

std::int64_t world::zero(int fd, int mode, std::int64_t at, std::int64_t n) noexcept {
  return on(call::fallocate, fd, [=, this](description& d) {
    if (d.kind != thing::file) return -ESPIPE;
    if (at < 0 || n <= 0) return -EINVAL;
    bool const keeps = (mode & ~FALLOC_FL_KEEP_SIZE) == 0; // space, for later
    if (!keeps && (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE)) == 0) {
      (void)refuse("fallocate(2) of this mode");
      return -EOPNOTSUPP;
    }
    if ((d.status & O_ACCMODE) == O_RDONLY) return -EBADF;
    if (keeps) {
      std::size_t const end = static_cast<std::size_t>(at) + static_cast<std::size_t>(n);
      if (end > largest_file) return -EFBIG;
      std::size_t const size = d.file->bytes.size();
      if (d.file_node != nullptr && end > size && end - size > disk_room()) return -ENOSPC;
      if (mode == 0 && d.file->bytes.size() < end) d.file->bytes.resize(end);
      return 0;
    }
    std::span<std::byte> const all = d.file->bytes;
    std::span const from = all.subspan(std::min(all.size(), static_cast<std::size_t>(at)));
    std::ranges::fill(from.first(std::min(from.size(), static_cast<std::size_t>(n))), std::byte{});
    return 0;
  });
}

} // namespace unio::testing
