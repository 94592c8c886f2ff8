// The echo servers and what loads them, for the tables that are made of them.
//
//   echo_server    a subject: how it is started
//   echo_servers   all of them
//   echo_load      what one case does to a server
//   places         where both ends run
//   echo_case      a server under a load
#pragma once

#include "runner/table.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace benchmarks {

struct echo_server {
  std::string subject;
  std::string driver; // what it waits with: "epoll", "io_uring"
  std::vector<std::string> command;
  std::string unavailable = {};
};

std::vector<echo_server> echo_servers(settings const& s);

struct echo_load {
  int connections;
  int bytes;
  std::uint64_t warm_up_ms;
  bool one_core = false;     // both ends on the server's processor: without waking another one
  std::uint64_t slow_ms = 0; // one connection more, which asks that rarely; 0: none
  bool has_timer = false;    // the server has a timer, and how late it fires is measured
};

struct processors {
  int server;
  int load;
};

processors places(settings const& s, echo_load const& l);

/// A run of it lasts `run_ms`, and gives what echo_load says.
benchmark_case echo_case(settings const& s, echo_server const& server, echo_load const& l,
                         std::uint64_t run_ms, std::vector<parameter> parameters);

} // namespace benchmarks
