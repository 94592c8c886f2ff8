// Starting the echo servers and echo_load.

#include "echo/servers.hpp"

#include "runner/program.hpp"

#include <fmt/format.h>

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace benchmarks {
namespace {

using std::chrono::seconds;

constexpr seconds longest_start(10);

// A file in memory, which other processes open by its name and which leaves nothing behind.
class shared_file {
 public:
  shared_file() : fd_(::memfd_create("echo_timer", MFD_CLOEXEC)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "memfd_create");
  }
  ~shared_file() { ::close(fd_); }
  shared_file(shared_file const&) = delete;
  shared_file& operator=(shared_file const&) = delete;
  [[nodiscard]] std::string name() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

 private:
  int fd_;
};

// "listening on 127.0.0.1:PORT"
std::string port_of(std::string const& line) {
  const std::size_t colon = line.rfind(':');
  if (!line.starts_with("listening on ") || colon == std::string::npos)
    throw std::runtime_error("the server does not say where it listens, but: " + line);
  return line.substr(colon + 1);
}

sample run(echo_server const& what, std::string const& load_program, echo_load const& l, processors where,
           std::uint64_t ms) {
  std::vector<std::string> server = what.command;
  if (!what.unio_driver.empty()) // env becomes the server
    server.insert(server.begin(), {"env", "UNIO_DRIVER=" + what.unio_driver});
  std::vector<std::string> load = {load_program};
  std::optional<shared_file> lateness;
  if (l.has_timer) {
    lateness.emplace();
    server.insert(server.end(), {"--timer", lateness->name()});
    load.insert(load.end(), {"--timer", lateness->name()});
  }
  if (l.busy_ms != 0) server.insert(server.end(), {"--busy", std::to_string(l.busy_ms)});
  if (l.every_ms != 0) load.insert(load.end(), {"--every", std::to_string(l.every_ms)});
  if (!l.http.empty()) load.insert(load.end(), {"--http", l.http});
  if (counted_in_programs() == counting::system_calls) load.insert(load.end(), {"--calls", "yes"});
  if (l.slow_ms != 0) load.insert(load.end(), {"--slow", std::to_string(l.slow_ms)});
  child_program serving(server, where.server);
  const std::string port = port_of(serving.read_line(longest_start));
  load.insert(load.end(), {"--port", port, "--server-pid", std::to_string(serving.pid()), "--connections",
                           std::to_string(l.connections), "--bytes", std::to_string(l.bytes), "--warm-up",
                           std::to_string(l.warm_up_ms), "--milliseconds", std::to_string(ms)});
  child_program loading(load, where.load);
  return sample_from(loading.read_line(seconds(30 + ms / 1000)));
}

} // namespace

// Both ends have to be on processors of their own, or the system's choice would be what is measured.
processors places(settings const& s, echo_load const& l) {
  if (l.anywhere) return {-1, -1};
  int server_cpu = s.subject_cpu;
  int load_cpu = s.helper_cpu;
  if (server_cpu < 0) {
    server_cpu = 0;
    load_cpu = std::thread::hardware_concurrency() > 1 ? 1 : 0;
  }
  return {server_cpu, l.one_core ? server_cpu : load_cpu};
}

std::vector<echo_server> echo_servers(settings const& s) {
  const auto peer = [&](char const* subject, char const* driver, char const* program,
                        char const* variant = "") {
    echo_server one{.subject = subject, .driver = driver, .command = {s.programs + "/" + program, "0"}};
    if (*variant != '\0') one.command.emplace_back(variant);
    return one;
  };
  std::vector<echo_server> all = {
      peer("epoll, C", "epoll", "echo_epoll"),
      peer("epoll, C, spliced", "epoll", "echo_epoll", "spliced"),
      peer("liburing, C", "io_uring", "echo_uring_one_shot"),
      peer("liburing, C, linked", "io_uring", "echo_uring_one_shot", "linked"),
      peer("liburing, C, multishot", "io_uring", "echo_uring_multishot"),
      peer("libuv", "epoll", "echo_libuv"),
      peer("asio callbacks", "epoll", "echo_asio"),
      peer("asio coroutines", "epoll", "echo_asio", "coroutines"),
      peer("asio callbacks, io_uring", "io_uring", "echo_asio_uring"),
      peer("asio coroutines, io_uring", "io_uring", "echo_asio_uring", "coroutines"),
  };
  for (char const* const driver : {"io_uring", "epoll"})
    for (char const* const mode : {"awaited", "multiplexed", "lent", "poll-first", "linked", "spliced"})
      all.push_back({.subject = fmt::format("unio {}, {}", mode, driver),
                     .driver = driver,
                     .command = {s.unio, "echo", "--port", "0", "--mode", mode, "--driver",
                                 driver == std::string("io_uring") ? "uring" : driver}});
  return all;
}

std::optional<echo_server> on_threads(echo_server one, int threads, bool is_shared) {
  const bool is_asio = one.subject.starts_with("asio");
  const bool has_one_each = one.subject == "epoll, C" || one.subject == "liburing, C, multishot";
  if (!is_asio && !is_ours(one.subject) && (is_shared || !has_one_each)) return std::nullopt;
  one.command.insert(one.command.end(), {"--threads", std::to_string(threads)});
  if (is_asio && !is_shared) one.command.emplace_back("--one-each");
  if (is_ours(one.subject) && is_shared) one.command.emplace_back("--shared");
  return one;
}

benchmark_case echo_case(settings const& s, echo_server const& server, echo_load const& l,
                         std::uint64_t run_ms, std::vector<parameter> parameters) {
  const std::string load_program = s.programs + "/echo_load";
  benchmark_case c{.subject = server.subject,
                   .parameters = std::move(parameters),
                   .run = nullptr,
                   .unavailable = {},
                   .operations = run_ms};
  if (!std::filesystem::exists(server.command[0])) c.unavailable = "not built: " + server.command[0];
  if (!std::filesystem::exists(load_program))
    c.unavailable = "no load generator: liburing was missing when the benchmarks were built";
  if (c.unavailable.empty())
    c.run = [=, where = places(s, l)](std::uint64_t ms) { return run(server, load_program, l, where, ms); };
  return c;
}

double figure_of(sample const& loaded, std::string_view name) {
  const auto f = std::ranges::find(loaded.extra, name, &figure::name);
  if (f == loaded.extra.end()) throw std::runtime_error(fmt::format("the load generator says no {}", name));
  return f->value;
}

} // namespace benchmarks
