// src/sys/kernel_call.hpp: entering the kernel.
//
// syscall(2) moves all arguments by one place and sets errno, which unio never reads: a good part of the cost
// of a short call in user space. So where the calling convention is known, it is written out here.

#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <type_traits>

namespace unio::inline v0_1::sys {

/// An argument as a register holds it.
template <class T> long in_register(T argument) noexcept {
  if constexpr (std::is_pointer_v<T> || std::is_null_pointer_v<T>) {
    return reinterpret_cast<long>(argument);
  } else {
    return static_cast<long>(argument);
  }
}

#if defined(__x86_64__) && !defined(__ILP32__)

// AMD64 ABI, A.2.1: the number and the result in rax, arguments in rdi, rsi, rdx, r10, r8, r9; rcx and r11
// are lost. The result is -errno or more.

inline long enter_kernel(long number, long a = 0, long b = 0, long c = 0) noexcept {
  long result;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
  return result;
}
inline long enter_kernel(long number, long a, long b, long c, long d, long e = 0, long f = 0) noexcept {
  register long in_r10 __asm__("r10") = d;
  register long in_r8 __asm__("r8") = e;
  register long in_r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(in_r10), "r"(in_r8), "r"(in_r9)
                   : "rcx", "r11", "memory");
  return result;
}

#else

template <class... Arguments> long enter_kernel(long number, Arguments... arguments) noexcept {
  long const r = ::syscall(number, arguments...);
  return r < 0 ? -errno : r;
}

#endif

/// A system call by its number: what it returned, or -errno.
template <class... Arguments> std::int64_t call(long number, Arguments... arguments) noexcept {
  return enter_kernel(number, in_register(arguments)...);
}

} // namespace unio::sys
