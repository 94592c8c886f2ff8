// unio/foreign_handle.hpp: waiting for a descriptor that is somebody else's.
//
//   foreign_handle     waits for a descriptor that it does not own; async_wait_ready is its operation
//
//   auto socket = unio::foreign_handle::watch(number_of_the_library).value();
//   auto const is = co_await socket.co_wait(unio::readiness_set::readable | unio::readiness_set::writable);
//   if (has(is.value(), unio::readiness_set::readable)) …
//
// For what a library has (sockets of libcurl or libpq), and for kinds that unio has no handle for (netlink,
// packets, ICMP, perf). A descriptor that the program may give away: unio/adopt.hpp. How another loop waits
// for unio: unio/outer_loop.hpp. unio/unio.hpp does not include this header.

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1 {

class foreign_handle;
namespace detail {
struct ready_access;
extern UNIO_API driver::operation_faces const wait_ready_faces;
} // namespace detail

/// Waits until a descriptor is ready for one of a set of things. No byte is moved, and nothing about the
/// descriptor is changed.
///
/// Returns       what of the set it is ready for, and `error` and `hang_up` where they are so: at least one
/// Errors        EBADF: the number was closed, or stands for another file, when the wait began;
///               condition::timed_out, would_block, canceled; ENOMEM
/// Preconditions one wait of a handle at a time: another one would change what the first waits for. Several
///               handles may wait for one number
/// Concurrency   distinct handles are independent. Others may use the descriptor while it is waited for; what
///               it was ready for may be gone when the caller comes to it
/// Cancellation  readiness that came first is returned
/// Closing       a number that its owner closes while it is waited for: the wait stays with the file that the
///               number stood for, keeps it from nothing, and never reports anything of the number's next
///               owner. If that was the last number of the file, it ends by its deadline or a stop, and not
///               before. So end the wait first, or have one or the other
/// Cost          no allocation; two system calls if it is ready, otherwise two more and those of the wait
/// Runs as       epoll_ctl(2), epoll_wait(2) on the handle's own epoll, whose readiness io_uring learns by
///               POLL_ADD. In a simulation poll(2) from time to time, of readable and writable
/// Source        poll(2), epoll(7)
class UNIO_API async_wait_ready : public detail::operation_on,
                                  public detail::standard_sender<async_wait_ready> {
 public:
  using result_type = io_result<readiness_set>;
  async_wait_ready() = default;
  async_wait_ready(foreign_handle& h, readiness_set what, unio::deadline d = {}) noexcept;
  [[nodiscard]] readiness_set what() const noexcept { return what_; }
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return detail::failed(outcome_value(), faces().name, foreign_);
    return static_cast<readiness_set>(outcome_value());
  }

 private:
  friend struct detail::ready_access;
  int foreign_ = -1;
  int refused_ = 0; // why it cannot wait: a negative code
  readiness_set what_ = readiness_set::none;
  bool only_looks_ = false; // in a simulation
};

/// Waits for a descriptor that is not its own, in every style. What it owns is an epoll(7) that knows that
/// descriptor: the descriptor's flags, position and locks stay as they are, and so does when it is closed.
///
/// Thread safety  distinct: safe, also for one number; shared: one wait at a time
/// Moved-from     closed
/// Destruction    as handle: ends the wait. The foreign descriptor stays open
/// Fork           a child that goes on to use it makes its own: the epoll is its parent's too
/// Size           24 bytes, and a descriptor
class UNIO_API foreign_handle : public handle {
 public:
  foreign_handle() = default;
  foreign_handle(foreign_handle&& other) noexcept = default;
  foreign_handle& operator=(foreign_handle&& other) noexcept = default;

  /// Makes it possible to wait for the file that the number `fd` stands for now.
  ///
  /// Returns       the handle, which has a descriptor of its own
  /// Errors        EBADF: `fd` is no descriptor; EPERM (std::errc::operation_not_permitted): a regular file
  ///               or directory, which is always ready, so that there is nothing to wait for; ELOOP: an epoll
  ///               that watches others more than three deep; EMFILE, ENFILE, ENOMEM; ENOSPC
  ///               (/proc/sys/fs/epoll/max_user_watches)
  /// Lifetime      `fd` is the caller's, before and after; close() or destroy this before its owner closes it
  /// Concurrency   any thread
  /// Cost          two system calls
  static result<foreign_handle> watch(int fd) noexcept;

  /// The number that it waits for; -1 if there is none. native_handle() is the one that it owns.
  [[nodiscard]] int watched() const noexcept { return is_open() ? watched_ : -1; }

  /// wait, try_wait, …, co_wait, …: see async_wait_ready.
  UNIO_VERB_FORMS(wait, async_wait_ready, (readiness_set, what))

 private:
  foreign_handle(int fd, int watched) noexcept : handle(fd, handle_kind::event), watched_(watched) {}
  int watched_ = -1;
};

UNIO_SENDER_FORMS(async_wait_ready, (foreign_handle&, h), (readiness_set, what))

inline async_wait_ready::async_wait_ready(foreign_handle& h, readiness_set what, unio::deadline d) noexcept
    : operation_on(detail::wait_ready_faces, h, d), foreign_(h.watched()), what_(what) {}

} // namespace unio
