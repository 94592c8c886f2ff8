// How a process ended, asked of the kernel; and the thread that removes children without a waiter.

#include "handle/process_state.hpp"

#include "core/immortal.hpp"
#include "sys/descriptors.hpp"
#include "sys/fork.hpp"
#include "sys/threads.hpp"

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <mutex>

namespace unio::inline v0_1::detail {
namespace {

constexpr int by_descriptor = 3; // P_PIDFD, of <linux/wait.h>

// struct pidfd_info of <linux/pidfd.h>, as Linux 6.13 introduced it; 6.15 fills in the exit code, also of
// what was removed without a wait.
struct pidfd_info {
  std::uint64_t mask;
  std::uint64_t cgroup;
  std::uint32_t ids[11];
  std::int32_t exit_code;
};
static_assert(sizeof(pidfd_info) == 64);
constexpr std::uint64_t info_exit = 1U << 3;                           // PIDFD_INFO_EXIT
constexpr unsigned long get_info = _IOWR(0xff, 11, struct pidfd_info); // PIDFD_GET_INFO

exit_status decoded(siginfo_t const& info) noexcept {
  if (info.si_code == CLD_EXITED) return exit_status::exited(info.si_status);
  return exit_status::killed(info.si_status, info.si_code == CLD_DUMPED);
}
exit_status decoded(int wait_status) noexcept {
  if (WIFEXITED(wait_status)) return exit_status::exited(WEXITSTATUS(wait_status));
  return exit_status::killed(WTERMSIG(wait_status), WCOREDUMP(wait_status));
}

std::chrono::microseconds duration(timeval const& t) noexcept {
  return std::chrono::seconds(t.tv_sec) + std::chrono::microseconds(t.tv_usec);
}
process_resources decoded(rusage const& r) noexcept {
  auto const count = [](long n) { return static_cast<std::uint64_t>(n); };
  return {.user = duration(r.ru_utime),
          .system = duration(r.ru_stime),
          .peak_memory = count(r.ru_maxrss) * 1024,
          .page_faults = count(r.ru_majflt),
          .waits = count(r.ru_nvcsw),
          .preemptions = count(r.ru_nivcsw)};
}

// The process is no child of this one, or not any more.
int look_at_stranger(int fd, exit_status& out) noexcept {
  if (!sys::is_readable(fd)) return -EAGAIN;
  pidfd_info info{};
  info.mask = info_exit;
  if (sys::ioctl(fd, get_info, &info) < 0 || (info.mask & info_exit) == 0) return -ECHILD;
  out = decoded(info.exit_code);
  return 0;
}

} // namespace

int look(process_state& p, int fd, exit_status& out) noexcept {
  std::lock_guard const guard(p.lock);
  if (!p.has_ended) {
    siginfo_t info{};
    rusage used{};
    auto const r = static_cast<int>(
        sys::uninterrupted([&] { return sys::waitid(by_descriptor, fd, &info, WEXITED | WNOHANG, &used); }));
    if (r == -ECHILD) {
      if (int const e = look_at_stranger(fd, p.status); e != 0) return e;
    } else if (r < 0) {
      return r;
    } else if (info.si_pid == 0) {
      return -EAGAIN;
    } else {
      p.status = decoded(info);
      p.used = decoded(used);
      p.knows_used = true;
    }
    p.has_ended = true;
  }
  out = p.status;
  return 0;
}

int look_at_resources(process_state& p, int fd, process_resources& out) noexcept {
  exit_status ignored;
  if (int const e = look(p, fd, ignored); e != 0) return e;
  std::lock_guard const guard(p.lock);
  if (!p.knows_used) return -ECHILD;
  out = p.used;
  return 0;
}

// ---- removing children that are not waited for -----------------------------------------------------------
//
// The thread waits by epoll(7), to which others add while it sleeps. It uses the kernel's own system calls,
// not the table, which a test may change while it sleeps.

namespace {

class reaper {
 public:
  void take(process_state* p, int fd) noexcept {
    std::lock_guard const guard(lock_);
    lock_.in_child([]() noexcept { instance().forget(); });
    p->fd = fd;
    p->previous = nullptr;
    p->next = all_;
    if (all_ != nullptr) all_->previous = p;
    all_ = p;
    ++unwatched_;
    // Where there is no thread, or no room in its epoll, the next call tries again for all of them.
    if (!runs_) start();
    if (runs_) watch_all();
  }

  static reaper& instance() noexcept;

 private:
  void watch_all() noexcept {
    for (process_state* p = all_; p != nullptr && unwatched_ != 0; p = p->next) {
      if (p->is_watched) continue;
      epoll_event e{.events = EPOLLIN, .data = {.ptr = p}};
      p->is_watched = sys::past_tests::epoll_ctl(epoll_, EPOLL_CTL_ADD, p->fd, &e) == 0;
      if (p->is_watched) --unwatched_;
    }
  }

  void start() noexcept {
    epoll_ = sys::above_standard(sys::past_tests::epoll_create(EPOLL_CLOEXEC));
    if (epoll_ < 0) return;
    runs_ = sys::start_thread(
                [](void* self) -> void* {
                  static_cast<reaper*>(self)->run();
                  return nullptr;
                },
                this) == 0;
    if (!runs_) sys::past_tests::close(epoll_);
  }

  void run() noexcept {
    for (;;) {
      epoll_event ended[64];
      std::int64_t const n = sys::past_tests::epoll_wait(epoll_, ended, 64, nullptr);
      std::lock_guard const guard(lock_);
      for (std::int64_t i = 0; i < n; ++i) look_at(static_cast<process_state*>(ended[i].data.ptr));
      if (all_ != nullptr) continue;
      sys::past_tests::close(epoll_);
      runs_ = false;
      return;
    }
  }

  void look_at(process_state* p) noexcept {
    siginfo_t info{};
    std::int64_t const r = sys::past_tests::waitid(by_descriptor, p->fd, &info, WEXITED | WNOHANG, nullptr);
    if (r == 0 && info.si_pid == 0) return; // it lives
    // ECHILD: it is removed already.
    (p->previous != nullptr ? p->previous->next : all_) = p->next;
    if (p->next != nullptr) p->next->previous = p->previous;
    // Closing alone ends no watch while a child that is about to be executed has the descriptor too.
    epoll_event none{};
    sys::past_tests::epoll_ctl(epoll_, EPOLL_CTL_DEL, p->fd, &none);
    sys::past_tests::close(p->fd);
    delete p;
  }

  // In a forked child, where there is no such thread and these are no children.
  void forget() noexcept {
    while (all_ != nullptr) {
      process_state* const p = all_;
      all_ = p->next;
      sys::past_tests::close(p->fd);
      delete p;
    }
    if (runs_) sys::past_tests::close(epoll_);
    runs_ = false;
    unwatched_ = 0;
  }

  sys::process_lock lock_{sys::guarded::reaper};
  process_state* all_ = nullptr;
  std::size_t unwatched_ = 0; // of them
  int epoll_ = -1;
  bool runs_ = false;
};

constinit immortal<reaper> the_reaper;
reaper& reaper::instance() noexcept { return the_reaper.object; }

} // namespace

void leave_to_reaper(process_state* p, int fd) noexcept { reaper::instance().take(p, fd); }

} // namespace unio::detail
