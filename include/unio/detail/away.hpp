// unio/detail/away.hpp: a coroutine that waits for something elsewhere, and then resumes on its executor.
//
// Here because run_on() and the awaiting of senders are built on it, and the compiler needs its layout.
//
//   here ── leave ──► leaving ── has_left ──► away ── arrive ──► returning ── resumed ──► here
//                        │ arrive               │ call_back
//                        ▼                      ▼
//                     returning: continues   called_back: the destructor waits for arrive
//
//   blocker      blocks one thread until another wakes it
//   away_state   who resumes the coroutine: exactly one of those who could
//   away         with its resumption, the stop that is passed on, and what waits if its frame is destroyed
//
// tests/memory_model/away_test.cpp tries every execution of the states that the memory model of C++ allows.

#pragma once

#include <unio/detail/promise.hpp>
#include <unio/multiplexer.hpp>
#include <unio/stop_token.hpp>

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <optional>

namespace unio::inline v0_1::detail {

/// Blocks one thread until any thread wakes it.
class blocker {
 public:
  /// Blocks; or, if `m` is not null, runs that until woken. Errors: as m->run(); then it was not woken.
  UNIO_API result<void> wait(io_multiplexer* m = nullptr) noexcept;
  /// Once. This object may be destroyed before it returns.
  UNIO_API void wake() noexcept;
  [[nodiscard]] bool is_awake() const noexcept {
    return (state_.load(std::memory_order_acquire) & bit_woken) != 0; // pairs with the release in wake()
  }

 private:
  static constexpr std::uint32_t bit_woken = 1, bit_running = 2, bit_left = 4;
  std::atomic<std::uint32_t> state_{0};
  io_operation* sleep_ = nullptr; // while a multiplexer is run: an operation without end, to be cancelled;
  void const* thread_ = nullptr;  // and the thread that runs it
};

/// What is released in one step of a change is acquired by the thread whose change follows.
template <template <class> class Atomic = std::atomic> class away_state {
 public:
  /// Before the work elsewhere begins.
  void leave() noexcept { place_.store(leaving, std::memory_order_relaxed); }
  /// The same, where nothing is left to do on this thread once the work has begun: has_left() is not called.
  void leave_at_once() noexcept { place_.store(away, std::memory_order_relaxed); }
  /// The work has begun. False: it has also ended, and the coroutine continues.
  [[nodiscard]] bool has_left() noexcept { return change(leaving, away); }

  enum class next {
    nothing, ///< the coroutine continues by itself
    resume,  ///< the calling thread resumes it
    wake     ///< the calling thread wakes the destructor
  };
  /// The work has ended, on any thread.
  [[nodiscard]] next arrive() noexcept {
    if (change(leaving, returning)) return next::nothing;
    return change(away, returning) ? next::resume : next::wake;
  }
  /// The coroutine is being destroyed. False: it was going to be resumed, and that is to be withdrawn.
  [[nodiscard]] bool call_back() noexcept { return change(away, called_back); }

  void resumed() noexcept { place_.store(here, std::memory_order_relaxed); }
  [[nodiscard]] bool is_here() const noexcept { return place_.load(std::memory_order_acquire) == here; }

 private:
  using place = std::uint8_t;
  static constexpr place here = 0, leaving = 1, away = 2, returning = 3, called_back = 4;
  bool change(place from, place to) noexcept {
    return place_.compare_exchange_strong(from, to, std::memory_order_acq_rel);
  }
  Atomic<place> place_{here};
};

class UNIO_API away {
 public:
  away(away const&) = delete;
  away& operator=(away const&) = delete;

 protected:
  away() = default;
  ~away() = default;

  /// `h` will resume on the executor of `e`, whose stop is passed on to stop_ from now on. One of the
  /// functions of away_state follows.
  void leave(std::coroutine_handle<> h, environment const& e) noexcept;
  /// What was waited for has ended, on any thread. Returns what the thread resumes next. This object may be
  /// destroyed by then.
  [[nodiscard]] std::coroutine_handle<> arrive() noexcept;
  /// In the destructor: asks the work to stop and waits until it has ended. If this thread runs `theirs`, or
  /// else the coroutine's multiplexer, it goes on running it.
  void call_back(io_multiplexer* theirs = nullptr) noexcept;

  away_state<> state_;
  environment const* with_ = nullptr; // the coroutine's
  resumption hop_;                    // back to its executor
  stop_source stop_;                  // what the work is stopped by

 private:
  struct pass_on {
    away* self;
    void operator()() const noexcept { self->pass_on_stop(); }
  };
  void pass_on_stop() noexcept;

  std::optional<stop_callback<pass_on>> stop_from_caller_;
  blocker ended_;
  std::atomic<void const*> stopping_{nullptr}; // the thread that is passing a stop on
  bool arrived_in_stop_ = false;
};

} // namespace unio::detail
