/* Bare liburing: `depth` reads in flight; what has ended is replaced, all of a turn's in one
   io_uring_enter. */

#include "uring.h"

#include "sequence.h"

#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/uio.h>

struct uring_reader {
  struct io_uring ring;
  int fd;
  unsigned depth;
  enum uring_pins pins;
  unsigned char* room;
  uint64_t* wanted; /* which block each slot reads */
};

struct uring_reader* uring_open(int fd, unsigned char* room, unsigned depth, enum uring_pins pins,
                                int* error) {
  struct uring_reader* const u = malloc(sizeof *u);
  uint64_t* const wanted = malloc(depth * sizeof *wanted);
  struct io_uring_params p = {.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN};
  int r = -ENOMEM;
  if (u == NULL || wanted == NULL) goto no_memory;
  *u = (struct uring_reader){.fd = fd, .depth = depth, .pins = pins, .room = room, .wanted = wanted};
  r = io_uring_queue_init_params(depth < 8 ? 8 : depth, &u->ring, &p);
  if (r < 0) goto no_memory;
  io_uring_register_ring_fd(&u->ring); /* only makes it faster */
  if (pins != URING_PINS_NOTHING) {
    const struct iovec all = {.iov_base = room, .iov_len = (size_t)depth * BLOCK_BYTES};
    r = io_uring_register_buffers(&u->ring, &all, 1);
    if (r >= 0 && pins == URING_PINS_MEMORY_AND_FILE) r = io_uring_register_files(&u->ring, &fd, 1);
    if (r < 0) goto no_ring;
  }
  return u;
no_ring:
  io_uring_queue_exit(&u->ring);
no_memory:
  free(wanted);
  free(u);
  *error = -r;
  return NULL;
}

static void prepare(struct uring_reader* u, unsigned slot, uint64_t block) {
  struct io_uring_sqe* const sqe = io_uring_get_sqe(&u->ring); /* never more than depth are in flight */
  unsigned char* const at = u->room + (size_t)slot * BLOCK_BYTES;
  u->wanted[slot] = block;
  if (u->pins == URING_PINS_MEMORY_AND_FILE) {
    io_uring_prep_read_fixed(sqe, 0, at, BLOCK_BYTES, block * BLOCK_BYTES, 0);
    io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  } else if (u->pins == URING_PINS_MEMORY) {
    io_uring_prep_read_fixed(sqe, u->fd, at, BLOCK_BYTES, block * BLOCK_BYTES, 0);
  } else {
    io_uring_prep_read(sqe, u->fd, at, BLOCK_BYTES, block * BLOCK_BYTES);
  }
  io_uring_sqe_set_data64(sqe, slot);
}

int uring_read(struct uring_reader* u, uint64_t operations, uint64_t blocks) {
  uint64_t begun = 0;
  for (unsigned slot = 0; slot < u->depth && begun < operations; ++slot)
    prepare(u, slot, block_of(begun++, blocks));
  for (uint64_t done = 0; done < operations;) {
    const int r = io_uring_submit_and_wait(&u->ring, 1);
    if (r < 0 && r != -EINTR) return -r;
    unsigned head;
    unsigned seen = 0;
    struct io_uring_cqe* cqe;
    io_uring_for_each_cqe(&u->ring, head, cqe) {
      ++seen;
      if (cqe->res < 0) return -cqe->res;
      const unsigned slot = (unsigned)cqe->user_data;
      if (cqe->res != (int)BLOCK_BYTES || !is_block(u->room + (size_t)slot * BLOCK_BYTES, u->wanted[slot]))
        return -1;
      if (begun < operations) prepare(u, slot, block_of(begun++, blocks));
    }
    io_uring_cq_advance(&u->ring, seen);
    done += seen;
  }
  return 0;
}

void uring_close(struct uring_reader* u) {
  io_uring_queue_exit(&u->ring);
  free(u->wanted);
  free(u);
}
