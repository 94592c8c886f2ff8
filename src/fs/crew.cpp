#include "fs/crew.hpp"

#include "handle/names.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/threads.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <thread>

namespace unio::inline v0_1::fs::trees {
namespace {

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr int way_flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr std::size_t longest_piece = 4000; // a path of the kernel is shorter than PATH_MAX
constexpr std::size_t chunk_size = std::size_t{64} << 10;
constexpr std::uint32_t spins = 200;
constexpr std::uint32_t far = 128; // levels: opening takes as long as visiting some directories
constexpr int tries_for_a_descriptor = 1000;

int processors() noexcept {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
}

int descriptor_limit() noexcept {
  rlimit l{};
  if (::getrlimit(RLIMIT_NOFILE, &l) != 0) return 64;
  return static_cast<int>(std::min<rlim_t>(l.rlim_cur, 1 << 20));
}

std::int64_t open_one(int dir, char const* name, int flags) noexcept {
  return sys::uninterrupted([&] { return sys::openat(dir, name, flags, 0); });
}

} // namespace

int identify(int fd, inode_id& id) noexcept {
  struct stat s;
  if (auto const e = sys::fstat(fd, &s); e < 0) return static_cast<int>(e);
  id = {s.st_dev, s.st_ino};
  return 0;
}

crew::crew(crew_settings const& s) noexcept
    : settings_(s),
      threads_(s.threads > 0 ? std::min(s.threads, most_threads) : processors()),
      most_open_(std::clamp(descriptor_limit() / 4, 4, 512)) {}

crew::~crew() {
  while (evict()) {
  }
  if (root_ != nullptr) close_all(*root_);
  for (int i = 0; workers_ != nullptr && i != threads_; ++i)
    if (workers_[i].buffer != nullptr) sys::munmap(workers_[i].buffer, settings_.buffer + settings_.spare);
  delete[] workers_;
  while (chunks_ != nullptr) {
    std::byte* next = nullptr;
    std::memcpy(&next, chunks_, sizeof next);
    ::operator delete(std::exchange(chunks_, next));
  }
}

int crew::begin(int fd, int other_fd) noexcept {
  // The kernel gives the lowest number that is free: that of the roots says how many are in use. A thread has
  // its directory open and that above, on each side, and two files, or two pieces of a path. With too few for
  // all threads some would find none for as long as the others work.
  int const free = descriptor_limit() - std::max(fd, other_fd) - 1;
  int const of_a_thread = 2 * settings_.sides + 2;
  most_open_ = std::clamp(free - of_a_thread, 2, most_open_);
  threads_ = std::clamp((free - most_open_) / of_a_thread, 1, threads_);
  workers_ = new (std::nothrow) worker[static_cast<std::size_t>(threads_)];
  if (workers_ != nullptr) {
    for (int i = 0; i != threads_; ++i) {
      workers_[i].owner = this;
      workers_[i].index = i;
    }
    worker& w = workers_[0];
    auto const p = sys::mmap(nullptr, settings_.buffer + settings_.spare, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the table returns numbers
    if (p >= 0 || p <= -4096) w.buffer = reinterpret_cast<std::byte*>(p);
    node nobody{};
    if (w.buffer != nullptr) root_ = make(w, nobody, {});
  }
  if (root_ == nullptr) {
    if (fd >= 0) sys::close(fd);
    if (other_fd >= 0) sys::close(other_fd);
    return -ENOMEM;
  }
  root_->parent = nullptr;
  root_->depth = 0;
  root_->users = 1; // never idle: the way to all others
  root_->fd[0] = fd;
  root_->fd[1] = other_fd;
  return 0;
}

int crew::run() noexcept {
  pending_.store(1, std::memory_order_relaxed);
  queue_.push(*root_);
  work(workers_[0]);
  for (int i = 1; i < started_; ++i) ::pthread_join(workers_[i].thread, nullptr);
  return ended_.load(std::memory_order_relaxed);
}

// ── the work ───────────────────────────────────────────────────────────────────────────────────────────────

void crew::work(worker& w) noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (done_.load(std::memory_order_relaxed)) return;
    node* const n = queue_.first;
    if (n == nullptr) {
      lock.unlock();
      for (std::uint32_t i = 0; i != spins && pending_.load(std::memory_order_relaxed) == 0; ++i) {
        if (done_.load(std::memory_order_relaxed)) return;
        sys::sched_yield();
      }
      lock.lock();
      if (queue_.first != nullptr || done_.load(std::memory_order_relaxed)) continue;
      ++asleep_;
      wake_.wait(lock);
      --asleep_;
      continue;
    }
    queue_.first = n->next;
    if (queue_.first == nullptr) queue_.last = nullptr;
    pending_.store(--queue_.size, std::memory_order_relaxed);
    ++visited_;
    lock.unlock();
    if (!must_end()) {
      if (int const e = visit(w, *n); e < 0) end(e);
    }
    w.shown_node = nullptr;
    finish(w, n);
    lock.lock();
  }
}

