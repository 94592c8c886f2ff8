// src/driver/epoll/direct_reads.hpp: what epoll cannot wait for and the kernel performs all the same, without
// one of the threads that may block: reads that bypass the page cache.
//
//   arm ──► to_submit ──(next turn)──► in_kernel ──► engine::process
//                                          │
//                                          └─ -EAGAIN, or less than was asked for ──► with_worker
//
// Each that has ended rings the engine's doorbell, by the kernel's hand: so a turn that sleeps wakes.

#pragma once

#include "driver/engine.hpp"

#include <atomic>

namespace unio::inline v0_1::driver {

/// Of an engine on epoll, which makes it for the first such read.
class direct_reads {
 public:
  /// Null: no memory.
  using maker = direct_reads* (*)(int doorbell_fd) noexcept;
  /// Null before any descriptor bypasses the page cache (sys::note_direct): a program that opens none has
  /// none of this.
  static constinit std::atomic<maker> make;

  virtual ~direct_reads() = default;
  /// Queues one that wants a worker, on a descriptor that bypasses the page cache. False: a worker has to
  /// perform it.
  virtual bool arm(io_operation& op) noexcept = 0;
  /// Takes one back that is only queued.
  virtual bool withdraw(io_operation& op) noexcept = 0;
  /// Gives the kernel what is queued, and workers what it does not take.
  virtual void submit(engine& e) noexcept = 0;
  /// Processes what has ended.
  virtual void take(engine& e) noexcept = 0;
  [[nodiscard]] bool has_queued() const noexcept { return !queued_.empty(); }

 protected:
  operation_queue queued_{queue_name::to_submit};
};

} // namespace unio::driver
