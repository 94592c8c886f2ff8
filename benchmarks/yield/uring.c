/* Bare liburing: as many no-ops per io_uring_enter as a batch has. */

#include "uring.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

struct uring_no_ops {
  struct io_uring ring;
  unsigned batch;
};

struct uring_no_ops* uring_open(unsigned batch, int* error) {
  struct uring_no_ops* const u = malloc(sizeof *u);
  if (u == NULL) {
    *error = ENOMEM;
    return NULL;
  }
  u->batch = batch;
  struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
  const int r = io_uring_queue_init_params(batch < 8 ? 8 : batch, &u->ring, &p);
  if (r < 0) {
    *error = -r;
    free(u);
    return NULL;
  }
  io_uring_register_ring_fd(&u->ring); /* only makes it faster */
  return u;
}

int uring_run(struct uring_no_ops* u, unsigned long operations) {
  for (unsigned long done = 0; done < operations;) {
    const unsigned long left = operations - done;
    const unsigned now = left < u->batch ? (unsigned)left : u->batch;
    for (unsigned i = 0; i < now; ++i)
      io_uring_prep_nop(io_uring_get_sqe(&u->ring)); /* there is room for a batch */
    const int r = io_uring_submit_and_wait(&u->ring, now);
    if (r < 0) return -r;
    unsigned head;
    unsigned seen = 0;
    struct io_uring_cqe* cqe;
    io_uring_for_each_cqe(&u->ring, head, cqe) {
      if (cqe->res < 0) return -cqe->res;
      ++seen;
    }
    io_uring_cq_advance(&u->ring, seen);
    if (seen != now) return EIO;
    done += seen;
  }
  return 0;
}

void uring_close(struct uring_no_ops* u) {
  io_uring_queue_exit(&u->ring);
  free(u);
}
