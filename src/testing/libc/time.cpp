// Clocks, sleeping and random bytes. With simulated threads the scheduler has clocks and sleeping of its own
// (src/testing/threads/interposed.cpp), which are the stronger definitions.

#include "testing/libc/entry.hpp"

#include <sys/random.h>
#include <sys/time.h>

#include <cerrno>
#include <ctime>

namespace unio::inline v0_1::testing::libc {
namespace {

bool is_wall_clock(clockid_t c) noexcept {
  return c == CLOCK_REALTIME || c == CLOCK_REALTIME_COARSE || c == CLOCK_TAI;
}
bool is_virtual(clockid_t c) noexcept {
  return is_wall_clock(c) || c == CLOCK_MONOTONIC || c == CLOCK_MONOTONIC_COARSE ||
         c == CLOCK_MONOTONIC_RAW || c == CLOCK_BOOTTIME;
}

// A look at a clock takes a moment, or a loop that waits for it would not end.
std::int64_t look(bool is_wall) noexcept {
  constexpr std::int64_t moment = 100;
  if (simulated_threads == nullptr) (void)answering_world()->sleep_until(answering_world()->now() + moment);
  return is_wall ? sys::system_now() : sys::steady_now();
}

bool is_span(timespec const& t) noexcept { return t.tv_sec >= 0 && t.tv_nsec >= 0 && t.tv_nsec < second; }

std::int64_t fill(void* data, std::size_t n) noexcept { return sys::getrandom(data, n, 0); }

} // namespace

void sleep_for(std::int64_t ns) noexcept {
  alone const inside;
  world& w = *answering_world();
  std::int64_t const until = w.moment(ns);
  while (w.now() < until)
    if (w.poll(until - w.now(), []() noexcept { return std::int64_t{0}; }) == -EDEADLK) return;
}

UNIO_WEAK_IN_PLACE(int, clock_gettime, (clockid_t c, timespec* t)) {
  entry const e("clock_gettime(2)", UNIO_CALLER);
  if (!e.simulates() || !is_virtual(c)) return answer<int>(raw(SYS_clock_gettime, c, t));
  *t = to_timespec(look(is_wall_clock(c)));
  return 0;
}

UNIO_WEAK_IN_PLACE(int, gettimeofday, (timeval * t, void* zone)) {
  entry const e("gettimeofday(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_gettimeofday, t, zone));
  std::int64_t const now = look(true);
  *t = {.tv_sec = now / second, .tv_usec = now % second / 1000};
  return 0;
}

UNIO_WEAK_IN_PLACE(time_t, time, (time_t* t)) {
  entry const e("time(2)", UNIO_CALLER);
  timespec now{};
  if (!e.simulates()) {
    (void)raw(SYS_clock_gettime, CLOCK_REALTIME, &now);
  } else {
    now = to_timespec(look(true));
  }
  if (t != nullptr) *t = now.tv_sec;
  return now.tv_sec;
}

UNIO_IN_PLACE(int, timespec_get, (timespec * t, int base)) {
  if (base != TIME_UTC) return 0;
  (void)::clock_gettime(CLOCK_REALTIME, t);
  return base;
}

UNIO_WEAK_IN_PLACE(int, clock_nanosleep, (clockid_t c, int flags, timespec const* t, timespec* left)) {
  entry const e("clock_nanosleep(2)", UNIO_CALLER);
  if (!e.simulates() || !is_virtual(c)) return static_cast<int>(-raw(SYS_clock_nanosleep, c, flags, t, left));
  if (!is_span(*t)) return EINVAL;
  bool const is_moment = (flags & TIMER_ABSTIME) != 0;
  sleep_for(is_moment ? to_ns(*t) - look(is_wall_clock(c)) : to_ns(*t));
  return 0;
}

UNIO_WEAK_IN_PLACE(int, nanosleep, (timespec const* t, timespec* left)) {
  entry const e("nanosleep(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_nanosleep, t, left));
  if (!is_span(*t)) return answer<int>(-EINVAL);
  sleep_for(to_ns(*t));
  return 0;
}

UNIO_WEAK_IN_PLACE(int, usleep, (unsigned us)) {
  timespec const t = to_timespec(std::int64_t{us} * 1000);
  return ::nanosleep(&t, nullptr);
}

UNIO_WEAK_IN_PLACE(unsigned, sleep, (unsigned s)) {
  timespec t{.tv_sec = s, .tv_nsec = 0};
  return ::nanosleep(&t, &t) == 0 ? 0 : static_cast<unsigned>(t.tv_sec);
}

UNIO_IN_PLACE(ssize_t, getrandom, (void* data, std::size_t n, unsigned flags)) {
  entry const e("getrandom(2)", UNIO_CALLER);
  return answer<ssize_t>(e.simulates() ? fill(data, n) : raw(SYS_getrandom, data, n, flags));
}

UNIO_IN_PLACE(int, getentropy, (void* data, std::size_t n)) {
  constexpr std::size_t most = 256;
  entry const e("getentropy(3)", UNIO_CALLER);
  if (n > most) return answer<int>(-EIO);
  std::int64_t const r = e.simulates() ? fill(data, n) : raw(SYS_getrandom, data, n, 0U);
  return r < 0 ? answer<int>(r) : 0;
}

// std::random_device's, which would ask the processor.
UNIO_IN_PLACE(unsigned, _ZNSt13random_device9_M_getvalEv, (void* self)) {
  {
    entry const e("std::random_device", UNIO_CALLER);
    unsigned value = 0;
    if (e.simulates() && fill(&value, sizeof value) == sizeof value) return value;
  }
  return own<unsigned(void*)>("_ZNSt13random_device9_M_getvalEv")(self);
}

UNIO_IN_PLACE(std::uint32_t, arc4random, ()) {
  std::uint32_t value = 0;
  (void)in_place_of_getentropy(&value, sizeof value);
  return value;
}
UNIO_IN_PLACE(void, arc4random_buf, (void* data, std::size_t n)) {
  for (std::size_t done = 0; done < n;) {
    std::size_t const here = n - done < 256 ? n - done : 256;
    (void)in_place_of_getentropy(static_cast<std::byte*>(data) + done, here);
    done += here;
  }
}
UNIO_IN_PLACE(std::uint32_t, arc4random_uniform, (std::uint32_t bound)) {
  if (bound < 2) return 0;
  std::uint32_t const least = (0U - bound) % bound; // below it some remainders would come more often
  std::uint32_t value = 0;
  do {
    value = in_place_of_arc4random();
  } while (value < least);
  return value % bound;
}

} // namespace unio::testing::libc
