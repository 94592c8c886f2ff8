// Functions that make processes, and threads that are not POSIX's: refused by name. The C library blocks
// signals there, so that the trap (trap.cpp) would have nothing to say. And signals, which are this process's
// own.

#include "testing/libc/entry.hpp"

#include <spawn.h>
#include <sys/time.h>
#include <threads.h>

#include <csignal>
#include <cstdio>

namespace unio::inline v0_1::testing::preload {
namespace {

using namespace libc;

} // namespace

#define UNIO_REFUSED(type, name, failure, parameters, arguments)      \
  UNIO_IN_PLACE(type, name, parameters) {                             \
    entry const e(#name "(3)", UNIO_CALLER);                          \
    if (!e.simulates()) return own<type parameters>(#name) arguments; \
    (void)refuse(#name "()");                                         \
    return failure;                                                   \
  }

// Its handler runs on the thread that sends it, which is the one that may run now.
UNIO_IN_PLACE(int, kill, (pid_t pid, int signal)) {
  auto const self = static_cast<pid_t>(raw(SYS_getpid));
  {
    entry const e("kill(2)", UNIO_CALLER);
    if (!e.simulates() || signal == 0) return answer<int>(raw(SYS_kill, pid, signal));
    if (pid != self) return answer<int>(refuse("kill(2) of another process"));
  }
  sigset_t blocked;
  (void)::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  if (sigismember(&blocked, signal) == 1) return answer<int>(raw(SYS_kill, self, signal));
  return answer<int>(raw(SYS_tgkill, self, static_cast<int>(raw(SYS_gettid)), signal));
}

// A timer that is stopped stays so; none is started.
UNIO_IN_PLACE(int, setitimer, (int which, itimerval const* next, itimerval* before)) {
  entry const e("setitimer(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_setitimer, which, next, before));
  if (next != nullptr && (next->it_value.tv_sec != 0 || next->it_value.tv_usec != 0))
    return answer<int>(refuse("setitimer(2)"));
  if (before != nullptr) *before = {};
  return 0;
}

// vfork(2) cannot be called from here: its child would return into this function's frame.
UNIO_REFUSED(int, fork, -1, (), ())
UNIO_ALSO(int, vfork, (), fork, ())
// Threads that the scheduler would not see, and an end of one in the middle of a call.
UNIO_REFUSED(int, thrd_create, thrd_error, (thrd_t * t, int (*run)(void*), void* argument),
             (t, run, argument))
UNIO_REFUSED(int, pthread_cancel, ENOSYS, (pthread_t t), (t))
UNIO_REFUSED(int, daemon, -1, (int stays, int keeps), (stays, keeps))
UNIO_REFUSED(int, system, -1, (char const* command), (command))
UNIO_REFUSED(std::FILE*, popen, nullptr, (char const* command, char const* mode), (command, mode))
UNIO_REFUSED(int, posix_spawn, ENOSYS,
             (pid_t * pid, char const* path, posix_spawn_file_actions_t const* actions,
              posix_spawnattr_t const* attributes, char* const* arguments, char* const* environment),
             (pid, path, actions, attributes, arguments, environment))
UNIO_REFUSED(int, posix_spawnp, ENOSYS,
             (pid_t * pid, char const* file, posix_spawn_file_actions_t const* actions,
              posix_spawnattr_t const* attributes, char* const* arguments, char* const* environment),
             (pid, file, actions, attributes, arguments, environment))

} // namespace unio::testing::preload
