// async_clone_extents: the same data in another file, by the ladder of sys/clone_extents.hpp.
//
// On a worker a step moves 64 MiB or a little more. Between steps others have their turn, and the operation
// may be stopped. Without a multiplexer one step moves all, or ends when the deadline has passed.

#include "sys/clone_extents.hpp"

#include "op/file_calls.hpp"
#include "sys/due.hpp"

#include <sys/stat.h>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

using state = op::file_access::clone;

constexpr int step_ended = -EINPROGRESS; // no system call that the ladder makes says that

// Asked after each piece whether the step is to end.
struct piece_limit {
  std::int64_t left = 64 << 20; // bytes of this step
  std::int64_t due = deadline::forever;
  bool is_alone = false;

  static int after_piece(void* self, std::int64_t bytes) noexcept {
    auto& l = *static_cast<piece_limit*>(self);
    if (l.is_alone) return l.due != deadline::forever && sys::steady_now() >= l.due ? -ETIMEDOUT : 0;
    l.left -= bytes;
    return l.left > 0 ? 0 : step_ended;
  }
};

// Whether both have offsets (a pipe would take the same bytes again and again), and may be used.
int check(state const& s, struct stat& from, struct stat& to) noexcept {
  if (int const r = op::uninterrupted([&] { return sys::fstat(s.from, &from); }); r < 0) return r;
  if (int const r = op::uninterrupted([&] { return sys::fstat(s.to, &to); }); r < 0) return r;
  if (!S_ISREG(from.st_mode) || !S_ISREG(to.st_mode)) return -EINVAL;
  std::int64_t const from_flags = sys::fcntl(s.from, F_GETFL, 0);
  if (from_flags < 0) return static_cast<int>(from_flags);
  std::int64_t const to_flags = sys::fcntl(s.to, F_GETFL, 0);
  if (to_flags < 0) return static_cast<int>(to_flags);
  bool const is_readable = (from_flags & O_ACCMODE) != O_WRONLY && (from_flags & O_PATH) == 0;
  bool const is_writable = (to_flags & O_ACCMODE) != O_RDONLY && (to_flags & O_APPEND) == 0;
  return is_readable && is_writable ? 0 : -EBADF;
}

// One step. 1: there is more; 0: that was all; or -errno.
int step(state const& s, piece_limit& limit) noexcept {
  struct stat from, to;
  if (int const r = check(s, from, to); r < 0) return r;
  auto all = std::min(s.bytes, op::largest_offset - s.offset);
  // Files of /proc and /sys have no length; they are read until they end.
  if (from.st_size != 0) {
    auto length = static_cast<extent_type>(from.st_size);
    if (s.done.bytes == 0 && s.offset < length &&
        std::min(all, length - s.offset) > op::largest_offset - s.to_offset)
      return -EFBIG;
    // A range that is copied further back in its own file may make that longer. It does so before the first
    // byte is copied, so that each step finds the same end.
    if (from.st_dev == to.st_dev && from.st_ino == to.st_ino && s.offset < s.to_offset) {
      if (s.done.bytes == 0 && s.offset < length) {
        extent_type const end = s.to_offset + std::min(all, length - s.offset);
        if (end > length)
          if (int const r = sys::extend(s.to, end); r < 0) return r;
        length = std::max(length, end);
      }
      length -= std::min(length, s.to_offset - s.offset);
    }
    all = s.offset < length ? std::min(all, length - s.offset) : 0;
  }
  if (s.done.bytes >= all) return 0;

  bool const may_have_holes = std::int64_t{from.st_blocks} * 512 < from.st_size;
  int const afresh = may_have_holes ? op::read_afresh(s.from) : -1;
  sys::copy_hints hints{.no_clone = s.tries != clone_way::shared,
                        .no_copy_in_kernel = s.tries == clone_way::read_and_write};
  sys::extents_copy c{.from = afresh >= 0 ? afresh : s.from,
                      .to = s.to,
                      .from_at = static_cast<std::int64_t>(s.offset + s.done.bytes),
                      .to_at = static_cast<std::int64_t>(s.to_offset + s.done.bytes),
                      .bytes = static_cast<std::int64_t>(all - s.done.bytes),
                      .may_have_holes = afresh >= 0,
                      .hints = &hints,
                      .progress = piece_limit::after_piece,
                      .context = &limit};
  int const r = sys::copy_extents(c);
  if (afresh >= 0) sys::close(afresh);

  constexpr clone_way ways[] = {clone_way::none, clone_way::shared, clone_way::in_kernel,
                                clone_way::read_and_write};
  clone_way const way = ways[static_cast<int>(c.rung)];
  s.tries = std::max(way, clone_way::in_kernel); // what was refused is not asked for again
  s.done.bytes += static_cast<extent_type>(c.copied);
  if (way != clone_way::none) {
    s.done.way = way;
    s.done.data_bytes += static_cast<extent_type>(c.copied - c.holes);
  }
  if (s.done.bytes == all) return 0;
  return r == step_ended ? 1 : r;
}

bool is_too_far(state const& s) noexcept {
  return s.offset > op::largest_offset || s.to_offset > op::largest_offset;
}

int clone_at_once(async_clone_extents& op) noexcept {
  state const s = op::file_access::parts(op);
  if (is_too_far(s)) return -EFBIG;
  return s.bytes == 0 ? 0 : -EAGAIN;
}

int clone(async_clone_extents& op) noexcept {
  if (int const refused = clone_at_once(op); refused != -EAGAIN) return refused;
  piece_limit limit;
  limit.is_alone = op.links.is.where == driver::place::idle;
  if (limit.is_alone) limit.due = sys::due(op.deadline());
  return step(op::file_access::parts(op), limit);
}

void reset(io_operation& op) noexcept {
  state const s = op::file_access::parts(static_cast<async_clone_extents&>(op));
  s.done = {};
  s.tries = clone_way::shared;
}

// Above 0: there is more to do.
outcome complete(io_operation& op, int res, unsigned) noexcept {
  return res > 0 ? outcome::again : op::decode(op, res);
}

void for_each_descriptor(io_operation const& op, void (*f)(int fd, void* context), void* context) {
  state const s =
      op::file_access::parts(const_cast<async_clone_extents&>(static_cast<async_clone_extents const&>(op)));
  f(s.from, context);
  f(s.to, context);
}

bool object(io_operation const& op, detail::failed_object& to) noexcept {
  using detail::file_use;
  state const s =
      op::file_access::parts(const_cast<async_clone_extents&>(static_cast<async_clone_extents const&>(op)));
  return detail::put_opening(to, s.from, op.outcome_value(), file_use::reading) ||
         detail::put_opening(to, s.to, op.outcome_value(), file_use::placing);
}

constexpr operation_faces faces() noexcept {
  operation_faces f =
      op::completed_by(op::call_faces<async_clone_extents, clone, clone_at_once>("clone_extents"), complete);
  f.begin = reset;
  f.object = object;
  f.for_each_descriptor = for_each_descriptor;
  return f;
}

} // namespace

async_clone_extents::result_type async_clone_extents::result() const noexcept {
  int const r = outcome_value();
  bool const stopped = r == -ECANCELED || r == -ETIMEDOUT;
  if (r < 0 && !(stopped && done_.bytes != 0)) return failed();
  return done_;
}

constinit operation_faces const detail::clone_extents_faces = faces();

} // namespace unio
