// The ways to run the two ends of a transfer.

#pragma once

#include "ends.hpp"

namespace tour {

enum class style { blocking, polled, multiplexed, awaited };

/// How the two ends depend on each other.
enum class coupling {
  one_end,   ///< nothing is written
  relay,     ///< what is read is written, piece by piece
  stream,    ///< what is written arrives at the reading end: both must be at work
  lock_step, ///< the same, piece by piece: a reader that is late would lose datagrams
};

/// Notified where the work of a row begins, after everything was opened and made, and where it ends.
class section {
 public:
  virtual ~section() = default;
  virtual void begin() noexcept = 0;
  virtual void end() noexcept = 0;
};

/// Moves everything, and returns when both ends have ended. `m` is the multiplexer of the ends' handles, null
/// for the blocking style. Returns the multiplexer's error; each end has its own. A port whose functions are
/// only awaited has one style.
template <class Port>
std::error_code transfer(style how, coupling c, reading_end<Port>& reading, writing_end<Port>& writing,
                         unio::io_multiplexer* m, section& measured);

} // namespace tour
