// src/sys/threads.hpp: how the library starts a thread of its own.

#pragma once

#include <pthread.h>

namespace unio::sys {

/// Starts a thread that runs `run(argument)`. Not std::thread, which allocates and throws.
///
/// It takes no signals: a handler of the program's runs on a thread of the program's, which may have blocked
/// it for a while. Only what a thread brings upon itself (a fault, a trap of seccomp) it does take, for a
/// fault that is blocked kills without asking the handler.
///
/// Returns 0 or an errno. `joinable`: where its id goes; null: it is detached.
int start_thread(void* (*run)(void*), void* argument, pthread_t* joinable = nullptr) noexcept;

} // namespace unio::sys
