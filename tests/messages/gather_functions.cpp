// A function that was not called.
// any: 1 error: a function is not awaitable, but what it returns is: call it, write f() in place of f

#include <unio/when.hpp>

unio::task<int> one() { co_return 1; }

unio::task<int> waits() {
  auto const [x, y] = co_await unio::when_all(one(), one);
  co_return x + y;
}
