// The form for receivers, awaited.
// any: 1 error: write co_read(...) in place of async_read(...)

#include <unio/run.hpp>
#include <unio/timer_handle.hpp>

unio::task<> waits(unio::timer_handle& timer) { (void)co_await unio::async_wait(timer); }
