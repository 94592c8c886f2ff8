// What a simulation may do, drawn by a seed.

#include "testing/random.hpp"

#include <unio/testing.hpp>

namespace unio::inline v0_1::testing {

constinit drawer on_draw = nullptr;
constinit teller on_story = nullptr;

simulation_options simulation_options::from_seed(std::uint64_t seed) noexcept {
  simulation_options o;
  o.seed = seed;
  random_source coins(~seed);
  for (bool* const kind :
       {&o.reorder, &o.delays, &o.short_transfers, &o.late_cancels, &o.spurious_wakeups, &o.interruptions,
        &o.readiness, &o.inline_attempts, &o.stray_completions, &o.tiny_queue, &o.lost_datagrams,
        &o.double_datagrams, &o.reordered_datagrams, &o.congestion, &o.latency, &o.resets})
    *kind = coins.one_in(2);
  return o;
}

simulation_options simulation_options::orderly(std::uint64_t seed) noexcept {
  simulation_options o;
  o.seed = seed;
  o.reorder = o.delays = o.short_transfers = o.late_cancels = o.spurious_wakeups = o.interruptions =
      o.readiness = o.inline_attempts = o.stray_completions = o.tiny_queue = o.lost_datagrams =
          o.double_datagrams = o.reordered_datagrams = o.congestion = o.latency = o.resets = false;
  return o;
}

} // namespace unio::testing
