// The least of the standard's senders and receivers (P2300R10, [exec]) that unio/execution.hpp can be tested
// against where neither the standard library nor stdexec has them. Only for tests: no domains, no
// environments but queries, no algorithms but just, then, let_value, starts_on, when_all and sync_wait; those
// know one way to succeed, and std::exception_ptr as the only error.

#pragma once

#include <concepts>
#include <condition_variable>
#include <deque>
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

struct inplace_stop_source : std::stop_source {
  [[nodiscard]] inplace_stop_token get_token() const noexcept { return std::stop_source::get_token(); }
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

struct get_scheduler_t {
  template <class Env>
    requires requires(Env const& e, get_scheduler_t q) { e.query(q); }
  auto operator()(Env const& e) const noexcept {
    return e.query(*this);
  }
};
inline constexpr get_scheduler_t get_scheduler;
struct get_delegation_scheduler_t {
  template <class Env>
    requires requires(Env const& e, get_delegation_scheduler_t q) { e.query(q); }
  auto operator()(Env const& e) const noexcept {
    return e.query(*this);
  }
};
inline constexpr get_delegation_scheduler_t get_delegation_scheduler;

template <class Query, class Value> struct prop {
  Query asked;
  Value value;
  [[nodiscard]] Value query(Query) const noexcept { return value; }
};
template <class Query, class Value> prop(Query, Value) -> prop<Query, Value>;
/// Asks `First`, then `Second`.
template <class First, class Second> struct joined_env {
  First first;
  Second second;
  template <class Query>
    requires requires(First const& f, Query q) { f.query(q); }
  auto query(Query q) const noexcept {
    return first.query(q);
  }
  template <class Query>
    requires(
        !requires(First const& f, Query q) { f.query(q); } &&
        requires(Second const& s, Query q) { s.query(q); })
  auto query(Query q) const noexcept {
    return second.query(q);
  }
};

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

/// The values of the one set_value among the signatures, as a std::tuple.
template <class List> struct values_of;
template <class... Signatures> struct values_of<completion_signatures<Signatures...>> {
  template <class Signature> struct one {
    using type = std::tuple<>;
  };
  template <class... V> struct one<set_value_t(V...)> {
    using type = std::tuple<std::tuple<std::decay_t<V>...>>;
  };
  using type =
      std::tuple_element_t<0, decltype(std::tuple_cat(std::declval<typename one<Signatures>::type>()...))>;
};
template <class S, class Env>
using values_of_t = typename values_of<completion_signatures_of_t<S, Env>>::type;

template <class Tuple> struct completing_with;
template <class... V> struct completing_with<std::tuple<V...>> {
  using type = completion_signatures<set_value_t(V...), set_error_t(std::exception_ptr), set_stopped_t()>;
};

/// `extra` is asked before the environment of the receiver.
template <class S, class Extra> struct env_sender {
  using sender_concept = sender_t;
  S sender;
  Extra extra;
  template <class R> struct receiver {
    using receiver_concept = receiver_t;
    R next;
    Extra extra;
    template <class... V> void set_value(V&&... v) && noexcept {
      execution::set_value(std::move(next), std::forward<V>(v)...);
    }
    template <class E> void set_error(E&& e) && noexcept {
      execution::set_error(std::move(next), std::forward<E>(e));
    }
    void set_stopped() && noexcept { execution::set_stopped(std::move(next)); }
    [[nodiscard]] joined_env<Extra, env_of_t<R>> get_env() const noexcept {
      return {extra, execution::get_env(next)};
    }
  };
  template <class Env> auto get_completion_signatures(Env&&) const {
    return completion_signatures_of_t<S, joined_env<Extra, std::remove_cvref_t<Env>>>();
  }
  template <class R> auto connect(R r) && {
    return execution::connect(std::move(sender), receiver<R>{std::move(r), std::move(extra)});
  }
};
template <sender S, class Extra> env_sender<std::decay_t<S>, Extra> write_env(S&& s, Extra extra) {
  return {std::forward<S>(s), std::move(extra)};
}

/// The values of one sender are kept, and make the next.
template <class S, class F> struct let_value_sender {
  using sender_concept = sender_t;
  S sender;
  F f;

  template <class R> struct operation {
    using operation_state_concept = operation_state_t;
    using values = values_of_t<S, env_of_t<R>>;
    struct first_receiver {
      using receiver_concept = receiver_t;
      operation* self;
      template <class... V> void set_value(V&&... v) && noexcept {
        operation* const o = self;
        o->kept.emplace(std::forward<V>(v)...);
        o->first.reset();
        o->second.emplace([o] { return execution::connect(std::apply(o->f, *o->kept), second_receiver{o}); });
        execution::start(o->second->operation);
      }
      template <class E> void set_error(E&& e) && noexcept {
        execution::set_error(std::move(self->receiver), std::forward<E>(e));
      }
      void set_stopped() && noexcept { execution::set_stopped(std::move(self->receiver)); }
      [[nodiscard]] env_of_t<R> get_env() const noexcept { return execution::get_env(self->receiver); }
    };
    struct second_receiver {
      using receiver_concept = receiver_t;
      operation* self;
      template <class... V> void set_value(V&&... v) && noexcept {
        execution::set_value(std::move(self->receiver), std::forward<V>(v)...);
      }
      template <class E> void set_error(E&& e) && noexcept {
        execution::set_error(std::move(self->receiver), std::forward<E>(e));
      }
      void set_stopped() && noexcept { execution::set_stopped(std::move(self->receiver)); }
      [[nodiscard]] env_of_t<R> get_env() const noexcept { return execution::get_env(self->receiver); }
    };
    using next_sender = decltype(std::apply(std::declval<F&>(), std::declval<values&>()));
    template <class O> struct made {
      O operation;
      template <class Make> explicit made(Make make) : operation(make()) {}
    };

    R receiver;
    F f;
    std::optional<values> kept;
    std::optional<made<connect_result_t<S, first_receiver>>> first;
    std::optional<made<connect_result_t<next_sender, second_receiver>>> second;

    operation(S&& s, F&& g, R&& r) : receiver(std::move(r)), f(std::move(g)) {
      first.emplace([&] { return execution::connect(std::move(s), first_receiver{this}); });
    }
    operation(operation&&) = delete;
    void start() & noexcept { execution::start(first->operation); }
  };

  template <class Env> auto get_completion_signatures(Env&&) const {
    using env = std::remove_cvref_t<Env>;
    using next = decltype(std::apply(std::declval<F&>(), std::declval<values_of_t<S, env>&>()));
    return typename completing_with<values_of_t<next, env>>::type();
  }
  template <class R> operation<R> connect(R r) && {
    return operation<R>(std::move(sender), std::move(f), std::move(r));
  }
};
template <class F> struct let_value_closure {
  F f;
  template <sender S> friend let_value_sender<std::decay_t<S>, F> operator|(S&& s, let_value_closure c) {
    return {std::forward<S>(s), std::move(c.f)};
  }
};
template <class F> let_value_closure<F> let_value(F f) { return {std::move(f)}; }

template <scheduler Scheduler, sender S> auto starts_on(Scheduler scheduler, S&& s) {
  auto started = [child = write_env(std::forward<S>(s), prop{get_scheduler, scheduler})]() mutable {
    return std::move(child);
  };
  return let_value_sender<decltype(schedule(scheduler)), decltype(started)>{schedule(scheduler),
                                                                            std::move(started)};
}

/// Two senders at once; the first that does not succeed stops the other.
template <class A, class B> struct when_all_sender {
  using sender_concept = sender_t;
  A a;
  B b;

  template <class R> struct operation {
    using operation_state_concept = operation_state_t;
    using env = joined_env<prop<get_stop_token_t, inplace_stop_token>, env_of_t<R>>;
    template <class S> struct member_receiver {
      using receiver_concept = receiver_t;
      operation* self;
      std::optional<values_of_t<S, env>>* into;
      template <class... V> void set_value(V&&... v) && noexcept {
        into->emplace(std::forward<V>(v)...);
        self->arrived();
      }
      void set_error(std::exception_ptr e) && noexcept {
        {
          std::lock_guard const lock(self->mutex);
          self->error = std::move(e);
        }
        self->source.request_stop();
        self->arrived();
      }
      void set_stopped() && noexcept {
        self->source.request_stop();
        self->arrived();
      }
      [[nodiscard]] env get_env() const noexcept {
        return {{get_stop_token, self->source.get_token()}, execution::get_env(self->receiver)};
      }
    };
    struct pass_on {
      inplace_stop_source* source;
      void operator()() const noexcept { source->request_stop(); }
    };

    R receiver;
    inplace_stop_source source;
    std::mutex mutex;
    int left = 2;
    std::exception_ptr error;
    std::optional<values_of_t<A, env>> of_a;
    std::optional<values_of_t<B, env>> of_b;
    std::optional<stop_callback_for_t<stop_token_of_t<env_of_t<R>>, pass_on>> from_outside;
    connect_result_t<A, member_receiver<A>> operation_a;
    connect_result_t<B, member_receiver<B>> operation_b;

    operation(A&& a, B&& b, R&& r)
        : receiver(std::move(r)),
          operation_a(execution::connect(std::move(a), member_receiver<A>{this, &of_a})),
          operation_b(execution::connect(std::move(b), member_receiver<B>{this, &of_b})) {}
    operation(operation&&) = delete;
    void start() & noexcept {
      from_outside.emplace(get_stop_token(execution::get_env(receiver)), pass_on{&source});
      execution::start(operation_a);
      execution::start(operation_b); // `left` is 2 until then: this object is there
    }
    void arrived() noexcept {
      {
        std::lock_guard const lock(mutex);
        if (--left != 0) return;
      }
      from_outside.reset();
      if (error != nullptr) return execution::set_error(std::move(receiver), std::move(error));
      if (!of_a || !of_b) return execution::set_stopped(std::move(receiver));
      std::apply([this](auto&&... v) { execution::set_value(std::move(receiver), std::move(v)...); },
                 std::tuple_cat(*std::move(of_a), *std::move(of_b)));
    }
  };

  template <class Env> auto get_completion_signatures(Env&&) const {
    using env = joined_env<prop<get_stop_token_t, inplace_stop_token>, std::remove_cvref_t<Env>>;
    return typename completing_with<decltype(std::tuple_cat(std::declval<values_of_t<A, env>>(),
                                                            std::declval<values_of_t<B, env>>()))>::type();
  }
  template <class R> operation<R> connect(R r) && {
    return operation<R>(std::move(a), std::move(b), std::move(r));
  }
};
template <sender A, sender B> when_all_sender<std::decay_t<A>, std::decay_t<B>> when_all(A&& a, B&& b) {
  return {std::forward<A>(a), std::forward<B>(b)};
}

// ---- waiting ---------------------------------------------------------------------------------------------

/// A queue that one thread runs.
class run_loop {
 public:
  struct item {
    void (*execute)(item*) noexcept;
  };
  class scheduler;
  [[nodiscard]] scheduler get_scheduler() noexcept;
  void push(item* i) noexcept {
    std::lock_guard const lock(mutex_);
    items_.push_back(i);
    changed_.notify_all();
  }
  void finish() noexcept {
    std::lock_guard const lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  }
  void run() noexcept {
    for (;;) {
      item* next = nullptr;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return finishing_ || !items_.empty(); });
        if (items_.empty()) return;
        next = items_.front();
        items_.pop_front();
      }
      next->execute(next);
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<item*> items_;
  bool finishing_ = false;
};

