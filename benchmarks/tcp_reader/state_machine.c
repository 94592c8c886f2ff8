/* The loop that a program means, and what becomes of it where nothing may wait: a machine that a loop on
   epoll drives. */

#include "state_machine.h"

#include "stream.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

int64_t read_with_recv(int socket, unsigned char* room, size_t room_bytes, uint64_t wanted) {
  uint64_t got = 0;
  while (got < wanted) {
    const ssize_t n = recv(socket, room, room_bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -errno;
    if (n == 0 || !is_stream(room, (size_t)n, got)) break;
    got += (uint64_t)n;
  }
  return (int64_t)got;
}

enum state { reading, ended, failed };

struct machine {
  enum state state;
  int socket;
  int error;
  unsigned char* room;
  size_t room_bytes;
  uint64_t got;
  uint64_t wanted;
};

/* Its socket is readable: takes all that is there. */
static void go_on(struct machine* m) {
  while (m->state == reading) {
    const ssize_t n = recv(m->socket, m->room, m->room_bytes, 0);
    if (n > 0) {
      if (!is_stream(m->room, (size_t)n, m->got)) {
        m->state = ended;
        return;
      }
      m->got += (uint64_t)n;
      if (m->got >= m->wanted) m->state = ended;
    } else if (n == 0) {
      m->state = ended;
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      m->error = errno;
      m->state = failed;
    }
  }
}

int64_t read_with_states(int socket, unsigned char* room, size_t room_bytes, uint64_t wanted) {
  struct machine m = {
      .state = reading, .socket = socket, .room = room, .room_bytes = room_bytes, .wanted = wanted};
  const int epoll = epoll_create1(EPOLL_CLOEXEC);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = &m};
  if (epoll < 0) return -errno;
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, socket, &event) != 0) {
    m.error = errno;
    m.state = failed;
  }
  while (m.state == reading) {
    struct epoll_event ready[16];
    const int n = epoll_wait(epoll, ready, 16, -1);
    if (n < 0 && errno != EINTR) {
      m.error = errno;
      m.state = failed;
    }
    for (int i = 0; i < n; ++i) go_on(ready[i].data.ptr);
  }
  close(epoll);
  return m.state == failed ? -m.error : (int64_t)m.got;
}
