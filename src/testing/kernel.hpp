// src/testing/kernel.hpp: a kernel with two queues, like driver::ring, that performs operations when the seed
// says so.
//
//   get ──► queue ──(enter)──► entries ──(turns later)──► done ──(later)──► ready ──► peek
//
// An operation is performed at one moment between its submission and its completion; the result waits. That
// is all that a cancel, a deadline or a close can race with.

#pragma once

#include "driver/buffer_slots.hpp"
#include "driver/registered_memory.hpp"
#include "sys/kernel_abi.hpp"
#include "testing/world.hpp"

namespace unio::inline v0_1::testing {

class simulated_kernel {
 public:
  struct completion {
    std::uint64_t user_data;
    int res;
    unsigned flags;
    unsigned delay;
  };

  explicit simulated_kernel(world& w) noexcept;
  simulated_kernel(simulated_kernel const&) = delete;
  simulated_kernel& operator=(simulated_kernel const&) = delete;
  ~simulated_kernel() {
    groups_.leave_all(true);
    world_.remove_kernel(this);
  }

  // The interface of driver::ring.

  io_uring_sqe* get() noexcept;
  void put_back() noexcept { queue_.pop_back(); }
  [[nodiscard]] std::size_t unsubmitted() const noexcept { return queue_.size(); }
  /// Sleeps in virtual time. An event that becomes due rings the doorbell, if a poll waits for that.
  int enter(unsigned wait_for, std::int64_t timeout_ns) noexcept;
  int submit() noexcept { return enter(0, 0); }
  [[nodiscard]] bool needs_enter() const noexcept { return overflown_ || !done_.empty() || is_busy(); }
  [[nodiscard]] bool has_more() const noexcept { return more_; }
  [[nodiscard]] bool has_overflown() const noexcept { return overflown_; }
  [[nodiscard]] completion const* peek() const noexcept { return ready_.empty() ? nullptr : &ready_.front(); }
  void advance() noexcept;
  static bool may_take(io_operation const&) noexcept { return true; }
  /// Describes it by a NOP that holds its address.
  bool prepare(io_operation& op, io_uring_sqe& sqe) noexcept;
  [[nodiscard]] driver::buffer_slots* slots_of(io_operation& op) noexcept {
    return groups_.slots_of(*op.faces().resource->source(op));
  }
  [[nodiscard]] driver::registered_memory& memory() noexcept { return memory_; }
  [[nodiscard]] driver::registered_memory const& memory() const noexcept { return memory_; }
  [[nodiscard]] static bool has_left() noexcept { return false; }
  [[nodiscard]] std::size_t entries() const noexcept { return room_; }
  [[nodiscard]] bool has_news() const noexcept;
  [[nodiscard]] bool outlasts_entering(io_operation const& op) const noexcept;
  static void pause() noexcept {}

  /// Like epoll, forgets at once what it waits for. What it has reported already is still on the way.
  void withdraw(std::uint64_t user_data) noexcept;

 private:
  /// What an entry says of registered memory.
  struct memory_use {
    int number = driver::registered_memory::none;
    std::uintptr_t at = 0;
    std::size_t bytes = 0;
  };
  struct entry {
    std::uint64_t user_data;
    io_operation* op; // null: a poll
    int fd;
    readiness polls; // nothing: the doorbell, or an operation
    unsigned delay;
    int group = driver::buffer_groups::none; // of which it chooses a buffer
    memory_use uses{};
    bool canceled = false; // and yet going on: it is being executed
    bool ended = false;
  };
  struct cancel {
    std::uint64_t what;
    std::uint64_t user_data;
    unsigned delay;
  };

  /// Performs what it can. False: nothing will happen by itself.
  bool turn() noexcept;
  /// On any thread: the kernel goes on while its own thread waits, and where that is, nothing else does.
  bool turn_elsewhere() noexcept;
  int enter_alone(unsigned wait_for, std::int64_t timeout_ns) noexcept;
  int take_entries() noexcept;
  void bring_completions() noexcept;
  void perform(entry& e) noexcept;
  void perform_operation(entry& e, io_operation& op) noexcept;
  void read_into_chosen(entry& e, io_operation& op) noexcept;
  void perform_cancel(cancel c) noexcept;
  void use_registered(io_operation& op, io_uring_sqe& sqe) noexcept;
  [[nodiscard]] driver::memory_table table_of_memory() noexcept;
  [[nodiscard]] bool is_registered(memory_use const& m) const noexcept;
  void complete(entry& e, int res, unsigned flags) noexcept;
  void post(std::uint64_t user_data, int res, unsigned flags) noexcept;
  [[nodiscard]] bool is_busy() const noexcept;
  [[nodiscard]] static bool is_doorbell(entry const& e) noexcept {
    return e.op == nullptr && e.polls == readiness::nothing;
  }
  [[nodiscard]] bool is_ready(entry const& e) const noexcept;
  [[nodiscard]] unsigned draw_delay() noexcept;
  void draw_room() noexcept;

  world& world_;
  std::size_t room_ = ~std::size_t{0};     // for entries, until the next time that it is entered
  std::size_t capacity_ = ~std::size_t{0}; // of ready_
  std::vector<io_uring_sqe> queue_;
  std::vector<entry> entries_;
  std::vector<cancel> cancels_;
  std::vector<completion> done_;
  std::deque<completion> ready_;
  driver::buffer_groups groups_;
  std::array<std::uint16_t, driver::buffer_groups::most> chosen_{}; // of each group: how many buffers were
  driver::registered_memory memory_{table_of_memory()};
  std::vector<driver::offered_memory::piece> registered_; // as this kernel has it
  random_source refuses_; // registrations; its own, so that they change nothing else that a seed decides
  bool chooses_ = true;
  bool multishot_ = true;
  // Nothing is performed but for workers while its thread is not inside (IORING_SETUP_DEFER_TASKRUN).
  bool const defers_;
  bool rung_ = false; // the doorbell
  bool entered_ = false;
  bool turns_ = false;
  int thread_ = -1; // that has entered it last
  bool more_ = false;
  bool overflown_ = false;
};

} // namespace unio::testing
