/* A conversation on io_uring: message and echo are submitted together, in one system call. */
#pragma once

#include "latency/rounds.h"

#ifdef __cplusplus
extern "C" {
#endif

struct uring_talker;

/* The descriptors block: io_uring does not wait for what does not. Null: see errno. */
struct uring_talker* uring_open(int in, int out, int is_socket);
/* Asleep in io_uring_enter, or looking at the completion queue until there is something. Returns 0, or
   -errno. */
int uring_talk(struct uring_talker* t, int spins, struct rounds* r);
void uring_close(struct uring_talker* t);

#ifdef __cplusplus
}
#endif
