// unio/unio.hpp: what most programs need, in the order in which it is best read.
//
// Beside it: unio/fs (directory trees), unio/locks (locks between processes), unio/process_handle.hpp and
// unio/terminate.hpp, unio/adopt.hpp and unio/foreign_handle.hpp (descriptors made elsewhere),
// unio/execution.hpp (the standard's senders), unio/testing.hpp. In unio/extend is what only those need who
// write operations or drivers (operation_faces.hpp, raw_ring.hpp) or have another loop run with unio
// (held_starts.hpp, foreign_*.hpp).
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
#include <unio/buffer.hpp>
#include <unio/deadline.hpp>
#include <unio/endpoint.hpp>
#include <unio/error.hpp>
#include <unio/result.hpp>
#include <unio/io_request.hpp>
#include <unio/stop_token.hpp>

// what owns a descriptor, and what can be done with it
#include <unio/handle.hpp>
#include <unio/file_handle.hpp>
#include <unio/file_lock.hpp>
#include <unio/mapped_file_handle.hpp>
#include <unio/directory_handle.hpp>
#include <unio/symlink_handle.hpp>
#include <unio/tail_handle.hpp>
#include <unio/watch_handle.hpp>
#include <unio/pipe_handle.hpp>
#include <unio/standard_streams.hpp>

// the network
#include <unio/socket_handle.hpp>
#include <unio/socket_options.hpp>
#include <unio/datagram.hpp>
#include <unio/datagram_handle.hpp>
#include <unio/passed_handles.hpp>
#include <unio/inherited_handles.hpp>
#include <unio/splice.hpp>

// moments and events, signals, words of memory
#include <unio/timer_handle.hpp>
#include <unio/signal_handle.hpp>
#include <unio/futex.hpp>

// coroutines, and where they run
#include <unio/task.hpp>
#include <unio/run.hpp>
#include <unio/executor.hpp>
#include <unio/thread_pool.hpp>
#include <unio/strand.hpp>
#include <unio/frames.hpp>

// several at once
#include <unio/when.hpp>
#include <unio/task_group.hpp>
#include <unio/sync.hpp>
#include <unio/channel.hpp>

// streams and sequences
#include <unio/stream.hpp>
#include <unio/buffered_stream.hpp>
#include <unio/generator.hpp>
#include <unio/async_generator.hpp>

// below coroutines: operations, their receivers, what runs them
#include <unio/operation.hpp>
#include <unio/connect.hpp>
#include <unio/callback.hpp>
#include <unio/link.hpp>
#include <unio/receiving.hpp>
#include <unio/buffer_pool.hpp>
#include <unio/multiplexer.hpp>
#include <unio/pending.hpp>
