// A task in a variable, given to when_all_outcomes without std::move.
// any: 1 error: this is awaited once, so it must be moved: write std::move(task)

#include <unio/when.hpp>

unio::task<int> one() { co_return 1; }

unio::task<int> waits() {
  unio::task<int> a = one();
  auto const [x, y] = co_await unio::when_all_outcomes(a, one());
  co_return x.value() + y.value();
}
