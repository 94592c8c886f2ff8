// Handlers that take the value, and not the outcome, of a task.
// any: 2 errors: the handler is called with the outcome of the task, a value or an exception

#include <unio/run.hpp>

unio::task<int> one() { co_return 1; }

void starts(unio::io_multiplexer& multiplexer) {
  unio::async_run(multiplexer, one(), [](int) {});
  unio::async_run(multiplexer.executor(), one(), [] {});
}
