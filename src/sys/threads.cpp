#include "sys/threads.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <initializer_list>
#include <thread>

namespace unio::inline v0_1::sys {

int start_thread(void* (*run)(void*), void* argument, pthread_t* joinable) noexcept {
  sigset_t blocked, before;
  sigfillset(&blocked);
  for (int const its_own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigdelset(&blocked, its_own);

  pthread_attr_t attributes;
  if (int const e = pthread_attr_init(&attributes); e != 0) return e;
  if (joinable == nullptr) pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t detached;
  pthread_sigmask(SIG_SETMASK, &blocked, &before); // which the new thread inherits
  int const e = pthread_create(joinable != nullptr ? joinable : &detached, &attributes, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return e;
}

unsigned processors() noexcept {
  static std::atomic<unsigned> known{0}; // relaxed: every thread finds the same
  unsigned n = known.load(std::memory_order_relaxed);
  if (n == 0) known.store(n = std::max(std::thread::hardware_concurrency(), 1U), std::memory_order_relaxed);
  return n;
}

} // namespace unio::sys
