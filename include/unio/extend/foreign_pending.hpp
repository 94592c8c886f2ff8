// unio/extend/foreign_pending.hpp: what a foreign loop's operations wait for, as unio::dump_pending shows it.
//
//   foreign_location   where operations are started, while it is on the stack
//   foreign_place      such a place, kept
//   foreign_waiting    an operation that waits
//   foreign_list       what a loop adds its own to, when it is asked: foreign_reactor::list_by()
//
// This header is C++11, for loops that are. It includes nothing of unio.

#pragma once

#include <chrono>
#include <cstddef>

#define UNIO_API __attribute__((visibility("default"))) // as in config.hpp

// A loop that records since when its operations wait has another layout, and does not link with a library
// that was built otherwise.
#if defined(UNIO_TRACK_PENDING) && UNIO_TRACK_PENDING
#define UNIO_FOREIGN_LAYOUT __attribute__((abi_tag("tracks_pending")))
#else
#define UNIO_FOREIGN_LAYOUT
#endif

namespace unio {
inline namespace v0_1 {

class foreign_watch;

/// A place in a program: what std::source_location is from C++20 on.
struct foreign_place {
  char const* file;
  int line;
  char const* function;
};

/// Says, while it exists, where the calling thread starts operations.
///
/// Thread safety  of the thread that makes it
/// Lifetime       what file and function point to must outlive all that is started there
/// Cost           three stores, and two of a thread-local variable
class foreign_location {
 public:
  foreign_location(char const* file, int line, char const* function) noexcept
      : place_{file, line, function}, outer_(innermost()) {
    innermost() = this;
  }
  foreign_location(foreign_location const&) = delete;
  foreign_location& operator=(foreign_location const&) = delete;
  ~foreign_location() { innermost() = outer_; }

  foreign_place const& place() const noexcept { return place_; }
  foreign_location const* outer() const noexcept { return outer_; }
  /// That of the calling thread. Null: there is none.
  static foreign_location const*& innermost() noexcept {
    static thread_local foreign_location const* of_this_thread = nullptr;
    return of_this_thread;
  }

 private:
  foreign_place place_;
  foreign_location const* outer_;
};

/// An operation that waits.
struct foreign_waiting {
  foreign_watch const* watch;                  ///< for this descriptor
  unsigned what;                               ///< a bit of `foreign`
  std::chrono::steady_clock::time_point since; ///< that clock's epoch: not recorded
  foreign_place const* places;                 ///< where it was started, the innermost first
  std::size_t n_places;
};

/// What unio::dump_pending collects.
///
/// Thread safety  none
class foreign_list {
 public:
  /// Adds one. The strings are copied.
  ///
  /// Effects      a line of the dump
  /// Errors       throws std::bad_alloc
  /// Concurrency  on the thread that dumps, within a foreign_lister
  /// Cost         allocations
  virtual void add(foreign_waiting const& waiting) = 0;

 protected:
  foreign_list() = default;
  ~foreign_list() = default;
};

/// Adds what waits in `loop`. Called on any thread.
typedef void (*foreign_lister)(void* loop, foreign_list& list);

} // namespace v0_1
} // namespace unio
