// unio/callback.hpp: an operation whose result is passed to a function, for programs written in callbacks.
//
//   start(sender, handler)             calls handler(result) where the operation runs
//   start(executor, sender, handler)   calls handler(result) on the executor
//
//   unio::start(unio::async_read(socket, room), [](unio::io_result<unio::mutable_buffers> r) { … });

#pragma once

#include <unio/connect.hpp>

namespace unio::inline v0_1 {
namespace detail {

struct where_it_runs; // no executor
template <class Sender, class Handler, class Executor> class callback_operation;

template <class Handler, class Sender>
concept handler_of = std::derived_from<Sender, io_operation> &&
                     std::invocable<std::decay_t<Handler>&, typename Sender::result_type>;
template <class Handler, class Sender>
concept mistaken_handler = std::derived_from<Sender, io_operation> && !handler_of<Handler, Sender>;

} // namespace detail

/// Starts an operation and returns. `handler` is called with its result.
///
/// Effects        starts `sender` on its handle's multiplexer; if it has none, on the executor's or, without
///                an executor, on the calling thread's own
/// Calls          `handler(result)`, once, when the operation has finished. Without an executor: on the
///                thread that runs the multiplexer, possibly before start() returns, but never inside another
///                handler, so handlers that start the next operation do not nest. With an executor: there;
///                posted, unless it is the multiplexer's own. The handler must not throw
/// Errors         in the result
/// Throws         std::bad_alloc, before anything was started
/// Preconditions  not an operation that yields many values: connect those to a receiver
/// Buffers        the caller's, until the handler is called
/// Concurrency    any thread. If only others run the multiplexer, one of them starts the operation
/// Cancellation   by `stop`, from any thread, as io_operation::cancel(). After a stop the operation does not
///                start; the handler still gets condition::canceled, later, as if posted. The token's source
///                outlives the operation
/// Lifetime       operation, handler and executor share one block, which is freed before the handler is
///                called, so the next operation reuses it. If the multiplexer ends first, the handler is
///                called with that error. If the executor ends first, the handler is destroyed uncalled
/// Cost           one block from the frame pool; after warm-up no allocation and no lock
/// Source         *Coroutine-first asynchronous I/O* §10.2
template <class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(Sender sender, Handler&& handler, stop_token stop = {});
template <is_executor Executor, class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(Executor executor, Sender sender, Handler&& handler, stop_token stop = {});
/// The same on a multiplexer, which must outlive the operation.
template <class Sender, class Handler>
  requires detail::handler_of<Handler, Sender>
void start(io_multiplexer& m, Sender sender, Handler&& handler, stop_token stop = {});

} // namespace unio

#include <unio/detail/callback.hpp>