class run_loop::scheduler {
  struct env {
    run_loop* loop;
    template <class Completion> scheduler query(get_completion_scheduler_t<Completion>) const noexcept {
      return scheduler(loop);
    }
  };
  struct schedule_sender {
    using sender_concept = sender_t;
    run_loop* loop;
    template <class R> struct operation : item {
      using operation_state_concept = operation_state_t;
      run_loop* loop;
      R receiver;
      operation(run_loop* l, R r) : item{&run}, loop(l), receiver(std::move(r)) {}
      operation(operation&&) = delete;
      static void run(item* i) noexcept { set_value(std::move(static_cast<operation*>(i)->receiver)); }
      void start() & noexcept { loop->push(this); }
    };
    template <class Env> auto get_completion_signatures(Env&&) const {
      return completion_signatures<set_value_t()>();
    }
    template <class R> operation<R> connect(R r) const { return operation<R>(loop, std::move(r)); }
    [[nodiscard]] env get_env() const noexcept { return {loop}; }
  };

 public:
  using scheduler_concept = scheduler_t;
  explicit scheduler(run_loop* loop) noexcept : loop_(loop) {}
  [[nodiscard]] schedule_sender schedule() const noexcept { return {loop_}; }
  bool operator==(scheduler const&) const = default;

 private:
  run_loop* loop_;
};
inline run_loop::scheduler run_loop::get_scheduler() noexcept { return scheduler(this); }

