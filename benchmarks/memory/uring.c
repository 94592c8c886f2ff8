/* One ring; a block per connection, which has one request in flight: a receive into its buffer, or, where it
   has none, a poll. */
#define _GNU_SOURCE
#include "memory/connection.h"
#include "memory/servers.h"

#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { entries = 256, most_completions = 4096 };

struct uring_server {
  struct io_uring ring;
  int listening;
  size_t buffer;
  char* shared;
  size_t shared_size;
};

static struct io_uring_sqe* next_entry(struct uring_server* s) {
  struct io_uring_sqe* e = io_uring_get_sqe(&s->ring);
  if (e != NULL) return e;
  io_uring_submit(&s->ring);
  return io_uring_get_sqe(&s->ring); /* it is empty now */
}

static void await_connection(struct uring_server* s) {
  struct io_uring_sqe* const e = next_entry(s);
  io_uring_prep_accept(e, s->listening, NULL, NULL, SOCK_CLOEXEC);
  io_uring_sqe_set_data(e, NULL);
}

static void await_bytes(struct uring_server* s, struct connection* c) {
  struct io_uring_sqe* const e = next_entry(s);
  if (s->buffer != 0) {
    io_uring_prep_recv(e, c->fd, c->buffer, s->buffer, 0);
  } else {
    io_uring_prep_poll_add(e, c->fd, POLLIN);
  }
  io_uring_sqe_set_data(e, c);
}

/* See epoll.c: there is always room for an answer, so it is sent at once. */
static void answer(struct uring_server* s, struct connection* c, int result) {
  char* const room = s->buffer != 0 ? c->buffer : s->shared;
  ssize_t n = result;
  if (s->buffer == 0 && result > 0) n = recv(c->fd, room, s->shared_size, MSG_DONTWAIT);
  if (n > 0 && send(c->fd, room, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT) == n) {
    await_bytes(s, c);
    return;
  }
  close(c->fd);
  free(c);
}

static int take_connection(struct uring_server* s, int fd) {
  if (fd < 0) return fd;
  struct connection* const c = malloc(sizeof *c + s->buffer);
  if (c == NULL) return -ENOMEM;
  c->fd = fd;
  await_bytes(s, c);
  await_connection(s);
  return 0;
}

int serve_uring(int listening, size_t buffer, char* shared, size_t shared_size) {
  struct uring_server s = {
      .listening = listening, .buffer = buffer, .shared = shared, .shared_size = shared_size};
  struct io_uring_params p = {
      .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
      .cq_entries = most_completions};
  int e = io_uring_queue_init_params(entries, &s.ring, &p);
  if (e < 0) return e;
  e = io_uring_register_ring_fd(&s.ring);
  if (e < 0) return e;
  await_connection(&s);
  for (;;) {
    e = io_uring_submit_and_wait(&s.ring, 1);
    if (e < 0 && e != -EINTR) return e;
    unsigned head, seen = 0;
    struct io_uring_cqe* cqe;
    io_uring_for_each_cqe(&s.ring, head, cqe) {
      ++seen;
      struct connection* const c = io_uring_cqe_get_data(cqe);
      if (c != NULL) {
        answer(&s, c, cqe->res);
      } else if ((e = take_connection(&s, cqe->res)) < 0) {
        return e;
      }
    }
    io_uring_cq_advance(&s.ring, seen);
  }
}
