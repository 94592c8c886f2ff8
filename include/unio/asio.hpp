// unio/asio.hpp: unio's operations in a program of Asio's, and the other way round.
//
//   async_start(sender, token)       any operation or task of unio's, with any completion token of Asio's
//   use_task                         a completion token: an operation of Asio's, awaited by a task of unio's
//   asio_context, asio_executor      an execution context whose loop is a multiplexer of unio's
//                                    (unio/asio_context.hpp)
//   asio_stream<S>                   a stream of unio's, as Asio, its ssl::stream and Beast want one
//                                    (unio/asio_stream.hpp)
//   asio_acceptor, asio_datagram_socket, asio_timer (unio/asio_objects.hpp)
//
//   unio::asio_context context;
//   asio::co_spawn(context, session(unio::asio_stream(context, std::move(socket))), asio::detached);
//   context.run();
//
// Standalone Asio from 1.22.1 on; with UNIO_ASIO_BOOST defined, Boost.Asio from 1.79 on. Of Asio only what
// its documentation describes is used. What names Asio's own sockets (beast::tcp_stream, say) does not become
// unio's by this. unio/unio.hpp includes none of these headers. They need exceptions.
//
// Handlers. As with Asio: a handler is called once, on its associated executor (without one, on that of the
// object or context), never inside of the function that starts its operation, unless its associated immediate
// executor says otherwise. Memory for the operation comes from its associated allocator and is freed before
// it is called; its cancellation slot is cleared before. It need not be copyable, and its move may throw.
// What it throws leaves run(). Handlers of an asio_context are called inside of its run() alone: a blocking
// call, or unio::run(), that runs its multiplexer calls none.
//
// Errors. Asio's codes: asio::error::eof where a stream has ended, operation_aborted where unio says
// condition::canceled, timed_out, the system's; what is unio's own keeps unio's category.
//
// Thread safety  as Asio's objects: distinct ones from any thread, shared ones one thread at a time. Those of
//                a context whose multiplexer is for one thread: on that thread; async_start() and executors
//                from any
// Lifetime       the context outlives its objects and executors; buffers are the caller's until the handler
//                is called. A context that ends waits for its operations, and destroys their handlers
//                uncalled

#pragma once

#include <unio/asio_context.hpp>
#include <unio/asio_objects.hpp>
#include <unio/asio_stream.hpp>
#include <unio/callback.hpp>
#include <unio/task.hpp>

#include <concepts>
#include <type_traits>

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

/// Starts an operation of unio's with a completion token of Asio's: use_awaitable, use_future, deferred,
/// detached, a handler with whatever is associated with it, …
///
/// Completes      with what the result says: (error_code) where it has no value, (error_code, std::size_t)
///                where it moves bytes, else (error_code, T), with a T() after an error. A stream that has
///                ended: eof
/// Effects        starts `sender` on its handle's multiplexer; where that has none, on that of the executor's
///                asio_context, or else the calling thread's own. `executor` is the I/O executor: of handlers
///                that have none, and told of outstanding work. Without one: the asio_context whose run() the
///                calling thread is in
/// Returns        what the token says
/// Errors         in the handler's error code
/// Throws         std::bad_alloc; what moving the handler throws
/// Preconditions  not an operation that yields many values. Without an executor: inside of run()
/// Buffers        the caller's, an array of buffers included, until the handler is called
/// Concurrency    any thread
/// Cancellation   by the associated slot, whatever the type: bytes that have moved are reported as success.
///                Emit where the handler's executor is, as with Asio
/// Cost           one block, from the associated allocator or the frame pool
template <class Executor, class Sender, class Token>
  requires std::derived_from<std::remove_cvref_t<Sender>, io_operation>
auto async_start(Executor const& executor, Sender&& sender, Token&& token);
template <class Sender, class Token>
  requires std::derived_from<std::remove_cvref_t<Sender>, io_operation>
auto async_start(Sender&& sender, Token&& token);
/// Starts a task of unio's, likewise. It runs on the multiplexer.
///
/// Completes      with (std::exception_ptr, T), as co_spawn(); T has a default
/// Effects        as the other, but that it always begins in a later turn
/// Errors         error::multiplexer_destroyed, in the T or as a std::system_error, if the thread whose own
///                multiplexer it was to run on ends before it begins
/// Cancellation   the associated slot requests a stop of the task
/// Cost           two blocks: one from the associated allocator or the frame pool, one from the pool
template <class Executor, class T, class Token>
auto async_start(Executor const& executor, task<T> t, Token&& token);
template <class T, class Token> auto async_start(task<T> t, Token&& token);

/// The type of use_task.
struct use_task_t {
  /// An executor whose operations have use_task as their default token.
  template <class Executor> struct executor_with_default : Executor {
    using default_completion_token_type = use_task_t;
    executor_with_default(Executor const& e) noexcept : Executor(e) {} // NOLINT: implicit
    template <class Other>
      requires(!std::same_as<Other, executor_with_default> && std::convertible_to<Other, Executor>)
    executor_with_default(Other const& e) noexcept : Executor(e) {} // NOLINT: implicit
  };
  /// An object of Asio's with such an executor.
  template <class T>
  using as_default_on_t =
      typename T::template rebind_executor<executor_with_default<typename T::executor_type>>::other;
};

/// A completion token: `co_await timer.async_wait(unio::use_task)` in a task of unio's.
///
/// Returns       an awaitable. Of (error_code, …): a result<…>, of several values with a std::tuple. Of
///               (exception_ptr, …): the values; the exception is thrown. Of others: the values
/// Resumes       on the task's executor, which is also the handler's associated executor
/// Lifetime      what the operation refers to, until it has resumed
/// Cancellation  the task's stop token emits cancellation_type::all on that executor
/// Destruction   of the suspended coroutine cancels the operation and waits until it has ended. If the
///               operation is destroyed uncalled, because its context ends, the result is operation_aborted
/// Cost          a block from the frame pool for each hop of Asio's; none of its own, unless a stop is
///               possible
inline constexpr use_task_t use_task{};

} // namespace unio

#include <unio/detail/asio_start.hpp>
#include <unio/detail/asio_use_task.hpp>
