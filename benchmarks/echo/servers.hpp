// The echo servers and what loads them, for the tables that are made of them.
//
//   echo_server    a subject: how it is started
//   echo_servers   all of them
//   on_threads     one of them, on several threads
//   echo_load      what one case does to a server
//   places         where both ends run
//   echo_case      a server under a load
//   figure_of      what that says
#pragma once

#include "runner/table.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace benchmarks {

struct echo_server {
  std::string subject;
  std::string driver; // what it waits with: "epoll", "io_uring"
  std::vector<std::string> command;
  std::string unio_driver = {}; // UNIO_DRIVER of a program that has no option for it; empty: not set
};

std::vector<echo_server> echo_servers(settings const& s);

/// `one` on so many threads: they share its multiplexer or context, or each has its own. None where it knows
/// only one thread, or cannot share. Keeps the subject's name.
std::optional<echo_server> on_threads(echo_server one, int threads, bool is_shared);

struct echo_load {
  int connections;
  int bytes;
  std::uint64_t warm_up_ms;
  bool one_core = false;      // both ends on the server's processor: without waking another one
  std::uint64_t slow_ms = 0;  // one connection more, which asks that rarely; 0: none
  bool has_timer = false;     // the server has a timer, and how late it fires is measured
  bool anywhere = false;      // both ends on all processors
  std::uint64_t every_ms = 0; // each connection asks that often only; 0: again at once
  std::uint64_t busy_ms = 0;  // a thread of the server computes so long of each twice as long
  std::string http = {};      // an HTTP server is asked for this; empty: an echo server
};

struct processors {
  int server;
  int load;
};

processors places(settings const& s, echo_load const& l);

/// A run of it lasts `run_ms`, and gives what echo_load says. Where a run counts system calls they are the
/// server's for each message, and the other figures mean nothing.
benchmark_case echo_case(settings const& s, echo_server const& server, echo_load const& l,
                         std::uint64_t run_ms, std::vector<parameter> parameters);

/// A figure of what echo_load said. Throws if it is missing.
double figure_of(sample const& loaded, std::string_view name);

} // namespace benchmarks
