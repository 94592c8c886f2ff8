// unio/task_group.hpp: any number of tasks, started as they come, none of which outlives the group; and the
// loop that accepts a server's connections.
//
//   task_group               start · request_stop · co_join
//   joined                   what co_join() yields
//   co_for_each_connection   accepts until stopped or the socket fails; survives shortages of descriptors and
//                            memory
//
//   task_group group(co_await this_coro::environment);
//   auto const start = [&](socket_handle s) { group.start(serve(std::move(s))); };
//   result<void> const ended = co_await co_for_each_connection(listener, start);
//   co_await group.co_join();
//   if (ended.error() != condition::canceled) co_return ended; // why it accepts no more
//
// Thread safety  co_for_each_connection() runs where its coroutine does: one loop for a socket at a time,
//                which no other thread uses but to end the loop by its stop token

#pragma once

#include <unio/detail/children.hpp>
#include <unio/result.hpp>
#include <unio/run.hpp>
#include <unio/socket_handle.hpp>
#include <unio/when.hpp>

namespace unio::inline v0_1 {

class task_group;

/// A result<void> that may be ignored: condition::canceled if the awaiting coroutine was asked to stop.
class joined : public result<void> {
 public:
  using result<void>::result;
};

namespace detail {
class group_member;
template <class T, class Handler> class member_of_group;
struct tell_the_group {}; // for tasks started without a handler
} // namespace detail

/// Tasks that run side by side in the scope of the coroutine that declares it.
///
/// Runs on        the executor of the environment it was made with; start() and co_join() belong there, too
/// Errors         an exception that leaves a task started without a handler asks all others to stop, and is
///                thrown by co_join(); later ones are dropped
/// Cancellation   request_stop(), a stop of the environment, and one of the coroutine that awaits co_join()
///                ask all tasks to stop, also those started later
/// Destruction    with tasks still there asks them to stop and destroys them where they are suspended,
///                without calling handlers. On the thread of the executor; if it has several threads,
///                co_join() first. Also by a handler, or with the last task that owns it; but not inside
///                request_stop(). `co_await co_join()` is the right way to leave
/// Thread safety  while the group is known to exist: start() from any thread of its executor, request_stop()
///                and running() from any thread
/// Lifetime       pinned. What its tasks refer to outlives it
/// Cost           per task a block from the frame pool, and its frame, no allocation. No blocking lock
/// Source         N. J. Smith, *Notes on structured concurrency*; P2300, async scopes (P3149)
class UNIO_API task_group : private detail::children {
 public:
  class join_awaitable;

  explicit task_group(environment const& e) noexcept { listen(e, 1); }
  task_group(task_group const&) = delete;
  task_group& operator=(task_group const&) = delete;
  ~task_group();

  /// Starts a task, or whatever can be awaited: it runs until it first suspends, then start() returns.
  /// Inside of 16 others, as in handlers that start tasks which end at once, it is queued, in one more frame.
  ///
  /// Returns  nothing; the task's value is dropped
  /// Throws   std::bad_alloc, before anything was started
  /// Lifetime an lvalue is referred to until it has ended; a task is moved
  template <detail::startable_alone A> void start(A&& a) {
    start(static_cast<A&&>(a), detail::tell_the_group());
  }
  /// The same, and calls the handler with the outcome, exceptions included, which then stop no other task.
  ///
  /// Calls  `handler(task_outcome<T>)`, on the executor, after the task's frame and block were freed. It must
  ///        not throw, and may start others
  template <detail::startable_alone A, class Handler> void start(A&& a, Handler handler);
  /// The same of what cannot be awaited: an error that says what to write.
  template <class... Handler> void start(detail::no_awaitable, Handler&&...) {}

  /// Asks all of them to stop. Returns true for the first request. If all have ended and the coroutine that
  /// awaits co_join() is about to resume, the request takes effect before co_join() yields.
  bool request_stop() noexcept;
  [[nodiscard]] stop_token get_stop_token() const noexcept { return environment_.stop; }
  /// How many have not ended. Valid while no coroutine awaits co_join().
  [[nodiscard]] std::size_t running() const noexcept { return left_.load(std::memory_order_acquire) - 1; }

  /// Waits until all have ended, including those started while it waits. Afterwards the group can be used
  /// again; one that was asked to stop stays so.
  ///
  /// Returns        nothing; condition::canceled if it waited, and the waiting coroutine was asked to stop
  /// Throws         the first exception that left a task without a handler, once
  /// Cancellation   a stop of the waiting coroutine, which need not be the group's, asks the tasks to stop;
  ///                co_join() waits for their end. So `timeout(1s, group.co_join())` stops them after a
  ///                second
  /// Destruction    of the waiting coroutine leaves the group as it was; on the thread of the executor
  /// Concurrency    one at a time
  [[nodiscard]] join_awaitable co_join() noexcept;
  /// As co_join(), of which it is the old name.
  [[deprecated("use co_join"), nodiscard]] join_awaitable join() noexcept;

 private:
  template <class T, class Handler> friend class detail::member_of_group;
  void run(detail::group_member& m, std::coroutine_handle<> child) noexcept;
  static bool is_deep() noexcept;
  void replace(detail::group_member& m, detail::group_member& by) noexcept;
  void leave(detail::group_member& m) noexcept;
  void fail(std::exception_ptr e) noexcept;
  std::coroutine_handle<> begin_to_wait(join_awaitable& joiner, std::coroutine_handle<> h,
                                        environment const& e) noexcept;
  void forget_to_wait() noexcept;
  std::uint32_t count_again() noexcept;
  joined end_to_wait(bool stopped);
  void lock() noexcept;
  void unlock() noexcept;

  /// The value of left_ where none is counted and a stop was requested since.
  static constexpr std::uint32_t stop_is_left = std::uint32_t(1) << 31;

  detail::group_member* first_ = nullptr;
  join_awaitable* joiner_ = nullptr; // of the coroutine that awaits co_join()
  std::exception_ptr first_failure_;
  std::atomic<bool> locked_{false}; // guards the list: tasks may end on several threads
  bool tells_ = true;               // false once it is being destroyed with tasks
};

namespace detail {
struct tell_nobody;
}

/// Within a coroutine: accepts connections and calls `f` with each.
///
/// Calls         `f(socket_handle)`. If it returns an awaitable (a task, say), awaits that before accepting
///               the next connection, which bounds their number. `on_shortage(std::error_code)` per shortage
/// Returns       why it ended: condition::canceled after a stop; the socket's error; why there is no driver
/// Errors        EMFILE, ENFILE, ENOBUFS, ENOMEM and EPERM do not end it: it retries after 5 ms, then longer,
///               up to 100 ms. Connections wait in the backlog; one that dies there is skipped
/// Throws        what `f` and `on_shortage` throw
/// Resumes       on the executor of the coroutine's environment, and calls `f` there
/// Cancellation  by the environment's stop token. A connection accepted nevertheless is passed to `f`
/// Destruction   of the awaiting coroutine closes a connection that was accepted and not yet passed to `f`
/// Lifetime      the listening socket outlives it. `f` and `on_shortage` are kept in its frame
/// Cost          a frame from the pool; for each connection that of co_accept()
/// Source        accept(2). async_accept_many is the same for receivers
template <class F, class OnShortage = detail::tell_nobody>
  requires(std::invocable<F&, socket_handle> && std::invocable<OnShortage&, std::error_code>)
[[nodiscard]] task<result<void>> co_for_each_connection(listening_socket_handle& listener, F f,
                                                        OnShortage on_shortage = {});

} // namespace unio

#include <unio/detail/accept_loop.hpp>
#include <unio/detail/task_group.hpp>
