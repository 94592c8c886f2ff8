// unio/run.hpp: where a chain of coroutines begins.
//
//   run(task)                    on this thread's multiplexer, until it has ended: the main() of a program
//   async_run(executor, task…)   starts them and goes on; what it starts owns the executor
//   sync_wait(executor, task)    starts it there and blocks this thread until it has ended
//   run_on(executor, task)       within a coroutine: the task runs there, and its caller goes on where it was
//
//   unio::run([]() -> unio::task<> { (co_await unio::co_no_op()).value(); }());

#pragma once

#include <unio/multiplexer.hpp>
#include <unio/task.hpp>

#include <atomic>
#include <expected>
#include <optional>

namespace unio {

/// What a task has come to: its value, or the exception that left it.
template <class T> using task_outcome = std::expected<T, std::exception_ptr>;

/// What a chain of coroutines is given beside its executor.
struct run_options {
  stop_token stop;                   ///< asks it to end
  frame_allocator* frames = nullptr; ///< see environment
};

namespace detail {

template <class T> struct is_task : std::false_type {};
template <class T> struct is_task<task<T>> : std::true_type {};

template <class T> task_outcome<T> outcome_of(task_state<T>& r) noexcept {
  if (std::exception_ptr e = r.exception(); e != nullptr) return std::unexpected(std::move(e));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return task_outcome<T>(r.take());
  }
}

/// An exception that nobody can be told of: ends the program, saying which.
[[noreturn]] UNIO_API void unhandled(std::exception_ptr e) noexcept;
[[noreturn]] UNIO_API void throw_error(std::error_code why);

struct let_it_end {
  template <class T> void operator()(task_outcome<T> outcome) const noexcept {
    if (!outcome.has_value()) unhandled(outcome.error());
  }
};

/// The root of a chain: owns the executor, the task and what is told of its end. Lives in the frame pool.
template <class Executor, class T, class Handler> class root final : end_listener, work {
 public:
  static void start(Executor executor, task<T> t, Handler handler, run_options const& options) {
    void* const memory = frame_pool::allocate(sizeof(root));
    root* const r = ::new (memory) root(std::move(executor), std::move(t), std::move(handler), options);
    r->executor_.post(static_cast<work&>(*r));
  }

 private:
  root(Executor executor, task<T> t, Handler handler, run_options const& options)
      : end_listener(&ended),
        work(&begin),
        executor_(std::move(executor)),
        environment_{.executor = executor_,
                     .stop = options.stop,
                     .frames = options.frames,
                     .abandon = &abandon,
                     .root = this},
        task_(std::move(t)),
        handler_(std::move(handler)) {
    environment_.multiplexer = environment_.executor.multiplexer();
  }
  void destroy() noexcept {
    this->~root();
    frame_pool::deallocate(this, sizeof(root));
  }
  static void begin(work& w, bool run) noexcept {
    auto& self = static_cast<root&>(w);
    if (!run) return self.destroy();
    auto const child = self.task_.child();
    child.promise().set_environment(self.environment_);
    child.promise().set_continuation(static_cast<end_listener&>(self));
    child.resume();
  }
  static std::coroutine_handle<> ended(end_listener& l) noexcept {
    auto& self = static_cast<root&>(l);
    task_outcome<T> outcome = outcome_of<T>(self.task_.child().promise());
    Executor const executor = std::move(self.executor_); // the handler may let go of whatever it belongs to
    Handler handler = std::move(self.handler_);
    self.destroy();
    handler(std::move(outcome));
    return std::noop_coroutine();
  }
  static void abandon(environment const& e) noexcept { static_cast<root*>(e.root)->destroy(); }

  Executor executor_;
  environment environment_;
  task<T> task_;
  Handler handler_;
};

} // namespace detail

/// Starts a task on an executor, and goes on. Its end is told to `handler`.
///
/// Effects        posts the task to `executor`, which the chain owns from now on
/// Calls          `handler(task_outcome<T>)` on the executor, once it has ended, when its frame and the task's have been
///                given back. The handler must not throw
/// Errors         std::bad_alloc, before anything was started
/// Cancellation   by `options.stop`, whose source must outlive the task
/// Lifetime       what the task refers to must outlive it. If the executor's multiplexer ends first, so does the task: its
///                operations end with condition::canceled, and a task that waits for its turn is destroyed
/// Cost           one block from the frame pool
/// Source         *Coroutine-first asynchronous I/O* §8
template <is_executor Executor, class T, class Handler>
  requires std::invocable<Handler&, task_outcome<T>>
