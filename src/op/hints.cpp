// async_advise and async_write_back: what the kernel does with the cache of a file.

#include "op/file_calls.hpp"

namespace unio::inline v0_1 {
namespace {

using op::largest_offset;

constexpr int advices[] = {POSIX_FADV_NORMAL,   POSIX_FADV_SEQUENTIAL, POSIX_FADV_RANDOM,
                           POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED,   POSIX_FADV_NOREUSE};

// The others only note something in the open file (mm/fadvise.c).
bool does_io(access_advice what) noexcept {
  return what == access_advice::will_need || what == access_advice::dont_need;
}

bool is_too_far(extent_type offset, extent_type bytes) noexcept {
  return offset > largest_offset || bytes > largest_offset;
}

int advise(async_advise& op) noexcept {
  if (is_too_far(op.offset(), op.bytes())) return -EINVAL;
  return op::uninterrupted([&] {
    return sys::fadvise(op.fd(), static_cast<std::int64_t>(op.offset()),
                        static_cast<std::int64_t>(op.bytes()), advices[static_cast<int>(op.what())]);
  });
}
int advise_at_once(async_advise& op) noexcept { return does_io(op.what()) ? -EAGAIN : advise(op); }

int write_back(async_write_back& op) noexcept {
  if (is_too_far(op.offset(), op.bytes())) return -EINVAL;
  return op::uninterrupted([&] {
    return sys::sync_file_range(op.fd(), static_cast<std::int64_t>(op.offset()),
                                static_cast<std::int64_t>(op.bytes()), SYNC_FILE_RANGE_WRITE);
  });
}
int write_back_at_once(async_write_back& op) noexcept {
  return is_too_far(op.offset(), op.bytes()) ? -EINVAL : -EAGAIN;
}

} // namespace

constinit operation_faces const detail::advise_faces =
    op::call_faces<async_advise, advise, advise_at_once>("advise");
constinit operation_faces const detail::write_back_faces =
    op::call_faces<async_write_back, write_back, write_back_at_once>("write_back");

} // namespace unio
