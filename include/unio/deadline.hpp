// unio/deadline.hpp: how long an operation may wait.
//
//   deadline   none · a span on the steady clock · a point on it or on the system clock · zero: do not wait
//   now        the time on the clock by which the library waits

#pragma once

#include <unio/config.hpp>
#include <unio/detail/standard.hpp>

#include <cstdint>
#include <limits>

namespace unio::inline v0_1 {

/// How long an operation may wait. Converts implicitly from a duration or a time point, so that
/// `h.read(request, 10ms)` and `h.read(request, steady_clock::now() + 1s)` both work.
///
/// A duration counts from the start of the operation. A point on the system clock is converted to the steady
/// clock at that moment: a later step of the system clock does not move it. Negative spans are zero; anything
/// further away than 292 years is for ever.
///
/// Thread safety  distinct: safe; shared: any number of readers
/// Cost           none; a point on another clock reads that clock
/// Size           16 bytes
class deadline {
 public:
  enum class kind : std::uint8_t { none, relative, steady, system };

  /// For ever.
  constexpr deadline() = default;
  static constexpr deadline none() noexcept { return {}; }
  /// Do not wait.
  static constexpr deadline zero() noexcept { return deadline(kind::relative, 0); }

  template <class Rep, class Period>
  constexpr deadline(std::chrono::duration<Rep, Period> d) noexcept // NOLINT: implicit
      : deadline(kind::relative, d > d.zero() ? saturate(d) : 0) {}
  template <class Duration> // NOLINTNEXTLINE: implicit
  constexpr deadline(std::chrono::time_point<std::chrono::steady_clock, Duration> t) noexcept
      : deadline(kind::steady, moment(saturate(t.time_since_epoch()))) {}
  template <class Duration> // NOLINTNEXTLINE: implicit
  constexpr deadline(std::chrono::time_point<std::chrono::system_clock, Duration> t) noexcept
      : deadline(kind::system, saturate(t.time_since_epoch())) {}
  /// Any other clock: the span that is left now.
  template <class Clock, class Duration>
  deadline(std::chrono::time_point<Clock, Duration> t) noexcept // NOLINT: implicit
      : deadline(kind::relative,
                 left(saturate(t.time_since_epoch()), saturate(Clock::now().time_since_epoch()))) {}

  [[nodiscard]] constexpr bool is_none() const noexcept { return kind_ == kind::none; }
  [[nodiscard]] constexpr bool is_zero() const noexcept { return kind_ == kind::relative && ns_ == 0; }

  [[nodiscard]] constexpr kind which() const noexcept { return kind_; }
  /// Nanoseconds: a span, or since the clock's epoch.
  [[nodiscard]] constexpr std::int64_t nanoseconds() const noexcept { return ns_; }

  /// The moment on the steady clock, in ns, given both clocks now. `forever` for none.
  [[nodiscard]] constexpr std::int64_t due(std::int64_t steady_now_ns,
                                           std::int64_t system_now_ns) const noexcept;

  static constexpr std::int64_t forever = std::numeric_limits<std::int64_t>::max();

 private:
  constexpr deadline(kind k, std::int64_t ns) noexcept : ns_(ns), kind_(ns == forever ? kind::none : k) {}

  static constexpr std::int64_t add(std::int64_t a, std::int64_t b) noexcept;
  /// What is left from `now` until `at`, of any clock: such as one whose epoch is yet to come.
  static constexpr std::int64_t left(std::int64_t at, std::int64_t now) noexcept;
  /// Not so long ago that `moment - now` would overflow, which is what a wait computes.
  static constexpr std::int64_t moment(std::int64_t ns) noexcept;
  template <class Rep, class Period>
  static constexpr std::int64_t saturate(std::chrono::duration<Rep, Period> d) noexcept;

  std::int64_t ns_ = 0;
  kind kind_ = kind::none;
};

/// The time on the clock of deadlines: std::chrono::steady_clock::now(), and on the thread of a simulation
/// its virtual time (unio/testing.hpp). So a program that makes its points in time from this one, such as a
/// limit that several operations share, can be tested without waiting.
///
/// Concurrency  from any thread
/// Cost         reading the clock; no system call
/// Source       clock_gettime(2), CLOCK_MONOTONIC
[[nodiscard]] UNIO_API std::chrono::steady_clock::time_point now() noexcept;

} // namespace unio

#include <unio/detail/deadline.hpp>
