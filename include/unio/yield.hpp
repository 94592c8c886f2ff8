// unio/yield.hpp: letting other coroutines run.
//
//   co_yield_now()   lets everything else that is ready run first
//
//   for (block& b : blocks) {
//     checksum(b);
//     co_await unio::co_yield_now();
//   }
//
// Thread safety  within a coroutine, which runs on one thread at a time

#pragma once

#include <unio/detail/yield.hpp>

namespace unio::inline v0_1 {

/// `co_await co_yield_now()` queues the coroutine behind everything that its executor has to run: other
/// coroutines, posted work, timers and I/O. Computation between two awaits delays all of these. Awaits that
/// need not wait (channels, mutexes, buffered streams, I/O that completes at once) yield after 64.
///
/// Returns       nothing
/// Errors        none
/// Preconditions awaited by a coroutine that has an environment, as task<T> has
/// Cancellation  none: a coroutine that was asked to stop is resumed as well
/// Cost          one post; no allocation; no system call if one thread runs the executor
/// Runs as       executor_ref::post(). On inline_executor, which has no queue, it does nothing
[[nodiscard]] inline detail::yield_awaitable co_yield_now() noexcept { return {}; }

} // namespace unio
