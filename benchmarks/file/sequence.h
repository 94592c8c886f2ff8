/* Which block is read when, and what is in it: the same for all subjects, in C and in C++. */
#ifndef UNIO_BENCHMARKS_FILE_SEQUENCE_H
#define UNIO_BENCHMARKS_FILE_SEQUENCE_H

#include <stdint.h>
#include <string.h>

#define BLOCK_BYTES 4096u

/* Spreads the bits of a number over all of it (the finalizer of MurmurHash3, which is public). */
static inline uint64_t scattered(uint64_t n) {
  n ^= n >> 33;
  n *= UINT64_C(0xff51afd7ed558ccd);
  n ^= n >> 33;
  n *= UINT64_C(0xc4ceb9fe1a85ec53);
  n ^= n >> 33;
  return n;
}

/* The block that the i-th read of a run wants, of less than 2^32. */
static inline uint64_t block_of(uint64_t i, uint64_t blocks) {
  return ((scattered(i + 1) >> 32) * blocks) >> 32;
}

/* A block begins and ends with what its number makes. */
static inline void fill_block(unsigned char* at, uint64_t block) {
  const uint64_t mark = scattered(block);
  memset(at, (int)(mark & 0xff), BLOCK_BYTES);
  memcpy(at, &mark, sizeof mark);
  memcpy(at + BLOCK_BYTES - sizeof mark, &mark, sizeof mark);
}
static inline int is_block(const unsigned char* at, uint64_t block) {
  const uint64_t mark = scattered(block);
  return memcmp(at, &mark, sizeof mark) == 0 &&
         memcmp(at + BLOCK_BYTES - sizeof mark, &mark, sizeof mark) == 0;
}

#endif
