// unio/detail/promise.hpp: what the promises of unio's coroutines have in common.
//
// Here because the compiler needs it to make a coroutine: how a coroutine resumes when another has ended, and
// how the environment reaches awaitables.
//
//   end_listener      notified when a coroutine has ended, in place of a continuation
//   promise_base      the continuation and the environment
//   affine_promise    await_transform: the affine protocol
//   what_to_await     what the compiler says of what cannot be awaited
//   transfer<Tail>    resuming another coroutine, in constant stack

#pragma once

#include <unio/detail/tracking.hpp>
#include <unio/executor.hpp>
#include <unio/frames.hpp>

#include <atomic>
#include <coroutine>
#include <exception>
#include <new>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1 {

/// What a coroutine of unio's can ask about itself: `co_await this_coro::environment`.
namespace this_coro {
struct environment_tag {};
struct executor_tag {};
struct stop_token_tag {};
inline constexpr environment_tag environment{}; ///< environment const&
inline constexpr executor_tag executor{};       ///< executor_ref
inline constexpr stop_token_tag stop_token{};   ///< stop_token
} // namespace this_coro

/// Can be awaited affinely: it resumes the coroutine on the environment's executor. `await_ready(environment
/// const&)` is called instead of await_ready() if there is one.
///
/// Source  *Coroutine-first asynchronous I/O* §6
template <class A>
concept affine_awaitable = requires(A& a, std::coroutine_handle<> h, environment const& e) {
  a.await_suspend(h, e);
  a.await_resume();
};

template <class A> struct awaited_as; // unio/task.hpp

namespace detail {

[[noreturn]] UNIO_API void rethrow(std::exception_ptr e);
/// Whether it is a std::system_error of condition::canceled.
[[nodiscard]] UNIO_API bool is_canceled(std::exception_ptr const& e) noexcept;

/// Notified when a coroutine has ended; returns the coroutine to resume. It is called while the ended one is
/// suspended for the last time, and may destroy it.
class alignas(8) end_listener : public tracked_listener<UNIO_TRACKS_PENDING> {
 public:
  using function = std::coroutine_handle<> (*)(end_listener&) noexcept;
  explicit end_listener(function f) noexcept : function_(f) {}
  std::coroutine_handle<> operator()() noexcept { return function_(*this); }

 private:
  function function_;
};

/// Resumes `h`. Where the compiler makes no tail calls: from a loop in a caller, if there is one.
UNIO_API void resume_from_loop(std::coroutine_handle<> h) noexcept;

/// Resumes `h` from code that is no coroutine: when it returns, no resumption that it caused is left to a
/// loop in a caller.
UNIO_API void resume(std::coroutine_handle<> h) noexcept;

/// Around code that waits for coroutines: everything resumed inside has run when it is left.
class resume_scope {
 public:
  UNIO_API resume_scope() noexcept;
  UNIO_API ~resume_scope();
  resume_scope(resume_scope const&) = delete;
  resume_scope& operator=(resume_scope const&) = delete;

 private:
  bool active_;
  std::coroutine_handle<> next_;
};

/// For await_suspend(): goes on with `h`. `Tail`: there may be tail calls; whether there are, the optimiser
/// decides.
template <bool Tail> auto transfer(std::coroutine_handle<> h) noexcept {
  if constexpr (Tail) {
    std::coroutine_handle<> next = h;
    if (!makes_tail_calls()) {
      resume_from_loop(h);
      next = std::noop_coroutine();
    }
    return next;
  } else {
    resume_from_loop(h);
  }
}

/// The continuation, the environment and the outcome of a coroutine, in two words, because frames are many.
class promise_base : public tracked_coroutine<UNIO_TRACKS_PENDING>, public pooled_frames {
 public:
  promise_base() noexcept {}
  promise_base(promise_base const&) = delete;
  promise_base& operator=(promise_base const&) = delete;
  ~promise_base() {
    if (has_failed()) [[unlikely]]
      exception_.~exception_ptr();
  }

  void set_continuation(std::coroutine_handle<> h) noexcept {
    next_ = reinterpret_cast<std::uintptr_t>(h.address());
  }
  void set_continuation(end_listener& l) noexcept {
    next_ = reinterpret_cast<std::uintptr_t>(&l) | bit_listener; // frames and listeners are aligned
  }
  [[nodiscard]] end_listener const* listener() const noexcept {
    return (next_ & bit_listener) != 0 ? reinterpret_cast<end_listener const*>(next_ & ~bits) : nullptr;
  }
  /// The coroutine to resume now that this one has ended.
  [[nodiscard]] std::coroutine_handle<> next() const noexcept {
    std::uintptr_t const n = next_;
    if ((n & bit_listener) != 0) [[unlikely]]
      return (*reinterpret_cast<end_listener*>(n & ~bits))();
    return std::coroutine_handle<>::from_address(reinterpret_cast<void*>(n & ~bits));
  }

