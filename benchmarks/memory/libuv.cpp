// memory_libuv: a block per connection that begins with libuv's handle. Where it has no buffer, libuv is
// given the shared one when there is something to be read: it asks for it then.

#include "memory/memory.hpp"
#include "memory/servers.h"

#include <uv.h>

#include <array>
#include <stdexcept>
#include <string>

namespace {

template <std::size_t Size> struct connection {
  uv_pipe_t pipe;
  std::array<char, Size> buffer;
};

void check(int e) {
  if (e < 0) throw std::runtime_error(std::string("libuv: ") + uv_strerror(e));
}

template <std::size_t Size> void on_end(uv_handle_t* h) { delete reinterpret_cast<connection<Size>*>(h); }

template <std::size_t Size> void give_room(uv_handle_t* h, std::size_t, uv_buf_t* room) {
  if constexpr (Size == 0) {
    *room = uv_buf_init(memory::shared_buffer, memory::shared_buffer_size);
  } else {
    *room = uv_buf_init(reinterpret_cast<connection<Size>*>(h)->buffer.data(), Size);
  }
}

template <std::size_t Size> void on_bytes(uv_stream_t* s, ssize_t n, uv_buf_t const* room) {
  if (n == 0) return;
  uv_buf_t bytes = uv_buf_init(room->base, static_cast<unsigned>(n > 0 ? n : 0));
  // Written at once: there is always room for an answer here, and then no request need be allocated.
  if (n < 0 || uv_try_write(s, &bytes, 1) != n) uv_close(reinterpret_cast<uv_handle_t*>(s), on_end<Size>);
}

template <std::size_t Size> void on_connection(uv_stream_t* listening, int status) {
  check(status);
  auto* const c = new connection<Size>;
  check(uv_pipe_init(listening->loop, &c->pipe, 0));
  auto* const s = reinterpret_cast<uv_stream_t*>(&c->pipe);
  check(uv_accept(listening, s));
  check(uv_read_start(s, give_room<Size>, on_bytes<Size>));
}

void serve(std::string const& address, std::size_t buffer) {
  uv_loop_t loop;
  uv_pipe_t listening;
  check(uv_loop_init(&loop));
  check(uv_pipe_init(&loop, &listening, 0));
  check(uv_pipe_open(&listening, listen_at(address.c_str()))); // libuv 1.44 binds no abstract address
  memory::with_buffer(buffer, [&](auto size) {
    check(uv_listen(reinterpret_cast<uv_stream_t*>(&listening), 4096, on_connection<size()>));
  });
  uv_run(&loop, UV_RUN_DEFAULT);
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmarks::benchmark_case> cases;
  memory::idle_connections(cases, "libuv", serve);
  return benchmarks::subject_main(argc, argv, cases);
}
