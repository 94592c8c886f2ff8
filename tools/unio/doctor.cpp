#include "doctor.hpp"

#include "tools/support/json.hpp"
#include "tools/support/machine.hpp"
#include "tools/support/output.hpp"
#include "tour.hpp"

#include <unio/multiplexer.hpp>
#include <unio/pipe_handle.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace doctor {
namespace {

enum class state : std::uint8_t { fine, hint, wrong };

struct finding {
  std::string about;
  state is;
  std::string found;
  std::string change; ///< what to do about it, in one line; empty: nothing
};

using findings = std::vector<finding>;

char const* name(state s) noexcept { return s == state::fine ? "ok" : s == state::hint ? "hint" : "WRONG"; }

class descriptor {
 public:
  explicit descriptor(int fd) noexcept : fd_(fd) {}
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_;
};

// The file's only line, or its first one; nothing if it cannot be read.
std::optional<std::string> line_of(std::string const& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) return {};
  return line;
}

// The setting below /proc/sys.
std::optional<std::uint64_t> setting(char const* path) {
  auto const text = line_of(std::string("/proc/sys/") + path);
  std::uint64_t n = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), n).ec != std::errc()) return {};
  return n;
}

// What /proc/self/status says after "NAME:".
std::string status_of_process(std::string_view field) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(field) || line.size() <= field.size() || line[field.size()] != ':') continue;
    std::size_t const at = line.find_first_not_of(" \t", field.size() + 1);
    return at == std::string::npos ? "" : line.substr(at);
  }
  return {};
}

// ── the driver ─────────────────────────────────────────────────────────────────────────────────────────────

// One message through a pipe, read on a multiplexer. Empty: it arrived.
std::string moves_a_byte() {
  auto const made = unio::io_multiplexer::best_available(1);
  if (!made) return made.error().message();
  auto ends = unio::pipe_handle::anonymous();
  if (!ends) return ends.error().message();
  ends->reader.set_multiplexer(made->get());
  std::array<char, 1> const sent{'x'};
  if (auto const written = ends->writer.write(sent); !written) return written.error().message();
  std::array<char, 1> back{};
  if (auto const read = ends->reader.read(back); !read) return read.error().message();
  return back == sent ? "" : "another byte arrived";
}

// Who forbids io_uring, and how to allow it.
std::string how_to_allow_io_uring(bool has_filter) {
  auto const disabled = setting("kernel/io_uring_disabled");
  if (disabled == 2) return "sysctl kernel.io_uring_disabled=0";
  if (disabled == 1)
    return "sysctl kernel.io_uring_disabled=0, or add this user's group to kernel.io_uring_group";
  if (has_filter)
    return "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile";
  return "use Linux 5.13 or newer, with CONFIG_IO_URING";
}

void look_at_driver(findings& to) {
  std::string why;
  auto const chosen = tour::chosen_driver(why);
  bool const has_filter = status_of_process("Seccomp") == "2";
  if (!chosen) {
    to.push_back({"driver", state::wrong, why,
                  std::getenv("UNIO_DRIVER") != nullptr
                      ? "unset UNIO_DRIVER: unio then takes what there is"
                      : "raise the limits below: not even epoll can be set up"});
    return;
  }
  bool const is_ring = std::string_view(chosen->driver) == "io_uring";
  bool const is_asked_for = is_ring || chosen->why == "UNIO_DRIVER is epoll";
  to.push_back({"driver", is_asked_for ? state::fine : state::hint,
                chosen->why.empty() ? chosen->driver : fmt::format("{} ({})", chosen->driver, chosen->why),
                is_asked_for ? "" : how_to_allow_io_uring(has_filter)});
  std::string const failed = moves_a_byte();
  to.push_back({"a byte through a pipe", failed.empty() ? state::fine : state::wrong,
                failed.empty() ? "arrives" : failed,
                failed.empty() ? "" : "run it under strace, and tell us what it shows"});
  struct part {
    char const* about;
    bool is_there;
    char const* since;
  };
  part const of_ring[] = {
      {"ring: runs completions where they are awaited", chosen->defer_taskrun, "6.1"},
      {"ring: accepts many connections with one entry", chosen->multishot_accept, "5.19"},
      {"ring: sends without copying", chosen->zero_copy_send, "6.1"},
      {"ring: waiting is not accounted as I/O wait", chosen->no_iowait, "6.15"},
      {"ring: no array of indices", chosen->no_sqarray, "6.6"},
  };
  auto const add = [&](part const& p) {
    to.push_back({p.about, p.is_there ? state::fine : state::hint, p.is_there ? "yes" : "no",
                  p.is_there ? "" : fmt::format("Linux {} or newer has it; unio does without", p.since)});
  };
  if (is_ring) std::for_each(std::begin(of_ring), std::end(of_ring), add);
  add({"pipes are written without SIGPIPE (RWF_NOSIGNAL)", chosen->pipe_write_without_signal, "6.18"});
}

