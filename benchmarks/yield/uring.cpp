// yield_uring: liburing in C.

#include "uring.h"

#include "support/measure.hpp"

#include <memory>
#include <system_error>

namespace {

using namespace benchmarks;

sample no_ops(unsigned batch, std::uint64_t operations) {
  int error = 0;
  const std::unique_ptr<uring_no_ops, void (*)(uring_no_ops*)> u(uring_open(batch, &error), &uring_close);
  if (u != nullptr) {
    sample s = measure(operations, [&] { error = uring_run(u.get(), operations); });
    if (error == 0) return s;
  }
  throw std::system_error(error, std::generic_category(), "liburing");
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  for (const unsigned batch : {1u, 32u})
    cases.push_back({.subject = "liburing, C",
                     .parameters = {{"what", "no-op"}, {"batch", std::to_string(batch)}},
                     .run = [batch](std::uint64_t n) { return no_ops(batch, n); }});
  return subject_main(argc, argv, cases);
}
