// src/sys/probes.hpp: places where a tracer may look, such as bpftrace, perf or SystemTap (USDT).
//
// A probe is one nop, and a note in the file that says where it is and in which registers its arguments are.
// So arguments are constants and what is in a register already: no probe computes, loads or stores anything.
//
//   operation_started    operation, and how far into it     start() was called
//                        are the address of its faces,
//                        its descriptor (int) and its
//                        outcome (int)
//   operation_submitted  operation, place                   the kernel has it, or a thread that may block, or
//                                                           its descriptor is waited for
//   operation_completed  operation                          a value is known, or its end
//   operation_delivered  operation                          its receiver is notified
//   coroutine_suspended  operation, frame                   a coroutine awaits it
//   coroutine_resumed    operation, frame                   it goes on
//   turn_begin           multiplexer                        the kernel is about to be asked, and may wait
//   turn_fetched         multiplexer                        all is fetched that the kernel has
//   turn_end             multiplexer                        all of it is served
//   buffer_wanted        operation                          it waits for a buffer of a pool
//   buffer_granted       operation                          it has one
//
// An operation that ends in start() is never submitted. The first member of faces is the operation's name.
// A blocking call that needs no multiplexer has no probes.
//
// GCC takes the lines of a probe for instructions, so a short function that has one, and is to be part of its
// callers, needs [[gnu::always_inline]], or they [[gnu::flatten]].

#pragma once

#if UNIO_PROBES

#define SDT_USE_VARIADIC
#define STAP_SDT_ARG_CONSTRAINT nr // Clang would store what may be in memory there, which costs more
#include <sys/sdt.h>
#define UNIO_PROBE(name, ...) STAP_PROBEV(unio, name, __VA_ARGS__)

#else

#define UNIO_PROBE(name, ...) static_cast<void>(0)

#endif
