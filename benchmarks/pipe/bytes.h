/* What a subject reads, and whether it is what was written: 0, 1, ... 255, 0, ... Both for C and for C++. */
#pragma once

#include <stdint.h>

struct bytes {
  uint64_t left;
  unsigned char expected;
  unsigned char wrong; /* not zero once one was not as expected */
};

/* One has arrived. Returns whether there is another to be read. */
static inline int bytes_take(struct bytes* b, unsigned char byte) {
  b->wrong |= (unsigned char)(byte ^ b->expected++);
  return --b->left != 0;
}
