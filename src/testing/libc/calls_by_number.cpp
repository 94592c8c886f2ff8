// syscall(2): what waits for a futex is the scheduler's, what is harmless goes on, all else is refused.

#include "testing/libc/entry.hpp"

#include <linux/futex.h>

#include <cstdarg>
#include <string>

namespace unio::inline v0_1::testing::libc {

void link_in_place() noexcept {} // what calls it has the functions of this library in the program

namespace {

// Of this process and its memory alone.
bool is_harmless(long number) noexcept {
  constexpr long all[] = {SYS_gettid,      SYS_getpid,       SYS_getppid,        SYS_getuid,
                          SYS_geteuid,     SYS_getgid,       SYS_getegid,        SYS_tgkill,
                          SYS_sched_yield, SYS_membarrier,   SYS_getcpu,         SYS_sched_getaffinity,
                          SYS_prctl,       SYS_madvise,      SYS_mprotect,       SYS_mmap,
                          SYS_munmap,      SYS_mlock,        SYS_rt_sigprocmask, SYS_get_mempolicy,
                          SYS_getdents64,  SYS_memfd_create, SYS_exit_group,     SYS_uname,
                          SYS_sysinfo};
  for (long const n : all)
    if (n == number) return true;
  return false;
}

} // namespace

UNIO_IN_PLACE(long, syscall, (long number, ...)) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  entry const e("syscall(2)", UNIO_CALLER);
  if (!e.simulates()) return answer(raw(number, a[0], a[1], a[2], a[3], a[4], a[5]));
  if (number == SYS_futex) {
    --depth; // the thread may wait there, and is the program's
    std::int64_t const r =
        sys::current->futex(reinterpret_cast<std::uint32_t*>(a[0]), static_cast<int>(a[1]),
                            static_cast<std::uint32_t>(a[2]), reinterpret_cast<timespec const*>(a[3]));
    ++depth;
    return answer(r);
  }
  if (number == SYS_getrandom)
    return answer(sys::current->getrandom(reinterpret_cast<void*>(a[0]), static_cast<std::size_t>(a[1]), 0));
  if (is_harmless(number)) return answer(raw(number, a[0], a[1], a[2], a[3], a[4], a[5]));
  return answer(refuse("syscall(" + std::to_string(number) + ", ...)"));
}

} // namespace unio::testing::libc
