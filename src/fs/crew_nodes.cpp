// What a crew has of each directory: its node, its path, and its descriptors.

#include "fs/crew.hpp"
#include "handle/names.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

#include <fcntl.h>
#include <linux/openat2.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

namespace unio::inline v0_1::fs::trees {
namespace {

constexpr int directory_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
constexpr int way_flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr std::size_t longest_piece = PATH_MAX - 1; // the longest path that the kernel takes
constexpr std::size_t chunk_size = std::size_t{64} << 10;
constexpr std::uint32_t far = 128; // levels: opening takes as long as visiting some directories
constexpr int tries_for_a_descriptor = 1000;

std::int64_t open_one(int dir, char const* name, int flags) noexcept {
  return sys::uninterrupted([&] { return sys::openat(dir, name, flags, 0); });
}

// Writes the names from below `from` to `n` and then `name`. Returns the size without the zero, or 0 if there
// is no memory.
std::size_t join(growing<char>& to, node const* from, node const* n, std::string_view name) noexcept {
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

} // namespace

int identify(int fd, inode_id& id) noexcept {
  struct stat s;
  if (auto const e = sys::fstat(fd, &s); e < 0) return static_cast<int>(e);
  id = {s.st_dev, s.st_ino};
  return 0;
}

node* crew::make(worker& w, node& parent, std::string_view name) noexcept {
  std::size_t const units = units_for(name.size());
  if (units >= most_units) return nullptr; // no path could lead there
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
  n->name_size = static_cast<std::uint16_t>(name.size());
  n->name = reinterpret_cast<char*>(n + 1) + settings_.extra;
  if (!name.empty()) std::memcpy(n->name, name.data(), name.size());
  n->name[name.size()] = '\0';
  return n;
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
  while (open_ > most_open_ && evict()) continue;
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
