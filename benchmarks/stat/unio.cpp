// stat_unio: name by name, blocking and awaited; 64 names in one operation.

#include "stat/files.hpp"
#include "support/measure.hpp"
#include "support/unio_driver.hpp"

#include <unio/unio.hpp>

#include <stdexcept>
#include <utility>

namespace {

using namespace benchmarks;

unio::path_handle directory_of(files const& f) { return unio::path_handle::path(f.path).value(); }

sample blocking(std::uint64_t operations) {
  const files f;
  auto const base = directory_of(f);
  return measure_with_processor(operations, [&] {
    for (std::uint64_t i = 0; i < operations; ++i) unio::stat(base, f.names[i % f.names.size()]).value();
  });
}

unio::task<> one_by_one(files const& f, std::uint64_t operations) {
  auto const base = directory_of(f);
  for (std::uint64_t i = 0; i < operations; ++i)
    (co_await unio::co_stat(base, f.names[i % f.names.size()])).value();
}

unio::task<> all_together(files const& f, std::uint64_t operations) {
  auto const base = directory_of(f);
  std::vector<unio::stat_of_name> all;
  for (std::string const& name : f.names) all.push_back({.name = name});
  for (std::uint64_t done = 0; done < operations; done += all.size()) {
    (co_await unio::co_stat_all(base, all)).value();
    for (unio::stat_of_name const& one : all)
      if (one.error) throw std::system_error(one.error, "stat_all");
  }
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases = {{"unio blocking", {}, blocking}};
  const auto add = [&](std::string const& subject, unio::task<> (*work)(files const&, std::uint64_t)) {
    for (std::string const driver : both_drivers)
      cases.push_back({subject + ", " + driver, {}, [=](std::uint64_t n) {
                         const files f;
                         const auto m = multiplexer_on(driver);
                         return measure_with_processor(n, [&] { unio::run(*m, work(f, n)); });
                       }});
  };
  add("unio awaited", one_by_one);
  add("unio awaited, 64 together", all_together);
  return subject_main(argc, argv, cases);
}