void async_run(Executor executor, task<T> t, Handler handler, run_options const& options = {}) {
  detail::root<Executor, T, Handler>::start(std::move(executor), std::move(t), std::move(handler), options);
}

/// The same without a handler: an exception that leaves the task ends the program, saying what it was.
template <is_executor Executor, class T>
void async_run(Executor executor, task<T> t, run_options const& options = {}) {
  detail::root<Executor, T, detail::let_it_end>::start(std::move(executor), std::move(t), {}, options);
}

/// Several at once, each on its own.
template <is_executor Executor, class... T>
  requires(sizeof...(T) >= 2)
void async_run(Executor executor, task<T>... tasks) {
  (async_run(executor, std::move(tasks)), ...);
}

/// On a multiplexer, which must outlive the task.
template <class T, class Handler>
  requires std::invocable<Handler&, task_outcome<T>>
void async_run(io_multiplexer& m, task<T> t, Handler handler, run_options const& options = {}) {
  async_run(m.executor(), std::move(t), std::move(handler), options);
}
template <class T> void async_run(io_multiplexer& m, task<T> t, run_options const& options = {}) {
  async_run(m.executor(), std::move(t), options);
}
template <class... T>
  requires(sizeof...(T) >= 2)
void async_run(io_multiplexer& m, task<T>... tasks) {
  async_run(m.executor(), std::move(tasks)...);
}

namespace detail {

/// Keeps a multiplexer running while somebody waits for what it does not know of; and tells that somebody.
class UNIO_API run_loop {
 public:
  explicit run_loop(io_multiplexer& m) noexcept : multiplexer_(m) {}
  /// Runs it until `done`. Errors: as io_multiplexer::run().
  result<void> run_until(bool const& done) noexcept;

 private:
  io_multiplexer& multiplexer_;
};

/// Blocks a thread until another one says so.
class blocker {
 public:
  void wait() noexcept { done_.wait(false, std::memory_order_acquire); } // pairs with the release in wake()
  void wake() noexcept {
    done_.store(true, std::memory_order_release);
    done_.notify_one();
  }

 private:
  std::atomic<bool> done_{false};
};

/// A root on the stack of who waits for it.
template <class Executor, class T> struct waited_root : end_listener, work {
  waited_root(Executor e, task<T> t, run_options const& options)
      : end_listener(&ended),
        work(&begin),
        executor(std::move(e)),
        with{.executor = executor,
             .stop = options.stop,
             .frames = options.frames,
             .abandon = &abandon,
             .root = this},
        child(std::move(t)) {
    with.multiplexer = with.executor.multiplexer();
  }
  static void begin(work& w, bool run) noexcept {
    auto& self = static_cast<waited_root&>(w);
    if (!run) return self.finish();
    self.child.child().promise().set_environment(self.with);
    self.child.child().promise().set_continuation(static_cast<end_listener&>(self));
    self.child.child().resume();
  }
  static std::coroutine_handle<> ended(end_listener& l) noexcept {
    auto& self = static_cast<waited_root&>(l);
    self.ran = true;
    self.finish();
    return std::noop_coroutine();
  }
  void finish() noexcept {
    if (blocked != nullptr) return blocked->wake(); // and this is gone
    done = true;
  }
  static void abandon(environment const& e) noexcept { static_cast<waited_root*>(e.root)->finish(); }
  T take() {
    if (!ran) throw_error(make_error_code(error::multiplexer_destroyed));
    return child.child().promise().take();
  }

  Executor executor;
  environment with;
  task<T> child;
  blocker* blocked = nullptr;
  bool done = false;
  bool ran = false;
};

} // namespace detail

/// Runs a task on `m`, on this thread, until it has ended; other tasks and operations on `m` move meanwhile.
///
/// Returns        what the task returns
/// Throws         what leaves the task; std::system_error if `m` cannot be run
/// Preconditions  this thread runs `m`, or nobody has yet
/// Cost           none of its own: no block, no lock
template <class T> T run(io_multiplexer& m, task<T> t, run_options const& options = {}) {
  detail::waited_root<multiplexer_executor, T> root(m.executor(), std::move(t), options);
  root.begin(root, true);
  if (!root.done)
    if (result<void> const r = detail::run_loop(m).run_until(root.done); !r.has_value())
      detail::throw_error(r.error());
  return root.take();
}

