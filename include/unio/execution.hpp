// unio/execution.hpp: senders, receivers and schedulers of the standard library (P2300, C++26).
//
//   async_X, atomic_async_X     of every handle: senders of their result
//   task<T>                     a sender, too
//   as_sender(executor, task)   a task on an executor, as a sender
//   as_scheduler(executor)      an executor as a scheduler
//   co_await sender             in a coroutine of unio's; as_awaitable(sender) is the same
//   sync_wait(sender)           blocks this thread, running its multiplexer, until the sender has completed
//   UNIO_HAS_EXECUTION          1 if an implementation was found (unio/detail/execution.hpp)
//
//   auto copied = unio::async_read(pipe, room) | then([](unio::io_result<unio::mutable_buffers> r) { … });
//
// What executes what. An operation whose handle was given a multiplexer uses that. Otherwise the receiver's
// environment decides, and so does it where a task that is a sender runs:
//
//   the scheduler is an executor of unio's   that executor's multiplexer: starts_on(as_scheduler(e), …); in a
//                                            coroutine and unio::sync_wait the scheduler is its executor
//   the delegation scheduler is one          likewise
//   the delegation scheduler is another      that of its thread, which it then runs in turns: the standard's
//                                            sync_wait has one, so it runs this thread's multiplexer
//   there is neither                         the starting thread's own: some code must run it. If there is a
//                                            scheduler that is not unio's, and nothing has run it by then,
//                                            debug builds end the program with a message
//
// The first two are asked for by get_start_scheduler (get_scheduler, where the vocabulary is older) and
// get_delegation_scheduler.
//
// While the standard's sync_wait has nothing else to do it looks up from its multiplexer every 5 ms, because
// other work of its scheduler cannot wake it: unio::sync_wait sleeps, and what it waits for wakes it.
//
// async_accept_many and async_receive_many yield many values, for which the standard has no senders (yet):
// they are none. Awaitables (co_X) are none either: in a foreign coroutine nothing would run them.
//
// unio/unio.hpp does not include this header.
//
// Thread safety  as_sender(), as_scheduler() and as_awaitable() from any thread; what they make is started by
//                one. A schedule() of one executor from any thread that may post to it. sync_wait() from a
//                thread that runs its own multiplexer

#pragma once

#include <unio/detail/schedulers.hpp>
#include <unio/run.hpp>
#include <unio/task.hpp>

namespace unio::inline v0_1 {
/// A task as a sender.
///
/// Effects        once connected and started, the task runs on `executor`
/// Completes      on the executor: set_value with the task's result; set_error(std::exception_ptr) with an
///                exception that leaves it; set_stopped() if that exception is condition::canceled after a
///                stop was requested through the receiver's token, if a stop was requested before the task
///                began, or if the executor ended first
/// Errors         none of its own
/// Cancellation   the receiver's stop token is the task's
/// Cost           no block but the task's own frame
template <is_executor Executor, class T>
[[nodiscard]] detail::task_sender<Executor, T> as_sender(Executor executor, task<T>&& t);

/// An executor as a scheduler: `schedule(as_scheduler(executor))` completes there, by post(); set_stopped()
/// if the executor ended first, or a stop was requested. Schedulers of equal executors are equal.
///
/// Errors  none of its own
/// Cost    of each schedule(): one post(); no allocation of unio's
/// Source  *Coroutine-first asynchronous I/O* §4
template <is_executor Executor>
[[nodiscard]] detail::executor_scheduler<Executor> as_scheduler(Executor executor);

/// A sender, awaited: `co_await as_awaitable(sender)`, or `co_await sender` where it is no awaitable itself.
///
/// Returns        the arguments of set_value: nothing, a value, or a std::tuple of several
/// Throws         the argument of set_error, a std::error_code as std::system_error; what a copy or a move of
///                an argument throws; for set_stopped, std::system_error with condition::canceled
/// Lifetime       the sender is moved or copied; what it refers to outlives the co_await
/// Resumes        on the executor of the coroutine's environment, whichever thread completes the sender
/// Cancellation   the environment's stop token is the receiver's
/// Destruction    of the suspended coroutine requests a stop of the sender, and waits until it has completed
/// Cost           no allocation of unio's
template <class Sender>
[[nodiscard]] detail::sender_awaitable<std::remove_cvref_t<Sender>> as_awaitable(Sender&& sender);

/// Starts a sender on the calling thread's own multiplexer, and runs that until the sender has completed.
///
/// Returns        as awaiting it
/// Throws         as awaiting it; and as run()
/// Preconditions  as run()
/// Cancellation   `options.stop` is the receiver's token
/// Cost           the frame of one task
template <class Sender>
  requires detail::only_a_sender<Sender>
auto sync_wait(Sender&& sender, run_options const& options = {});

} // namespace unio

/// Every operation that yields one result is a sender, and so is a task. What std::execution::connect makes
/// of an operation (of a task: as as_sender() says, on the executor that the head of this file names):
///
/// Completes     when the operation has finished, by set_value(result); an error is in the result. By
///               set_stopped() if the receiver's stop token ended it before it moved anything
/// Resumes on    the thread that runs its multiplexer; inside start() if it could be done at once and no turn
///               of a delegation scheduler is waited for
/// Runs on       its handle's multiplexer; otherwise see the head of this file. Another thread may run it
/// Cancellation  by the receiver's stop token, from any thread
/// Cost          no allocation; no lock but the stop token's
template <class Sender>
  requires unio::detail::yields_once<Sender>
inline constexpr bool unio::detail::ex::enable_sender<Sender> = true;
/// As the operation itself, which is always atomic where it has to be.
template <class Sender>
  requires unio::detail::yields_once<Sender>
inline constexpr bool unio::detail::ex::enable_sender<unio::detail::atomic_form<Sender>> = true;
template <class Sender>
inline constexpr bool unio::detail::ex::enable_sender<unio::io_awaitable<Sender>> = false;

#include <unio/detail/sender_awaitable.hpp>
#include <unio/detail/task_sender.hpp>
