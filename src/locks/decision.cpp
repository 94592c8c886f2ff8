// The decision of an update of several files: its format is in docs/explanation/update-files.md.

#include "locks/decision.hpp"

#include "locks/hooks.hpp"
#include "locks/lock_file.hpp"

#include <sys/uio.h>

#include <algorithm>

namespace unio::inline v0_1::fs::updating {
namespace {

using unio::detail::parts_of;
using unio::detail::sync_folder;

constexpr char magic[16] = "unio update";
constexpr std::uint32_t version = 1;
constexpr std::size_t longest_name = unio::detail::longest_name - 1 - new_suffix.size();

int open_folder(int in, char const* name) noexcept {
  return unio::detail::open_at(in, name, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
}

} // namespace

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

int place::find(int tree, std::string_view path) noexcept {
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

int folders::sync(std::string_view path) noexcept {
  std::string_view const folder = parts_of(path).folder;
  if (std::exchange(last_, folder) == folder) return 0;
  place p;
  int const e = p.find(tree_, path);
  return e != 0 ? e : sync_folder(p.folder.get());
}

// ── the decision ───────────────────────────────────────────────────────────────────────────────────────────

void decision::seal() noexcept {
  header h{};
  std::memcpy(h.magic, magic, sizeof magic);
  h.version = version;
  h.files = files_;
  h.size = size_;
  std::memcpy(bytes_.get(), &h, sizeof h);
  h.checksum = checksum();
  std::memcpy(bytes_.get(), &h, sizeof h);
}

int decision::load(int tree) noexcept {
  size_ = 0;
  descriptor const d(unio::detail::open_to_read(tree, decision_name, O_NOFOLLOW));
  if (d.get() < 0) return d.get() == -ENOENT ? 0 : d.get();
  struct stat s;
  if (auto const e = sys::fstat(d.get(), &s); e < 0) return static_cast<int>(e);
  if (!S_ISREG(s.st_mode)) return native(error::not_a_lock_file);
  if (s.st_nlink == 0) return 0; // another process has completed it
  int e = check_attributes(s);
  is_members_ = false;
  maker_ = s.st_uid;
  if (struct stat root; e == -EPERM && sys::fstat(tree, &root) == 0) {
    bool const is_owners = root.st_uid == s.st_uid; // who may do all that it says without it
    is_members_ = !is_owners && is_groups(root) && root.st_gid == s.st_gid;
    if (is_owners || is_members_) e = 0;
  }
  if (e != 0) return e;
  auto const size = static_cast<std::size_t>(s.st_size);
  if (size < sizeof(header) || size > largest_decision) return native(error::damaged_lock_file);
  e = make(size);
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

// A member of the group might not write all folders of the tree, but has written down that what another user
// prepares there is decided.
int decision::may_place(int folder, char const* name) const noexcept {
  struct stat s;
  if (!is_members_) return 0;
  auto const e = sys::fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW);
  return e < 0 ? static_cast<int>(e) : s.st_uid == maker_ ? 0 : -EPERM;
}

int decision::save(int tree) const noexcept {
  if (int const e = remove(tree, next_decision_name); e != 0) return e;
  descriptor const d(unio::detail::open_at(tree, next_decision_name, making, 0600));
  if (d.get() < 0) return d.get();
  hooks::step("update.decision_made");
  struct stat root; // who may read the tree looks whether it is about what they read
  if (sys::fstat(tree, &root) == 0) share_like(d.get(), root, 0600 | (root.st_mode & 0044), true);
  int e = write_all(d.get(), bytes_.get(), size_);
  hooks::step("update.decision_written");
  if (e == 0) e = static_cast<int>(sys::uninterrupted([&] { return sys::fsync(d.get()); }));
  return e;
}

int complete(int tree, decision const& d) noexcept {
  int e = d.for_each([&](std::string_view path) {
    place p;
    int const found = p.find(tree, path);
    if (found == -ENOENT || found == -ENOTDIR) return 0; // the folder was removed with all that was in it
    if (found != 0) return found;
    int r = d.may_place(p.folder.get(), p.new_name);
    if (r == 0) r = static_cast<int>(sys::renameat(p.folder.get(), p.new_name, p.folder.get(), p.name, 0));
    hooks::step("update.renamed");
    return r == -ENOENT ? 0 : r;
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

} // namespace unio::fs::updating
