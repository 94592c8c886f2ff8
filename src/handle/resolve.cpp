// Resolving a name beneath a directory, where no part of it may lead elsewhere. The algorithms on trees open
// their directories so, too.

#include "handle/names.hpp"
#include "sys/descriptors.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>

#include <cstring>
#include <string_view>

namespace unio::inline v0_1::detail {
namespace {

// While anything in the system is renamed or mounted, the kernel cannot exclude that ".." has led out and
// says EAGAIN (openat2(2), ERRORS). A name has a few parts, and each attempt takes a microsecond. The walk
// says it where what has the name is a link whenever it is opened, and none whenever it is looked at.
constexpr int most_attempts = 128;
constexpr int most_links = 40; // the kernel's: path_resolution(7)

// Walks a name with openat(2), one part at a time, where there is no openat2(2). Never follows a link by the
// kernel; ".." goes back to the descriptor from which the part before was opened, which stays the same if
// others rename directories.
class walk {
 public:
  walk(int directory, std::uint64_t resolve) noexcept : base_(directory), resolve_(resolve) {}
  walk(walk const&) = delete;
  walk& operator=(walk const&) = delete;
  ~walk() {
    while (depth_ > 0) leave();
  }

  int open(char const* name, int flags, unsigned permissions) noexcept {
    std::size_t const n = std::strlen(name);
    if (n == 0) return -ENOENT;
    if (n > longest_path) return -ENAMETOOLONG;
    std::memcpy(rest_.text, name, n + 1);
    if (int const r = begin(); r < 0) return r;
    for (;;) {
      std::string_view const part = next_part();
      if (part.empty()) return sys_open(".", flags, permissions);
      if (part.size() > longest_name) return -ENAMETOOLONG;
      std::memcpy(part_, part.data(), part.size());
      part_[part.size()] = 0;
      bool const is_last = *at_ == 0;
      int r = 0;
      if (part == "..") {
        r = up();
      } else if (part != ".") {
        if (is_last) {
          r = open_last(flags, permissions);
          if (r != again) return r;
        } else {
          r = enter();
        }
      }
      if (r < 0) return r;
    }
  }

 private:
  static constexpr int again = 1 << 30; // above every descriptor

  [[nodiscard]] int here() const noexcept { return depth_ > 0 ? stack_[(depth_ - 1) % kept] : base_; }
  void leave() noexcept {
    int& top = stack_[(depth_ - 1) % kept];
    if (top >= 0) sys::close(top);
    top = -1;
    --depth_;
  }
  void push(int fd) noexcept {
    int& place = stack_[depth_ % kept];
    if (depth_ >= kept && place >= 0) sys::close(place); // ".." will not lead back so far
    place = fd;
    ++depth_;
  }

  // What is left may have come from a link.
  int begin() noexcept {
    at_ = rest_.text;
    if (*at_ != '/') return 0;
    if ((resolve_ & RESOLVE_BENEATH) != 0) return -EXDEV;
    int const root = open_at(AT_FDCWD, "/", O_PATH | O_DIRECTORY, 0);
    if (root < 0) return root;
    if (int const r = check_mount(root); r < 0) return r;
    push(root);
    return 0;
  }

  std::string_view next_part() noexcept {
    while (*at_ == '/') ++at_;
    char const* const first = at_;
    while (*at_ != 0 && *at_ != '/') ++at_;
    return {first, static_cast<std::size_t>(at_ - first)};
  }

  int sys_open(char const* name, int flags, unsigned permissions) const noexcept {
    return open_at(here(), name, flags, permissions);
  }

  int up() noexcept {
    if ((resolve_ & RESOLVE_BENEATH) == 0) {
      int const above = sys_open("..", O_PATH | O_DIRECTORY, 0);
      if (above < 0) return above;
      return check_and_push(above);
    }
    if (depth_ == 0) return -EXDEV;
    leave();
    return depth_ > 0 && here() < 0 ? -EXDEV
                                    : 0; // deeper than what is kept open: refused rather than guessed
  }

  int enter() noexcept {
    int const fd = sys_open(part_, O_PATH | O_DIRECTORY | O_NOFOLLOW, 0);
    if (fd >= 0) return check_and_push(fd);
    if (fd != -ENOTDIR && fd != -ELOOP) return fd;
    int const there = sys_open(part_, O_PATH | O_NOFOLLOW, 0);
    if (there < 0) return there;
    int const type = type_of(there);
    if (type == S_IFDIR) return check_and_push(there);
    int const r = type == S_IFLNK ? follow(there) : type < 0 ? type : -ENOTDIR;
    sys::close(there);
    return r;
  }

