/* What the echo servers on io_uring in C have in common: a ring as liburing's documentation recommends it for
   one thread (io_uring_setup(2), IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_DEFER_TASKRUN;
   io_uring_register_ring_fd(3)), and a multishot accept. */
#ifndef UNIO_BENCHMARKS_ECHO_URING_H
#define UNIO_BENCHMARKS_ECHO_URING_H

#include "server.h"

#include <errno.h>
#include <liburing.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum { uring_entries = 4096 };

static inline void uring_open(struct io_uring* ring) {
  struct io_uring_params p;
  memset(&p, 0, sizeof p);
  p.flags =
      IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE;
  p.cq_entries = 4 * uring_entries;
  int const e = io_uring_queue_init_params(uring_entries, ring, &p);
  if (e < 0) echo_fail("io_uring_setup", e);
  int const r = io_uring_register_ring_fd(ring);
  if (r < 0) echo_fail("io_uring_register_ring_fd", r);
}

static inline void uring_submit(struct io_uring* ring) {
  int const r = io_uring_submit(ring);
  if (r < 0 && r != -EINTR && r != -EAGAIN && r != -EBUSY) echo_fail("io_uring_enter", r);
}

static inline void uring_submit_and_wait(struct io_uring* ring) {
  int const r = io_uring_submit_and_wait(ring, 1);
  if (r < 0 && r != -EINTR && r != -EAGAIN && r != -EBUSY) echo_fail("io_uring_enter", r);
}

static inline struct io_uring_sqe* uring_entry(struct io_uring* ring) {
  struct io_uring_sqe* sqe = io_uring_get_sqe(ring);
  while (sqe == NULL) {
    uring_submit(ring);
    sqe = io_uring_get_sqe(ring);
  }
  return sqe;
}

/* Its completions have no user_data. */
static inline void uring_accept(struct io_uring* ring, int listening) {
  struct io_uring_sqe* const sqe = uring_entry(ring);
  io_uring_prep_multishot_accept(sqe, listening, NULL, NULL, SOCK_CLOEXEC);
  io_uring_sqe_set_data64(sqe, 0);
}

enum { uring_timer_data = 1 };

/* The timer (`--timer`). Its completions have uring_timer_data. */
static inline void uring_arm_timer(struct io_uring* ring) {
  static struct __kernel_timespec at; /* the kernel reads it when the entry is submitted */
  uint64_t const due = echo_timer_armed();
  at.tv_sec = (long long)(due / 1000000000);
  at.tv_nsec = (long long)(due % 1000000000);
  struct io_uring_sqe* const sqe = uring_entry(ring);
  io_uring_prep_timeout(sqe, &at, 0, IORING_TIMEOUT_ABS);
  io_uring_sqe_set_data64(sqe, uring_timer_data);
}

static inline void uring_timer_fired(struct io_uring* ring, int error) {
  if (error != -ETIME) echo_fail("timeout", error);
  echo_timer_fired();
  uring_arm_timer(ring);
}

#endif
