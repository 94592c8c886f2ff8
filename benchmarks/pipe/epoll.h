/* A reader on epoll that tries first: only what finds nothing waits. */
#pragma once

#include "pipe/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An epoll that knows `fd`, which does not block; or -errno. */
int epoll_open(int fd);
/* Reads until there is nothing left to be read, or something fails. */
void epoll_read(int epoll, int fd, struct bytes* b);

#ifdef __cplusplus
}
#endif
