// A task in a variable, made a sender without std::move.
// any: 1 error: this is awaited once, so it must be moved: write std::move(task)

#include <unio/execution.hpp>

void sends(unio::io_multiplexer& multiplexer, unio::task<int> t) {
  (void)unio::as_sender(multiplexer.executor(), t);
}
