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

#include <memory>

namespace unio::inline v0_1::driver {

class direct_reads {
 public:
  explicit direct_reads(int doorbell_fd) noexcept;
  direct_reads(direct_reads const&) = delete;
  direct_reads& operator=(direct_reads const&) = delete;
  ~direct_reads();

  /// Queues one that wants a worker, on a descriptor that bypasses the page cache. False: a worker has to
  /// perform it.
  bool arm(io_operation& op) noexcept;
  /// Takes one back that is only queued.
  bool withdraw(io_operation& op) noexcept;
  [[nodiscard]] bool has_queued() const noexcept { return !queued_.empty(); }
  /// Gives the kernel what is queued, and workers what it does not take.
  void submit(engine& e) noexcept;
  /// Processes what has ended.
  void take(engine& e) noexcept;

 private:
  struct state;

  void refused(io_operation& op, std::int64_t why) noexcept;

  operation_queue queued_{queue_name::to_submit};
  std::unique_ptr<state> state_; // made for the first that the kernel may take
  int doorbell_fd_;
  bool is_missing_ = false;
};

} // namespace unio::driver
