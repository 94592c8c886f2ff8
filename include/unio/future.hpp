// unio/future.hpp: a task's result as a std::future, for code that knows nothing of coroutines.
//
//   future_of(executor, task)   starts the task there, and gives its result as a std::future
//
//   std::future<std::string> page = unio::future_of(pool.executor(), fetch(url));
//   … page.get();                                                     // a thread that runs nothing else
//
// The other way round does not exist, by design: a std::future says nothing when it becomes ready, so a task
// that awaited one would take a thread that blocks in its get(). Where code that makes a future can be
// changed, let it set a unio::event, or send into a channel (unio/sync.hpp, unio/channel.hpp): that costs
// no thread. Where it cannot, the thread is best seen: a task on a thread_pool whose threads are for such
// waits,
//
//   co_await unio::run_on(waiting.executor(), get(std::move(future)));
//
// unio/unio.hpp does not include this header.
//
// Thread safety  any thread that may post to the executor

#pragma once

#include <unio/run.hpp>

#include <future>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1 {

/// Starts a task on an executor, and gives its result as a std::future.
///
/// Effects        as async_run()
/// Returns        the future: it has the task's value (of a task<T&>: the reference) or the exception that
///                left it, once the task has ended and its frame is freed. A result that is an error is a
///                value: std::future<result<T>>
/// Errors         std::bad_alloc, before anything was started. In the future
///                std::future_errc::broken_promise: the executor ended before the task had begun
/// Preconditions  moving a T throws nothing
/// Waits          nothing here. get() and wait() block their thread and run no multiplexer: on the thread
///                that is to run the task they never return. There, await the task, or run() it
/// Cancellation   by `options.stop`, whose source must outlive the task. Destroying the future stops nothing
///                and waits for nothing
/// Lifetime       as async_run(). The future may outlive the executor
/// Cost           as async_run(), and an allocation for what promise and future share
template <is_executor Executor, detail::startable_alone A>
[[nodiscard]] std::future<detail::task_value_t<A>> future_of(Executor executor, A&& a,
                                                             run_options const& options = {}) {
  using value = detail::task_value_t<A>;
  std::promise<value> promise;
  std::future<value> future = promise.get_future();
  async_run(
      std::move(executor), static_cast<A&&>(a),
      [to = std::move(promise)](task_outcome<value> ended) mutable {
        if (!ended.has_value()) return to.set_exception(std::move(ended.error()));
        if constexpr (std::is_void_v<value>) {
          to.set_value();
        } else if constexpr (std::is_reference_v<value>) {
          to.set_value(**ended);
        } else {
          to.set_value(*std::move(ended));
        }
      },
      options);
  return future;
}

/// The same on a multiplexer, which must outlive the task.
template <detail::startable_alone A>
[[nodiscard]] std::future<detail::task_value_t<A>> future_of(io_multiplexer& m, A&& a,
                                                             run_options const& options = {}) {
  return future_of(m.executor(), static_cast<A&&>(a), options);
}

} // namespace unio
