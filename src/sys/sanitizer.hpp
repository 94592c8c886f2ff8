// src/sys/sanitizer.hpp: which sanitizer this is built with, and informing ThreadSanitizer of what passes
// through the kernel.
//
// It does not know that writes before the submission of an entry happen before its completion is taken
// (google/sanitizers#1729): the ring's driver annotates it.

#pragma once

#if defined(__SANITIZE_THREAD__)
#define UNIO_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNIO_THREAD_SANITIZER 1
#endif
#endif

#if defined(UNIO_THREAD_SANITIZER) || defined(__SANITIZE_ADDRESS__)
#define UNIO_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define UNIO_SANITIZED 1
#endif
#endif

#if defined(UNIO_THREAD_SANITIZER)
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#endif

namespace unio::inline v0_1::sys {

#if defined(UNIO_SANITIZED)
inline constexpr bool is_sanitized = true;
#else
inline constexpr bool is_sanitized = false;
#endif

#if defined(UNIO_THREAD_SANITIZER)
inline void kernel_takes(void* p) noexcept { __tsan_release(p); }
inline void kernel_gives_back(void* p) noexcept { __tsan_acquire(p); }
/// Memory that a thread unmaps without the C library, as liburing does, may be mapped by another at once.
inline constinit char unseen_mappings = 0;
inline void will_unmap() noexcept { __tsan_release(&unseen_mappings); }
inline void has_mapped() noexcept { __tsan_acquire(&unseen_mappings); }
#else
inline void will_unmap() noexcept {}
inline void has_mapped() noexcept {}
inline void kernel_takes(void*) noexcept {}
inline void kernel_gives_back(void*) noexcept {}
#endif

} // namespace unio::sys