// ── the kernel ─────────────────────────────────────────────────────────────────────────────────────────────

void look_at_kernel(findings& to) {
  to.push_back({"kernel", state::fine, tools::kernel_name(), ""});
  if (auto const disabled = setting("kernel/io_uring_disabled"))
    to.push_back({"kernel.io_uring_disabled", *disabled == 0 ? state::fine : state::hint,
                  std::to_string(*disabled), *disabled == 0 ? "" : how_to_allow_io_uring(false)});
  std::string const filter = status_of_process("Seccomp");
  to.push_back({"seccomp", state::fine,
                filter == "2"   ? "a filter is installed"
                : filter == "0" ? "no filter"
                                : "unknown",
                ""});
  bool const has_proc = ::access("/proc/self/fd", X_OK) == 0;
  to.push_back({"/proc", has_proc ? state::fine : state::wrong, has_proc ? "mounted" : std::strerror(errno),
                has_proc ? "" : "mount -t proc proc /proc: names of what is open are read there"});
  // Refused arguments: what is asked is whether the call is there.
  long const opened = ::syscall(SYS_openat2, -1, nullptr, nullptr, 0);
  int const openat2_error = opened < 0 ? errno : 0;
  long const process = ::syscall(SYS_pidfd_open, ::getpid(), 0);
  int const pidfd_error = process < 0 ? errno : 0;
  descriptor const owner(static_cast<int>(process));
  bool const has_openat2 = openat2_error == EINVAL || openat2_error == EFAULT;
  to.push_back(
      {"openat2", has_openat2 ? state::fine : state::hint, has_openat2 ? "yes" : std::strerror(openat2_error),
       has_openat2 ? "" : "allow it (Linux 5.6): names beneath a directory are then resolved at once"});
  to.push_back({"pidfd_open", process >= 0 ? state::fine : state::wrong,
                process >= 0 ? "yes" : std::strerror(pidfd_error),
                process >= 0 ? "" : "allow it (Linux 5.3): the ends of processes are awaited by it"});
}

// ── limits ─────────────────────────────────────────────────────────────────────────────────────────────────

std::string shown(rlim_t n) { return n == RLIM_INFINITY ? "unlimited" : std::to_string(n); }

// `enough` of the soft limit is fine. `unit`: what ulimit(1) counts in.
void look_at_limit(findings& to, char const* about, decltype(RLIMIT_NOFILE) which, rlim_t enough,
                   std::string_view option, rlim_t unit, std::string_view why) {
  rlimit is{};
  if (::getrlimit(which, &is) != 0) return;
  bool const is_fine = is.rlim_cur >= enough; // RLIM_INFINITY is the largest number
  std::string change;
  if (!is_fine) {
    rlim_t const to_be = std::min(enough, is.rlim_max);
    change = is.rlim_cur < is.rlim_max
                 ? fmt::format("ulimit {} {}: {}", option,
                               to_be == RLIM_INFINITY ? "unlimited" : std::to_string(to_be / unit), why)
                 : fmt::format("as root raise the hard limit (limits.conf, LimitXXX= of systemd): {}", why);
  }
  to.push_back({about, is_fine ? state::fine : state::hint,
                fmt::format("{}, at most {}", shown(is.rlim_cur), shown(is.rlim_max)), std::move(change)});
}

