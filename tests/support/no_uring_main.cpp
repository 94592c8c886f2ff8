// no_uring: runs a command that the kernel lets use no io_uring, as a container's seccomp filter would.
//
//   no_uring [--errno NAME] [--calls setup|later|all] [--kill] COMMAND...
//
//   --errno   what the denied calls fail with: EPERM (the default), ENOSYS, ENOMEM, EINVAL, EACCES,
//             EOPNOTSUPP, EMFILE
//   --calls   setup: io_uring_setup · later: io_uring_enter and io_uring_register · all (the default)
//   --kill    a denied call kills the process with SIGSYS instead
//
// Exit status: the command's; 2 wrong usage · 125 no filter could be installed · 126, 127 the command could
// not be run.

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string_view>

namespace {

// The same numbers on every architecture but Alpha, so the filter need not ask which one it is on.
constexpr std::uint32_t io_uring_setup = 425;
constexpr std::uint32_t io_uring_enter = 426;
constexpr std::uint32_t io_uring_register = 427;
#ifdef SYS_io_uring_setup
static_assert(SYS_io_uring_setup == io_uring_setup && SYS_io_uring_register == io_uring_register);
#endif
constexpr std::uint32_t x32_bit = 0x4000'0000; // set in the numbers of x86-64's second table

struct error_name {
  std::string_view name;
  int value;
};

constexpr error_name errors[] = {
    {"EPERM", EPERM},   {"ENOSYS", ENOSYS},         {"ENOMEM", ENOMEM}, {"EINVAL", EINVAL},
    {"EACCES", EACCES}, {"EOPNOTSUPP", EOPNOTSUPP}, {"EMFILE", EMFILE},
};

struct options {
  int error = EPERM;
  std::uint32_t first = io_uring_setup;
  std::uint32_t last = io_uring_register;
  bool kill = false;
  char** command = nullptr;
};

bool parse_error(std::string_view name, options& out) {
  for (error_name const& e : errors) {
    if (e.name == name) {
      out.error = e.value;
      return true;
    }
  }
  return false;
}

bool parse_calls(std::string_view name, options& out) {
  out.first = name == "later" ? io_uring_enter : io_uring_setup;
  out.last = name == "setup" ? io_uring_setup : io_uring_register;
  return name == "setup" || name == "later" || name == "all";
}

bool parse(char** argument, options& out) {
  for (; *argument != nullptr; ++argument) {
    std::string_view const word = *argument;
    if (word == "--kill") {
      out.kill = true;
    } else if (word == "--errno") {
      if (*++argument == nullptr || !parse_error(*argument, out)) return false;
    } else if (word == "--calls") {
      if (*++argument == nullptr || !parse_calls(*argument, out)) return false;
    } else if (word == "--") {
      ++argument;
      break;
    } else if (word.starts_with('-')) {
      return false;
    } else {
      break;
    }
  }
  out.command = argument;
  return *argument != nullptr;
}

bool install_filter(options const& o) {
  std::uint32_t const denial =
      o.kill ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(o.error);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~x32_bit),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, o.first, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, o.last, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, denial),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{.len = std::size(code), .filter = code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

} // namespace

int main(int, char** argv) {
  options o;
  if (argv[0] == nullptr || !parse(argv + 1, o)) {
    std::fputs(
        "usage: no_uring [--errno EPERM|ENOSYS|ENOMEM|EINVAL|EACCES|EOPNOTSUPP|EMFILE] "
        "[--calls setup|later|all] [--kill] COMMAND...\n",
        stderr);
    return 2;
  }
  if (!install_filter(o)) {
    std::fprintf(stderr, "no_uring: cannot install a seccomp filter: %s\n", std::strerror(errno));
    return 125;
  }
  execvp(o.command[0], o.command);
  int const error = errno;
  std::fprintf(stderr, "no_uring: cannot run %s: %s\n", o.command[0], std::strerror(error));
  return error == ENOENT ? 127 : 126;
}
