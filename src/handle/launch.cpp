// Beginning a child, and what the child does before it is its program.
//
// The child shares this process's memory until it executes its program: the thread that launched it sleeps,
// and the child only makes system calls and writes into its plan, which says in the end what failed. All is
// put together before, in the parent. Where a filter refuses such a child, and under sanitizers, a forked
// one runs the same code and reports through a socket.

#include "handle/launch.hpp"

#include "sys/descriptors.hpp"
#include "sys/sanitizer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstring>

namespace unio::inline v0_1::detail {
namespace {

using sys::call;

constexpr int signals = 64;               // of the kernel: _NSIG
constexpr std::size_t kernel_set = 8;     // bytes of its sets of signals
constexpr unsigned at_exec = 4;           // CLOSE_RANGE_CLOEXEC, Linux 5.11
constexpr std::size_t stack_size = 32768; // the child's, in the parent's frame, as the parent sleeps

// As the kernel has it on the usual architectures: the disposition comes first, and zeros are the default.
struct kernel_action {
  std::uintptr_t handler;
  std::uintptr_t rest[8];
};

// ---- in the child ----------------------------------------------------------------------------------------

class child {
 public:
  child(launch_plan& plan, int report) noexcept : plan_(plan), report_(report) {}

  [[noreturn]] void become_program() noexcept {
    reset_signals();
    join_group();
    follow_parent();
    change_directory();
    place_descriptors();
    keep_others();
    call(SYS_rt_sigprocmask, SIG_SETMASK, &plan_.mask, nullptr, kernel_set);
    execute();
  }

 private:
  [[noreturn]] void fail(launch_step step, std::int64_t code) noexcept {
    plan_.step = step;
    plan_.error = static_cast<int>(code);
    if (report_ >= 0) {
      int const said[2] = {static_cast<int>(step), plan_.error};
      call(SYS_write, report_, said, sizeof said);
    }
    for (;;) call(SYS_exit_group, 127);
  }
  std::int64_t need(launch_step step, std::int64_t r) noexcept {
    if (r < 0) fail(step, r);
    return r;
  }

  // Handlers first of all: with the memory, they are the parent's. All signals are blocked until then.
  void reset_signals() noexcept {
    for (int s = 1; s <= signals; ++s) {
      kernel_action action{};
      if (plan_.inherits_signals) {
        call(SYS_rt_sigaction, s, nullptr, &action, kernel_set);
        if (action.handler <= 1) continue; // the default, or ignored
        action = {};
      }
      call(SYS_rt_sigaction, s, &action, nullptr, kernel_set); // EINVAL for SIGKILL and SIGSTOP
    }
  }

  void join_group() noexcept {
    if (plan_.group == process_group::own) need(launch_step::group, call(SYS_setpgid, 0, 0));
    if (plan_.group == process_group::own_session) need(launch_step::group, call(SYS_setsid));
  }

  void follow_parent() noexcept {
    int const signal = plan_.signal_at_parents_death;
    if (signal == 0) return;
    need(launch_step::parents_death, call(SYS_prctl, PR_SET_PDEATHSIG, signal, 0, 0, 0));
    // The parent may have died before. 0: it is in another namespace of processes.
    std::int64_t const parent = call(SYS_getppid);
    if (parent != plan_.parent && parent != 0) call(SYS_kill, call(SYS_getpid), signal);
  }

  void change_directory() noexcept {
    if (plan_.working_base >= 0) need(launch_step::working_directory, call(SYS_fchdir, plan_.working_base));
    if (plan_.working_directory != nullptr)
      need(launch_step::working_directory, call(SYS_chdir, plan_.working_directory));
  }

  static launch_step step_of(int number) noexcept {
    if (number > 2) return launch_step::passed;
    return static_cast<launch_step>(static_cast<int>(launch_step::input) + number);
  }

