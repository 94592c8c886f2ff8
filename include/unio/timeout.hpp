// unio/timeout.hpp: a bound on how long something may take, and waiting for a moment, within a coroutine.
//
//   timeout(1s, read_request(s))   asks it to stop once the time is over
//   co_sleep(1s)                   waits
//
// An operation that takes a deadline of its own (co_read_for) needs neither. This is for what is composed of many.

#pragma once

#include <unio/timer_handle.hpp>
#include <unio/when.hpp>

#include <optional>

namespace unio {

namespace detail {

/// Runs one child and, once that is suspended, a timer. In no template: what does not depend on the value.
class UNIO_API timeout_base : protected children, private end_listener {
 protected:
  explicit timeout_base(deadline d) noexcept : end_listener(&child_ended), deadline_(d) {}
  ~timeout_base() = default;

  std::coroutine_handle<> start(std::coroutine_handle<> child, promise_base& promise,
                                std::coroutine_handle<> h, environment const& e) noexcept;
  /// True if the child was asked to stop by the timer before anybody else did.
  [[nodiscard]] bool has_passed() const noexcept { return by_timer_; }
  /// Why: condition::timed_out, or what kept the timer from being started.
  [[nodiscard]] std::error_code why() const noexcept { return why_; }
  /// Is `e` a std::system_error of condition::canceled?
  static bool is_canceled(std::exception_ptr const& e) noexcept;

  deadline const& bound() const noexcept { return deadline_; }
  void abandon_timer() noexcept;

 private:
  // The timer itself. Where the child may end on another thread than it runs on, that thread cancels it.
  class timer : public async_wait {
   public:
    timer(timer_handle& t, timeout_base& of) noexcept : async_wait(t), of_(of) { set_notification(&fired); }
    timer& operator=(timer&&) = delete;
    ~timer() { abandon(); }
    void make_atomic() noexcept { set_atomic(link_); }
    using async_wait::abandon;

   private:
    static void fired(io_operation& op, unsigned events) noexcept;
    io_operation* link_ = nullptr;
    timeout_base& of_;
  };
  enum : unsigned char { has_timer = 1, has_ended = 2 };

  static std::coroutine_handle<> child_ended(end_listener& l) noexcept;
  void start_timer() noexcept;
  void stop_timer() noexcept;

  deadline deadline_;
  std::error_code why_;
  std::optional<timer> timer_;
  std::atomic<unsigned char> state_{0};
  bool by_timer_ = false;
};

/// A result or its kin. A std::expected, whose error() is a reference, is a value like any other: one of a bool, made from an
/// error, would hold a value.
template <class T>
concept fallible_with_code =
    fallible<T> && std::constructible_from<T, std::error_code> && requires(T const& v) {
      { v.error() } -> std::same_as<std::error_code>;
    };

template <class T> struct timed_value {
  using type = result<T>;
};
template <fallible_with_code T> struct timed_value<T> {
  using type = T;
};
template <class T> struct timed_value<T&> {
  using type = result<T*>;
};

template <class T> class [[nodiscard]] timeout_awaitable : timeout_base {
  using value_type = typename timed_value<T>::type;

 public:
  timeout_awaitable(deadline d, task<T> child) noexcept : timeout_base(d), child_(std::move(child)) {}
  timeout_awaitable(timeout_awaitable&& other) noexcept
      : timeout_awaitable(other.bound(), std::move(other.child_)) {}
  ~timeout_awaitable() {
    if (!is_waiting()) [[likely]]
      return;
    abandon();
    child_ = {};
    abandon_timer();
    take_back();
  }

  static constexpr bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    return start(child_.child(), child_.child().promise(), h, e);
  }
  value_type await_resume() {
    gone_on();
    task_state<T>& s = child_.child().promise();
    if (has_passed()) [[unlikely]] {
      if (s.has_failed() && is_canceled(s.exception())) return failed();
      if constexpr (fallible_with_code<T>) {
        if (!s.has_failed() && !s.value().has_value() && s.value().error() == condition::canceled)
          return late(s.value());
      }
    }
    if constexpr (std::is_void_v<T>) {
      s.take();
      return {};
    } else if constexpr (std::is_reference_v<T>) {
      std::remove_reference_t<T>& referred = s.take();
      return value_type(std::in_place, std::addressof(referred));
    } else if constexpr (fallible_with_code<T>) {
      return s.take();
    } else {
      return value_type(std::in_place, s.take()); // T may be an error, or anything
    }
  }

 private:
  value_type failed() const {
    if constexpr (fallible_with_code<T>) {
      return value_type(why());
    } else {
      return value_type(std::unexpect, why());
    }
  }
  // Bytes that had moved before it was stopped stay in the result.
  template <class R> R late(R& canceled) const {
    if constexpr (requires { R(why(), canceled.bytes_transferred()); }) {
      return R(why(), canceled.bytes_transferred());
    } else {
      return R(why());
    }
  }
  task<T> child_;
};

} // namespace detail

/// Within a coroutine: `co_await timeout(1s, x())` runs `x()`, which is asked to stop when the time is over.
///
/// Returns       where `x()` yields a result or an io_result: the same. condition::canceled becomes condition::timed_out if
///               it was this timer that asked first. Otherwise result<T>: the value, or timed_out in place of a
///               std::system_error of condition::canceled, on the same terms (a reference as a pointer)
/// Errors        any other exception that leaves `x()`. What kept the timer from being started, in place of timed_out
/// Values        beat the timer: what `x()` yields although it was asked to stop is what is returned
/// Bound         a span counts from the moment when `x()` first suspends; one that never does costs no timer. Where the moment
///               has passed, and with a span of zero, `x()` begins with the stop requested, and yields what it has at once
/// Waits         for `x()` to have ended. One that does not look at its stop token is waited for
/// Runs on       the environment's multiplexer; where there is none, the thread's own
/// Cancellation  a stop is passed on, and then is no timeout
/// Destruction   as when_all
/// Cost          no allocation, no system call; a frame from the pool where `x()` is no task. A timer: O(log pending)
/// Source        D2052R0 §4.1 (deadlines); Trio, move_on_after
template <detail::can_be_awaited A>
[[nodiscard]] detail::timeout_awaitable<detail::task_value_t<A>> timeout(deadline bound, A&& x) {
  return {bound, detail::as_task<A>(static_cast<A&&>(x))};
}

/// Waits, within a coroutine, for a span or until a time point. See async_wait.
[[nodiscard]] inline io_awaitable<async_wait> co_sleep(deadline moment) noexcept {
  timer_handle t(moment);
  return io_awaitable<async_wait>(async_wait(t));
}

} // namespace unio
