// src/driver/backend.hpp: how an engine waits: epoll, io_uring or the simulation.
//
// To add a driver: derive from this, and have choose.cpp (or a test) make an engine of it.

#pragma once

#include "driver/descriptor_table.hpp"

#include <unio/multiplexer.hpp>

#include <cerrno>
#include <utility>

namespace unio::inline v0_1::driver {

class engine;

/// As IORING_CQE_F_MORE and IORING_CQE_F_NOTIF; checked in the ring's driver.
inline constexpr unsigned flag_more = 1u << 1;

/// What has become of the attempt to perform an operation at once.
enum class attempted : std::uint8_t {
  no,          ///< it was not worth a system call, or cannot be made
  in_vain,     ///< perform() has just said -EAGAIN
  with_others, ///< it may well succeed, and is put off until those of others are made (prefers_batch)
};

class backend {
 public:
  /// `doorbell_fd`: an eventfd, whose every write wakes the thread that sleeps in reap(); -1: it never really
  /// sleeps.
  explicit backend(int doorbell_fd = -1) noexcept : doorbell_fd_(doorbell_fd) {}
  backend(backend const&) = delete;
  backend& operator=(backend const&) = delete;
  virtual ~backend();

  /// Gives the doorbell to the engine, which may ring it while its backend changes.
  [[nodiscard]] int give_doorbell() noexcept {
    owns_doorbell_ = false;
    return doorbell_fd_;
  }

  /// The descriptor of the epoll that takes a ring's place, made in advance: once the ring is forbidden there
  /// may be none left, and what is in flight could not end. Below 0: there is none.
  void keep_successor(int fd) noexcept { successor_fd_ = fd; }
  [[nodiscard]] int give_successor() noexcept { return std::exchange(successor_fd_, -1); }

  /// The first use by the thread that will run it. Returns 0 or a negative native code.
  virtual int bind(engine&) noexcept { return 0; }
  /// Gives the kernel an operation that is in flight, or parks it. What it wants now is in its links.
  virtual void arm(engine&, io_operation& op, attempted) noexcept = 0;
  /// Whether an operation on a stream socket, which might be performed at once, is better performed with
  /// others: it saves system calls. If so it is armed next.
  virtual bool prefers_batch(engine&, io_operation const& op) noexcept = 0;
  /// Waits for readiness of the operation's descriptor, then performs it.
  virtual void park(engine&, io_operation& op) noexcept = 0;
  /// Takes an operation back. False: the kernel has it; it will complete, sooner for having been asked.
  virtual bool disarm(engine&, io_operation& op) noexcept = 0;
  /// Of an engine whose thread is away, by another one: takes an operation back, of which the kernel does
  /// nothing before that thread enters it again, which then forgets it first. False: it cannot be taken.
  virtual bool release(io_operation& op) noexcept = 0;
  /// Whether the kernel has yet to learn of something.
  [[nodiscard]] virtual bool has_unsubmitted() const noexcept { return false; }
  /// Likewise: whether the kernel has something that reap() would bring.
  [[nodiscard]] virtual bool has_news() const noexcept = 0;
  /// Submits what is armed, gives what is ready to engine::process, and if nothing is, sleeps until `until`
  /// (steady clock, ns; 0: does not sleep) unless engine::before_sleep() objects. At most one system call.
  /// Returns 0; 1 if the kernel has more than that call could bring; or the negative native code that says
  /// that this backend cannot go on.
  virtual int reap(engine&, std::int64_t until) noexcept = 0;
  /// Gives the kernel what is armed and takes nothing in, where a turn is long.
  virtual void submit(engine&) noexcept {}
  /// For a loop that waits where reap() would: a descriptor that is readable when reap() would bring
  /// something, or the doorbell is rung. Or -errno; -EOPNOTSUPP: there is none. Asked before the reap() after
  /// which that loop waits: each time.
  [[nodiscard]] virtual int wait_descriptor() noexcept { return -EOPNOTSUPP; }
  /// After that reap(): whether that descriptor says all that comes from now on. The kernel has been given
  /// everything, the doorbell too, and has brought what it had.
  [[nodiscard]] virtual bool is_told(engine&) noexcept { return true; }
  /// Looks for the completion of one operation. Returns 0, or the code that says that this backend cannot go
  /// on.
  virtual int look_at(engine&, io_operation& op) noexcept = 0;
  /// Something that the kernel has read stays with operations that another thread runs from now on.
  virtual void leave_what_arrived() noexcept {}
  /// The descriptor is about to be closed; nothing is in flight on it.
  virtual void unregister(int, descriptor&) noexcept {}
  [[nodiscard]] virtual std::int64_t now() const noexcept;
  /// All but `why`. Allocates nothing.
  virtual void describe(capabilities&) const noexcept {}
  /// Where this runs instead of io_uring: what io_uring said, or 0 if it was not wanted. Otherwise
  /// needs_no_reason.
  [[nodiscard]] virtual int why_no_ring() const noexcept { return needs_no_reason; }
  static constexpr int needs_no_reason = 1;
  [[nodiscard]] virtual bool is_ring() const noexcept { return false; }

  // Of one that reap() has said cannot go on.

  /// Gives up all operations but those that the kernel may be performing: these stay `submitted`.
  virtual void leave(engine&) noexcept {}
  /// Processes those that have ended since. True: the kernel holds nothing any more, and nothing is left
  /// here.
  virtual bool has_left(engine&) noexcept { return true; }
  /// Before that: processes what the kernel has told already, and does not enter it. False: nothing.
  [[nodiscard]] virtual bool take_known(engine&) noexcept { return false; }

 protected:
  [[nodiscard]] int doorbell_fd() const noexcept { return doorbell_fd_; }

 private:
  int doorbell_fd_;
  int successor_fd_ = -1;
  bool owns_doorbell_ = true;
};

} // namespace unio::driver
