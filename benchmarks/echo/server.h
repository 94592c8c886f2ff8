/* What the echo servers that unio is compared with have in common: the size of a connection's buffer, one
   option of its socket, and how they say where they listen. Each is started as `PROGRAM PORT [VARIANT]
   [--timer FILE] [--threads N] [--one-each] [--strands] [--busy MS]` (port 0: any) and serves until a signal
   ends it. They are measured from outside, by echo_load.

   With `--timer FILE` a server also has a timer of 1 ms, which it arms again each time that it has fired, and
   appends a line to FILE: when the timer was due and how late it fired, both in ns of the monotonic clock.

   With `--threads N` a server has so many threads, if it can have several: they share one context, or, with
   `--one-each`, as always in C, each has its own, and a socket that listens on the same port. With
   `--busy MS` a timer keeps
   the thread on which it fires busy for so long, then waits as long. With `--strands` each connection of
   Asio's servers has a strand.

   The buffer is twice the largest message, so that a full one never hides that everything has been read. */
#ifndef UNIO_BENCHMARKS_ECHO_SERVER_H
#define UNIO_BENCHMARKS_ECHO_SERVER_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { echo_buffer_size = 8192, echo_backlog = 4096, echo_timer_ms = 1 };

/* The port that the command line asks for. */
unsigned short echo_port(int argc, char** argv);
/* Whether the command line asks for this variant. */
int echo_variant(int argc, char** argv, char const* name);
/* The number that follows `name` on the command line, or this one. */
int echo_number(int argc, char** argv, char const* name, int otherwise);
/* Whether `name` stands on the command line. */
int echo_flag(int argc, char** argv, char const* name);
/* Computes for so long. */
void echo_compute(int milliseconds);
/* A non-blocking socket that listens on 127.0.0.1. Ends the program if there can be none. */
int echo_listen(unsigned short port, int is_one_of_several);
/* Serves with as many threads as are asked for: on each a socket that listens, `open`, then `run`, which does
   not return. The first announces when it has opened. */
void echo_serve(int argc, char** argv, void (*open)(int listening), void (*run)(int listening));
/* Says where `listening` listens, as the load generator and its starter expect it. */
void echo_announce(int listening);
void echo_no_delay(int connection);
/* Whether the command line asks for the timer. Opens its file. */
int echo_timer_wanted(int argc, char** argv);
/* Call when the timer is armed: returns the moment for which it is due. */
uint64_t echo_timer_armed(void);
/* Call when the timer has fired: writes the line. */
void echo_timer_fired(void);
/* Ends the program, saying which call failed. `error` is an errno, of either sign. */
void echo_fail(char const* call, int error) __attribute__((noreturn));

#ifdef __cplusplus
}
#endif
#endif
