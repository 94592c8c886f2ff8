// src/sys/barrier.hpp: memory barriers that one thread has all others of the process execute (membarrier(2)).

#pragma once

namespace unio::inline v0_1::sys {

/// Whether barrier_everywhere() can be used here. The first call in a process of several threads may take
/// some milliseconds.
bool has_barriers() noexcept;
/// Each other thread of this process executes a full barrier during this call, or has not run since. False:
/// the kernel may not be asked, or is too old.
bool barrier_everywhere() noexcept;

} // namespace unio::sys