void look_at_setting(findings& to, char const* path, std::uint64_t enough, std::string_view why) {
  auto const is = setting(path);
  if (!is) return;
  std::string name = path;
  std::replace(name.begin(), name.end(), '/', '.');
  to.push_back({name, *is >= enough ? state::fine : state::hint, std::to_string(*is),
                *is >= enough ? "" : fmt::format("sysctl {}={}: {}", name, enough, why)});
}

// The control group's limit of tasks and memory, where it is of version 2.
void look_at_control_group(findings& to) {
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (!line.starts_with("0::")) continue;
    std::string const folder = "/sys/fs/cgroup" + line.substr(3) + "/";
    for (char const* what : {"pids.max", "memory.max", "cpu.max"}) {
      auto const limit = line_of(folder + what);
      if (!limit) continue;
      std::uint64_t n = 0;
      bool const is_number =
          std::from_chars(limit->data(), limit->data() + limit->size(), n).ec == std::errc();
      bool const is_small = std::string_view(what) == "pids.max" && is_number && n < 256;
      to.push_back({std::string("cgroup ") + what, is_small ? state::hint : state::fine, *limit,
                    is_small ? "raise it (TasksMax= of systemd): each thread and process counts" : ""});
    }
  }
}

void look_at_limits(findings& to) {
  look_at_limit(to, "open files (RLIMIT_NOFILE)", RLIMIT_NOFILE, 16384, "-n", 1,
                "each connection is one of them");
  look_at_limit(to, "locked memory (RLIMIT_MEMLOCK)", RLIMIT_MEMLOCK, 8u << 20, "-l", 1024,
                "registered buffers count there; without it they are used as any memory");
  look_at_limit(to, "size of a file (RLIMIT_FSIZE)", RLIMIT_FSIZE, RLIM_INFINITY, "-f", 1024,
                "writing beyond it ends with file_too_large");
  look_at_limit(to, "processes and threads (RLIMIT_NPROC)", RLIMIT_NPROC, 1024, "-u", 1,
                "unio has threads of its own, for what may block");
  look_at_setting(to, "fs/inotify/max_user_watches", 8192, "each watched directory or file is one");
  look_at_setting(to, "fs/inotify/max_user_instances", 128, "each watch_handle is one");
  look_at_setting(to, "net/core/somaxconn", 4096, "the queue of connections to accept is cut to it");
  look_at_setting(to, "kernel/pid_max", 32768, "each thread and process has a number");
  look_at_control_group(to);
  descriptor const watch(::inotify_init1(IN_CLOEXEC));
  if (watch.get() < 0)
    to.push_back({"a watch", state::wrong, std::strerror(errno),
                  "raise fs.inotify.max_user_instances, or end what uses them up"});
}

// ── the filesystem of the current directory ────────────────────────────────────────────────────────────────

std::string filesystem_name(long type) {
  struct known {
    long type;
    char const* name;
  };
  constexpr known all[] = {
      {0xEF53, "ext4"},         {0x58465342, "XFS"}, {0x9123683E, "btrfs"}, {0x01021994, "tmpfs"},
      {0x794c7630, "overlay"},  {0x6969, "NFS"},     {0x65735546, "FUSE"},  {0x2FC12FC1, "ZFS"},
      {0xCA451A4E, "bcachefs"}, {0xFF534D42, "SMB"}, {0xF2F52010, "F2FS"},  {0x01021997, "9p"},
  };
  for (known const& k : all) {
    if (k.type == type) return k.name;
  }
  return fmt::format("type {:#x}", static_cast<unsigned long>(type));
}

