/* An echo server on io_uring: one multishot receive for each connection, which takes its buffers from a ring
   that all share (io_uring_setup_buf_ring(3)) and stays armed; an answer is sent out of the buffer that the
   question came in, which is given back when it has been sent. An answer is sent whole (MSG_WAITALL); those
   of one connection, one after the other. */
#define _GNU_SOURCE
#include "server.h"
#include "uring.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Few, so that they stay in the processor's cache: a buffer is in use from its completion until its answer
   was sent, which is usually within one turn. Without any a receive ends (ENOBUFS) and is started again when
   some have come back. */
enum { buffers = 512, group = 0, none = -1 };

struct connection {
  int fd;
  int receiving;     /* its multishot receive is armed */
  int sending;       /* an answer is on its way; others wait: */
  int first_waiting; /* a buffer, or none */
  int last_waiting;
  int ended;               /* nothing more will come; it is closed when nothing is on its way */
  struct connection* next; /* of those that found no buffer */
};

static _Thread_local struct io_uring ring;
static _Thread_local struct io_uring_buf_ring* offered;
static _Thread_local char* memory;
static _Thread_local unsigned sizes[buffers]; /* of the answer in each */
static _Thread_local int next_waiting[buffers];
static _Thread_local struct connection* starved;

/* user_data: the buffer's number in the upper 16 bits, the connection's address, in its lowest bit what it
   is. */
enum { tag_read, tag_write };

static void receive(struct connection* c) {
  struct io_uring_sqe* const sqe = uring_entry(&ring);
  io_uring_prep_recv_multishot(sqe, c->fd, NULL, 0, 0);
  sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = group;
  io_uring_sqe_set_data64(sqe, (uintptr_t)c | tag_read);
  c->receiving = 1;
}

static void send_buffer(struct connection* c, int b) {
  struct io_uring_sqe* const sqe = uring_entry(&ring);
  io_uring_prep_send(sqe, c->fd, memory + (size_t)b * echo_buffer_size, sizes[b], MSG_NOSIGNAL | MSG_WAITALL);
  io_uring_sqe_set_data64(sqe, (uintptr_t)c | tag_write | (uint64_t)b << 48);
  c->sending = 1;
}

static void give_back(int b) {
  io_uring_buf_ring_add(offered, memory + (size_t)b * echo_buffer_size, echo_buffer_size, (unsigned short)b,
                        io_uring_buf_ring_mask(buffers), 0);
  io_uring_buf_ring_advance(offered, 1);
  if (starved != NULL) {
    struct connection* const c = starved;
    starved = c->next;
    receive(c);
  }
}

static void close_if_idle(struct connection* c) {
  if (!c->ended || c->receiving || c->sending) return;
  close(c->fd);
  free(c);
}

static void has_read(struct connection* c, int n, unsigned flags) {
  if ((flags & IORING_CQE_F_MORE) == 0) c->receiving = 0;
  int const b = (flags & IORING_CQE_F_BUFFER) != 0 ? (int)(flags >> IORING_CQE_BUFFER_SHIFT) : none;
  if (n > 0) {
    sizes[b] = (unsigned)n;
    next_waiting[b] = none;
    if (!c->sending) {
      send_buffer(c, b);
    } else {
      *(c->first_waiting == none ? &c->first_waiting : &next_waiting[c->last_waiting]) = b;
      c->last_waiting = b;
    }
    if (!c->receiving) receive(c);
    return;
  }
  if (n == -ENOBUFS) {
    c->next = starved;
    starved = c;
    return;
  }
  if (b != none) give_back(b);
  c->ended = 1;
  close_if_idle(c);
}

static void has_written(struct connection* c, int n, int b) {
  c->sending = 0;
  give_back(b);
  if (n != (int)sizes[b] && !c->ended) {
    c->ended = 1;
    shutdown(c->fd, SHUT_RDWR); /* so that its receive ends */
  }
  int const next = c->first_waiting;
  if (next == none) {
    close_if_idle(c);
    return;
  }
  c->first_waiting = next_waiting[next];
  send_buffer(c, next);
}

static void accepted(int fd) {
  if (fd < 0) echo_fail("accept", fd);
  echo_no_delay(fd);
  struct connection* const c = calloc(1, sizeof *c);
  if (c == NULL) echo_fail("malloc", ENOMEM);
  c->fd = fd;
  c->first_waiting = none;
  receive(c);
}

/* The calls behind io_uring_setup_buf_ring(3), which is younger than the liburing of Debian 12. */
static void offer_buffers(void) {
  size_t const size = buffers * sizeof(struct io_uring_buf);
  if (posix_memalign((void**)&offered, 4096, size) != 0) echo_fail("malloc", ENOMEM);
  if (posix_memalign((void**)&memory, 4096, (size_t)buffers * echo_buffer_size) != 0)
    echo_fail("malloc", ENOMEM);
  struct io_uring_buf_reg what = {.ring_addr = (uintptr_t)offered, .ring_entries = buffers, .bgid = group};
  int const e = io_uring_register_buf_ring(&ring, &what, 0);
  if (e != 0) echo_fail("io_uring_register_buf_ring", e);
  io_uring_buf_ring_init(offered);
  for (int b = 0; b < buffers; ++b) give_back(b);
}

static int has_timer;

static void open_all(int listening) {
  uring_open(&ring);
  offer_buffers();
  uring_accept(&ring, listening);
  if (has_timer) uring_arm_timer(&ring);
}

static void run(int listening) {
  for (;;) {
    uring_submit_and_wait(&ring);
    struct io_uring_cqe* cqe;
    unsigned head;
    unsigned n = 0;
    io_uring_for_each_cqe(&ring, head, cqe) {
      ++n;
      struct connection* const c =
          (struct connection*)(uintptr_t)(cqe->user_data & ((UINT64_C(1) << 48) - 1) & ~UINT64_C(1));
      if (cqe->user_data == uring_timer_data) {
        uring_timer_fired(&ring, cqe->res);
      } else if (c == NULL) {
        accepted(cqe->res);
        if ((cqe->flags & IORING_CQE_F_MORE) == 0) uring_accept(&ring, listening);
      } else if ((cqe->user_data & 1) == tag_read) {
        has_read(c, cqe->res, cqe->flags);
      } else {
        has_written(c, cqe->res, (int)(cqe->user_data >> 48));
      }
    }
    io_uring_cq_advance(&ring, n);
  }
}

int main(int argc, char** argv) {
  has_timer = echo_timer_wanted(argc, argv);
  echo_serve(argc, argv, open_all, run);
}
