#include "handle/names.hpp"

#include "sys/descriptors.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstring>

namespace unio::inline v0_1 {

static_assert(detail::longest_path == PATH_MAX - 1 && detail::longest_name == NAME_MAX);

int path_view::check() const noexcept {
  if (std::memchr(text_, 0, size_) != nullptr) return detail::native(error::embedded_nul);
  if (size_ <= detail::longest_name) return 0; // as most are
  if (size_ > detail::longest_path) return -ENAMETOOLONG;
  std::size_t in_this_name = 0;
  for (char const* c = text_; *c != 0; ++c) {
    in_this_name = *c == '/' ? 0 : in_this_name + 1;
    if (in_this_name > detail::longest_name) return -ENAMETOOLONG;
  }
  return 0;
}

namespace detail {

int directory_of(path_handle const& base) noexcept {
  return base.is_open() ? base.native_handle() : AT_FDCWD;
}

int open_at(int directory, char const* name, int flags, unsigned permissions) noexcept {
  return sys::above_standard(
      sys::uninterrupted([&] { return sys::openat(directory, name, flags | O_CLOEXEC, permissions); }));
}

int reopen(int fd, int flags) noexcept {
  return open_at(AT_FDCWD, descriptor_path(fd).text, flags | O_NOCTTY, 0);
}

int open_to_read(int directory, char const* name, int more_flags) noexcept {
  int const fd = open_at(directory, name, O_RDONLY | O_NONBLOCK | O_NOCTTY | more_flags, 0);
  if (fd != -EAGAIN) return fd;
  descriptor const file(open_at(directory, name, O_PATH | more_flags, 0));
  if (file.get() < 0) return file.get();
  struct stat s;
  if (sys::fstat(file.get(), &s) < 0 || !S_ISREG(s.st_mode)) return -EAGAIN;
  int const anew = reopen(file.get(), O_RDONLY);
  return anew == -ENOENT ? -EAGAIN : anew; // no /proc
}

descriptor::descriptor(std::int64_t fd) noexcept : fd_(sys::above_standard(fd)) {}

void descriptor::reset(std::int64_t fd) noexcept {
  if (fd_ >= 0) sys::close(fd_);
  fd_ = sys::above_standard(fd);
}

// EINVAL: what has no fsync of its own, such as a pipe, and the directories of filesystems that need none.
// Not EROFS: ext4 says so after it was made read-only by an error, which has lost what was to be synced.
int make_durable(int fd) noexcept {
  std::int64_t const r = sys::uninterrupted([&] { return sys::fsync(fd); });
  if (r != -EBADF) return r == -EINVAL ? 0 : static_cast<int>(r);
  // Opened without access (O_PATH): nothing was written to it, if it is no directory.
  struct stat s;
  bool const is_open = sys::fstat(fd, &s) == 0;
  return is_open && !S_ISDIR(s.st_mode) ? 0 : -EBADF;
}

int sync_folder(int folder) noexcept {
  int const e = make_durable(folder);
  if (e != -EBADF) return e;
  descriptor const d(open_at(folder, ".", O_RDONLY | O_DIRECTORY, 0));
  return d.get() < 0 ? d.get() : make_durable(d.get());
}

std::size_t directory_part(char const* path) noexcept {
  char const* const slash = std::strrchr(path, '/');
  return slash == nullptr ? 0 : static_cast<std::size_t>(slash - path) + 1;
}

path_parts parts_of(std::string_view path) noexcept {
  std::size_t const slash = path.rfind('/');
  if (slash == std::string_view::npos) return {{}, path};
  return {path.substr(0, std::max<std::size_t>(slash, 1)), path.substr(slash + 1)};
}

int split_path::set(path_view path) noexcept {
  if (int const e = path.check(); e != 0) return e;
  std::string_view p(path.c_str(), path.size());
  if (p.empty()) return -ENOENT;
  while (p.ends_with('/')) {
    p.remove_suffix(1);
    has_slash = true;
  }
  auto const [before, last] = parts_of(p);
  if (last.empty() || last == "." || last == "..") return -EINVAL;
  *std::ranges::copy(before.empty() ? "." : before, folder).out = '\0';
  *std::ranges::copy(last, name).out = '\0';
  return 0;
}

int path_of(int fd, path_buffer& out) noexcept {
  if (fd < 0) return -EBADF;
  std::int64_t const n = sys::readlinkat(AT_FDCWD, descriptor_path(fd).text, out.text, sizeof(out.text));
  if (n < 0) return static_cast<int>(n);
  if (n > static_cast<std::int64_t>(longest_path)) return -ENAMETOOLONG; // readlink(2) truncates silently
  out.text[n] = 0;
  return static_cast<int>(n);
}

descriptor_path::descriptor_path(int fd) noexcept {
  constexpr std::string_view directory = "/proc/self/fd/";
  std::memcpy(text, directory.data(), directory.size());
  *std::to_chars(text + directory.size(), text + sizeof(text) - 1, fd).ptr = 0;
}

std::size_t put_name_of(int fd, path_buffer& out) noexcept {
  descriptor_path const name(fd);
  std::size_t const n = std::strlen(name.text);
  std::memcpy(out.text, name.text, n + 1);
  return n;
}

verified_name::~verified_name() {
  if (directory >= 0) sys::close(directory);
}

namespace {

constexpr unsigned identity = STATX_TYPE | STATX_INO | STATX_BTIME;

bool is_same(struct statx const& a, struct statx const& b) noexcept {
  // A number is used again for another inode: then only the time of birth differs.
  bool const know_birth = (a.stx_mask & b.stx_mask & STATX_BTIME) != 0;
  return a.stx_ino == b.stx_ino && a.stx_dev_major == b.stx_dev_major && a.stx_dev_minor == b.stx_dev_minor &&
         (!know_birth ||
          (a.stx_btime.tv_sec == b.stx_btime.tv_sec && a.stx_btime.tv_nsec == b.stx_btime.tv_nsec));
}

// Whether the path in `found` leads to the inode of `fd`; opens its directory. ENOENT if not.
int verify(int fd, verified_name& found) noexcept {
  struct statx mine;
  if (std::int64_t const r = sys::statx(fd, "", AT_EMPTY_PATH, identity, &mine); r < 0)
    return static_cast<int>(r);

  char* const path = found.path.text;
  std::size_t const n = directory_part(path);
  // "pipe:[…]", "(unreachable)…": never had a name, or has none that can be reached. The root has none.
  if (n == 0 || path[n] == 0) return -ENOENT;
  char const first = path[n];
  path[n] = 0; // of "/name", "/" is left
  int const parent = open_at(AT_FDCWD, path, O_PATH | O_DIRECTORY, 0);
  path[n] = first;
  if (parent < 0) return parent;

  struct statx there;
  auto r = static_cast<int>(sys::statx(parent, path + n, AT_SYMLINK_NOFOLLOW, identity, &there));
  if (r >= 0 && !is_same(mine, there)) r = -ENOENT;
  if (r < 0) {
    sys::close(parent);
    return r;
  }
  found.directory = parent;
  found.leaf = path + n;
  found.is_directory = S_ISDIR(there.stx_mode);
  return 0;
}

} // namespace

bool has_name(int directory, char const* name, int fd) noexcept {
  struct statx a;
  struct statx b;
  return sys::statx(fd, "", AT_EMPTY_PATH, identity, &a) == 0 &&
         sys::statx(directory, name, AT_SYMLINK_NOFOLLOW, identity, &b) == 0 && is_same(a, b);
}

int find_name(int fd, verified_name& found) noexcept {
  constexpr int most_attempts = 100; // then others have a turn: see decode_error()
  if (int const r = path_of(fd, found.path); r < 0) return r;
  for (int attempts = 0; attempts != most_attempts; ++attempts) {
    int const r = verify(fd, found);
    if (r != -ENOENT && r != -ENOTDIR) return r;
    // A rename between asking for the path and using it looks like another inode: then the path has changed.
    path_buffer now;
    if (int const again = path_of(fd, now); again < 0) return again;
    if (std::strcmp(found.path.text, now.text) == 0) return -ENOENT;
    std::strcpy(found.path.text, now.text);
  }
  return -EAGAIN;
}

int unlink_current(int fd) noexcept {
  verified_name found;
  if (int const r = find_name(fd, found); r < 0) return r;
  return static_cast<int>(sys::unlinkat(found.directory, found.leaf, found.is_directory ? AT_REMOVEDIR : 0));
}

namespace {

bool is_refused_with_flags(int e) noexcept { return e == -EINVAL || e == -ENOSYS; }

// Where there are neither flags nor links. Others that make the name find it taken. But what another process
// renames to it between the look and the rename, some microseconds, is replaced: nothing on such a filesystem
// can prevent that.
int take_name_and_replace(int from_directory, char const* from, int to_directory, char const* to) noexcept {
  descriptor const mine(open_at(to_directory, to, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (mine.get() < 0) return mine.get();
  auto const is_mine_and_empty = [&]() noexcept {
    struct statx a;
    struct statx b;
    return sys::statx(mine.get(), "", AT_EMPTY_PATH, identity | STATX_SIZE, &a) == 0 &&
           sys::statx(to_directory, to, AT_SYMLINK_NOFOLLOW, identity | STATX_SIZE, &b) == 0 &&
           is_same(a, b) && b.stx_size == 0;
  };
  if (!is_mine_and_empty()) return -EEXIST;
  auto const r = static_cast<int>(sys::renameat(from_directory, from, to_directory, to, 0));
  if (r != 0 && is_mine_and_empty()) sys::unlinkat(to_directory, to, 0);
  return r;
}

int take_name_and_rename(int from_directory, char const* from, int to_directory, char const* to) noexcept {
  if (auto const made = static_cast<int>(sys::mkdirat(to_directory, to, 0700)); made < 0) return made;
  auto const r = static_cast<int>(sys::renameat(from_directory, from, to_directory, to, 0));
  if (r == 0) return 0;
  sys::unlinkat(to_directory, to, AT_REMOVEDIR); // only while it is empty
  // Another process has put something into it, or something else in its place.
  return r == -ENOTEMPTY || r == -ENOTDIR ? -EEXIST : r;
}

// Removes a name of what `fd` has open. What has that name by now may be another process's: so this looks at
// it under a name that no other uses, and gives it its own back.
int end_old_name(int directory, char const* name, int fd) noexcept {
  constexpr std::string_view prefix = ".unio-moved-";
  path_buffer aside;
  std::size_t const n = directory_part(name);
  if (n + prefix.size() > longest_path) return -ENAMETOOLONG;
  std::memcpy(aside.text, name, n);
  std::ranges::copy(prefix, aside.text + n);
  if (int const e = append_random_name(aside, n + prefix.size()); e < 0) return e;
  auto r = static_cast<int>(sys::renameat(directory, name, directory, aside.text, 0));
  if (r < 0) return r == -ENOENT ? 0 : r; // another has removed it: that is the result, too
  bool const is_it = has_name(directory, aside.text, fd);
  if (is_it) r = static_cast<int>(sys::unlinkat(directory, aside.text, 0));
  if (is_it && r == 0) return 0;
  if (sys::linkat(directory, aside.text, directory, name, 0) == 0) {
    sys::unlinkat(directory, aside.text, 0);
  } else {
    (void)take_name_and_rename(directory, aside.text, directory, name); // no link leads to a directory
  }
  return r;
}

int link_and_unlink(int from_directory, char const* from, int to_directory, char const* to) noexcept {
  descriptor const what(open_at(from_directory, from, O_PATH | O_NOFOLLOW, 0));
  if (what.get() < 0) return what.get();
  auto const linked = static_cast<int>(sys::linkat(from_directory, from, to_directory, to, 0));
  if (linked == -EPERM || linked == -ENOSYS || linked == -EOPNOTSUPP)
    return take_name_and_replace(from_directory, from, to_directory, to);
  if (linked < 0) return linked;
  int const ended = end_old_name(from_directory, from, what.get());
  if (ended < 0 && has_name(to_directory, to, what.get())) sys::unlinkat(to_directory, to, 0);
  return ended;
}

} // namespace

int rename(int from_directory, char const* from, int to_directory, char const* to, relink_mode how) noexcept {
  constexpr unsigned flags[] = {0, RENAME_NOREPLACE, RENAME_EXCHANGE};
  auto const r = static_cast<int>(
      sys::renameat(from_directory, from, to_directory, to, flags[static_cast<unsigned>(how)]));
  if (!is_refused_with_flags(r) || how != relink_mode::no_replace) return r;
  struct statx what;
  if (auto const e = sys::statx(from_directory, from, AT_SYMLINK_NOFOLLOW, STATX_TYPE, &what); e < 0)
    return static_cast<int>(e);
  return S_ISDIR(what.stx_mode) ? take_name_and_rename(from_directory, from, to_directory, to)
                                : link_and_unlink(from_directory, from, to_directory, to);
}

int link_open_file(int fd, int to_directory, char const* to) noexcept {
  std::int64_t const r = sys::linkat(fd, "", to_directory, to, AT_EMPTY_PATH);
  if (r != -ENOENT) return static_cast<int>(r);
  // Without CAP_DAC_READ_SEARCH (linkat(2), AT_EMPTY_PATH), or there is no such directory.
  return static_cast<int>(
      sys::linkat(AT_FDCWD, descriptor_path(fd).text, to_directory, to, AT_SYMLINK_FOLLOW));
}

namespace {

constexpr std::size_t random_digits = 16;

int put_random_digits(char* to) noexcept {
  std::uint64_t bits;
  std::int64_t const r = sys::uninterrupted([&] { return sys::getrandom(&bits, sizeof(bits), 0); });
  if (r < 0) return static_cast<int>(r);
  for (std::size_t i = 0; i < random_digits; ++i) {
    *to++ = "0123456789abcdef"[bits & 15];
    bits >>= 4;
  }
  *to = 0;
  return 0;
}

} // namespace

int random_name(char (&to)[longest_name + 1], std::string_view before) noexcept {
  int const r = put_random_digits(std::ranges::copy(before, to).out);
  if (r < 0) *to = 0;
  return r;
}

int append_random_name(path_buffer& out, std::size_t n) noexcept {
  return n + random_digits > longest_path ? -ENAMETOOLONG : put_random_digits(out.text + n);
}

int begin_random_name(path_view prefix, path_buffer& out) noexcept {
  if (int const r = prefix.check(); r != 0) return r;
  if (std::memchr(prefix.c_str(), '/', prefix.size()) != nullptr) return -EINVAL;
  std::memcpy(out.text, prefix.c_str(), prefix.size()); // at most a name's length, as checked
  return static_cast<int>(prefix.size());
}

} // namespace detail
} // namespace unio
