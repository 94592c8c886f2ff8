// The simulated system: objects, time, faults, records.

#include "testing/world.hpp"

#include "testing/addresses.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <utility>

namespace unio::inline v0_1::testing {

namespace {

#define UNIO_NAME(name) #name,
constexpr char const* call_names[] = {UNIO_SIMULATED_CALLS(UNIO_NAME)};
#undef UNIO_NAME

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

// A socket's direction has ended once one end has closed or shut it; both count for it from the start.
bool was_ended(description const& d, channel const& c) noexcept {
  return d.kind == thing::socket ? c.writers < 2 || c.readers < 2 : c.writers == 0;
}
// For the reader.
bool ended(description const& d, channel const& c, std::int64_t now) noexcept {
  return d.reads_no_more || (was_ended(d, c) && c.under_way == 0 && c.ends_at <= now);
}
// For the writer.
bool broken(description const& d, channel const& c, std::int64_t now) noexcept {
  return d.kind == thing::socket ? was_ended(d, c) && c.breaks_at <= now : c.readers == 0;
}

bool is_later(auto const& a, auto const& b) noexcept {
  return a.due != b.due ? a.due > b.due : a.number > b.number;
}

// Said once: a program may ask a thousand times.
void say_once(std::string const& line, std::string& said) {
  if (said.find(line) != std::string::npos) return;
  if (on_refusal != nullptr) on_refusal(std::string_view(line).substr(0, line.size() - 1));
  said += line;
  std::fputs(("unio::testing: " + line).c_str(), stderr);
}

} // namespace

constinit refusal on_refusal = nullptr;

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
  if (line != nullptr && in != nullptr && out != nullptr) line->in->tell_peer(*line, *in, *out);
  if (file != nullptr) std::erase_if(file->locks, [this](auto const& l) { return l.owner == this; });
  for (auto const& w : waiting) w->out->reset = true; // it will never be accepted
  if (in != nullptr) {
    if (out != nullptr && in->size() + in->under_way != 0) out->reset = true;
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
  if (d->kind == thing::datagrams) return what == readiness::writable || !d->arrived.empty();
  if (d->kind == thing::event) return what == readiness::writable || d->count != 0;
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
  if (simulated_threads != nullptr) simulated_threads->changed();
  auto mix = [this](std::uint64_t x) {
    fingerprint_ = (fingerprint_ ^ x) * 0x100000001b3 ^ fingerprint_ >> 29;
  };
  for (char const* p = what; *p != '\0'; ++p) mix(static_cast<unsigned char>(*p));
  mix(static_cast<std::uint64_t>(a));
  mix(static_cast<std::uint64_t>(b));
  mix(static_cast<std::uint64_t>(now_));
  if (mirror_ != nullptr) *mirror_ = fingerprint_;
  if (!options.record) return;
  char line[128];
  std::snprintf(line, sizeof line, "%lld %s %lld %lld\n", static_cast<long long>(now_), what,
                static_cast<long long>(a), static_cast<long long>(b));
  trace_ += line;
}

std::int64_t world::refuse(std::string_view what) noexcept {
  say_once(std::string(what) + " is not simulated\n", refused_);
  note("refused", 0, 0);
  return -ENOSYS;
}

std::int64_t world::refuse_elsewhere(std::string_view line) noexcept {
  std::lock_guard const lock(elsewhere_mutex_);
  say_once(std::string(line) + "\n", refused_elsewhere_);
  return -ENOSYS;
}

std::string const& world::refused() noexcept {
  std::lock_guard const lock(elsewhere_mutex_);
  refused_.append(refused_elsewhere_, told_, std::string::npos);
  told_ = refused_elsewhere_.size();
  return refused_;
}

std::int64_t world::splice(int fd) noexcept {
  if (int const e = enter(call::splice, fd); e != 0) return e;
  return leave(call::splice, fd, refuse("splice(2)"));
}

std::int64_t world::fill_random(void* data, std::size_t n) noexcept {
  for (std::size_t i = 0; i != n; ++i)
    static_cast<std::byte*>(data)[i] = static_cast<std::byte>(random.next() >> 56);
  return static_cast<std::int64_t>(n);
}

void world::narrate(int fd, char const* what) const noexcept {
  if (on_story == nullptr) return;
  on_story(find(fd) != nullptr ? (std::string(what) + ", " + name_for_people(fd)).c_str() : what);
}

int world::enter(call c, int fd) noexcept {
  if (simulated_threads != nullptr) settle(); // time moves without the world
  ++counts_[static_cast<std::size_t>(c)];
  for (fault& f : faults_)
    if (f.which == c || (f.any_of_direction && same_direction(f.which, c))) --f.left;
  auto const due = std::find_if(faults_.begin(), faults_.end(), [](fault const& f) { return f.left == 0; });
  if (due != faults_.end()) {
    int const error = due->error;
    faults_.erase(due);
    for (fault& f : faults_) f.left = std::max(f.left, 1); // others that were due, with the next call
    return static_cast<int>(leave(c, fd, -error));
  }
  // Only what can be interrupted, or can be not ready, is.
  bool const moves = reads(c) || writes(c) || c == call::accept4;
  if ((moves || c == call::poll) && options.interruptions && random.one_in(16)) {
    narrate(fd, "is interrupted (EINTR)");
    return static_cast<int>(leave(c, fd, -EINTR));
  }
  if (moves && options.spurious_wakeups && random.one_in(8)) {
    narrate(fd, "finds nothing ready (EAGAIN)");
    return static_cast<int>(leave(c, fd, -EAGAIN));
  }
  return 0;
}

std::int64_t world::leave(call c, int fd, std::int64_t r) noexcept {
  note(call_names[static_cast<std::size_t>(c)], fd == 0 ? 0 : fd - first_descriptor, r);
  return r;
}

// ---- bytes ----

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
  bool const is_read =
      c.readers >= 2; // else it is lost: the peer has gone, and this end does not know it yet
  if (is_read && l.latency == 0) c.put(all.data(), all.size());
  if (is_read && l.latency != 0) {
    std::shared_ptr<channel> const& way = l.ways[&c == l.ways[0].get() ? 0 : 1];
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
  constexpr std::uint64_t most = ~std::uint64_t{0};
  if (more == most) return -EINVAL;
  if (most - 1 - d.count < more) return -EAGAIN;
  d.count += more;
  ++d.news;
  return sizeof(more);
}

std::int64_t world::read(call c, int fd, iovec const* v, std::size_t n, std::int64_t at,
                         bool no_wait) noexcept {
  auto const perform = [&](description& d) -> std::int64_t {
    std::size_t const wanted = size_of(v, n);
    if (d.kind == thing::file) {
      if ((d.status & O_ACCMODE) == O_WRONLY) return -EBADF;
      if (d.file_node != nullptr && is_failing(*d.file_node)) return -EIO;
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
    if (d.kind == thing::event) return read_event(d, v, wanted);
    if (d.kind == thing::socket && d.in == nullptr)
      return d.is_connecting ? -EAGAIN : d.failure != 0 ? -std::exchange(d.failure, 0) : -ENOTCONN;
    if (d.in == nullptr) return -EBADF;
    if (wanted == 0) return 0;
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
    if (d.kind == thing::file) {
      if ((d.status & O_ACCMODE) == O_RDONLY) return -EBADF;
      if (d.file_node != nullptr && is_failing(*d.file_node)) return -EIO;
      std::uint64_t const length = d.file->bytes.size();
      bool const appends = (d.status & O_APPEND) != 0; // wherever it was told to write: pwrite(2), BUGS
      std::uint64_t const to = appends ? length : at < 0 ? d.position : static_cast<std::uint64_t>(at);
      std::size_t bytes = wanted != 0 ? bounded(wanted) : 0;
      if (d.file_node != nullptr && bytes != 0 && to + bytes > length) {
        std::uint64_t const most = length + std::min<std::uint64_t>(disk_room(), 1ULL << 40);
        if (to >= most) return -ENOSPC;
        bytes = static_cast<std::size_t>(std::min<std::uint64_t>(bytes, most - to));
      }
      if (to + bytes > d.file->bytes.size()) d.file->bytes.resize(to + bytes);
      std::byte* target = d.file->bytes.data() + to;
      for_pieces(v, bytes, [&](std::byte const* p, std::size_t piece) {
        std::memcpy(target, p, piece);
        target += piece;
      });
      if (at < 0) d.position = to + bytes;
      return static_cast<std::int64_t>(bytes);
    }
    if (d.kind == thing::event) return write_event(d, v, wanted);
    if (d.kind == thing::socket && d.out == nullptr)
      return d.is_connecting ? -EAGAIN : d.failure != 0 ? -std::exchange(d.failure, 0) : -EPIPE;
    if (d.out == nullptr) return -EBADF;
    if (broken(d, *d.out, now_)) // tcp_reset(): the first call of either direction reports it
      return d.line != nullptr && std::exchange(d.in->reset, false) ? -ECONNRESET : -EPIPE;
    return wanted == 0 ? 0 : write_channel(d, v, wanted);
  };
  return on(c, fd, perform, !no_wait);
}

// ---- the other calls ----

std::int64_t world::accept(int fd, sockaddr* from, unsigned* size) noexcept {
  return on(call::accept4, fd, [&](description& d) -> std::int64_t {
    if (d.kind != thing::listener) return -EINVAL;
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
    if (d.kind == thing::datagrams || (d.kind == thing::socket && d.in == nullptr)) return -ENOTCONN;
    if (d.kind != thing::socket) return -ENOTSOCK;
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
        return d.file_node != nullptr ? d.status : O_RDWR | O_NONBLOCK;
      case F_SETFL:
        d.status = (d.status & (O_ACCMODE | O_PATH)) | static_cast<int>(argument & (O_APPEND | O_NONBLOCK));
        return 0;
      case F_SETFD:
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
      case F_OFD_SETLK:
      case F_OFD_SETLKW: {
        auto const& asked = *reinterpret_cast<struct flock const*>(argument);
        bool const may_wait = command == F_OFD_SETLKW;
        // Besides those that the program has, an imaginary other process contends for it.
        bool const is_held = d.kind == thing::file && asked.l_type != F_UNLCK && options.delays &&
                             !may_wait && random.one_in(3);
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
