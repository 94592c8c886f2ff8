#include "latency/epoll.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

int epoll_open(int in) {
  int const epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return -errno;
  struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data = {.fd = in}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, in, &e) == 0) return epoll;
  int const error = errno;
  close(epoll);
  return -error;
}

void epoll_talk(int epoll, int in, int out, struct rounds* r) {
  do {
    if (write(out, r->message, r->bytes) != (ssize_t)r->bytes) return;
    ssize_t n;
    do {
      struct epoll_event e;
      if (epoll_wait(epoll, &e, 1, -1) < 0 && errno != EINTR) return;
      n = read(in, r->reply, r->bytes);
    } while (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n != (ssize_t)r->bytes) return;
  } while (rounds_next(r));
}
