// src/sys/give_way.hpp: how a thread waits for what another one is about to do.

#pragma once

#include "sys/calls.hpp"

#include <ctime>

namespace unio::inline v0_1::sys {

/// So often a thread that waits for another one yields before it sleeps.
inline constexpr unsigned yields_before_sleep = 1024;

/// Lets others run, in a loop that waits for one of them, and has done so `times` times before. One that has
/// waited for long sleeps for a moment: the other may take long, or need this one's processor. By a yield a
/// thread with a priority of real time gives way to none that has a lower one (sched_yield(2)).
[[gnu::cold, gnu::noinline]] inline void give_way(unsigned times) noexcept {
  constexpr timespec a_moment{.tv_sec = 0, .tv_nsec = 50'000};
  times < yields_before_sleep ? sched_yield() : poll(nullptr, 0, &a_moment);
}

/// Returns once `is_done()`, which another thread brings about.
template <class IsDone> void await_other(IsDone is_done) noexcept {
  for (unsigned times = 0; !is_done(); ++times) give_way(times);
}

} // namespace unio::sys
