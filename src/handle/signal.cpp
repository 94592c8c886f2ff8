// Signals: who wants which, and the handler that passes them on.
//
// Handles that take signals by a handler have a place in a list that only grows. The handler goes through it
// without a lock and writes the signal into the pipe of each that wants it:
//
//   handler       users + 1  ->  wanted?  ->  write  ->  users - 1
//   close         wanted = 0  ->  wait until users is 0  ->  end the waits  ->  close the pipe
//
// Both sides' first steps are sequentially consistent, so that one of them sees the other's.
//
// What the pipe has no room for is noted. Who has read a record then writes what is noted: the last read has
// made room, at the latest.
//
//   handler   full  ->  missed  ->  write again: has room by now?
//   wait      read  ->  missed?  ->  write

#include "sys/descriptors.hpp"
#include "sys/fork.hpp"
#include "sys/give_way.hpp"
#include "sys/sigpipe.hpp"

#include <unio/signal_handle.hpp>

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <mutex>
#include <new>

namespace unio::inline v0_1 {

static_assert(sizeof(signal_handle) == 24);
static_assert(std::is_trivially_copyable_v<signal_info>); // goes through a pipe, in one piece

/// One place in the list.
struct detail::signal_subscription {
  std::atomic<std::uint64_t> wanted{0}; ///< 0: it has no owner, or is being given up
  std::atomic<int> users{0};            ///< handlers that are looking at it
  std::atomic<int> fd{-1};              ///< the pipe to write to
  int reader = -1; ///< its other end once more: the handle's may be closed, and no write is to raise SIGPIPE
  std::uint64_t counted = 0;            ///< what it has in `counts`; 0: free
  std::atomic<std::uint64_t> missed{0}; ///< had no room in the pipe, and have none in it now
  std::atomic<signal_subscription*> next{nullptr};
};

namespace {

using detail::signal_subscription;

constexpr int most = 64;
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

/// What handled a signal before. It stays for good: a handler that was delayed may still be reading it when
/// another one was installed.
struct disposition {
  struct sigaction action;
  disposition* next;
};

constinit sys::process_lock lock(sys::guarded::signals); // of what follows, but for what the handler reads
constinit std::atomic<signal_subscription*> all{nullptr};
int counts[most + 1];                                    // how many handles take a signal
constinit std::atomic<disposition*> earlier[most + 1]{}; // what handled it before; not null once we have
constinit disposition* dispositions = nullptr;           // all that `earlier` ever had
bool covered[most + 1];                                  // somebody installed another handler over ours
constinit std::atomic<std::uint64_t> owner{0}; // whose handles these are: not a forked child of that process

// A child may have its number, in a namespace of its own, or once it is given out again; and one that was
// made without fork(2) is not counted.
std::uint64_t this_process() noexcept {
  return std::uint64_t{sys::fork_generation()} << 32 | static_cast<std::uint32_t>(::getpid());
}

template <class F> void for_each_signal(std::uint64_t bits, F f) noexcept {
  for (int n = 1; n <= most; ++n)
    if ((bits >> (n - 1) & 1) != 0) f(n);
}

signal_info described(int number, siginfo_t const& i) noexcept {
  signal_info s;
  s.number = number;
  s.code = i.si_code;
  s.process = i.si_pid;
  s.user = i.si_uid;
  s.value = number == SIGCHLD
                ? i.si_status
                : static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(i.si_value.sival_ptr));
  return s;
}

bool has_put(signal_subscription& p, signal_info const& s) noexcept {
  return sys::past_tests::write(p.fd.load(std::memory_order_relaxed), &s, sizeof s) > 0;
}

void put(signal_subscription& p, signal_info const& s) noexcept {
  if (has_put(p, s)) return;
  std::uint64_t const bit = std::uint64_t{1} << (s.number - 1);
  p.missed.fetch_or(bit, std::memory_order_seq_cst);
  // All may have been read since, and then nothing would look at what is noted.
  if (has_put(p, s)) p.missed.fetch_and(~bit, std::memory_order_seq_cst);
}

void pass_on(int number, siginfo_t const& i) noexcept {
  signal_info const s = described(number, i);
  for (signal_subscription* p = all.load(std::memory_order_acquire); p != nullptr;
       p = p->next.load(std::memory_order_acquire)) {
    p->users.fetch_add(1, std::memory_order_seq_cst);
    if ((p->wanted.load(std::memory_order_seq_cst) >> (number - 1) & 1) != 0) put(*p, s);
    p->users.fetch_sub(1, std::memory_order_release);
  }
}

bool is_default(struct sigaction const& a) noexcept {
  return (a.sa_flags & SA_SIGINFO) == 0 && a.sa_handler == SIG_DFL;
}
bool is_ignored(struct sigaction const& a) noexcept {
  return (a.sa_flags & SA_SIGINFO) == 0 && a.sa_handler == SIG_IGN;
}

void on_signal(int number, siginfo_t* info, void* context) {
  int const interrupted_errno = errno;
  struct sigaction const& before = earlier[number].load(std::memory_order_acquire)->action;
  if (owner.load(std::memory_order_relaxed) == this_process()) {
    pass_on(number, *info);
  } else if (is_default(before)) {
    // A forked child, which took over the handler. The signal comes again when this one returns.
    ::sigaction(number, &before, nullptr);
    (void)::raise(number);
  }
  errno = interrupted_errno;
  if (is_default(before) || is_ignored(before)) return;
  if ((before.sa_flags & SA_SIGINFO) != 0) {
    before.sa_sigaction(number, info, context);
  } else {
    before.sa_handler(number);
  }
}

bool is_ours(struct sigaction const& a) noexcept {
  return (a.sa_flags & SA_SIGINFO) != 0 && a.sa_sigaction == on_signal;
}

// Preconditions of what follows: the lock is held.

bool is_same(struct sigaction const& a, struct sigaction const& b) noexcept {
  // The two kinds of handler share their place.
  return a.sa_flags == b.sa_flags && a.sa_sigaction == b.sa_sigaction &&
         std::memcmp(&a.sa_mask, &b.sa_mask, sizeof a.sa_mask) == 0;
}

/// Null: no memory.
disposition* kept(struct sigaction const& a) noexcept {
  for (disposition* d = dispositions; d != nullptr; d = d->next)
    if (is_same(d->action, a)) return d;
  auto* const made = new (std::nothrow) disposition{a, dispositions};
  if (made != nullptr) dispositions = made;
  return made;
}

int install(int number) noexcept {
  struct sigaction now;
  bool const is_first = counts[number]++ == 0;
  if (::sigaction(number, nullptr, &now) != 0) return -errno;
  // A forked child that had the signal, which it survived, has taken the parent's handler away (on_signal()).
  if (!is_first && !is_default(now)) return 0;
  // A handler that was installed over ours calls it: to be called by it and to call it would have no end.
  bool const is_covered = covered[number] && !is_default(now) && !is_ignored(now);
  if (is_ours(now) || is_covered) return 0;
  disposition* const before = kept(now);
  if (before == nullptr) return -ENOMEM;
  covered[number] = false;
  earlier[number].store(before, std::memory_order_release); // pairs with the acquire in on_signal()
  struct sigaction a = {};
  a.sa_sigaction = on_signal;
  a.sa_mask = now.sa_mask;
  a.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK | (now.sa_flags & (SA_NOCLDSTOP | SA_NOCLDWAIT));
  if (number == SIGCHLD && is_ignored(now))
    a.sa_flags |= SA_NOCLDWAIT; // the kernel goes on removing children
  return ::sigaction(number, &a, nullptr) == 0 ? 0 : -errno;
}

void uninstall(int number) noexcept {
  if (--counts[number] != 0) return;
  struct sigaction now;
  if (::sigaction(number, nullptr, &now) != 0) return;
  covered[number] = !is_ours(now);
  if (is_ours(now)) ::sigaction(number, &earlier[number].load(std::memory_order_relaxed)->action, nullptr);
}

int install_all(std::uint64_t bits) noexcept {
  int failed = 0;
  std::uint64_t done = 0;
  for_each_signal(bits, [&](int n) {
    if (failed != 0) return;
    failed = install(n);
    if (failed != 0) {
      --counts[n];
    } else {
      done |= std::uint64_t{1} << (n - 1);
    }
  });
  if (failed != 0) for_each_signal(done, uninstall);
  return failed;
}

signal_subscription* free_place() noexcept {
  for (signal_subscription* p = all.load(); p != nullptr; p = p->next.load())
    if (p->counted == 0) return p;
  auto* const p = new (std::nothrow) signal_subscription;
  if (p == nullptr) return nullptr;
  p->next.store(all.load());
  all.store(p, std::memory_order_release); // pairs with the acquire in pass_on()
  return p;
}

} // namespace

