// compile: what a small echo server costs until it can run. The compilers are run here, as a build would run
// them; the server that comes out has to echo.

#include "runner/table.hpp"

#include "support/placement.hpp"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace benchmarks {
namespace {

namespace fs = std::filesystem;
using steady = std::chrono::steady_clock;
using command_line = std::vector<std::string>;

[[noreturn]] void fail(std::string const& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

// ── other programs ─────────────────────────────────────────────────────────────────────────────────────────

/// Where objects and servers go; removed at the end.
class scratch {
 public:
  scratch() {
    std::string name = (fs::temp_directory_path() / "unio-compile-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) fail(name);
    directory_ = name;
  }
  ~scratch() {
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;
  [[nodiscard]] std::string file(std::string const& name) const { return (directory_ / name).string(); }

 private:
  fs::path directory_;
};

/// Starts a program that does not outlive this one. What it says goes to the file `says`.
pid_t start(command_line arguments, std::string const& says, int cpu) {
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid > 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int out = ::open(says.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  const int in = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out < 0 || in < 0) ::_exit(127);
  ::dup2(in, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(out, STDERR_FILENO);
  if (cpu >= 0) move_to_cpu(cpu);
  ::execvp(pointers[0], pointers.data());
  ::_exit(127);
}

std::string text_of(std::string const& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string first_line(std::string const& text) { return text.substr(0, text.find('\n')); }

struct cost {
  double cpu_s = 0; // of the program and of all that it started and waited for
  double wall_s = 0;
};

/// Runs a program to its end. Throws the first error that it reports, if it fails.
cost run(command_line const& arguments, std::string const& says, int cpu) {
  const auto begin = steady::now();
  const pid_t pid = start(arguments, says, cpu);
  int status = 0;
  rusage used = {};
  while (::wait4(pid, &status, 0, &used) < 0)
    if (errno != EINTR) fail("wait4");
  const double wall = std::chrono::duration<double>(steady::now() - begin).count();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::string said = text_of(says);
    const std::size_t error = said.find("error: ");
    throw std::runtime_error(fmt::format("{} fails: {}", arguments[0],
                                         first_line(said.substr(error != std::string::npos ? error : 0))));
  }
  const auto seconds = [](timeval t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return {.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime), .wall_s = wall};
}

// ── compilers ──────────────────────────────────────────────────────────────────────────────────────────────

struct toolchain {
  std::string command;
  std::string name;             // with its version, as compiler() says it
  std::string unavailable = {}; // the reason
  std::string no_asio = {};     // why it cannot compile what needs Asio
};

/// The compilers that unio is built with; and the newest Clang, if there is a newer one.
std::vector<toolchain> toolchains(scratch const& at, bool only_one) {
  const std::string says = at.file("version");
  const auto look = [&](std::string const& command) -> toolchain {
    try {
      run({command, "-dumpfullversion", "-dumpversion"}, says, -1);
    } catch (std::exception const&) {
      return {command, command, command + " is not installed"};
    }
    return {command, command.substr(0, command.find('-')) + " " + first_line(text_of(says))};
  };
  std::vector<toolchain> out = {look("g++")};
  if (!only_one) {
    out.push_back(look("clang++-19"));
    for (int version = 39; version > 19; --version) {
      toolchain newest = look(fmt::format("clang++-{}", version));
      if (!newest.unavailable.empty()) continue;
      out.push_back(std::move(newest));
      break;
    }
  }
  const std::string probe = at.file("probe.cpp");
  std::ofstream(probe) << "#include <boost/asio/version.hpp>\n";
  for (toolchain& t : out) {
    try {
      run({t.command, "-fsyntax-only", probe}, says, -1);
    } catch (std::exception const&) {
      t.no_asio = "Boost.Asio's headers were not found";
    }
  }
  return out;
}

// ── servers ────────────────────────────────────────────────────────────────────────────────────────────────

struct server {
  std::string subject;
  std::string source;             // without .cpp
  std::string umbrella;           // the header that includes all of the library
  bool is_compiled_apart = false; // most of the library is in an object of its own, which is not counted
  bool quick = false;             // also with --quick
};

std::vector<server> const servers = {
    {"asio callbacks", "echo_asio_callbacks", "boost/asio.hpp"},
    {"asio coroutines", "echo_asio_coroutines", "boost/asio.hpp", false, true},
    {"asio coroutines, compiled separately", "echo_asio_coroutines", "boost/asio.hpp", true},
    {"unio callbacks", "echo_unio_callbacks", "unio/unio.hpp"},
    {"unio awaited", "echo_unio_awaited", "unio/unio.hpp", false, true},
};

int listen_somewhere(sockaddr_in& at) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  at = {.sin_family = AF_INET, .sin_port = 0, .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
  socklen_t size = sizeof at;
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 ||
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0)
    fail("bind");
  return fd;
}

bool echoes(sockaddr_in const& at) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  const timeval patience = {.tv_sec = 2, .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  bool same = ::connect(fd, reinterpret_cast<sockaddr const*>(&at), sizeof at) == 0;
  for (int i = 0; i < 3 && same; ++i) {
    const std::string line = fmt::format("line {} of a test", i);
    std::string room(line.size(), '\0');
    same = ::send(fd, line.data(), line.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(line.size()) &&
           ::recv(fd, room.data(), room.size(), MSG_WAITALL) == static_cast<ssize_t>(room.size()) &&
           room == line;
  }
  ::close(fd);
  return same;
}

/// Throws unless the program echoes.
void check_server(std::string const& program, std::string const& says) {
  sockaddr_in at;
  const int reserved = listen_somewhere(at);
  ::close(reserved); // it was bound and never listened: the port is free again at once
  const pid_t pid = start({program, std::to_string(ntohs(at.sin_port))}, says, -1);
  bool good = false;
  for (int i = 0; i < 200 && !good; ++i) { // two seconds to start
    if (::waitpid(pid, nullptr, WNOHANG) == pid)
      throw std::runtime_error(program + " ends: " + first_line(text_of(says)));
    good = echoes(at);
    if (!good) ::usleep(10'000);
  }
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  if (!good) throw std::runtime_error(program + " does not echo");
}

/// One server with one compiler.
class compilation {
 public:
  compilation(std::shared_ptr<scratch> at, server s, toolchain with, bool all_headers, int cpu)
      : at_(std::move(at)),
        server_(std::move(s)),
        with_(std::move(with)),
        all_headers_(all_headers),
        cpu_(cpu) {}

  sample run_once() {
    const std::string object = at_->file("server.o");
    const cost c = run(line({"-c", source(server_.source), "-o", object}), says(), cpu_);
    if (extra_.empty()) look_at(object);
    sample s{.elapsed_ns = c.wall_s * 1e9, .value = c.cpu_s, .extra = extra_};
    s.extra.push_back({"wall s", c.wall_s});
    return s;
  }

 private:
  [[nodiscard]] std::string says() const { return at_->file("log"); }
  static std::string source(std::string const& name) {
    return std::string(SOURCES_OF_SERVERS) + "/" + name + ".cpp";
  }
  [[nodiscard]] bool is_unio() const { return is_ours(server_.subject); }

  [[nodiscard]] command_line line(command_line const& more) const {
    command_line out = {with_.command, "-std=c++23",          "-O2",
                        "-DNDEBUG",    "-ffunction-sections", "-fdata-sections"};
    if (is_unio()) out.push_back("-I" UNIO_HEADERS);
    if (server_.is_compiled_apart) out.push_back("-DBOOST_ASIO_SEPARATE_COMPILATION");
    if (all_headers_) out.insert(out.end(), {"-include", server_.umbrella});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }

  // What does not change from run to run.
  void look_at(std::string const& object) {
    const std::string preprocessed = at_->file("server.i");
    run(line({"-E", source(server_.source), "-o", preprocessed}), says(), cpu_);
    const std::string text = text_of(preprocessed);
    const auto lines = static_cast<double>(std::ranges::count(text, '\n'));
    const std::string program = at_->file("server");
    command_line link = {with_.command, "-Wl,--gc-sections", "-s", object, "-o", program};
    if (server_.is_compiled_apart) {
      const std::string library = at_->file("asio_sources.o");
      run(line({"-c", source("asio_sources"), "-o", library}), says(), cpu_);
      link.push_back(library);
    }
    if (is_unio()) link.push_back(UNIO_LIBRARY);
    if (is_unio() && URING_LIBRARY[0] != '\0') link.push_back(URING_LIBRARY);
    run(link, says(), cpu_);
    check_server(program, says());
    const auto kib = [](std::string const& file) { return static_cast<double>(fs::file_size(file)) / 1024; };
    extra_ = {{"lines", lines}, {"object KiB", kib(object)}, {"stripped KiB", kib(program)}};
  }

  std::shared_ptr<scratch> at_;
  server server_;
  toolchain with_;
  bool all_headers_;
  int cpu_;
  std::vector<figure> extra_;
};

std::string why_not(server const& s, toolchain const& with) {
  if (!with.unavailable.empty()) return with.unavailable;
  if (!is_ours(s.subject)) return with.no_asio;
  return fs::exists(UNIO_LIBRARY) ? "" : std::string("not built: ") + UNIO_LIBRARY;
}

} // namespace

table compile_table(settings const& s) {
  const auto at = std::make_shared<scratch>();
  table t{
      .name = "compile",
      .title = "compiling one echo server",
      .unit = "s of processor time",
      .reference = "asio coroutines",
      .rounds = s.quick ? 1 : 5,
      .notes =
          {"-std=c++23 -O2 -DNDEBUG; the time is user and system time of the compiler, without linking.",
           "headers: those that the server names, or all of the library in front of them (boost/asio.hpp, "
           "unio/unio.hpp).",
           "lines: of the preprocessor's output (-E), its line marks and empty lines included.",
           "stripped: linked with --gc-sections -s; unio's static library and liburing are in it, libstdc++ "
           "is not.",
           "compiled separately: Asio's own code is in another object, made once (boost/asio/impl/src.hpp)."},
  };
  for (toolchain const& with : toolchains(*at, s.quick)) {
    for (const bool all_headers : {false, true}) {
      if (all_headers && s.quick) continue;
      for (server const& each : servers) {
        if ((s.quick && !each.quick) || (all_headers && each.is_compiled_apart)) continue;
        benchmark_case c{
            .subject = each.subject,
            .parameters = {{"headers", all_headers ? "all" : "named"}, {"compiler", with.name}},
            .run = nullptr,
            .unavailable = why_not(each, with),
            .operations = 1,
        };
        if (c.unavailable.empty())
          c.run = [work = std::make_shared<compilation>(at, each, with, all_headers, s.subject_cpu)](
                      std::uint64_t) { return work->run_once(); };
        t.cases.push_back(std::move(c));
      }
    }
  }
  return t;
}

} // namespace benchmarks
