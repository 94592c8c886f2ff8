// strace, attached to the server while it is measured.

#include "echo/calls.hpp"

#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>

namespace benchmarks {
namespace {

constexpr int longest_attaching_ms = 3000;

// Whether its first thread is traced: strace attaches to the others before it lets them go on.
bool is_traced(pid_t process) {
  std::ifstream in("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("TracerPid:")) return std::stoi(line.substr(10)) != 0;
  return false;
}

} // namespace

std::uint64_t total_of_calls(std::istream& summary) {
  // "calls syscall", a rule, "1234 read", …, a rule, "5678 total"
  for (std::string line; std::getline(summary, line);) {
    std::istringstream fields(line);
    std::uint64_t calls = 0;
    std::string name;
    if (fields >> calls >> name && name == "total") return calls;
  }
  throw std::runtime_error("strace says no total");
}

counted_calls::counted_calls(pid_t process) : summary_(::memfd_create("calls", 0)) {
  if (summary_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  std::string const pid = std::to_string(process);
  std::string const file = "/proc/self/fd/" + std::to_string(summary_);
  char const* const command[] = {"strace", "-q",         "-f", "-c",        "-U",   "calls,name",
                                 "-o",     file.c_str(), "-p", pid.c_str(), nullptr};
  int const error =
      ::posix_spawnp(&tracer_, command[0], nullptr, nullptr, const_cast<char* const*>(command), environ);
  if (error != 0) {
    ::close(summary_);
    throw std::system_error(error, std::generic_category(), "strace");
  }
  for (int ms = 0; !is_traced(process); ms += 2) {
    bool const has_ended = ::waitpid(tracer_, nullptr, WNOHANG) != 0;
    if (has_ended) tracer_ = -1;
    if (has_ended || ms >= longest_attaching_ms) {
      stop();
      throw std::runtime_error("strace may not trace the server");
    }
    ::usleep(2000);
  }
}

counted_calls::~counted_calls() { stop(); }

void counted_calls::stop() noexcept {
  if (tracer_ > 0) {
    ::kill(tracer_, SIGINT);
    ::waitpid(tracer_, nullptr, 0);
    tracer_ = -1;
  }
  if (summary_ >= 0) ::close(summary_);
  summary_ = -1;
}

std::uint64_t counted_calls::end() {
  ::kill(tracer_, SIGINT); // it detaches, and writes
  ::waitpid(tracer_, nullptr, 0);
  tracer_ = -1;
  std::ifstream in("/proc/self/fd/" + std::to_string(summary_));
  return total_of_calls(in);
}

} // namespace benchmarks
