// The lower bound: one object, allocated once, that is the queued work and counts its I/Os. Nothing is
// composed.

#include "mock/context.hpp"
#include "mock/subjects.hpp"

namespace mock {
namespace {

class client final : public work {
 public:
  client(io_context& context, std::uint64_t ios_per_request, std::uint64_t requests)
      : context_(context),
        ios_per_request_(ios_per_request),
        ios_left_(ios_per_request),
        requests_left_(requests) {}

  void start() { context_.post(this); }

  void operator()() override {
    if (--ios_left_ == 0) {
      if (--requests_left_ == 0) return;
      ios_left_ = ios_per_request_;
    }
    context_.post(this);
  }

 private:
  io_context& context_;
  std::uint64_t ios_per_request_;
  std::uint64_t ios_left_;
  std::uint64_t requests_left_;
};

benchmarks::sample run(depth d, std::uint64_t requests) {
  io_context context;
  client s(context, ios_of(d), requests);
  std::uint64_t completed = 0;
  const benchmarks::sample result = benchmarks::measure(requests, [&] {
    s.start();
    completed = context.run();
  });
  check_completed(d, requests, completed);
  return result;
}

} // namespace

subject state_machine() { return {.name = "state machine, flat", .run = run}; }

} // namespace mock
