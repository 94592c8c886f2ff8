// The functions of the C library that make threads, or make them wait. In the program they take the place of
// the library's: also for the C++ library, which is another object. A simulated thread never waits in one of
// them: it tries, and the scheduler has it wait. All others have the library's.

#include "testing/threads/scheduler.hpp"

#include <dlfcn.h>
#include <linux/futex.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <threads.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <limits>

namespace unio::inline v0_1::testing::threads {
namespace {

constexpr std::int64_t second = 1'000'000'000;

// The C library's own. Of some there are two versions, of which dlsym() finds the older one.
template <class F> F* own(char const* name, F*& known) noexcept {
  F* f = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (f == nullptr) {
    void* found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    if (found == nullptr) found = dlsym(RTLD_NEXT, name);
    f = reinterpret_cast<F*>(found);
    __atomic_store_n(&known, f, __ATOMIC_RELAXED);
  }
  return f;
}

#define UNIO_OWN(name)                                  \
  ([]() noexcept {                                      \
    static constinit decltype(&::name) known = nullptr; \
    return own(#name, known);                           \
  }())

// As the C library returns it.
template <class T> T as_libc(std::int64_t r) noexcept {
  if (r >= 0 || r < -4095) return static_cast<T>(r);
  errno = static_cast<int>(-r);
  return -1;
}

// What no clock shows is never.
std::int64_t nanoseconds(timespec const& t) noexcept {
  return t.tv_sec < never / second ? std::int64_t{t.tv_sec} * second + t.tv_nsec : never;
}
std::int64_t after(std::int64_t ns) noexcept { return ns < never - current->now ? current->now + ns : never; }

bool is_span(timespec const& t) noexcept { return t.tv_sec >= 0 && t.tv_nsec >= 0 && t.tv_nsec < second; }

bool is_moment(timespec const* t) noexcept {
  return t == nullptr || (t->tv_nsec >= 0 && t->tv_nsec < second);
}

timespec to_timespec(std::int64_t ns) noexcept { return {.tv_sec = ns / second, .tv_nsec = ns % second}; }

bool is_wall_clock(clockid_t c) noexcept {
  return c == CLOCK_REALTIME || c == CLOCK_REALTIME_COARSE || c == CLOCK_TAI;
}

bool is_virtual(clockid_t c) noexcept {
  return is_wall_clock(c) || c == CLOCK_MONOTONIC || c == CLOCK_MONOTONIC_COARSE ||
         c == CLOCK_MONOTONIC_RAW || c == CLOCK_BOOTTIME;
}

// A moment of a clock, in virtual time.
std::int64_t moment(clockid_t c, timespec const* t) noexcept {
  std::int64_t const at = t == nullptr ? never : nanoseconds(*t);
  return at == never ? never : at - (is_wall_clock(c) ? year_2020 : 0);
}

std::int64_t time_of(clockid_t c) noexcept {
  current->now += 100;
  return current->now + (is_wall_clock(c) ? year_2020 : 0);
}

// ---- locks ----------------------------------------------------------------------------------------------

// Tries until it has the lock: `attempt` returns 0, EBUSY, or another error.
template <class Attempt> int take(need n, void const* lock, std::int64_t until, Attempt attempt) noexcept {
  guard const here;
  for (;;) {
    int const r = attempt();
    if (r == 0 || r == EOWNERDEAD) current->holds(lock);
    if (r != EBUSY) return r;
    if (current->now >= until) return ETIMEDOUT;
    (void)current->block(n, lock, until);
  }
}

int take_mutex(pthread_mutex_t* m, std::int64_t until) noexcept {
  return take(need::mutex, m, until, [m]() noexcept {
    int const r = UNIO_OWN(pthread_mutex_trylock)(m);
    if (r != EBUSY) return r;
    // pthread_mutex_trylock() has left it locked when it said so first.
    constexpr int not_recoverable = std::numeric_limits<int>::max() - 1;
    if (m->__data.__owner == not_recoverable) return ENOTRECOVERABLE;
    bool const checks = (m->__data.__kind & 3) == PTHREAD_MUTEX_ERRORCHECK_NP;
    return checks && m->__data.__owner == gettid() ? EDEADLK : EBUSY;
  });
}

// `until`: if it is no moment, and the mutex is not free, that is an error.
int take_mutex(pthread_mutex_t* m, clockid_t c, timespec const* until) noexcept {
  if (is_moment(until)) return take_mutex(m, moment(c, until));
  int const r = take_mutex(m, 0);
  return r == ETIMEDOUT ? EINVAL : r;
}

int leave_mutex(pthread_mutex_t* m) noexcept {
  guard const here;
  int const r = UNIO_OWN(pthread_mutex_unlock)(m);
  if (r != 0) return r;
  current->lets_go(m);
  if (m->__data.__owner == 0) current->wake_all(need::mutex, m);
  return r;
}

int wait_condition(pthread_cond_t* c, pthread_mutex_t* m, std::int64_t until) noexcept {
  current->point(at::condition_wait);
  if (int const r = leave_mutex(m); r != 0) return r;
  bool const woken = current->block(need::condition, c, until);
  if (int const r = take_mutex(m, never); r != 0) return r;
  return woken ? 0 : ETIMEDOUT;
}

// That of pthread_cond_timedwait(): an attribute, which glibc keeps in a bit.
clockid_t clock_of(pthread_cond_t const* c) noexcept {
  return (c->__data.__wrefs & 2) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
}

int try_semaphore(sem_t* s) noexcept { return UNIO_OWN(sem_trywait)(s) == 0 ? 0 : errno; }

int take_semaphore(sem_t* s, clockid_t c, timespec const* when) noexcept {
  if (!is_moment(when)) return as_libc<int>(-EINVAL);
  std::int64_t const until = moment(c, when);
  current->point(at::semaphore_wait);
  guard const here;
  for (;;) {
    int const r = try_semaphore(s);
    if (r == 0) return 0;
    errno = r == EAGAIN ? ETIMEDOUT : r;
    if (r != EAGAIN || current->now >= until) return -1;
    (void)current->block(need::semaphore, s, until);
  }
}

// As glibc begins it: how many have come, and have to. At rest none has, and pthread_barrier_destroy() has
// nothing to wait for.
struct barrier {
  unsigned come;
  unsigned round;
  unsigned count;
};

// What the calling thread has locked for writing it cannot lock again.
int or_deadlock(pthread_rwlock_t const* l, int r) noexcept {
  return r == EBUSY && l->__data.__cur_writer == gettid() ? EDEADLK : r;
}
int take_reading(pthread_rwlock_t* l, std::int64_t until) noexcept {
  return take(need::rwlock, l, until,
              [l]() noexcept { return or_deadlock(l, UNIO_OWN(pthread_rwlock_tryrdlock)(l)); });
}
int take_writing(pthread_rwlock_t* l, std::int64_t until) noexcept {
  return take(need::rwlock, l, until,
              [l]() noexcept { return or_deadlock(l, UNIO_OWN(pthread_rwlock_trywrlock)(l)); });
}

// ---- once -----------------------------------------------------------------------------------------------

// As glibc keeps it: 2 is done. What is being done is of no one's value.
constexpr int once_is_done = 2, once_is_begun = 1;

struct once_guard {
  pthread_once_t* once;
  int after = 0; // an exception
  ~once_guard() {
    guard const here;
    *once = after;
    current->lets_go(once);
    current->wake_all(need::once, once);
  }
};

// ---- of C11 ----------------------------------------------------------------------------------------------

struct c11_thread {
  thrd_start_t run;
  void* argument;
};

void* run_c11(void* p) {
  c11_thread const t = *static_cast<c11_thread*>(p);
  delete static_cast<c11_thread*>(p);
  return reinterpret_cast<void*>(std::intptr_t{t.run(t.argument)});
}

int of_c11(int r) noexcept {
  return r == 0           ? thrd_success
         : r == EBUSY     ? thrd_busy
         : r == ETIMEDOUT ? thrd_timedout
         : r == ENOMEM    ? thrd_nomem
                          : thrd_error;
}

pthread_mutex_t* as_pthreads(mtx_t* m) noexcept { return reinterpret_cast<pthread_mutex_t*>(m); }
pthread_cond_t* as_pthreads(cnd_t* c) noexcept { return reinterpret_cast<pthread_cond_t*>(c); }

// ---- sleeping -------------------------------------------------------------------------------------------

void sleep_until(std::int64_t until) noexcept {
  current->point(at::sleep);
  while (current->now < until) (void)current->block(need::time, nullptr, until);
}

// ---- threads --------------------------------------------------------------------------------------------

pthread_key_t end_key;

void* begin(void* p) {
  thread& t = *static_cast<thread*>(p);
  current->begin_thread(t);
  if (on_begin_thread != nullptr) on_begin_thread(t);
  (void)pthread_setspecific(end_key, &t);
  return t.run(t.argument);
}

// The destructors of objects with thread storage duration run before those of keys, and these up to four
// times: this one ends the simulated thread in the third round.
void end(void* p) {
  thread& t = *static_cast<thread*>(p);
  if (++t.rounds < 3) {
    (void)pthread_setspecific(end_key, &t);
  } else {
    current->end_thread();
  }
}

int join_until(pthread_t handle, void** value, std::int64_t until) {
  current->point(at::thread_join);
  guard const here;
  if (thread* const t = current->find(handle); t != nullptr && t != me) {
    while (!t->has_ended) {
      if (current->now >= until) return ETIMEDOUT;
      (void)current->block(need::thread, t, until);
    }
    t->is_joined = true;
  }
  return UNIO_OWN(pthread_join)(handle, value);
}

} // namespace

void watch_ends() noexcept { (void)pthread_key_create(&end_key, end); }

void link_interposed() noexcept {}

std::int64_t futex(std::uint32_t* word, int operation, std::uint32_t value, timespec const* timeout,
                   std::uint32_t) noexcept {
  int const command = operation & FUTEX_CMD_MASK;
  if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
    current->point(at::futex_wake);
    guard const here;
    return current->wake(need::futex, word, static_cast<int>(std::min<std::uint32_t>(value, 1 << 30)));
  }
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET) return -ENOSYS;
  current->point(at::futex_wait);
  guard const here;
  std::int64_t until = never;
  if (timeout != nullptr)
    until = command == FUTEX_WAIT
                ? after(nanoseconds(*timeout))
                : moment((operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC, timeout);
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value) return -EAGAIN;
  if (until <= current->now) return -ETIMEDOUT;
  return current->block(need::futex, word, until) ? 0 : -ETIMEDOUT;
}

} // namespace unio::testing::threads

