/* Readers on io_uring: with an entry for each read, and with one entry that reads again and again. */
#pragma once

#include "pipe/bytes.h"

#ifdef __cplusplus
extern "C" {
#endif

struct uring_reader;

/* For `fd`, which blocks: io_uring does not wait for what does not. Null: see errno. */
struct uring_reader* uring_open(int fd, int multishot);
/* Reads until there is nothing left to be read. Returns 0, or -errno. */
int uring_read(struct uring_reader* r, struct bytes* b);
void uring_close(struct uring_reader* r);

#ifdef __cplusplus
}
#endif