  // A number that is going to be another's is moved away first.
  int out_of_the_way(launch_step step, int fd) noexcept {
    if (fd < 0 || fd >= plan_.count) return fd;
    return static_cast<int>(need(step, call(SYS_fcntl, fd, F_DUPFD_CLOEXEC, plan_.count)));
  }

  void place_descriptors() noexcept {
    for (int i = 0; i < plan_.count; ++i) plan_.sources[i] = out_of_the_way(step_of(i), plan_.sources[i]);
    plan_.base = out_of_the_way(launch_step::program, plan_.base);
    report_ = out_of_the_way(launch_step::others, report_);
    for (int i = 0; i < plan_.count; ++i)
      if (plan_.sources[i] != launch_plan::merged) place(i, plan_.sources[i]);
    if (plan_.sources[2] == launch_plan::merged) need(launch_step::error, call(SYS_dup3, 1, 2, 0));
  }

  void place(int number, int source) noexcept {
    launch_step const step = step_of(number);
    if (source >= 0) {
      need(step, call(SYS_dup3, source, number, 0));
      return;
    }
    // A program that begins without a standard stream would get one with the first file that it opens.
    if (source == launch_plan::inherited && call(SYS_fcntl, number, F_SETFD, 0) >= 0) return;
    auto const fd = static_cast<int>(need(step, call(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0)));
    if (fd == number) return;
    need(step, call(SYS_dup3, fd, number, 0));
    call(SYS_close, fd);
  }

  // What foreign code has opened without O_CLOEXEC.
  void keep_others() noexcept {
    std::int64_t const r = call(SYS_close_range, plan_.count, ~0U, at_exec);
    if (r == -ENOSYS || r == -EPERM || r == -EINVAL)
      keep_each();
    else
      need(launch_step::others, r);
  }
  // The same before Linux 5.11, and where a filter refuses it.
  void keep_each() noexcept {
    auto const list =
        static_cast<int>(need(launch_step::others, call(SYS_openat, AT_FDCWD, "/proc/self/fd",
                                                        O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0)));
    alignas(8) char entries[2048];
    for (;;) {
      std::int64_t const n = need(launch_step::others, call(SYS_getdents64, list, entries, sizeof entries));
      if (n == 0) break;
      for (std::int64_t at = 0; at < n;) {
        // struct linux_dirent64: d_ino, d_off (8 bytes each), d_reclen (2), d_type (1), d_name.
        std::uint16_t size = 0;
        std::memcpy(&size, entries + at + 16, sizeof size);
        int fd = 0;
        char const* name = entries + at + 19;
        for (; *name >= '0' && *name <= '9'; ++name) fd = fd * 10 + (*name - '0');
        if (*name == '\0' && fd >= plan_.count) call(SYS_fcntl, fd, F_SETFD, FD_CLOEXEC);
        at += size;
      }
    }
    call(SYS_close, list);
  }

  [[noreturn]] void execute() noexcept {
    if (plan_.search != nullptr) search();
    fail(launch_step::program, try_program(plan_.program));
  }

  std::int64_t try_program(char const* path) const noexcept {
    bool const is_absolute = *path == '/';
    if (plan_.base < 0 || is_absolute) return call(SYS_execve, path, plan_.arguments, plan_.environment);
    auto const by_base = [&] {
      return call(SYS_execveat, plan_.base, path, plan_.arguments, plan_.environment, 0);
    };
    std::int64_t r = by_base();
    // By a directory's descriptor that closes at exec an interpreter finds no script (execveat(2), BUGS).
    if (r != -ENOENT || !plan_.is_open_base || call(SYS_faccessat, plan_.base, path, F_OK) != 0) return r;
    if (call(SYS_fcntl, plan_.base, F_SETFD, 0) != 0) return r;
    r = by_base();
    call(SYS_fcntl, plan_.base, F_SETFD, FD_CLOEXEC);
    return r;
  }

