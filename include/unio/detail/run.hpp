// unio/detail/run.hpp: implements unio/run.hpp.
//
//   async_root         the root of a chain that owns itself: async_run
//   waited_root        the root of a chain on the stack of the waiting thread: run, sync_wait
//   run_on_awaitable   a task on another executor, and its return

#pragma once

#include <unio/detail/away.hpp>
#include <unio/detail/child.hpp>
#include <unio/run.hpp>

#include <atomic>

namespace unio::inline v0_1 {
namespace detail {

template <class T> task_outcome<T> outcome_of(task_state<T>& r) noexcept {
  if (std::exception_ptr e = r.exception(); e != nullptr) return task_outcome<T>(std::unexpect, std::move(e));
  if constexpr (std::is_void_v<T>) {
    return {};
  } else if constexpr (std::is_reference_v<T>) {
    std::remove_reference_t<T>& referred = r.take();
    return std::addressof(referred);
  } else {
#if UNIO_HAS_EXCEPTIONS
    try {
      return task_outcome<T>(std::in_place, r.take());
    } catch (...) { // of a move
      return task_outcome<T>(std::unexpect, std::current_exception());
    }
#else
    return task_outcome<T>(std::in_place, r.take());
#endif
  }
}

/// An exception that nothing else reports: ends the program with a message.
[[noreturn]] UNIO_API void unhandled(std::exception_ptr e) noexcept;
[[noreturn]] UNIO_API void throw_error(failure const& why);

struct let_it_end {
  template <class Outcome> void operator()(Outcome const& outcome) const noexcept {
    if (!outcome.has_value()) unhandled(outcome.error());
  }
};

/// Lives in the frame pool, until the task has ended.
template <class Executor, class T, class Handler>
class async_root final : public root<async_root<Executor, T, Handler>, Executor, T>, public pooled_frames {
  using base = root<async_root, Executor, T>;

 public:
  static constexpr char const* what = "async_run";
  async_root(Executor executor, task<T> t, Handler handler, run_options const& options)
      : base(std::move(executor), std::move(t), options.stop, options.frames), handler_(std::move(handler)) {
    static_assert(alignof(async_root) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__,
                  "blocks of the pool are not aligned so far");
  }

  std::coroutine_handle<> child_ended() noexcept {
    task_outcome<T> outcome = outcome_of<T>(this->state());
    [[maybe_unused]] Executor const executor = std::move(this->executor_); // until the handler has returned
    Handler handler = std::move(handler_);
    delete this;
    handler(std::move(outcome));
    return std::noop_coroutine();
  }
  void dropped() noexcept { delete this; }

 private:
  [[no_unique_address]] Handler handler_;
};

/// Makes this thread one of those that run `m`, if there may be several: one that cannot would leave to the
/// others what it has begun.
UNIO_API result<void> join(io_multiplexer& m) noexcept;
/// `m`, if this thread should run it while it waits, and can; null if not.
UNIO_API result<io_multiplexer*> run_while_waiting(io_multiplexer* m) noexcept;

template <class Executor, class T>
class waited_root final : public root<waited_root<Executor, T>, Executor, T> {
  using base = root<waited_root, Executor, T>;

 public:
  static constexpr char const* what = "run";
  waited_root(Executor e, task<T> t, run_options const& options)
      : base(std::move(e), std::move(t), options.stop, options.frames) {}

  void begin() noexcept {
    begun_.store(true, std::memory_order_relaxed);
    base::begin();
  }
  std::coroutine_handle<> child_ended() noexcept {
    ran_ = true;
    woken_.wake(); // this object may be destroyed by now
    return std::noop_coroutine();
  }
  void dropped() noexcept {
    this->drop(); // here, where what else of it is queued can be taken back
    woken_.wake();
  }
  /// Blocks until the task has ended; until then it runs `m`, if that is not null. Returns its value.
  T wait(io_multiplexer* m) {
    if (result<void> const r = woken_.wait(m); !r.has_value()) {
      if (!begun_.load(std::memory_order_relaxed)) // it is queued yet
        (void)this->environment_.executor.withdraw(*this);
      throw_error(r.error());
    }
    if (!ran_) throw_error(make_error_code(error::multiplexer_destroyed));
    return this->state().take();
  }

