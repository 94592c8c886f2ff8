// async_open, async_open_path, async_open_directory, async_open_symlink: from a name to what it leads to.
//
// Not by the ring: what it cannot open from the kernel's cache of names it gives to a thread of the kernel.

#include "handle/names.hpp"
#include "op/access.hpp"
#include "op/face.hpp"

#include <unio/directory_handle.hpp>
#include <unio/symlink_handle.hpp>

#include <fcntl.h>
#include <linux/openat2.h>

#include <cstring>
#include <iterator>

namespace unio::inline v0_1 {
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

using detail::open_operation;
open_operation& self(io_operation& op) noexcept { return static_cast<open_operation&>(op); }

// Links are opened without access, and by no other operation.
constexpr int symlink_flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;

// What can be opened without waiting for a disk or a server: nothing is created, and one call does it.
bool may_be_cached(io_operation& op) noexcept {
  int const flags = op::access::open_flags(op);
  return (flags & (O_CREAT | O_TRUNC)) == 0 && !op::access::makes_directory(op);
}

readiness wants(io_operation const& op) noexcept {
  return op::access::refused(op) != 0 ? readiness::nothing : readiness::worker;
}

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
int open_name(io_operation& op, int directory, char const* name, int flags) noexcept {
  unsigned const resolve = op::access::resolve_flags(op);
  unsigned const permissions = op::access::permissions(op);
  return resolve != 0 ? detail::open_resolved(directory, name, flags, permissions, resolve)
                      : detail::open_at(directory, name, flags, permissions);
}

// A name split in two, so that several calls mean the same directory: that in which the last part is. Where
// nothing has to stay beneath, the directory of the operation and the whole name.
class split_name {
 public:
  explicit split_name(open_operation& op) noexcept : directory_(op.fd()), leaf_(op.name().c_str()) {
    std::size_t const n = detail::directory_part(leaf_);
    if (op::access::resolve_flags(op) == 0 || n == 0) return;
    detail::path_buffer directory;
    std::memcpy(directory.text, leaf_, n);
    directory.text[n] = 0;
    opened_ = directory_ = open_name(op, op.fd(), directory.text, O_PATH | O_DIRECTORY);
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

int open_in_place(open_operation& op) noexcept {
  int const flags = op::access::open_flags(op);
  bool const is_new = (flags & O_EXCL) != 0;
  bool const is_direct = is_new && (flags & O_DIRECT) != 0; // of what exists complete() asks
  if (!op::access::wants_barrier(op) && !is_direct) {
    int const fd = open_name(op, op.fd(), op.name().c_str(), flags);
    return flags == symlink_flags ? only_if_symlink(fd) : fd;
  }
  split_name const at(op);
  if (failed_to_open(at)) return at.directory();
  int const fd = open_name(op, at.directory(), at.leaf(), flags);
  if (fd < 0) return fd;
  int failed = is_direct && !has_direct(fd) ? -EOPNOTSUPP : 0;
  if (failed >= 0 && op::access::wants_barrier(op)) failed = detail::make_durable(fd);
  if (failed >= 0) return fd;
  if (is_new) sys::unlinkat(at.directory(), at.leaf(), 0);
  sys::close(fd);
  return failed;
}

// creation::always_new: makes a new inode under a random name beside the wanted one and renames it into its
// place. The old one stays with those who have it open, and the name leads to a file at every moment.
int open_always_new(open_operation& op) noexcept {
  split_name const at(op);
  if (failed_to_open(at)) return at.directory();
  char const* const name = at.leaf();
  std::size_t const n = detail::directory_part(name);
  if (name[n] == 0) return op.name().size() == 0 ? -ENOENT : -EISDIR; // as openat(2) with O_CREAT
  detail::path_buffer sibling;
  std::memcpy(sibling.text, name, n);
  int const fd = detail::with_random_name(sibling, n, [&](char const* candidate) {
    return open_name(op, at.directory(), candidate, op::access::open_flags(op));
  });
  if (fd < 0) return fd;

  bool const is_direct = (op::access::open_flags(op) & O_DIRECT) != 0;
  int failed = is_direct && !has_direct(fd) ? -EOPNOTSUPP : 0;
  if (failed >= 0 && op::access::wants_barrier(op)) failed = detail::make_durable(fd);
  if (failed >= 0)
    failed = static_cast<int>(sys::renameat(at.directory(), sibling.text, at.directory(), name, 0));
  if (failed >= 0) return fd;
  sys::unlinkat(at.directory(), sibling.text, 0);
  sys::close(fd);
  return failed;
}

// A link that takes the place of the new directory is not followed.
int make_and_open_directory(open_operation& op) noexcept {
  split_name const at(op);
  if (failed_to_open(at)) return at.directory();
  auto const made = static_cast<int>(sys::mkdirat(at.directory(), at.leaf(), op::access::permissions(op)));
  bool const is_new = made >= 0;
  if (!is_new && (made != -EEXIST || !op::access::directory_may_exist(op))) return made;
  return open_name(op, at.directory(), at.leaf(), op::access::open_flags(op) | (is_new ? O_NOFOLLOW : 0));
}

// -EAGAIN if it may have to wait, and where there is no such call: then a thread that may block finds out.
int open_cached(open_operation& op) noexcept {
  if (!may_be_cached(op)) return -EAGAIN;
  int const flags = op::access::open_flags(op);
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.resolve = op::access::resolve_flags(op) | RESOLVE_CACHED;
  auto const fd = static_cast<int>(sys::openat2(op.fd(), op.name().c_str(), &how, sizeof(how)));
  bool const is_known = fd >= 0 || fd == -ENOENT || fd == -ENOTDIR || fd == -EACCES || fd == -ELOOP ||
                        fd == -EISDIR || fd == -EMFILE || fd == -EXDEV;
  if (!is_known) return -EAGAIN;
  return flags == symlink_flags ? only_if_symlink(fd) : fd;
}

int perform(io_operation& op, attempt how) noexcept {
  if (op::access::refused(op) != 0) return op::access::refused(op);
  if (how == attempt::nonblocking) return open_cached(self(op));
  if (op::access::makes_directory(op)) return make_and_open_directory(self(op));
  return op::access::always_new(op) ? open_always_new(self(op)) : open_in_place(self(op));
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  int fd = res >= 0 ? sys::above_standard(res) : res;
  if (fd >= 0) op::access::set_opened(op, take_in(fd, op::access::open_flags(op)));
  int const flags = op::access::open_flags(op);
  if (fd >= 0 && (flags & O_DIRECT) != 0 && (flags & O_EXCL) == 0 && !has_direct(fd)) {
    sys::bump_generation(fd); // clears the notes of take_in()
    sys::close(fd);
    fd = -EOPNOTSUPP;
  }
  return op::decode(op, fd);
}

void reclaim(io_operation& op) noexcept {
  if (op.outcome_value() < 0) return;
  sys::bump_generation(op.outcome_value()); // clears the notes of take_in()
  sys::close(op.outcome_value());
}

bool object(io_operation const& op, detail::failed_object& to) noexcept {
  path_view const name = static_cast<open_operation const&>(op).name();
  to.append(name.c_str(), name.size());
  return true;
}

} // namespace

namespace detail {

open_operation::open_operation(path_handle const& base, path_view name, unio::deadline d) noexcept
    : io_operation(open_faces, handle_kind::path, directory_of(base), base.own_multiplexer(), d),
      name_(name),
      refused_(name.check()) {}

void open_operation::set_flags(int open_flags, handle::flag how) noexcept {
  using flag = handle::flag;
  if (open_flags < 0) refused_ = open_flags;
  open_flags_ = open_flags;
  if (has(how, flag::beneath)) resolve_ |= RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  if (has(how, flag::no_symlinks)) resolve_ |= RESOLVE_NO_SYMLINKS;
  if (has(how, flag::same_mount)) resolve_ |= RESOLVE_NO_XDEV;
}

} // namespace detail

async_open::async_open(path_handle const& base, path_view name, mode m, creation c, caching k, flag f,
                       unio::deadline d) noexcept
    : open_operation(base, name, d), caching_(k), flags_(f) {
  set_flags(flags_for(m, c, k), f);
  always_new_ = c == creation::always_new;
  wants_barrier_ = k == caching::safety_barriers && c != creation::open_existing;
}
async_open::result_type async_open::result() noexcept {
  int const fd = outcome_value();
  if (fd < 0) return failed();
  return file_handle(fd, opened(), caching_, flags_);
}

async_open_path::async_open_path(path_handle const& base, path_view name, handle::flag f,
                                 unio::deadline d) noexcept
    : open_operation(base, name, d) {
  set_flags(O_PATH | O_DIRECTORY | O_CLOEXEC, f);
}
async_open_path::result_type async_open_path::result() noexcept {
  int const fd = outcome_value();
  if (fd < 0) return failed();
  return path_handle(fd);
}

async_open_directory::async_open_directory(path_handle const& base, path_view name, handle::creation c,
                                           handle::flag f, unio::deadline d) noexcept
    : open_operation(base, name, d) {
  set_flags(O_RDONLY | O_DIRECTORY | O_CLOEXEC, f);
  if (c == creation::only_if_not_exist || c == creation::if_needed) {
    set_making(0777, c == creation::if_needed);
  } else if (c != creation::open_existing) {
    refuse_with(-EINVAL);
  }
}
async_open_directory::result_type async_open_directory::result() noexcept {
  int const fd = outcome_value();
  if (fd < 0) return failed();
  return directory_handle(fd);
}

async_open_symlink::async_open_symlink(path_handle const& base, path_view name, handle::flag f,
                                       unio::deadline d) noexcept
    : open_operation(base, name, d) {
  set_flags(symlink_flags, f);
}
async_open_symlink::result_type async_open_symlink::result() noexcept {
  int const fd = outcome_value();
  if (fd < 0) return failed();
  return symlink_handle(fd);
}

constinit operation_faces const detail::open_faces = {.name = "open",
                                                      .tries = inline_attempt::always,
                                                      .flow = direction::either,
                                                      .wants = wants,
                                                      .perform = perform,
                                                      .complete = complete,
                                                      .reclaim = reclaim,
                                                      .object = object};

} // namespace unio
