// The least of the standard's senders and receivers (P2300R10, [exec]) that unio/execution.hpp can be tested
// against where neither the standard library nor stdexec has them. Only for tests: no domains, no
// environments but queries, no algorithms but just, then and sync_wait.

#pragma once

#include <concepts>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <tuple>
#include <type_traits>
#include <utility>

namespace test::execution {

// ---- stop tokens -----------------------------------------------------------------------------------------

struct never_stop_token {
  struct callback {
    template <class... A> explicit callback(A&&...) noexcept {}
  };
  template <class> using callback_type = callback;
  static constexpr bool stop_possible() noexcept { return false; }
  static constexpr bool stop_requested() noexcept { return false; }
  bool operator==(never_stop_token const&) const = default;
};

/// std::stop_token with the member that the standard gave its successors.
struct inplace_stop_token : std::stop_token {
  inplace_stop_token() = default;
  inplace_stop_token(std::stop_token t) noexcept : std::stop_token(std::move(t)) {} // NOLINT: implicit
  template <class F> using callback_type = std::stop_callback<F>;
};

template <class Token, class F> using stop_callback_for_t = typename Token::template callback_type<F>;

// ---- queries ---------------------------------------------------------------------------------------------

struct empty_env {};

inline constexpr struct get_env_t {
  template <class T> auto operator()(T const& t) const noexcept {
    if constexpr (requires { t.get_env(); }) {
      return t.get_env();
    } else {
      return empty_env();
    }
  }
} get_env;
template <class T> using env_of_t = decltype(get_env(std::declval<T const&>()));

struct get_stop_token_t {
  template <class Env> auto operator()(Env const& e) const noexcept {
    if constexpr (requires { e.query(*this); }) {
      return e.query(*this);
    } else {
      return never_stop_token();
    }
  }
};
inline constexpr get_stop_token_t get_stop_token;
template <class Env> using stop_token_of_t = decltype(get_stop_token(std::declval<Env const&>()));

template <class Completion> struct get_completion_scheduler_t {
  template <class Env> auto operator()(Env const& e) const noexcept { return e.query(*this); }
};
template <class Completion> inline constexpr get_completion_scheduler_t<Completion> get_completion_scheduler;

// ---- receivers -------------------------------------------------------------------------------------------

struct receiver_t {};
struct set_value_t {
  template <class R, class... V> void operator()(R&& r, V&&... v) const noexcept {
    static_assert(!std::is_lvalue_reference_v<R> && noexcept(std::move(r).set_value(std::forward<V>(v)...)));
    std::move(r).set_value(std::forward<V>(v)...);
  }
};
struct set_error_t {
  template <class R, class E> void operator()(R&& r, E&& e) const noexcept {
    static_assert(!std::is_lvalue_reference_v<R> && noexcept(std::move(r).set_error(std::forward<E>(e))));
    std::move(r).set_error(std::forward<E>(e));
  }
};
struct set_stopped_t {
  template <class R> void operator()(R&& r) const noexcept {
    static_assert(!std::is_lvalue_reference_v<R> && noexcept(std::move(r).set_stopped()));
    std::move(r).set_stopped();
  }
};
inline constexpr set_value_t set_value;
inline constexpr set_error_t set_error;
inline constexpr set_stopped_t set_stopped;

template <class R>
concept receiver = std::derived_from<typename std::remove_cvref_t<R>::receiver_concept, receiver_t> &&
                   std::move_constructible<std::remove_cvref_t<R>>;

// ---- operation states ------------------------------------------------------------------------------------

struct operation_state_t {};
inline constexpr struct start_t {
  template <class O> void operator()(O& o) const noexcept {
    static_assert(noexcept(o.start()));
    o.start();
  }
} start;
template <class O>
concept operation_state =
    std::derived_from<typename O::operation_state_concept, operation_state_t> && requires(O& o) { start(o); };

// ---- senders ---------------------------------------------------------------------------------------------

struct sender_t {};
template <class S>
inline constexpr bool enable_sender =
    requires { requires std::derived_from<typename S::sender_concept, sender_t>; };
template <class S>
concept sender = enable_sender<std::remove_cvref_t<S>> && std::move_constructible<std::remove_cvref_t<S>>;

template <class... Signatures> struct completion_signatures {};
template <class S, class Env>
using completion_signatures_of_t = decltype(std::declval<S>().get_completion_signatures(std::declval<Env>()));

template <class S, class Env = empty_env>
concept sender_in = sender<S> && requires { typename completion_signatures_of_t<S, Env>; };

inline constexpr struct connect_t {
  template <sender S, receiver R> auto operator()(S&& s, R&& r) const {
    static_assert(operation_state<decltype(std::forward<S>(s).connect(std::forward<R>(r)))>);
    return std::forward<S>(s).connect(std::forward<R>(r));
  }
} connect;
template <class S, class R> using connect_result_t = decltype(connect(std::declval<S>(), std::declval<R>()));
template <class S, class R>
concept sender_to = sender_in<S, env_of_t<R>> && receiver<R> &&
                    requires(S&& s, R&& r) { connect(std::forward<S>(s), std::forward<R>(r)); };

struct scheduler_t {};
inline constexpr struct schedule_t {
  template <class S> auto operator()(S const& s) const { return s.schedule(); }
} schedule;
template <class S>
concept scheduler = std::derived_from<typename S::scheduler_concept, scheduler_t> &&
                    std::equality_comparable<S> && std::copy_constructible<S> && requires(S const& s) {
                      { schedule(s) } -> sender;
                    };

// ---- algorithms ------------------------------------------------------------------------------------------

template <class... V> struct just_sender {
  using sender_concept = sender_t;
  std::tuple<V...> values;
  template <class R> struct operation {
    using operation_state_concept = operation_state_t;
    std::tuple<V...> values;
    R receiver;
    void start() & noexcept {
      std::apply([this](V&... v) { set_value(std::move(receiver), std::move(v)...); }, values);
    }
  };
  template <class Env> auto get_completion_signatures(Env&&) const {
    return completion_signatures<set_value_t(V...)>();
  }
  template <class R> operation<R> connect(R r) && { return {std::move(values), std::move(r)}; }
};
template <class... V> just_sender<std::decay_t<V>...> just(V&&... v) { return {{std::forward<V>(v)...}}; }

template <class Signature, class F> struct then_signature {
  using type = Signature;
};
template <class F, class... V> struct then_signature<set_value_t(V...), F> {
  using result = std::invoke_result_t<F, V...>;
  template <class T> struct of {
    using type = set_value_t(T);
  };
  template <class T>
    requires std::is_void_v<T>
  struct of<T> {
    using type = set_value_t();
  };
  using type = typename of<result>::type;
};

template <class S, class F> struct then_sender {
  using sender_concept = sender_t;
  S sender;
  F f;
  template <class R> struct receiver {
    using receiver_concept = receiver_t;
    R next;
    F f;
    template <class... V> void set_value(V&&... v) && noexcept {
      if constexpr (std::is_void_v<std::invoke_result_t<F, V...>>) {
        f(std::forward<V>(v)...);
        execution::set_value(std::move(next));
      } else {
        execution::set_value(std::move(next), f(std::forward<V>(v)...));
      }
    }
    template <class E> void set_error(E&& e) && noexcept {
      execution::set_error(std::move(next), std::forward<E>(e));
    }
    void set_stopped() && noexcept { execution::set_stopped(std::move(next)); }
    [[nodiscard]] auto get_env() const noexcept { return execution::get_env(next); }
  };
  template <class List> struct changed;
  template <class... Signatures> struct changed<completion_signatures<Signatures...>> {
    using type = completion_signatures<typename then_signature<Signatures, F>::type...>;
  };
  template <class Env> auto get_completion_signatures(Env&&) const {
    return typename changed<completion_signatures_of_t<S, Env>>::type();
  }
  template <class R> auto connect(R r) && {
    return execution::connect(std::move(sender), receiver<R>{std::move(r), std::move(f)});
  }
};
template <class F> struct then_closure {
  F f;
  template <sender S> friend then_sender<std::decay_t<S>, F> operator|(S&& s, then_closure c) {
    return {std::forward<S>(s), std::move(c.f)};
  }
};
template <class F> then_closure<F> then(F f) { return {std::move(f)}; }

/// What a sender has completed with.
template <class... V> struct completion {
  std::optional<std::tuple<V...>> value;
  std::exception_ptr error;
  bool stopped = false;
};

/// Blocks until the sender has completed; `turn()` is called meanwhile, to run what needs this thread. Unlike
/// the standard's it reports all three ways, and takes a stop token.
template <class... V, sender S, class Turn>
completion<V...> wait_for(S&& s, inplace_stop_token stop, Turn turn) {
  struct shared {
    explicit shared(inplace_stop_token token) : stop(std::move(token)) {}
    std::mutex mutex;
    bool done = false;
    completion<V...> result;
    inplace_stop_token stop;
  } state(std::move(stop));
  struct env {
    shared* state;
    [[nodiscard]] inplace_stop_token query(get_stop_token_t) const noexcept { return state->stop; }
  };
  struct receiver {
    using receiver_concept [[maybe_unused]] = receiver_t;
    shared* state;
    void finish() noexcept {
      std::lock_guard const lock(state->mutex);
      state->done = true;
    }
    void set_value(V... v) && noexcept { state->result.value.emplace(std::move(v)...), finish(); }
    void set_error(std::exception_ptr e) && noexcept { state->result.error = std::move(e), finish(); }
    void set_stopped() && noexcept { state->result.stopped = true, finish(); }
    [[nodiscard]] env get_env() const noexcept { return {state}; }
  };
  static_assert(sender_to<S, receiver>);
  auto operation = connect(std::forward<S>(s), receiver{&state});
  start(operation);
  for (;;) {
    {
      std::lock_guard const lock(state.mutex);
      if (state.done) return std::move(state.result);
    }
    turn();
  }
}

} // namespace test::execution
