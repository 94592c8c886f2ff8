// src/sys/threads.hpp: how the library starts a thread of its own.

#pragma once

#include <unio/config.hpp>

#include <pthread.h>

namespace unio::inline v0_1::sys {

/// Starts a thread that runs `run(argument)`. Not std::thread, which allocates and throws.
///
/// It takes no signals: handlers of the program run on the program's threads, which may have blocked them for
/// a while. Exceptions are signals that a thread causes itself (a fault, a trap of seccomp), because a
/// blocked fault kills without calling the handler.
///
/// Returns 0 or an errno. `joinable`: receives its id; null: it is detached.
UNIO_API int start_thread(void* (*run)(void*), void* argument, pthread_t* joinable = nullptr) noexcept;

/// How many there are; 1 where that is not known. Cost: the first time in a process some system calls.
unsigned processors() noexcept;

} // namespace unio::sys
