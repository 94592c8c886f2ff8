// async_open, async_open_path, async_open_directory, async_open_symlink: from a name to what it leads to.
//
// Not by the ring: what it cannot open from the kernel's cache of names it gives to a thread of the kernel.

#include "handle/names.hpp"
#include "op/call.hpp"

#include <unio/directory_handle.hpp>
#include <unio/file_handle.hpp>
#include <unio/symlink_handle.hpp>

#include <fcntl.h>
#include <linux/openat2.h>

#include <cstring>
#include <iterator>

namespace unio::inline v0_1::op {
namespace {

using mode = handle::mode;
using creation = handle::creation;
using caching = handle::caching;

// openat(2)'s flags, in the order of the enumerations.
constexpr int mode_flags[] = {O_PATH, O_PATH, O_RDONLY, O_RDWR, O_WRONLY | O_APPEND};
constexpr int creation_flags[] = {0, O_CREAT | O_EXCL, O_CREAT, O_TRUNC, O_CREAT | O_EXCL};
constexpr int caching_flags[] = {O_DIRECT | O_SYNC, O_DIRECT, O_SYNC, O_DSYNC, 0, 0, 0};
static_assert(std::size(mode_flags) == static_cast<std::size_t>(mode::append) + 1);
static_assert(std::size(creation_flags) == static_cast<std::size_t>(creation::always_new) + 1);
static_assert(std::size(caching_flags) == static_cast<std::size_t>(caching::temporary) + 1);

// All flags, or a negative code if the wishes contradict each other.
int flags_for(mode m, creation c, caching k) noexcept {
  int flags = mode_flags[static_cast<int>(m)];
  if ((flags & O_PATH) != 0) return c == creation::open_existing ? O_PATH | O_CLOEXEC : -EINVAL;
  if (m == mode::read && c == creation::truncate_existing) return -EINVAL;
  flags |= creation_flags[static_cast<int>(c)] | caching_flags[static_cast<int>(k)] | O_CLOEXEC | O_NOCTTY;
  // A FIFO or a device under that name must not make open(2) wait: see take_in(). A new file is neither.
  return (flags & O_EXCL) != 0 ? flags : flags | O_NONBLOCK;
}

// Links are opened without access, and by no other operation.
constexpr int symlink_flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;

// What is to be opened, and how.
struct wish {
  int base;
  path_view name;
  int flags; // the system's; or why the arguments are invalid
  handle::flag how;
  unsigned permissions = 0666;
  bool always_new = false;    // a new inode takes the place of the old one
  bool wants_barrier = false; // a new file is durable before it is returned
  bool makes_directory = false;
  bool directory_may_exist = false;

  // As openat2(2) has it.
  [[nodiscard]] unsigned resolve() const noexcept {
    unsigned r = 0;
    if (has(how, handle::flag::beneath)) r |= RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    if (has(how, handle::flag::no_symlinks)) r |= RESOLVE_NO_SYMLINKS;
    if (has(how, handle::flag::same_mount)) r |= RESOLVE_NO_XDEV;
    return r;
  }
  // Whether it can be opened without waiting for a disk or a server: nothing is created, and one call does
  // it.
  [[nodiscard]] bool may_be_cached() const noexcept {
    return (flags & (O_CREAT | O_TRUNC)) == 0 && !makes_directory;
  }
};

// What was opened with `flags`. A regular file loses O_NONBLOCK, which was only for the case that the name
// led to something else. Asks no server, so that a thread that runs a multiplexer may do it.
handle_kind take_in(int fd, int flags) noexcept {
  if ((flags & O_PATH) != 0) return handle_kind::file;
  struct statx s{};
  bool const may_be_other = (flags & O_NONBLOCK) != 0;
  bool const known =
      may_be_other && sys::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &s) >= 0;
  if (known && S_ISFIFO(s.stx_mode))
    return (flags & O_ACCMODE) == O_RDONLY ? handle_kind::named_pipe : handle_kind::pipe;
  bool const is_device = known && S_ISCHR(s.stx_mode);
  if (is_device && sys::lseek(fd, 0, SEEK_CUR) == -ESPIPE) return handle_kind::pipe;
  sys::note_file_flags(fd, flags);
  // A device waits or does not as its driver says; of anything else a ring must not believe that it never
  // waits.
  if (may_be_other && !is_device && (!known || sys::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0))
    sys::note_nonblocking(fd);
  return handle_kind::file;
}

// openat2(2) where it is told to stay beneath, otherwise openat(2).
int open_name(wish const& w, int directory, char const* name, int flags) noexcept {
  unsigned const resolve = w.resolve();
  return resolve != 0 ? detail::open_resolved(directory, name, flags, w.permissions, resolve)
                      : detail::open_at(directory, name, flags, w.permissions);
}

// A name split in two, so that several calls mean the same directory: that in which the last part is. Where
// nothing has to stay beneath, the directory of the operation and the whole name.
class split_name {
 public:
  explicit split_name(wish const& w) noexcept : directory_(w.base), leaf_(w.name.c_str()) {
    std::size_t const n = detail::directory_part(leaf_);
    if (w.resolve() == 0 || n == 0) return;
    detail::path_buffer directory;
    std::memcpy(directory.text, leaf_, n);
    directory.text[n] = 0;
    opened_ = directory_ = open_name(w, w.base, directory.text, O_PATH | O_DIRECTORY);
    leaf_ += n;
  }
  split_name(split_name const&) = delete;
  split_name& operator=(split_name const&) = delete;
  ~split_name() {
    if (opened_ >= 0) sys::close(opened_);
  }
  /// A negative code: why it could not be opened.
  [[nodiscard]] int directory() const noexcept { return directory_; }
  [[nodiscard]] char const* leaf() const noexcept { return leaf_; }

