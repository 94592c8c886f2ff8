// mock: what composing asynchronous operations costs, when the I/O itself costs nothing.
//
// The table of *Coroutine-first asynchronous I/O* §11, with more subjects in the same run:
//
//   mock_bench                                       this compiler
//   mock_bench --with other-build/.../mock_bench     another compiler's beside it, interleaved
//   mock_bench --quick --only asio
//
// To add a subject: a file that defines it, its declaration in subjects.hpp, its line below.

#include "mock/subjects.hpp"
#include "support/benchmark.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

namespace mock {
namespace {

std::vector<subject> subjects() {
  return {
      state_machine(),    callbacks_recycled(), callbacks_plain(), //
      callbacks_erased(), asio_awaitable(),     asio_awaitable_tuned(), //
      unio_task(),        unio_task_plain(),
  };
}

std::vector<benchmarks::benchmark_case> cases() {
  std::vector<benchmarks::benchmark_case> out;
  for (const depth d : depths) {
    for (subject const& s : subjects()) {
      benchmarks::benchmark_case c{
          .subject = s.name,
          .parameters = {{"depth", std::to_string(static_cast<int>(d))},
                         {"ios", std::to_string(ios_of(d))},
                         {"compiler", benchmarks::compiler()}},
          .run = nullptr,
          .unavailable = s.unavailable,
      };
      if (s.run != nullptr) c.run = [run = s.run, d](std::uint64_t requests) { return run(d, requests); };
      out.push_back(std::move(c));
    }
  }
  return out;
}

} // namespace

void check_completed(depth d, std::uint64_t requests, std::uint64_t completed) {
  if (completed >= requests * ios_of(d)) return;
  fmt::print(stderr, "mock: depth {}: {} I/Os completed, not {}\n", static_cast<int>(d), completed,
             requests * ios_of(d));
  std::abort();
}

} // namespace mock

int main(int argc, char** argv) {
  return benchmarks::run(argc, argv,
                         {.name = "mock",
                          .operation = "top-level operation",
                          .reference = mock::callbacks_recycled().name,
                          .cases = mock::cases()});
}
