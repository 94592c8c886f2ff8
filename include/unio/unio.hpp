// unio/unio.hpp: what most programs need, in the order in which it is best read.
//
// Not in it, each of which is included where it is wanted:
//
//   process_handle, terminate        other processes, and ending one with a grace
//   map_handle                       memory that can grow, and sections of files as memory
//   listening_datagram_handle        Unix sockets whose connections keep messages apart
//   connect_any, connect_to          the first address that answers; by name (unio::net), as is resolver
//   tls, tls_context, tls_engine     TLS over any stream (unio::tls)
//   fs/, locks/                      directory trees (unio::fs); locks between processes (unio::locks)
//   adopt, foreign_handle            descriptors made elsewhere, taken over or only waited for
//   outer_loop, future, async_task   unio within other loops, and for code without coroutines
//   execution, asio                  the standard's senders; Asio's programs
//   testing, testing_threads         the simulation
//   extend/                          for those who write operations, drivers or loops
//
// One spelling rule, for operations, streams, connecting, trees and all else:
//
//   verb         blocks the calling thread
//   co_verb      is awaited: a task or an awaitable
//   async_verb   describes: a sender, to be connected or started
//   try_…        never waits: try_verb, try_co_verb, try_async_verb
//
// What takes awaitables and makes one of them is no verb, and keeps its plain name: when_all, when_any, race,
// timeout, run_on.

#pragma once

// clang-format off

// what a call takes and yields
#include <unio/buffer.hpp>              // the memory that an operation reads into or writes from
#include <unio/deadline.hpp>            // how long an operation may wait
#include <unio/endpoint.hpp>            // addresses of sockets
#include <unio/error.hpp>               // what can go wrong, and what to compare it with
#include <unio/result.hpp>              // a value, or why there is none
#include <unio/io_request.hpp>          // the request and the result of an operation that moves bytes
#include <unio/stop_token.hpp>          // asking operations and coroutines to end soon

// what owns a descriptor, and what can be done with it
#include <unio/handle.hpp>              // an open descriptor, and what every kind of handle can do
#include <unio/file_handle.hpp>         // regular files, and where they are named from: path_handle
#include <unio/file_lock.hpp>           // advisory locks on files and on ranges of their bytes
#include <unio/mapped_file_handle.hpp>  // a file whose reads are views of memory
#include <unio/directory_handle.hpp>    // directories that are listed; with directory_entry
#include <unio/symlink_handle.hpp>      // symbolic links that are not followed
#include <unio/tail_handle.hpp>         // a file that others append to, as tail -f reads it
#include <unio/watch_handle.hpp>        // what happens to files and in directories, as events
#include <unio/pipe_handle.hpp>         // pipes, anonymous and named
#include <unio/standard_streams.hpp>    // the streams that this process was started with

// the network
#include <unio/socket_handle.hpp>       // stream sockets, and sockets that listen for them
#include <unio/socket_options.hpp>      // the options of sockets, each with a name and a type
#include <unio/datagram.hpp>            // what is known of a datagram apart from its bytes
#include <unio/datagram_handle.hpp>     // sockets that exchange datagrams
#include <unio/passed_handles.hpp>      // descriptors that travel over Unix sockets
#include <unio/inherited_handles.hpp>   // sockets that the service manager passed at start
#include <unio/splice.hpp>              // moving bytes between two handles inside the kernel

// moments and events, signals, words of memory
#include <unio/timer_handle.hpp>        // waiting for a moment, or for an event
#include <unio/signal_handle.hpp>       // signals to this process as something to wait for
#include <unio/futex.hpp>               // waiting until a word of memory has changed

// whichever of several handles is ready
#include <unio/poll_any.hpp>

// coroutines, and where they run
#include <unio/task.hpp>                // a coroutine that is awaited, and letting others run
#include <unio/run.hpp>                 // where a chain of coroutines begins, and where it goes elsewhere
#include <unio/executor.hpp>            // where coroutines and posted work run
#include <unio/thread_pool.hpp>         // threads that run coroutines and their I/O
#include <unio/strand.hpp>              // runs coroutines one at a time
#include <unio/frames.hpp>              // where the frames of coroutines come from

// several at once
#include <unio/when.hpp>                // all, the first, the first that succeeds; time limits
#include <unio/task_group.hpp>          // any number of tasks, none of which outlives the group; accept loops
#include <unio/sync.hpp>                // mutexes, semaphores, events, latches to await
#include <unio/channel.hpp>             // passes values between coroutines

// streams and sequences
#include <unio/stream.hpp>              // byte streams of any kind, and whole transfers
#include <unio/buffered_stream.hpp>     // streams with a buffer in the program, for data in small pieces
#include <unio/generator.hpp>           // a sequence that is computed item by item
#include <unio/async_generator.hpp>     // a sequence whose coroutine may await

// below coroutines: operations, their receivers, what runs them
#include <unio/operation.hpp>           // the state of one operation, on every driver
#include <unio/connect.hpp>             // binding an operation to a receiver, or awaiting it
#include <unio/callback.hpp>            // an operation whose result is passed to a function
#include <unio/link.hpp>                // operations that run one after the other, as one
#include <unio/receiving.hpp>           // what a stream brings, in buffers of a pool
#include <unio/buffer_pool.hpp>         // buffers that are lent where there is something to put into them
#include <unio/multiplexer.hpp>         // where operations wait together
#include <unio/pending.hpp>             // finding out what hangs, and what waits for it