 private:
  int directory_;
  int opened_ = -1;
  char const* leaf_;
};

bool failed_to_open(split_name const& at) noexcept {
  return at.directory() < 0 && at.directory() != AT_FDCWD;
}

int only_if_symlink(int fd) noexcept {
  struct statx s;
  auto r = fd < 0 ? 0 : static_cast<int>(sys::statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &s));
  if (fd >= 0 && r >= 0 && !S_ISLNK(s.stx_mode)) r = -EINVAL;
  if (r >= 0) return fd;
  sys::close(fd);
  return r;
}

// A filesystem may take O_DIRECT and buffer all the same: where a file is encrypted, compressed or journalled
// (data=journal). Of a kernel that cannot tell (before Linux 6.1) it is believed.
bool has_direct(int fd) noexcept {
  io_alignment found;
  return detail::look_up_direct_alignment(fd, found) <= 0 || found.offset != 0;
}

// open(2) refuses O_DIRECT when it has made the file, and leaves it there: so a new one is asked for that
// once it is known to be ours, and can be removed. 0 or a negative code.
int make_direct(int fd, int flags) noexcept {
  auto const r = static_cast<int>(sys::fcntl(fd, F_SETFL, long{flags}));
  return r < 0 ? r : has_direct(fd) ? 0 : -EOPNOTSUPP;
}

int open_in_place(wish const& w) noexcept {
  bool const is_new = (w.flags & O_EXCL) != 0;
  bool const truncates = (w.flags & O_TRUNC) != 0;
  bool const is_direct = (is_new || truncates) && (w.flags & O_DIRECT) != 0; // otherwise open_wish() asks
  // What is refused keeps its contents, or is removed.
  int const flags = is_direct ? w.flags & ~(is_new ? O_DIRECT : O_TRUNC) : w.flags;
  if (!w.wants_barrier && !is_direct) {
    int const fd = open_name(w, w.base, w.name.c_str(), flags);
    return flags == symlink_flags ? only_if_symlink(fd) : fd;
  }
  split_name const at(w);
  if (failed_to_open(at)) return at.directory();
  int const fd = open_name(w, at.directory(), at.leaf(), flags);
  if (fd < 0) return fd;
  int failed = !is_direct ? 0 : is_new ? make_direct(fd, w.flags) : has_direct(fd) ? 0 : -EOPNOTSUPP;
  if (failed >= 0 && is_direct && truncates) {
    failed = uninterrupted([&] { return sys::ftruncate(fd, 0); });
    if (failed == -EINVAL) failed = 0; // no file: O_TRUNC means nothing
  }
  if (failed >= 0 && w.wants_barrier) failed = detail::make_durable(fd);
  if (failed >= 0) return fd;
  if (is_new) sys::unlinkat(at.directory(), at.leaf(), 0);
  sys::close(fd);
  return failed;
}

// creation::always_new: makes a new inode under a random name beside the wanted one and renames it into its
// place. The old one stays with those who have it open, and the name leads to a file at every moment.
int open_always_new(wish const& w) noexcept {
  split_name const at(w);
  if (failed_to_open(at)) return at.directory();
  char const* const name = at.leaf();
  std::size_t const n = detail::directory_part(name);
  if (name[n] == 0) return w.name.size() == 0 ? -ENOENT : -EISDIR; // as openat(2) with O_CREAT
  detail::path_buffer sibling;
  std::memcpy(sibling.text, name, n);
  int const fd = detail::with_random_name(sibling, n, [&](char const* candidate) {
    return open_name(w, at.directory(), candidate, w.flags & ~O_DIRECT);
  });
  if (fd < 0) return fd;

  int failed = (w.flags & O_DIRECT) != 0 ? make_direct(fd, w.flags) : 0;
  if (failed >= 0 && w.wants_barrier) failed = detail::make_durable(fd);
  if (failed >= 0)
    failed = static_cast<int>(sys::renameat(at.directory(), sibling.text, at.directory(), name, 0));
  if (failed >= 0) return fd;
  sys::unlinkat(at.directory(), sibling.text, 0);
  sys::close(fd);
  return failed;
}

