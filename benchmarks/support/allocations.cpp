// Replaces operator new of the whole program by one that can be counted.

#include "support/measure.hpp"
#include "tools/support/system_calls.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {

constinit std::atomic<bool> is_counting = false;
constinit std::atomic<std::uint64_t> count = 0;

// Subjects that allocate are timed through this function: one load and one branch more than the library's
// own.
void* allocate(std::size_t size) {
  if (is_counting.load(std::memory_order_relaxed)) [[unlikely]]
    count.fetch_add(1, std::memory_order_relaxed);
  if (void* p = std::malloc(size != 0 ? size : 1)) return p;
  throw std::bad_alloc();
}

void* allocate(std::size_t size, std::align_val_t alignment) {
  if (is_counting.load(std::memory_order_relaxed)) [[unlikely]]
    count.fetch_add(1, std::memory_order_relaxed);
  const auto unit = static_cast<std::size_t>(alignment);
  if (void* p = std::aligned_alloc(unit, (size + unit - 1) / unit * unit)) return p; // C17 wants a multiple
  throw std::bad_alloc();
}

} // namespace

namespace benchmarks {
namespace {
counting counted_now = counting::nothing;
}

void count_now(counting what) {
  counted_now = what;
  is_counting.store(what == counting::allocations, std::memory_order_relaxed);
}

std::uint64_t allocations() { return count.load(std::memory_order_relaxed); }

namespace detail {

// Alike in every run, so that a timed one does nothing that a counting one does not.
void begin_measuring() {
  if (counted_now == counting::system_calls) tools::mark_system_calls();
}
void end_measuring() { begin_measuring(); }

std::optional<figure> counted(std::uint64_t operations, std::uint64_t allocations_before) {
  if (counted_now != counting::allocations) return std::nullopt;
  return figure{"allocations",
                static_cast<double>(allocations() - allocations_before) / static_cast<double>(operations)};
}

} // namespace detail
} // namespace benchmarks

// The array and nothrow forms of the library call these.
void* operator new(std::size_t size) { return allocate(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return allocate(size, alignment); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
