/* An echo server on epoll, edge-triggered: one epoll_wait(2) for all that is ready, then a recv(2) and a
   send(2) each. A read that does not fill its buffer has emptied the socket, so it is not tried in vain
   (epoll(7), questions and answers, 9); unless the edge told of the end of the stream as well, of which there
   will be no other.

   Variant `spliced`: a splice(2) into a pipe of the connection's and a splice(2) out of it each. */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { events_per_turn = 512 };

struct connection {
  int fd;
  size_t size; /* what of the buffer, or of the pipe, is to be sent: from `sent` on */
  size_t sent;
  int pipe[2]; /* variant spliced */
  char buffer[echo_buffer_size];
};

static int is_splicing;

static void end(struct connection* c) {
  close(c->fd);
  if (is_splicing) {
    close(c->pipe[0]);
    close(c->pipe[1]);
  }
  free(c);
}

static ssize_t receive(struct connection* c) {
  if (is_splicing) return splice(c->fd, NULL, c->pipe[1], NULL, sizeof c->buffer, SPLICE_F_NONBLOCK);
  return recv(c->fd, c->buffer, sizeof c->buffer, 0);
}

static ssize_t send_rest(struct connection* c) {
  size_t const rest = c->size - c->sent;
  if (is_splicing) return splice(c->pipe[0], NULL, c->fd, NULL, rest, SPLICE_F_NONBLOCK);
  return send(c->fd, c->buffer + c->sent, rest, MSG_NOSIGNAL);
}

/* Sends the rest, then reads and sends until one of them would wait. An edge brings it back here. */
static void go_on(struct connection* c, unsigned events) {
  int const ends = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  int emptied = 0;
  for (;;) {
    while (c->sent < c->size) {
      ssize_t const n = send_rest(c);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) {
        end(c);
        return;
      }
      c->sent += (size_t)n;
    }
    if (emptied) return;
    ssize_t const n = receive(c);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      end(c);
      return;
    }
    c->size = (size_t)n;
    c->sent = 0;
    emptied = !ends && c->size < sizeof c->buffer;
  }
}

static void accept_all(int epoll, int listening) {
  for (;;) {
    int const fd = accept4(listening, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (fd < 0 && errno == EAGAIN) return;
    if (fd < 0) echo_fail("accept4", errno);
    echo_no_delay(fd);
    struct connection* const c = malloc(sizeof *c);
    if (c == NULL) echo_fail("malloc", ENOMEM);
    c->fd = fd;
    c->size = c->sent = 0;
    if (is_splicing && pipe2(c->pipe, O_NONBLOCK | O_CLOEXEC) != 0) echo_fail("pipe2", errno);
    struct epoll_event what = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = c};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &what) != 0) echo_fail("epoll_ctl", errno);
  }
}

static int timer = -1; /* its address tells its events from a connection's */

static void arm_timer(void) {
  uint64_t const due = echo_timer_armed();
  struct itimerspec const at = {
      .it_value = {.tv_sec = (time_t)(due / 1000000000), .tv_nsec = (long)(due % 1000000000)}};
  if (timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL) != 0) echo_fail("timerfd_settime", errno);
}

static void add_timer(int epoll) {
  timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (timer < 0) echo_fail("timerfd_create", errno);
  struct epoll_event what = {.events = EPOLLIN | EPOLLET, .data.ptr = &timer};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &what) != 0) echo_fail("epoll_ctl", errno);
  arm_timer();
}

static int has_timer;
static _Thread_local int epoll;

static void open_all(int listening) {
  epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) echo_fail("epoll_create1", errno);
  struct epoll_event what = {.events = EPOLLIN, .data.ptr = NULL};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, listening, &what) != 0) echo_fail("epoll_ctl", errno);
  if (has_timer) add_timer(epoll);
}

static void run(int listening) {
  for (;;) {
    static _Thread_local struct epoll_event events[events_per_turn];
    int const n = epoll_wait(epoll, events, events_per_turn, -1);
    if (n < 0 && errno != EINTR) echo_fail("epoll_wait", errno);
    for (int i = 0; i < n; ++i) {
      if (events[i].data.ptr == NULL) {
        accept_all(epoll, listening);
      } else if (events[i].data.ptr == &timer) {
        echo_timer_fired();
        arm_timer();
      } else {
        go_on(events[i].data.ptr, events[i].events);
      }
    }
  }
}

int main(int argc, char** argv) {
  is_splicing = echo_variant(argc, argv, "spliced");
  if (is_splicing) signal(SIGPIPE, SIG_IGN); /* splice(2) knows no MSG_NOSIGNAL */
  has_timer = echo_timer_wanted(argc, argv);
  echo_serve(argc, argv, open_all, run);
}