void detail::put_missed(signal_subscription& place) noexcept {
  if (place.missed.load(std::memory_order_seq_cst) == 0) [[likely]]
    return;
  place.users.fetch_add(1, std::memory_order_seq_cst); // as the handler: the pipe stays open
  std::uint64_t const missed = place.missed.load(std::memory_order_seq_cst);
  for_each_signal(missed & place.wanted.load(std::memory_order_seq_cst), [&](int n) {
    signal_info s;
    s.number = n;
    place.missed.fetch_and(~(std::uint64_t{1} << (n - 1)), std::memory_order_seq_cst);
    put(place, s);
  });
  place.users.fetch_sub(1, std::memory_order_release);
}

namespace {

// A child has none of the threads that were inside a handler at the fork.
void forget_users() noexcept {
  for (signal_subscription* p = all.load(); p != nullptr; p = p->next.load()) p->users.store(0);
}

// In a forked child the handles of the parent take nothing any more.
void take_ownership() noexcept {
  lock.in_child(&forget_users);
  std::uint64_t const self = this_process();
  if (owner.load() == self) return;
  for (signal_subscription* p = all.load(); p != nullptr; p = p->next.load()) p->wanted.store(0);
  owner.store(self);
}

// ---- making one ------------------------------------------------------------------------------------------

int check(signal_set s) noexcept {
  bool good = s.is_valid() && s.bits() != 0;
  for (int const n : {SIGKILL, SIGSTOP, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) good = good && !s.contains(n);
  for (int n = 32; n < SIGRTMIN; ++n) good = good && !s.contains(n); // the C library's
  return good ? 0 : -EINVAL;
}

sigset_t as_sigset(signal_set s) noexcept {
  sigset_t set;
  sigemptyset(&set);
  for_each_signal(s.bits(), [&](int n) { sigaddset(&set, n); });
  return set;
}

// After this no handler writes.
void unsubscribe(signal_subscription& place) noexcept {
  std::lock_guard const guard(lock);
  for_each_signal(place.counted, uninstall);
  place.wanted.store(0, std::memory_order_seq_cst);
  sys::await_other(
      [&] { return place.users.load(std::memory_order_seq_cst) == 0; }); // as long as a handler writes
}

// A table of calls that stands for the kernel has no signals, and says so: a simulation, by name.
int ask_for_signals(std::uint64_t bits) noexcept {
  if (sys::kernel_answers()) return 0;
  std::int64_t const fd = sys::signalfd(-1, &bits);
  if (fd >= 0) sys::close(static_cast<int>(fd));
  return static_cast<int>(std::min<std::int64_t>(fd, 0));
}

} // namespace

result<signal_handle> signal_handle::create(signal_set signals, delivery how) noexcept {
  if (int const e = check(signals); e != 0) return detail::failed(e, "create");
  std::uint64_t const bits = signals.bits();
  if (how == delivery::mask) {
    int const fd = sys::above_standard(sys::signalfd(-1, &bits));
    if (fd < 0) return detail::failed(fd, "create");
    sigset_t const set = as_sigset(signals);
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    return signal_handle(fd, nullptr);
  }
  if (int const e = ask_for_signals(bits); e != 0) return detail::failed(e, "create");
  int ends[2];
  if (std::int64_t const r = sys::pipe(ends, O_CLOEXEC | O_NONBLOCK); r < 0)
    return detail::failed(r, "create");
  signal_handle made(sys::above_standard(ends[0]), nullptr);
  handle writer = signal_handle(sys::above_standard(ends[1]), nullptr);
  if (!made.is_open() || !writer.is_open()) return detail::failed(-EMFILE, "create");
  result<handle> reader = made.clone();
  if (!reader) return reader.error();

  std::lock_guard const guard(lock);
  take_ownership();
  signal_subscription* const place = free_place();
  if (place == nullptr) return detail::failed(-ENOMEM, "create");
  if (int const e = install_all(bits); e != 0) return detail::failed(e, "create");
  place->counted = bits;
  place->missed.store(0, std::memory_order_relaxed);
  place->fd.store(writer.release(), std::memory_order_relaxed);
  place->reader = reader->release();
  place->wanted.store(bits, std::memory_order_seq_cst);
  made.subscription_ = place;
  return made;
}

signal_handle& signal_handle::operator=(signal_handle&& other) noexcept {
  if (this != &other) {
    (void)close();
    handle::operator=(static_cast<handle&&>(other));
    subscription_ = std::exchange(other.subscription_, nullptr);
  }
  return *this;
}

// The writing end goes last: to a wait on another thread the end of the pipe would be a signal without a
// number.
result<void> signal_handle::close() noexcept {
  signal_subscription* const place = std::exchange(subscription_, nullptr);
  if (place == nullptr) return handle::close();
  unsubscribe(*place);
  result<void> const closed = handle::close();
  sys::close(place->fd.exchange(-1));
  sys::close(std::exchange(place->reader, -1));
  std::lock_guard const guard(lock);
  place->counted = 0;
  return closed;
}

result<void> block_signals(signal_set signals) noexcept {
  if (!signals.is_valid()) return detail::failed(-EINVAL, "block_signals");
  sigset_t const set = as_sigset(signals);
  if (int const e = pthread_sigmask(SIG_BLOCK, &set, nullptr); e != 0)
    return detail::failed(-e, "block_signals");
  return {};
}

result<void> ignore_sigpipe() noexcept {
  if (int const e = sys::ignore_sigpipe(); e < 0) return detail::to_error_code(e);
  return {};
}

} // namespace unio
