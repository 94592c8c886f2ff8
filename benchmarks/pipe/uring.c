#include "pipe/uring.h"

#include "support/kernel.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>

enum { buffer_count = 1024, buffer_group = 0 };

struct uring_reader {
  struct io_uring ring;
  struct io_uring_buf_ring* buffers; /* multishot: each of one byte */
  unsigned char memory[buffer_count];
};

/* As io_uring_setup(2) has it for one thread: it alone submits, and completions are worked off when it
   waits. */
static int open_ring(struct uring_reader* r, int fd) {
  struct io_uring_params p = {
      .flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE,
      .cq_entries = 2 * buffer_count};
  int e = io_uring_queue_init_params(64, &r->ring, &p);
  if (e < 0) return e;
  e = io_uring_register_files(&r->ring, &fd, 1); /* as number 0 */
  if (e >= 0) e = io_uring_register_ring_fd(&r->ring);
  if (e < 0) io_uring_queue_exit(&r->ring);
  return e < 0 ? e : 0;
}

static void give_buffer(struct uring_reader* r, unsigned id, int offset) {
  io_uring_buf_ring_add(r->buffers, r->memory + id, 1, (unsigned short)id,
                        io_uring_buf_ring_mask(buffer_count), offset);
}

static int open_buffers(struct uring_reader* r) {
  void* ring;
  int e = posix_memalign(&ring, 4096, buffer_count * sizeof(struct io_uring_buf));
  if (e != 0) return -e;
  struct io_uring_buf_reg reg = {
      .ring_addr = (uintptr_t)ring, .ring_entries = buffer_count, .bgid = buffer_group};
  e = io_uring_register_buf_ring(&r->ring, &reg, 0);
  if (e < 0) {
    free(ring);
    return e;
  }
  r->buffers = ring;
  io_uring_buf_ring_init(r->buffers);
  for (int i = 0; i < buffer_count; ++i) give_buffer(r, (unsigned)i, i);
  io_uring_buf_ring_advance(r->buffers, buffer_count);
  return 0;
}

struct uring_reader* uring_open(int fd, int multishot) {
  struct uring_reader* r = calloc(1, sizeof *r);
  if (r == NULL) return NULL;
  int e = open_ring(r, fd);
  if (e == 0 && multishot && (e = open_buffers(r)) != 0) io_uring_queue_exit(&r->ring);
  if (e == 0) return r;
  free(r);
  errno = -e;
  return NULL;
}

void uring_close(struct uring_reader* r) {
  io_uring_queue_exit(&r->ring);
  free(r->buffers);
  free(r);
}

static int read_singly(struct uring_reader* r, struct bytes* b) {
  for (;;) {
    struct io_uring_sqe* const sqe = io_uring_get_sqe(&r->ring);
    io_uring_prep_read(sqe, 0, r->memory, 1, (__u64)-1);
    sqe->flags |= IOSQE_FIXED_FILE;
    int const e = io_uring_submit_and_wait(&r->ring, 1);
    if (e < 0 && e != -EINTR) return e;
    struct io_uring_cqe* cqe;
    int const w = io_uring_wait_cqe(&r->ring, &cqe); /* enters only if the wait was interrupted */
    if (w < 0) return w;
    int const n = cqe->res;
    io_uring_cqe_seen(&r->ring, cqe);
    if (n != 1) return n < 0 ? n : -EPIPE;
    if (!bytes_take(b, r->memory[0])) return 0;
  }
}

/* Takes what has completed, and gives its buffers back. Returns 1 if the read goes on, 0 if it has to be
   started again, or -errno. */
static int take_completed(struct uring_reader* r, struct bytes* b) {
  int goes_on = 1, error = 0;
  unsigned head, seen = 0, used = 0;
  struct io_uring_cqe* cqe;
  io_uring_for_each_cqe(&r->ring, head, cqe) {
    ++seen;
    if ((cqe->flags & IORING_CQE_F_MORE) == 0) goes_on = 0;
    if (cqe->res < 0 && cqe->res != -ENOBUFS) error = cqe->res;
    if (cqe->res == 0) error = -EPIPE;
    if ((cqe->flags & IORING_CQE_F_BUFFER) == 0) continue;
    unsigned const id = cqe->flags >> IORING_CQE_BUFFER_SHIFT;
    if (cqe->res == 1 && b->left != 0) bytes_take(b, r->memory[id]);
    give_buffer(r, id, (int)used++);
  }
  if (used != 0) io_uring_buf_ring_advance(r->buffers, (int)used);
  io_uring_cq_advance(&r->ring, seen);
  return error != 0 ? error : goes_on;
}

static int read_multishot(struct uring_reader* r, struct bytes* b) {
  int goes_on = 0;
  while (b->left != 0) {
    if (!goes_on) {
      struct io_uring_sqe* const sqe = io_uring_get_sqe(&r->ring);
      io_uring_prep_rw(KERNEL_IORING_OP_READ_MULTISHOT, sqe, 0, NULL, 0, (__u64)-1);
      sqe->flags |= IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT;
      sqe->buf_group = buffer_group;
    }
    int const e = io_uring_submit_and_wait(&r->ring, 1);
    if (e < 0 && e != -EINTR) return e;
    goes_on = take_completed(r, b);
    if (goes_on < 0) return goes_on;
  }
  return 0;
}

int uring_read(struct uring_reader* r, struct bytes* b) {
  return r->buffers != NULL ? read_multishot(r, b) : read_singly(r, b);
}
