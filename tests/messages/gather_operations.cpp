// The form for receivers, given to when_all_succeed.
// any: 1 error: an async_ operation is for receivers: write co_read(...) in place of async_read(...)

#include <unio/timer_handle.hpp>
#include <unio/when.hpp>

unio::task<int> one() { co_return 1; }

unio::task<> waits(unio::timer_handle& timer) {
  (void)co_await unio::when_all_succeed(one(), unio::async_wait(timer));
}
