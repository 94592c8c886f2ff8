// operator new, replaced: the n-th allocation fails. For one source file of a program of its own.
//
//   allocations, fails_at, failed   how many there were, which one fails, how many have
//   may_throw                       whether one that throws may fail; if not, that ends the program

#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

namespace {

std::atomic<long> allocations{0};
std::atomic<long> fails_at{-1};
std::atomic<long> failed{0};
thread_local bool spared = false; // this thread's are not counted

void* allocate(std::size_t n, std::size_t alignment) noexcept {
  long const number = spared ? 0 : ++allocations;
  if (number != 0 && number == fails_at) {
    ++failed;
    return nullptr;
  }
  return alignment == 0 ? std::malloc(n)
                        : std::aligned_alloc(alignment, (n + alignment - 1) / alignment * alignment);
}

// The library allocates with std::nothrow wherever it can continue. A throwing one that fails means that it
// cannot; where that is documented, an exception says so.
[[maybe_unused]] bool may_throw = false;

void* allocate_or_end(std::size_t n, std::size_t alignment) {
  void* const p = allocate(n, alignment);
#ifdef __cpp_exceptions
  if (p == nullptr && may_throw) throw std::bad_alloc();
#endif
  if (p == nullptr) {
    std::fputs("an allocation that cannot be reported has failed\n", stderr);
    std::abort();
  }
  return p;
}

} // namespace

#include "support/replaced_new.hpp"