// A link that takes the place of the new directory is not followed.
int make_and_open_directory(wish const& w) noexcept {
  split_name const at(w);
  if (failed_to_open(at)) return at.directory();
  auto const made = static_cast<int>(sys::mkdirat(at.directory(), at.leaf(), w.permissions));
  bool const is_new = made >= 0;
  if (!is_new && (made != -EEXIST || !w.directory_may_exist)) return made;
  return open_name(w, at.directory(), at.leaf(), w.flags | (is_new ? O_NOFOLLOW : 0));
}

// -EAGAIN if it may have to wait, and where there is no such call: then a thread that may block finds out.
int open_cached(wish const& w) noexcept {
  if (!w.may_be_cached()) return -EAGAIN;
  open_how how{};
  how.flags = static_cast<std::uint64_t>(w.flags);
  how.resolve = w.resolve() | RESOLVE_CACHED;
  auto const fd = static_cast<int>(sys::openat2(w.base, w.name.c_str(), &how, sizeof(how)));
  bool const is_known = fd >= 0 || fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES || fd == -ELOOP ||
                        fd == -EISDIR || fd == -EMFILE || fd == -EXDEV;
  if (!is_known) return -EAGAIN;
  return w.flags == symlink_flags ? only_if_symlink(fd) : fd;
}

int open_wish(wish const& w, attempt how, handle_kind* kind = nullptr) noexcept {
  if (w.flags < 0) return w.flags;
  int fd = how == attempt::nonblocking ? open_cached(w)
           : w.makes_directory         ? make_and_open_directory(w)
           : w.always_new              ? open_always_new(w)
                                       : open_in_place(w);
  if (fd >= 0) fd = sys::above_standard(fd);
  if (fd < 0) return fd;
  handle_kind const found = take_in(fd, w.flags);
  if (kind != nullptr) *kind = found;
  if (has(w.how, handle::flag::unlink_on_close)) sys::note_named(fd);
  if ((w.flags & O_DIRECT) == 0 || (w.flags & (O_EXCL | O_TRUNC)) != 0 || has_direct(fd)) return fd;
  sys::bump_generation(fd); // clears the notes of take_in()
  sys::close(fd);
  return -EOPNOTSUPP;
}

template <attempt How>
int open(int base, path_view name, mode m, creation c, caching k, handle::flag f,
         handle_kind& kind) noexcept {
  return open_wish({.base = base,
                    .name = name,
                    .flags = flags_for(m, c, k),
                    .how = f,
                    .always_new = c == creation::always_new,
                    .wants_barrier = k == caching::safety_barriers && c != creation::open_existing},
                   How, &kind);
}

template <attempt How> int open_path(int base, path_view name, handle::flag f) noexcept {
  return open_wish({.base = base, .name = name, .flags = O_PATH | O_DIRECTORY | O_CLOEXEC, .how = f}, How);
}

template <attempt How> int open_directory(int base, path_view name, creation c, handle::flag f) noexcept {
  bool const makes = c == creation::only_if_not_exist || c == creation::if_needed;
  bool const is_valid = makes || c == creation::open_existing;
  return open_wish({.base = base,
                    .name = name,
                    .flags = is_valid ? O_RDONLY | O_DIRECTORY | O_CLOEXEC : -EINVAL,
                    .how = f,
                    .permissions = 0777,
                    .makes_directory = makes,
                    .directory_may_exist = c == creation::if_needed},
                   How);
}

template <attempt How> int open_symlink(int base, path_view name, handle::flag f) noexcept {
  return open_wish({.base = base, .name = name, .flags = symlink_flags, .how = f}, How);
}

constexpr auto blocking = attempt::blocking, at_once = attempt::nonblocking;

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_open::table_ =
    op::call_faces<async_open, op::open<op::blocking>, op::open<op::at_once>>("open");
constinit operation_faces const async_open_path::table_ =
    op::call_faces<async_open_path, op::open_path<op::blocking>, op::open_path<op::at_once>>("open");
constinit operation_faces const async_open_directory::table_ =
    op::call_faces<async_open_directory, op::open_directory<op::blocking>, op::open_directory<op::at_once>>(
        "open");
constinit operation_faces const async_open_symlink::table_ =
    op::call_faces<async_open_symlink, op::open_symlink<op::blocking>, op::open_symlink<op::at_once>>("open");

} // namespace unio
