// unio/detail/timeout.hpp: timeout(), of unio/when.hpp.

#pragma once

#include <unio/detail/when.hpp>
#include <unio/when.hpp>

namespace unio::inline v0_1 {
namespace detail {

/// Runs one child and, once that is suspended, a timer: the part without the value.
class UNIO_API timeout_base : public children {
 public:
  std::coroutine_handle<> child_ended() noexcept;

 protected:
  explicit timeout_base(deadline d) noexcept : deadline_(d) {}
  ~timeout_base() = default;

  /// `child` is prepared with environment_.
  std::coroutine_handle<> start(std::coroutine_handle<> child, std::coroutine_handle<> h,
                                environment const& e) noexcept;
  /// True if the timer was the first to ask the child to stop.
  [[nodiscard]] bool has_passed() const noexcept { return by_timer_; }
  /// condition::timed_out, or why the timer could not be started. `stopped` is how what was bounded ended.
  [[nodiscard]] failure why(failure const& stopped = {}) const noexcept {
    return why_.origin() == origin::unknown ? failure(why_.code(), stopped.origin()) : why_;
  }
  deadline const& bound() const noexcept { return deadline_; }
  void abandon_timer() noexcept;

 private:
  // The timer itself. If the child ends on another thread than the timer's, that thread cancels it.
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

  void start_timer() noexcept;
  void stop_timer() noexcept;

  deadline deadline_;
  failure why_;
  std::optional<timer> timer_;
  std::atomic<unsigned char> state_{0};
  bool by_timer_ = false;
};

/// A result or the like. A std::expected, whose error() is a reference, is treated as a value: one of a bool,
/// made from an error, would hold a value.
template <class T>
concept fallible_with_code =
    fallible<T> && std::constructible_from<T, std::error_code> && requires(T const& v) {
      { v.error() } -> std::derived_from<std::error_code>;
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

template <class T>
class UNIO_TO_AWAIT timeout_awaitable : public timeout_base, public child<timeout_awaitable<T>, task<T>> {
  using value_type = typename timed_value<T>::type;

 public:
  static constexpr char const* what = "timeout";
  timeout_awaitable(deadline d, task<T>&& t) noexcept
      : timeout_base(d), child<timeout_awaitable, task<T>>(std::move(t)) {}
  timeout_awaitable(timeout_awaitable&& other) noexcept
      : timeout_base(other.bound()), child<timeout_awaitable, task<T>>(std::move(other)) {}
  ~timeout_awaitable() {
    if (!is_waiting()) [[likely]]
      return;
    abandon();
    this->drop();
    abandon_timer();
    take_back();
  }

  static constexpr bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    return start(this->prepare(environment_, h), h, e);
  }
  value_type await_resume() {
    gone_on();
    task_state<T>& s = this->state();
    if (has_passed()) [[unlikely]] {
      bool const is_late = s.has_failed() ? is_canceled(s.exception()) : std::is_void_v<T>;
      if (is_late) return failed();
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
      return made_of<T>(why());
    } else {
      return value_type(std::unexpected<failure>(why())); // T may be an error, or anything
    }
  }
  // Bytes that had moved before it was stopped stay in the result.
  template <class R> R late(R& canceled) const {
    failure const e = why(canceled.error());
    if constexpr (requires { R(e, canceled.bytes_transferred()); }) {
      return R(e, canceled.bytes_transferred());
    } else {
      return made_of<R>(e);
    }
  }
  template <class R> static R made_of(failure const& e) {
    if constexpr (std::constructible_from<R, failure const&>) {
      return R(e);
    } else {
      return R(e.code());
    }
  }
};

/// In place of a time: an error that says what to write.
struct no_time {
  template <class T>
    requires(!std::convertible_to<T, deadline>)
  no_time(T&&) { // NOLINT: implicit
    static_assert(std::convertible_to<T, deadline>,
                  "the time comes first, with a unit: write timeout(10s, x)");
  }
};

} // namespace detail

template <detail::startable A> auto timeout(deadline bound, A&& x) {
  return detail::timeout_awaitable<detail::task_value_t<A>>(bound, detail::as_task<A>(static_cast<A&&>(x)));
}
// What cannot be awaited: an error that says what to write.
template <class = void> detail::not_awaitable<detail::no_awaitable> timeout(deadline, detail::no_awaitable) {
  return {};
}
template <class A> detail::not_awaitable<detail::no_awaitable> timeout(detail::no_time, A&&) { return {}; }

} // namespace unio
