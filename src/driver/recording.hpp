// src/driver/recording.hpp: what operations do, recorded in a file that is mapped: UNIO_TRACE=FILE.
//
// Each thread that runs operations writes events into a ring of its own in the file, the oldest of which are
// overwritten. The kernel has the pages, so what was recorded is there however the process ends, and `unio
// trace --show` can read the file while it runs. Nothing is written out at an exit or a signal.
//
//   file:  header · ring 0 · ring 1 · …            header and rings begin at multiples of 4,096 bytes
//   ring:  how many events there ever were · the last recorded_events of them
//
// Where nothing is recorded each place costs one branch on a flag that never changes. In short functions it
// leads to a tail call: nothing has to be kept in registers for what follows.

#pragma once

#include <unio/operation.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unio::inline v0_1::driver {

/// What happened, in the words of src/sys/probes.hpp.
enum class recorded : std::uint8_t { started, completed, delivered, turn_begin, turn_fetched, turn_end };
inline constexpr int recorded_count = static_cast<int>(recorded::turn_end) + 1;

inline constexpr char recording_magic[8] = {'u', 'n', 'i', 'o', 't', 'r', 'c', '1'};
inline constexpr std::size_t recorded_rings = 64;      ///< threads at a time; others are not recorded
inline constexpr std::size_t recorded_events = 65'536; ///< of each

struct recorded_event {
  std::int64_t ns;       ///< on the steady clock
  std::uint64_t subject; ///< the operation's address; of a turn the multiplexer's
  char name[19];         ///< of the operation; ends with 0 unless it fills all
  recorded what;
  std::int32_t outcome; ///< once it has completed: as io_operation::outcome_value()
};
static_assert(sizeof(recorded_event) == 40);

struct recording_header {
  char magic[8];
  std::uint32_t pid;
  std::uint32_t event_size;
  std::uint64_t rings;
  std::uint64_t events; ///< of each ring
};

struct alignas(4096) recording_ring {
  std::atomic<std::uint64_t> count; ///< release; pairs with the acquire of what reads the file
  alignas(64) recorded_event events[recorded_events];
};

struct recording_file {
  alignas(4096) recording_header header;
  recording_ring rings[recorded_rings];
};

/// Whether the environment asks for it: known before main(), and the file is made with the first event.
[[gnu::visibility("hidden")]] extern bool const records;
inline bool is_recording() noexcept { return records; }

/// Writes it into the calling thread's ring.
[[gnu::cold]] void record(recorded what, io_operation const& op) noexcept;
/// Records its start, and starts it.
[[gnu::cold]] void start_recorded(io_operation& op, io_multiplexer& m) noexcept;
[[gnu::cold]] void record_turn(recorded what, void const* multiplexer) noexcept;
/// Returns `ran`.
[[gnu::cold]] int record_turn_end(void const* multiplexer, int ran) noexcept;

} // namespace unio::driver