// ---- what takes the place of the C library's --------------------------------------------------------------

#define UNIO_IN_PLACE [[gnu::visibility("default"), gnu::used]]

using namespace unio::testing::threads;

extern "C" {

UNIO_IN_PLACE int pthread_create(pthread_t* handle, pthread_attr_t const* attributes, void* (*run)(void*),
                                 void* argument) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_create)(handle, attributes, run, argument);
  current->point(at::thread_create);
  {
    guard const here;
    thread& t = current->add();
    t.run = run;
    t.argument = argument;
    if (int const r = UNIO_OWN(pthread_create)(handle, attributes, begin, &t); r != 0) {
      t.has_ended = t.is_joined = true;
      return r;
    }
    t.handle = *handle;
  }
  current->point(at::thread_create);
  return 0;
}

UNIO_IN_PLACE int pthread_join(pthread_t handle, void** value) {
  return is_simulated() ? join_until(handle, value, never) : UNIO_OWN(pthread_join)(handle, value);
}
UNIO_IN_PLACE int pthread_tryjoin_np(pthread_t handle, void** value) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_tryjoin_np)(handle, value);
  int const r = join_until(handle, value, 0);
  return r == ETIMEDOUT ? EBUSY : r;
}
UNIO_IN_PLACE int pthread_timedjoin_np(pthread_t handle, void** value, timespec const* until) {
  if (!is_simulated()) return UNIO_OWN(pthread_timedjoin_np)(handle, value, until);
  return join_until(handle, value, moment(CLOCK_REALTIME, until));
}
UNIO_IN_PLACE int pthread_clockjoin_np(pthread_t handle, void** value, clockid_t c, timespec const* until) {
  if (!is_simulated()) return UNIO_OWN(pthread_clockjoin_np)(handle, value, c, until);
  return join_until(handle, value, moment(c, until));
}

