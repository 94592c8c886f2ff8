// async_truncate, async_maximum_extent, async_zero and async_allocate: a file's length and its space.

#include "op/file_calls.hpp"
#include "sys/clone_extents.hpp"

#include <unio/mapped_file_handle.hpp>

#include <sys/stat.h>

namespace unio::inline v0_1::op {
namespace {

// ---- length -----------------------------------------------------------------------------------------------

int refuse_length(async_truncate& op) noexcept { return op.size() > largest_offset ? -EFBIG : -EAGAIN; }
int truncate(async_truncate& op) noexcept {
  if (int const refused = refuse_length(op); refused != -EAGAIN) return refused;
  value<async_truncate>(op) = op.size();
  return uninterrupted([&] { return sys::ftruncate(op.fd(), static_cast<std::int64_t>(op.size())); });
}

// The map of a mapped file follows, on the thread that runs the operation.
outcome truncated(io_operation& op, int res, unsigned) noexcept {
  if (res >= 0 && op.kind() == handle_kind::mapped_file) {
    auto& file = static_cast<mapped_file_handle&>(*state<async_truncate>(op));
    if (result<extent_type> const mapped = file.update_map(); !mapped)
      res = detail::to_native(mapped.error());
  }
  return decode(op, res);
}

constexpr operation_faces faces_of_truncate() noexcept {
  operation_faces f =
      completed_by(call_faces<async_truncate, truncate, refuse_length>("truncate"), truncated);
  f.object = opening<detail::file_use::writing>;
  return f;
}

int maximum_extent(int fd, extent_type& length) noexcept {
  struct stat s;
  if (int const r = uninterrupted([&] { return sys::fstat(fd, &s); }); r < 0) return r;
  length = static_cast<extent_type>(s.st_size);
  return 0;
}
// A file on a device of this machine has its length in memory. The devices of network filesystems, as those
// of some others, have the major number 0: they may have to ask another machine.
int length_at_once(int fd, extent_type& length) noexcept {
  struct statx s{};
  constexpr int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (sys::statx(fd, "", flags, STATX_SIZE, &s) < 0 || s.stx_dev_major == 0) return -EAGAIN;
  length = s.stx_size;
  return 0;
}

// ---- space ------------------------------------------------------------------------------------------------

int zero_at_once(int, extent_type offset, extent_type bytes) noexcept {
  if (offset > largest_offset) return -EFBIG;
  return bytes == 0 ? 0 : -EAGAIN; // fallocate(2) refuses it
}
int zero(int fd, extent_type offset, extent_type bytes) noexcept {
  int const refused = zero_at_once(fd, offset, bytes);
  return refused != -EAGAIN ? refused : sys::make_hole(fd, offset, bytes);
}

int allocate_at_once(int, extent_type offset, extent_type bytes, allocation) noexcept {
  return offset > largest_offset || bytes > largest_offset - offset ? -EFBIG : -EAGAIN;
}
int allocate(int fd, extent_type offset, extent_type bytes, allocation how) noexcept {
  if (int const refused = allocate_at_once(fd, offset, bytes, how); refused != -EAGAIN) return refused;
  int const mode = how == allocation::keep_size ? FALLOC_FL_KEEP_SIZE : 0;
  return uninterrupted([&] {
    return sys::fallocate(fd, mode, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes));
  });
}

constexpr operation_faces placing(operation_faces f) noexcept {
  f.object = opening<detail::file_use::placing>;
  return f;
}

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_truncate::table_ = op::faces_of_truncate();
constinit operation_faces const async_maximum_extent::table_ =
    op::call_faces<async_maximum_extent, op::maximum_extent, op::length_at_once>("maximum_extent");
constinit operation_faces const async_zero::table_ =
    op::placing(op::call_faces<async_zero, op::zero, op::zero_at_once>("zero"));
constinit operation_faces const async_allocate::table_ =
    op::placing(op::call_faces<async_allocate, op::allocate, op::allocate_at_once>("allocate"));

} // namespace unio
