// Shows     a supervisor: it keeps a child running, starts it again when it ends, after pauses that grow
//           while it ends soon, and stops it when it is asked to end itself (SIGTERM, SIGINT): by that
//           signal, then by SIGKILL if it has not ended. The child is in a group of its own and ends if the
//           supervisor is killed.
// Run       build/release/examples/example_supervisor COMMAND [ARGUMENT...]
//           without a command: a child that ends soon, twice, and one that has to be stopped
// Read next <unio/process_handle.hpp>, <unio/signal_handle.hpp>, ../run_command/main.cpp

#include <unio/process_handle.hpp>
#include <unio/signal_handle.hpp>
#include <unio/unio.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

using namespace std::chrono_literals;
using steady = std::chrono::steady_clock;
using unio::process_handle;
using unio::task;

namespace {

struct policy {
  std::chrono::milliseconds first_pause = 100ms; // doubled each time the child ends soon
  std::chrono::milliseconds longest_pause = 30s;
  std::chrono::milliseconds soon = 10s;
  std::chrono::milliseconds grace = 5s; // between SIGTERM and SIGKILL
};

// The awaited form of process_handle::terminate, which passes on the signal that came.
task<unio::exit_status> stop(process_handle& child, int signal, std::chrono::milliseconds grace) {
  (void)child.kill(signal);
  auto ended = co_await child.co_wait(grace);
  if (!ended) {
    std::puts("it does not stop: killing it");
    (void)child.kill(SIGKILL);
    ended = co_await child.co_wait();
  }
  co_return ended.value();
}

// Until the child has ended (nothing), or until a signal comes.
task<int> run_child(process_handle& child, unio::signal_handle& signals, policy const& p) {
  auto first = co_await unio::when_any(child.co_wait(), signals.co_wait());
  if (first.index == 0) {
    unio::exit_status const how = std::get<0>(first.outcomes).value().value();
    std::printf("ended with %d\n", how.as_shell());
    co_return 0;
  }
  int const signal = std::get<1>(first.outcomes).value().value().number;
  std::printf("signal %d: stopping\n", signal);
  unio::exit_status const how = co_await stop(child, signal, p.grace);
  std::printf("stopped with %d\n", how.as_shell());
  co_return signal;
}

task<int> supervise(std::vector<std::string> words, policy p) {
  auto signals = unio::signal_handle::create({SIGTERM, SIGINT}).value();
  std::vector<std::string> const arguments(words.begin() + 1, words.end());
  unio::launch_options options;
  options.group = unio::process_group::own; // a terminal's Ctrl-C comes here alone
  options.signal_at_parents_death = SIGTERM;
  auto pause = p.first_pause;
  for (int starts = 1;; ++starts) {
    auto const began = steady::now();
    unio::launch_step step{};
    auto child = process_handle::launch(words[0], arguments, options, &step);
    if (child) {
      std::printf("start %d\n", starts);
      if (co_await run_child(child->process, signals, p) != 0) co_return 0;
    } else {
      std::printf("%s: %s\n", to_string(step), child.error().message().c_str());
    }
    pause = steady::now() - began < p.soon ? pause : p.first_pause;
    if (auto const s = co_await signals.co_wait(pause); s) co_return 0; // the pause may be interrupted
    pause = std::min(2 * pause, p.longest_pause);
  }
}

} // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc > 1) return unio::run(supervise(std::vector<std::string>(argv + 1, argv + argc), {}));
  // The third child asks the supervisor to end, and ignores that itself.
  std::string const script =
      "n=$(cat count 2>/dev/null || echo 0); echo $((n + 1)) > count; "
      "test $n -lt 2 && exit 1; rm count; trap '' TERM; kill -TERM $PPID; "
      "while :; do sleep 1; done";
  char directory[] = "/tmp/unio-supervisor-XXXXXX";
  if (::mkdtemp(directory) == nullptr || ::chdir(directory) != 0) return 1;
  policy const quick{.first_pause = 5ms, .longest_pause = 50ms, .soon = 10s, .grace = 50ms};
  int const failed = unio::run(supervise({"sh", "-c", script}, quick));
  (void)::rmdir(directory);
  return failed;
}
