#include "latency/uring.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

enum { number_of_in, number_of_out }; /* among the registered files */

struct uring_talker {
  struct io_uring ring;
  int is_socket;
};

struct uring_talker* uring_open(int in, int out, int is_socket) {
  struct uring_talker* t = calloc(1, sizeof *t);
  if (t == NULL) return NULL;
  t->is_socket = is_socket;
  /* The last flag has the kernel say in shared memory that there is work to be done for a completion, so that
     who spins need not ask (io_uring_setup(2)). */
  struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                       IORING_SETUP_TASKRUN_FLAG};
  int e = io_uring_queue_init_params(8, &t->ring, &p);
  if (e == 0) {
    int const files[] = {in, out};
    e = io_uring_register_files(&t->ring, files, 2);
    if (e >= 0) e = io_uring_register_ring_fd(&t->ring);
    if (e >= 0) return t;
    io_uring_queue_exit(&t->ring);
  }
  free(t);
  errno = -e;
  return NULL;
}

void uring_close(struct uring_talker* t) {
  io_uring_queue_exit(&t->ring);
  free(t);
}

/* The message goes out while it is submitted; only the echo's completion is asked for, and a message's if it
   fails. */
static void prepare(struct uring_talker* t, struct rounds* r) {
  struct io_uring_sqe* const message = io_uring_get_sqe(&t->ring);
  struct io_uring_sqe* const echo = io_uring_get_sqe(&t->ring);
  unsigned const bytes = (unsigned)r->bytes;
  if (t->is_socket) {
    io_uring_prep_send(message, number_of_out, r->message, bytes, MSG_NOSIGNAL);
    io_uring_prep_recv(echo, number_of_in, r->reply, bytes, 0);
    echo->ioprio |= IORING_RECVSEND_POLL_FIRST; /* it is not there yet */
  } else {
    io_uring_prep_write(message, number_of_out, r->message, bytes, (__u64)-1);
    io_uring_prep_read(echo, number_of_in, r->reply, bytes, (__u64)-1);
  }
  message->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
  echo->flags |= IOSQE_FIXED_FILE;
}

int uring_talk(struct uring_talker* t, int spins, struct rounds* r) {
  do {
    prepare(t, r);
    int e = spins ? io_uring_submit(&t->ring) : io_uring_submit_and_wait(&t->ring, 1);
    if (e < 0 && e != -EINTR) return e;
    struct io_uring_cqe* cqe;
    do e = spins ? io_uring_peek_cqe(&t->ring, &cqe) : io_uring_wait_cqe(&t->ring, &cqe);
    while (e == -EAGAIN || e == -EINTR);
    if (e < 0) return e;
    int const n = cqe->res;
    io_uring_cqe_seen(&t->ring, cqe);
    if (n != (int)r->bytes) return n < 0 ? n : -EPIPE;
  } while (rounds_next(r));
  return 0;
}
