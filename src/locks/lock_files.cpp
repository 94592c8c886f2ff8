// unio::fs::lock_files: a file for each entity that is held, and the kernel's locks on its bytes.
//
// What lies at the name of an entity, and what it means:
//
// clang-format off
//
//   file   byte 0      marked   owner
//   ──────────────────────────────────────────────────────────────────────────────────────────────────────
//   none                        none
//   yes    free        no       none: its maker has not locked it yet, or died before; or shared owners died
//   yes    free        yes      an exclusive owner died (or a shared one that had the report of such a death)
//   yes    exclusive   no       a user that is about to own it, or about to remove it
//   yes    exclusive   yes      its exclusive owner
//   yes    shared      no       its shared owners
//   yes    shared      yes      its shared owners, after a death; the one that holds byte 1 got the report
//
// clang-format on
//
// The mark is the owner's execute permission. It is set when all entities of a request are locked, never
// when the file is made. A lock counts only if afterwards the name still leads to the locked file; of two
// that have locked files of one name one has a file without a name, sees that, and begins again. A request
// that fails removes the files that it could have owned, except those that were marked when it came; a lock
// that fails (EIO, ENOLCK …) leaves the file: another process may have locked it. The reasons are in
// docs/explanation/shared-fs-mutexes.md.
//
// Where other machines change the files, a removed one may secretly keep a name: NFS and FUSE rename open
// files (".nfs…"), and the old name may seem to lead to it for a while. So a user that removes a file there
// first says so in its mode. A user that gets the lock of such a file begins again; if the name still leads
// to it, the remover has died, and the file is removed first.

#include "locks/hooks.hpp"
#include "locks/lock_file.hpp"
#include "sys/descriptors.hpp"
#include "sys/ofd_lock.hpp"

#include <unio/locks/lock_files.hpp>

#include <fcntl.h>
#include <sys/resource.h>

#include <algorithm>

namespace unio::inline v0_1::fs {
namespace {

constexpr std::uint64_t owner_byte = 0;
constexpr std::uint64_t told_byte = 1;

constexpr unsigned unmarked = 0600;
constexpr unsigned marked = 0700;
constexpr unsigned removed = 0610; // only where other machines change the files
bool is_marked(struct stat const& s) noexcept { return (s.st_mode & S_IXUSR) != 0; }
bool is_removed(struct stat const& s) noexcept { return (s.st_mode & 07777) == removed; }

// The name of an entity's file.
struct file_name {
  explicit file_name(entity e) noexcept {
    for (unsigned i = 0; i != 16; ++i) text[i] = "0123456789abcdef"[e.value >> (60 - 4 * i) & 15];
  }
  char text[17] = {};
};

// The lock file of one entity of a request.
struct locked_file {
  int fd;
  bool was_marked; // when it was locked
  bool was_told;   // got the report of its owner's death, while sharing it: holds told_byte
};

// The files of a request: up to eight without allocating. Kept for the next request.
struct request {
  bool reserve(std::size_t n) noexcept {
    if (n <= capacity) return true;
    large.reset(new (std::nothrow) locked_file[n]);
    capacity = large != nullptr ? n : small_size;
    return large != nullptr;
  }
  locked_file& operator[](std::size_t i) noexcept { return large != nullptr ? large[i] : small[i]; }

  static constexpr std::size_t small_size = 8;
  request* next_free = nullptr;
  request* next = nullptr;
  std::size_t capacity = small_size;
  std::unique_ptr<locked_file[]> large;
  locked_file small[small_size];
};

// Whether this may be one of our lock files, which are empty. Anything else is left alone.
int check(struct stat const& s) noexcept {
  bool const has_contents = S_ISREG(s.st_mode) && s.st_nlink != 0 && s.st_size != 0;
  return has_contents ? native(error::not_a_lock_file) : check_attributes(s);
}

} // namespace

struct lock_files::state {
  ~state() {
    while (request* const r = std::exchange(all, all != nullptr ? all->next : nullptr)) delete r;
  }

