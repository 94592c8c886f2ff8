/* A conversation on epoll. It waits before it reads: an echo is never there yet when the message has just
   been sent. */
#pragma once

#include "latency/rounds.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An epoll that knows `in`, which does not block; or -errno. */
int epoll_open(int in);
void epoll_talk(int epoll, int in, int out, struct rounds* r);

#ifdef __cplusplus
}
#endif
