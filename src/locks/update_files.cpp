// update_files: several files replaced as one. docs/explanation/update-files.md has the steps, the decision's
// format, and what a death after each step leaves.
//
//   begin      lock the files; complete a decision that names one of them; remove what an undecided update of
//              a dead process left beside them
//   replace    write .NAME.unio-new, to the disk
//   commit     take the turn of the tree; complete a dead process's decision; write .unio-update.new; rename
//              it to .unio-update, to the disk: decided. complete() does the rest (decision.hpp)

#include "core/failed_with.hpp"
#include "locks/decision.hpp"
#include "locks/hooks.hpp"
#include "locks/lock_file.hpp"
#include "sys/due.hpp"
#include "sys/fork.hpp"

#include <unio/locks/update_files.hpp>

#include <algorithm>
#include <utility>

namespace unio::inline v0_1::fs {

using namespace updating;
using unio::detail::sync_folder;

// ── the update ─────────────────────────────────────────────────────────────────────────────────────────────

struct update_files::state {
  struct file {
    std::string_view path; // in text
    std::unique_ptr<std::byte[]> contents;
    bool is_prepared = false; // its .NAME.unio-new is complete
    int failed = 0;           // why it could not be prepared
  };

  state() = default;
  state(state const&) = delete;
  state& operator=(state const&) = delete;
  ~state() {
    if (is_inherited()) return;
    for (file& f : files) {
      place p;
      if (f.is_prepared && p.find(root(), f.path) == 0) (void)remove(p.folder.get(), p.new_name);
    }
  }

  [[nodiscard]] int root() const noexcept { return tree.native_handle(); }
  static failure fails(int e, char const* operation, std::string_view path) noexcept {
    return unio::detail::failed_with(to_error_code(e), operation, path);
  }
  failure fails(int e, char const* operation) noexcept {
    return fails(e, operation, std::exchange(about, {}));
  }
  [[nodiscard]] bool is_inherited() const noexcept { return generation != sys::fork_generation(); }

  int copy(std::span<path_view const> paths) noexcept;
  int open(shared_fs_mutex& mutex, path_handle const& base, deadline d) noexcept;
  int look_at(file const& f) const noexcept;
  int take_turn(detail::waiting how) noexcept;
  void give_turn_back() noexcept { byte_lock::unlock_all(turn.fd()); }
  [[nodiscard]] bool names_mine(decision const& d) const noexcept;
  int recover(detail::waiting how) noexcept;

  int read(file& f, std::size_t& size) const noexcept;
  int prepare(file& f, std::span<std::byte const> bytes) const noexcept;
  int check_prepared(file& f) const noexcept;
  int decide(decision const& d) noexcept;
  [[nodiscard]] int complete_found(decision const& d) const noexcept;
  int commit(deadline d) noexcept;

  path_handle tree;
  std::unique_ptr<char[]> text; // of all paths
  std::unique_ptr<file[]> all;
  std::span<file> files; // all of them
  lock_file turn;        // opened when it is needed
  unsigned generation = sys::fork_generation();
  bool alone = true;
  bool has_recovered = false;
  std::string_view about; // the file whose failure a call returns, if it is one's
  int decided = 0;        // why it could not be completed
  entities_guard held;    // destroyed first
};

// Copies the paths.
int update_files::state::copy(std::span<path_view const> paths) noexcept {
  if (paths.empty()) return -EINVAL;
  std::size_t size = 0;
  for (path_view const p : paths) {
    if (int const e = check_path({p.c_str(), p.size()}); e != 0) return about = {p.c_str(), p.size()}, e;
    size += p.size();
  }
  text.reset(new (std::nothrow) char[size]);
  all.reset(new (std::nothrow) file[paths.size()]);
  std::unique_ptr<std::string_view[]> const views(new (std::nothrow) std::string_view[paths.size()]);
  if (text == nullptr || all == nullptr || views == nullptr) return -ENOMEM;
  files = {all.get(), paths.size()};
  std::span const sorted(views.get(), paths.size());
  char* end = text.get();
  for (std::size_t i = 0; i != paths.size(); ++i) {
    char* const begin = std::exchange(end, std::copy_n(paths[i].c_str(), paths[i].size(), end));
    files[i].path = sorted[i] = {begin, end};
  }
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) != sorted.end() ? -EINVAL : 0;
}