 private:
  blocker woken_;
  std::atomic<bool> begun_{false}; // on this thread, or on another one that runs the executor
  bool ran_ = false;
};

/// Awaits a task on another executor: the part without the executor and the value.
class run_on_base : protected away, protected work {
 public:
  UNIO_API std::coroutine_handle<> child_ended() noexcept;

 protected:
  using work::work;
  /// The task was dropped: its multiplexer has ended, and it never will.
  UNIO_API void lost() noexcept;
  /// `child` is prepared with environment_.
  UNIO_API std::coroutine_handle<> go(std::coroutine_handle<> child, std::coroutine_handle<> h,
                                      environment const& e, executor_ref there) noexcept;
  void returned() {
    state_.resumed();
    if (is_lost_) throw_error(make_error_code(error::multiplexer_destroyed));
  }

  environment environment_; // the task's

 private:
  std::coroutine_handle<> caller_;
  bool is_lost_ = false;
};

template <class Executor, class T>
class UNIO_TO_AWAIT run_on_awaitable : public child<run_on_awaitable<Executor, T>, task<T>>,
                                       public run_on_base {
 public:
  static constexpr char const* what = "run_on";
  run_on_awaitable(Executor executor, task<T>&& t)
      : child<run_on_awaitable, task<T>>(std::move(t)),
        run_on_base(&dropped),
        executor_(std::move(executor)) {}
  run_on_awaitable(run_on_awaitable&& other)
      : child<run_on_awaitable, task<T>>(std::move(other)),
        run_on_base(&dropped),
        executor_(std::move(other.executor_)) {}
  run_on_awaitable& operator=(run_on_awaitable&&) = delete;
  ~run_on_awaitable() {
    call_back(environment_.multiplexer);
    this->drop(); // as in root
  }

  static constexpr bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    return go(this->prepare(environment_, h), h, e, executor_);
  }
  T await_resume() {
    returned();
    return this->state().take();
  }

 private:
  // As in waited_root. Never called to run.
  static void dropped(work& w, bool) noexcept {
    auto& self = static_cast<run_on_awaitable&>(w);
    self.drop();
    self.lost();
  }
  Executor executor_;
};

template <class Handler, class A>
concept outcome_handler = std::invocable<Handler&, task_outcome<task_value_t<A>>>;
/// A third argument that is no handler, no option and no further task.
template <class Handler, class A>
concept mistaken_outcome_handler =
    !outcome_handler<Handler, A> && !std::convertible_to<Handler, run_options> && !startable<Handler>;
template <class A, class Handler> struct what_a_handler_takes {
  static_assert(outcome_handler<Handler, A>,
                "the handler is called with the outcome of the task, a value or an "
                "exception: write [](auto const& outcome) { ... }");
};

} // namespace detail

template <is_executor Executor, detail::startable_alone A, class Handler>
  requires std::invocable<Handler&, task_outcome<detail::task_value_t<A>>>
void async_run(Executor executor, A&& a, Handler handler, run_options const& options) {
  task<detail::task_value_t<A>> t = detail::as_task<A>(static_cast<A&&>(a));
  UNIO_EXPECTS(static_cast<bool>(t), "an empty task was run");
  using root = detail::async_root<Executor, detail::task_value_t<A>, Handler>;
  (new root(std::move(executor), std::move(t), std::move(handler), options))->post();
}
template <is_executor Executor, detail::startable_alone A>
void async_run(Executor executor, A&& a, run_options const& options) {
  async_run(std::move(executor), static_cast<A&&>(a), detail::let_it_end(), options);
}
template <is_executor Executor, detail::startable_alone... A>
  requires(sizeof...(A) >= 2)
void async_run(Executor executor, A&&... a) {
  (async_run(executor, static_cast<A&&>(a)), ...);
}
template <detail::startable_alone A, class Handler>
  requires std::invocable<Handler&, task_outcome<detail::task_value_t<A>>>
