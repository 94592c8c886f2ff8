#include "core/pauses.hpp"

#include <unio/task_group.hpp>

namespace unio::inline v0_1 {

deadline detail::accept_pause(int times) noexcept { return std::chrono::milliseconds(pause_ms(times)); }

} // namespace unio
