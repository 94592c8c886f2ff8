/* uv_echo: an echo server and eight clients of libuv in one loop, each sends 5,000 bytes. Ends with 0 if all
   came back. */
#include <stdlib.h>
#include <string.h>
#include <uv.h>
enum { clients = 8, size = 5000 };
static uv_tcp_t server, client[clients];
static uv_connect_t connecting[clients];
static uv_write_t writing[clients];
static uv_timer_t timer;
static size_t got[clients];
static int done;
static char bytes[size];
static void allocate(uv_handle_t* h, size_t n, uv_buf_t* b) {
  (void)h;
  b->base = malloc(n);
  b->len = n;
}
static void closed(uv_handle_t* h) { free(h); }
struct echo {
  uv_write_t write;
  char* data;
};
static void written(uv_write_t* w, int status) {
  (void)status;
  free(((struct echo*)w)->data);
  free(w);
}
static void echo_read(uv_stream_t* s, ssize_t n, const uv_buf_t* b) {
  if (n <= 0) {
    free(b->base);
    if (n < 0) uv_close((uv_handle_t*)s, closed);
    return;
  }
  struct echo* e = malloc(sizeof *e);
  e->data = b->base;
  uv_buf_t out = uv_buf_init(b->base, (unsigned)n);
  uv_write(&e->write, s, &out, 1, written);
}
static void accepted(uv_stream_t* l, int status) {
  if (status < 0) return;
  uv_tcp_t* one = malloc(sizeof *one);
  uv_tcp_init(l->loop, one);
  if (uv_accept(l, (uv_stream_t*)one) == 0) uv_read_start((uv_stream_t*)one, allocate, echo_read);
}
static void client_read(uv_stream_t* s, ssize_t n, const uv_buf_t* b) {
  if (n < 0) exit(3);
  size_t* mine = s->data;
  for (ssize_t i = 0; i < n; ++i)
    if (b->base[i] != bytes[*mine + (size_t)i]) exit(4);
  *mine += (size_t)n;
  free(b->base);
  if (*mine != size) return;
  uv_close((uv_handle_t*)s, NULL);
  if (++done == clients) {
    uv_close((uv_handle_t*)&server, NULL);
    uv_timer_stop(&timer);
  }
}
static void connected(uv_connect_t* c, int status) {
  if (status < 0) exit(5);
  uv_read_start(c->handle, allocate, client_read);
  uv_buf_t out = uv_buf_init(bytes, size);
  uv_write(&writing[(uv_connect_t*)c - connecting], c->handle, &out, 1, NULL);
}
static void ticks(uv_timer_t* t) { (void)t; }
static void works(uv_work_t* w) { *(int*)w->data = 1; }
int main(void) {
  uv_loop_t* loop = uv_default_loop();
  struct sockaddr_in at;
  for (int i = 0; i < size; ++i) bytes[i] = (char)(i * 7);
  uv_ip4_addr("127.0.0.1", 7000, &at);
  uv_tcp_init(loop, &server);
  uv_tcp_bind(&server, (struct sockaddr*)&at, 0);
  if (uv_listen((uv_stream_t*)&server, 16, accepted) != 0) return 1;
  uv_timer_init(loop, &timer);
  uv_timer_start(&timer, ticks, 1000, 1000);
  int worked = 0;
  uv_work_t work = {.data = &worked};
  uv_queue_work(loop, &work, works, NULL);
  for (int i = 0; i < clients; ++i) {
    uv_tcp_init(loop, &client[i]);
    client[i].data = &got[i];
    uv_tcp_connect(&connecting[i], &client[i], (struct sockaddr*)&at, connected);
  }
  uv_run(loop, UV_RUN_DEFAULT);
  return worked && done == clients ? 0 : 2;
}
