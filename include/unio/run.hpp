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

/// What a task has come to: its value (of a task<T&>: a pointer to it), or the exception that left it.
template <class T>
using task_outcome =
    std::expected<std::conditional_t<std::is_reference_v<T>, std::add_pointer_t<T>, T>, std::exception_ptr>;

/// What a chain of coroutines is given beside its executor.
struct run_options {
  stop_token stop;                   ///< asks it to end
  frame_allocator* frames = nullptr; ///< see environment
};

namespace detail {

template <class T> struct is_task : std::false_type {};
template <class T> struct is_task<task<T>> : std::true_type {};

template <class T> task_outcome<T> outcome_of(task_state<T>& r) noexcept {
  if (std::exception_ptr e = r.exception(); e != nullptr) return task_outcome<T>(std::unexpect, std::move(e));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else if constexpr (std::is_reference_v<T>) {
    std::remove_reference_t<T>& referred = r.take();
    return std::addressof(referred);
  } else {
    return task_outcome<T>(std::in_place, r.take());
  }
}

/// An exception that nobody can be told of: ends the program, saying which.
[[noreturn]] UNIO_API void unhandled(std::exception_ptr e) noexcept;
[[noreturn]] UNIO_API void throw_error(std::error_code why);

struct let_it_end {
  template <class Outcome> void operator()(Outcome const& outcome) const noexcept {
    if (!outcome.has_value()) unhandled(outcome.error());
  }
};

/// The root of a chain: owns the executor, the task and what is told of its end. Lives in the frame pool.
template <class Executor, class T, class Handler> class root final : end_listener, work {
 public:
  static void start(Executor executor, task<T> t, Handler handler, run_options const& options) {
    static_assert(alignof(root) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                  "blocks of the pool are not aligned so far");
    UNIO_EXPECTS(static_cast<bool>(t), "an empty task was run");
    root* const r = new root(std::move(executor), std::move(t), std::move(handler), options);
    Executor const here = r->executor_; // the task may end before post() returns, and the root with it
    here.post(static_cast<work&>(*r));
  }

 private:
  static void* operator new(std::size_t size) { return frame_pool::allocate(size); }
  static void operator delete(void* p, std::size_t size) noexcept { frame_pool::deallocate(p, size); }
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
    stands_for("async_run");
  }
  static void begin(work& w, bool run) noexcept {
    auto& self = static_cast<root&>(w);
    if (!run) return delete &self;
    auto const child = self.task_.child();
    child.promise().set_environment(self.environment_);
    child.promise().set_continuation(static_cast<end_listener&>(self));
    resume(child);
  }
  static std::coroutine_handle<> ended(end_listener& l) noexcept {
    auto& self = static_cast<root&>(l);
    task_outcome<T> outcome = outcome_of<T>(self.task_.child().promise());
    [[maybe_unused]] Executor const executor =
        std::move(self.executor_); // the handler may let go of whatever it belongs to
    Handler handler = std::move(self.handler_);
    delete &self;
    handler(std::move(outcome));
    return std::noop_coroutine();
  }
  static void abandon(environment const& e) noexcept { delete static_cast<root*>(e.root); }

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
///                given back. Neither the handler nor moving a T may throw
/// Errors         std::bad_alloc, before anything was started
/// Cancellation   by `options.stop`, whose source must outlive the task
/// Lifetime       what the task refers to must outlive it. If the executor's multiplexer ends first, so does the task: its
///                operations end with condition::canceled, and a task that waits for its turn is destroyed. One that
///                waits for something else, which its multiplexer does not know of, must have ended before
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

/// Several at once, each on its own, as by one call after the other.
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

/// One thread waits until it is woken, by whatever thread.
class blocker {
 public:
  /// Blocks; or, if `m` is not null, runs that meanwhile. Errors: as m->run(); then it was not woken.
  UNIO_API result<void> wait(io_multiplexer* m = nullptr) noexcept;
  /// Once. It may be gone when this returns.
  UNIO_API void wake() noexcept;
  [[nodiscard]] bool is_awake() const noexcept {
    return (state_.load(std::memory_order_acquire) & bit_woken) != 0; // pairs with the release in wake()
  }

