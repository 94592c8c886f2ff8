// How often operator new was called, by any thread of this program. Counting replaces operator new.

#pragma once

#include <cstdint>

namespace tour {

[[nodiscard]] std::uint64_t allocations() noexcept;

} // namespace tour