// A file of the current directory that is gone with its descriptor.
int unnamed_file(int flags) noexcept {
  int const fd = ::open(".", O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  char name[] = ".unio_doctor_XXXXXX";
  int const named = ::mkostemp(name, O_CLOEXEC | flags);
  if (named >= 0) ::unlink(name);
  return named;
}

void look_at_filesystem(findings& to) {
  struct statfs is{};
  if (::statfs(".", &is) != 0) {
    to.push_back({"current directory", state::wrong, std::strerror(errno), "go to one that is there"});
    return;
  }
  to.push_back({"current directory is on", state::fine, filesystem_name(static_cast<long>(is.f_type)), ""});
  descriptor const file(unnamed_file(0));
  if (file.get() < 0) {
    to.push_back({"current directory: a file", state::hint, std::strerror(errno),
                  "go where you may write, to learn of direct I/O, shared storage and locks"});
    return;
  }
  descriptor const direct(unnamed_file(O_DIRECT));
  to.push_back({"current directory: direct I/O", direct.get() >= 0 ? state::fine : state::hint,
                direct.get() >= 0 ? "yes" : std::strerror(errno),
                direct.get() >= 0 ? "" : "caching::none needs ext4, XFS, btrfs, or tmpfs since Linux 6.6"});
  descriptor const copy(unnamed_file(0));
  bool const has_text = ::pwrite(file.get(), "unio", 4, 0) == 4;
  bool const is_shared = has_text && copy.get() >= 0 && ::ioctl(copy.get(), FICLONE, file.get()) == 0;
  to.push_back({"current directory: copies share storage", is_shared ? state::fine : state::hint,
                is_shared ? "yes" : "no",
                is_shared ? "" : "XFS and btrfs have it; elsewhere copies read and write"});
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  bool const is_locked = ::fcntl(file.get(), F_OFD_SETLK, &lock) == 0;
  to.push_back({"current directory: locks", is_locked ? state::fine : state::wrong,
                is_locked ? "yes" : std::strerror(errno),
                is_locked ? "" : "mount it with locks (NFS: its lock service), or lock elsewhere"});
}

// ── what is printed ────────────────────────────────────────────────────────────────────────────────────────

std::size_t count(findings const& all, state s) {
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](finding const& f) { return f.is == s; }));
}

std::string to_text(findings const& all) {
  std::size_t width = 0;
  for (finding const& f : all) width = std::max(width, f.about.size());
  std::string text;
  for (finding const& f : all) {
    text += fmt::format("{:<5}  {:<{}}  {}\n", name(f.is), f.about, width, f.found);
    if (!f.change.empty()) text += fmt::format("       -> {}\n", f.change);
  }
  return text + fmt::format("{} wrong, {} hints\n", count(all, state::wrong), count(all, state::hint));
}

std::string to_json(findings const& all) {
  std::string text =
      fmt::format("{{\n  \"unio\": {},\n  \"wrong\": {},\n  \"hints\": {},\n  \"findings\": [",
                  tools::quoted(unio::version_string()), count(all, state::wrong), count(all, state::hint));
  for (finding const& f : all) {
    text += fmt::format("{}    {{\"about\": {}, \"state\": {}, \"found\": {}, \"change\": {}}}",
                        &f == all.data() ? "\n" : ",\n", tools::quoted(f.about),
                        tools::quoted(f.is == state::wrong ? "wrong" : name(f.is)), tools::quoted(f.found),
                        tools::quoted(f.change));
  }
  return text + "\n  ]\n}\n";
}

} // namespace

void describe(CLI::App& app, options& o) {
  app.add_flag("--json", o.json, "Print an object of JSON instead");
}

int run(options const& o) {
  findings all;
  look_at_driver(all);
  look_at_kernel(all);
  look_at_limits(all);
  look_at_filesystem(all);
  tools::print(o.json ? to_json(all) : to_text(all));
  return count(all, state::wrong) == 0 ? 0 : 1;
}

} // namespace doctor
