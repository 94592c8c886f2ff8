/* What yield_uring.cpp calls: the peer in C. */
#ifndef UNIO_BENCHMARKS_YIELD_URING_H
#define UNIO_BENCHMARKS_YIELD_URING_H

#ifdef __cplusplus
extern "C" {
#endif

struct uring_no_ops;

/* A ring that takes `batch` entries per enter. Null: *error is an errno. */
struct uring_no_ops* uring_open(unsigned batch, int* error);
/* Submits and completes so many. 0, or an errno. */
int uring_run(struct uring_no_ops* u, unsigned long operations);
void uring_close(struct uring_no_ops* u);

#ifdef __cplusplus
}
#endif

#endif
