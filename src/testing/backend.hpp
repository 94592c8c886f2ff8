// src/testing/backend.hpp: the driver of a simulation: a kernel that takes operations as a ring does.
//
//   arm ──► to_submit ──(a turn)──► entries ──(perform, turns later)──► completions ──(later)──► process
//                                      ▲                                                            │
//                                      └──────── readiness only ◄──────────── -EAGAIN ◄─────────────┘
//
// An operation is performed at one moment between its submission and the taking of its completion; the result
// waits. That is all that a cancel, a deadline or a close can race with.

#pragma once

#include "driver/backend.hpp"
#include "driver/queues.hpp"
#include "driver/uring/slots.hpp"
#include "testing/world.hpp"

#include <vector>

namespace unio::testing {

class simulated_backend final : public driver::backend {
 public:
  explicit simulated_backend(world& w) noexcept;
  ~simulated_backend() override;

  void arm(driver::engine&, io_operation& op, driver::attempted) noexcept override;
  bool prefers_batch(driver::engine&, io_operation const& op) noexcept override;
  void park(driver::engine&, io_operation& op) noexcept override;
  bool disarm(driver::engine&, io_operation& op) noexcept override;
  int reap(driver::engine&, std::int64_t until) noexcept override;
  int look_at(driver::engine&, io_operation& op) noexcept override;
  [[nodiscard]] std::int64_t now() const noexcept override { return world_.now(); }
  void describe(capabilities& c) const noexcept override;

  /// One turn of the kernel. False: nothing will happen by itself.
  bool turn() noexcept;
  /// A seed may decide that nothing, or everything, is tried inside start().
  void predict(driver::engine& e, int fd) noexcept;

 private:
  struct entry {
    std::uint64_t user_data;
    io_operation* op;
    unsigned delay;
    bool only_readiness;
    bool canceled; // and yet going on: it is being executed
  };
  struct completion {
    std::uint64_t user_data;
    int res;
    unsigned flags;
    unsigned delay;
  };

  void submit(driver::engine& e) noexcept override;
  void ask_to_end(io_operation& op) noexcept;
  void cancel_entry(std::uint64_t user_data) noexcept;
  /// True if the entry has ended.
  bool perform(entry& e) noexcept;
  void complete(std::uint64_t user_data, int res, unsigned flags) noexcept;
  bool take_one(driver::engine& e) noexcept;
  void completed(driver::engine& e, io_operation& op, int res, unsigned flags) noexcept;
  bool post_event(driver::engine& e) noexcept;
  [[nodiscard]] bool is_busy() const noexcept;
  [[nodiscard]] bool can_progress() const noexcept;
  [[nodiscard]] bool is_blocked(entry const& e) const noexcept;
  [[nodiscard]] unsigned draw_delay() noexcept;

  world& world_;
  driver::slot_table slots_;
  driver::operation_queue to_submit_{driver::queue_name::to_submit};
  driver::operation_queue to_cancel_{driver::queue_name::to_cancel};
  std::vector<entry> entries_;
  std::vector<std::pair<std::uint64_t, unsigned>> cancels_; // what, and in how many turns
  std::vector<completion> completions_;
  int deadlocks_ = 0; // in a row
};

} // namespace unio::testing
