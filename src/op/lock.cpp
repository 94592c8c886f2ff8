// async_lock_range and async_lock_file: open-file-description locks.
//
// No driver can wait for a lock: there is nothing to poll, a ring has no operation for it, and a thread that
// sleeps in F_OFD_SETLKW could only be woken by a signal. So an attempt that finds it held is repeated after
// a while; only a blocking call without deadline, and without a multiplexer to drive, sleeps in the kernel.

#include "op/access.hpp"
#include "op/file_calls.hpp"

namespace unio::inline v0_1 {
namespace {

// The first and the last byte.
int take(io_operation& op, file_lock& l, attempt how, extent_type first, extent_type last,
         lock_kind kind) noexcept {
  bool const sleeps = how == attempt::blocking && op.deadline().is_none();
  return op::access::take_lock(l, op.fd(), first, last, kind, sleeps);
}

int perform_range(io_operation& op, attempt how) noexcept {
  auto& self = op::as<async_lock_range>(op);
  extent_type const first = self.offset(), bytes = self.bytes();
  if (bytes == 0) return -EINVAL; // the kernel would lock everything from there on
  if (first > op::largest_offset || bytes - 1 > op::largest_offset - first) return -EOVERFLOW;
  return take(op, op::value<async_lock_range>(op), how, first, first + (bytes - 1), self.how());
}

int perform_file(io_operation& op, attempt how) noexcept {
  auto& self = op::as<async_lock_file>(op);
  return take(op, op::value<async_lock_file>(op), how, 0, op::largest_offset, self.how());
}

template <class Operation> void give_back(io_operation& op) noexcept { op::value<Operation>(op) = {}; }

template <class Operation>
constexpr operation_faces faces_named(char const* name,
                                      int (*perform)(io_operation&, attempt) noexcept) noexcept {
  return {.name = name,
          .tries = inline_attempt::always,
          .flow = direction::either,
          .begin = give_back<Operation>, // releases the lock of an earlier run whose result was not taken
          .wants = op::wants<readiness::retry>,
          .perform = perform,
          .complete = op::decode,
          .reclaim = give_back<Operation>};
}

} // namespace

constinit operation_faces const async_lock_range::table_ =
    faces_named<async_lock_range>("lock_range", perform_range);
constinit operation_faces const async_lock_file::table_ =
    faces_named<async_lock_file>("lock_file", perform_file);

} // namespace unio
