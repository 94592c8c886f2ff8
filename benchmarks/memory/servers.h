/* The servers in C: echo until something fails, and return -errno. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int listen_at(char const* address);

int serve_epoll(int listening, size_t buffer, char* shared, size_t shared_size);
int serve_uring(int listening, size_t buffer, char* shared, size_t shared_size);

#ifdef __cplusplus
}
#endif