void crew::push(node_list& children) noexcept {
  if (children.size == 0) return;
  {
    std::lock_guard const lock(mutex_);
    children.first->parent->references += static_cast<std::uint32_t>(children.size);
    // Where more wait than have descriptors their parents would be opened again, each from far above.
    if (settings_.depth_first || queue_.size > static_cast<std::size_t>(most_open_) / 2) {
      children.last->next = queue_.first;
      if (queue_.last == nullptr) queue_.last = children.last;
      queue_.first = children.first;
    } else {
      (queue_.last != nullptr ? queue_.last->next : queue_.first) = children.first;
      queue_.last = children.last;
    }
    queue_.size += children.size;
    pending_.store(queue_.size, std::memory_order_relaxed);
    if (asleep_ != 0) {
      wake_.notify_all();
    } else if (started_ < threads_ && queue_.size > 1) {
      start_helper();
    }
  }
  children = {};
}

// Starts one helper, which may start others. If it cannot, the threads that there are do the work.
void crew::start_helper() noexcept {
  worker& w = workers_[started_];
  auto const p = sys::mmap(nullptr, settings_.buffer + settings_.spare, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p < 0 && p > -4096) return;
  w.buffer = reinterpret_cast<std::byte*>(p); // NOLINT(performance-no-int-to-ptr)
  auto const run = [](void* self) -> void* {
    auto& me = *static_cast<worker*>(self);
    me.owner->work(me);
    return nullptr;
  };
  if (sys::start_thread(run, &w, &w.thread) != 0) {
    threads_ = started_;
    sys::munmap(std::exchange(w.buffer, nullptr), settings_.buffer + settings_.spare);
    return;
  }
  ++started_;
}

void crew::hold(node& n) noexcept {
  std::lock_guard const lock(mutex_);
  for (node* p = &n; p != nullptr && !p->is_held; p = p->parent) p->is_held = true;
}

void crew::finish(worker& w, node* n) noexcept {
  for (;;) {
    {
      std::lock_guard const lock(mutex_);
      if (--n->references != 0) return;
    }
    node* const parent = n->parent;
    if (ended_.load(std::memory_order_relaxed) == 0) {
      if (parent != nullptr && settings_.climb) climb(*n);
      int const e = left(w, *n);
      if (e < 0) end(e);
      if (e > 0) {
        std::lock_guard const lock(mutex_);
        n->references = 1;
        n->next = queue_.first;
        if (queue_.last == nullptr) queue_.last = n;
        queue_.first = n;
        pending_.store(++queue_.size, std::memory_order_relaxed);
        return; // to work(), which takes it
      }
    }
    std::lock_guard const lock(mutex_);
    if (parent == nullptr) {
      done_.store(true, std::memory_order_relaxed);
      wake_.notify_all();
      return;
    }
    if (!n->is_held) {
      make_busy(*n);
      close_all(*n);
      n->next = freed_[n->units];
      freed_[n->units] = n;
    }
    n = parent;
  }
}

bool crew::must_end() noexcept {
  if (ended_.load(std::memory_order_relaxed) != 0) return true;
  if (settings_.stop.stop_requested() || settings_.second_stop.stop_requested()) end(-ECANCELED);
  if (settings_.due != deadline::forever && sys::steady_now() >= settings_.due) end(-ETIMEDOUT);
  return ended_.load(std::memory_order_relaxed) != 0;
}

void crew::end(int code) noexcept {
  int none = 0;
  ended_.compare_exchange_strong(none, code, std::memory_order_relaxed);
}

std::int64_t crew::read(worker& w, int fd) const noexcept {
  return sys::uninterrupted([&] { return sys::getdents64(fd, w.buffer, settings_.buffer); });
}

// ── nodes ──────────────────────────────────────────────────────────────────────────────────────────────────

