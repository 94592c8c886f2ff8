#define _GNU_SOURCE
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>

unsigned short echo_port(int argc, char** argv) {
  return (unsigned short)(argc > 1 ? strtoul(argv[1], NULL, 10) : 0);
}

int echo_variant(int argc, char** argv, char const* name) { return argc > 2 && strcmp(argv[2], name) == 0; }

int echo_number(int argc, char** argv, char const* name, int otherwise) {
  for (int i = 2; i + 1 < argc; ++i)
    if (strcmp(argv[i], name) == 0) return (int)strtol(argv[i + 1], NULL, 10);
  return otherwise;
}

int echo_flag(int argc, char** argv, char const* name) {
  for (int i = 2; i < argc; ++i)
    if (strcmp(argv[i], name) == 0) return 1;
  return 0;
}

void echo_fail(char const* call, int error) {
  fprintf(stderr, "%s: %s\n", call, strerror(error < 0 ? -error : error));
  exit(1);
}

int echo_listen(unsigned short port, int is_one_of_several) {
  int const fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) echo_fail("socket", errno);
  int const on = 1;
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) echo_fail("setsockopt", errno);
  if (is_one_of_several && setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) != 0)
    echo_fail("setsockopt", errno);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, (struct sockaddr*)&at, sizeof at) != 0) echo_fail("bind", errno);
  if (listen(fd, echo_backlog) != 0) echo_fail("listen", errno);
  return fd;
}

static unsigned short port_of(int listening) {
  struct sockaddr_in at;
  socklen_t size = sizeof at;
  if (getsockname(listening, (struct sockaddr*)&at, &size) != 0) echo_fail("getsockname", errno);
  return ntohs(at.sin_port);
}

void echo_announce(int listening) {
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* who starts it may be killed */
  printf("listening on 127.0.0.1:%u\n", port_of(listening));
  fflush(stdout);
}

struct another {
  unsigned short port;
  void (*open)(int listening);
  void (*run)(int listening);
};

static void* serve_too(void* of) {
  struct another const* const a = of;
  int const listening = echo_listen(a->port, 1);
  a->open(listening);
  a->run(listening);
  return NULL;
}

void echo_serve(int argc, char** argv, void (*open)(int listening), void (*run)(int listening)) {
  int const threads = echo_number(argc, argv, "--threads", 1);
  int const listening = echo_listen(echo_port(argc, argv), threads > 1);
  open(listening);
  static struct another others;
  others = (struct another){.port = port_of(listening), .open = open, .run = run};
  for (int i = 1; i < threads; ++i) {
    pthread_t one;
    int const e = pthread_create(&one, NULL, serve_too, &others);
    if (e != 0) echo_fail("pthread_create", e);
  }
  echo_announce(listening);
  run(listening);
}

void echo_no_delay(int connection) {
  int const on = 1;
  if (setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) echo_fail("setsockopt", errno);
}

static FILE* timer_log;
static uint64_t timer_due;

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void echo_compute(int milliseconds) {
  uint64_t const end = now_ns() + (uint64_t)milliseconds * 1000000;
  while (now_ns() < end) {
  }
}

int echo_timer_wanted(int argc, char** argv) {
  for (int i = 2; i + 1 < argc; ++i) {
    if (strcmp(argv[i], "--timer") != 0) continue;
    timer_log = fopen(argv[i + 1], "a");
    if (timer_log == NULL) echo_fail(argv[i + 1], errno);
    setvbuf(timer_log, NULL, _IOLBF, 0); /* what is read while this runs has no half lines */
    return 1;
  }
  return 0;
}

uint64_t echo_timer_armed(void) {
  timer_due = now_ns() + (uint64_t)echo_timer_ms * 1000000;
  return timer_due;
}

void echo_timer_fired(void) {
  uint64_t const now = now_ns();
  fprintf(timer_log, "%" PRIu64 " %" PRIu64 "\n", timer_due, now > timer_due ? now - timer_due : 0);
}
