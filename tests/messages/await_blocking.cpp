// What a blocking call yields, awaited.
// any: 1 error: this is a result already: write co_read(...) in place of read(...)

#include <unio/pipe_handle.hpp>
#include <unio/task.hpp>

unio::task<> waits(unio::pipe_handle& pipe, unio::mutable_buffer room) { (void)co_await pipe.read(room); }
