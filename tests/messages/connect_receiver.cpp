// A receiver that is not told of the end.
// any: 1 error: a receiver has set_value(r), which takes this operation's result, and set_done()

#include <unio/pipe_handle.hpp>

struct receiver {
  void set_value(unio::io_result<unio::mutable_buffers>) {}
};

void reads(unio::pipe_handle& pipe, unio::mutable_buffer room) {
  auto read = unio::connect(unio::async_read(pipe, room), receiver());
  read.start();
}
