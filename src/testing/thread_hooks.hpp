// src/testing/thread_hooks.hpp: what a simulated system asks of the scheduler of simulated threads, which is
// another library (src/testing/threads), because it takes the place of functions of the C library.
//
// A simulated system has no locks. A thread that is inside goes on alone until it has left, or sleeps.

#pragma once

#include "sys/calls.hpp"

#include <cstdint>

namespace unio::inline v0_1::testing {

struct thread_hooks {
  /// The virtual time of all threads, ns.
  std::int64_t* clock;
  /// Has `t` answer system calls, below the points of the scheduler. Returns what has answered them before.
  sys::table const* (*answer_with)(sys::table const* t) noexcept;
  /// The calling thread enters the simulated system, and leaves it.
  void (*enter)() noexcept;
  void (*leave)() noexcept;
  /// The calling thread goes on alone, from here or no longer: as between the two, and with no point.
  void (*hold)(bool begins) noexcept;
  /// The calling thread waits until another one has changed() something, or time has come so far.
  void (*sleep)(std::int64_t until) noexcept;
  void (*changed)() noexcept;
  /// The number of the calling thread; -1: it is not simulated. And whether that of a number waits.
  int (*this_thread)() noexcept;
  bool (*is_waiting)(int thread) noexcept;
  /// Says what the calling thread waits for, in words that stay until the next time; null: for nothing more.
  void (*waits_in)(char const* what) noexcept;
};

/// Null: a simulated system has one thread.
extern constinit thread_hooks const* simulated_threads;

/// While it exists no other thread goes on, unless the calling one waits: for locks that are not simulated.
struct holding {
  holding() noexcept {
    if (simulated_threads != nullptr) simulated_threads->hold(true);
  }
  holding(holding const&) = delete;
  holding& operator=(holding const&) = delete;
  ~holding() {
    if (simulated_threads != nullptr) simulated_threads->hold(false);
  }
};

/// While it exists the calling thread is inside.
struct alone {
  alone() noexcept {
    if (simulated_threads != nullptr) simulated_threads->enter();
  }
  alone(alone const&) = delete;
  alone& operator=(alone const&) = delete;
  ~alone() {
    if (simulated_threads != nullptr) simulated_threads->leave();
  }
};

} // namespace unio::testing
