// A task in a variable, given to when_all_succeed without std::move.
// any: 1 error: this is awaited once, so it must be moved: write std::move(task)

#include <unio/when.hpp>

unio::task<int> one() { co_return 1; }

unio::task<int> waits() {
  unio::task<int> a = one();
  auto const both = co_await unio::when_all_succeed(one(), a);
  auto const [x, y] = both.value();
  co_return x + y;
}
