// A filter of system calls (seccomp(2)) that lets this library's own pass, by where they are made.

#include "testing/preload/trap.hpp"

#include "testing/libc/entry.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace unio::inline v0_1::testing::preload {
namespace {

struct forbidden_call {
  long number;
  char const* name;
};

// What would reach another process or another machine, or wait in real time.
#define UNIO_CALL(name) {SYS_##name, #name "(2)"}
constexpr forbidden_call forbidden[] = {
    UNIO_CALL(socket),          UNIO_CALL(socketpair),
    UNIO_CALL(connect),         UNIO_CALL(bind),
    UNIO_CALL(listen),          UNIO_CALL(accept),
    UNIO_CALL(accept4),         UNIO_CALL(sendto),
    UNIO_CALL(sendmsg),         UNIO_CALL(recvfrom),
    UNIO_CALL(recvmsg),         UNIO_CALL(epoll_create),
    UNIO_CALL(epoll_create1),   UNIO_CALL(epoll_wait),
    UNIO_CALL(epoll_pwait),     UNIO_CALL(eventfd),
    UNIO_CALL(eventfd2),        UNIO_CALL(timerfd_create),
    UNIO_CALL(signalfd),        UNIO_CALL(signalfd4),
    UNIO_CALL(inotify_init),    UNIO_CALL(inotify_init1),
    UNIO_CALL(io_uring_setup),  UNIO_CALL(io_uring_enter),
    UNIO_CALL(io_setup),        UNIO_CALL(fork),
    UNIO_CALL(vfork),           UNIO_CALL(execve),
    UNIO_CALL(execveat),        UNIO_CALL(poll),
    UNIO_CALL(ppoll),           UNIO_CALL(select),
    UNIO_CALL(pselect6),        UNIO_CALL(nanosleep),
    UNIO_CALL(clock_nanosleep), UNIO_CALL(pause),
    UNIO_CALL(alarm),           UNIO_CALL(setitimer),
    UNIO_CALL(timer_create),    UNIO_CALL(rt_sigtimedwait),
    UNIO_CALL(rt_sigsuspend),   UNIO_CALL(pidfd_open),
    UNIO_CALL(mq_open),         UNIO_CALL(ptrace),
};
#undef UNIO_CALL

char const* name_of(long number) noexcept {
  for (forbidden_call const& c : forbidden)
    if (c.number == number) return c.name;
  return number == SYS_clone ? "fork(2)" : "a system call";
}

std::string_view last_part(char const* path) noexcept {
  std::string_view const all(path);
  return all.substr(all.rfind('/') + 1);
}

// The function of the C library that the program called, and where.
void say(int, siginfo_t* information, void*) noexcept {
  ++libc::depth;
  Dl_info mine{}, maker{};
  (void)dladdr(reinterpret_cast<void*>(&say), &mine);
  (void)dladdr(information->si_call_addr, &maker);
  void* frames[64];
  int const n = ::backtrace(frames, 64);
  void* caller = nullptr;
  std::string_view function; // of the C library, that was called from outside
  for (int i = 0; i != n && caller == nullptr; ++i) {
    Dl_info at{};
    if (dladdr(frames[i], &at) == 0 || at.dli_fname == nullptr) continue;
    std::string_view const file = last_part(at.dli_fname);
    bool const is_library = file.starts_with("libc.so") || file.starts_with("ld-linux");
    if (at.dli_fbase != mine.dli_fbase && !is_library) caller = frames[i];
    if (is_library && at.dli_sname != nullptr) function = at.dli_sname;
  }
  std::string what = name_of(information->si_syscall);
  bool const is_inside = maker.dli_fname != nullptr && last_part(maker.dli_fname).starts_with("libc.so");
  if (is_inside && !function.empty()) what += " in the C library's " + std::string(function) + "()";
  if (!is_inside) what += ", made without the C library,";
  libc::current_call = {nullptr, caller != nullptr ? caller : information->si_call_addr};
  (void)libc::refuse(what);
}

struct text_range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

int find_own_text(dl_phdr_info* o, std::size_t, void* p) noexcept {
  auto const here = reinterpret_cast<std::uint64_t>(&find_own_text);
  for (int i = 0; i != o->dlpi_phnum; ++i) {
    ElfW(Phdr) const& h = o->dlpi_phdr[i];
    std::uint64_t const begin = o->dlpi_addr + h.p_vaddr;
    if (h.p_type != PT_LOAD || (h.p_flags & PF_X) == 0 || here < begin || here >= begin + h.p_memsz) continue;
    *static_cast<text_range*>(p) = {begin, begin + h.p_memsz};
    return 1;
  }
  return 0;
}

} // namespace

void watch_what_escapes() noexcept {
  text_range own;
  (void)dl_iterate_phdr(find_own_text, &own);
  if (own.begin == 0 || own.begin >> 32 != own.end >> 32) return;
  void* first[1];
  (void)::backtrace(first, 1); // loads the unwinder now
  struct sigaction action{};
  action.sa_sigaction = say;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  (void)sigaction(SIGSYS, &action, nullptr);

  constexpr auto load = [](std::size_t at) -> sock_filter {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(at));
  };
  constexpr auto jump = [](unsigned how, std::uint64_t value, unsigned yes, unsigned no) -> sock_filter {
    return BPF_JUMP(static_cast<std::uint16_t>(BPF_JMP | how | BPF_K), static_cast<std::uint32_t>(value),
                    static_cast<std::uint8_t>(yes), static_cast<std::uint8_t>(no));
  };
  constexpr auto end_with = [](std::uint32_t value) -> sock_filter {
    return BPF_STMT(BPF_RET | BPF_K, value);
  };
  constexpr std::size_t address = offsetof(seccomp_data, instruction_pointer),
                        number = offsetof(seccomp_data, nr);
  std::vector<sock_filter> f{
      load(offsetof(seccomp_data, arch)),
      jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0),
      end_with(SECCOMP_RET_ALLOW),
      load(address + 4),
      jump(BPF_JEQ, own.begin >> 32, 0, 4),
      load(address),
      jump(BPF_JGE, own.begin & 0xffffffff, 0, 2),
      jump(BPF_JGE, own.end & 0xffffffff, 1, 0),
      end_with(SECCOMP_RET_ALLOW),
      load(number),
      // Its flags are in memory that a filter cannot read: the C library falls back to the other one.
      jump(BPF_JEQ, SYS_clone3, 0, 1),
      end_with(SECCOMP_RET_ERRNO | ENOSYS),
      jump(BPF_JEQ, SYS_clone, 0, 4),
      load(offsetof(seccomp_data, args)),
      jump(BPF_JSET, CLONE_THREAD, 1, 0),
      end_with(SECCOMP_RET_TRAP),
      end_with(SECCOMP_RET_ALLOW),
  };
  for (forbidden_call const& c : forbidden) {
    f.push_back(jump(BPF_JEQ, static_cast<std::uint64_t>(c.number), 0, 1));
    f.push_back(end_with(SECCOMP_RET_TRAP));
  }
  f.push_back(end_with(SECCOMP_RET_ALLOW));
  sock_fprog const program{.len = static_cast<unsigned short>(f.size()), .filter = f.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    (void)::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

} // namespace unio::testing::preload
