// unio/outer_loop.hpp: a multiplexer within another loop: Qt's, GLib's, an epoll of the program's own.
//
//   outer_loop    a descriptor that is readable when the multiplexer has something to do
//
//   auto unio_side = unio::outer_loop::create().value();
//   for (;;) {
//     (void)unio_side.multiplexer().try_run();                        // all that there is to do
//     auto const time = unio_side.before_wait().value();              // 0: there is more; go round again
//     wait(unio_side.descriptor(), …the program's own…, at most time);
//   }
//
// The other way round, a descriptor of a library's within unio: unio/foreign_handle.hpp. unio/unio.hpp does
// not include this header.

#pragma once

#include <unio/multiplexer.hpp>

#include <chrono>

namespace unio::inline v0_1 {

namespace driver {
class engine;
} // namespace driver

/// What a loop of another kind needs to run a multiplexer. It owns a descriptor, and that is all that the
/// other loop has to watch: for readability, level-triggered.
///
/// The descriptor is readable when an operation of the multiplexer goes on or has ended, a deadline or a
/// timer has come, a thread of the library's has performed something, or another thread (or a handler of
/// signals) has called post() or wake(), or started or stopped an atomic form. It says so only of what comes
/// after before_wait(): so the order is try_run(), before_wait(), wait, each time round. Between
/// before_wait() and the wait nothing may be started on this thread; what is, begins with the next round.
/// Reported too often is harmless; nothing is reported too seldom. On a ring with deferred task work an
/// eventfd (event_handle) that another thread writes to is reported some milliseconds late.
///
/// Thread safety  distinct: safe; shared: the thread that runs the multiplexer
/// Lifetime       the multiplexer outlives it
/// Moved-from     has no descriptor
/// Destruction    closes its descriptors; the multiplexer goes on as any other
/// Fork           the child makes its own, for a multiplexer of its own
/// Size           32 bytes, and two descriptors; on a ring two more, which the multiplexer keeps
/// Simulation     refused
class UNIO_API outer_loop {
 public:
  outer_loop() = default;
  outer_loop(outer_loop&& other) noexcept;
  outer_loop& operator=(outer_loop&& other) noexcept;
  ~outer_loop();

  /// Makes it for a multiplexer of one thread, which becomes the calling one's.
  ///
  /// Returns       the object, whose descriptor is there from then on
  /// Errors        std::errc::operation_not_supported: a multiplexer of several threads, where what one
  ///               thread has to do may become another's; one that unio has not made; in a simulation.
  ///               EMFILE, ENFILE, ENOMEM, ENOSPC; those of complete_io()
  /// Concurrency   the thread that runs the multiplexer, or will
  /// Cost          some six system calls; on a ring some twenty
  static result<outer_loop> create(io_multiplexer& m = this_thread::multiplexer()) noexcept;

  /// What the other loop watches; -1 if it was moved from. close-on-exec. Lifetime: this object's.
  [[nodiscard]] int descriptor() const noexcept { return epoll_fd_; }
  /// What is to be run when it is readable. Preconditions: it has one.
  [[nodiscard]] io_multiplexer& multiplexer() const noexcept { return *multiplexer_; }

  /// Before the other loop waits: gives the kernel all that was started, and sees to it that the descriptor
  /// becomes readable with the first thing that comes.
  ///
  /// Effects       submits what was started since the last turn, and takes in what is ready; calls no
  ///               receiver
  /// Returns       how long there is to wait at most: 0 if there is something to do, for which the loop does
  ///               not wait but calls try_run(); nanoseconds::max() if there is no end. The descriptor
  ///               becomes readable then too, so that a loop without timeouts may ignore all but 0
  /// Errors        as complete_io(); of the kernel's timer none
  /// Preconditions descriptor() is not -1
  /// Concurrency   the thread that runs the multiplexer, also within a receiver that runs the other loop
  /// Cost          no allocation; one system call if something was started or the kernel has to be asked, one
  ///               if the next deadline is another one than before; on a ring with deferred task work two
  ///               more, and two if the kernel was asked since
  /// Runs as       io_uring_enter(2), read(2), io_uring_register(2) · epoll_pwait2(2); timerfd_settime(2)
  result<std::chrono::nanoseconds> before_wait() noexcept;

 private:
  io_multiplexer* multiplexer_ = nullptr;
  int epoll_fd_ = -1;
  int timer_fd_ = -1;
  int driver_fd_ = -1;      // which is in the epoll; the multiplexer's
  bool has_moment_ = false; // the timer is set
  std::int64_t moment_ = 0; // to this
};

} // namespace unio
