// operator new and delete, and pthread_mutex_lock, replaced for the whole program by ones that count per
// thread.

#include "alloc/counting.hpp"

#include "support/test.hpp"

#include <dlfcn.h>
#include <pthread.h>

namespace {

constinit thread_local test::costs so_far;
constinit thread_local std::uint64_t until_failure = 0;

void* allocate(std::size_t size, std::size_t alignment) noexcept {
  ++so_far.allocations;
  if (until_failure != 0 && --until_failure == 0) return nullptr;
  if (size == 0) size = 1;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* allocate_or_end(std::size_t size, std::size_t alignment) {
  void* const p = allocate(size, alignment);
#ifdef __cpp_exceptions
  if (p == nullptr) throw std::bad_alloc();
#else
  if (p == nullptr) std::abort();
#endif
  return p;
}

} // namespace

test::costs test::costs_so_far() noexcept { return so_far; }
void test::fail_allocation(std::uint64_t n) noexcept { until_failure = n; }

#include "support/replaced_new.hpp"

// The dynamic linker prefers the program's own over the C library's, for the C++ library too.
extern "C" int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  using function = int (*)(pthread_mutex_t*);
  static constinit std::atomic<function> real = nullptr; // relaxed: every thread finds the same
  function f = real.load(std::memory_order_relaxed);
  if (f == nullptr) {
    f = reinterpret_cast<function>(::dlsym(RTLD_NEXT, "pthread_mutex_lock"));
    if (f == nullptr) std::abort();
    real.store(f, std::memory_order_relaxed);
  }
  ++so_far.locks;
  return f(mutex);
}
