#include "sys/fork.hpp"

#include <pthread.h>

namespace unio::inline v0_1::sys {

constinit std::atomic<unsigned> fork_count{0};

void watch_forks() noexcept {
  static int const once =
      pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
  (void)once;
}

} // namespace unio::sys
