// future<T> and promise<T> with then(): what CppCon 2015's talk compares coroutines with. A minimum of them:
// one thread, one continuation, and a future that is returned by a continuation is waited for.
//
// The shared state of each future and the function of each continuation are allocated, as in the
// implementations that the talk had (N3857's then).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

namespace futures {

template <class T> struct shared_state {
  std::optional<T> value;
  std::function<void(T)> continuation;

  void set(T v) {
    if (continuation)
      continuation(std::move(v));
    else
      value = std::move(v);
  }
  void attach(std::function<void(T)> f) {
    if (value)
      f(std::move(*value));
    else
      continuation = std::move(f);
  }
};

template <class T> class future;

template <class T> class promise {
 public:
  [[nodiscard]] future<T> get_future() const { return future<T>(state_); }
  void set_value(T v) const { state_->set(std::move(v)); }

 private:
  std::shared_ptr<shared_state<T>> state_ = std::make_shared<shared_state<T>>();
};

template <class T> struct value_of_future {
  using type = T;
};
template <class T> struct value_of_future<future<T>> {
  using type = T;
};

template <class T> class future {
 public:
  explicit future(std::shared_ptr<shared_state<T>> s) : state_(std::move(s)) {}

  /// A future of what `f` returns, or of the value of the future that it returns.
  template <class F> auto then(F f) {
    using returned = std::invoke_result_t<F&, T>;
    using value = typename value_of_future<returned>::type;
    promise<value> next;
    future<value> result = next.get_future();
    state_->attach([f = std::move(f), next](T v) mutable {
      if constexpr (std::is_same_v<value, returned>)
        next.set_value(f(std::move(v)));
      else
        f(std::move(v)).finally([next](value w) { next.set_value(std::move(w)); });
    });
    return result;
  }
  /// Calls `f` with the value, and that is all.
  template <class F> void finally(F f) { state_->attach(std::move(f)); }
  /// The value, if it is there already.
  [[nodiscard]] std::optional<T> take() { return std::exchange(state_->value, std::nullopt); }

 private:
  std::shared_ptr<shared_state<T>> state_;
};

/// Calls `body()`, a function that returns a future<bool>, as long as that yields true.
template <class Body> class repetition : public std::enable_shared_from_this<repetition<Body>> {
 public:
  explicit repetition(Body b) : body_(std::move(b)) {}
  [[nodiscard]] future<bool> ended() const { return ended_.get_future(); }
  void go_on() {
    for (;;) { // not by recursion where it is there already
      future<bool> more = body_();
      if (std::optional<bool> const now = more.take()) {
        if (*now) continue;
        return ended_.set_value(true);
      }
      return more.finally([self = this->shared_from_this()](bool again) {
        again ? self->go_on() : self->ended_.set_value(true);
      });
    }
  }

 private:
  Body body_;
  promise<bool> ended_;
};
template <class Body> future<bool> do_while(Body body) {
  auto const r = std::make_shared<repetition<Body>>(std::move(body));
  future<bool> ended = r->ended();
  r->go_on();
  return ended;
}

} // namespace futures