  // As execvp(3), but that a file without a known format is not given to a shell.
  [[noreturn]] void search() noexcept {
    std::size_t const name_size = std::strlen(plan_.program) + 1;
    std::int64_t best = -ENOENT;
    for (char const* at = plan_.search;;) {
      std::size_t n = 0;
      while (at[n] != '\0' && at[n] != ':') ++n;
      if (n + 1 + name_size <= PATH_MAX) {
        char* end = plan_.candidate;
        for (std::size_t i = 0; i < n; ++i) *end++ = at[i];
        if (n != 0) *end++ = '/'; // empty: the working directory
        for (std::size_t i = 0; i < name_size; ++i) *end++ = plan_.program[i];
        std::int64_t const r = try_program(plan_.candidate);
        if (r == -EACCES) {
          best = r; // elsewhere there may be one that may be executed
        } else if (r != -ENOENT && r != -ENOTDIR && r != -ENODEV && r != -ESTALE && r != -ETIMEDOUT) {
          fail(launch_step::program, r);
        }
      }
      if (at[n] == '\0') break;
      at += n + 1;
    }
    fail(launch_step::program, best);
  }

  launch_plan& plan_;
  int report_;
};

// A pipe of the forked child's own, whose reading end the parent gets with a message. Of one that the parent
// had made, another thread's child might have the writing end, and only with that would reading end. Returns
// the writing end.
int open_report(int parent) noexcept {
  int ends[2] = {-1, -1};
  int said[2] = {static_cast<int>(launch_step::process), static_cast<int>(call(SYS_pipe2, ends, O_CLOEXEC))};
  iovec bytes{said, sizeof said};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr m{};
  m.msg_iov = &bytes;
  m.msg_iovlen = 1;
  if (said[1] == 0) {
    m.msg_control = control;
    m.msg_controllen = sizeof control;
    cmsghdr& c = *CMSG_FIRSTHDR(&m);
    c.cmsg_level = SOL_SOCKET;
    c.cmsg_type = SCM_RIGHTS;
    c.cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(&c), &ends[0], sizeof(int));
  }
  if (call(SYS_sendmsg, parent, &m, MSG_NOSIGNAL) < 0 || said[1] != 0) call(SYS_exit_group, 127);
  call(SYS_close, ends[0]);
  call(SYS_close, parent);
  return ends[1];
}

// ---- in the parent ---------------------------------------------------------------------------------------

constexpr int by_descriptor = 3; // P_PIDFD

int refused(launch_plan& plan, std::int64_t code) noexcept {
  plan.step = launch_step::process;
  return static_cast<int>(code);
}

// The child has failed, and ends: it is removed.
int ended_early(launch_plan const& plan, launched_child const& c) noexcept {
  siginfo_t info;
  (void)sys::uninterrupted([&] { return sys::waitid(by_descriptor, c.fd, &info, WEXITED, nullptr); });
  sys::close(c.fd);
  return plan.error;
}

int begin_sharing(launch_plan& plan, launched_child& out) noexcept {
  alignas(64) std::byte stack[stack_size];
  int fd = -1;
  int const id = ::clone([](void* p) -> int { child(*static_cast<launch_plan*>(p), -1).become_program(); },
                         stack + stack_size, CLONE_VM | CLONE_VFORK | CLONE_PIDFD | SIGCHLD, &plan, &fd);
  if (id < 0) return refused(plan, -errno);
  out = {id, fd};
  return plan.error == 0 ? 0 : ended_early(plan, out);
}

// What the child has sent of open_report(): the reading end; or -1, and `said` has why it failed, or zeros if
// it was killed. Closes both ends, the child's first, so that there is a free number.
int receive_report(int const (&ends)[2], int child_fd, int (&said)[2]) noexcept {
  pollfd both[] = {{.fd = ends[0], .events = POLLIN, .revents = 0},
                   {.fd = child_fd, .events = POLLIN, .revents = 0}};
  (void)sys::uninterrupted([&] { return sys::poll(both, 2, nullptr); });
  sys::close(ends[1]);
  iovec bytes{said, sizeof said};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  msghdr m{};
  m.msg_iov = &bytes;
  m.msg_iovlen = 1;
  m.msg_control = control;
  m.msg_controllen = sizeof control;
  auto const n =
      sys::uninterrupted([&] { return sys::recvmsg(ends[0], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC); });
  sys::close(ends[0]);
  cmsghdr const* const c = n == sizeof said ? CMSG_FIRSTHDR(&m) : nullptr;
  if (c == nullptr || c->cmsg_type != SCM_RIGHTS) return -1;
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(c), sizeof fd);
  return fd;
}