UNIO_IN_PLACE int pthread_detach(pthread_t handle) noexcept {
  point(at::thread_detach);
  return UNIO_OWN(pthread_detach)(handle);
}

// The end of the thread of main() is one as others are: the process goes on.
UNIO_IN_PLACE void pthread_exit(void* value) {
  if (is_simulated()) (void)pthread_setspecific(end_key, me);
  UNIO_OWN(pthread_exit)(value);
  __builtin_unreachable();
}

UNIO_IN_PLACE int pthread_mutex_lock(pthread_mutex_t* m) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_mutex_lock)(m);
  current->point(at::mutex_lock);
  return take_mutex(m, never);
}
UNIO_IN_PLACE int pthread_mutex_trylock(pthread_mutex_t* m) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_mutex_trylock)(m);
  current->point(at::mutex_try_lock);
  guard const here;
  int const r = UNIO_OWN(pthread_mutex_trylock)(m);
  if (r == 0 || r == EOWNERDEAD) current->holds(m);
  return r;
}
UNIO_IN_PLACE int pthread_mutex_timedlock(pthread_mutex_t* m, timespec const* until) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_mutex_timedlock)(m, until);
  current->point(at::mutex_lock);
  return take_mutex(m, CLOCK_REALTIME, until);
}
UNIO_IN_PLACE int pthread_mutex_clocklock(pthread_mutex_t* m, clockid_t c, timespec const* until) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_mutex_clocklock)(m, c, until);
  current->point(at::mutex_lock);
  return take_mutex(m, c, until);
}
UNIO_IN_PLACE int pthread_mutex_unlock(pthread_mutex_t* m) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_mutex_unlock)(m);
  current->point(at::mutex_unlock);
  return leave_mutex(m);
}

