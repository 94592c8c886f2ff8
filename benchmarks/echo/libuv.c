/* An echo server on libuv: uv_read_start once for each connection, into its one buffer. An answer is tried at
   once (uv_try_write); what of it does not fit is written by uv_write, and reading stops meanwhile. */
#include "server.h"

#include <stdlib.h>
#include <uv.h>

struct connection {
  uv_tcp_t socket; /* first: a handle's address is its connection's */
  uv_write_t rest;
  char buffer[echo_buffer_size];
};

static void check(char const* call, int e) {
  if (e < 0) echo_fail(call, e); /* libuv's codes are -errno on Linux */
}

static void ended(uv_handle_t* h) { free(h); }

static void end(uv_stream_t* s) { uv_close((uv_handle_t*)s, ended); }

static void give_buffer(uv_handle_t* h, size_t suggested, uv_buf_t* b) {
  (void)suggested;
  *b = uv_buf_init(((struct connection*)h)->buffer, echo_buffer_size);
}

static void has_read(uv_stream_t* s, ssize_t n, uv_buf_t const* b);

static void has_written(uv_write_t* w, int status) {
  if (status == UV_ECANCELED) return; /* it is being closed */
  if (status < 0) {
    end(w->handle);
    return;
  }
  check("uv_read_start", uv_read_start(w->handle, give_buffer, has_read));
}

static void has_read(uv_stream_t* s, ssize_t n, uv_buf_t const* b) {
  if (n == 0) return; /* as EAGAIN */
  if (n < 0) {
    end(s);
    return;
  }
  uv_buf_t answer = uv_buf_init(b->base, (unsigned)n);
  int const sent = uv_try_write(s, &answer, 1);
  if (sent == n) return;
  if (sent < 0 && sent != UV_EAGAIN) {
    end(s);
    return;
  }
  unsigned const done = sent > 0 ? (unsigned)sent : 0;
  answer = uv_buf_init(b->base + done, (unsigned)n - done);
  uv_read_stop(s);
  check("uv_write", uv_write(&((struct connection*)s)->rest, s, &answer, 1, has_written));
}

static void can_accept(uv_stream_t* listening, int status) {
  check("uv_listen", status);
  struct connection* const c = malloc(sizeof *c);
  if (c == NULL) echo_fail("malloc", UV_ENOMEM);
  check("uv_tcp_init", uv_tcp_init(listening->loop, &c->socket));
  check("uv_accept", uv_accept(listening, (uv_stream_t*)&c->socket));
  check("uv_tcp_nodelay", uv_tcp_nodelay(&c->socket, 1));
  check("uv_read_start", uv_read_start((uv_stream_t*)&c->socket, give_buffer, has_read));
}

static void timer_fired(uv_timer_t* t) {
  echo_timer_fired();
  echo_timer_armed();
  check("uv_timer_start", uv_timer_start(t, timer_fired, echo_timer_ms, 0));
}

int main(int argc, char** argv) {
  uv_loop_t* const loop = uv_default_loop();
  uv_tcp_t listening;
  struct sockaddr_in at;
  check("uv_ip4_addr", uv_ip4_addr("127.0.0.1", echo_port(argc, argv), &at));
  check("uv_tcp_init", uv_tcp_init(loop, &listening));
  check("uv_tcp_bind", uv_tcp_bind(&listening, (struct sockaddr*)&at, 0));
  check("uv_listen", uv_listen((uv_stream_t*)&listening, echo_backlog, can_accept));
  uv_timer_t timer;
  if (echo_timer_wanted(argc, argv)) {
    check("uv_timer_init", uv_timer_init(loop, &timer));
    echo_timer_armed();
    check("uv_timer_start", uv_timer_start(&timer, timer_fired, echo_timer_ms, 0));
  }
  uv_os_fd_t fd;
  check("uv_fileno", uv_fileno((uv_handle_t*)&listening, &fd));
  echo_announce(fd);
  return uv_run(loop, UV_RUN_DEFAULT);
}
