// A filter of system calls (seccomp(2)) that lets this library's own pass, by where they are made. What a
// program does without the C library, as unio's drivers do, is performed by what takes that one's place.

#include "testing/preload/trap.hpp"

#include "testing/libc/calls_by_number.hpp"
#include "testing/libc/entry.hpp"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>
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
    UNIO_CALL(semop),           UNIO_CALL(semtimedop),
    UNIO_CALL(msgrcv),          UNIO_CALL(msgsnd),
};
#undef UNIO_CALL

// What is performed where neither the C library nor the dynamic linker makes it, of those that are not above.
constexpr long performed[] = {
    SYS_read,
    SYS_write,
    SYS_readv,
    SYS_writev,
    SYS_pread64,
    SYS_pwrite64,
    SYS_preadv,
    SYS_pwritev,
    SYS_preadv2,
    SYS_pwritev2,
    SYS_recvmmsg,
    SYS_sendmmsg,
    SYS_close,
    SYS_shutdown,
    SYS_getsockname,
    SYS_getpeername,
    SYS_getsockopt,
    SYS_setsockopt,
    SYS_epoll_ctl,
    SYS_epoll_pwait2,
    SYS_pipe,
    SYS_pipe2,
    SYS_dup,
    SYS_dup2,
    SYS_dup3,
    SYS_fcntl,
    SYS_ioctl,
    SYS_lseek,
    SYS_openat,
    SYS_getrandom,
    SYS_sched_yield,
    SYS_futex,
    SYS_clock_gettime,
    SYS_timerfd_settime,
    SYS_timerfd_gettime,
    SYS_statx,
    SYS_newfstatat,
    SYS_fstat,
    SYS_faccessat,
    SYS_ftruncate,
    SYS_truncate,
    SYS_fsync,
    SYS_fdatasync,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_renameat2,
    SYS_linkat,
    SYS_symlinkat,
    SYS_fchmodat,
    SYS_fchownat,
    SYS_utimensat,
    SYS_fallocate,
    SYS_flock,
    SYS_getdents64,
};

char const* name_of(long number) noexcept {
  for (forbidden_call const& c : forbidden)
    if (c.number == number) return c.name;
  if (number == SYS_getdents64) return "getdents64(2)";
  return number == SYS_clone ? "fork(2)" : "a system call";
}

std::string_view last_part(char const* path) noexcept {
  std::string_view const all(path);
  return all.substr(all.rfind('/') + 1);
}

// The function of the C library that the program called, and where.
void say(siginfo_t const* information) noexcept {
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
  std::uint64_t of = 0; // an address in it
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

int find_text(dl_phdr_info* o, std::size_t, void* p) noexcept {
  auto& range = *static_cast<text_range*>(p);
  for (int i = 0; i != o->dlpi_phnum; ++i) {
    ElfW(Phdr) const& h = o->dlpi_phdr[i];
    std::uint64_t const begin = o->dlpi_addr + h.p_vaddr;
    if (h.p_type != PT_LOAD || (h.p_flags & PF_X) == 0 || range.of < begin || range.of >= begin + h.p_memsz)
      continue;
    range.begin = begin;
    range.end = begin + h.p_memsz;
    return 1;
  }
  return 0;
}

text_range text_around(void const* address) noexcept {
  text_range r;
  r.of = reinterpret_cast<std::uint64_t>(address);
  (void)dl_iterate_phdr(find_text, &r);
  return r;
}

constinit text_range c_library, linker;

bool is_in(text_range const& r, std::uint64_t address) noexcept {
  return address >= r.begin && address < r.end;
}

// Registers as the kernel takes them (AMD64 ABI, A.2.1), and in rax what it returns.
void take(int, siginfo_t* information, void* context) noexcept {
  greg_t* const registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  auto const from = static_cast<std::uint64_t>(registers[REG_RIP]);
  if (!is_in(c_library, from) && !is_in(linker, from)) {
    long const arguments[] = {registers[REG_RDI], registers[REG_RSI], registers[REG_RDX],
                              registers[REG_R10], registers[REG_R8],  registers[REG_R9]};
    libc::calls_for const caller(reinterpret_cast<void*>(from));
    std::int64_t r = 0;
    if (libc::perform_by_number(information->si_syscall, arguments, r)) {
      registers[REG_RAX] = r;
      return;
    }
  }
  // The C library's own, to ask nscd or to tell syslogd: there are none.
  if (is_in(c_library, from) && information->si_syscall == SYS_socket && registers[REG_RDI] == AF_UNIX) {
    registers[REG_RAX] = -EAFNOSUPPORT;
    return;
  }
  say(information);
}

} // namespace

void watch_what_escapes() noexcept {
  text_range const own = text_around(reinterpret_cast<void*>(&text_around));
  c_library = text_around(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"));
  if (auto const* const map = reinterpret_cast<void const*>(_r_debug.r_brk); map != nullptr)
    linker = text_around(map);
  for (text_range const& r : {own, c_library, linker})
    if (r.begin == 0 || r.begin >> 32 != r.end >> 32) return;
  void* first[1];
  (void)::backtrace(first, 1); // loads the unwinder now
  struct sigaction action{};
  action.sa_sigaction = take;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  libc::own<int(int, struct sigaction const*, struct sigaction*)>("sigaction")(SIGSYS, &action, nullptr);

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
  };
  auto const let_pass = [&](text_range const& r) {
    f.insert(f.end(), {
                          load(address + 4),
                          jump(BPF_JEQ, r.begin >> 32, 0, 4),
                          load(address),
                          jump(BPF_JGE, r.begin & 0xffffffff, 0, 2),
                          jump(BPF_JGE, r.end & 0xffffffff, 1, 0),
                          end_with(SECCOMP_RET_ALLOW),
                      });
  };
  auto const trap = [&](long call) {
    f.push_back(jump(BPF_JEQ, static_cast<std::uint64_t>(call), 0, 1));
    f.push_back(end_with(SECCOMP_RET_TRAP));
  };
  let_pass(own);
  f.insert(
      f.end(),
      {
          load(number),
          // Its flags are in memory that a filter cannot read: the C library falls back to the other one.
          jump(BPF_JEQ, SYS_clone3, 0, 1),
          end_with(SECCOMP_RET_ERRNO | ENOSYS),
          jump(BPF_JEQ, SYS_clone, 0, 4),
          load(offsetof(seccomp_data, args)),
          jump(BPF_JSET, CLONE_THREAD, 1, 0),
          end_with(SECCOMP_RET_TRAP),
          end_with(SECCOMP_RET_ALLOW),
      });
  for (forbidden_call const& c : forbidden) trap(c.number);
  let_pass(c_library);
  let_pass(linker);
  f.push_back(load(number));
  for (long const c : performed) trap(c);
  f.push_back(end_with(SECCOMP_RET_ALLOW));
  sock_fprog const program{.len = static_cast<unsigned short>(f.size()), .filter = f.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    (void)::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

} // namespace unio::testing::preload
