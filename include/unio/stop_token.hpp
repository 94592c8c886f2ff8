// unio/stop_token.hpp: asking running operations and coroutines to end soon.
//
//   stop_source     requests a stop; lives where it is declared, allocates nothing
//   stop_token      says whether a stop was requested, or that none ever can be; one word
//   stop_callback   a function that is called when a stop is requested
//
// Like std::stop_source and its companions, but with no shared ownership: the source must outlive its tokens.

#pragma once

#include <unio/config.hpp>

#include <atomic>
#include <concepts>
#include <cstdint>

namespace unio::inline v0_1 {

class stop_source;
namespace detail {
class kept_environment;
}

/// Whether a stop was requested. Default: none ever will be; asking is then free.
///
/// Thread safety  distinct: safe; shared: safe
/// Lifetime       its source outlives it
/// Cost           one load
/// Size           8 bytes
class stop_token {
 public:
  stop_token() = default;
  [[nodiscard]] bool stop_possible() const noexcept { return source_ != nullptr; }
  /// True once a stop was requested.
  [[nodiscard]] inline bool stop_requested() const noexcept;
  bool operator==(stop_token const&) const = default;

 private:
  friend class stop_source;
  friend class stop_node;
  explicit stop_token(stop_source* source) noexcept : source_(source) {}
  stop_source* source_ = nullptr;
};

/// What a source calls on a request: the base of stop_callback. It must not move while it is attached.
///
/// Thread safety  one thread at a time; the source may call it at any time
/// Lifetime       detached before it ends, unless it was called
/// Cost           as stop_source
class stop_node {
 public:
  using function = void (*)(stop_node&) noexcept;
  explicit stop_node(function f) noexcept : function_(f) {}
  stop_node(stop_node const&) = delete;
  stop_node& operator=(stop_node const&) = delete;

  /// Registers it, to be called once when a stop is requested. Returns false if a stop was requested already:
  /// then it is not called. Preconditions: a stop is possible; not attached.
  UNIO_API bool attach(stop_token token) noexcept;
  /// Unregisters it. Waits for a call in progress on another thread; inside that call it returns at once.
  /// Preconditions: `token` is the one passed to attach().
  UNIO_API void detach(stop_token token) noexcept;

 private:
  friend class stop_source;
  stop_node* next_ = nullptr;
  stop_node* previous_ = nullptr; // this: not attached (any more)
  function function_;
};

/// Requests a stop from all holders of its tokens.
///
/// Thread safety  all of it from any thread
/// Lifetime       outlives its tokens and callbacks
/// Cost           no allocation; an uncontended lock for each callback that is attached, detached or called
class stop_source {
 public:
  stop_source() = default;
  stop_source(stop_source const&) = delete;
  stop_source& operator=(stop_source const&) = delete;
  ~stop_source() { UNIO_EXPECTS(first_ == nullptr, "a stop source was destroyed before its callbacks"); }

  [[nodiscard]] stop_token get_token() noexcept { return stop_token(this); }
  [[nodiscard]] bool stop_requested() const noexcept {
    return (state_.load(std::memory_order_acquire) & bit_requested) != 0; // pairs with request_stop()
  }
  /// Calls the callbacks, on this thread. Returns true for the first request; later ones do nothing.
  UNIO_API bool request_stop() noexcept;

 private:
  friend class stop_node;
  friend class detail::kept_environment;
  /// Preconditions: none is in progress; locked.
  void forget_request() noexcept { state_.fetch_and(~bit_requested, std::memory_order_relaxed); }
  static constexpr std::uint32_t bit_locked = 1, bit_requested = 2;
  void lock() noexcept;
  void unlock() noexcept;

  std::atomic<std::uint32_t> state_{0};
  std::atomic<std::uint32_t> running_done_{0}; // counts the calls that have returned
  stop_node* first_ = nullptr;
  stop_node* running_ = nullptr; // its call is in progress, on the thread:
  void const* runner_ = nullptr;
};

/// Calls `f()` once when a stop is requested: on the requesting thread, or at once if one was requested.
///
/// Throws       what making an `F` throws
/// Lifetime     its destructor waits for a call in progress on another thread; `f` may destroy what holds it
/// Concurrency  `f` must not throw and should do little: it runs inside request_stop()
/// Cost         as stop_source; nothing if no stop is possible
template <std::invocable F> class stop_callback : private stop_node {
 public:
  template <class G>
    requires std::constructible_from<F, G>
  stop_callback(stop_token token, G&& f) noexcept(std::is_nothrow_constructible_v<F, G>)
      : stop_node(&call), token_(token), f_(static_cast<G&&>(f)) {
    if (token_.stop_possible() && !attach(token_)) f_();
  }
  ~stop_callback() {
    if (token_.stop_possible()) detach(token_);
  }

 private:
  static void call(stop_node& n) noexcept { static_cast<stop_callback&>(n).f_(); }
  stop_token token_;
  F f_;
};

template <class F> stop_callback(stop_token, F) -> stop_callback<F>;

inline bool stop_token::stop_requested() const noexcept {
  return source_ != nullptr && source_->stop_requested();
}

} // namespace unio
