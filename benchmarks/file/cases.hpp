// The rows of one subject: cached and direct, at some depths.
#pragma once

#include "data.hpp"
#include "support/measure.hpp"

#include <concepts>
#include <string>
#include <vector>

namespace benchmarks {

/// What one run of a subject is given.
struct reading {
  data_file data;
  bool direct;
  unsigned depth;
  std::uint64_t operations;
};

template <std::invocable<reading const&> F>
void add_cases(std::vector<benchmark_case>& to, std::string const& subject,
               std::vector<unsigned> const& depths, F f) {
  for (const bool direct : {false, true})
    for (const unsigned depth : depths)
      to.push_back({.subject = subject,
                    .parameters = {{"cache", direct ? "direct" : "cached"}, {"depth", std::to_string(depth)}},
                    .run = [=](std::uint64_t operations) {
                      const reading r{
                          .data = the_data(), .direct = direct, .depth = depth, .operations = operations};
                      if (!direct) cache(r.data);
                      return f(r);
                    }});
}

} // namespace benchmarks
