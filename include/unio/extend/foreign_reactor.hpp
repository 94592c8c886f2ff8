// unio/extend/foreign_reactor.hpp: unio's drivers for an event loop that was written for epoll(7) or poll(2).
//
//   foreign_watch     one descriptor, as the reactor knows it; a part of the loop's own object
//   foreign_transfer  one operation that is made for the loop: on a file, or what an entry says
//   foreign_entry     that: an entry as io_uring has it
//   foreign_event     what a watch has reported, or that a transfer is over
//   foreign_reactor   waits for all of them, on io_uring or on epoll: chosen as every multiplexer is
//
// A foreign loop makes its own system calls and owns its descriptors; the reactor only says when to try
// again. Or it has them made: transfers of files, by a ring or by threads that may block; what a loop that
// was written for completions would submit to a ring, by a ring or on readiness. It belongs to no thread:
// whichever thread of the loop has nothing else to do runs it, one at a time, and all others may add, arm
// and remove watches, start and cancel transfers, and interrupt it.
//
// This header is C++11, for loops that are. It includes nothing of unio but what is.

#pragma once

#include <unio/extend/foreign_pending.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <system_error>

struct iovec; // of readv(2)

namespace unio {
inline namespace v0_1 {

class foreign_reactor;
class foreign_transfer;
namespace driver {
struct foreign_access;
class foreign_transfers;
} // namespace driver

/// What a watch waits for, and what it reports: a set of bits. The values are those of poll(2).
namespace foreign {
constexpr unsigned readable = 0x1;
constexpr unsigned exceptional = 0x2; ///< out-of-band data
constexpr unsigned writable = 0x4;
constexpr unsigned failed = 0x18; ///< an error or a hang-up: one of the two bits; always reported
} // namespace foreign

/// One descriptor, as a reactor knows it. It may be a base class.
///
/// Thread safety  distinct: yes; shared: what is said at foreign_reactor
/// Lifetime       stays at its place until its reactor has ended, also once it was removed: what the kernel
///                has reported of it may be under way. After remove() it may be added again, for another
///                descriptor.
/// Moved-from     cannot be moved
class foreign_watch {
 public:
  foreign_watch() noexcept : generation_(0) {}
  foreign_watch(foreign_watch const&) = delete;
  foreign_watch& operator=(foreign_watch const&) = delete;

  /// Whether readiness means something for the descriptor. False: a regular file, which is always ready and
  /// reports nothing. Preconditions: it was added.
  bool can_wait() const noexcept { return can_wait_; }

 private:
  friend struct driver::foreign_access;
  foreign_watch* next_ = nullptr; // of all that are added
  foreign_watch* previous_ = nullptr;
  foreign_watch* next_waiting_ = nullptr; // of those that the ring is to get
  foreign_transfer* transfers_ = nullptr; // that wait for it to be ready
  int fd_ = -1;
  int copy_ = -1;                         // of fd_, for epoll: another watch has that
  std::atomic<std::uint16_t> generation_; // how often it was removed
  std::uint8_t interest_ = 0;
  std::uint8_t armed_ = 0;   // directions that the ring has a request for
  std::uint8_t reports_ = 0; // what was ready when it was asked for, to be reported next
  bool is_waiting_ = false;
  std::atomic<bool> is_added_{false};
  bool can_wait_ = false;
  bool is_kept_ = false;                  // a ring that was given up may have a request
  std::atomic<bool> carries_{false};      // transfers: it is the reactor's to add
  bool expects_ = true;                   // when something was received last there was more
  std::uint8_t kind_ = 0;                 // what is known of the descriptor
  std::atomic<std::uint8_t> unready_{0};  // what it was not ready for, and has not reported since
  std::atomic<std::uint8_t> doubts_{0};   // of what a ring may report an edge that is gone
  std::atomic<std::uint32_t> changes_{0}; // how often it has reported; on a ring: which socket it is of, or 0
};

/// What a transfer does, as the kernel gets it: the layout and the values are those of io_uring_sqe, in
/// <linux/io_uring.h>. `user_data` is the reactor's.
struct foreign_entry {
  std::uint8_t opcode;
  std::uint8_t flags;
  std::uint16_t priority;
  std::int32_t fd;
  std::uint64_t offset;
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t operation_flags;
  std::uint64_t user_data;
  std::uint64_t more[3];
};

/// One operation that is made for the loop: a read or write of a file, or what an entry says. It may be a
/// base class.
///
/// Thread safety  distinct: yes; shared: what is said at foreign_reactor
/// Lifetime       from start() until it is over it stays at its place, as its buffers do; it may be destroyed
///                before it is started, and after
/// Cost           of its functions: none
/// Moved-from     cannot be moved
class foreign_transfer {
 public:
  enum direction : std::uint8_t { reads, writes };
  static constexpr std::int64_t at_position = -1;

  /// Of `fd`, at `offset` or at the file's position, which it then moves. `buffers`: as readv(2) has them.
  foreign_transfer(direction d, int fd, ::iovec const* buffers, int n, std::int64_t offset) noexcept
      : entry_(), place_(0) {
    entry_.opcode = d == writes ? 2 : 1; // WRITEV, READV
    entry_.fd = fd;
    entry_.offset = static_cast<std::uint64_t>(offset);
    entry_.address = reinterpret_cast<std::uintptr_t>(buffers);
    entry_.length = static_cast<std::uint32_t>(n);
  }
  /// As an entry says that is set before it is started.
  foreign_transfer() noexcept : entry_(), place_(0) {}
  foreign_transfer(foreign_transfer const&) = delete;
  foreign_transfer& operator=(foreign_transfer const&) = delete;

  /// What it does when it is started next. Preconditions: it is not under way.
  void set_entry(foreign_entry const& e) noexcept {
    entry_ = e;
    result_ = 0;
  }

  /// The bytes that it moved, or what else its operation returns, or a negative errno; -ECANCELED if it was
  /// cancelled before it had done anything. Preconditions: it is over.
  std::int64_t result() const noexcept { return result_; }

 private:
  friend struct driver::foreign_access;
  foreign_transfer* next_transfer_ = nullptr; // of all that are under way
  foreign_transfer* previous_transfer_ = nullptr;
  foreign_transfer* next_queued_ = nullptr; // of those that the ring is to get, or that are over
  driver::foreign_transfers* owner_ = nullptr;
  foreign_watch* watch_ = nullptr; // of its descriptor; null: a file's
  foreign_entry entry_;
  std::int64_t result_ = 0;
  std::uint64_t worker_place_ = 0;
  std::atomic<std::uint32_t> place_;
  bool is_cancelled_ = false;
  bool is_connecting_ = false;
};

/// What run() has collected: of a watch, or, where that is null, of a transfer.
struct foreign_event {
  foreign_watch* watch;
  unsigned what;              ///< bits of `foreign`
  foreign_transfer* transfer; ///< it is over
};

/// Waits for descriptors, for a time, and for an interruption.
///
///     unio::foreign_reactor reactor;
///     if (std::error_code e = reactor.open()) …
///     reactor.add(watch, fd, unio::foreign::readable);
///     unio::foreign_event events[64];
///     std::size_t const n = reactor.run(time_to_the_next_timer, events, 64);
///
/// A watch reports edges: what a descriptor is ready for when it is added or armed, and each change after
/// that. It may report more than there is, so a loop has descriptors that never block. Which driver: as
/// unio::capabilities says; UNIO_DRIVER names one. A ring needs Linux 6.10 and is used while one thread runs
/// the reactor; when that thread has ended, the next may have one too. It goes on with epoll for good once a
/// second thread runs it, or once another thread than the one that runs it has to take something back from
/// the kernel: there the kernel does its part of a completion when that thread enters, and interrupts no
/// thread.
///
/// Thread safety  run() and end_transfers(): one thread at a time, any thread; all others: any thread, also
///                while another runs; for one watch or transfer: one at a time
/// Outlives       nothing; what it has watched outlives it
/// Moved-from     cannot be moved
class UNIO_API foreign_reactor {
 public:
  foreign_reactor() noexcept : state_(nullptr) {}
  foreign_reactor(foreign_reactor const&) = delete;
  foreign_reactor& operator=(foreign_reactor const&) = delete;
  /// Closes what it has opened. Descriptors that were watched stay open. Preconditions: no transfer is under
  /// way.
  ~foreign_reactor();

  /// Chooses the driver.
  ///
  /// Effects       opens a ring or an epoll descriptor, and an eventfd
  /// Returns       no error, or why it did not open
  /// Errors        error::unknown_driver, error::bad_ring_entries; ENOMEM, EMFILE, ENFILE; where
  ///               UNIO_DRIVER is uring: why there is no ring
  /// Preconditions it is not open
  /// Cost          a few system calls, and an allocation
  std::error_code open() noexcept;

  /// Watches a descriptor.
  ///
  /// Effects       `fd` is watched for `interest` until the watch is removed
  /// Returns       no error, or why it is not watched
  /// Errors        EBADF: `fd` is no descriptor; ENOMEM, ENOSPC of epoll_ctl(2); EEXIST: another watch has
  ///               the number; then the watch is not added
  /// Preconditions the watch is not added; nothing else of the loop watches `fd` with this reactor
  /// Concurrency   any thread
  /// Cost          one system call, two on a ring for what is no socket; one more wakes a thread that waits
  ///               on a ring
  /// Runs as       epoll EPOLL_CTL_ADD · io_uring fstat(2), for what is no socket EPOLL_CTL_ADD too, and
  ///               POLL_ADD (multishot) with the next run()
  std::error_code add(foreign_watch& watch, int fd, unsigned interest) noexcept;

  /// Watches it for `interest` too, and reports what of that it is ready for now.
  ///
  /// Returns       no error, or why it is watched as before
  /// Errors        ENOMEM
  /// Preconditions the watch is added and can wait
  /// Concurrency   any thread
  /// Cost          one system call at most; one more wakes a thread that waits on a ring
  /// Runs as       epoll EPOLL_CTL_MOD · io_uring POLL_ADD with the next run(), poll(2) if there is one
  std::error_code arm(foreign_watch& watch, unsigned interest) noexcept;

  /// Watches it no longer. The descriptor may go on to be used.
  ///
  /// Effects       nothing that run() collects afterwards is of this watch. What another thread is collecting
  ///               at the moment may be. No driver keeps the descriptor open.
  /// Concurrency   any thread; waits for no handler, and for a ring as remove_before_close() does
  /// Cost          one system call, two on a ring for what is no socket
  void remove(foreign_watch& watch) noexcept;

  /// The same, for a descriptor whose number foreign code is about to close: the number may be given out
  /// again and be added with another watch at once, and the close has its effects when it is made, as no
  /// driver keeps the descriptor open.
  ///
  /// Concurrency   any thread; waits for no handler. Once in the life of a reactor, where another thread runs
  ///               it on a ring and is not waiting, it waits until nothing of that ring is left: some 40 ms,
  ///               300 at most.
  /// Cost          epoll none; io_uring one system call if it was armed
  void remove_before_close(foreign_watch& watch) noexcept;

  /// Has a transfer made.
  ///
  /// Effects       the bytes move while other things happen; run() reports when it is over. `may_try`: what
  ///               is in the page cache is read here and now, unless a ring makes the transfers, which takes
  ///               all of a turn in one call. Not for descriptors that are open with O_DIRECT.
  /// Returns       true: it is over, and will not be reported
  /// Preconditions the descriptor is a file, for which readiness means nothing (foreign_watch::can_wait)
  /// Buffers       the caller's; untouched by others until it is over
  /// Concurrency   any thread. Transfers that are under way at the same time move their bytes in any order.
  /// Cost          no allocation; one system call if it tries; on a ring none but one that wakes a thread
  ///               that waits
  /// Runs as       epoll preadv2(2), pwritev2(2) on a thread of the library's, in a simulation at once ·
  ///               io_uring READV, WRITEV with the next run()
  bool start(foreign_transfer& transfer, bool may_try) noexcept;

  /// Has a transfer made on a descriptor that may have to be waited for.
  ///
  /// Effects       a ring is given the entry, with all others of the turn in one call (a message of one
  ///               buffer as RECV or SEND, where that is the same); run() reports when it is over. With
  ///               epoll the call is made without waiting, here and whenever `watch` is ready, until it does
  ///               not block. For that a descriptor may be put into non-blocking mode, where its call has no
  ///               flag that says so. A file's is made as the function above does it.
  /// Returns       true: it is over, and will not be reported
  /// Errors        in its result: what its call returned, as the kernel's entry would. With epoll
  ///               EOPNOTSUPP: an opcode other than NOP, POLL_ADD (not multishot), READV, WRITEV, READ,
  ///               WRITE, READ_FIXED, WRITE_FIXED, SEND, RECV, SENDMSG, RECVMSG, ACCEPT and CONNECT, or
  ///               flags of the entry; ENOBUFS: connecting to a Unix socket whose queue is full, for which
  ///               a ring waits. Registered buffers are used as any others.
  /// Preconditions `watch` is of this descriptor, and the loop has not added it: the reactor does where it
  ///               needs it. Several may be of one: with epoll each but the first has a copy of it, until
  ///               it is removed. That is done, by one of the functions above, before the descriptor is
  ///               closed or given away, after its transfers were cancelled.
  /// Buffers       what the entry points to is the caller's; untouched by others until it is over
  /// Concurrency   any thread. Transfers of one direction that are under way at the same time end in any
  ///               order.
  /// Cost          no allocation; on a ring none but a system call that wakes a thread that waits; epoll:
  ///               that of the operation; when a descriptor is first used one or two more
  /// Runs as       io_uring the entry, with the next run() · epoll recvmsg(2), sendmsg(2), accept4(2),
  ///               connect(2), preadv2(2), pwritev2(2), poll(2)
  bool start(foreign_transfer& transfer, foreign_watch& watch) noexcept;

  /// Asks a transfer to end soon. It is reported in any case; what it had moved by then is its result.
  ///
  /// Returns       whether the number of its descriptor may be closed or given away. False: a thread is about
  ///               to use it, or does; then not before the transfer is reported, or settle() has returned.
  /// Preconditions it was started and is not reported
  /// Concurrency   any thread; waits for no other
  /// Cost          one system call at most, and one that wakes a thread that waits
  bool cancel(foreign_transfer& transfer) noexcept;

  /// Waits until the number of its descriptor may be closed or given away: as long as one call on that file
  /// lasts.
  ///
  /// Preconditions it was started and is not reported
  /// Concurrency   any thread; waits for a thread of the library's
  /// Cost          none, or a system call that waits
  void settle(foreign_transfer& transfer) noexcept;

  /// Cancels all transfers and waits until they are over. Their results can be asked for; run() reports none
  /// of them.
  ///
  /// Concurrency   as run(), and no transfer is started at the same time. Waits as long as the calls on those
  ///               files last.
  /// Cost          as cancel() for each, and run() until they are over
  void end_transfers() noexcept;

  /// Collects what is ready. Where nothing is, waits until something is, for `timeout`, or until interrupt().
  /// A timeout of 0: does not wait; below 0: for ever.
  ///
  /// Returns       how many events; 0: the timeout, an interruption, a signal, or something that needs
  ///               no report. A watch may be in several.
  /// Buffers       `events`: room for `n`, at least 1
  /// Concurrency   one thread at a time; the next may be another one
  /// Cost          no allocation; one system call; on a ring none if it would not wait and has nothing new
  /// Runs as       epoll_pwait2(2) · io_uring_enter(2)
  std::size_t run(std::chrono::nanoseconds timeout, foreign_event* events, std::size_t n) noexcept;

  /// Ends the present run(), or the waiting of the next.
  ///
  /// Concurrency   any thread
  /// Cost          one system call if a thread is waiting, otherwise none
  void interrupt() noexcept;

  /// Before a fork after which the child goes on to use the loop: takes back the transfers that the kernel
  /// has, so that in neither process one of them is made before that process calls run().
  ///
  /// Concurrency   as run()
  /// Cost          epoll none; io_uring as open()
  void before_fork() noexcept;

  /// In a child of fork that goes on to use the loop: watches all descriptors that were, with kernel objects
  /// of its own. run() does the same if it finds itself in a child. Without it the child disturbs its parent
  /// in nothing.
  ///
  /// Returns       no error, or why it cannot go on
  /// Errors        as open()
  /// Cost          as open(), and a system call for each watch
  std::error_code after_fork() noexcept;

  /// Has unio::dump_pending call `lister(loop, …)`, from the threads that call it. Null: no longer; then it
  /// waits for a call that is under way.
  ///
  /// Preconditions it is open; the caller holds no lock that the lister takes
  /// Cost          a lock of the process
  void list_by(foreign_lister lister, void* loop) noexcept UNIO_FOREIGN_LAYOUT;

  /// "io_uring" or "epoll". Preconditions: it is open. Lifetime: static. Cost: none.
  char const* driver() const noexcept;

 private:
  struct state;
  state* state_;
};

} // namespace v0_1
} // namespace unio
