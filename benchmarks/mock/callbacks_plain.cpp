// Composed callbacks whose operations come from operator new, each of them.

#include "mock/callbacks.hpp"

namespace mock {
namespace {

struct heap {
  static void* allocate(std::size_t size) { return ::operator new(size); }
  static void deallocate(void* p, std::size_t size) { ::operator delete(p, size); }
};

} // namespace

subject callbacks_plain() { return {.name = "callbacks, plain", .run = run_callbacks<heap>}; }

} // namespace mock
