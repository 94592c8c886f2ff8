#include "sys/barrier.hpp"

#include "sys/calls.hpp"

#include <linux/membarrier.h>

namespace unio::inline v0_1::sys {

// Asked each time: a child of fork may have to register anew, and it costs little once that is done.
bool has_barriers() noexcept { return membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0) == 0; }

bool barrier_everywhere() noexcept { return membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) == 0; }

} // namespace unio::sys
