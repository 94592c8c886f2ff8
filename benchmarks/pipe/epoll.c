#include "pipe/epoll.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

int epoll_open(int fd) {
  int const epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return -errno;
  /* Registered once. Edge-triggered: a wake-up says that there is more than the last attempt found. */
  struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data = {.fd = fd}};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e) == 0) return epoll;
  int const error = errno;
  close(epoll);
  return -error;
}

void epoll_read(int epoll, int fd, struct bytes* b) {
  for (;;) {
    unsigned char byte;
    ssize_t const n = read(fd, &byte, 1);
    if (n == 1) {
      if (!bytes_take(b, byte)) return;
      continue;
    }
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) return;
    struct epoll_event e;
    if (epoll_wait(epoll, &e, 1, -1) < 0 && errno != EINTR) return;
  }
}
