// A function that has a parameter, run without being called.
// any: 1 error: a function is not awaitable, but what it returns is: call it, write f() in place of f

#include <unio/run.hpp>

unio::task<int> twice(int n) { co_return 2 * n; }

int main() { return unio::run(twice); }
