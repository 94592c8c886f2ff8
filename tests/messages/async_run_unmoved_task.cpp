// A task in a variable, started without std::move.
// any: 1 error: this is awaited once, so it must be moved: write std::move(task)

#include <unio/run.hpp>

unio::task<int> one() { co_return 1; }

void starts(unio::io_multiplexer& multiplexer, unio::task<int> t) {
  unio::async_run(multiplexer.executor(), t);
}
