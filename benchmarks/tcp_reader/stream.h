/* What is sent, so that who receives it can look whether it is that. */
#ifndef UNIO_BENCHMARKS_TCP_READER_STREAM_H
#define UNIO_BENCHMARKS_TCP_READER_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* The byte at a position of the stream; the same again after 2^18. */
static inline unsigned char byte_at(uint64_t position) {
  position &= (1u << 18) - 1;
  return (unsigned char)(position ^ (position >> 8) ^ (position >> 16));
}

/* First and last of what came are looked at. Not zero: it is that. */
static inline int is_stream(const unsigned char* bytes, size_t n, uint64_t position) {
  return bytes[0] == byte_at(position) && bytes[n - 1] == byte_at(position + n - 1);
}

#endif
