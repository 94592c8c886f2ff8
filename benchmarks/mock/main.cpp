// mock: what composing asynchronous operations costs, when the I/O itself costs nothing.
//
// The table of *Coroutine-first asynchronous I/O* §11, with more subjects in the same run. To add one: a file
// that defines it, its declaration in subjects.hpp, its line below.

#include "mock/subjects.hpp"

#include <fmt/format.h>

#include <stdexcept>
#include <vector>

namespace mock {
namespace {

std::vector<subject> subjects() {
  return {
      state_machine(),      callbacks_recycled(), callbacks_plain(),      //
      callbacks_erased(),   asio_awaitable(),     asio_awaitable_tuned(), //
      plain_task_subject(), unio_task(),          unio_task_plain(),
  };
}

char const* name_of(depth d) {
  switch (d) {
    case depth::async_io:
      return "async_io";
    case depth::async_read_some:
      return "async_read_some";
    case depth::async_read:
      return "async_read";
    case depth::async_request:
      return "async_request";
  }
  return "";
}

std::vector<benchmarks::benchmark_case> cases() {
  std::vector<benchmarks::benchmark_case> out;
  for (const depth d : depths) {
    for (subject const& s : subjects()) {
      benchmarks::benchmark_case c{
          .subject = s.name,
          .parameters = {{"operation", name_of(d)},
                         {"depth", std::to_string(ios_of(d))},
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
  throw std::runtime_error(
      fmt::format("{}: {} I/Os completed, not {}", name_of(d), completed, requests * ios_of(d)));
}

} // namespace mock

int main(int argc, char** argv) { return benchmarks::subject_main(argc, argv, mock::cases()); }
