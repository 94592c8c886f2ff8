// async_advise and async_write_back: what the kernel does with the cache of a file.

#include "op/file_calls.hpp"

namespace unio::inline v0_1::op {
namespace {

constexpr int advices[] = {POSIX_FADV_NORMAL,   POSIX_FADV_SEQUENTIAL, POSIX_FADV_RANDOM,
                           POSIX_FADV_WILLNEED, POSIX_FADV_DONTNEED,   POSIX_FADV_NOREUSE};

// The others only note something in the open file (mm/fadvise.c).
bool does_io(access_advice what) noexcept {
  return what == access_advice::will_need || what == access_advice::dont_need;
}

bool is_too_far(extent_type offset, extent_type bytes) noexcept {
  return offset > largest_offset || bytes > largest_offset;
}

int advise(int fd, extent_type offset, extent_type bytes, access_advice what) noexcept {
  if (is_too_far(offset, bytes)) return -EINVAL;
  return uninterrupted([&] {
    return sys::fadvise(fd, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes),
                        advices[static_cast<int>(what)]);
  });
}
int advise_at_once(int fd, extent_type offset, extent_type bytes, access_advice what) noexcept {
  return does_io(what) ? -EAGAIN : advise(fd, offset, bytes, what);
}

int write_back(int fd, extent_type offset, extent_type bytes) noexcept {
  if (is_too_far(offset, bytes)) return -EINVAL;
  return uninterrupted([&] {
    return sys::sync_file_range(fd, static_cast<std::int64_t>(offset), static_cast<std::int64_t>(bytes),
                                SYNC_FILE_RANGE_WRITE);
  });
}
int write_back_at_once(int, extent_type offset, extent_type bytes) noexcept {
  return is_too_far(offset, bytes) ? -EINVAL : -EAGAIN;
}

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_advise::table_ =
    op::call_faces<async_advise, op::advise, op::advise_at_once>("advise");
constinit operation_faces const async_write_back::table_ =
    op::call_faces<async_write_back, op::write_back, op::write_back_at_once>("write_back");

} // namespace unio