// The child begins once this process has its descriptor, so that its number cannot be another's by then.
int begin_forked(launch_plan& plan, launched_child& out) noexcept {
  int ends[2];
  if (std::int64_t const r = sys::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends); r < 0)
    return refused(plan, r);
  for (int& end : ends) end = sys::above_standard(end);
  if (ends[0] < 0 || ends[1] < 0) {
    for (int const end : ends)
      if (end >= 0) sys::close(end);
    return refused(plan, -EMFILE);
  }
  pid_t const id = ::fork();
  int const fork_error = -errno;
  if (id == 0) {
    call(SYS_close, ends[0]);
    char go = 0;
    call(SYS_read, ends[1], &go, 1);
    if (go == 0) call(SYS_exit_group, 127);
    child(plan, open_report(ends[1])).become_program();
  }
  std::int64_t const fd = id < 0 ? fork_error : sys::pidfd_open(id, 0);
  char const go = fd >= 0 ? 1 : 0;
  (void)sys::send(ends[0], &go, 1, MSG_NOSIGNAL);
  if (fd < 0) {
    for (int const end : ends) sys::close(end);
    siginfo_t info;
    if (id > 0) (void)sys::uninterrupted([&] { return sys::waitid(P_PID, id, &info, WEXITED, nullptr); });
    return refused(plan, fd);
  }
  out = {id, static_cast<int>(fd)};
  int said[2] = {};
  int const report = receive_report(ends, out.fd, said);
  if (report >= 0) {
    (void)sys::uninterrupted([&] { return sys::read(report, said, sizeof said); });
    sys::close(report);
  }
  if (said[1] == 0) return 0; // closed by execve(2), or killed before: its status will tell
  plan.step = static_cast<launch_step>(said[0]);
  plan.error = said[1];
  return ended_early(plan, out);
}

// This process has closed a standard stream, and the child's descriptor got its number.
int move_up(launch_plan& plan, launched_child& c) noexcept {
  std::int64_t const moved = sys::fcntl(c.fd, F_DUPFD_CLOEXEC, 3);
  if (moved < 0) {
    (void)sys::pidfd_send_signal(c.fd, SIGKILL, nullptr, 0);
    (void)ended_early(plan, c);
    return refused(plan, moved);
  }
  sys::close(c.fd);
  c.fd = static_cast<int>(moved);
  return 0;
}

} // namespace

int begin_child(launch_plan& plan, launched_child& out) noexcept {
  plan.parent = ::getpid();
  // Also those that the C library keeps for itself (setuid(2) in all threads, for one), which pthread_sigmask
  // does not block.
  std::uint64_t const all = ~std::uint64_t{0};
  std::uint64_t before = 0;
  call(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, kernel_set);
  if (plan.inherits_signals) plan.mask = before;
  int r = sys::is_sanitized ? -ENOSYS : begin_sharing(plan, out);
  bool const may_be_forbidden = r == -ENOSYS || r == -EPERM || r == -EINVAL;
  if (r != 0 && may_be_forbidden && plan.error == 0) {
    plan.step = launch_step::none;
    r = begin_forked(plan, out);
  }
  call(SYS_rt_sigprocmask, SIG_SETMASK, &before, nullptr, kernel_set);
  return r == 0 && out.fd <= 2 ? move_up(plan, out) : r;
}

} // namespace unio::detail
