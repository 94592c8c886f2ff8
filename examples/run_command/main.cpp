// Shows     a command whose output is captured, with one deadline for all of it: reading both streams at
//           once, waiting, and ending it if it takes too long.
// Run       build/release/examples/example_run_command [COMMAND ARGUMENT...]
// Read next <unio/process_handle.hpp>, ../supervisor/main.cpp

#include <unio/process_handle.hpp>
#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <vector>

using namespace std::chrono_literals;
using unio::child_stream;
using unio::io_result;
using unio::task;

namespace {

struct captured {
  unio::exit_status how;
  std::string output, error;
};

task<io_result<void>> read_all(unio::pipe_handle& from, std::string& into) {
  std::array<char, 4096> room;
  for (;;) {
    auto const got = co_await from.co_read(unio::mutable_buffer(room));
    if (!got) co_return got.error();
    if (got.bytes_transferred() == 0) co_return io_result<void>();
    into.append(room.data(), got.bytes_transferred());
  }
}

// A child that fills one pipe while nobody reads it would wait for ever: so both are read at once.
task<io_result<void>> read_both_and_wait(unio::launched_process& child, captured& c) {
  auto [output, error] =
      co_await unio::when_all(read_all(child.output, c.output), read_all(child.error, c.error));
  if (!output) co_return output.error();
  if (!error) co_return error.error();
  auto const how = co_await child.process.co_wait();
  if (!how) co_return how.error();
  c.how = *how;
  co_return io_result<void>();
}

task<unio::result<captured>> run_command(std::vector<std::string> words, unio::deadline deadline) {
  unio::launch_step step{};
  std::vector<std::string> const arguments(words.begin() + 1, words.end());
  auto child = unio::process_handle::launch(
      words[0], arguments,
      {.input = child_stream::null(), .output = child_stream::pipe(), .error = child_stream::pipe()}, &step);
  if (!child) {
    std::fprintf(stderr, "%s: %s\n", to_string(step), child.error().message().c_str());
    co_return child.error();
  }
  captured c;
  io_result<void> const done = co_await unio::timeout(deadline, read_both_and_wait(*child, c));
  if (done) co_return c;
  (void)child->process.kill(SIGKILL);
  (void)co_await child->process.co_wait();
  co_return done.error();
}

} // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    auto const c = unio::run(run_command(std::vector<std::string>(argv + 1, argv + argc), 60s));
    if (!c) return std::fprintf(stderr, "%s\n", c.error().message().c_str()), 127;
    std::fwrite(c->output.data(), 1, c->output.size(), stdout);
    std::fwrite(c->error.data(), 1, c->error.size(), stderr);
    return c->how.as_shell();
  }
  auto const quick = unio::run(run_command({"sh", "-c", "echo out; echo error >&2; exit 3"}, 30s)).value();
  std::printf("output %serror  %scode   %d\n", quick.output.c_str(), quick.error.c_str(), quick.how.code());
  auto const slow = unio::run(run_command({"sleep", "100"}, 20ms));
  std::printf("sleep  %s\n", slow.error().message().c_str());
  auto const missing = unio::run(run_command({"no-such-command"}, 30s));
  bool const good = quick.how.code() == 3 && quick.output == "out\n" && quick.error == "error\n" &&
                    slow.error() == unio::condition::timed_out &&
                    missing.error() == std::errc::no_such_file_or_directory;
  return good ? 0 : 1;
}
