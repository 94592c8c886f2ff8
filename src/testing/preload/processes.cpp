// Functions that make processes: refused by name. The C library blocks signals there, so that the trap
// (trap.cpp) would have nothing to say. And signals, which are this process's own; that of the trap is its.

#include "testing/libc/entry.hpp"

#include <pthread.h>
#include <spawn.h>
#include <sys/time.h>

#include <csignal>
#include <cstdio>

namespace unio::inline v0_1::testing::preload {
namespace {

using namespace libc;

sigset_t without_traps(sigset_t all) noexcept {
  (void)sigdelset(&all, SIGSYS);
  return all;
}

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

// Another thread waits for its turn: a handler would run there beside the one that has it.
UNIO_IN_PLACE(int, pthread_kill, (pthread_t t, int signal)) {
  entry const e("pthread_kill(3)", UNIO_CALLER);
  if (!e.simulates() || signal == 0 || ::pthread_equal(t, ::pthread_self()) != 0)
    return own<int(pthread_t, int)>("pthread_kill")(t, signal);
  (void)refuse("pthread_kill(3) of another thread");
  return ENOSYS;
}
UNIO_REFUSED(int, sigqueue, -1, (pid_t pid, int signal, sigval value), (pid, signal, value))
UNIO_REFUSED(int, killpg, -1, (pid_t group, int signal), (group, signal))

UNIO_IN_PLACE(int, pthread_sigmask, (int how, sigset_t const* set, sigset_t* before)) {
  sigset_t const asked = set != nullptr && how != SIG_UNBLOCK ? without_traps(*set) : sigset_t{};
  return own<int(int, sigset_t const*, sigset_t*)>("pthread_sigmask")(
      how, set != nullptr && how != SIG_UNBLOCK ? &asked : set, before);
}
UNIO_IN_PLACE(int, sigprocmask, (int how, sigset_t const* set, sigset_t* before)) {
  return answer<int>(-in_place_of_pthread_sigmask(how, set, before));
}
UNIO_IN_PLACE(int, sigaction, (int signal, struct sigaction const* next, struct sigaction* before)) {
  using own_action = int(int, struct sigaction const*, struct sigaction*);
  struct sigaction asked{};
  if (next != nullptr) {
    asked = *next;
    asked.sa_mask = without_traps(next->sa_mask);
  }
  bool const is_kept = signal == SIGSYS && libc::end_refused != nullptr;
  return own<own_action>("sigaction")(signal, next != nullptr && !is_kept ? &asked : nullptr, before);
}
UNIO_IN_PLACE(sighandler_t, signal, (int signal, sighandler_t handler)) {
  return signal == SIGSYS ? SIG_DFL : own<sighandler_t(int, sighandler_t)>("signal")(signal, handler);
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

UNIO_IN_PLACE(unsigned, alarm, (unsigned seconds)) {
  entry const e("alarm(2)", UNIO_CALLER);
  if (!e.simulates()) return static_cast<unsigned>(raw(SYS_alarm, seconds));
  if (seconds != 0) (void)refuse("alarm(2)");
  return 0;
}

// vfork(2) cannot be called from here: its child would return into this function's frame.
UNIO_REFUSED(int, fork, -1, (), ())
UNIO_ALSO(int, vfork, (), fork, ())
// An end of a thread in the middle of a call.
UNIO_REFUSED(int, pthread_cancel, ENOSYS, (pthread_t t), (t))
UNIO_REFUSED(int, daemon, -1, (int stays, int keeps), (stays, keeps))
UNIO_REFUSED(int, wordexp, 1, (char const* words, void* found, int flags), (words, found, flags))
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