UNIO_IN_PLACE int pthread_cond_wait(pthread_cond_t* c, pthread_mutex_t* m) {
  return is_simulated() ? wait_condition(c, m, never) : UNIO_OWN(pthread_cond_wait)(c, m);
}
UNIO_IN_PLACE int pthread_cond_timedwait(pthread_cond_t* c, pthread_mutex_t* m, timespec const* until) {
  if (!is_simulated()) return UNIO_OWN(pthread_cond_timedwait)(c, m, until);
  if (!is_moment(until)) return EINVAL;
  return wait_condition(c, m, moment(clock_of(c), until));
}
UNIO_IN_PLACE int pthread_cond_clockwait(pthread_cond_t* c, pthread_mutex_t* m, clockid_t clock,
                                         timespec const* until) {
  if (!is_simulated()) return UNIO_OWN(pthread_cond_clockwait)(c, m, clock, until);
  if (!is_moment(until)) return EINVAL;
  return wait_condition(c, m, moment(clock, until));
}
UNIO_IN_PLACE int pthread_cond_signal(pthread_cond_t* c) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_cond_signal)(c);
  current->point(at::condition_signal);
  guard const here;
  (void)current->wake(need::condition, c, 1);
  return 0;
}
UNIO_IN_PLACE int pthread_cond_broadcast(pthread_cond_t* c) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_cond_broadcast)(c);
  current->point(at::condition_broadcast);
  guard const here;
  current->wake_all(need::condition, c);
  return 0;
}

