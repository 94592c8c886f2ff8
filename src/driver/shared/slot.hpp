// src/driver/shared/slot.hpp: the place that a thread has among those that run a multiplexer together.
//
// Slots are made as threads come, and are there until the end: a thread that has left leaves its slot, with
// its engine, to the next that comes. So what another thread has read of an operation, its engine say, may be
// out of date but is never gone.

#pragma once

#include "driver/engine.hpp"
#include "driver/shared/wake_gate.hpp"
#include "driver/shared/work_slot.hpp"

#include <atomic>
#include <iterator>
#include <memory>

namespace unio::inline v0_1::driver {

class crew;

/// A thread's place.
class slot final : public shared_state, public work_slot {
 public:
  explicit slot(crew& all) noexcept;

  crew& all;

  int run_shared(int max_items) noexcept override;
  bool has_shared() noexcept override;
  bool before_sleep(int landed) noexcept override;
  void after_sleep() noexcept override;
  void goes_away() noexcept override;
  void leaves(bool passes_on) noexcept override;
  std::int64_t look_again() noexcept override;
  void ended_all(int n) noexcept override;
  std::int64_t pending() noexcept override;
  bool take_wake() noexcept override;
  void give_wake() noexcept override;
  void take_wakes(bool on) noexcept override;
  void poke() noexcept override;
  void claim(engine& by) noexcept override;
  void start_unclaimed(io_operation& op) noexcept override;
  void ask_to_end(io_operation& op) noexcept override;
  void go_on_without(engine& other, io_operation const& op) noexcept override;
  void give_work(work& w) noexcept override;

  std::unique_ptr<engine> kept;   ///< the engine, once there was one
  std::atomic<bool> taken{false}; ///< changed under the lock of those that join, but for the last of a leaver
  std::atomic<bool> is_pools{false}; ///< its thread is one of a pool
  // The engine, while a thread runs it. The lock keeps its doorbell from being closed while another thread
  // wakes it.
  sys::short_lock engine_lock;
  std::atomic<bool> missed{false}; ///< a wake() found it locked
  std::atomic<engine*> runs{nullptr};
  /// For its own thread.
  [[nodiscard]] engine* own_engine() const noexcept { return runs.load(std::memory_order_relaxed); }
  /// Its multiplexer ends, on any thread: what is posted is dropped later.
  [[nodiscard]] bool is_ending() const noexcept { return own_engine() == nullptr; }
  /// For another thread. Acquire; pairs with the release by which the engine is published: a thread that sees
  /// it sees it as it was made.
  [[nodiscard]] engine* others_engine() const noexcept { return runs.load(std::memory_order_acquire); }
  wake_gate<>::sleeper sleeper;
  /// seq_cst, as the mark that a wake() leaves: one that passes this thread over is seen by its next run().
  [[nodiscard]] bool takes_wakes() const noexcept { return takes_wakes_.load(std::memory_order_seq_cst); }
  // What threads that look at it have seen last of its engine's trips, and when.
  std::atomic<unsigned> seen_trips{0};
  std::atomic<std::int64_t> seen_at{0};

  // Who begins what is new. From any thread; hints.

