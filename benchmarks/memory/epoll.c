/* One epoll, level-triggered; a block per connection. */
#define _GNU_SOURCE
#include "memory/connection.h"
#include "memory/servers.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { events_at_once = 256 };

static int accept_all(int epoll, int listening, size_t buffer) {
  for (;;) {
    int const fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0) return errno == EAGAIN ? 0 : -errno;
    struct connection* const c = malloc(sizeof *c + buffer);
    if (c == NULL) return -ENOMEM;
    c->fd = fd;
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) != 0) return -errno;
  }
}

static void end(struct connection* c) {
  close(c->fd);
  free(c);
}

/* The messages are small and their peers wait for them: a socket that takes no more is an error here. */
static void echo(struct connection* c, char* room, size_t size) {
  ssize_t const n = recv(c->fd, room, size, 0);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0 || send(c->fd, room, (size_t)n, MSG_NOSIGNAL) != n) end(c);
}

int serve_epoll(int listening, size_t buffer, char* shared, size_t shared_size) {
  int const epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return -errno;
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &e) != 0) return -errno;
  for (;;) {
    struct epoll_event events[events_at_once];
    int const n = epoll_wait(epoll, events, events_at_once, -1);
    if (n < 0 && errno != EINTR) return -errno;
    for (int i = 0; i < n; ++i) {
      struct connection* const c = events[i].data.ptr;
      if (c != NULL) {
        echo(c, buffer != 0 ? c->buffer : shared, buffer != 0 ? buffer : shared_size);
        continue;
      }
      int const accepted = accept_all(epoll, listening, buffer);
      if (accepted < 0) return accepted;
    }
  }
}
