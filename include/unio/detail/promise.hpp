// unio/detail/promise.hpp: what the promises of unio's coroutines have in common.
//
//   promise_base      the continuation and the environment
//   affine_promise    await_transform: the affine protocol
//
// Here because the compiler needs it to make a coroutine. How a coroutine resumes when another has ended is
// in resuming.hpp, what it awaits in awaitable.hpp, how in awaiters.hpp.

#pragma once

#include <unio/detail/awaitable.hpp>
#include <unio/detail/awaiters.hpp>
#include <unio/detail/resuming.hpp>
#include <unio/detail/tracking.hpp>
#include <unio/executor.hpp>
#include <unio/frames.hpp>

#include <coroutine>
#include <exception>
#include <new>

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

namespace detail {

[[noreturn]] UNIO_API void rethrow(std::exception_ptr e);
/// Whether it is a std::system_error of condition::canceled.
[[nodiscard]] UNIO_API bool is_canceled(std::exception_ptr const& e) noexcept;

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
