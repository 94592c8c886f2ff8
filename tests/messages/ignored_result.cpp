// What writes yield, ignored. g++ 12 to 16 drop the warning for what co_await yields.
// g++: 1 warning: ignoring return
// clang: 2 warning: ignoring return

#include <unio/pipe_handle.hpp>
#include <unio/task.hpp>

unio::task<> forgets(unio::pipe_handle& pipe, unio::const_buffer bytes) {
  pipe.write(bytes);
  co_await pipe.co_write(bytes);
}
