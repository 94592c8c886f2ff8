// process_unio: process_handle::launch and wait, blocking and awaited.

#include "memory.hpp"
#include "support/measure.hpp"
#include "support/unio_driver.hpp"

#include <unio/process_handle.hpp>
#include <unio/unio.hpp>

#include <stdexcept>

namespace {

using namespace benchmarks;

void check(unio::exit_status s) {
  if (!s.is_success()) throw std::runtime_error("a child failed");
}

sample blocking(std::string const& memory, std::uint64_t n) {
  std::vector<char> const own = touched(memory);
  return measure(n, [&] {
    for (std::uint64_t i = 0; i < n; ++i)
      check(unio::process_handle::launch("/bin/true").value().process.wait().value());
  });
}

unio::task<> one_after_the_other(std::uint64_t n, bool& good) {
  for (std::uint64_t i = 0; i < n && good; ++i) {
    unio::launched_process p = unio::process_handle::launch("/bin/true").value();
    good = (co_await p.process.co_wait()).value().is_success();
  }
}

sample awaited(std::string const& driver, std::string const& memory, std::uint64_t n) {
  std::vector<char> const own = touched(memory);
  const auto m = multiplexer_on(driver);
  bool good = true;
  unio::async_run(*m, one_after_the_other(n, good));
  const sample s = measure(n, [&] {
    while (m->run().value() != 0) {
    }
  });
  if (!good) throw std::runtime_error("a child failed");
  return s;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  for (std::string const memory : memory_sizes) {
    cases.push_back(
        {"unio blocking", {{"memory", memory}}, [=](std::uint64_t n) { return blocking(memory, n); }});
    for (std::string const driver : both_drivers)
      cases.push_back({"unio awaited, " + driver, {{"memory", memory}}, [=](std::uint64_t n) {
                         return awaited(driver, memory, n);
                       }});
  }
  return subject_main(argc, argv, cases);
}
