// pipe_libuv: libuv, which reads on while there is something, and is given room for one byte each time.

#include "pipe/full_pipe.hpp"

#include <uv.h>

namespace pipe_bench {
namespace {

struct reader {
  uv_pipe_t pipe = {};
  bytes* b = nullptr;
  char byte = 0;

  static void give_room(uv_handle_t* h, std::size_t, uv_buf_t* room) {
    *room = uv_buf_init(&static_cast<reader*>(h->data)->byte, 1);
  }
  static void take(uv_stream_t* s, ssize_t n, uv_buf_t const*) {
    auto* const self = static_cast<reader*>(s->data);
    if (n == 0) return; // it would have waited
    if (n != 1 || bytes_take(self->b, static_cast<unsigned char>(self->byte)) == 0) uv_read_stop(s);
  }
};

void check(char const* what, int error) {
  if (error != 0) throw std::runtime_error(std::string(what) + ": " + uv_strerror(error));
}

benchmarks::sample run(std::uint64_t operations) {
  full_pipe pipe;
  uv_loop_t loop;
  check("uv_loop_init", uv_loop_init(&loop));
  reader r;
  r.pipe.data = &r;
  check("uv_pipe_init", uv_pipe_init(&loop, &r.pipe, 0));
  check("uv_pipe_open", uv_pipe_open(&r.pipe, pipe.release_reader()));
  auto* const stream = reinterpret_cast<uv_stream_t*>(&r.pipe);
  benchmarks::sample s = measure_reading(operations, [&](bytes& b) {
    r.b = &b;
    if (uv_read_start(stream, reader::give_room, reader::take) == 0) uv_run(&loop, UV_RUN_DEFAULT);
  });
  uv_close(reinterpret_cast<uv_handle_t*>(&r.pipe), nullptr);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
  return s;
}

} // namespace
} // namespace pipe_bench

int main(int argc, char** argv) {
  return benchmarks::subject_main(
      argc, argv, pipe_bench::by_writers({{.subject = "libuv", .parameters = {}, .run = pipe_bench::run}}));
}
