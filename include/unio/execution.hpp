// unio/execution.hpp: senders, receivers and schedulers of the standard library (P2300, C++26).
//
//   async_X, of every handle    is a sender
//   as_sender(executor, task)   a task as a sender
//   as_scheduler(executor)      an executor as a scheduler
//   as_awaitable(sender)        a sender, awaited by a coroutine
//   UNIO_HAS_EXECUTION          1 if an implementation was found (unio/detail/execution.hpp)
//
//   auto copied = unio::async_read(pipe, room) | then([](unio::io_result<unio::mutable_buffers> r) { … });
//
// unio/unio.hpp does not include this header.

#pragma once

#include <unio/detail/execution.hpp>
#include <unio/detail/standard_sender.hpp>
#include <unio/executor.hpp>
#include <unio/task.hpp>

namespace unio::inline v0_1 {
namespace detail {
template <class Executor, class T> class task_sender;
template <class Executor> class executor_scheduler;
template <class Sender> class sender_awaitable;
} // namespace detail

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
[[nodiscard]] detail::task_sender<Executor, T> as_sender(Executor executor, task<T> t);

/// An executor as a scheduler: `schedule(as_scheduler(executor))` completes there, by post(); set_stopped()
/// if the executor ended first, or a stop was requested. Schedulers of equal executors are equal.
///
/// Errors  none of its own
/// Cost    of each schedule(): one post(); no allocation of unio's
/// Source  *Coroutine-first asynchronous I/O* §4
template <is_executor Executor>
[[nodiscard]] detail::executor_scheduler<Executor> as_scheduler(Executor executor);

/// A sender, awaited: `co_await as_awaitable(sender)`.
///
/// Returns        the arguments of set_value: nothing, a value, or a std::tuple of several
/// Throws         the argument of set_error, a std::error_code as std::system_error; for set_stopped,
///                std::system_error with condition::canceled
/// Lifetime       the sender is moved or copied; what it refers to outlives the co_await
/// Resumes        on the executor of the coroutine's environment, whichever thread completes the sender
/// Cancellation   the environment's stop token is the receiver's
/// Destruction    of the suspended coroutine requests a stop of the sender, and waits until it has completed
/// Cost           no allocation of unio's
template <class Sender>
[[nodiscard]] detail::sender_awaitable<std::remove_cvref_t<Sender>> as_awaitable(Sender&& sender);

} // namespace unio

/// Every operation that yields one result is a sender. What std::execution::connect makes of it:
///
/// Completes     when the operation has finished, by set_value(result); an error is in the result. By
///               set_stopped() if the receiver's stop token ended it before it moved anything
/// Resumes on    the thread that runs its multiplexer; inside start() if it could be done at once
/// Runs on       its handle's multiplexer, or else the starting thread's own; another thread may run it
/// Cancellation  by the receiver's stop token, from any thread
/// Cost          no allocation; no lock but the stop token's
template <class Sender>
  requires std::derived_from<Sender, unio::detail::standard_sender<Sender>>
inline constexpr bool unio::detail::ex::enable_sender<Sender> = true;

#include <unio/detail/senders.hpp>
