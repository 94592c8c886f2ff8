// src/driver/registry.hpp: every engine of the process, and what is being closed.

#pragma once

#include "sys/fork.hpp"

#include <unio/executor.hpp>

#include <cstdint>
#include <string>

namespace unio::inline v0_1 {
class io_multiplexer;
}

namespace unio::inline v0_1::driver {

class engine;

/// An engine in the registry, and the work by which it is asked to help with closings. The engine has it;
/// what is in it belongs to the registry, under its lock.
class closing_member : work {
 public:
  explicit closing_member(engine& e) noexcept : work(&called), self_(e) {}
  [[nodiscard]] bool is(work const& w) const noexcept { return &w == this; }

 private:
  friend class registry;
  static void called(work& w, bool run) noexcept;

  engine& self_;
  closing_member* next_ = nullptr; // the list of all, the newest first
  closing_member* previous_ = nullptr;
  std::uint64_t number_ = 0; // of all that there ever were, in the order in which they were made
  std::uint64_t asked_ = 0;  // the last closing that its engine was asked to help with
  std::uint64_t taken_ = 0;  // the last that it has begun to help with
  bool is_posted_ = false;
  bool is_listed_ = false;
};

/// A lock and three lists, touched when an engine is made or destroyed, when a descriptor is closed that
/// another thread's engine has an operation on, and when a thread waits long for another one's engine.
class registry {
 public:
  static void enlist(closing_member& m) noexcept;
  static void delist(closing_member& m) noexcept;
  /// Before a descriptor is given up: cancels the operations on it in `own` (or null), in this thread's
  /// multiplexer and in every other that has some, waits until the last has finished, and has each forget the
  /// descriptor. The caller bumps the descriptor's generation afterwards.
  static void forget_everywhere(int fd, io_multiplexer* own) noexcept;
  /// Has every engine cancel what it has on `fd` and forget it. Returns when nothing is in flight on `fd` any
  /// more and no engine is busy with it. Until then it does for the calling thread's engines what other
  /// threads ask of them.
  static void forget_in_all(int fd) noexcept;
  /// Of a thread that waits for another one, which may wait for this one: does for the calling thread's
  /// engines what other threads ask of them, and goes on with those that a thread waits for.
  static void serve_others() noexcept;
  /// Waits for what the thread of `e` does, for a moment, and serves others.
  static void wait_for(engine const& e) noexcept;
  /// The engine that `m` is, or null: one of several threads, or one that is not of this library.
  [[nodiscard]] static engine* find(io_multiplexer const& m) noexcept;
  /// Has every engine described, on its own thread.
  using describer = void (*)(engine&, std::string& text);
  static void ask_all(describer describe, std::string& text);
  /// Ends what is unclaimed on a descriptor, in every multiplexer of several threads. Null in a program that
  /// has none of these; it is set before any static object is made (members.cpp).
  using forgetter = void (*)(int fd) noexcept;
  static constinit forgetter forget_unclaimed;

 private:
  friend class closing_member;
  struct closing;
  struct waiting;
  static closing* closings;
  static waiting* waits;

  static sys::process_lock& all_mutex() noexcept;
  /// The newest member that is older than that of the number, or null. Under the lock. A walk that releases
  /// the lock continues with it, and misses none because others have come or gone.
  static closing_member* older_than(std::uint64_t number) noexcept;
  static void forget_the_parents() noexcept;
  static void list(closing& c) noexcept;
  static void unlist(closing& c) noexcept;
  static closing* next_for(closing_member const& m) noexcept;
  static bool is_over(closing const& c) noexcept;
  static void answer(closing_member& m) noexcept;
};

} // namespace unio::driver
