// async_open: from a name to a file.

#include "handle/names.hpp"
#include "op/access.hpp"
#include "op/face.hpp"

#include <fcntl.h>

#include <cstring>
#include <iterator>

namespace unio {
namespace {

/// The permissions that a new file is created with, before the process's umask takes some away.
constexpr unsigned new_file_permissions = 0666;

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

async_open& self(io_operation& op) noexcept { return static_cast<async_open&>(op); }

bool prepare(io_operation& op, io_uring_sqe& sqe, bool) noexcept {
  // creation::always_new and a barrier after creation are several calls.
  if (op::access::refused(op) != 0 || op::access::always_new(op) || op::access::wants_barrier(op))
    return false;
  sqe.opcode = IORING_OP_OPENAT;
  sqe.fd = op.fd();
  sqe.addr = reinterpret_cast<std::uintptr_t>(self(op).name().c_str());
  sqe.open_flags = static_cast<std::uint32_t>(op::access::open_flags(op));
  sqe.len = new_file_permissions;
  return true;
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
  if ((flags & O_DIRECT) != 0) sys::note_direct(fd);
  // A device waits or does not as its driver says; of anything else a ring must not believe that it never
  // waits.
  if (may_be_other && !is_device && (!known || sys::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0))
    sys::note_nonblocking(fd);
  return handle_kind::file;
}

int open_in_place(async_open& op) noexcept {
  int const fd =
      detail::open_at(op.fd(), op.name().c_str(), op::access::open_flags(op), new_file_permissions);
  if (fd < 0 || !op::access::wants_barrier(op)) return fd;
  if (int const failed = detail::make_durable(fd); failed < 0) {
    if ((op::access::open_flags(op) & O_EXCL) != 0) sys::unlinkat(op.fd(), op.name().c_str(), 0);
    sys::close(fd);
    return failed;
  }
  return fd;
}

// creation::always_new: makes a new inode under a random name beside the wanted one and renames it into its
// place. The old one stays with those who have it open, and the name leads to a file at every moment.
int open_always_new(async_open& op) noexcept {
  char const* const name = op.name().c_str();
  std::size_t const n = detail::directory_part(name);
  if (n == op.name().size()) return n == 0 ? -ENOENT : -EISDIR; // as openat(2) with O_CREAT
  detail::path_buffer sibling;
  std::memcpy(sibling.text, name, n);
  int const fd = detail::with_random_name(sibling, n, [&](char const* candidate) {
    return detail::open_at(op.fd(), candidate, op::access::open_flags(op), new_file_permissions);
  });
  if (fd < 0) return fd;

  int failed = op::access::wants_barrier(op) ? detail::make_durable(fd) : 0;
  if (failed >= 0) failed = static_cast<int>(sys::renameat(op.fd(), sibling.text, op.fd(), name, 0));
  if (failed >= 0) return fd;
  sys::unlinkat(op.fd(), sibling.text, 0);
  sys::close(fd);
  return failed;
}

int perform(io_operation& op, attempt how) noexcept {
  if (op::access::refused(op) != 0) return op::access::refused(op);
  if (how == attempt::nonblocking) return -EAGAIN;
  return op::access::always_new(op) ? open_always_new(self(op)) : open_in_place(self(op));
}

outcome complete(io_operation& op, int res, unsigned) noexcept {
  int const fd = res >= 0 ? sys::above_standard(res) : res;
  if (fd >= 0) op::access::set_opened(op, take_in(fd, op::access::open_flags(op)));
  return op::decode(op, fd);
}

void reclaim(io_operation& op) noexcept {
  if (op.outcome_value() < 0) return;
  sys::bump_generation(op.outcome_value()); // clears the notes of take_in()
  sys::close(op.outcome_value());
}

} // namespace

async_open::async_open(path_handle const& base, path_view name, mode m, creation c, caching k, flag f,
                       unio::deadline d) noexcept
    : io_operation(detail::open_faces, handle_kind::path, detail::directory_of(base), base.own_multiplexer(),
                   d),
      name_(name),
      open_flags_(flags_for(m, c, k)),
      refused_(open_flags_ < 0 ? open_flags_ : name.check()),
      always_new_(c == creation::always_new),
      wants_barrier_(k == caching::safety_barriers && c != creation::open_existing),
      caching_(k),
      flags_(f) {}

async_open::result_type async_open::result() noexcept {
  int const fd = outcome_value();
  if (fd < 0) return detail::to_error_code(fd);
  return file_handle(fd, opened_, caching_, flags_);
}

constinit operation_faces const detail::open_faces = {.name = "open",
                                                      .tries = inline_attempt::never,
                                                      .interruptible = false,
                                                      .prepare = prepare,
                                                      .wants = wants,
                                                      .perform = perform,
                                                      .complete = complete,
                                                      .reclaim = reclaim};

} // namespace unio