UNIO_IN_PLACE int pthread_rwlock_rdlock(pthread_rwlock_t* l) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_rdlock)(l);
  current->point(at::reader_lock);
  return take_reading(l, never);
}
UNIO_IN_PLACE int pthread_rwlock_wrlock(pthread_rwlock_t* l) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_wrlock)(l);
  current->point(at::writer_lock);
  return take_writing(l, never);
}
UNIO_IN_PLACE int pthread_rwlock_tryrdlock(pthread_rwlock_t* l) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_tryrdlock)(l);
  current->point(at::reader_lock);
  guard const here;
  int const r = UNIO_OWN(pthread_rwlock_tryrdlock)(l);
  if (r == 0) current->holds(l);
  return r;
}
UNIO_IN_PLACE int pthread_rwlock_trywrlock(pthread_rwlock_t* l) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_trywrlock)(l);
  current->point(at::writer_lock);
  guard const here;
  int const r = UNIO_OWN(pthread_rwlock_trywrlock)(l);
  if (r == 0) current->holds(l);
  return r;
}
UNIO_IN_PLACE int pthread_rwlock_clockrdlock(pthread_rwlock_t* l, clockid_t c,
                                             timespec const* until) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_clockrdlock)(l, c, until);
  if (!is_moment(until)) return EINVAL;
  current->point(at::reader_lock);
  return take_reading(l, moment(c, until));
}
UNIO_IN_PLACE int pthread_rwlock_clockwrlock(pthread_rwlock_t* l, clockid_t c,
                                             timespec const* until) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_clockwrlock)(l, c, until);
  if (!is_moment(until)) return EINVAL;
  current->point(at::writer_lock);
  return take_writing(l, moment(c, until));
}
UNIO_IN_PLACE int pthread_rwlock_timedrdlock(pthread_rwlock_t* l, timespec const* until) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_timedrdlock)(l, until);
  return pthread_rwlock_clockrdlock(l, CLOCK_REALTIME, until);
}
UNIO_IN_PLACE int pthread_rwlock_timedwrlock(pthread_rwlock_t* l, timespec const* until) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_timedwrlock)(l, until);
  return pthread_rwlock_clockwrlock(l, CLOCK_REALTIME, until);
}
UNIO_IN_PLACE int pthread_rwlock_unlock(pthread_rwlock_t* l) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_rwlock_unlock)(l);
  current->point(at::rwlock_unlock);
  guard const here;
  int const r = UNIO_OWN(pthread_rwlock_unlock)(l);
  current->lets_go(l);
  current->wake_all(need::rwlock, l);
  return r;
}

UNIO_IN_PLACE int pthread_once(pthread_once_t* once, void (*f)()) {
  if (!is_simulated()) return UNIO_OWN(pthread_once)(once, f);
  current->point(at::once);
  while (*once == once_is_begun) (void)current->block(need::once, once, never);
  if (*once == once_is_done) return 0;
  *once = once_is_begun;
  {
    guard const here;
    current->holds(once);
  }
  once_guard g{once};
  f();
  g.after = once_is_done;
  return 0;
}

UNIO_IN_PLACE int sem_wait(sem_t* s) {
  return is_simulated() ? take_semaphore(s, CLOCK_REALTIME, nullptr) : UNIO_OWN(sem_wait)(s);
}
UNIO_IN_PLACE int sem_timedwait(sem_t* s, timespec const* until) {
  return is_simulated() ? take_semaphore(s, CLOCK_REALTIME, until) : UNIO_OWN(sem_timedwait)(s, until);
}
UNIO_IN_PLACE int sem_clockwait(sem_t* s, clockid_t c, timespec const* until) {
  return is_simulated() ? take_semaphore(s, c, until) : UNIO_OWN(sem_clockwait)(s, c, until);
}
UNIO_IN_PLACE int sem_trywait(sem_t* s) noexcept {
  point(at::semaphore_wait);
  return UNIO_OWN(sem_trywait)(s);
}
UNIO_IN_PLACE int sem_post(sem_t* s) noexcept {
  if (!is_simulated()) return UNIO_OWN(sem_post)(s);
  current->point(at::semaphore_post);
  guard const here;
  int const r = UNIO_OWN(sem_post)(s);
  current->wake_all(need::semaphore, s);
  return r;
}

UNIO_IN_PLACE int pthread_barrier_wait(pthread_barrier_t* b) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_barrier_wait)(b);
  current->point(at::barrier_wait);
  guard const here;
  auto& kept = *reinterpret_cast<barrier*>(b);
  if (++kept.come < kept.count) {
    (void)current->block(need::barrier, b, never);
    return 0;
  }
  kept.come = 0;
  current->wake_all(need::barrier, b);
  return PTHREAD_BARRIER_SERIAL_THREAD;
}