  void set_environment(environment const& e) noexcept { environment_ = &e; }
  /// Preconditions: it has not failed.
  [[nodiscard]] environment const& get_environment() const noexcept { return *environment_; }

  /// It ends with an exception, which takes the place of the environment.
  void fail(std::exception_ptr e) noexcept {
    ::new (static_cast<void*>(&exception_)) std::exception_ptr(static_cast<std::exception_ptr&&>(e));
    next_ |= bit_failed;
  }
  [[nodiscard]] bool has_failed() const noexcept { return (next_ & bit_failed) != 0; }
  /// Null unless it has failed.
  [[nodiscard]] std::exception_ptr exception() const noexcept {
    return has_failed() ? exception_ : std::exception_ptr();
  }

 protected:
  void set_has_value() noexcept { next_ |= bit_value; }
  [[nodiscard]] bool has_value() const noexcept { return (next_ & bit_value) != 0; }
  void rethrow_if_failed() const {
    if (has_failed()) [[unlikely]]
      rethrow(exception_);
  }

 private:
  static constexpr std::uintptr_t bit_listener = 1, bit_failed = 2, bit_value = 4, bits = 7;
  std::uintptr_t next_ = 0;
  union {
    environment const* environment_;
    std::exception_ptr exception_;
  };
};

/// Whether awaited_as says how it is awaited, and of what then is.
template <class A>
concept is_adapted = requires { awaited_as<std::remove_cvref_t<A>>::adapt(std::declval<A>()); };
template <class A> using adapted_t = decltype(awaited_as<std::remove_cvref_t<A>>::adapt(std::declval<A>()));

template <class A> decltype(auto) awaiter_of(A&& a) noexcept {
  if constexpr (requires { static_cast<A&&>(a).operator co_await(); }) {
    return static_cast<A&&>(a).operator co_await();
  } else if constexpr (requires { operator co_await(static_cast<A&&>(a)); }) {
    return operator co_await(static_cast<A&&>(a));
  } else {
    return static_cast<A&&>(a);
  }
}
/// For its type alone: adapted_awaiter keeps what this would lead to.
template <class A>
  requires is_adapted<A>
decltype(awaiter_of(std::declval<adapted_t<A>>())) awaiter_of(A&&) noexcept;

template <class A>
concept can_be_awaited = requires(A&& a) { awaiter_of(static_cast<A&&>(a)).await_resume(); };

enum class not_awaited : unsigned char { unmoved, time, operation, function, tasks, result, sender, other };

template <class T>
concept is_time = requires {
  typename T::rep;
  typename T::period;
} || requires {
  typename T::clock;
  typename T::duration;
};
template <class T>
concept is_sender =
    requires { typename T::sender_concept; } || requires { typename T::completion_signatures; };
template <class T>
concept is_operation = requires(T& t) {
  typename T::result_type;
  t.poll();
  t.finished();
};
/// A function, or a lambda, that returns something to await.
template <class T>
concept is_function = requires(T& t) {
  { t() } -> can_be_awaited;
};
/// One with parameters.
template <class T>
concept has_parameters = std::is_function_v<std::remove_pointer_t<T>> || requires { &T::operator(); };
template <class T>
concept holds_tasks = requires(T& t) {
  typename std::remove_cvref_t<decltype(*t.begin())>::promise_type;
  requires can_be_awaited<std::remove_cvref_t<decltype(*t.begin())>>;
};
template <class T>
concept is_result = requires(T& t) {
  t.has_value();
  t.error();
};

template <class A> consteval not_awaited why_not_awaited() noexcept {
  using type = std::remove_cvref_t<A>;
  if (can_be_awaited<type>) return not_awaited::unmoved;
  if (is_time<type>) return not_awaited::time;
  if (is_operation<type>) return not_awaited::operation;
  if (is_function<type> || has_parameters<type>) return not_awaited::function;
  if (holds_tasks<type>) return not_awaited::tasks;
  if (is_result<type>) return not_awaited::result;
  return is_sender<type> ? not_awaited::sender : not_awaited::other;
}

/// One error: what to write in place of what is awaited, or is to be started. tests/messages shows each. A
/// class, because it says so where it is needed: Clang shows the line of the program.
template <class A> struct what_to_await {
  static constexpr not_awaited why = why_not_awaited<A>();
  static_assert(
      why != not_awaited::unmoved,
      "this is awaited once, so it must be moved: write std::move(task), or call what makes it here");
  static_assert(why != not_awaited::time,
                "a span or a moment is not awaitable: write unio::co_sleep(1s) in place of 1s");
  static_assert(why != not_awaited::operation,
                "an async_ operation is for receivers: write co_read(...) in place of async_read(...)");
  static_assert(why != not_awaited::function,
                "a function is not awaitable, but what it returns is: call it, write f() in place of f");
  static_assert(why != not_awaited::tasks,
                "tasks in a container stay there: write when_all(tasks), of a variable that is not const");
  static_assert(why != not_awaited::result,
                "this is a result already: write co_read(...) in place of read(...), and await it once");
  static_assert(
      why != not_awaited::sender,
      "a sender can be awaited where <unio/execution.hpp> is included, and as as_awaitable(sender)");
  static_assert(why != not_awaited::other,
                "this cannot be awaited: it is no task, no operation (co_...), and has no operator co_await");
};

/// Stands for the value of what cannot be awaited, so that there is one error.
struct any_value {
  template <class T> operator T() const; // NOLINT
};
template <class A> struct value_if_moved {
  using type = any_value;
};
template <class A>
  requires can_be_awaited<std::remove_cvref_t<A>>
struct value_if_moved<A> {
  using type = decltype(awaiter_of(std::declval<std::remove_cvref_t<A>>()).await_resume());
};
template <class A> struct not_awaitable {
  static constexpr bool await_ready() noexcept { return true; }
  static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
  static typename value_if_moved<A>::type await_resume() { __builtin_unreachable(); }
};

/// Resumes the coroutine on the executor of its environment, by itself or by its operator co_await.
template <class A>
concept awaited_in_place = !is_adapted<A> && affine_awaitable<std::remove_reference_t<A>>;
template <class A>
concept has_affine_awaiter =
    !is_adapted<A> && affine_awaitable<std::remove_reference_t<decltype(awaiter_of(std::declval<A>()))>>;
/// Knows no environment.
template <class A>
concept has_foreign_awaiter =
    !is_adapted<A> && requires(std::remove_reference_t<decltype(awaiter_of(std::declval<A>()))>& awaiter,
                               std::coroutine_handle<> h) {
      awaiter.await_ready();
      awaiter.await_suspend(h);
      awaiter.await_resume();
    };

template <class T> struct ready_awaiter {
  T value;
  static constexpr bool await_ready() noexcept { return true; }
  static constexpr void await_suspend(std::coroutine_handle<>) noexcept {}
  T await_resume() const noexcept { return value; }
};

/// Calls the form of await_suspend that there is. Returns the coroutine to resume; null: the awaiting one.
template <class Awaiter, class... Arguments>
std::coroutine_handle<> suspend_with(Awaiter& a, Arguments&&... arguments) {
  using returned = decltype(a.await_suspend(static_cast<Arguments&&>(arguments)...));
  if constexpr (std::is_void_v<returned>) {
    a.await_suspend(static_cast<Arguments&&>(arguments)...);
    return std::noop_coroutine();
  } else if constexpr (std::same_as<returned, bool>) {
    return a.await_suspend(static_cast<Arguments&&>(arguments)...)
               ? std::coroutine_handle<>(std::noop_coroutine())
               : std::coroutine_handle<>();
  } else {
    return a.await_suspend(static_cast<Arguments&&>(arguments)...);
  }
}

/// What the awaiting frame keeps of an awaitable: a small object itself, so that the frame need not hold both
/// it and its address; otherwise a reference, because a temporary lives as long as the co_await.
template <class A>
using kept_awaitable = std::conditional_t<std::is_rvalue_reference_v<A> &&
                                              std::is_trivially_copyable_v<std::remove_reference_t<A>> &&
                                              sizeof(std::remove_reference_t<A>) <= 2 * sizeof(void*),
                                          std::remove_cvref_t<A>, A>;

/// Passes the environment of the awaiting coroutine to the awaitable.
template <class A, bool Tail> struct affine_awaiter {
  kept_awaitable<A> awaited;

  bool await_ready() noexcept(noexcept(awaited.await_ready())) { return awaited.await_ready(); }
  template <class Promise> auto await_suspend(std::coroutine_handle<Promise> h) {
    environment const& with = h.promise().get_environment();
    using returned = decltype(awaited.await_suspend(h, with));
    if constexpr (std::is_void_v<returned> || std::same_as<returned, bool>) {
      return awaited.await_suspend(h, with);
    } else {
      return transfer<Tail>(awaited.await_suspend(h, with));
    }
  }
  decltype(auto) await_resume() noexcept(noexcept(awaited.await_resume())) {
    return static_cast<std::remove_reference_t<A>&&>(awaited).await_resume();
  }
};
template <class A, bool Tail>
  requires requires(std::remove_reference_t<A>& a, environment const& e) { a.await_ready(e); }
struct affine_awaiter<A, Tail> {
  A awaited;
  environment const& with;

