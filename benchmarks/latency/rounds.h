/* The messages of one run, and how long their echoes took. Both for C and for C++.

   A subject sends `message`, waits until all of the echo is in `reply`, and calls rounds_next. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { largest_message = 64 };

struct rounds {
  unsigned char message[largest_message];
  unsigned char reply[largest_message];
  size_t bytes; /* of either */
};

/* The echo has arrived. Returns whether `message` is to be sent once more. */
int rounds_next(struct rounds* r);

#ifdef __cplusplus
}
#endif
