// A task in a variable, awaited without std::move.
// any: 1 error: this is awaited once, so it must be moved: write std::move(task)

#include <unio/task.hpp>

unio::task<int> one() { co_return 1; }

unio::task<int> twice() {
  unio::task<int> t = one();
  int const n = co_await t;
  co_return n + n;
}
