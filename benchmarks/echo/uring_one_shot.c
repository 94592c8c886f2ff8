/* An echo server on io_uring, one entry for each read and each write. One io_uring_enter(2) submits all that
   was prepared and waits for what is next. The read is told that its data is not there yet
   (IORING_RECVSEND_POLL_FIRST), for the peer waits for the answer before it asks again.

   Variant `linked`: the answer and the next read are submitted together, the read linked to the answer, whose
   completion is not reported when it succeeds (IOSQE_IO_LINK, IOSQE_CQE_SKIP_SUCCESS). An answer that is sent
   in part only breaks the chain, hence MSG_WAITALL. */
#define _GNU_SOURCE
#include "server.h"
#include "uring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct connection {
  int fd;
  unsigned size; /* what of the buffer is to be sent: from `sent` on */
  unsigned sent;
  char buffer[echo_buffer_size];
};

enum { tag_read, tag_write }; /* in the lowest bit of user_data; an accept has none but the tag */

static int linked;

static void prepare_read(struct io_uring* ring, struct connection* c) {
  struct io_uring_sqe* const sqe = uring_entry(ring);
  io_uring_prep_recv(sqe, c->fd, c->buffer, sizeof c->buffer, 0);
  sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
  io_uring_sqe_set_data64(sqe, (uintptr_t)c | tag_read);
}

static void prepare_write(struct io_uring* ring, struct connection* c) {
  struct io_uring_sqe* const sqe = uring_entry(ring);
  io_uring_prep_send(sqe, c->fd, c->buffer + c->sent, c->size - c->sent,
                     linked ? MSG_NOSIGNAL | MSG_WAITALL : MSG_NOSIGNAL);
  io_uring_sqe_set_data64(sqe, (uintptr_t)c | tag_write);
  if (linked) sqe->flags |= IOSQE_IO_LINK | IOSQE_CQE_SKIP_SUCCESS;
}

static void end(struct connection* c) {
  close(c->fd);
  free(c);
}

static void accepted(struct io_uring* ring, int fd) {
  if (fd < 0) echo_fail("accept", fd);
  echo_no_delay(fd);
  struct connection* const c = malloc(sizeof *c);
  if (c == NULL) echo_fail("malloc", ENOMEM);
  c->fd = fd;
  prepare_read(ring, c);
}

static void has_read(struct io_uring* ring, struct connection* c, int n) {
  /* What follows a failed link ends too: a read that was cancelled is the end of a connection whose answer
     failed. */
  if (n <= 0) {
    end(c);
    return;
  }
  c->size = (unsigned)n;
  c->sent = 0;
  if (linked && io_uring_sq_space_left(ring) < 2) uring_submit(ring); /* a chain is submitted as one */
  prepare_write(ring, c);
  if (linked) prepare_read(ring, c);
}

static void has_written(struct io_uring* ring, struct connection* c, int n) {
  if (linked) return; /* it failed; the read behind it says so, too */
  if (n < 0) {
    end(c);
    return;
  }
  c->sent += (unsigned)n;
  if (c->sent < c->size) {
    prepare_write(ring, c);
  } else {
    prepare_read(ring, c);
  }
}

int main(int argc, char** argv) {
  linked = echo_variant(argc, argv, "linked");
  int const listening = echo_listen(echo_port(argc, argv), 0);
  struct io_uring ring;
  uring_open(&ring);
  uring_accept(&ring, listening);
  if (echo_timer_wanted(argc, argv)) uring_arm_timer(&ring);
  echo_announce(listening);
  for (;;) {
    uring_submit_and_wait(&ring);
    struct io_uring_cqe* cqe;
    unsigned head;
    unsigned n = 0;
    io_uring_for_each_cqe(&ring, head, cqe) {
      ++n;
      struct connection* const c = (struct connection*)(uintptr_t)(cqe->user_data & ~UINT64_C(1));
      if (cqe->user_data == uring_timer_data) {
        uring_timer_fired(&ring, cqe->res);
      } else if (c == NULL) {
        accepted(&ring, cqe->res);
        if ((cqe->flags & IORING_CQE_F_MORE) == 0) uring_accept(&ring, listening);
      } else if ((cqe->user_data & 1) == tag_read) {
        has_read(&ring, c, cqe->res);
      } else {
        has_written(&ring, c, cqe->res);
      }
    }
    io_uring_cq_advance(&ring, n);
  }
}
