/* Two sockets on loopback, and datagrams that go from one to the other. Both for C and for C++. */
#pragma once

#include <netinet/in.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { udp_bytes = 1200, udp_group = 48 };
enum udp_way { udp_one_by_one, udp_batches, udp_segments };

struct udp_sockets {
  int from;
  int to;
  struct sockaddr_in at; /* of the one that receives */
};

/* 0 or -errno. */
int udp_open(struct udp_sockets* s, enum udp_way way);
void udp_close(struct udp_sockets* s);
/* Sends so many and receives them, by groups. 0, or -errno. */
int udp_exchange(struct udp_sockets* s, enum udp_way way, uint64_t datagrams);

#ifdef __cplusplus
}
#endif
