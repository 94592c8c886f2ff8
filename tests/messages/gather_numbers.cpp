// Numbers in place of tasks.
// any: 1 error: this cannot be awaited: it is no task, no operation (co_...), and has no operator co_await

#include <unio/when.hpp>

unio::task<int> one() { co_return 1; }

unio::task<> waits() { (void)co_await unio::when_all(one(), 5); }