UNIO_IN_PLACE int pthread_spin_lock(pthread_spinlock_t* l) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_spin_lock)(l);
  current->point(at::mutex_lock);
  return take(need::mutex, const_cast<int*>(l), never,
              [l]() noexcept { return UNIO_OWN(pthread_spin_trylock)(l); });
}
UNIO_IN_PLACE int pthread_spin_trylock(pthread_spinlock_t* l) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_spin_trylock)(l);
  current->point(at::mutex_try_lock);
  guard const here;
  int const r = UNIO_OWN(pthread_spin_trylock)(l);
  if (r == 0) current->holds(const_cast<int*>(l));
  return r;
}
UNIO_IN_PLACE int pthread_spin_unlock(pthread_spinlock_t* l) noexcept {
  if (!is_simulated()) return UNIO_OWN(pthread_spin_unlock)(l);
  current->point(at::mutex_unlock);
  guard const here;
  int const r = UNIO_OWN(pthread_spin_unlock)(l);
  current->lets_go(const_cast<int*>(l));
  current->wake_all(need::mutex, const_cast<int*>(l));
  return r;
}

// ---- of C11, which in the C library are those above

UNIO_IN_PLACE int thrd_create(thrd_t* handle, thrd_start_t run, void* argument) {
  auto* const begun = new c11_thread{run, argument};
  int const r = pthread_create(handle, nullptr, run_c11, begun);
  if (r != 0) delete begun;
  return of_c11(r);
}
UNIO_IN_PLACE int thrd_join(thrd_t handle, int* value) {
  void* result = nullptr;
  int const r = pthread_join(handle, &result);
  if (r == 0 && value != nullptr) *value = static_cast<int>(reinterpret_cast<std::intptr_t>(result));
  return of_c11(r);
}
UNIO_IN_PLACE int thrd_detach(thrd_t handle) { return of_c11(pthread_detach(handle)); }
UNIO_IN_PLACE void thrd_exit(int value) { pthread_exit(reinterpret_cast<void*>(std::intptr_t{value})); }
UNIO_IN_PLACE void thrd_yield() { (void)sched_yield(); }
UNIO_IN_PLACE int thrd_sleep(timespec const* t, timespec* left) {
  return nanosleep(t, left) == 0 ? 0 : errno == EINTR ? -1 : -2;
}
UNIO_IN_PLACE int mtx_lock(mtx_t* m) { return of_c11(pthread_mutex_lock(as_pthreads(m))); }
UNIO_IN_PLACE int mtx_timedlock(mtx_t* m, timespec const* until) {
  return of_c11(pthread_mutex_timedlock(as_pthreads(m), until));
}
UNIO_IN_PLACE int mtx_trylock(mtx_t* m) { return of_c11(pthread_mutex_trylock(as_pthreads(m))); }
UNIO_IN_PLACE int mtx_unlock(mtx_t* m) { return of_c11(pthread_mutex_unlock(as_pthreads(m))); }
UNIO_IN_PLACE int cnd_signal(cnd_t* c) { return of_c11(pthread_cond_signal(as_pthreads(c))); }
UNIO_IN_PLACE int cnd_broadcast(cnd_t* c) { return of_c11(pthread_cond_broadcast(as_pthreads(c))); }
UNIO_IN_PLACE int cnd_wait(cnd_t* c, mtx_t* m) {
  return of_c11(pthread_cond_wait(as_pthreads(c), as_pthreads(m)));
}
UNIO_IN_PLACE int cnd_timedwait(cnd_t* c, mtx_t* m, timespec const* until) {
  return of_c11(pthread_cond_timedwait(as_pthreads(c), as_pthreads(m), until));
}
UNIO_IN_PLACE void call_once(once_flag* once, void (*f)()) {
  (void)pthread_once(reinterpret_cast<pthread_once_t*>(once), f);
}

// ---- of streams: who has such a lock goes on alone, as all functions of stdio wait for it in the kernel

