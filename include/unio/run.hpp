// unio/run.hpp: where a chain of coroutines begins, and where it goes elsewhere.
//
//   run(task)                    drives this thread's multiplexer until the task has ended: for main()
//   async_run(executor, task…)   starts tasks and returns; what it starts owns the executor
//   sync_wait(executor, task)    starts it there and blocks this thread until it has ended
//   run_on(executor, task)       within a coroutine: the task runs there; the caller resumes where it was
//
// Each takes in place of a task whatever a task can await: an operation (`run(pipe.co_read(buffer))`),
// when_all(…), timeout(…), an awaitable of another library. That takes one more frame. An lvalue is referred
// to; a task is moved: `run(std::move(t))`.
//
//   unio::run([]() -> unio::task<> { (co_await unio::co_no_op()).value(); }());
//
// Thread safety  async_run(), sync_wait() and run_on() from any thread that may post to the executor; run(),
//                and sync_wait() without an executor, from the thread that runs the multiplexer, or from any
//                if several may run it

#pragma once

#include <unio/detail/as_task.hpp>
#include <unio/multiplexer.hpp>
#include <unio/task.hpp>

#include <exception>
#include <expected>

namespace unio::inline v0_1 {

/// The outcome of a task: its value (of a task<T&>: a pointer to it), or the exception that left it.
template <class T>
using task_outcome =
    std::expected<std::conditional_t<std::is_reference_v<T>, std::add_pointer_t<T>, T>, std::exception_ptr>;

/// What a chain of coroutines has in addition to its executor.
struct run_options {
  stop_token stop{};                 ///< asks it to end
  frame_allocator* frames = nullptr; ///< see environment
};

/// Starts a task on an executor, and returns. `handler` is called when the task has ended.
///
/// Effects        posts the task to `executor`, which the chain owns from now on; one that can, spawns it: of
///                several threads the one that has least to do begins it (io_multiplexer::spawn())
/// Calls          `handler(task_outcome<T>)` on the executor, once the task has ended and its frame and the
///                chain's block are freed. Neither the handler nor moving a T may throw
/// Errors         std::bad_alloc, before anything was started
/// Cancellation   by `options.stop`, whose source must outlive the task
/// Lifetime       what the task refers to must outlive it. If the executor's multiplexer ends first, so does
///                the task: its operations end with condition::canceled, and a queued task is destroyed. A
///                task that waits for something its multiplexer does not know of must have ended before
/// Cost           one block from the frame pool
/// Source         *Coroutine-first asynchronous I/O* §8
template <is_executor Executor, detail::startable_alone A, class Handler>
  requires std::invocable<Handler&, task_outcome<detail::task_value_t<A>>>
void async_run(Executor executor, A&& a, Handler handler, run_options const& options = {});

/// The same without a handler: an exception that leaves the task ends the program, saying what it was.
template <is_executor Executor, detail::startable_alone A>
void async_run(Executor executor, A&& a, run_options const& options = {});

/// Several at once, each on its own: the same as one call after the other.
template <is_executor Executor, detail::startable_alone... A>
  requires(sizeof...(A) >= 2)
void async_run(Executor executor, A&&... a);

/// The same on a multiplexer, which must outlive the task.
template <detail::startable_alone A, class Handler>
  requires std::invocable<Handler&, task_outcome<detail::task_value_t<A>>>
void async_run(io_multiplexer& m, A&& a, Handler handler, run_options const& options = {});
template <detail::startable_alone A>
void async_run(io_multiplexer& m, A&& a, run_options const& options = {});
template <detail::startable_alone... A>
  requires(sizeof...(A) >= 2)
void async_run(io_multiplexer& m, A&&... a);

/// Runs `m` on this thread until a task on it has ended; other work on `m` progresses too. If several
/// threads may run `m`, each may do so with a task of its own, which any of them may resume.
///
/// Returns        what the task returns
/// Throws         what leaves the task; std::system_error if `m` cannot be run
/// Preconditions  this thread runs `m`, or no thread has yet, or several may
/// Cost           none of its own: no block; a lock if several may run `m`
template <detail::startable A>
detail::task_value_t<A> run(io_multiplexer& m, A&& a, run_options const& options = {});
/// On the calling thread's own multiplexer: what the main() of a program calls.
///
/// Source  liburing4cpp, demo programs
template <detail::startable A> detail::task_value_t<A> run(A&& a, run_options const& options = {});

/// Runs a task on an executor and blocks the calling thread until it has ended. If the executor is a
/// multiplexer that this thread runs, or a single-threaded one that no thread has run yet, runs it itself.
///
/// Returns        what the task returns
/// Throws         what leaves the task; std::system_error if the multiplexer cannot be run, and with
///                error::multiplexer_destroyed if that ended while the task was queued
/// Cost           no block; one post, and a wake-up of this thread where another one runs the executor
/// Preconditions  otherwise another thread runs the executor
template <is_executor Executor, detail::startable A>
detail::task_value_t<A> sync_wait(Executor executor, A&& a, run_options const& options = {});
/// As run().
template <detail::startable A> detail::task_value_t<A> sync_wait(A&& a, run_options const& options = {});

/// Within a coroutine: `co_await run_on(executor, task)` runs the task there. The caller resumes where it
/// was, also when an exception leaves the task.
///
/// Throws       what leaves the task; std::system_error with error::multiplexer_destroyed if the multiplexer
///              there ended while the task was queued
/// Destruction  of the caller asks the task to stop, and runs the caller's multiplexer until it has ended
/// Cost         no block; two posts where the executors differ, none where they are equal
/// Source       *Coroutine-first asynchronous I/O* §7
template <is_executor Executor, detail::startable A> [[nodiscard]] auto run_on(Executor executor, A&& a);

} // namespace unio

#include <unio/detail/run.hpp>