int update_files::state::open(shared_fs_mutex& mutex, path_handle const& base, deadline d) noexcept {
  std::unique_ptr<entity[]> const entities(new (std::nothrow) entity[files.size()]);
  if (entities == nullptr) return -ENOMEM;
  std::ranges::transform(files, entities.get(), [&](file const& f) { return entity_of(f.path, alone); });
  generation = sys::fork_generation();
  result<path_handle> root_handle = path_handle::path(base, ".");
  if (!root_handle) return to_native(root_handle.error());
  tree = std::move(*root_handle);

  detail::waiting const how = detail::waiting_for(d);
  result<entities_guard> guard = mutex.lock({entities.get(), files.size()}, d);
  if (!guard) return to_native(guard.error());
  held = std::move(*guard);
  hooks::step("update.locked");
  if (int const e = recover(how); e != 0) return e;
  for (file const& f : files)
    if (int const e = look_at(f); e != 0) return about = f.path, e;
  return 0;
}

// Whether it is something that can be replaced. With exclusive locks, removes what a dead process prepared.
int update_files::state::look_at(file const& f) const noexcept {
  place p;
  if (int const e = p.find(root(), f.path); e != 0) return e;
  struct stat s;
  auto const e = sys::fstatat(p.folder.get(), p.name, &s, AT_SYMLINK_NOFOLLOW);
  if (e < 0 && e != -ENOENT) return static_cast<int>(e);
  if (e == 0) {
    if (S_ISLNK(s.st_mode)) return -ELOOP;
    if (S_ISDIR(s.st_mode)) return -EISDIR;
    if (!S_ISREG(s.st_mode)) return -ENXIO;
  }
  return alone ? remove(p.folder.get(), p.new_name) : 0;
}

// Its file may be removed at any time, by who cleans up: of two files of one name only the one that has it
// counts.
int update_files::state::take_turn(detail::waiting how) noexcept {
  for (int attempts = 0; attempts != 100; ++attempts) {
    if (!turn.is_open()) {
      result<lock_file> f = lock_file::open_of_writers(root(), turn_name);
      if (!f) return to_native(f.error());
      turn = std::move(*f);
    }
    if (int const e = byte_lock::lock_until(turn.fd(), 0, lock_kind::exclusive, how); e != 0) return e;
    hooks::step("update.has_turn");
    int const named = turn.is_still_named();
    if (named == 1) return 0;
    turn.close();
    if (named < 0) return named;
  }
  return -EBUSY;
}

bool update_files::state::names_mine(decision const& d) const noexcept {
  return d.for_each([&](std::string_view path) {
    return std::ranges::any_of(files, [&](file const& f) { return f.path == path; }) ? 1 : 0;
  }) != 0;
}

// Its maker may have died before the disk had the decision. After a power loss the disk would have some of
// the renames without it.
int update_files::state::complete_found(decision const& d) const noexcept {
  int const e = sync_folder(root());
  return e != 0 ? e : complete(root(), d);
}

// Decisions about other files are left alone: their maker may live.
int update_files::state::recover(detail::waiting how) noexcept {
  decision d;
  if (int const e = d.load(root()); e != 0) return e;
  if (!d.is_there() || !names_mine(d)) return 0;
  int e = take_turn(how);
  if (e != 0) return e;
  e = d.load(root()); // another user may have completed it, and one about other files be there now
  if (e == 0 && d.is_there() && names_mine(d)) {
    e = complete_found(d);
    has_recovered = true;
  }
  give_turn_back();
  return e;
}

int update_files::state::read(file& f, std::size_t& size) const noexcept {
  place p;
  if (int const e = p.find(root(), f.path); e != 0) return e;
  descriptor const d(unio::detail::open_to_read(p.folder.get(), p.name, O_NOFOLLOW));
  if (d.get() < 0) return d.get();
  struct stat s;
  if (auto const e = sys::fstat(d.get(), &s); e < 0) return static_cast<int>(e);
  if (!S_ISREG(s.st_mode)) return -ENXIO;
  size = static_cast<std::size_t>(s.st_size);
  f.contents.reset(new (std::nothrow) std::byte[size + 1]);
  if (f.contents == nullptr) return -ENOMEM;
  for (std::size_t at = 0; at != size;) {
    auto const r = sys::uninterrupted([&] { return sys::read(d.get(), f.contents.get() + at, size - at); });
    if (r < 0) return static_cast<int>(r);
    if (r == 0) size = at; // truncated without the lock
    at += static_cast<std::size_t>(r);
  }
  return 0;
}