UNIO_IN_PLACE int ftrylockfile(FILE* f) noexcept {
  int const r = UNIO_OWN(ftrylockfile)(f);
  if (r == 0 && is_simulated()) ++me->stays;
  return r;
}
UNIO_IN_PLACE void flockfile(FILE* f) noexcept {
  if (!is_simulated()) return UNIO_OWN(flockfile)(f);
  current->point(at::mutex_lock);
  (void)take(need::mutex, f, never, [f]() noexcept { return UNIO_OWN(ftrylockfile)(f) == 0 ? 0 : EBUSY; });
  ++me->stays;
}
UNIO_IN_PLACE void funlockfile(FILE* f) noexcept {
  UNIO_OWN(funlockfile)(f);
  if (!is_simulated()) return;
  guard const here;
  --me->stays;
  current->lets_go(f);
  current->wake_all(need::mutex, f);
}

UNIO_IN_PLACE int sched_yield() noexcept {
  if (!is_simulated()) return UNIO_OWN(sched_yield)();
  current->yield();
  return 0;
}

UNIO_IN_PLACE int clock_nanosleep(clockid_t c, int flags, timespec const* t, timespec* left) {
  if (!is_simulated()) return UNIO_OWN(clock_nanosleep)(c, flags, t, left);
  if (c == CLOCK_THREAD_CPUTIME_ID) return EINVAL;
  if (!is_virtual(c)) return static_cast<int>(-unio::sys::call(SYS_clock_nanosleep, c, flags, t, left));
  if (!is_span(*t)) return EINVAL;
  sleep_until((flags & TIMER_ABSTIME) != 0 ? moment(c, t) : after(nanoseconds(*t)));
  return 0;
}
UNIO_IN_PLACE int nanosleep(timespec const* t, timespec* left) {
  if (!is_simulated()) return UNIO_OWN(nanosleep)(t, left);
  if (!is_span(*t)) return as_libc<int>(-EINVAL);
  sleep_until(after(nanoseconds(*t)));
  return 0;
}
UNIO_IN_PLACE int usleep(useconds_t us) {
  if (!is_simulated()) return UNIO_OWN(usleep)(us);
  sleep_until(current->now + std::int64_t{us} * 1000);
  return 0;
}
UNIO_IN_PLACE unsigned sleep(unsigned s) {
  if (!is_simulated()) return UNIO_OWN(sleep)(s);
  sleep_until(current->now + std::int64_t{s} * second);
  return 0;
}

UNIO_IN_PLACE int clock_gettime(clockid_t c, timespec* t) noexcept {
  // The C library enters the kernel for such a clock from the vDSO, where a preloaded library's filter traps
  // it, and the trap calls this function.
  if (!is_virtual(c)) return as_libc<int>(unio::sys::call(SYS_clock_gettime, c, t));
  if (!is_simulated()) return UNIO_OWN(clock_gettime)(c, t);
  current->point(at::clock);
  *t = to_timespec(time_of(c));
  return 0;
}
UNIO_IN_PLACE int gettimeofday(timeval* t, void* zone) noexcept {
  if (!is_simulated()) return UNIO_OWN(gettimeofday)(t, zone);
  current->point(at::clock);
  std::int64_t const now = time_of(CLOCK_REALTIME);
  *t = {.tv_sec = now / second, .tv_usec = now % second / 1000};
  return 0;
}
UNIO_IN_PLACE time_t time(time_t* t) noexcept {
  if (!is_simulated()) return UNIO_OWN(time)(t);
  current->point(at::clock);
  time_t const now = time_of(CLOCK_REALTIME) / second;
  if (t != nullptr) *t = now;
  return now;
}

UNIO_IN_PLACE int get_nprocs() noexcept { return is_simulated() ? 2 : UNIO_OWN(get_nprocs)(); }

// As the C++ library waits for atomics. Weak: src/testing/libc has a stricter one.
[[gnu::weak]] UNIO_IN_PLACE long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& one : a) one = va_arg(list, long);
  va_end(list);
  std::int64_t r = 0;
  if (number == SYS_futex && is_simulated()) {
    r = futex(reinterpret_cast<std::uint32_t*>(a[0]), static_cast<int>(a[1]),
              static_cast<std::uint32_t>(a[2]), reinterpret_cast<timespec const*>(a[3]),
              static_cast<std::uint32_t>(a[5]));
  } else {
    r = unio::sys::call(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  return as_libc<long>(r);
}

} // extern "C"
