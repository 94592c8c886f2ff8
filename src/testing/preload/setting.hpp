// src/testing/preload/setting.hpp: what `unio simulate` tells the library that it preloads, and what that
// tells it.

#pragma once

#include "testing/threads/record.hpp"

#include <unio/testing.hpp>

#include <cstdint>
#include <string_view>

namespace unio::inline v0_1::testing::preload {

/// In the environment: lines "name=value". seed, record (a descriptor), faults, latency (two spans in ns,
/// with a comma), files (a directory; any number of lines).
constexpr char const* variable = "UNIO_SIMULATE";

/// Of decisions. They are of 24 bits.
struct numbers {
  static constexpr std::uint32_t most = 1 << 24;
  std::uint64_t bits[most / 64];

  [[nodiscard]] bool has(std::uint32_t n) const noexcept { return (bits[n / 64] >> n % 64 & 1) != 0; }
  void add(std::uint32_t n) noexcept { bits[n / 64] |= std::uint64_t{1} << n % 64; }
};

/// In memory that both share.
struct record {
  static constexpr std::uint64_t current_version = 1;
  std::uint64_t version;     ///< of the library; 0: the program has not loaded it
  std::uint64_t fingerprint; ///< of the simulated system
  /// Decisions are draws that were not ordinary. Each has a number, which is the same whatever became of the
  /// others. Those that are kept stand; what else is drawn is ordinary.
  bool keeps_all;
  numbers kept;
  numbers decided; ///< that there were
  bool tells;      ///< a line for each decision that stands, in `story`
  bool is_story_cut;
  std::uint32_t told;
  char story[16384];
  bool is_refused;
  char refusal[2048];
  threads::run_record run;
};

/// A name of --faults and what it allows.
struct fault {
  std::string_view name;
  bool simulation_options::* option;
  bool is_usual; ///< it is allowed unless --faults says otherwise
  std::string_view what;
};
// clang-format off
constexpr fault faults[] = {
  {"short", &simulation_options::short_transfers, true, "a call moves fewer bytes than it could"},
  {"spurious", &simulation_options::spurious_wakeups, true, "a non-blocking one is not ready, as reported"},
  {"latency", &simulation_options::latency, true, "what is sent takes time to arrive"},
  {"eintr", &simulation_options::interruptions, false, "calls fail with EINTR"},
  {"resets", &simulation_options::resets, false, "connections over the network are reset"},
  {"loss", &simulation_options::lost_datagrams, false, "datagrams do not arrive"},
  {"double", &simulation_options::double_datagrams, false, "datagrams arrive twice"},
  {"reorder", &simulation_options::reordered_datagrams, false, "datagrams overtake others"},
};
// clang-format on
/// One in so many calls on a simulated file fails with EIO.
constexpr std::string_view files_fail = "files";
constexpr unsigned failing_files = 32;

} // namespace unio::testing::preload