void async_run(io_multiplexer& m, A&& a, Handler handler, run_options const& options) {
  async_run(m.executor(), static_cast<A&&>(a), std::move(handler), options);
}
template <detail::startable_alone A> void async_run(io_multiplexer& m, A&& a, run_options const& options) {
  async_run(m.executor(), static_cast<A&&>(a), options);
}
template <detail::startable_alone... A>
  requires(sizeof...(A) >= 2)
void async_run(io_multiplexer& m, A&&... a) {
  async_run(m.executor(), static_cast<A&&>(a)...);
}
template <detail::startable A> detail::task_value_t<A> run(A&& a, run_options const& options) {
  return run(this_thread::multiplexer(), static_cast<A&&>(a), options);
}
template <detail::startable A> detail::task_value_t<A> sync_wait(A&& a, run_options const& options) {
  return run(static_cast<A&&>(a), options);
}
template <detail::startable A>
detail::task_value_t<A> run(io_multiplexer& m, A&& a, run_options const& options) {
  UNIO_EXPECTS(m.is_shared() || m.run_by() != io_multiplexer::runner::another_thread,
               "another thread runs this multiplexer");
  if (result<void> const r = detail::join(m); !r.has_value()) detail::throw_error(r.error());
  detail::waited_root<multiplexer_executor, detail::task_value_t<A>> root(
      m.executor(), detail::as_task<A>(static_cast<A&&>(a)), options);
  root.begin();
  return root.wait(&m);
}
template <is_executor Executor, detail::startable A>
detail::task_value_t<A> sync_wait(Executor executor, A&& a, run_options const& options) {
  detail::waited_root<Executor, detail::task_value_t<A>> root(
      std::move(executor), detail::as_task<A>(static_cast<A&&>(a)), options);
  result<io_multiplexer*> const here = detail::run_while_waiting(root.multiplexer());
  if (!here.has_value()) detail::throw_error(here.error());
  root.post();
  return root.wait(*here);
}
template <is_executor Executor, detail::startable A> auto run_on(Executor executor, A&& a) {
  return detail::run_on_awaitable<Executor, detail::task_value_t<A>>(std::move(executor),
                                                                     detail::as_task<A>(static_cast<A&&>(a)));
}

// What cannot be awaited: an error that says what to write.
template <is_executor Executor, class... Rest> void async_run(Executor, detail::no_awaitable, Rest&&...) {}
template <class... Rest> void async_run(io_multiplexer&, detail::no_awaitable, Rest&&...) {}
template <detail::startable A, class... Rest> void async_run(detail::no_executor, A&&, Rest&&...) {}
template <is_executor Executor, detail::startable_alone A, detail::mistaken_outcome_handler<A> Handler>
void async_run(Executor, A&&, Handler const&, run_options const& = {}) {
  (void)detail::what_a_handler_takes<A, Handler>();
}
template <detail::startable_alone A, detail::mistaken_outcome_handler<A> Handler>
void async_run(io_multiplexer&, A&&, Handler const&, run_options const& = {}) {
  (void)detail::what_a_handler_takes<A, Handler>();
}
template <detail::startable A>
detail::task_value_t<A> sync_wait(detail::no_executor, A&&, run_options const& = {}) {
  __builtin_unreachable();
}
template <detail::startable A> detail::not_awaitable<A> run_on(detail::no_executor, A&&) { return {}; }
template <class = void>
detail::any_value run(io_multiplexer&, detail::no_awaitable, run_options const& = {}) {
  return {};
}
template <class = void> detail::any_value run(detail::no_awaitable, run_options const& = {}) { return {}; }
template <is_executor Executor>
detail::any_value sync_wait(Executor, detail::no_awaitable, run_options const& = {}) {
  return {};
}
template <class = void> detail::any_value sync_wait(detail::no_awaitable, run_options const& = {}) {
  return {};
}
template <is_executor Executor>
detail::not_awaitable<detail::no_awaitable> run_on(Executor, detail::no_awaitable) {
  return {};
}

} // namespace unio
