// unio/yield.hpp: letting other coroutines run.
//
//   co_yield_now()   lets everything else that is ready run first
//   co_fork()        lets another thread run the rest, and the starter continue
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

/// `co_await co_fork()` at the beginning of a task makes it one that another thread may take: whatever
/// started it continues, and the rest is queued as a new task.
///
///   task<int> fib(int n) {
///     co_await unio::co_fork();
///     if (n < 2) co_return n;
///     auto const [a, b] = co_await unio::when_all(fib(n - 1), fib(n - 2));
///     co_return a + b;
///   }
///
/// On a thread_pool each thread runs first what it has forked last, and an idle one takes the older half of
/// what another has. Otherwise as co_yield_now().
///
/// Runs as       executor_ref::fork()
[[nodiscard]] inline detail::fork_awaitable co_fork() noexcept { return {}; }

} // namespace unio
