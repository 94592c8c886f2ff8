// Something that is no awaitable at all.
// any: 1 error: this cannot be awaited: it is no task, no operation (co_...), and has no operator co_await

#include <unio/task.hpp>

int computes(int n) { return n + 1; }

unio::task<int> waits() {
  int const n = co_await computes(1);
  co_return n;
}
