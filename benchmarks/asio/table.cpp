// asio: programs of Asio's from the same sources on its own reactors and on unio's (unio::asio), and an echo
// server of Asio's coroutines on unio's sockets (the adapter).

#include "runner/table.hpp"

#include "asio/wanted.hpp"
#include "echo/servers.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace benchmarks {
namespace {

constexpr std::uint64_t warm_up_ms = 50;
constexpr int threads = 4;
constexpr int clients_of_threads = 40;

bool is_installed(std::string const& program) {
  char const* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

// The program of that name on each reactor.
std::vector<echo_server> servers_of(settings const& s, std::string const& name,
                                    std::vector<std::string> const& arguments) {
  const auto one = [&](char const* subject, char const* driver, char const* suffix,
                       char const* unio_driver = "") {
    echo_server server{.subject = subject,
                       .driver = driver,
                       .command = {s.programs + "/" + name + suffix, "0"},
                       .unio_driver = unio_driver};
    server.command.insert(server.command.end(), arguments.begin(), arguments.end());
    return server;
  };
  return {one("asio, epoll", "epoll", ""), one("asio, io_uring", "io_uring", "_uring"),
          one("unio asio, epoll", "epoll", "_unio", "epoll"),
          one("unio asio, io_uring", "io_uring", "_unio", "uring"),
          one("unio asio, completions", "io_uring", "_completions", "uring")};
}

std::vector<echo_server> adapters(settings const& s) {
  const std::vector<std::string> command = {s.programs + "/asio_echo_adapter", "0"};
  return {{.subject = "unio adapter, epoll", .driver = "epoll", .command = command, .unio_driver = "epoll"},
          {.subject = "unio adapter, io_uring",
           .driver = "io_uring",
           .command = command,
           .unio_driver = "uring"}};
}

} // namespace

table asio_table(settings const& s) {
  // A run's operations are milliseconds here: how many requests they hold is what is measured.
  const std::uint64_t run_ms = s.quick ? 50 : 120;
  table t{
      .name = "asio",
      .title = "programs of Asio's over loopback TCP: what a second of their processor time achieves",
      .unit = "requests per second of server CPU",
      .higher_is_better = true,
      .reference = "asio, epoll",
      .counted = {},
      .curves_over = {"connections"},
      .has_percentiles = true,
      .run_ms = static_cast<double>(run_ms),
      .rounds = s.quick ? 1 : 13,
      .notes =
          {"asio: the reactor that comes with it, on epoll and on its io_uring. unio asio: the same "
           "source, compiled with unio::asio; completions: with the macros of Asio's io_uring too. unio "
           "adapter: coroutines of Asio's on unio's sockets.",
           fmt::format("echo: 64 bytes, one thread; server and load generator are pinned, to two "
                       "processors. {}: {} threads in run(), each connection has a strand; on all "
                       "processors. {}: Beast, a request of Boost.Asio's and keep-alive.",
                       work_on_strands, threads, work_http),
           "wanted: the ratio that is aimed at, to the reference or, where it says so, to the best peer.",
           "load is the limit: its processor was busy for 97 % of the time or more."},
      .wanted = wanted_of_asio,
  };
  if (is_installed("strace")) {
    t.counted = {counting::system_calls};
    t.notes.emplace_back(
        "system calls: of the server for a request, counted in a run of its own, which is "
        "slow: a server that is slow finds more to do each time.");
  } else {
    t.notes.emplace_back("No system calls were counted: there is no strace.");
  }

  const auto add = [&](std::vector<echo_server> const& servers, std::string const& work, echo_load const& l) {
    for (echo_server const& one : servers)
      t.cases.push_back(
          echo_case(s, one, l, run_ms, {{"work", work}, {"connections", std::to_string(l.connections)}}));
  };
  for (char const* const work : {work_callbacks, work_coroutines}) {
    const bool by_coroutines = work == work_coroutines;
    for (int const connections : {1, 16, 128, 1024}) {
      if (s.quick && connections != 16) continue;
      const echo_load l{.connections = connections, .bytes = 64, .warm_up_ms = warm_up_ms};
      add(servers_of(s, "asio_echo", {by_coroutines ? "coroutines" : "callbacks"}), work, l);
      if (by_coroutines) add(adapters(s), work, l);
    }
  }
  add(servers_of(s, "asio_echo", {"callbacks", "--threads", std::to_string(threads), "--strands"}),
      work_on_strands,
      {.connections = clients_of_threads, .bytes = 64, .warm_up_ms = warm_up_ms, .anywhere = true});
  for (int const connections : {1, 16, 128}) {
    if (s.quick && connections != 16) continue;
    add(servers_of(s, "asio_http", {}), work_http,
        {.connections = connections, .bytes = 64, .warm_up_ms = warm_up_ms, .http = "/"});
  }
  return t;
}

} // namespace benchmarks
