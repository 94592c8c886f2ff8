#define _GNU_SOURCE
#include "udp/exchange.h"

#include <errno.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static unsigned char block[udp_bytes * udp_group] = {1}; // which makes it memory, not the page of zeros
static unsigned char room[65536];

int udp_open(struct udp_sockets* s, enum udp_way way) {
  int const on = 1, room_bytes = 4 << 20;
  socklen_t size = sizeof s->at;
  memset(s, 0, sizeof *s);
  s->at.sin_family = AF_INET;
  s->at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  s->to = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  s->from = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (s->to < 0 || s->from < 0) return -errno;
  (void)setsockopt(s->to, SOL_SOCKET, SO_RCVBUF, &room_bytes, sizeof room_bytes);
  if (way == udp_segments && setsockopt(s->to, SOL_UDP, UDP_GRO, &on, sizeof on) != 0) return -errno;
  if (bind(s->to, (struct sockaddr*)&s->at, sizeof s->at) != 0) return -errno;
  return getsockname(s->to, (struct sockaddr*)&s->at, &size) == 0 ? 0 : -errno;
}

void udp_close(struct udp_sockets* s) {
  close(s->to);
  close(s->from);
}

static int one_by_one(struct udp_sockets* s, unsigned n) {
  for (unsigned i = 0; i < n; ++i) {
    struct iovec v = {.iov_base = block + udp_bytes * i, .iov_len = udp_bytes};
    struct msghdr m = {.msg_name = &s->at, .msg_namelen = sizeof s->at, .msg_iov = &v, .msg_iovlen = 1};
    if (sendmsg(s->from, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != udp_bytes) return -errno;
  }
  for (unsigned i = 0; i < n; ++i) {
    struct sockaddr_storage name;
    struct iovec v = {.iov_base = room, .iov_len = sizeof room};
    struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &v, .msg_iovlen = 1};
    if (recvmsg(s->to, &m, MSG_DONTWAIT) != udp_bytes) return -errno;
  }
  return 0;
}

static int in_batches(struct udp_sockets* s, unsigned n) {
  struct mmsghdr messages[udp_group];
  struct iovec pieces[udp_group];
  struct sockaddr_storage names[udp_group];
  memset(messages, 0, n * sizeof *messages);
  for (unsigned i = 0; i < n; ++i) {
    pieces[i] = (struct iovec){.iov_base = block + udp_bytes * i, .iov_len = udp_bytes};
    messages[i].msg_hdr.msg_name = &s->at;
    messages[i].msg_hdr.msg_namelen = sizeof s->at;
    messages[i].msg_hdr.msg_iov = pieces + i;
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  if (sendmmsg(s->from, messages, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (int)n) return -errno;
  for (unsigned i = 0; i < n; ++i) {
    pieces[i] = (struct iovec){.iov_base = room + udp_bytes * i, .iov_len = udp_bytes};
    messages[i].msg_hdr.msg_name = names + i;
    messages[i].msg_hdr.msg_namelen = sizeof names[i];
  }
  return recvmmsg(s->to, messages, n, MSG_DONTWAIT, NULL) == (int)n ? 0 : -errno;
}

static int in_segments(struct udp_sockets* s, unsigned n) {
  union {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
  } out;
  memset(&out, 0, sizeof out);
  struct iovec v = {.iov_base = block, .iov_len = (size_t)udp_bytes * n};
  struct msghdr m = {.msg_name = &s->at, .msg_namelen = sizeof s->at, .msg_iov = &v, .msg_iovlen = 1};
  if (n > 1) {
    uint16_t const segment = udp_bytes;
    m.msg_control = out.bytes;
    m.msg_controllen = sizeof out.bytes;
    struct cmsghdr* const c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(c), &segment, sizeof segment);
  }
  if (sendmsg(s->from, &m, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)v.iov_len) return -errno;
  for (size_t left = (size_t)udp_bytes * n; left != 0;) {
    union {
      struct cmsghdr align;
      char bytes[256];
    } in;
    struct sockaddr_storage name;
    struct iovec r = {.iov_base = room, .iov_len = sizeof room};
    struct msghdr got = {.msg_name = &name,
                         .msg_namelen = sizeof name,
                         .msg_iov = &r,
                         .msg_iovlen = 1,
                         .msg_control = in.bytes,
                         .msg_controllen = sizeof in.bytes};
    ssize_t const bytes = recvmsg(s->to, &got, MSG_DONTWAIT);
    if (bytes <= 0) return -errno;
    int segment = (int)bytes;
    for (struct cmsghdr* c = CMSG_FIRSTHDR(&got); c != NULL; c = CMSG_NXTHDR(&got, c))
      if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_GRO) memcpy(&segment, CMSG_DATA(c), sizeof segment);
    if (segment != udp_bytes) return -EPROTO;
    left -= (size_t)bytes;
  }
  return 0;
}

int udp_exchange(struct udp_sockets* s, enum udp_way way, uint64_t datagrams) {
  while (datagrams != 0) {
    unsigned const n = datagrams < udp_group ? (unsigned)datagrams : udp_group;
    int const e = way == udp_one_by_one ? one_by_one(s, n)
                  : way == udp_batches  ? in_batches(s, n)
                                        : in_segments(s, n);
    if (e != 0) return e;
    datagrams -= n;
  }
  return 0;
}
