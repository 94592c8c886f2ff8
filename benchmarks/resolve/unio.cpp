// resolve_unio: resolver, awaited on each driver.

#include "resolve/server.hpp"
#include "support/unio_driver.hpp"

#include <unio/resolver.hpp>
#include <unio/unio.hpp>

namespace resolve_bench {
namespace {

using namespace std::chrono_literals;

unio::task<> look_up(unio::resolver& names, std::uint64_t operations) {
  for (std::uint64_t i = 0; i != operations; ++i) {
    auto const found = co_await names.co_resolve(the_name, 0, 10s);
    expect_found(static_cast<int>(found.value().size()));
  }
}

benchmarks::sample run(std::string const& driver, std::uint64_t operations) {
  name_server const server;
  auto const multiplexer = benchmarks::multiplexer_on(driver);
  unio::resolver_options options;
  options.servers = {unio::endpoint::ipv4_loopback(server.port())};
  unio::resolver names(options);
  return benchmarks::measure(operations, [&] { unio::run(*multiplexer, look_up(names, operations)); });
}

} // namespace
} // namespace resolve_bench

int main(int argc, char** argv) {
  std::vector<benchmarks::benchmark_case> cases;
  for (char const* const driver : benchmarks::both_drivers)
    cases.push_back({.subject = std::string("unio awaited, ") + driver,
                     .run = [driver](std::uint64_t n) { return resolve_bench::run(driver, n); }});
  return benchmarks::subject_main(argc, argv, cases);
}
