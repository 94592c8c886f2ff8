/* What tcp_reader_posix.cpp calls: the peers in C. */
#ifndef UNIO_BENCHMARKS_TCP_READER_STATE_MACHINE_H
#define UNIO_BENCHMARKS_TCP_READER_STATE_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Each reads `wanted` bytes from the socket and says how many came: fewer if the stream ended, or something
   else was received. Negative: -errno. */
int64_t read_with_recv(int socket, unsigned char* room, size_t room_bytes, uint64_t wanted);
/* The socket does not block. */
int64_t read_with_states(int socket, unsigned char* room, size_t room_bytes, uint64_t wanted);

#ifdef __cplusplus
}
#endif

#endif