  static int type_of(int fd) noexcept {
    struct statx s;
    auto const r = static_cast<int>(sys::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &s));
    return r < 0 ? r : s.stx_mode & S_IFMT;
  }

  // A link, open by itself (its name may be something else by now), leads to its text, in front of what is
  // left.
  int follow(int link) noexcept {
    path_buffer target;
    std::int64_t const n = sys::readlinkat(link, "", target.text, sizeof(target.text));
    if (n < 0) return static_cast<int>(n);
    if ((resolve_ & RESOLVE_NO_SYMLINKS) != 0 || ++links_ > most_links) return -ELOOP;
    std::size_t const left = std::strlen(at_);
    auto const length = static_cast<std::size_t>(n);
    if (length + left > longest_path) return -ENAMETOOLONG;
    std::memcpy(target.text + length, at_, left + 1);
    std::memcpy(rest_.text, target.text, length + left + 1);
    return begin();
  }

  int open_last(int flags, unsigned permissions) noexcept {
    bool const excludes = (flags & O_CREAT) != 0 && (flags & O_EXCL) != 0; // never follows
    int const fd = sys_open(part_, flags | O_NOFOLLOW, permissions);
    if ((flags & O_NOFOLLOW) != 0 || excludes) return checked(fd);
    if (fd >= 0 && (flags & O_PATH) == 0) return checked(fd);
    if (fd < 0 && fd != -ELOOP && (fd != -ENOTDIR || (flags & O_DIRECTORY) == 0)) return fd;
    // It may be a link: with O_PATH that itself was opened.
    int const there = fd >= 0 ? fd : sys_open(part_, O_PATH | O_NOFOLLOW, 0);
    if (there < 0) return there == -ENOENT ? look_again() : there;
    int const type = type_of(there);
    if (fd >= 0 && type >= 0 && type != S_IFLNK) return checked(fd);
    int r = type;
    if (type == S_IFLNK) {
      r = follow(there);
      if (r == 0) r = again;
    } else if (type >= 0) { // no link any more: ELOOP, or ENOTDIR of a directory, came of what was there
      r = fd == -ELOOP || type == S_IFDIR ? look_again() : fd;
    }
    sys::close(there);
    return r;
  }

  // Others put something else there between two calls.
  int look_again() noexcept {
    if (++changes_ == most_attempts) return -EAGAIN;
    sys::sched_yield();
    at_ -= std::strlen(part_);
    return again;
  }

  int checked(int fd) const noexcept {
    if (fd < 0) return fd;
    int const r = check_mount(fd);
    return r < 0 ? r : fd;
  }
  int check_and_push(int fd) noexcept {
    if (int const r = check_mount(fd); r < 0) return r;
    push(fd);
    return 0;
  }
  // Closes what is on another mount.
  [[nodiscard]] int check_mount(int fd) const noexcept {
    if ((resolve_ & RESOLVE_NO_XDEV) == 0) return 0;
    struct statx mine, there;
    auto r = static_cast<int>(sys::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &there));
    if (r >= 0) r = static_cast<int>(sys::statx(base_, "", AT_EMPTY_PATH, STATX_MNT_ID, &mine));
    bool const know = r >= 0 && (there.stx_mask & mine.stx_mask & STATX_MNT_ID) != 0;
    if (know ? there.stx_mnt_id == mine.stx_mnt_id
             : r >= 0 && there.stx_dev_major == mine.stx_dev_major &&
                   there.stx_dev_minor == mine.stx_dev_minor)
      return 0;
    sys::close(fd);
    return r < 0 ? r : -EXDEV;
  }

  static constexpr int kept = 64; // descriptors of directories on the way down

  int base_;
  std::uint64_t resolve_;
  int depth_ = 0;
  int links_ = 0;
  int changes_ = 0;
  int stack_[kept] = {};
  char const* at_ = nullptr;
  path_buffer rest_;
  char part_[longest_name + 1];
};

} // namespace

int open_resolved(int directory, char const* name, int flags, unsigned permissions,
                  std::uint64_t resolve) noexcept {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC);
  how.mode = (flags & O_CREAT) != 0 ? permissions : 0;
  how.resolve = resolve;
  for (int attempts = 0; attempts != most_attempts; ++attempts) {
    std::int64_t const r =
        sys::uninterrupted([&] { return sys::openat2(directory, name, &how, sizeof(how)); });
    // EPERM may also be the answer to the open itself: then the walk ends with the same.
    if (r == -ENOSYS || r == -EPERM) return walk(directory, resolve).open(name, flags, permissions);
    if (r != -EAGAIN) return sys::above_standard(r);
    sys::sched_yield();
  }
  return -EAGAIN;
}

} // namespace unio::detail
