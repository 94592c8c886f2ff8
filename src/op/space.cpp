// async_truncate, async_maximum_extent, async_zero and async_allocate: a file's length and its space.

#include "op/file_calls.hpp"
#include "sys/clone_extents.hpp"

#include <unio/mapped_file_handle.hpp>

#include <sys/stat.h>

namespace unio::inline v0_1 {
namespace {

using op::largest_offset;

// ---- length -----------------------------------------------------------------------------------------------

int truncate(async_truncate& op) noexcept {
  extent_type const size = op::file_access::length(op);
  if (size > largest_offset) return -EFBIG;
  return op::uninterrupted([&] { return sys::ftruncate(op.fd(), static_cast<std::int64_t>(size)); });
}
int refuse_length(async_truncate& op) noexcept {
  return op::file_access::length(op) > largest_offset ? -EFBIG : -EAGAIN;
}

// The map of a mapped file follows, on the thread that runs the operation.
outcome truncated(io_operation& op, int res, unsigned) noexcept {
  auto& self = static_cast<async_truncate&>(op);
  if (res >= 0 && op.kind() == handle_kind::mapped_file) {
    result<extent_type> const mapped =
        static_cast<mapped_file_handle&>(op::file_access::file(self)).update_map();
    if (!mapped) res = detail::to_native(mapped.error());
  }
  return op::decode(op, res);
}

int look_up_length(async_maximum_extent& op) noexcept {
  struct stat s;
  if (int const r = op::uninterrupted([&] { return sys::fstat(op.fd(), &s); }); r < 0) return r;
  op::file_access::length(op) = static_cast<extent_type>(s.st_size);
  return 0;
}
// A file on a device of this machine has its length in memory. The devices of network filesystems, as those
// of some others, have the major number 0: they may have to ask another machine.
int length_at_once(async_maximum_extent& op) noexcept {
  struct statx s{};
  constexpr int flags = AT_EMPTY_PATH | AT_STATX_DONT_SYNC;
  if (sys::statx(op.fd(), "", flags, STATX_SIZE, &s) < 0 || s.stx_dev_major == 0) return -EAGAIN;
  op::file_access::length(op) = s.stx_size;
  return 0;
}

// ---- space ------------------------------------------------------------------------------------------------

int zero_at_once(async_zero& op) noexcept {
  if (op.offset() > largest_offset) return -EFBIG;
  return op.bytes() == 0 ? 0 : -EAGAIN; // fallocate(2) refuses it
}
int zero(async_zero& op) noexcept {
  int const refused = zero_at_once(op);
  return refused != -EAGAIN ? refused : sys::make_hole(op.fd(), op.offset(), op.bytes());
}

int allocate_at_once(async_allocate& op) noexcept {
  bool const too_far = op.offset() > largest_offset || op.bytes() > largest_offset - op.offset();
  return too_far ? -EFBIG : -EAGAIN;
}
int allocate(async_allocate& op) noexcept {
  if (int const refused = allocate_at_once(op); refused != -EAGAIN) return refused;
  int const how = op.how() == allocation::keep_size ? FALLOC_FL_KEEP_SIZE : 0;
  return op::uninterrupted([&] {
    return sys::fallocate(op.fd(), how, static_cast<std::int64_t>(op.offset()),
                          static_cast<std::int64_t>(op.bytes()));
  });
}

constexpr operation_faces faces_of_truncate() noexcept {
  operation_faces f = op::call_faces<async_truncate, truncate, refuse_length>("truncate");
  f.complete = truncated;
  return f;
}

} // namespace

constinit operation_faces const detail::truncate_faces = faces_of_truncate();
constinit operation_faces const detail::maximum_extent_faces =
    op::call_faces<async_maximum_extent, look_up_length, length_at_once>("maximum_extent");
constinit operation_faces const detail::zero_faces = op::call_faces<async_zero, zero, zero_at_once>("zero");
constinit operation_faces const detail::allocate_faces =
    op::call_faces<async_allocate, allocate, allocate_at_once>("allocate");

} // namespace unio