struct sync_wait_env {
  run_loop* loop;
  [[nodiscard]] auto query(get_scheduler_t) const noexcept { return loop->get_scheduler(); }
  [[nodiscard]] auto query(get_delegation_scheduler_t) const noexcept { return loop->get_scheduler(); }
};

template <class Values> struct sync_wait_state {
  run_loop loop;
  std::optional<Values> value;
  std::exception_ptr error;
};
template <class Values> struct sync_wait_receiver {
  using receiver_concept = receiver_t;
  sync_wait_state<Values>* state;
  template <class... V> void set_value(V&&... v) && noexcept {
    state->value.emplace(std::forward<V>(v)...);
    state->loop.finish();
  }
  void set_error(std::exception_ptr e) && noexcept {
    state->error = std::move(e);
    state->loop.finish();
  }
  void set_stopped() && noexcept { state->loop.finish(); }
  [[nodiscard]] sync_wait_env get_env() const noexcept { return {&state->loop}; }
};

/// As the standard's: runs nothing but its own loop.
inline constexpr struct sync_wait_t {
  template <sender S> auto operator()(S&& s) const {
    using values = values_of_t<std::decay_t<S>, sync_wait_env>;
    sync_wait_state<values> state;
    auto operation = connect(std::decay_t<S>(std::forward<S>(s)), sync_wait_receiver<values>{&state});
    start(operation);
    state.loop.run();
    if (state.error != nullptr) std::rethrow_exception(state.error);
    return std::move(state.value);
  }
} sync_wait;

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
