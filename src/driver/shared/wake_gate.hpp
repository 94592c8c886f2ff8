// src/driver/shared/wake_gate.hpp: who is woken when something was queued for several threads.
//
// One word counts the sleepers, and the calls: sleepers that are being woken. At most one call is under way
// at a time; the thread that was called takes something, and calls the next if there is more.
//
//   post:   push (seq_cst)                          sleep:  asleep = true; sleepers + 1 (seq_cst)
//           read the word (seq_cst)                         look at all inboxes and queues (seq_cst)
//           sleepers, and no call? calls + 1, call          something? then not
//
// No wake-up is lost. The seq_cst operations have one order. If the push is before the sleeper's look, the
// sleeper stays up. Otherwise its count is before the reading of the word, so that the poster sees a sleeper.
// It then calls one, or leaves it to the call that is under way: the thread that ends that call subtracts it
// first (a modification after the one that the poster has read) and looks at the queues afterwards, where the
// push is visible, and calls again. What was moved between the two looks is in the hands of a thread that is
// awake, and which looks at everything before it sleeps.
//
// tests/memory_model/gate_test.cpp tries every execution of it that the memory model of C++ allows.

#pragma once

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1::driver {

template <template <class> class Atomic = std::atomic> class wake_gate {
 public:
  /// A thread's place at the gate.
  class sleeper {
    friend wake_gate;
    Atomic<bool> asleep_{false};
    bool counted_ = false; // its own thread's
  };

  /// On its thread. It must look for something to do now, before it sleeps; rise() follows in any case.
  void lie_down(sleeper& s) noexcept {
    s.counted_ = true;
    s.asleep_.exchange(true, std::memory_order_seq_cst);
    idle_.fetch_add(one_sleeper, std::memory_order_seq_cst);
  }
  /// True: it was called. It must take something, if anything is left, then say answered(), then look whether
  /// there is more.
  bool rise(sleeper& s) noexcept {
    if (!s.counted_) return false;
    s.counted_ = false;
    if (!s.asleep_.exchange(false, std::memory_order_seq_cst)) return true;
    idle_.fetch_add(0 - one_sleeper, std::memory_order_seq_cst);
    return false;
  }
  /// The call is over: from here on another may be made.
  void answered() noexcept { idle_.fetch_add(0 - one_call, std::memory_order_seq_cst); }

  /// Something was queued (seq_cst): has a thread that sleeps look, unless one is being woken already. `all`
  /// are the places, `sleeper_of(p)` is its sleeper, `wake(p)` wakes its thread if that sleeps, `has_work()`
  /// looks at all queues (seq_cst).
  template <class Places, class SleeperOf, class Wake, class HasWork>
  void call_one(Places&& all, SleeperOf sleeper_of, Wake wake, HasWork has_work) noexcept {
    std::uint64_t idle = idle_.load(std::memory_order_seq_cst);
    if (wants_call(idle)) [[unlikely]]
      call(idle, all, sleeper_of, wake, has_work);
  }

  /// Counted, and not called. seq_cst.
  [[nodiscard]] bool is_asleep(sleeper const& s) const noexcept {
    return s.asleep_.load(std::memory_order_seq_cst);
  }
  [[nodiscard]] std::uint32_t sleepers() const noexcept {
    return static_cast<std::uint32_t>(idle_.load(std::memory_order_seq_cst) >> 32);
  }

 private:
  // Sleepers in the upper half: one may be subtracted, by the thread that calls it, before it has added
  // itself.
  static constexpr std::uint64_t one_call = 1, one_sleeper = std::uint64_t{1} << 32;
  static bool wants_call(std::uint64_t idle) noexcept {
    return (idle >> 32) != 0 && static_cast<std::uint32_t>(idle) == 0;
  }

  template <class Places, class SleeperOf, class Wake, class HasWork>
  [[gnu::noinline]] void call(std::uint64_t idle, Places& all, SleeperOf sleeper_of, Wake wake,
                              HasWork has_work) noexcept {
    do {
      while (!idle_.compare_exchange_weak(idle, idle + one_call, std::memory_order_seq_cst))
        if (!wants_call(idle)) return;
      for (auto& place : all) {
        sleeper& s = sleeper_of(place);
        if (!s.asleep_.load(std::memory_order_seq_cst) ||
            !s.asleep_.exchange(false, std::memory_order_seq_cst))
          continue;
        idle_.fetch_add(0 - one_sleeper, std::memory_order_seq_cst);
        return wake(place); // its rise() ends the call; it is on its way there already if it no longer sleeps
      }
      idle = idle_.fetch_add(0 - one_call, std::memory_order_seq_cst) - one_call;
    } while (wants_call(idle) && has_work());
  }

  Atomic<std::uint64_t> idle_{0};
};

} // namespace unio::driver
