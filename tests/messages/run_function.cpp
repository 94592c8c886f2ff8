// A function and a lambda, run without being called.
// any: 2 error: a function is not awaitable, but what it returns is: call it, write f() in place of f

#include <unio/run.hpp>

unio::task<int> one() { co_return 1; }

int main() {
  unio::run([]() -> unio::task<> { co_return; });
  return unio::run(one);
}