namespace {

// Without its ACL a file's mode gives the group what that gives anyone but the owner. 0, or a negative errno.
int copy_acl(int folder, char const* name, int to) noexcept {
  constexpr char acl[] = "system.posix_acl_access";
  char value[16 << 10];
  descriptor const from(unio::detail::open_at(folder, name, O_PATH | O_NOFOLLOW, 0));
  auto n = sys::getxattr(unio::detail::descriptor_path(from.get()).text, acl, value, sizeof value);
  if (n == -ENOENT || n == -ENOTDIR) { // no /proc
    descriptor const read(unio::detail::open_to_read(folder, name, O_NOFOLLOW));
    n = sys::fgetxattr(read.get(), acl, value, sizeof value);
  }
  if (n == -ENODATA || n == -EOPNOTSUPP || n == -ENOSYS) return 0;
  return static_cast<int>(n < 0 ? n : sys::fsetxattr(to, acl, value, static_cast<std::size_t>(n), 0));
}

// What could not be put in place once that is decided, and so would stay decided: over a mount point, over a
// file that may not be changed, or in a folder that names may only be added to. 0, or a negative errno.
int check_replaceable(place const& p) noexcept {
  struct statx s;
  auto const has = [&](char const* name, int flags, std::uint64_t attributes) {
    return sys::statx(p.folder.get(), name, flags, STATX_TYPE, &s) == 0 &&
           (s.stx_attributes & attributes) != 0;
  };
  if (has("", AT_EMPTY_PATH, STATX_ATTR_APPEND)) return -EPERM;
  if (!has(p.name, AT_SYMLINK_NOFOLLOW, STATX_ATTR_MOUNT_ROOT | STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND))
    return 0;
  return (s.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 ? -EBUSY : -EPERM;
}

} // namespace

int update_files::state::prepare(file& f, std::span<std::byte const> bytes) const noexcept {
  place p;
  if (int const e = p.find(root(), f.path); e != 0) return e;
  if (int const e = remove(p.folder.get(), p.new_name); e != 0) return e;
  f.is_prepared = false;
  struct stat old;
  auto const is_new = sys::fstatat(p.folder.get(), p.name, &old, AT_SYMLINK_NOFOLLOW);
  if (is_new < 0 && is_new != -ENOENT) return static_cast<int>(is_new);
  if (int const e = check_replaceable(p); e != 0) return e;
  descriptor const d(unio::detail::open_at(p.folder.get(), p.new_name, making, is_new == 0 ? 0600 : 0666));
  if (d.get() < 0) return d.get();
  hooks::step("update.new_made");
  int e = write_all(d.get(), bytes.data(), bytes.size());
  hooks::step("update.new_written");
  struct stat s;
  if (e == 0 && is_new == 0) {
    e = static_cast<int>(sys::fstat(d.get(), &s));
    auto const a = e == 0 ? sys::fremovexattr(d.get(), "system.posix_acl_access") : 0; // inherited, see below
    if (a < 0 && a != -ENODATA && a != -EOPNOTSUPP && a != -ENOSYS) e = static_cast<int>(a);
    bool const is_others = e == 0 && (s.st_uid != old.st_uid || s.st_gid != old.st_gid);
    if (is_others && ::fchown(d.get(), old.st_uid, old.st_gid) != 0) e = -EPERM;
    // After fchown(2), which clears bits. With an ACL it would give its users what the group may do.
    if (e == 0) e = static_cast<int>(sys::fchmod(d.get(), old.st_mode & 07777));
    if (e == 0) e = copy_acl(p.folder.get(), p.name, d.get());
  }
  if (e == 0) e = static_cast<int>(sys::uninterrupted([&] { return sys::fsync(d.get()); }));
  if (e != 0) {
    (void)remove(p.folder.get(), p.new_name);
    return e;
  }
  hooks::step("update.new_synced");
  f.is_prepared = true;
  return 0;
}

// What was prepared may have been removed since, by who cleans up, or by another user after the mutex lost
// its locks. Once decided, what is gone would be taken for renamed. 0, or a negative errno.
int update_files::state::check_prepared(file& f) const noexcept {
  place p;
  struct stat s;
  int e = p.find(root(), f.path);
  if (e == 0) e = static_cast<int>(sys::fstatat(p.folder.get(), p.new_name, &s, AT_SYMLINK_NOFOLLOW));
  if (e == -ENOENT) f.failed = e;
  return e;
}

// The replacements are on the disk, and so are their names: writes down that they are decided. If that fails
// and cannot be undone, others will find it: then it is `decided`.
int update_files::state::decide(decision const& d) noexcept {
  int e = d.save(root());
  hooks::step("update.decision_saved");
  if (e == 0) e = static_cast<int>(sys::renameat(root(), next_decision_name, root(), decision_name, 0));
  if (e != 0) {
    (void)remove(root(), next_decision_name);
    return e;
  }
  hooks::step("update.decided");
  e = sync_folder(root());
  if (e != 0 && remove(root(), decision_name) != 0) decided = e;
  if (e != 0 && decided == 0) (void)sync_folder(root());
  hooks::step("update.decision_synced");
  return e;
}

int update_files::state::commit(deadline until) noexcept {
  if (is_inherited()) return native(error::inherited_by_fork);
  if (!alone) return -EBADF;
  if (decided != 0) return decided;
  decision d;
  std::size_t size = sizeof(header);
  for (file const& f : files) {
    if (f.failed != 0) return about = f.path, f.failed;
    if (f.is_prepared) size += decision::size_of(f.path);
  }
  if (size == sizeof(header)) return 0;
  if (size > largest_decision) return -E2BIG;
  if (int const e = d.make(size); e != 0) return e;
  folders synced(root());
  for (file& f : files) {
    if (!f.is_prepared) continue;
    d.add(f.path);
    if (int const e = synced.sync(f.path); e != 0) return about = f.path, e;
    if (int const e = check_prepared(f); e != 0) return about = f.path, e;
  }
  d.seal();
  hooks::step("update.names_synced");
  int e = take_turn(detail::waiting_for(until));
  if (e != 0) return e;
  decision others; // their maker has died, since the turn is mine
  e = others.load(root());
  if (e == 0 && others.is_there()) e = complete_found(others);
  if (e == 0) e = decide(d);
  if (e == 0) decided = e = complete(root(), d);
  if (e == 0 || decided != 0)
    for (file& f : files) f.is_prepared = false; // the decision's
  give_turn_back();
  hooks::step("update.done");
  return e;
}

// ── the class ──────────────────────────────────────────────────────────────────────────────────────────────

update_files::update_files(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
update_files::update_files(update_files&& other) noexcept = default;
update_files& update_files::operator=(update_files&& other) noexcept = default;
update_files::~update_files() = default;

result<update_files> update_files::begin(shared_fs_mutex& mutex, path_handle const& tree,
                                         std::span<path_view const> paths, bool alone, deadline d) noexcept {
  std::unique_ptr<state> s(new (std::nothrow) state);
  if (s == nullptr) return unio::detail::failed(-ENOMEM, "update_files::begin");
  s->alone = alone;
  int e = s->copy(paths);
  if (e == 0) e = s->open(mutex, tree, d);
  if (e != 0) return s->fails(e, "update_files::begin");
  return update_files(std::move(s));
}

std::size_t update_files::size() const noexcept { return state_->files.size(); }
bool update_files::has_recovered() const noexcept { return state_->has_recovered; }
bool update_files::is_decided() const noexcept { return state_->decided != 0; }

result<std::span<std::byte const>> update_files::contents(std::size_t i) noexcept {
  state::file& f = state_->files[i];
  std::size_t size = 0;
  int const e = state_->is_inherited() ? native(error::inherited_by_fork) : state_->read(f, size);
  if (e != 0) return state::fails(e, "update_files::contents", f.path);
  return std::span<std::byte const>(f.contents.get(), size);
}

result<void> update_files::replace(std::size_t i, std::span<std::byte const> bytes) noexcept {
  state& s = *state_;
  state::file& f = s.files[i];
  auto const fails = [&](int e) { return state::fails(e, "update_files::replace", f.path); };
  if (s.is_inherited()) return fails(native(error::inherited_by_fork));
  if (!s.alone) return fails(-EBADF);
  if (s.decided != 0) return fails(s.decided);
  f.failed = s.prepare(f, bytes);
  if (f.failed != 0) return fails(f.failed);
  return {};
}

result<void> update_files::commit(deadline d) noexcept {
  if (int const e = state_->commit(d); e != 0) return state_->fails(e, "update_files::commit");
  return {};
}

} // namespace unio::fs