  int probe() const noexcept;
  request* take(std::size_t n) noexcept;
  void give_back(request& r) noexcept;

  [[nodiscard]] int dir() const noexcept { return directory.fd(); }
  void discard(int fd) const noexcept;
  int open_existing(char const* name) const noexcept;
  int is_named(char const* name, struct stat const& s) const noexcept;
  void remove(char const* name, int fd) const noexcept;
  int lock(entity e, detail::waiting how, locked_file& f) const noexcept;
  int mark(entity e, locked_file& f, bool& owner_died) const noexcept;
  void unlock(entity e, locked_file& f, bool was_owned) const noexcept;
  void unlock_exclusive(char const* name, locked_file const& f) const noexcept;
  void unlock_shared(char const* name, locked_file const& f) const noexcept;

  lock_file directory;
  std::mutex mutex;
  request* free = nullptr;
  request* all = nullptr; // including those whose guards were released
};

// Whether files can be made and locked here. Tried with a file without a name, which leaves nothing behind.
int lock_files::state::probe() const noexcept {
  auto r = sys::openat(dir(), ".", O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
  if (r == -EOPNOTSUPP || r == -EISDIR || r == -ENOENT || r == -EINVAL) { // openat(2): no O_TMPFILE here
    auto const e = random_entity();
    if (!e) return -e.error().value();
    char name[23] = ".probe";
    std::ranges::copy(file_name(*e).text, name + 6);
    r = sys::openat(dir(), name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (r >= 0) (void)sys::unlinkat(dir(), name, 0);
  }
  int const fd = sys::above_standard(r);
  if (fd < 0) return fd;
  int const e = byte_lock::try_lock(fd, owner_byte, lock_kind::exclusive);
  if (directory.is_remote()) byte_lock::unlock_all(fd);
  sys::close(fd);
  return e;
}

request* lock_files::state::take(std::size_t n) noexcept {
  std::lock_guard const alone(mutex);
  if (free == nullptr) {
    free = new (std::nothrow) request;
    if (free == nullptr) return nullptr;
    free->next = std::exchange(all, free);
  }
  if (!free->reserve(n)) return nullptr;
  return std::exchange(free, free->next_free);
}

void lock_files::state::give_back(request& r) noexcept {
  std::lock_guard const alone(mutex);
  r.next_free = std::exchange(free, &r);
}

// Closes it, and thereby unlocks it. Some FUSE servers need an explicit unlock.
void lock_files::state::discard(int fd) const noexcept {
  if (directory.is_remote()) byte_lock::unlock_all(fd);
  sys::close_unshared(fd);
}

// A descriptor. -ENOENT: it no longer exists, or was replaced.
int lock_files::state::open_existing(char const* name) const noexcept {
  struct stat s;
  if (auto const r = sys::fstatat(dir(), name, &s, AT_SYMLINK_NOFOLLOW); r < 0) return static_cast<int>(r);
  if (int const r = check(s); r != 0) return r;
  int const fd = sys::open_unshared(dir(), name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) return fd;
  struct stat opened;
  auto const e = sys::fstat(fd, &opened);
  if (e == 0 && opened.st_ino == s.st_ino && opened.st_dev == s.st_dev) return fd;
  discard(fd);
  return e < 0 ? static_cast<int>(e) : -ENOENT;
}

// Whether the name leads to the file with this state. 1, 0, or a negative errno.
int lock_files::state::is_named(char const* name, struct stat const& s) const noexcept {
  if (s.st_nlink == 0) return 0;
  if (int const e = directory.refresh(); e != 0) return e;
  struct stat named;
  auto const e = sys::fstatat(dir(), name, &named, AT_SYMLINK_NOFOLLOW);
  if (e == -ENOENT) return 0;
  if (e < 0) return static_cast<int>(e);
  return named.st_ino == s.st_ino && named.st_dev == s.st_dev ? 1 : 0;
}

// Removes the name of a file that is locked exclusively. If that fails the file stays, which is no death.
void lock_files::state::remove(char const* name, int fd) const noexcept {
  auto e = directory.is_remote() ? sys::fchmod(fd, removed) : 0;
  hooks::step("lock_files.before_unlink");
  if (e == 0) e = sys::unlinkat(dir(), name, 0);
  if (e < 0 && e != -ENOENT) (void)sys::fchmod(fd, unmarked);
}

int lock_files::state::lock(entity e, detail::waiting how, locked_file& f) const noexcept {
  file_name const name(e);
  auto const kind = e.exclusive ? lock_kind::exclusive : lock_kind::shared;
  // ESTALE means that another machine has removed it: nfs(5). Or, if it persists, that the server has lost
  // everything.
  constexpr int most_stale = 20;
  int stale = 0;
  pause wait(how);
  for (int attempt = 0;; ++attempt) {
    if (attempt != 0) { // another user unlocked what was there
      if (how.never() && attempt == 100) return -EAGAIN;
      if (!how.never() && how.due_ns != deadline::forever && sys::steady_now() >= how.due_ns)
        return -ETIMEDOUT;
      if (directory.is_remote()) { // it may take a while until that is visible here
        if (int const stop = how.never() ? 0 : wait.next(); stop != 0) return stop;
        if (int const failed = directory.refresh(); failed != 0) return failed;
      }
    }
    hooks::step("lock_files.before_open");
    int fd = sys::open_unshared(dir(), name.text, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, unmarked);
    // If it was removed between making and locking, its mode or its link count says so.
    bool is_mine = fd >= 0;
    if (fd == -EEXIST) {
      hooks::step("lock_files.exists");
      fd = open_existing(name.text);
      if (fd == -ENOENT) continue;
      if (fd == -EAGAIN && !how.never()) { // open(2): an NFS client has to return its lease
        if (int const stop = wait.next(); stop != 0) return stop;
        continue;
      }
    }
    if (fd == -ESTALE && ++stale != most_stale) continue;
    if (fd < 0) return fd;
    hooks::step("lock_files.opened");
    int code = byte_lock::try_lock(fd, owner_byte, kind);
    if (code == -EAGAIN && !how.never()) {
      is_mine = false;
      code = byte_lock::lock_until(fd, owner_byte, kind, how);
    }
    if (code != 0) {
      discard(fd);
      if (code == -ESTALE && ++stale != most_stale) continue;
      return code;
    }
    hooks::step("lock_files.locked");
    struct stat s;
    int named = directory.status(fd, s); // a previous holder may have marked or removed it
    if (named == 0) {
      f = {.fd = fd, .was_marked = is_marked(s), .was_told = false};
      if (is_removed(s)) {
        unlock(e, f, false);
        continue;
      }
      named = is_mine && !directory.is_remote() ? s.st_nlink != 0 : is_named(name.text, s);
    }
    if (named == -ESTALE && ++stale != most_stale) named = 0;
    if (named == 1) return 0;
    discard(fd);
    if (named < 0) return named;
  }
}

// Once all are locked: marks it, and reports whether an owner has died.
int lock_files::state::mark(entity e, locked_file& f, bool& owner_died) const noexcept {
  if (e.exclusive) {
    owner_died = owner_died || f.was_marked;
    return f.was_marked ? 0 : static_cast<int>(sys::fchmod(f.fd, marked));
  }
  if (!f.was_marked) return 0;
  // Of several sharers the one that gets the byte gets the report; the others need not wait for that.
  int const code = byte_lock::try_lock(f.fd, told_byte, lock_kind::exclusive);
  if (code != 0) return code == -EAGAIN ? 0 : code;
  struct stat s;
  if (int const failed = directory.status(f.fd, s); failed != 0) return failed;
  f.was_told = is_marked(s); // false if a sharer got the report and has unlocked since we looked
  if (!f.was_told) byte_lock::unlock(f.fd, told_byte);
  owner_died = owner_died || f.was_told;
  return 0;
}

// `was_owned`: the request was granted, so its mark is removed.
void lock_files::state::unlock(entity e, locked_file& f, bool was_owned) const noexcept {
  file_name const name(e);
  if (!e.exclusive) {
    if (was_owned && f.was_told) (void)sys::fchmod(f.fd, unmarked);
    hooks::step("lock_files.shared_unmarked");
    unlock_shared(name.text, f);
  } else if (was_owned || !f.was_marked) {
    unlock_exclusive(name.text, f);
  }
  hooks::step("lock_files.before_close");
  discard(f.fd);
}

void lock_files::state::unlock_exclusive(char const* name, locked_file const& f) const noexcept {
  struct stat s;
  int named = directory.status(f.fd, s);
  if (named == 0 && s.st_nlink == 0) return; // removed by others: another file is there now
  if (named == 0) named = directory.is_remote() || is_removed(s) ? is_named(name, s) : 1;
  if (named == 1) remove(name, f.fd);
  if (named < 0) (void)sys::fchmod(f.fd, unmarked); // it stays, which is no death
}

void lock_files::state::unlock_shared(char const* name, locked_file const& f) const noexcept {
  int e = byte_lock::try_lock(f.fd, owner_byte, lock_kind::exclusive);
  if (e == -EAGAIN) {
    hooks::step("lock_files.not_the_last");
    byte_lock::unlock(f.fd, owner_byte);
    e = byte_lock::try_lock(f.fd, owner_byte, lock_kind::exclusive);
  }
  hooks::step("lock_files.shared_alone");
  struct stat s;
  if (e != 0 || directory.status(f.fd, s) != 0 || is_marked(s)) return;
  if (is_named(name, s) == 1) remove(name, f.fd);
}

lock_files::lock_files(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
lock_files::lock_files(lock_files&& other) noexcept = default;
lock_files& lock_files::operator=(lock_files&& other) noexcept = default;
lock_files::~lock_files() = default;

result<lock_files> lock_files::open(path_handle const& base, path_view name) noexcept {
  auto const not_opened = [&](int e) {
    return unio::detail::failed_on(e, "lock_files::open", name.c_str(), name.size());
  };
  std::unique_ptr<state> s(new (std::nothrow) state);
  if (s == nullptr) return not_opened(-ENOMEM);
  result<lock_file> directory = lock_file::open(base, name, {.directory = true});
  if (!directory) return not_opened(unio::detail::to_native(directory.error()));
  s->directory = std::move(*directory);
  if (int const e = s->probe(); e != 0) return not_opened(e);
  return lock_files(std::move(s));
}

// held.words[0]: the request.
int lock_files::do_lock(detail::holding& held, detail::waiting how) noexcept {
  state& s = *state_;
  if (s.directory.is_inherited()) return native(error::inherited_by_fork);
  detail::entity_list& entities = held.entities;
  entities.canonicalize();
  rlimit limit;
  if (entities.size() > request::small_size && ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      entities.size() >= limit.rlim_cur)
    return native(error::too_many_entities);
  request* const r = s.take(entities.size());
  if (r == nullptr) return -ENOMEM;
  std::size_t locked = 0;
  int e = 0;
  for (; e == 0 && locked != entities.size(); ++locked) e = s.lock(entities[locked], how, (*r)[locked]);
  if (e != 0) --locked; // the last one failed
  for (std::size_t i = 0; e == 0 && i != entities.size(); ++i) {
    hooks::step("lock_files.before_mark");
    e = s.mark(entities[i], (*r)[i], held.owner_died);
  }
  if (e == 0) {
    hooks::step("lock_files.owned");
    held.words[0] = reinterpret_cast<std::uintptr_t>(r);
    return 0;
  }
  while (locked != 0) {
    --locked;
    s.unlock(entities[locked], (*r)[locked], false);
  }
  s.give_back(*r);
  return e;
}

void lock_files::do_unlock(detail::holding& held) noexcept {
  state& s = *state_;
  if (s.directory.is_inherited()) return;
  request& r = *reinterpret_cast<request*>(held.words[0]);
  for (std::size_t i = held.entities.size(); i != 0; --i) s.unlock(held.entities[i - 1], r[i - 1], true);
  s.give_back(r);
}

} // namespace unio::fs