 private:
  static constexpr std::uint32_t bit_woken = 1, bit_running = 2, bit_left = 4;
  std::atomic<std::uint32_t> state_{0};
  io_operation* sleep_ = nullptr; // while a multiplexer is run: an operation without end, to be cancelled;
  void const* thread_ = nullptr;  // and who runs it
};

/// `m`, if it is for this thread to run it while it waits, and can be run; null if not.
UNIO_API result<io_multiplexer*> run_while_waiting(io_multiplexer* m) noexcept;

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
    stands_for("run");
  }
  static void begin(work& w, bool run) noexcept {
    auto& self = static_cast<waited_root&>(w);
    if (!run) return self.woken.wake(); // and this is gone
    self.child.child().promise().set_environment(self.with);
    self.child.child().promise().set_continuation(static_cast<end_listener&>(self));
    resume(self.child.child());
  }
  static std::coroutine_handle<> ended(end_listener& l) noexcept {
    auto& self = static_cast<waited_root&>(l);
    self.ran = true;
    self.woken.wake(); // and this is gone
    return std::noop_coroutine();
  }
  static void abandon(environment const& e) noexcept { static_cast<waited_root*>(e.root)->woken.wake(); }
  T take() {
    if (!ran) throw_error(make_error_code(error::multiplexer_destroyed));
    return child.child().promise().take();
  }

  Executor executor;
  environment with;
  task<T> child;
  blocker woken;
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
  UNIO_EXPECTS(m.run_by() != io_multiplexer::runner::another_thread, "another thread runs this multiplexer");
  detail::waited_root<multiplexer_executor, T> root(m.executor(), std::move(t), options);
  root.begin(root, true);
  if (result<void> const r = root.woken.wait(&m); !r.has_value()) detail::throw_error(r.error());
  return root.take();
}

/// On the calling thread's own multiplexer: what the main() of a program calls.
///
/// Source  liburing4cpp, demo programs
template <class T> T run(task<T> t, run_options const& options = {}) {
  return run(this_thread::multiplexer(), std::move(t), options);
}

/// Runs a task on an executor and blocks the calling thread until it has ended. Where the executor is a multiplexer that
/// this thread runs, runs that meanwhile; also where it is for one thread, and none has run it yet.
///
/// Returns        what the task returns
/// Throws         what leaves the task; std::system_error if the multiplexer cannot be run, and with
///                error::multiplexer_destroyed if that ended while the task had to wait for its turn
/// Preconditions  another thread makes the executor go on
template <is_executor Executor, class T>
T sync_wait(Executor executor, task<T> t, run_options const& options = {}) {
  detail::waited_root<Executor, T> root(std::move(executor), std::move(t), options);
  result<io_multiplexer*> const here = detail::run_while_waiting(root.with.multiplexer);
  if (!here.has_value()) detail::throw_error(here.error());
  root.executor.post(static_cast<work&>(root));
  if (result<void> const r = root.woken.wait(*here); !r.has_value()) detail::throw_error(r.error());
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
  void returned() {
    place_.store(place::here, std::memory_order_relaxed);
    if (is_lost_) throw_error(make_error_code(error::multiplexer_destroyed));
  }
  bool is_away() const noexcept { return place_.load(std::memory_order_relaxed) != place::here; }
  /// Destroyed while the task is away: asks it to stop, and waits until it has ended.
  UNIO_API void call_back() noexcept;

 private:
  enum class place : unsigned char { here, there, returning, called_back };
  UNIO_API static std::coroutine_handle<> ended(end_listener& l) noexcept;
  static void lost(environment const& e) noexcept;
  struct pass_on {
    stop_source& to;
    void operator()() const noexcept { to.request_stop(); }
  };

  environment environment_;
  environment const* callers_ = nullptr;
  std::coroutine_handle<> caller_;
  resumption hop_;
  stop_source stop_;
  std::optional<stop_callback<pass_on>> stop_from_caller_;
  blocker ended_;
  bool is_lost_ = false; // the task never ended: its multiplexer did
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
/// Throws       what leaves the task; std::system_error with error::multiplexer_destroyed if the multiplexer there ended
///              while the task had to wait for its turn
/// Destruction  of the caller while the task is away asks the task to stop, and waits until it has ended, running the
///              caller's multiplexer meanwhile
/// Cost         no block; two posts where the executors differ, none where they are equal
/// Source       *Coroutine-first asynchronous I/O* §7
template <is_executor Executor, class T>
[[nodiscard]] detail::run_on_awaitable<Executor, T> run_on(Executor executor, task<T> t) {
  return {std::move(executor), std::move(t)};
}

} // namespace unio
