/* ev_http: a server and six clients of HTTP by libevent, in one loop. Ends with 0 if each has its answer. */
#include <event2/buffer.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdio.h>
#include <string.h>
enum { clients = 6, size = 3000 };
static struct event_base* loop;
static int right, ended;
static void answer(struct evhttp_request* r, void* unused) {
  (void)unused;
  struct evbuffer* b = evbuffer_new();
  for (int i = 0; i < size; ++i) evbuffer_add(b, "x", 1);
  evhttp_send_reply(r, 200, "OK", b);
  evbuffer_free(b);
}
static void answered(struct evhttp_request* r, void* unused) {
  (void)unused;
  if (r != NULL && evhttp_request_get_response_code(r) == 200 &&
      evbuffer_get_length(evhttp_request_get_input_buffer(r)) == size)
    ++right;
  if (++ended == clients) event_base_loopbreak(loop);
}
int main(void) {
  loop = event_base_new();
  struct evhttp* server = evhttp_new(loop);
  evhttp_set_gencb(server, answer, NULL);
  if (evhttp_bind_socket(server, "127.0.0.1", 7000) != 0) return 2;
  for (int i = 0; i < clients; ++i) {
    struct evhttp_connection* c = evhttp_connection_base_new(loop, NULL, "127.0.0.1", 7000);
    evhttp_make_request(c, evhttp_request_new(answered, NULL), EVHTTP_REQ_GET, "/");
  }
  event_base_dispatch(loop);
  printf("%d right\n", right);
  return right == clients ? 0 : 1;
}
