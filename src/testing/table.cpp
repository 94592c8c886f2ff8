// The table of system calls while a simulation lives. On its thread time, and all that is opened, is the
// world's; descriptors that were open before stay the system's. What is not simulated is refused by name, and
// so is what would let a simulated descriptor, or a program under test, out of the simulation.

#include "sys/calls.hpp"
#include "testing/thread_hooks.hpp"
#include "testing/world.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <ctime>
#include <string>

namespace unio::inline v0_1::testing {

constinit thread_hooks const* simulated_threads = nullptr;

namespace {

world* installed = nullptr;
std::uint64_t installations = 0;
sys::table const* before = nullptr;
thread_local bool is_its_thread = false;

// Of simulated threads each is.
bool this_thread_simulates() noexcept {
  return is_its_thread || (simulated_threads != nullptr && simulated_threads->this_thread() >= 0);
}

bool simulated(int fd) noexcept { return installed->owns(fd); }

bool no_wait(int flags) noexcept { return (flags & RWF_NOWAIT) != 0; }

// On the simulation's thread; another one must not touch the world, but to say what it was refused.
std::int64_t refuse(char const* name) noexcept { return installed->refuse(std::string(name) + "(2)"); }
std::int64_t refuse_elsewhere(char const* name, char const* why) noexcept {
  return installed->refuse_elsewhere(std::string(name) + "(2) " + why);
}

constexpr char const* not_its_thread = "of a simulated descriptor on a thread that is not the simulation's";
constexpr char const* no_threads =
    "on a thread that is not the simulation's: it has one (simulation_options::other_threads)";

std::int64_t read_one(call c, int fd, void* data, std::size_t n) noexcept {
  iovec const v{data, n};
  return installed->read(c, fd, &v, 1, -1, false);
}

std::int64_t write_one(call c, int fd, void const* data, std::size_t n) noexcept {
  iovec const v{const_cast<void*>(data), n};
  return installed->write(c, fd, &v, 1, -1, false);
}

std::int64_t poll_ready(pollfd* fds, unsigned n) noexcept {
  std::int64_t ready = 0;
  for (unsigned i = 0; i < n; ++i) {
    pollfd& p = fds[i];
    p.revents = 0;
    if (simulated(p.fd)) {
      int events = 0;
      if ((p.events & POLLIN) != 0 && installed->is_ready(p.fd, readiness::readable)) events |= POLLIN;
      if ((p.events & POLLOUT) != 0 && installed->is_ready(p.fd, readiness::writable)) events |= POLLOUT;
      p.revents = static_cast<short>(events);
    } else if (p.fd >= 0) {
      timespec const now{};
      if (before->poll(&p, 1, &now) < 0) p.revents = POLLERR;
    }
    if (p.revents != 0) ++ready;
  }
  return ready;
}

std::int64_t poll(pollfd* fds, unsigned n, timespec const* timeout) noexcept {
  bool ours = n == 0 && this_thread_simulates() && timeout != nullptr;
  for (unsigned i = 0; i < n; ++i) ours = ours || simulated(fds[i].fd);
  if (!ours) return before->poll(fds, n, timeout);
  if (!this_thread_simulates()) return refuse_elsewhere("poll", not_its_thread);
  std::int64_t const span =
      timeout == nullptr ? -1 : std::int64_t{timeout->tv_sec} * 1'000'000'000 + timeout->tv_nsec;
  // As select(2) warns, what is reported ready may not be. Only a thread that would sleep is woken so.
  bool const wakes_for_nothing =
      n != 0 && span != 0 && installed->options.spurious_wakeups && installed->random.one_in(8);
  return installed->poll(span, [&]() noexcept -> std::int64_t {
    std::int64_t const ready = poll_ready(fds, n);
    if (ready != 0 || !wakes_for_nothing) return ready;
    fds[0].revents = fds[0].events;
    return 1;
  });
}

template <auto Entry> constexpr char const* name_of() noexcept {
#define UNIO_NAME(name, parameters, arguments)                                \
  if constexpr (std::is_same_v<decltype(Entry), decltype(&sys::table::name)>) \
    if (Entry == &sys::table::name) return #name;
  UNIO_SYSTEM_CALLS(UNIO_NAME)
#undef UNIO_NAME
  return "?";
}

// Entries of the table. Of a call on a descriptor: `Ours` answers for simulated descriptors, the table that
// was there before for others. Of a call that opens or names something: `Ours` answers on this thread.
template <auto Entry, auto Ours> struct divided;
template <class... A, std::int64_t (*sys::table::*Entry)(int, A...) noexcept, auto Ours>
struct divided<Entry, Ours> {
  static std::int64_t answer(int fd, A... a) noexcept {
    if (!simulated(fd)) return (before->*Entry)(fd, a...);
    if (!this_thread_simulates()) return refuse_elsewhere(name_of<Entry>(), not_its_thread);
    if constexpr (std::is_null_pointer_v<decltype(Ours)>) {
      return refuse(name_of<Entry>());
    } else {
      return Ours(fd, a...);
    }
  }
};
template <auto Entry, auto Ours> struct made_here;
template <class... A, std::int64_t (*sys::table::*Entry)(A...) noexcept, auto Ours>
struct made_here<Entry, Ours> {
  static std::int64_t answer(A... a) noexcept {
    if (!this_thread_simulates())
      return installed->options.other_threads ? (before->*Entry)(a...)
                                              : refuse_elsewhere(name_of<Entry>(), no_threads);
    if constexpr (std::is_null_pointer_v<decltype(Ours)>) {
      return refuse(name_of<Entry>());
    } else {
      return Ours(a...);
    }
  }
};
template <auto Entry, auto Ours = nullptr> void divide(sys::table& t) noexcept {
  t.*Entry = divided<Entry, Ours>::answer;
}
template <auto Entry, auto Ours = nullptr> void make_here(sys::table& t) noexcept {
  t.*Entry = made_here<Entry, Ours>::answer;
}

// Of a call on a path: what is relative to a directory of the system's is the system's.
template <auto Entry, auto Ours> struct by_path_only;
template <class... A, std::int64_t (*sys::table::*Entry)(int, char const*, A...) noexcept, auto Ours>
struct by_path_only<Entry, Ours> {
  static std::int64_t answer(int dir, char const* path, A... a) noexcept {
    bool const ours = *path == '/' || dir == AT_FDCWD || simulated(dir);
    if (!ours) return (before->*Entry)(dir, path, a...);
    return made_here<Entry, Ours>::answer(dir, path, a...);
  }
};
template <auto Entry, auto Ours> void by_path(sys::table& t) noexcept {
  t.*Entry = by_path_only<Entry, Ours>::answer;
}

sys::table made() noexcept {
  using sys::table;
  table t{};
  // What is neither divided nor answered here below is refused, also what is new in the table.
#define UNIO_REFUSED(name, parameters, arguments) make_here<&table::name>(t);
  UNIO_SYSTEM_CALLS(UNIO_REFUSED)
#undef UNIO_REFUSED
  t.sched_yield = before->sched_yield;
  t.futex = before->futex;
  t.membarrier = before->membarrier;
  t.munmap = before->munmap;
  t.mmap = [](void* at, std::size_t n, int protection, int flags, int fd, std::int64_t offset) noexcept {
    if (!simulated(fd)) return before->mmap(at, n, protection, flags, fd, offset);
    return this_thread_simulates() ? refuse("mmap") : refuse_elsewhere("mmap", not_its_thread);
  };
  t.ask_libc = []() noexcept {
    if (installed->options.other_threads) return before->ask_libc();
    std::string const name = "getaddrinfo(3)";
    return this_thread_simulates() ? installed->refuse(name)
                                   : installed->refuse_elsewhere(name + ' ' + no_threads);
  };
  divide<&table::vmsplice>(t);
  divide<&table::epoll_ctl>(t);
  divide<&table::epoll_wait>(t);
  divide<&table::io_uring_enter>(t);
  divide<&table::io_uring_register>(t);
  divide<&table::fstatfs>(t);
  divide<&table::fadvise, [](int, std::int64_t, std::int64_t, int) { return std::int64_t{0}; }>(t);
  divide<&table::fchmod, [](int fd, unsigned mode) { return installed->change_mode(fd, mode); }>(t);
  divide<&table::lseek, [](int fd, std::int64_t at, int whence) { return installed->seek(fd, at, whence); }>(
      t);
  divide<&table::read, [](int fd, void* p, std::size_t n) { return read_one(call::read, fd, p, n); }>(t);
  divide<&table::recv, [](int fd, void* p, std::size_t n, int) { return read_one(call::recv, fd, p, n); }>(t);
  divide<&table::readv, [](int fd, iovec const* v, int n) {
    return installed->read(call::readv, fd, v, static_cast<std::size_t>(n), -1, false);
  }>(t);
  divide<&table::preadv2, [](int fd, iovec const* v, int n, std::int64_t at, int flags) {
    return installed->read(call::preadv2, fd, v, static_cast<std::size_t>(n), at, no_wait(flags));
  }>(t);
  divide<&table::recvmsg, [](int fd, msghdr* m, int flags) {
    if (installed->is_datagrams(fd)) {
      if ((flags & MSG_ERRQUEUE) != 0) return std::int64_t{-EAGAIN}; // nothing is ever reported
      mmsghdr one{.msg_hdr = *m, .msg_len = 0};
      std::int64_t const r = installed->receive_messages(call::recvmsg, fd, &one, 1);
      if (r == 1) *m = one.msg_hdr;
      return r == 1 ? std::int64_t{one.msg_len} : r;
    }
    m->msg_namelen = 0;
    m->msg_controllen = 0;
    m->msg_flags = 0;
    return installed->read(call::recvmsg, fd, m->msg_iov, m->msg_iovlen, -1, false);
  }>(t);
  divide<&table::write,
         [](int fd, void const* p, std::size_t n) { return write_one(call::write, fd, p, n); }>(t);
  divide<&table::send,
         [](int fd, void const* p, std::size_t n, int) { return write_one(call::send, fd, p, n); }>(t);
  divide<&table::writev, [](int fd, iovec const* v, int n) {
    return installed->write(call::writev, fd, v, static_cast<std::size_t>(n), -1, false);
  }>(t);
  divide<&table::pwritev2, [](int fd, iovec const* v, int n, std::int64_t at, int flags) {
    return installed->write(call::pwritev2, fd, v, static_cast<std::size_t>(n), at, no_wait(flags));
  }>(t);
  divide<&table::sendmsg, [](int fd, msghdr const* m, int) {
    if (installed->is_datagrams(fd)) {
      mmsghdr one{.msg_hdr = *m, .msg_len = 0};
      std::int64_t const r = installed->send_messages(call::sendmsg, fd, &one, 1);
      return r == 1 ? std::int64_t{one.msg_len} : r;
    }
    return installed->write(call::sendmsg, fd, m->msg_iov, m->msg_iovlen, -1, false);
  }>(t);
  divide<&table::recvmmsg, [](int fd, mmsghdr* m, unsigned n, int) {
    return installed->receive_messages(call::recvmmsg, fd, m, n);
  }>(t);
  divide<&table::sendmmsg, [](int fd, mmsghdr* m, unsigned n, int) {
    return installed->send_messages(call::sendmmsg, fd, m, n);
  }>(t);
  divide<&table::connect,
         [](int fd, sockaddr const* a, unsigned size) { return installed->connect(fd, a, size); }>(t);
  divide<&table::getsockname,
         [](int fd, sockaddr* a, unsigned* size) { return installed->name_of(fd, false, a, size); }>(t);
  divide<&table::getpeername,
         [](int fd, sockaddr* a, unsigned* size) { return installed->name_of(fd, true, a, size); }>(t);
  t.splice = [](int in, std::int64_t* in_at, int out, std::int64_t* out_at, std::size_t n,
                unsigned flags) noexcept {
    if (!simulated(in) && !simulated(out)) return before->splice(in, in_at, out, out_at, n, flags);
    if (!this_thread_simulates()) return refuse_elsewhere("splice", not_its_thread);
    return installed->splice(simulated(in) ? in : out);
  };
  divide<&table::fsync, [](int fd) { return installed->sync(call::fsync, fd); }>(t);
  divide<&table::fdatasync, [](int fd) { return installed->sync(call::fdatasync, fd); }>(t);
  divide<&table::sync_file_range, [](int fd, std::int64_t, std::int64_t, unsigned) {
    return installed->sync(call::sync_file_range, fd);
  }>(t);
  divide<&table::accept4,
         [](int fd, sockaddr* from, unsigned* size, int) { return installed->accept(fd, from, size); }>(t);
  divide<&table::bind, [](int fd, sockaddr const* a, unsigned size) { return installed->bind(fd, a, size); }>(
      t);
  divide<&table::listen, [](int fd, int backlog) { return installed->listen(fd, backlog); }>(t);
  make_here<&table::socket,
            [](int family, int type, int protocol) { return installed->socket(family, type, protocol); }>(t);
  make_here<&table::socketpair,
            [](int family, int type, int, int* fds) { return installed->socket_pair(family, type, fds); }>(t);
  make_here<&table::eventfd, [](unsigned initial, int flags) {
    return installed->make_event(initial, (flags & EFD_SEMAPHORE) != 0);
  }>(t);
  make_here<&table::pipe, [](int* fds, int) { return installed->pipe(fds); }>(t);
  by_path<&table::openat, [](int dir, char const* path, int flags, unsigned mode) {
    return installed->open(dir, path, flags, mode);
  }>(t);
  by_path<&table::openat2, [](int dir, char const* path, open_how const* how, std::size_t) {
    return installed->open_resolved(dir, path, static_cast<int>(how->flags), static_cast<unsigned>(how->mode),
                                    how->resolve);
  }>(t);
  by_path<&table::mkdirat, [](int dir, char const* path, unsigned mode) {
    return installed->make_directory(dir, path, mode);
  }>(t);
  divide<&table::getdents64,
         [](int fd, void* entries, std::size_t n) { return installed->list(fd, entries, n); }>(t);
  by_path<&table::unlinkat,
          [](int dir, char const* path, int flags) { return installed->unlink(dir, path, flags); }>(t);
  by_path<&table::readlinkat, [](int, char const* path, char* out, std::size_t n) {
    return installed->read_link(path, out, n);
  }>(t);
  by_path<&table::fstatat, [](int dir, char const* path, struct stat* s, int flags) {
    return installed->stat_at(dir, path, s, flags);
  }>(t);
  by_path<&table::statx, [](int dir, char const* path, int flags, unsigned, struct statx* s) {
    return installed->stat_more(dir, path, flags, s);
  }>(t);
  by_path<&table::renameat, [](int from_dir, char const* from, int to_dir, char const* to, unsigned flags) {
    return installed->rename(from_dir, from, to_dir, to, flags);
  }>(t);
  t.getrandom = [](void* data, std::size_t n, unsigned flags) noexcept {
    return this_thread_simulates() ? installed->fill_random(data, n) : before->getrandom(data, n, flags);
  };
  divide<&table::close, [](int fd) { return installed->close(fd); }>(t);
  divide<&table::shutdown, [](int fd, int how) { return installed->shutdown(fd, how); }>(t);
  divide<&table::getsockopt, [](int fd, int level, int name, void* v, unsigned* size) {
    return installed->get_option(fd, level, name, v, size);
  }>(t);
  divide<&table::setsockopt, [](int fd, int level, int name, void const* v, unsigned size) {
    return installed->set_option(fd, level, name, v, size);
  }>(t);
  divide<&table::fcntl, [](int fd, int command, long a) { return installed->fcntl(fd, command, a); }>(t);
  divide<&table::fstat, [](int fd, struct stat* s) { return installed->stat(fd, s); }>(t);
  divide<&table::ftruncate, [](int fd, std::int64_t size) { return installed->truncate(fd, size); }>(t);
  divide<&table::fallocate, [](int fd, int mode, std::int64_t at, std::int64_t n) {
    return installed->zero(fd, mode, at, n);
  }>(t);
  t.poll = poll;
  t.steady_now = []() noexcept { return this_thread_simulates() ? installed->now() : before->steady_now(); };
  t.system_now = []() noexcept {
    constexpr std::int64_t year_2020 = 1'577'836'800'000'000'000;
    return this_thread_simulates() ? installed->moment(year_2020) : before->system_now();
  };
  return t;
}

sys::table ours;

} // namespace

bool this_thread_is_simulated() noexcept { return this_thread_simulates(); }
world* answering_world() noexcept { return installed; }
std::uint64_t worlds_so_far() noexcept { return installations; }

void answer_system_calls(world* w) noexcept {
  auto const put = [](sys::table const* t) noexcept {
    if (simulated_threads != nullptr) return simulated_threads->answer_with(t);
    sys::table const* const replaced = sys::answering();
    sys::answer_with(t);
    return replaced;
  };
  if (w != nullptr) {
    UNIO_EXPECTS(installed == nullptr, "one simulation at a time: another one exists in this process");
    installed = w;
    ++installations;
    before = put(&ours);
    ours = made();
    is_its_thread = true;
  } else {
    bool const is_last = put(before) == &ours;
    UNIO_EXPECTS(is_its_thread && is_last,
                 "a simulation ends on the thread that made it, after what replaced system calls later");
    is_its_thread = false;
    installed = nullptr;
  }
}

} // namespace unio::testing
