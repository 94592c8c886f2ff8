// unio/detail/tracking.hpp: what is recorded for unio::dump_pending, if the library was built with it.
//
// Here because it is part of promises and operations, and must cost them nothing where it is off: the
// templates for `false` are empty.

#pragma once

#include <unio/config.hpp>

#include <coroutine>
#include <cstdint>
#include <source_location>
#include <type_traits>

namespace unio::inline v0_1::detail {

struct no_location {};
/// Where a co_await stands: a default argument of await_transform.
using await_location = std::conditional_t<UNIO_TRACKS_PENDING, std::source_location, no_location>;

/// The first base of a promise: where its coroutine is suspended.
template <bool Tracks> class tracked_coroutine {
 public:
  void awaits_at(no_location) noexcept {}
};
template <> class tracked_coroutine<true> {
 public:
  void awaits_at(std::source_location where) noexcept { where_ = where; }
  [[nodiscard]] std::source_location const& where() const noexcept { return where_; }
  /// The promise in a frame, or null if that is none of unio's: any handle may be asked.
  static tracked_coroutine const* in(std::coroutine_handle<> h) noexcept {
    if (!h) return nullptr;
    auto const& t = std::coroutine_handle<tracked_coroutine>::from_address(h.address()).promise();
    return t.mark_ == mark ? &t : nullptr;
  }

 private:
  static constexpr std::uint64_t mark = 0x6f696e752d6f7277; // a value that occurs nowhere else in memory
  std::uint64_t mark_ = mark;
  std::source_location where_;
};

/// A base of an operation: its start, and the coroutine that waits for it.
template <bool Tracks> class tracked_operation {
 public:
  void started_at(std::int64_t (*)() noexcept) noexcept {}
  void awaited_by(std::coroutine_handle<>) noexcept {}
};
template <> class tracked_operation<true> {
 public:
  void started_at(std::int64_t (*now)() noexcept) noexcept { started_ns_ = now(); }
  void awaited_by(std::coroutine_handle<> h) noexcept { coroutine_ = h; }
  [[nodiscard]] std::int64_t started_ns() const noexcept { return started_ns_; }
  [[nodiscard]] std::coroutine_handle<> coroutine() const noexcept { return coroutine_; }

 private:
  std::int64_t started_ns_ = 0; // on the steady clock
  std::coroutine_handle<> coroutine_;
};

/// A base of an end_listener: what it is, and which coroutine waits for it, if one does.
template <bool Tracks> class tracked_listener {
 public:
  void stands_for(char const*, std::coroutine_handle<> = nullptr) noexcept {}
};
template <> class tracked_listener<true> {
 public:
  void stands_for(char const* what, std::coroutine_handle<> waiting = nullptr) noexcept {
    what_ = what;
    waiting_ = waiting;
  }
  [[nodiscard]] char const* what() const noexcept { return what_; }
  [[nodiscard]] std::coroutine_handle<> waiting() const noexcept { return waiting_; }

 private:
  char const* what_ = "";
  std::coroutine_handle<> waiting_;
};

/// A base of what a coroutine waits in for another one (waiting.hpp): which coroutine, for what and since
/// when, in a list of the process.
template <bool Tracks> class tracked_wait {
 public:
  void begins(std::coroutine_handle<>, char const*) noexcept {}
  void ends() noexcept {}
};
template <> class UNIO_API tracked_wait<true> {
 public:
  void begins(std::coroutine_handle<> h, char const* what) noexcept;
  /// Called before the coroutine continues or is destroyed. Waits for a dump that looks at it.
  void ends() noexcept;
  [[nodiscard]] std::coroutine_handle<> coroutine() const noexcept { return coroutine_; }
  [[nodiscard]] char const* what() const noexcept { return what_; }
  [[nodiscard]] std::int64_t started_ns() const noexcept { return started_ns_; }
  /// Calls `f(argument, wait)` for all, oldest first. They stay suspended until it returns.
  static void for_each(void (*f)(void* argument, tracked_wait const& w), void* argument);

 private:
  std::coroutine_handle<> coroutine_;
  char const* what_ = "";
  std::int64_t started_ns_ = 0; // on the steady clock
  tracked_wait* next_ = nullptr;
  tracked_wait* previous_ = nullptr;
};

} // namespace unio::detail
