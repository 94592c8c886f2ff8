// The time behind what it bounds.
// any: 1 error: the time comes first, with a unit: write timeout(10s, x)

#include <unio/when.hpp>

#include <chrono>

unio::task<> works();

unio::task<> bounded() {
  using namespace std::chrono_literals;
  (void)co_await unio::timeout(works(), 10s);
}
