// What code that was compiled with -fsanitize=thread calls: a point at each atomic operation but a relaxed
// load, and nothing at all else.

#include "testing/threads/scheduler.hpp"

#include <cstring>

namespace unio::inline v0_1::testing::threads {
void link_atomics() noexcept {}
} // namespace unio::testing::threads

using namespace unio::testing::threads;

// gcc and clang pass the memory orders of the builtins. All operations are sequentially consistent.
#define UNIO_ATOMICS(bits)                                                                                  \
  using a##bits = std::uint##bits##_t;                                                                      \
  a##bits __tsan_atomic##bits##_load(a##bits const volatile* a, int order) {                                \
    order != __ATOMIC_RELAXED ? point(at::atomic_load) : relaxed_load();                                    \
    return __atomic_load_n(a, __ATOMIC_SEQ_CST);                                                            \
  }                                                                                                         \
  void __tsan_atomic##bits##_store(a##bits volatile* a, a##bits v, int) {                                   \
    point(at::atomic_store);                                                                                \
    __atomic_store_n(a, v, __ATOMIC_SEQ_CST);                                                               \
  }                                                                                                         \
  UNIO_FETCHING(bits, exchange, __atomic_exchange_n, at::atomic_exchange)                                   \
  UNIO_FETCHING(bits, fetch_add, __atomic_fetch_add, at::atomic_fetch)                                      \
  UNIO_FETCHING(bits, fetch_sub, __atomic_fetch_sub, at::atomic_fetch)                                      \
  UNIO_FETCHING(bits, fetch_and, __atomic_fetch_and, at::atomic_fetch)                                      \
  UNIO_FETCHING(bits, fetch_or, __atomic_fetch_or, at::atomic_fetch)                                        \
  UNIO_FETCHING(bits, fetch_xor, __atomic_fetch_xor, at::atomic_fetch)                                      \
  UNIO_FETCHING(bits, fetch_nand, __atomic_fetch_nand, at::atomic_fetch)                                    \
  UNIO_COMPARING(bits, compare_exchange_strong)                                                             \
  UNIO_COMPARING(bits, compare_exchange_weak)                                                               \
  a##bits __tsan_atomic##bits##_compare_exchange_val(a##bits volatile* a, a##bits expected, a##bits v, int, \
                                                     int) {                                                 \
    point(at::atomic_compare);                                                                              \
    __atomic_compare_exchange_n(a, &expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                \
    return expected;                                                                                        \
  }
#define UNIO_FETCHING(bits, name, builtin, where)                             \
  a##bits __tsan_atomic##bits##_##name(a##bits volatile* a, a##bits v, int) { \
    point(where);                                                             \
    return builtin(a, v, __ATOMIC_SEQ_CST);                                   \
  }
#define UNIO_COMPARING(bits, name)                                                                         \
  int __tsan_atomic##bits##_##name(a##bits volatile* a, a##bits* expected, a##bits v, int, int) {          \
    point(at::atomic_compare);                                                                             \
    return __atomic_compare_exchange_n(a, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ? 1 : 0; \
  }

// Plain accesses.
#define UNIO_ACCESSES(bytes)                            \
  void __tsan_read##bytes(void*) {}                     \
  void __tsan_write##bytes(void*) {}                    \
  void __tsan_unaligned_read##bytes(void*) {}           \
  void __tsan_unaligned_write##bytes(void*) {}          \
  void __tsan_volatile_read##bytes(void*) {}            \
  void __tsan_volatile_write##bytes(void*) {}           \
  void __tsan_unaligned_volatile_read##bytes(void*) {}  \
  void __tsan_unaligned_volatile_write##bytes(void*) {} \
  void __tsan_read_write##bytes(void*) {}               \
  void __tsan_unaligned_read_write##bytes(void*) {}

extern "C" {

UNIO_ATOMICS(8)
UNIO_ATOMICS(16)
UNIO_ATOMICS(32)
UNIO_ATOMICS(64)

void __tsan_atomic_thread_fence(int) {
  point(at::fence);
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
void __tsan_atomic_signal_fence(int) {}

UNIO_ACCESSES(1)
UNIO_ACCESSES(2)
UNIO_ACCESSES(4)
UNIO_ACCESSES(8)
UNIO_ACCESSES(16)

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_read_range(void*, unsigned long) {}
void __tsan_write_range(void*, unsigned long) {}
void __tsan_acquire(void*) {}
void __tsan_release(void*) {}
void __tsan_ignore_thread_begin() {}
void __tsan_ignore_thread_end() {}
void* __tsan_memcpy(void* to, void const* from, std::size_t n) { return std::memcpy(to, from, n); }
void* __tsan_memmove(void* to, void const* from, std::size_t n) { return std::memmove(to, from, n); }
void* __tsan_memset(void* to, int v, std::size_t n) { return std::memset(to, v, n); }

} // extern "C"
