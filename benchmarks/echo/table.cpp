// echo: servers that send back what they receive (liburing4cpp demo/echo_server). For each run a server is started, and echo_load
// loads it and asks the kernel what that cost the server.

#include "runner/table.hpp"

#include "runner/program.hpp"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <thread>

namespace benchmarks {
namespace {

using std::chrono::seconds;

constexpr seconds longest_start(10);
constexpr std::uint64_t warm_up_ms = 50;

struct server {
  std::string subject;
  std::vector<std::string> command;
  std::string unavailable = {};
};

struct load {
  int connections;
  int bytes;
  bool one_core = false; // both ends on the server's processor: without waking another one
};

struct processors {
  int server;
  int load;
};

// Both ends have to be on processors of their own, or the system's choice would be what is measured.
processors places(settings const& s, load const& l) {
  int server_cpu = s.subject_cpu;
  int load_cpu = s.helper_cpu;
  if (server_cpu < 0) {
    server_cpu = 0;
    load_cpu = std::thread::hardware_concurrency() > 1 ? 1 : 0;
  }
  return {server_cpu, l.one_core ? server_cpu : load_cpu};
}

// "listening on 127.0.0.1:PORT"
std::string port_of(std::string const& line) {
  const std::size_t colon = line.rfind(':');
  if (!line.starts_with("listening on ") || colon == std::string::npos)
    throw std::runtime_error("the server does not say where it listens, but: " + line);
  return line.substr(colon + 1);
}

sample run(server const& what, std::string const& load_program, load const& l, processors where,
           std::uint64_t ms) {
  child_program serving(what.command, where.server);
  const std::string port = port_of(serving.read_line(longest_start));
  child_program loading({load_program, "--port", port, "--server-pid", std::to_string(serving.pid()),
                         "--connections", std::to_string(l.connections), "--bytes", std::to_string(l.bytes),
                         "--warm-up", std::to_string(warm_up_ms), "--milliseconds", std::to_string(ms)},
                        where.load);
  return sample_from(loading.read_line(seconds(30 + ms / 1000)));
}

std::vector<server> servers(settings const& s) {
  const auto peer = [&](char const* subject, char const* program, char const* variant = "") {
    server one{.subject = subject, .command = {s.programs + "/" + program, "0"}};
    if (*variant != '\0') one.command.emplace_back(variant);
    return one;
  };
  std::vector<server> all = {
      peer("epoll, C", "echo_epoll"),
      peer("liburing, C", "echo_uring_one_shot"),
      peer("liburing, C, linked", "echo_uring_one_shot", "linked"),
      peer("liburing, C, multishot", "echo_uring_multishot"),
      peer("libuv", "echo_libuv"),
      peer("asio callbacks", "echo_asio"),
      peer("asio coroutines", "echo_asio", "coroutines"),
      peer("asio callbacks, io_uring", "echo_asio_uring"),
      peer("asio coroutines, io_uring", "echo_asio_uring", "coroutines"),
  };
  for (char const* const driver : {"uring", "epoll"})
    for (char const* const mode : {"awaited", "multiplexed", "poll-first", "linked", "spliced"})
      all.push_back(
          {.subject = fmt::format("unio {}, {}", mode, driver == std::string("uring") ? "io_uring" : driver),
           .command = {s.unio, "echo", "--port", "0", "--mode", mode, "--driver", driver}});
  for (server& one : all)
    if (!std::filesystem::exists(one.command[0])) one.unavailable = "not built: " + one.command[0];
  return all;
}

std::vector<load> loads(settings const& s) {
  if (s.quick) return {{.connections = 16, .bytes = 64}};
  std::vector<load> all;
  for (int const bytes : {64, 4096}) {
    all.push_back({.connections = 1, .bytes = bytes, .one_core = true});
    for (int const connections : {1, 16, 128, 1024})
      all.push_back({.connections = connections, .bytes = bytes});
  }
  return all;
}

} // namespace

table echo_table(settings const& s) {
  // A run's operations are milliseconds here: how many requests they hold is what is measured.
  const std::uint64_t run_ms = s.quick ? 50 : 300;
  table t{
      .name = "echo",
      .title = "an echo server over loopback TCP: what a second of its processor time achieves",
      .unit = "requests per second of server CPU",
      .higher_is_better = true,
      .reference = "epoll, C",
      .counted = {},
      .curve_over = "connections",
      .has_percentiles = true,
      .run_ms = static_cast<double>(run_ms),
      .rounds = s.quick ? 1 : 5,
      .notes = {"Each connection sends a message, waits until all of it has come back, compares it, and "
                "sends the next.",
                "Server and load generator are pinned, to two processors or both to the server's "
                "(placement); the buffers "
                "of all servers have 8 KiB, and TCP_NODELAY is set.",
                "user % and system %: of the server's time, sampled by the kernel's tick.",
                fmt::format("load is the limit: its processor was busy for 97 % of the time or more. Then "
                            "requests/s and the "
                            "percentiles are its own; the server's time per request is not."),
                "On virtual processors that share a core a busy load generator makes the server's "
                "instructions slower, for "
                "all subjects alike."},
  };
  const std::string load_program = s.programs + "/echo_load";
  const bool has_load = std::filesystem::exists(load_program);
  for (load const& l : loads(s)) {
    const processors where = places(s, l);
    for (server const& one : servers(s)) {
      benchmark_case c{
          .subject = one.subject,
          .parameters = {{"placement", where.server == where.load ? "one processor" : "two processors"},
                         {"bytes", std::to_string(l.bytes)},
                         {"connections", std::to_string(l.connections)}},
          .run = nullptr,
          .unavailable = one.unavailable,
          .operations = run_ms};
      if (!has_load) c.unavailable = "no load generator: liburing was missing when the benchmarks were built";
      if (c.unavailable.empty())
        c.run = [one, load_program, l, where](std::uint64_t ms) {
          return run(one, load_program, l, where, ms);
        };
      t.cases.push_back(std::move(c));
    }
  }
  return t;
}

} // namespace benchmarks