/// On the calling thread's own multiplexer: what the main() of a program calls.
///
/// Source  liburing4cpp, demo programs
template <class T> T run(task<T> t, run_options const& options = {}) {
  return run(this_thread::multiplexer(), std::move(t), options);
}

/// Runs a task on an executor and blocks the calling thread until it has ended. Where the executor is a multiplexer that
/// this thread runs, runs that meanwhile.
///
/// Returns        what the task returns
/// Throws         what leaves the task; std::system_error with error::multiplexer_destroyed if the executor ended before it
///                could begin
/// Preconditions  another thread makes the executor go on
template <is_executor Executor, class T>
T sync_wait(Executor executor, task<T> t, run_options const& options = {}) {
  detail::waited_root<Executor, T> root(std::move(executor), std::move(t), options);
  if (io_multiplexer* const m = root.with.multiplexer;
      m != nullptr && m->run_by() != io_multiplexer::runner::another_thread) {
    root.executor.post(static_cast<work&>(root));
    if (result<void> const r = detail::run_loop(*m).run_until(root.done); !r.has_value())
      detail::throw_error(r.error());
  } else {
    detail::blocker blocked;
    root.blocked = &blocked;
    root.executor.post(static_cast<work&>(root));
    blocked.wait();
  }
  return root.take();
}

/// As run().
template <class T> T sync_wait(task<T> t, run_options const& options = {}) {
  return run(std::move(t), options);
}

namespace detail {

/// Awaits a task elsewhere. In no template: what does not depend on the executor and the value.
class run_on_base : protected end_listener {
 protected:
  run_on_base() noexcept : end_listener(&ended) {}
  run_on_base(run_on_base const&) = delete;
  run_on_base& operator=(run_on_base const&) = delete;
  ~run_on_base() = default;

  UNIO_API std::coroutine_handle<> go(std::coroutine_handle<> child, promise_base& promise,
                                      std::coroutine_handle<> h, environment const& e,
                                      executor_ref there) noexcept;
  void returned() noexcept { place_.store(place::here, std::memory_order_relaxed); }
  bool is_away() const noexcept { return place_.load(std::memory_order_relaxed) != place::here; }
  /// Destroyed while the task is away: asks it to stop, and waits until it has ended.
  UNIO_API void call_back() noexcept;

 private:
  enum class place : unsigned char { here, there, returning, called_back };
  UNIO_API static std::coroutine_handle<> ended(end_listener& l) noexcept;
  struct pass_on {
    stop_source& to;
    void operator()() const noexcept { to.request_stop(); }
  };

  environment environment_;
  executor_ref back_;
  std::coroutine_handle<> caller_;
  resumption hop_;
  stop_source stop_;
  std::optional<stop_callback<pass_on>> stop_from_caller_;
  blocker ended_;
  bool has_ended_ = false;
  std::atomic<place> place_{place::here};
};

template <class Executor, class T> class [[nodiscard]] run_on_awaitable : run_on_base {
 public:
  run_on_awaitable(Executor executor, task<T> t) : executor_(std::move(executor)), task_(std::move(t)) {}
  run_on_awaitable(run_on_awaitable&& other)
      : run_on_awaitable(std::move(other.executor_), std::move(other.task_)) {}
  run_on_awaitable& operator=(run_on_awaitable&&) = delete;
  ~run_on_awaitable() {
    if (is_away()) call_back();
  }

  static constexpr bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    auto const child = task_.child();
    return go(child, child.promise(), h, e, executor_);
  }
  T await_resume() {
    returned();
    return task_.child().promise().take();
  }

 private:
  Executor executor_;
  task<T> task_;
};

} // namespace detail

/// Within a coroutine: `co_await run_on(executor, task)` runs the task there. The caller goes on where it was, also when an
/// exception leaves the task.
///
/// Destruction  of the caller while the task is away asks the task to stop, and waits until it has ended
/// Cost         no block; two posts where the executors differ, none where they are equal
/// Source       *Coroutine-first asynchronous I/O* §7
template <is_executor Executor, class T>
[[nodiscard]] detail::run_on_awaitable<Executor, T> run_on(Executor executor, task<T> t) {
  return {std::move(executor), std::move(t)};
}

} // namespace unio