  /// What it has to do: operations in flight, and work that is queued.
  [[nodiscard]] int load() const noexcept { return load_.load(std::memory_order_relaxed); }
  /// False: it has kept others waiting, and has not come round since.
  [[nodiscard]] bool answers() const noexcept {
    return runs.load(std::memory_order_relaxed) != nullptr &&
           turn() != missed_turn_.load(std::memory_order_relaxed);
  }
  /// Asleep, or woken and waiting for a processor.
  [[nodiscard]] bool sleeps() const noexcept { return sleeps_.load(std::memory_order_relaxed); }
  /// Another thread begins to wait for this one.
  void expect() noexcept { expected_turn_.store(turn(), std::memory_order_relaxed); }
  /// It has not come round since, and is passed over until it does.
  void pass_over() noexcept {
    missed_turn_.store(expected_turn_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  }

 private:
  void count_work() noexcept;
  int run_new(int at_most) noexcept;
  work* take_new() noexcept;
  void say_load() noexcept;
  int run_posted(int at_most) noexcept;
  int run_forked(int at_most) noexcept;
  [[nodiscard]] unsigned turn() const noexcept { return turns_.load(std::memory_order_relaxed); }

  friend class slot_list;
  std::atomic<slot*> next_{nullptr};
  friend class crew;
  std::atomic<unsigned> expected_turn_{0};
  std::atomic<unsigned> missed_turn_{~0u};
  // What its own thread stores.
  alignas(64) std::atomic<unsigned> turns_{0};
  std::atomic<int> load_{0};
  std::atomic<bool> sleeps_{false};
  std::atomic<bool> takes_wakes_{true};
  std::atomic<int> landed_{0}; // of what is pending, what has ended here, when it lay down last
  std::int64_t leaves_until_ = deadline::forever; // it leaves what is new to others that have less to do
  bool leaves_longer_ = false;                    // to those that were asleep
  std::int64_t next_look_ = deadline::forever;    // when it looks at what others do, while it sleeps
  int looks_left_ = 0;
  std::uint64_t begun_ = 0; // what all had begun when it asked what is pending
};

/// Grows at its end, while other threads walk through it.
class slot_list {
 public:
  slot_list() = default;
  slot_list(slot_list const&) = delete;
  slot_list& operator=(slot_list const&) = delete;
  ~slot_list() {
    for (slot *s = first(), *next; s != nullptr; s = next) {
      next = after(*s);
      delete s;
    }
  }

  class iterator {
   public:
    using value_type = slot;
    using difference_type = std::ptrdiff_t;
    iterator() = default;
    explicit iterator(slot* at) noexcept : at_(at) {}
    slot& operator*() const noexcept { return *at_; }
    iterator& operator++() noexcept {
      at_ = after(*at_);
      return *this;
    }
    iterator operator++(int) noexcept {
      iterator const was = *this;
      ++*this;
      return was;
    }
    bool operator==(iterator const&) const = default;

   private:
    slot* at_ = nullptr;
  };
  [[nodiscard]] iterator begin() const noexcept { return iterator(first()); }
  [[nodiscard]] iterator end() const noexcept { return {}; }

  // Acquire: pairs with the release in add().
  [[nodiscard]] slot* first() const noexcept { return first_.load(std::memory_order_acquire); }
  /// The one that was added after it, or null.
  [[nodiscard]] static slot* after(slot const& s) noexcept { return s.next_.load(std::memory_order_acquire); }
  /// One thread at a time.
  void add(std::unique_ptr<slot> s) noexcept {
    slot* const added = s.release();
    (last_ != nullptr ? last_->next_ : first_).store(added, std::memory_order_release);
    last_ = added;
  }

 private:
  std::atomic<slot*> first_{nullptr};
  slot* last_ = nullptr;
};

/// All of a list, beginning with `first()`, which is asked by begin().
template <class First> class slots_from {
 public:
  slots_from(slot_list const& all, First first) noexcept : all_(all), first_(first) {}

  class iterator {
   public:
    iterator(slot_list const& all, slot* first) noexcept : all_(all), first_(first), at_(first) {}
    slot& operator*() const noexcept { return *at_; }
    iterator& operator++() noexcept {
      at_ = slot_list::after(*at_);
      if (at_ == nullptr) at_ = all_.first();
      if (at_ == first_) at_ = nullptr;
      return *this;
    }
    bool operator==(std::default_sentinel_t) const noexcept { return at_ == nullptr; }

   private:
    slot_list const& all_;
    slot* first_;
    slot* at_;
  };
  [[nodiscard]] iterator begin() const noexcept { return iterator(all_, first_()); }
  [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

 private:
  slot_list const& all_;
  First first_;
};

} // namespace unio::driver
