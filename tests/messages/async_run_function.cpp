// A function, started without being called.
// any: 1 error: a function is not awaitable, but what it returns is: call it, write f() in place of f

#include <unio/run.hpp>

unio::task<int> one() { co_return 1; }

void starts(unio::io_multiplexer& multiplexer) { unio::async_run(multiplexer, one); }
