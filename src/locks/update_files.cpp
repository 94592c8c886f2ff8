// update_files: several files replaced as one. docs/explanation/update-files.md has the steps, the decision's
// format, and what a death after each step leaves.
//
//   begin      lock the files; complete a decision that names one of them; remove what an undecided update of
//              a dead process left beside them
//   replace    write .NAME.unio-new, to the disk
//   commit     take the turn of the tree; complete a dead process's decision; write .unio-update.new; rename
//              it to .unio-update, to the disk: decided. complete() does the rest, and may be repeated

#include "core/failed_with.hpp"
#include "handle/names.hpp"
#include "locks/hooks.hpp"
#include "locks/lock_file.hpp"
#include "sys/descriptors.hpp"
#include "sys/due.hpp"
#include "sys/fork.hpp"

#include <unio/locks/update_files.hpp>

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace unio::inline v0_1::fs {
namespace {

constexpr char decision_name[] = ".unio-update";
constexpr char next_decision_name[] = ".unio-update.new";
constexpr char turn_name[] = ".unio-update.lock";
constexpr std::string_view new_suffix = ".unio-new";
constexpr std::size_t longest_name = unio::detail::longest_name - 1 - new_suffix.size();

using unio::detail::descriptor;
using unio::detail::parts_of;
using unio::detail::sync_folder;

constexpr int reading = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
constexpr int making = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;

int open_folder(int in, char const* name) noexcept {
  return unio::detail::open_at(in, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
}

int remove(int folder, char const* name) noexcept {
  auto const e = sys::unlinkat(folder, name, 0);
  return e == -ENOENT ? 0 : static_cast<int>(e);
}

int write_all(int fd, std::byte const* bytes, std::size_t n) noexcept {
  while (n != 0) {
    // As write(2), which would raise SIGXFSZ at the process's limit for the size of files.
    iovec const piece{const_cast<std::byte*>(bytes), n};
    auto const r = sys::uninterrupted([&] { return sys::pwritev2(fd, &piece, 1, -1, 0); });
    if (r <= 0) return r < 0 ? static_cast<int>(r) : -EIO;
    bytes += r;
    n -= static_cast<std::size_t>(r);
  }
  return 0;
}

// ── paths ──────────────────────────────────────────────────────────────────────────────────────────────────

// Each file has one path, which stays inside the tree and names none of our files.
int check_path(std::string_view path) noexcept {
  if (path.size() > unio::detail::longest_path) return -ENAMETOOLONG;
  if (path.find('\0') != std::string_view::npos) return native(error::embedded_nul);
  for (std::string_view rest = path;;) {
    std::size_t const slash = rest.find('/');
    std::string_view const part = rest.substr(0, slash);
    if (part.empty() || part == "." || part == "..") return -EINVAL;
    if (part.size() > unio::detail::longest_name) return -ENAMETOOLONG;
    if (slash == std::string_view::npos) break;
    rest.remove_prefix(slash + 1);
  }
  std::string_view const name = parts_of(path).name;
  if (name.size() > longest_name) return -ENAMETOOLONG;
  return name.ends_with(new_suffix) || path.starts_with(decision_name) ? -EINVAL : 0;
}

/// The folder and the name of a file.
struct place {
  descriptor folder{-EBADF};
  char name[unio::detail::longest_name + 1];
  char new_name[unio::detail::longest_name + 1];

  // 0, or a negative errno. `path` passed check_path().
  int find(int tree, std::string_view path) noexcept {
    auto const [folder_path, last] = parts_of(path);
    folder.reset(open_folder(tree, "."));
    for (std::string_view rest = folder_path; folder.get() >= 0 && !rest.empty();) {
      std::string_view const part = rest.substr(0, rest.find('/'));
      *std::copy(part.begin(), part.end(), name) = '\0';
      folder.reset(open_folder(folder.get(), name));
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
    }
    *std::copy(last.begin(), last.end(), name) = '\0';
    new_name[0] = '.';
    char* const end = std::copy(last.begin(), last.end(), new_name + 1);
    *std::copy(new_suffix.begin(), new_suffix.end(), end) = '\0';
    return std::min(folder.get(), 0);
  }
};

// Syncs the folders of files: once those that have several files in a row.
class folders {
 public:
  explicit folders(int tree) noexcept : tree_(tree) {}
  int sync(std::string_view path) noexcept {
    std::string_view const folder = parts_of(path).folder;
    if (std::exchange(last_, folder) == folder) return 0;
    place p;
    int const e = p.find(tree_, path);
    return e != 0 ? e : sync_folder(p.folder.get());
  }

 private:
  int tree_;
  std::string_view last_{"\0", 1}; // no folder's name
};

// ── the decision ───────────────────────────────────────────────────────────────────────────────────────────

struct header {
  char magic[16];
  std::uint32_t version;
  std::uint32_t files;
  std::uint64_t size;     // of all of it
  std::uint64_t checksum; // of all of it, with 0 here
};
constexpr char magic[16] = "unio update";
constexpr std::uint32_t version = 1;
constexpr std::size_t largest_decision = std::size_t{256} << 20;

class decision {
 public:
  [[nodiscard]] bool is_there() const noexcept { return size_ != 0; }

  int load(int tree) noexcept;
  int make(std::size_t size) noexcept {
    bytes_.reset(new (std::nothrow) std::byte[size]);
    size_ = size;
    files_ = 0;
    end_ = sizeof(header);
    return bytes_ == nullptr ? -ENOMEM : 0;
  }
  [[nodiscard]] static std::size_t size_of(std::string_view path) noexcept {
    return sizeof(std::uint32_t) + path.size();
  }
  void add(std::string_view path) noexcept {
    auto const n = static_cast<std::uint32_t>(path.size());
    std::memcpy(bytes_.get() + end_, &n, sizeof n);
    std::memcpy(bytes_.get() + end_ + sizeof n, path.data(), n);
    end_ += sizeof n + n;
    ++files_;
  }
  void seal() noexcept {
    header h{};
    std::memcpy(h.magic, magic, sizeof magic);
    h.version = version;
    h.files = files_;
    h.size = size_;
    std::memcpy(bytes_.get(), &h, sizeof h);
    h.checksum = checksum();
    std::memcpy(bytes_.get(), &h, sizeof h);
  }
  int save(int tree) const noexcept;

  /// Calls `f(path)` for each, until that returns something other than 0.
  template <class F> int for_each(F&& f) const noexcept {
    std::size_t at = sizeof(header);
    for (std::uint32_t i = 0; i != files_; ++i) {
      std::uint32_t n = 0;
      std::memcpy(&n, bytes_.get() + at, sizeof n);
      at += sizeof n;
      if (int const e = f(std::string_view(reinterpret_cast<char const*>(bytes_.get()) + at, n)); e != 0)
        return e;
      at += n;
    }
    return 0;
  }

 private:
  [[nodiscard]] std::uint64_t checksum() const noexcept {
    return entity_of(std::span<std::byte const>(bytes_.get(), size_)).value;
  }
  int check() noexcept;

  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_ = 0;
  std::size_t end_ = 0;
  std::uint32_t files_ = 0;
};

// Loads the decision, trusting nothing in it. None is not an error.
int decision::load(int tree) noexcept {
  size_ = 0;
  descriptor const d(unio::detail::open_at(tree, decision_name, reading, 0));
  if (d.get() < 0) return d.get() == -ENOENT ? 0 : d.get();
  struct stat s;
  if (auto const e = sys::fstat(d.get(), &s); e < 0) return static_cast<int>(e);
  if (!S_ISREG(s.st_mode)) return native(error::not_a_lock_file);
  if (s.st_nlink == 0) return 0; // another process has completed it
  if (int const e = check_attributes(s); e != 0) return e;
  auto const size = static_cast<std::size_t>(s.st_size);
  if (size < sizeof(header) || size > largest_decision) return native(error::damaged_lock_file);
  int e = make(size);
  if (e == 0) e = read_at(d.get(), bytes_.get(), size, 0);
  if (e == 0) e = check();
  if (e != 0) size_ = 0;
  return e;
}

int decision::check() noexcept {
  header h;
  std::memcpy(&h, bytes_.get(), sizeof h);
  if (std::memcmp(h.magic, magic, sizeof magic) != 0) return native(error::not_a_lock_file);
  if (h.version > version) return native(error::newer_lock_file);
  int const damaged = native(error::damaged_lock_file);
  if (h.version != version || h.size != size_) return damaged;
  header without = h;
  without.checksum = 0;
  std::memcpy(bytes_.get(), &without, sizeof without);
  bool const is_right = checksum() == h.checksum;
  std::memcpy(bytes_.get(), &h, sizeof h);
  if (!is_right) return damaged;
  std::size_t at = sizeof(header);
  for (std::uint32_t i = 0; i != h.files; ++i) {
    std::uint32_t n = 0;
    if (size_ - at < sizeof n) return damaged;
    std::memcpy(&n, bytes_.get() + at, sizeof n);
    at += sizeof n;
    if (size_ - at < n) return damaged;
    if (check_path({reinterpret_cast<char const*>(bytes_.get()) + at, n}) != 0) return damaged;
    at += n;
  }
  if (at != size_) return damaged;
  files_ = h.files;
  return 0;
}

// Writes it to the disk, under a name that means nothing.
int decision::save(int tree) const noexcept {
  if (int const e = remove(tree, next_decision_name); e != 0) return e;
  descriptor const d(unio::detail::open_at(tree, next_decision_name, making, 0600));
  if (d.get() < 0) return d.get();
  hooks::step("update.decision_made");
  int e = write_all(d.get(), bytes_.get(), size_);
  hooks::step("update.decision_written");
  if (e == 0) e = static_cast<int>(sys::uninterrupted([&] { return sys::fsync(d.get()); }));
  return e;
}

// Puts all files in place and removes the decision, with the turn of the tree. May be repeated any number of
// times.
int complete(int tree, decision const& d) noexcept {
  int e = d.for_each([&](std::string_view path) {
    place p;
    int const found = p.find(tree, path);
    if (found == -ENOENT || found == -ENOTDIR) return 0; // the folder was removed with all that was in it
    if (found != 0) return found;
    auto const r = sys::renameat(p.folder.get(), p.new_name, p.folder.get(), p.name, 0);
    hooks::step("update.renamed");
    return r == -ENOENT ? 0 : static_cast<int>(r);
  });
  if (e != 0) return e;
  folders synced(tree);
  e = d.for_each([&](std::string_view path) {
    int const found = synced.sync(path);
    return found == -ENOENT || found == -ENOTDIR ? 0 : found;
  });
  if (e != 0) return e;
  hooks::step("update.renames_synced");
  if (e = remove(tree, decision_name); e != 0) return e;
  hooks::step("update.decision_removed");
  return sync_folder(tree);
}

} // namespace

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
  int decide(decision const& d) const noexcept;
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

int update_files::state::take_turn(detail::waiting how) noexcept {
  if (!turn.is_open()) {
    result<lock_file> f = lock_file::open(tree, turn_name);
    if (!f) return to_native(f.error());
    turn = std::move(*f);
  }
  int const e = byte_lock::lock_until(turn.fd(), 0, lock_kind::exclusive, how);
  if (e == 0) hooks::step("update.has_turn");
  return e;
}

bool update_files::state::names_mine(decision const& d) const noexcept {
  return d.for_each([&](std::string_view path) {
    return std::ranges::any_of(files, [&](file const& f) { return f.path == path; }) ? 1 : 0;
  }) != 0;
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
    e = complete(root(), d);
    has_recovered = true;
  }
  give_turn_back();
  return e;
}

int update_files::state::read(file& f, std::size_t& size) const noexcept {
  place p;
  if (int const e = p.find(root(), f.path); e != 0) return e;
  descriptor const d(unio::detail::open_at(p.folder.get(), p.name, reading, 0));
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

int update_files::state::prepare(file& f, std::span<std::byte const> bytes) const noexcept {
  place p;
  if (int const e = p.find(root(), f.path); e != 0) return e;
  if (int const e = remove(p.folder.get(), p.new_name); e != 0) return e;
  f.is_prepared = false;
  struct stat old;
  auto const is_new = sys::fstatat(p.folder.get(), p.name, &old, AT_SYMLINK_NOFOLLOW);
  if (is_new < 0 && is_new != -ENOENT) return static_cast<int>(is_new);
  descriptor const d(unio::detail::open_at(p.folder.get(), p.new_name, making, is_new == 0 ? 0600 : 0666));
  if (d.get() < 0) return d.get();
  hooks::step("update.new_made");
  int e = write_all(d.get(), bytes.data(), bytes.size());
  hooks::step("update.new_written");
  struct stat s;
  if (e == 0 && is_new == 0) {
    e = static_cast<int>(sys::fstat(d.get(), &s));
    bool const is_others = e == 0 && (s.st_uid != old.st_uid || s.st_gid != old.st_gid);
    if (is_others && ::fchown(d.get(), old.st_uid, old.st_gid) != 0) e = -EPERM;
    if (e == 0)
      e = static_cast<int>(sys::fchmod(d.get(), old.st_mode & 07777)); // after fchown(2), which clears bits
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

// The replacements are on the disk, and so are their names: writes down that they are decided.
int update_files::state::decide(decision const& d) const noexcept {
  int e = d.save(root());
  hooks::step("update.decision_saved");
  if (e == 0) e = static_cast<int>(sys::renameat(root(), next_decision_name, root(), decision_name, 0));
  if (e != 0) {
    (void)remove(root(), next_decision_name);
    return e;
  }
  hooks::step("update.decided");
  e = sync_folder(root());
  if (e != 0) {
    (void)remove(root(), decision_name);
    (void)sync_folder(root());
  }
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
  for (file const& f : files) {
    if (!f.is_prepared) continue;
    d.add(f.path);
    if (int const e = synced.sync(f.path); e != 0) return about = f.path, e;
  }
  d.seal();
  hooks::step("update.names_synced");
  int e = take_turn(detail::waiting_for(until));
  if (e != 0) return e;
  decision others; // their maker has died, since the turn is mine
  e = others.load(root());
  if (e == 0 && others.is_there()) e = complete(root(), others);
  if (e == 0) e = decide(d);
  if (e == 0) {
    for (file& f : files) f.is_prepared = false; // whatever happens now
    decided = e = complete(root(), d);
  }
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
