#include "memory/servers.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

/* An abstract address: a 0, then the name. */
int listen_at(char const* address) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  int const n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "%s", address);
  int const fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  if (bind(fd, (struct sockaddr*)&at, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) !=
      0)
    return -errno;
  return listen(fd, 4096) == 0 ? fd : -errno;
}
