// Composed callbacks whose operations reuse one block per thread: the reference of all ratios.
//
// The recycling of *Coroutine-first asynchronous I/O* §10.2: an operation gives its block back before its
// handler is called, and what the handler starts next finds it.

#include "mock/callbacks.hpp"

namespace mock {
namespace {

// One block. Trivial, so that the compiler reaches it without asking whether it has been constructed; the
// block of a thread that ends is lost, which a library would have to see to and this program need not.
struct block_cache {
  void* block = nullptr;
  std::size_t size = 0;
};

constinit thread_local block_cache cache;

struct recycling {
  static void* allocate(std::size_t size) {
    if (cache.block != nullptr && cache.size >= size) return std::exchange(cache.block, nullptr);
    return ::operator new(size);
  }

  static void deallocate(void* p, std::size_t size) {
    if (cache.block != nullptr) [[unlikely]]
      return keep_the_larger(p, size);
    cache = {.block = p, .size = size};
  }

  static void keep_the_larger(void* p, std::size_t size) {
    if (cache.size > size) return ::operator delete(p);
    ::operator delete(cache.block);
    cache = {.block = p, .size = size};
  }
};

} // namespace

subject callbacks_recycled() { return {.name = "callbacks, recycled", .run = run_callbacks<recycling>}; }

} // namespace mock
