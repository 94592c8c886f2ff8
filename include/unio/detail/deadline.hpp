// unio/detail/deadline.hpp: arithmetic that saturates at for ever.

#pragma once

#include <unio/deadline.hpp>

namespace unio::inline v0_1 {

constexpr std::int64_t deadline::add(std::int64_t a, std::int64_t b) noexcept {
  return b > forever - a ? forever : a + b;
}

constexpr std::int64_t deadline::left(std::int64_t at, std::int64_t now) noexcept {
  if (at <= now) return 0;
  return at == forever || (now < 0 && at > forever + now) ? forever : at - now;
}

constexpr std::int64_t deadline::moment(std::int64_t ns) noexcept {
  constexpr std::int64_t earliest = std::numeric_limits<std::int64_t>::min() / 2;
  return ns > earliest ? ns : earliest;
}

template <class Rep, class Period>
constexpr std::int64_t deadline::saturate(std::chrono::duration<Rep, Period> d) noexcept {
  using wide = std::chrono::duration<long double, std::nano>;
  long double const ns = wide(d).count();
  if (ns >= 9.2233720368547758e18L) return forever;
  if (ns <= -9.2233720368547758e18L) return std::numeric_limits<std::int64_t>::min() + 1;
  // Of a unit that is no whole number of nanoseconds (a sample of 1/44100 s) duration_cast() multiplies
  // first, which overflows long before the result would.
  if constexpr (std::ratio_divide<Period, std::nano>::den != 1) {
    return static_cast<std::int64_t>(ns);
  } else {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(d).count();
  }
}

constexpr std::int64_t deadline::due(std::int64_t steady_now_ns, std::int64_t system_now_ns) const noexcept {
  switch (kind_) {
    case kind::none:
      return forever;
    case kind::relative:
      return add(steady_now_ns, ns_);
    case kind::steady:
      return ns_;
    case kind::system:
      return add(steady_now_ns, ns_ > system_now_ns ? ns_ - system_now_ns : 0);
  }
  return forever;
}

} // namespace unio