  bool await_ready() noexcept(noexcept(awaited.await_ready(with))) { return awaited.await_ready(with); }
  auto await_suspend(std::coroutine_handle<> h) {
    using returned = decltype(awaited.await_suspend(h, with));
    if constexpr (std::is_void_v<returned> || std::same_as<returned, bool>) {
      return awaited.await_suspend(h, with);
    } else {
      return transfer<Tail>(awaited.await_suspend(h, with));
    }
  }
  decltype(auto) await_resume() noexcept(noexcept(awaited.await_resume())) {
    return static_cast<std::remove_reference_t<A>&&>(awaited).await_resume();
  }
};

/// Awaits something in place.
template <class A> struct awaiter_reference {
  explicit awaiter_reference(A& a) noexcept : awaited(a) {}
  A& awaited;
  bool await_ready() noexcept { return awaited.await_ready(); }
  auto await_suspend(std::coroutine_handle<> h) noexcept { return awaited.await_suspend(h); }
  decltype(auto) await_resume() { return awaited.await_resume(); }
};
template <class A> using bound_awaiter = std::conditional_t<UNIO_COPIES_AWAITERS, awaiter_reference<A>, A&>;

/// The coroutine that an awaitable without an environment resumes: returns to the executor of the awaiting
/// one.
class way_back {
 public:
  struct promise_type : frame_memory {
    way_back get_return_object() noexcept {
      return way_back(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept {}
  };
  way_back() = default;
  way_back(way_back&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  way_back& operator=(way_back&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~way_back() {
    if (handle_) handle_.destroy();
  }
  [[nodiscard]] std::coroutine_handle<> handle() const noexcept { return handle_; }

  /// When resumed, on any thread, it sets `left` and dispatches `r` to its executor.
  UNIO_API static way_back to(executor_ref executor, resumption& r, std::atomic<bool>& left);

 private:
  explicit way_back(std::coroutine_handle<> h) noexcept : handle_(h) {}
  std::coroutine_handle<> handle_;
};

/// Awaits an awaitable that knows no environment.
template <class Awaiter, bool Tail> class foreign_awaiter {
 public:
  template <class A>
  foreign_awaiter(A&& a, environment const& e) : way_(e), awaited_(awaiter_of(static_cast<A&&>(a))) {}
  foreign_awaiter(foreign_awaiter const&) = delete;
  foreign_awaiter& operator=(foreign_awaiter const&) = delete;

  decltype(auto) await_ready() { return static_cast<bool>(awaited_.await_ready()); }
  auto await_suspend(std::coroutine_handle<> h) {
    way_.resume = resumption(h, &way_.with);
    way_.back = way_back::to(way_.with.executor, way_.resume, way_.left);
    std::coroutine_handle<> const next = suspend_with(awaited_, way_.back.handle());
    return transfer<Tail>(next ? next : h);
  }
  decltype(auto) await_resume() {
    way_.left.store(false, std::memory_order_relaxed);
    return awaited_.await_resume();
  }

 private:
  struct way {
    explicit way(environment const& e) noexcept : with(e) {}
    way(way const&) = delete;
    way& operator=(way const&) = delete;
    ~way() {
      if (left.load(std::memory_order_acquire)) resume.take_back(with.executor); // pairs with way_back::to
    }
    environment const& with;
    resumption resume;
    way_back back;
    std::atomic<bool> left{false}; // dispatched, and not yet resumed
  };
  way way_; // destroyed after the awaiter, whose destructor keeps the operation from resuming it
  Awaiter awaited_;
};

/// What awaits something that is no awaitable: `type`. unio/execution.hpp has it for the standard's senders.
template <class A> struct awaiter_in_place_of {};
template <class A>
concept is_held_by_awaiter =
    !is_adapted<A> && requires { typename awaiter_in_place_of<std::remove_cvref_t<A>>::type; };

/// Awaits what awaited_as makes of an `A`, in a coroutine with this promise, and keeps it for so long.
template <class Promise, class A> class adapted_awaiter {
 public:
  adapted_awaiter(Promise& p, A&& a, await_location where)
      : adapted_(awaited_as<std::remove_cvref_t<A>>::adapt(static_cast<A&&>(a))),
        awaiter_(p.await_transform(static_cast<adapted_t<A>&&>(adapted_), where)) {}
  adapted_awaiter(adapted_awaiter const&) = delete;
  adapted_awaiter& operator=(adapted_awaiter const&) = delete;

  bool await_ready() { return static_cast<bool>(awaiter_.await_ready()); }
  template <class P> auto await_suspend(std::coroutine_handle<P> h) { return awaiter_.await_suspend(h); }
  decltype(auto) await_resume() { return awaiter_.await_resume(); }

 private:
  adapted_t<A> adapted_;
  decltype(std::declval<Promise&>().await_transform(std::declval<adapted_t<A>>(), await_location())) awaiter_;
};

/// The part of a promise that passes its environment to awaitables. `Promise` derives from this and from
/// promise_base.
template <class Promise, bool Tail> class affine_promise {
  environment const& with() noexcept { return static_cast<Promise*>(this)->promise_base::get_environment(); }

  void note(await_location where) noexcept { static_cast<Promise*>(this)->awaits_at(where); }

  template <class A> affine_awaiter<A, Tail> give_environment(A&& a) {
    if constexpr (requires { a.await_ready(with()); }) {
      return {static_cast<A&&>(a), with()};
    } else {
      return {static_cast<A&&>(a)};
    }
  }

 public:
  template <class A>
    requires awaited_in_place<A>
  decltype(auto) await_transform(A&& a, await_location where = UNIO_AWAITED_HERE) noexcept {
    note(where);
    if constexpr (requires { a.bind(with()); }) {
      a.bind(with()); // it stores the environment itself, so that the frame does not grow
      return bound_awaiter<std::remove_reference_t<A>>(a);
    } else {
      return give_environment<A&&>(static_cast<A&&>(a));
    }
  }
  template <class A>
    requires(!awaited_in_place<A> && has_affine_awaiter<A>)
  auto await_transform(A&& a, await_location where = UNIO_AWAITED_HERE) {
    note(where);
    using awaiter = decltype(awaiter_of(static_cast<A&&>(a)));
    return give_environment<awaiter>(awaiter_of(static_cast<A&&>(a)));
  }
  template <class A>
    requires(!awaited_in_place<A> && !has_affine_awaiter<A> && has_foreign_awaiter<A>)
  auto await_transform(A&& a, await_location where = UNIO_AWAITED_HERE) {
    note(where);
    return foreign_awaiter<decltype(awaiter_of(static_cast<A&&>(a))), Tail>(static_cast<A&&>(a), with());
  }
  template <class A>
    requires(!awaited_in_place<A> && !has_affine_awaiter<A> && !has_foreign_awaiter<A> &&
             is_held_by_awaiter<A>)
  auto await_transform(A&& a, await_location where = UNIO_AWAITED_HERE) {
    note(where);
    using awaiter = typename awaiter_in_place_of<std::remove_cvref_t<A>>::type;
    return affine_awaiter<awaiter, Tail>{awaiter(static_cast<A&&>(a))};
  }
  template <class A>
    requires is_adapted<A>
  auto await_transform(A&& a, await_location where = UNIO_AWAITED_HERE) {
    return adapted_awaiter<Promise, A>(*static_cast<Promise*>(this), static_cast<A&&>(a), where);
  }
  template <class A>
    requires(!awaited_in_place<A> && !has_affine_awaiter<A> && !has_foreign_awaiter<A> &&
             !is_held_by_awaiter<A> && !is_adapted<A>)
  static not_awaitable<A> await_transform(A&&, await_location = UNIO_AWAITED_HERE) noexcept {
    (void)what_to_await<A>();
    return {};
  }
  ready_awaiter<environment const&> await_transform(this_coro::environment_tag) noexcept { return {with()}; }
  ready_awaiter<executor_ref> await_transform(this_coro::executor_tag) noexcept { return {with().executor}; }
  ready_awaiter<stop_token> await_transform(this_coro::stop_token_tag) noexcept { return {with().stop}; }
};

} // namespace detail
} // namespace unio