node* crew::make(worker& w, node& parent, std::string_view name) noexcept {
  std::size_t const units = units_for(name.size());
  if (w.free[units] == nullptr) {
    std::lock_guard const lock(mutex_);
    w.free[units] = std::exchange(freed_[units], nullptr);
  }
  void* place = w.free[units];
  if (place != nullptr) {
    w.free[units] = w.free[units]->next;
  } else {
    if (w.chunk_left < units * 32) {
      auto* const chunk = static_cast<std::byte*>(::operator new(chunk_size, std::nothrow));
      if (chunk == nullptr) return nullptr;
      std::lock_guard const lock(mutex_);
      std::memcpy(chunk, &chunks_, sizeof chunks_);
      chunks_ = chunk;
      w.chunk = chunk + 32;
      w.chunk_left = chunk_size - 32;
    }
    place = std::exchange(w.chunk, w.chunk + units * 32);
    w.chunk_left -= units * 32;
  }
  node* const n = new (place) node{};
  n->parent = &parent;
  n->fd[0] = n->fd[1] = -1;
  n->references = 1;
  n->depth = parent.depth + 1;
  n->units = static_cast<std::uint16_t>(units);
  n->name_size = static_cast<std::uint8_t>(name.size());
  n->name = reinterpret_cast<char*>(n + 1) + settings_.extra;
  if (!name.empty()) std::memcpy(n->name, name.data(), name.size());
  n->name[name.size()] = '\0';
  return n;
}

// Writes the names from below `from` to `n` and then `name`. Returns the size without the zero, or 0 if there
// is no memory.
static std::size_t join(growing<char>& to, node const* from, node const* n, std::string_view name) noexcept {
  std::size_t size = name.size();
  for (node const* p = n; p != from; p = p->parent) size += p->name_size + std::size_t{1};
  if (!to.resize(size + 1)) return 0;
  char* end = to.data() + size;
  *end = '\0';
  end -= name.size();
  if (!name.empty()) std::memcpy(end, name.data(), name.size());
  for (node const* p = n; p != from; p = p->parent) {
    *--end = '/';
    end -= p->name_size;
    std::memcpy(end, p->name, p->name_size);
  }
  return size;
}

std::string_view crew::path(worker& w, node const& n, std::string_view name) noexcept {
  if (w.shown_node != &n) {
    w.shown_size = join(w.shown, root_, &n, {});
    w.shown_node = w.shown.data() != nullptr ? &n : nullptr;
    if (w.shown_node == nullptr) return "";
  }
  if (!w.shown.resize(w.shown_size + name.size() + 1)) return "";
  char* const end = w.shown.data() + w.shown_size;
  if (!name.empty()) std::memcpy(end, name.data(), name.size());
  end[name.size()] = '\0';
  std::size_t size = w.shown_size + name.size();
  if (name.empty() && size != 0) --size; // the directory itself, without its slash
  return {w.shown.data(), size};
}

// ── descriptors ────────────────────────────────────────────────────────────────────────────────────────────

int crew::use(worker& w, node& n, int side) noexcept {
  node* from = &n;
  {
    std::unique_lock lock(mutex_);
    make_busy(n);
    ++n.users;
    for (std::uint32_t i = 0;; ++i) {
      if (n.fd[side] >= 0) return n.fd[side];
      from = &n;
      for (std::uint32_t k = 0; k != far && from->fd[side] < 0; ++k) from = from->parent;
      if (from->fd[side] >= 0 || !settings_.climb || started_ == 1 || i >= spins + n.depth / 16) break;
      lock.unlock(); // another thread that comes up from below will have the parent's soon
      sys::sched_yield();
      lock.lock();
    }
    while (from->fd[side] < 0) from = from->parent;
    make_busy(*from);
    ++from->users;
  }
  int fd = -EMFILE;
  for (int i = 0; i != tries_for_a_descriptor; ++i) {
    fd = open(w, *from, n, side);
    if (fd != -EMFILE && fd != -ENFILE) break;
    std::unique_lock lock(mutex_); // others have taken what we counted on
    most_open_ = std::max(open_ / 2, 2);
    if (evict()) continue;
    lock.unlock();
    sys::sched_yield();
  }
  if (fd >= 0 && n.is_known[side]) {
    inode_id now;
    int const e = identify(fd, now);
    if (e != 0 || now != n.id[side]) {
      sys::close(fd);
      fd = e != 0 ? e : -ESTALE;
    }
  }
  std::lock_guard const lock(mutex_);
  if (--from->users == 0) make_idle(*from);
  if (fd < 0) {
    if (--n.users == 0) make_idle(n);
    return fd;
  }
  return install(n, side, fd);
}

