// unio/detail/awaiters.hpp: what the frame of an awaiting coroutine has for what it awaits.
//
//   affine_awaiter    passes the environment on
//   foreign_awaiter   of what knows no environment: comes back to the executor (way_back)
//   adapted_awaiter   of what awaited_as says how it is awaited

#pragma once

#include <unio/detail/awaitable.hpp>
#include <unio/detail/resuming.hpp>
#include <unio/frames.hpp>

#include <atomic>
#include <concepts>
#include <coroutine>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::detail {

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

} // namespace unio::detail
