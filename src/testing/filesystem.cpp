// The simulated filesystem: a tree in memory, with the directories that programs expect. It has no symbolic
// links, no owners, and permissions that are not checked.

#include "sys/kernel_call.hpp"
#include "testing/addresses.hpp"
#include "testing/world.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string_view>

namespace unio::inline v0_1::testing {
namespace {

constexpr std::size_t longest_name = 255; // NAME_MAX
constexpr unsigned disk_major = 8;        // of a disk of this machine
constexpr std::string_view descriptors = "/proc/self/fd/";

bool is_directory(node const& n) noexcept { return n.kind == node_kind::directory; }

unsigned mode_of(node const& n) noexcept {
  unsigned const type = is_directory(n) ? S_IFDIR : n.kind == node_kind::socket ? S_IFSOCK : S_IFREG;
  return type | n.permissions;
}

bool has_name(node const& n) noexcept {
  std::shared_ptr<node> const in = n.parent.lock();
  if (in == nullptr) return false;
  auto const there = in->entries.find(n.name);
  return there != in->entries.end() && there->second.get() == &n;
}

std::string path_to(node const& n) {
  std::string path;
  std::shared_ptr<node> in;
  for (node const* at = &n; !at->name.empty(); at = in.get()) {
    path.insert(0, at->name);
    path.insert(path.begin(), '/');
    in = at->parent.lock();
    if (in == nullptr) break;
  }
  if (path.empty()) path.push_back('/');
  if (!has_name(n) && !n.name.empty()) path.append(" (deleted)"); // proc(5)
  return path;
}

// umask(2) tells it only by changing it: proc(5) does not.
unsigned creation_mask() noexcept {
  constexpr std::string_view title = "\nUmask:\t";
  char text[512]; // it is the second line
  std::int64_t const fd = sys::call(SYS_openat, AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0);
  std::int64_t const n = fd >= 0 ? sys::call(SYS_read, fd, text, sizeof(text) - 1) : 0;
  if (fd >= 0) (void)sys::call(SYS_close, fd);
  text[std::max<std::int64_t>(n, 0)] = '\0';
  char const* const line = std::strstr(text, title.data());
  return line != nullptr ? static_cast<unsigned>(std::strtoul(line + title.size(), nullptr, 8)) : 0;
}

template <class Stat> void describe(node const& n, Stat& s) noexcept {
  s = {};
  s.st_dev = makedev(disk_major, 1);
  s.st_ino = n.inode;
  s.st_mode = mode_of(n);
  s.st_nlink = has_name(n) || is_directory(n) ? 1 : 0;
  s.st_size = n.file != nullptr ? static_cast<off_t>(n.file->bytes.size()) : 0;
  s.st_blksize = 4096;
}

} // namespace

std::shared_ptr<node> world::make_node(node_kind kind, unsigned permissions) {
  auto n = std::make_shared<node>();
  n->kind = kind;
  n->inode = ++inodes_;
  n->permissions = permissions & 07777;
  if (kind == node_kind::file) n->file = std::make_shared<file_data>();
  return n;
}

std::shared_ptr<node> world::create_node(node_kind kind, unsigned permissions) {
  return make_node(kind, permissions & ~creation_mask());
}

void world::put(std::shared_ptr<node> const& in, std::string const& name, std::shared_ptr<node> const& n) {
  n->parent = in;
  n->name = name;
  in->entries[name] = n;
}

std::shared_ptr<node> world::directory(std::string_view path) {
  std::shared_ptr<node> at = root_;
  while (!path.empty()) {
    std::size_t const end = std::min(path.find('/'), path.size());
    std::string const name(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
    if (name.empty()) continue;
    auto const there = at->entries.find(name);
    if (there == at->entries.end()) put(at, name, make_node(node_kind::directory, 0755));
    at = at->entries[name];
  }
  return at;
}

std::int64_t world::locate(int dir, char const* path, place& found) const noexcept {
  std::string_view rest(path);
  if (rest.empty()) return -ENOENT;
  std::shared_ptr<node> at = root_;
  if (rest.front() != '/' && dir != AT_FDCWD) {
    description const* const d = find(dir);
    if (d == nullptr) return -EBADF;
    if (d->file_node == nullptr || !is_directory(*d->file_node)) return -ENOTDIR;
    at = d->file_node;
  }
  found = {};
  found.node = at;
  while (!rest.empty()) {
    std::size_t const end = std::min(rest.find('/'), rest.size());
    std::string_view const name = rest.substr(0, end);
    rest.remove_prefix(end);
    found.wants_directory = !rest.empty() && rest.find_first_not_of('/') == std::string_view::npos;
    rest.remove_prefix(std::min(rest.find_first_not_of('/'), rest.size()));
    if (name.empty()) continue; // before the first one, which is the root
    if (found.node == nullptr) return -ENOENT;
    if (!is_directory(*found.node)) return -ENOTDIR;
    if (name.size() > longest_name) return -ENAMETOOLONG;
    if (name == "." || name == "..") {
      std::shared_ptr<node> const up = found.node->parent.lock();
      if (name == ".." && up != nullptr) found.node = up;
      found.in = nullptr;
      found.name = name;
      continue;
    }
    found.in = found.node;
    found.name = name;
    auto const there = found.in->entries.find(found.name);
    found.node = there != found.in->entries.end() ? there->second : nullptr;
  }
  if (found.wants_directory && found.node != nullptr && !is_directory(*found.node)) return -ENOTDIR;
  return 0;
}

std::int64_t world::open(int dir, char const* path, int flags, unsigned permissions) noexcept {
  if (int const e = enter(call::openat, first_descriptor); e != 0) return e;
  std::int64_t const r = open_now(dir, path, flags, permissions);
  return leave(call::openat, r >= 0 ? static_cast<int>(r) : first_descriptor, r);
}

std::int64_t world::open_now(int dir, char const* path, int flags, unsigned permissions) noexcept {
  place at;
  if (std::int64_t const r = locate(dir, path, at); r < 0) return r;
  bool const writes_to_it = (flags & O_ACCMODE) != O_RDONLY;
  bool const only_names = (flags & O_PATH) != 0;
  std::shared_ptr<node> n = at.node;
  if ((flags & O_TMPFILE) == O_TMPFILE) {
    if (n == nullptr) return -ENOENT;
    if (!is_directory(*n)) return -ENOTDIR;
    if (!writes_to_it) return -EINVAL;
    n = create_node(node_kind::file, permissions);
    n->parent = at.node;
    n->name.assign(1, '#').append(std::to_string(n->inode));
  } else if (n == nullptr) {
    if ((flags & O_CREAT) == 0 || only_names) return -ENOENT;
    if (at.wants_directory) return -EISDIR;
    n = create_node(node_kind::file, permissions);
    put(at.in, at.name, n);
  } else if (!only_names) {
    if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return -EEXIST;
    if (is_directory(*n) && (writes_to_it || (flags & O_CREAT) != 0)) return -EISDIR;
    if (n->kind == node_kind::socket) return -ENXIO;
  }
  if ((flags & O_DIRECTORY) != 0 && (flags & O_TMPFILE) != O_TMPFILE && !is_directory(*n)) return -ENOTDIR;
  if (is_failing(*n)) return -EIO;
  if ((flags & O_TRUNC) != 0 && !only_names && n->file != nullptr)
    n->file->bytes.clear(); // of O_RDONLY, too: open(2), NOTES
  auto d = std::make_shared<description>();
  bool const has_bytes = n->kind == node_kind::file && !only_names;
  d->kind = has_bytes ? thing::file : thing::name;
  d->file_node = n;
  if (has_bytes) d->file = n->file;
  d->status = flags & (O_ACCMODE | O_APPEND | O_NONBLOCK | O_DIRECT | O_SYNC | O_DSYNC | O_PATH);
  return install(std::move(d));
}

// All names are cached here (RESOLVE_CACHED); there are no links, and one mount.
std::int64_t world::open_resolved(int dir, char const* path, int flags, unsigned permissions,
                                  std::uint64_t resolve) noexcept {
  if ((resolve & RESOLVE_BENEATH) != 0) {
    std::string_view rest(path);
    int depth = rest.starts_with('/') ? -1 : 0;
    while (depth >= 0 && !rest.empty()) {
      std::size_t const end = std::min(rest.find('/'), rest.size());
      std::string_view const name = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (name == "..") {
        --depth;
      } else if (!name.empty() && name != ".") {
        ++depth;
      }
    }
    if (depth < 0) return leave(call::openat, first_descriptor, -EXDEV);
  }
  return open(dir, path, flags, permissions);
}

std::int64_t world::make_directory(int dir, char const* path, unsigned permissions) noexcept {
  if (int const e = enter(call::mkdirat, first_descriptor); e != 0) return e;
  auto const perform = [&]() -> std::int64_t {
    place at;
    if (std::int64_t const r = locate(dir, path, at); r < 0) return r;
    if (at.node != nullptr || at.in == nullptr) return -EEXIST;
    put(at.in, at.name, create_node(node_kind::directory, permissions));
    return 0;
  };
  return leave(call::mkdirat, first_descriptor, perform());
}

// In the order of names, which is as good as any: each name that is there all the time is listed once.
std::int64_t world::list(int fd, void* entries, std::size_t n) noexcept {
  return on(call::getdents64, fd, [=](description& d) -> std::int64_t {
    if ((d.status & O_PATH) != 0) return -EBADF;
    if (d.file_node == nullptr || !is_directory(*d.file_node)) return -ENOTDIR;
    if (!has_name(*d.file_node) && !d.file_node->name.empty()) return -ENOENT;
    auto* out = static_cast<std::byte*>(entries);
    std::size_t left = n;
    bool is_full = false;
    auto const add = [&](std::string_view name, node const& what) {
      std::size_t const size = (19 + name.size() + 1 + 7) / 8 * 8; // struct linux_dirent64: getdents64(2)
      if (size > left) {
        is_full = true;
        return false;
      }
      std::memset(out, 0, size);
      std::uint64_t const next = d.position + 1;
      auto const bytes = static_cast<std::uint16_t>(size);
      auto const type = static_cast<std::uint8_t>(mode_of(what) >> 12);
      std::memcpy(out, &what.inode, sizeof(what.inode));
      std::memcpy(out + 8, &next, sizeof(next));
      std::memcpy(out + 16, &bytes, sizeof(bytes));
      std::memcpy(out + 18, &type, sizeof(type));
      std::memcpy(out + 19, name.data(), name.size());
      out += size;
      left -= size;
      d.position = next;
      return true;
    };
    node const& in = *d.file_node;
    if (d.position == 0) {
      d.last_read.clear();
      (void)add(".", in);
    }
    if (d.position == 1) {
      std::shared_ptr<node> const up = in.parent.lock();
      (void)add("..", up != nullptr ? *up : in);
    }
    if (d.position >= 2)
      for (auto e = in.entries.upper_bound(d.last_read); e != in.entries.end() && add(e->first, *e->second);
           ++e)
        d.last_read = e->first;
    return is_full && left == n ? -EINVAL : static_cast<std::int64_t>(n - left);
  });
}

std::int64_t world::unlink(int dir, char const* path, int flags) noexcept {
  if (int const e = enter(call::unlinkat, first_descriptor); e != 0) return e;
  auto const perform = [&]() -> std::int64_t {
    place at;
    if (std::int64_t const r = locate(dir, path, at); r < 0) return r;
    if (at.node == nullptr) return -ENOENT;
    bool const of_directory = (flags & AT_REMOVEDIR) != 0;
    if (at.in == nullptr) // rmdir(2), unlink(2)
      return !of_directory ? -EISDIR : at.name == "." ? -EINVAL : at.name == ".." ? -ENOTEMPTY : -EBUSY;
    if (is_directory(*at.node) != of_directory) return of_directory ? -ENOTDIR : -EISDIR;
    if (!at.node->entries.empty()) return -ENOTEMPTY;
    at.in->entries.erase(at.name);
    return 0;
  };
  return leave(call::unlinkat, first_descriptor, perform());
}

std::int64_t world::rename(int from_dir, char const* from, int to_dir, char const* to,
                           unsigned flags) noexcept {
  if (int const e = enter(call::renameat, first_descriptor); e != 0) return e;
  auto const perform = [&]() -> std::int64_t {
    if ((flags & ~static_cast<unsigned>(RENAME_NOREPLACE | RENAME_EXCHANGE)) != 0 ||
        flags == (RENAME_NOREPLACE | RENAME_EXCHANGE)) {
      (void)refuse("renameat2(2) with these flags");
      return -EINVAL;
    }
    place a, b;
    if (std::int64_t const r = locate(from_dir, from, a); r < 0) return r;
    if (std::int64_t const r = locate(to_dir, to, b); r < 0) return r;
    if (a.node == nullptr) return -ENOENT;
    if (a.in == nullptr || b.in == nullptr) return -EBUSY;
    if (b.node != nullptr && (flags & RENAME_NOREPLACE) != 0) return -EEXIST;
    for (std::shared_ptr<node> up = b.in; up != nullptr; up = up->parent.lock())
      if (up == a.node) return -EINVAL; // into itself
    if ((flags & RENAME_EXCHANGE) != 0) {
      if (b.node == nullptr) return -ENOENT;
      for (std::shared_ptr<node> up = a.in; up != nullptr; up = up->parent.lock())
        if (up == b.node) return -EINVAL;
      put(b.in, b.name, a.node);
      put(a.in, a.name, b.node);
      return 0;
    }
    if (a.node == b.node) return 0;
    if (b.node != nullptr) {
      for (std::shared_ptr<node> up = a.in; up != nullptr; up = up->parent.lock())
        if (up == b.node) return -ENOTEMPTY;
      if (is_directory(*a.node) != is_directory(*b.node)) return is_directory(*b.node) ? -EISDIR : -ENOTDIR;
      if (!b.node->entries.empty()) return -ENOTEMPTY;
    }
    if (b.wants_directory && !is_directory(*a.node)) return -ENOTDIR;
    a.in->entries.erase(a.name);
    put(b.in, b.name, a.node);
    return 0;
  };
  return leave(call::renameat, first_descriptor, perform());
}

// Of the names of descriptors alone: there are no symbolic links.
std::int64_t world::read_link(char const* path, char* out, std::size_t n) noexcept {
  if (int const e = enter(call::readlinkat, first_descriptor); e != 0) return e;
  std::string_view const whole(path);
  std::string target;
  if (whole.starts_with(descriptors)) {
    int const fd = std::atoi(path + descriptors.size());
    description const* const d = find(fd);
    if (d == nullptr) return leave(call::readlinkat, first_descriptor, -ENOENT);
    if (d->file_node != nullptr) {
      target = path_to(*d->file_node);
    } else if (d->kind == thing::event) {
      target = "anon_inode:[eventfd]";
    } else {
      char const* const kind = d->kind == thing::pipe   ? "pipe:["
                               : d->kind == thing::file ? "/memfd:["
                                                        : "socket:[";
      target = kind + std::to_string(fd) + "]";
    }
  } else {
    place at;
    std::int64_t const r = locate(AT_FDCWD, path, at);
    return leave(call::readlinkat, first_descriptor, r < 0 ? r : at.node == nullptr ? -ENOENT : -EINVAL);
  }
  std::size_t const told = std::min(n, target.size());
  std::memcpy(out, target.data(), told);
  return leave(call::readlinkat, first_descriptor, static_cast<std::int64_t>(told));
}

std::int64_t world::stat_at(int dir, char const* path, struct stat* s, int flags) noexcept {
  if (*path == 0 && (flags & AT_EMPTY_PATH) != 0) return stat(dir, s);
  if (int const e = enter(call::fstatat, first_descriptor); e != 0) return e;
  place at;
  std::int64_t r = locate(dir, path, at);
  if (r >= 0 && at.node == nullptr) r = -ENOENT;
  if (r >= 0) describe(*at.node, *s);
  return leave(call::fstatat, first_descriptor, r);
}

std::int64_t world::stat_more(int dir, char const* path, int flags, struct statx* s) noexcept {
  struct stat plain;
  if (std::int64_t const r = stat_at(dir, path, &plain, flags); r < 0) return r;
  *s = {};
  s->stx_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_INO | STATX_SIZE;
  s->stx_mode = static_cast<std::uint16_t>(plain.st_mode);
  s->stx_nlink = static_cast<std::uint32_t>(plain.st_nlink);
  s->stx_ino = plain.st_ino;
  s->stx_size = static_cast<std::uint64_t>(plain.st_size);
  s->stx_blksize = 4096;
  s->stx_dev_major = disk_major;
  s->stx_dev_minor = 1;
  return 0;
}

std::int64_t world::stat(int fd, struct stat* s) noexcept {
  return on(call::fstat, fd, [s](description& d) -> std::int64_t {
    if (d.file_node != nullptr) {
      describe(*d.file_node, *s);
      return 0;
    }
    *s = {};
    s->st_nlink = 1;
    s->st_mode = 0600 | (d.kind == thing::file    ? S_IFREG
                         : d.kind == thing::pipe  ? S_IFIFO
                         : d.kind == thing::event ? 0U // an inode of no kind
                                                  : S_IFSOCK);
    if (d.file != nullptr) {
      s->st_size = static_cast<off_t>(d.file->bytes.size());
      s->st_ino = d.file->inode;
    }
    return 0;
  });
}

std::int64_t world::seek(int fd, std::int64_t at, int whence) noexcept {
  return on(call::lseek, fd, [=, this](description& d) -> std::int64_t {
    if (d.kind == thing::name) {
      if ((d.status & O_PATH) != 0) return -EBADF;
      if (at != 0 || (whence != SEEK_SET && whence != SEEK_CUR)) return -EINVAL; // only to begin anew
      if (whence == SEEK_SET) d.position = 0;
      return static_cast<std::int64_t>(d.position);
    }
    if (d.kind != thing::file) return -ESPIPE;
    std::int64_t const from = whence == SEEK_CUR   ? static_cast<std::int64_t>(d.position)
                              : whence == SEEK_END ? static_cast<std::int64_t>(d.file->bytes.size())
                                                   : 0;
    if (whence != SEEK_SET && whence != SEEK_CUR && whence != SEEK_END) {
      (void)refuse("lseek(2) to holes and data");
      return -EINVAL;
    }
    if (from + at < 0) return -EINVAL;
    d.position = static_cast<std::uint64_t>(from + at);
    return from + at;
  });
}

std::int64_t world::change_mode(int fd, unsigned permissions) noexcept {
  return on(call::fchmod, fd, [=](description& d) -> std::int64_t {
    if (d.file_node == nullptr || (d.status & O_PATH) != 0) return -EBADF;
    d.file_node->permissions = permissions & 07777;
    return 0;
  });
}

bool world::is_failing(node const&) noexcept {
  return options.failing_files != 0 && random.one_in(options.failing_files);
}

std::size_t world::disk_room() const noexcept {
  if (options.disk_capacity == 0) return ~std::size_t{0};
  std::size_t used = 0;
  auto const count = [&](auto const& self, node const& n) -> void {
    if (n.file != nullptr) used += n.file->bytes.size();
    for (auto const& [name, below] : n.entries) self(self, *below);
  };
  count(count, *root_);
  return used < options.disk_capacity ? options.disk_capacity - used : 0;
}

// ---- locks: on open file descriptions, so those of one of them never conflict (fcntl(2))

// Why there can be no such lock, or 0.
std::int64_t world::refuse_lock(description const& d, struct flock const& l) noexcept {
  int const access = d.status & O_ACCMODE;
  if (d.kind != thing::file) return -EBADF;
  if (l.l_whence != SEEK_SET || l.l_start < 0 || l.l_len < 0) return -EINVAL;
  if (l.l_len != 0 && l.l_len - 1 > std::numeric_limits<std::int64_t>::max() - l.l_start) return -EOVERFLOW;
  if (l.l_type == F_WRLCK && access == O_RDONLY) return -EBADF;
  return l.l_type == F_RDLCK && access == O_WRONLY ? -EBADF : 0;
}

std::int64_t world::lock(description& d, struct flock const& l, bool may_wait) noexcept {
  std::int64_t const first = l.l_start;
  bool const is_rest = l.l_len == 0 || l.l_len > deadline::forever - first;
  std::int64_t const end = is_rest ? deadline::forever : first + l.l_len;
  std::vector<file_data::lock>& all = d.file->locks;
  auto const conflicts = [&](file_data::lock const& x) {
    return x.owner != &d && x.first < end && first < x.end && (x.is_exclusive || l.l_type == F_WRLCK);
  };
  if (l.l_type != F_UNLCK)
    while (std::ranges::any_of(all, conflicts)) {
      if (!may_wait) return -EAGAIN;
      if (!pass(deadline::forever)) return -EDEADLK;
    }
  // What it had of this range is replaced; what is left on both sides stays.
  std::vector<file_data::lock> next;
  for (file_data::lock const& x : all) {
    if (x.owner != &d || x.end <= first || end <= x.first) {
      next.push_back(x);
      continue;
    }
    if (x.first < first) next.push_back({x.owner, x.first, first, x.is_exclusive});
    if (end < x.end) next.push_back({x.owner, end, x.end, x.is_exclusive});
  }
  if (l.l_type != F_UNLCK) next.push_back({&d, first, end, l.l_type == F_WRLCK});
  all = std::move(next);
  return 0;
}

} // namespace unio::testing
