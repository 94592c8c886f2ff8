// unio/detail/async_generator.hpp: the promise of an async_generator, and what co_next() returns.

#pragma once

#include <unio/async_generator.hpp>
#include <unio/detail/promise.hpp>

namespace unio::inline v0_1 {
namespace detail {

class next_base;

/// The environment that the coroutine of an async_generator keeps from item to item: that of the coroutine
/// that asks, with a stop source of its own, which the stops of asking coroutines reach
/// (src/coro/async_generator.cpp).
class UNIO_API kept_environment final : private stop_node, public pooled_frames {
 public:
  explicit kept_environment(environment const& e) noexcept;
  kept_environment(kept_environment const&) = delete;
  kept_environment& operator=(kept_environment const&) = delete;

  [[nodiscard]] environment const& get() const noexcept { return environment_; }
  /// A coroutine with that environment asks for an item. A stop that came from an earlier one is forgotten.
  void follow(environment const& e) noexcept;
  /// The item is there.
  void rest() noexcept;
  /// The generator is being destroyed.
  void drop() noexcept;

 private:
  enum : unsigned char { resting, passing_on, dropped };
  ~kept_environment() = default;
  void pass_on() noexcept;
  static void stop_came(stop_node& n) noexcept;

  environment environment_;
  stop_source source_;
  stop_token from_; // of the coroutine that asks
  std::atomic<unsigned char> state_{resting};
};

/// The part of an async_generator's promise that does not depend on how its coroutine was compiled: the item
/// that it yields, and its continuation.
struct async_generator_state : promise_base {
  ~async_generator_state() {
    if (kept != nullptr) [[unlikely]]
      kept->drop();
  }
  /// What the coroutine is told of its environment: valid as long as the coroutine.
  UNIO_API environment const& keep_environment();
  /// The coroutine is about to compute the next item, for one with that environment.
  void follow(environment const& e) noexcept {
    set_environment(e);
    if (kept != nullptr) [[unlikely]]
      kept->follow(e);
  }
  /// The item, or what left the coroutine, which is thrown once.
  void* take(bool ended) {
    if (kept != nullptr) [[unlikely]]
      kept->rest();
    awaited_by = nullptr;
    void* const taken = item;
    if (ended && std::exchange(item, nullptr) != nullptr) rethrow_if_failed();
    return ended ? nullptr : taken;
  }
  void* item = nullptr; // once it has ended: null, unless there is an exception to throw
  next_base* awaited_by = nullptr;
  kept_environment* kept = nullptr; // once the coroutine has asked for it
};

/// A generator that is asked for its next item: the part that does not depend on the item.
class next_base {
 public:
  explicit next_base(std::coroutine_handle<async_generator_state>& generator) noexcept
      : generator_(&generator) {}
  next_base(next_base const& other) noexcept : generator_(other.generator_) {}
  next_base& operator=(next_base const&) = delete;
  ~next_base() {
    // The waiting coroutine is being destroyed: there is no consumer any more.
    if (suspended_) std::exchange(*generator_, nullptr).destroy();
  }

  [[nodiscard]] bool await_ready() const noexcept {
    UNIO_EXPECTS(*generator_ != nullptr, "an empty async_generator was asked for an item");
    UNIO_EXPECTS(generator_->promise().awaited_by == nullptr, "one coroutine at a time may ask for an item");
    return generator_->done();
  }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    async_generator_state& promise = generator_->promise();
    promise.set_continuation(h);
    promise.awaited_by = this;
    suspended_ = true;
    promise.follow(e);
    return *generator_;
  }
  /// The generator is destroyed first.
  void forget() noexcept { suspended_ = false; }

 protected:
  /// The address of the item; null at the end.
  [[nodiscard]] void* take() {
    suspended_ = false;
    return generator_->promise().take(generator_->done());
  }

 private:
  std::coroutine_handle<async_generator_state>* generator_;
  bool suspended_ = false;
};

template <class T> class UNIO_TO_AWAIT next_awaitable : next_base {
 public:
  using next_base::await_ready;
  using next_base::await_suspend;
  using next_base::next_base;
  typename yielding<T>::pointer await_resume() {
    return static_cast<typename yielding<T>::pointer>(next_base::take());
  }
};

template <class T, bool Tail>
class async_generator_promise : public async_generator_state,
                                public affine_promise<async_generator_promise<T, Tail>, Tail> {
  using types = yielding<T>;

  static void* address(std::remove_reference_t<T>& item) noexcept {
    return const_cast<void*>(static_cast<void const volatile*>(__builtin_addressof(item)));
  }
  /// Resumes the coroutine that asked for the item.
  struct handing_over {
    static constexpr bool await_ready() noexcept { return false; }
    template <class Promise> auto await_suspend(std::coroutine_handle<Promise> h) noexcept {
      return transfer<Tail>(h.promise().next());
    }
    static constexpr void await_resume() noexcept {}
  };

 public:
  using affine_promise<async_generator_promise, Tail>::await_transform;
  ready_awaiter<environment const&> await_transform(this_coro::environment_tag) {
    return {this->keep_environment()};
  }
  ready_awaiter<stop_token> await_transform(this_coro::stop_token_tag) {
    return {this->keep_environment().stop};
  }

  async_generator<T> get_return_object() noexcept;
  static std::suspend_always initial_suspend() noexcept { return {}; }
  static handing_over final_suspend() noexcept { return {}; }

  handing_over yield_value(typename types::reference yielded) noexcept {
    item = address(yielded);
    return {};
  }
  auto yield_value(std::remove_reference_t<T> const& yielded)
    requires types::copies_lvalues
  {
    struct copied : handing_over {
      copied(std::remove_reference_t<T> const& from, async_generator_promise& p) : promise(p), copy(from) {}
      auto await_suspend(std::coroutine_handle<>) noexcept {
        promise.item = __builtin_addressof(copy);
        return transfer<Tail>(promise.next());
      }
      async_generator_promise& promise;
      typename types::value copy;
    };
    return copied(yielded, *this);
  }
  void return_void() noexcept { item = nullptr; }
  void unhandled_exception() noexcept {
    item = this;
    fail(std::current_exception());
  }
};

template <class T, bool Tail>
async_generator<T> async_generator_promise<T, Tail>::get_return_object() noexcept {
  static_assert(sizeof(async_generator_promise) == sizeof(async_generator_state) &&
                alignof(async_generator_promise) == alignof(async_generator_state));
  return async_generator<T>(std::coroutine_handle<async_generator_state>::from_promise(*this));
}

} // namespace detail

template <class T>
inline async_generator<T>& async_generator<T>::operator=(async_generator&& other) noexcept {
  if (this != &other) {
    destroy();
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}

template <class T> void async_generator<T>::destroy() noexcept {
  if (!handle_) return;
  if (detail::next_base* const n = handle_.promise().awaited_by; n != nullptr) n->forget();
  handle_.destroy();
}

} // namespace unio

/// A coroutine whose first or second parameter has get_frame_allocator() takes its frame from there.
template <class T, class... Parameters>
  requires unio::detail::gives_frames<Parameters...>
struct std::coroutine_traits<unio::async_generator<T>, Parameters...> {
  using promise_type = unio::detail::with_given_frames<typename unio::async_generator<T>::promise_type>;
};
