#include "fs/partial.hpp"

#include "fs/copy_until.hpp"
#include "fs/metadata.hpp"
#include "fs/reduce_in.hpp"
#include "fs/within.hpp"
#include "sys/ofd_lock.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace unio::inline v0_1::fs::trees {
namespace {

constexpr std::string_view suffix = ".unio-copy";
constexpr std::string_view suffix_of_file = ".unio-copy-of";
constexpr std::string_view beginning = "unio copy of";
constexpr std::size_t longest_in_name = unio::detail::longest_name - 1 - suffix_of_file.size();

/// What the file says. The device has another number after the machine was started again, on some
/// filesystems; the path another meaning after a rename: one of them must be the same, and all the rest.
struct identity {
  char text[256 + unio::detail::longest_path + 1] = {};
  std::size_t size = 0;
  std::string_view inode; // in `text`, as are the others
  std::string_view device;
  std::string_view path;

  void split() noexcept {
    std::string_view const all(text, size);
    std::size_t const first = std::min(all.find('\n'), size);
    std::size_t const second = std::min(all.find('\n', first + 1), size);
    inode = all.substr(0, first);
    device = all.substr(first, second - first);
    path = all.substr(second);
  }
  int ask(int source) noexcept {
    struct statx s;
    auto const e = sys::statx(source, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &s);
    if (e < 0) return static_cast<int>(e);
    bool const has_birth = (s.stx_mask & STATX_BTIME) != 0;
    int const n = std::snprintf(text, sizeof text, "%s inode %llu, born %lld.%u\ndevice %u:%u\n",
                                beginning.data(), static_cast<unsigned long long>(s.stx_ino),
                                has_birth ? static_cast<long long>(s.stx_btime.tv_sec) : 0,
                                has_birth ? s.stx_btime.tv_nsec : 0, s.stx_dev_major, s.stx_dev_minor);
    size = static_cast<std::size_t>(n);
    unio::detail::path_buffer where;
    int const length = unio::detail::path_of(source, where); // none without /proc
    if (length > 0) size = static_cast<std::size_t>(std::copy_n(where.text, length, text + size) - text);
    split();
    return 0;
  }
  int load(int fd) noexcept {
    iovec const v{text, sizeof text - 1};
    auto const n = sys::uninterrupted([&] { return sys::preadv2(fd, &v, 1, 0, 0); });
    if (n < 0) return static_cast<int>(n);
    size = static_cast<std::size_t>(n);
    split();
    return 0;
  }
  int save(int fd) const noexcept {
    auto const e = sys::ftruncate(fd, 0);
    if (e < 0) return static_cast<int>(e);
    iovec const v{const_cast<char*>(text), size};
    auto const n = sys::uninterrupted([&] { return sys::pwritev2(fd, &v, 1, 0, 0); });
    if (n < 0) return static_cast<int>(n);
    return static_cast<std::size_t>(n) == size ? 0 : -ENOSPC;
  }
  [[nodiscard]] bool is_known() const noexcept { return inode.starts_with(beginning); }
  [[nodiscard]] bool is_of(identity const& o) const noexcept {
    return inode == o.inode && (device == o.device || (path.size() > 1 && path == o.path));
  }
};

// Whether what this user makes in `folder` is that owner's: filesystems that keep no owners say the same one
// of all files (vfat, SMB, FUSE), or of all that root makes (NFS).
bool is_owner_of_new_files(unsigned owner, int folder) noexcept {
  char name[unio::detail::longest_name + 1];
  using unio::detail::open_at;
  descriptor made(open_at(folder, ".", O_WRONLY | O_TMPFILE, 0600));
  bool const has_name = made.get() < 0 && random_name(name, random_prefix) == 0;
  if (has_name) made.reset(open_at(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  struct stat s;
  bool const is = sys::fstat(made.get(), &s) == 0 && s.st_uid == owner;
  if (has_name && made.get() >= 0) sys::unlinkat(folder, name, 0);
  return is;
}

} // namespace

partial::~partial() {
  if (of_ >= 0) sys::close_unshared(of_);
}

int partial::lock() noexcept {
  constexpr int flags = O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  for (int attempts = 0; attempts != 100; ++attempts) {
    of_ = sys::open_unshared(folder_, of_name_, flags, 0600);
    if (of_ < 0) return of_;
    struct stat s;
    struct stat named;
    int e = sys::ofd_lock(of_, 0, sys::to_the_end, true, false);
    // Some network filesystems have no locks: then nothing keeps two processes apart.
    if (e == -ENOLCK || e == -EOPNOTSUPP || e == -ENOSYS || e == -EINVAL) e = 0;
    if (e == 0) e = static_cast<int>(sys::fstat(of_, &s));
    // With another name it is perhaps a link to some file of this user's, which would be overwritten.
    if (e == 0 && (!S_ISREG(s.st_mode) || s.st_nlink > 1)) e = -EPERM;
    if (e == 0 && s.st_uid != ::geteuid() && !is_owner_of_new_files(s.st_uid, folder_)) e = -EPERM;
    if (e != 0) return e == -EAGAIN ? -EBUSY : e;
    // The process that had it locked may have removed it.
    if (sys::fstatat(folder_, of_name_, &named, AT_SYMLINK_NOFOLLOW) == 0 && named.st_dev == s.st_dev &&
        named.st_ino == s.st_ino)
      return 0;
    sys::close_unshared(std::exchange(of_, -1));
  }
  return -EBUSY;
}

int partial::find(int source, bool resume) noexcept {
  identity mine;
  identity found;
  if (int const e = mine.ask(source); e != 0) return e;
  if (int const e = found.load(of_); e != 0) return e;
  attributes a{};
  int e = attributes_of(folder_, name_, a);
  was_there_ = e == 0;
  if (was_there_ && resume && found.is_of(mine)) return 0;
  if (was_there_)
    if (int const inside = holds(folder_, name_, source); inside != 0) return inside;
  // An empty one has nothing to be continued.
  if (was_there_) was_there_ = sys::unlinkat(folder_, name_, AT_REMOVEDIR) != 0;
  if (was_there_) {
    if (found.size == 0) forget(); // it was not there
    if (!resume) return -EALREADY;
    if (!found.is_known()) return -ESTALE;
    reduce_options const o{.rename_first = false, .make_writable = true};
    auto const r = reduce_in(folder_, name_, true, o, {}, nullptr, {});
    if (!r || !r->is_gone) return -ESTALE;
    was_there_ = false;
  } else if (e != 0 && e != -ENOENT) {
    return e;
  }
  e = mine.save(of_);
  if (e == 0) e = static_cast<int>(sys::mkdirat(folder_, name_, 0700));
  if (e != 0) forget();
  return e == -EEXIST ? -EALREADY : e;
}

int partial::take(int folder, char const* target, int source, bool resume) noexcept {
  folder_ = folder;
  std::string_view const shown(target, std::min(std::strlen(target), longest_in_name));
  for (auto const& [to, end] : {std::pair{name_, suffix}, std::pair{of_name_, suffix_of_file}}) {
    *to = '.';
    *std::ranges::copy(end, std::ranges::copy(shown, to + 1).out).out = '\0';
  }
  if (int const e = lock(); e != 0) return e;
  if (int const e = find(source, resume); e != 0) return e;
  int const fd = unio::detail::open_at(folder, name_, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0);
  int const e = fd < 0 ? fd : take_over(fd);
  if (e == 0) return fd;
  if (fd >= 0) sys::close(fd);
  if (!was_there_ && sys::unlinkat(folder, name_, AT_REMOVEDIR) == 0) forget();
  return e;
}

void partial::forget() noexcept {
  if (of_ < 0) return;
  sys::unlinkat(folder_, of_name_, 0);
  sys::close_unshared(std::exchange(of_, -1));
}

int take_over(int directory) noexcept {
  attributes a{};
  if (int const e = attributes_of(directory, "", a); e != 0) return e;
  if (a.owner != ::geteuid()) {
    auto const e = sys::fchownat(directory, "", ::geteuid(), static_cast<unsigned>(-1), AT_EMPTY_PATH);
    if (e < 0 && !is_owner_of_new_files(a.owner, directory)) return static_cast<int>(e);
  }
  // The owner is refused only by filesystems that keep no modes.
  if ((a.mode & 07777) != 0700) (void)sys::fchmod(directory, 0700);
  return drop_inherited_acls(directory);
}

} // namespace unio::fs::trees
