#include "latency/round_trips.hpp"

#include "support/histogram.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <stdexcept>

namespace latency {
namespace {

// The first trips of a run find caches, pages and the kernel's objects cold. They are made, and not counted.
constexpr std::uint64_t most_to_warm_up = 256;

struct timed_rounds : rounds {
  std::uint64_t left;
  std::uint64_t to_warm_up;
  std::chrono::steady_clock::time_point began = {};
  benchmarks::histogram trips = {};
  unsigned char wrong = 0;

  timed_rounds(std::uint64_t operations, std::size_t message_bytes)
      : rounds{.message = {}, .reply = {}, .bytes = message_bytes},
        left(operations),
        to_warm_up(std::min(most_to_warm_up, operations / 2)) {}

  bool next() noexcept {
    auto const now = std::chrono::steady_clock::now();
    if (to_warm_up != 0) {
      --to_warm_up;
    } else {
      trips.add(static_cast<std::uint64_t>((now - began).count()));
    }
    began = now;
    wrong |= static_cast<unsigned char>((message[0] ^ reply[0]) | (message[bytes - 1] ^ reply[bytes - 1]));
    message[bytes - 1] = ++message[0];
    return --left != 0;
  }
};

} // namespace

extern "C" int rounds_next(rounds* r) { return static_cast<timed_rounds*>(r)->next() ? 1 : 0; }

benchmarks::sample measure_trips(std::uint64_t operations, conversation const& c,
                                 std::function<void(rounds&)> const& talk) {
  auto const r = std::make_unique<timed_rounds>(operations, c.bytes);
  benchmarks::sample s = benchmarks::measure(operations, [&] {
    r->began = std::chrono::steady_clock::now();
    talk(*r);
  });
  if (r->left != 0) throw std::runtime_error(std::to_string(r->left) + " messages were not echoed");
  if (r->wrong != 0) throw std::runtime_error("what came back is not what was sent");
  s.value = r->trips.percentile_ns(50) / 1000;
  for (benchmarks::figure const& f : r->trips.percentiles()) s.extra.push_back(f);
  s.histogram = r->trips.buckets();
  return s;
}

std::vector<benchmarks::benchmark_case> cases_of(
    std::string const& subject,
    std::function<benchmarks::sample(std::uint64_t operations, conversation const&)> const& run) {
  std::vector<benchmarks::benchmark_case> all;
  for (transport const over : {transport::pipes, transport::unix_socket}) {
    for (std::size_t const bytes : {std::size_t{1}, std::size_t{largest_message}}) {
      all.push_back(
          {.subject = subject,
           .parameters = {{"over", over == transport::pipes ? "pipes" : "Unix socket"},
                          {"bytes", std::to_string(bytes)}},
           .run = [=](std::uint64_t operations) { return run(operations, {.over = over, .bytes = bytes}); }});
    }
  }
  return all;
}

} // namespace latency
