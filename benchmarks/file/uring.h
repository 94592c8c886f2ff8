/* What file_uring.cpp calls: the peer in C. */
#ifndef UNIO_BENCHMARKS_FILE_URING_H
#define UNIO_BENCHMARKS_FILE_URING_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct uring_reader;

/* What the kernel keeps pinned. */
enum uring_pins { URING_PINS_NOTHING, URING_PINS_MEMORY, URING_PINS_MEMORY_AND_FILE };

/* `room` has `depth` blocks. Null: *error is an errno. */
struct uring_reader* uring_open(int fd, unsigned char* room, unsigned depth, enum uring_pins pins,
                                int* error);
/* Reads so many blocks of the sequence. 0, an errno, or -1 for what is not what the file has. */
int uring_read(struct uring_reader* u, uint64_t operations, uint64_t blocks);
void uring_close(struct uring_reader* u);

#ifdef __cplusplus
}
#endif

#endif
