// async_read_appended: the next bytes of a file that others append to.
//
// The order matters: what the watch has queued is dropped first, then the file is read. What is appended
// after that queues again.

#include "op/declared.hpp"
#include "op/face.hpp"

#include <unio/tail_handle.hpp>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

namespace unio::inline v0_1 {
namespace {

using self = async_read_appended;

// What it waits for at the end of the file.
readiness at_end(io_operation const& op) noexcept {
  return op::state<self>(op).file != op.fd() ? readiness::readable : readiness::retry;
}

void begin(io_operation& op) noexcept { op::state<self>(op).waits_for = at_end(op); }

readiness wants(io_operation const& op) noexcept { return op::state<self>(op).waits_for; }

// What it leaves when a writer makes them without end only wakes the next wait at once.
void drop_notices(int watch) noexcept {
  alignas(8) char notices[2048];
  for (int n = 0; n != 16; ++n)
    if (op::uninterrupted([&] { return sys::read(watch, notices, sizeof notices); }) <= 0) return;
}

int read_more(int file, mutable_buffer into, int flags) noexcept {
  iovec const v{into.data(), std::min(into.size(), op::max_bytes)};
  return op::uninterrupted([&] { return sys::preadv2(file, &v, 1, -1, flags); });
}

// Files of procfs and the like say that they have no bytes.
bool has_bytes(int file) noexcept {
  char first;
  iovec const v{&first, 1};
  struct stat s;
  return op::uninterrupted([&] { return sys::preadv2(file, &v, 1, 0, 0); }) > 0 &&
         sys::fstat(file, &s) == 0 && s.st_size == 0; // it is not just growing again
}

// At the end: whether the file has become shorter than the position. 0, or an error.
int check_truncated(int file) noexcept {
  struct stat s;
  if (std::int64_t const r = sys::fstat(file, &s); r < 0) return static_cast<int>(r);
  if (sys::lseek(file, 0, SEEK_CUR) <= s.st_size || (s.st_size == 0 && has_bytes(file))) return 0;
  sys::lseek(file, 0, SEEK_SET);
  return detail::native(error::truncated);
}

int perform(io_operation& op, attempt how) noexcept {
  auto& [file, waits_for] = op::state<self>(op);
  mutable_buffer const into = op::as<self>(op).into();
  if (file < 0) return -EBADF;
  if (into.empty()) return 0;
  if (at_end(op) == readiness::readable) drop_notices(op.fd());
  int r = read_more(file, into, how == attempt::blocking ? 0 : RWF_NOWAIT);
  if (r > 0) return r;
  bool const may_wait = r == -EAGAIN || r == -EOPNOTSUPP; // for the disk
  waits_for = may_wait ? readiness::worker : at_end(op);
  if (may_wait) return -EAGAIN;
  if (r == 0) r = check_truncated(file);
  return r == 0 ? -EAGAIN : r;
}

} // namespace

constinit operation_faces const async_read_appended::table_ = {.name = "read_appended",
                                                               .tries = inline_attempt::always,
                                                               .flow = direction::either,
                                                               .begin = begin,
                                                               .wants = wants,
                                                               .perform = perform,
                                                               .complete = op::decode,
                                                               .waits_for_device = true};

} // namespace unio