void crew::unuse(node& n) noexcept {
  std::lock_guard const lock(mutex_);
  if (--n.users == 0) make_idle(n);
}

int crew::install(node& n, int side, int fd) noexcept {
  if (n.fd[side] >= 0) { // another thread has been faster
    sys::close(fd);
    return n.fd[side];
  }
  n.fd[side] = fd;
  ++open_;
  while (open_ > most_open_ && evict()) {
  }
  return fd;
}

// `n` has ended: opens its parent by ".." from its descriptor, for the parent's next child, or for left() of
// the parent.
void crew::climb(node& n) noexcept {
  node& parent = *n.parent;
  for (int side = 0; side != settings_.sides; ++side) {
    int from = -1;
    {
      std::lock_guard const lock(mutex_);
      if (parent.fd[side] >= 0 || n.fd[side] < 0 || !parent.is_known[side]) continue;
      make_busy(n);
      ++n.users;
      from = n.fd[side];
    }
    int const fd = sys::above_standard(open_one(from, "..", directory_flags));
    inode_id now;
    bool const is_same = fd >= 0 && identify(fd, now) == 0 && now == parent.id[side];
    if (fd >= 0 && !is_same) sys::close(fd);
    std::lock_guard const lock(mutex_);
    if (is_same) {
      make_busy(parent);
      ++parent.users;
      install(parent, side, fd);
      if (--parent.users == 0) make_idle(parent);
    }
    if (--n.users == 0) make_idle(n);
  }
}

void crew::make_idle(node& n) noexcept {
  if (n.is_idle || (n.fd[0] < 0 && n.fd[1] < 0)) return;
  n.is_idle = true;
  n.older = newest_;
  n.newer = nullptr;
  (newest_ != nullptr ? newest_->newer : oldest_) = &n;
  newest_ = &n;
}

void crew::make_busy(node& n) noexcept {
  if (!n.is_idle) return;
  n.is_idle = false;
  (n.older != nullptr ? n.older->newer : oldest_) = n.newer;
  (n.newer != nullptr ? n.newer->older : newest_) = n.older;
}

bool crew::evict() noexcept {
  if (oldest_ == nullptr) return false;
  node& n = *oldest_;
  make_busy(n);
  if (settings_.verify)
    for (int side = 0; side != 2; ++side)
      if (n.fd[side] >= 0 && !n.is_known[side]) n.is_known[side] = identify(n.fd[side], n.id[side]) == 0;
  close_all(n);
  return true;
}

void crew::close_all(node& n) noexcept {
  for (int& fd : n.fd) {
    if (fd < 0) continue;
    sys::close(std::exchange(fd, -1));
    --open_;
  }
}

int crew::open(worker& w, node const& from, node const& n, int side) noexcept {
  std::size_t const size = join(w.path, &from, n.parent, {n.name, n.name_size});
  if (size == 0) return -ENOMEM;
  return sys::above_standard(open_pieces(from.fd[side], w.path.data(), size, n.parent == &from));
}

int crew::open_pieces(int base, char* path, std::size_t size, bool is_one) const noexcept {
  if (settings_.follow_links) {
    // The names on the way may be links, which were followed. Longer paths than the system's are refused.
    return static_cast<int>(open_one(base, path, directory_flags & ~O_NOFOLLOW));
  }
  if (is_one && settings_.cross_mounts) return static_cast<int>(open_one(base, path, directory_flags));
  std::uint64_t const resolve =
      RESOLVE_NO_SYMLINKS | (settings_.cross_mounts ? 0U : std::uint64_t{RESOLVE_NO_XDEV});
  int at = base;
  for (;;) {
    std::size_t piece = size;
    if (size > longest_piece) {
      piece = longest_piece;
      while (path[piece] != '/') --piece;
      path[piece] = '\0';
    }
    int const flags = piece == size ? directory_flags : way_flags;
    int const fd = unio::detail::open_resolved(at, path, flags, 0, resolve);
    if (piece != size) path[piece] = '/';
    if (at != base) sys::close(at);
    if (fd < 0 || piece == size) return fd;
    at = fd;
    path += piece + 1;
    size -= piece + 1;
  }
}

} // namespace unio::fs::trees
