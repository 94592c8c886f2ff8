// unio/detail/asio_use_task.hpp: an operation of Asio's in a task of unio's.
//
//   asio_task_executor     the executor of a task of unio's, as Asio's handlers have one
//   asio_task_awaitable    what use_task makes of an operation
//   asio_redirected        the initiation of an operation whose error redirect_error() puts elsewhere

#pragma once

#include <unio/asio.hpp>
#include <unio/detail/away.hpp>
#include <unio/detail/sender_wait.hpp>
#include <unio/frames.hpp>

#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

/// See the top of the file.
class asio_task_executor {
 public:
  /// Its handlers may be called inside of others, as whatever a multiplexer delivers.
  using nests_in_handlers = void;
  template <std::same_as<executor_ref> E> explicit asio_task_executor(E e) noexcept : executor_(e) {}
  template <class F> void execute(F&& f) const {
    if (!is_never_blocking_ && is_here()) {
      std::decay_t<F> here(static_cast<F&&>(f));
      return here();
    }
    executor_.post(*new posted<std::decay_t<F>>(static_cast<F&&>(f)));
  }
  [[nodiscard]] asio_task_executor require(net::execution::blocking_t::possibly_t) const noexcept {
    return asio_task_executor(executor_, false);
  }
  [[nodiscard]] asio_task_executor require(net::execution::blocking_t::never_t) const noexcept {
    return asio_task_executor(executor_, true);
  }
  [[nodiscard]] net::execution::blocking_t query(net::execution::blocking_t) const noexcept {
    if (is_never_blocking_) return net::execution::blocking.never;
    return net::execution::blocking.possibly;
  }
  [[nodiscard]] static net::execution_context& query(net::execution::context_t) noexcept {
    return net::query(net::system_executor(), net::execution::context);
  }
  friend bool operator==(asio_task_executor const& a, asio_task_executor const& b) noexcept {
    return a.executor_ == b.executor_ && a.is_never_blocking_ == b.is_never_blocking_;
  }
  friend bool operator!=(asio_task_executor const& a, asio_task_executor const& b) noexcept {
    return !(a == b);
  }

 private:
  template <class F> struct posted final : work, pooled_frames {
    template <class G> explicit posted(G&& g) : work(&invoke), f(static_cast<G&&>(g)) {}
    static void invoke(work& w, bool run) noexcept {
      std::unique_ptr<posted> self(static_cast<posted*>(&w));
      F f(std::move(self->f));
      self.reset();
      if (run) f();
    }
    F f;
  };
  asio_task_executor(executor_ref e, bool is_never_blocking) noexcept
      : executor_(e), is_never_blocking_(is_never_blocking) {}
  [[nodiscard]] bool is_here() const noexcept {
    io_multiplexer* const m = executor_.multiplexer();
    if (m == nullptr || m->run_by() != io_multiplexer::runner::this_thread) return false;
    multiplexer_executor const own(*m);
    return executor_ == executor_ref(own);
  }
  executor_ref executor_;
  bool is_never_blocking_ = false;
};

/// Cancels an operation of Asio's on the executor of the task, where its handlers are called.
class asio_emitter {
 public:
  explicit asio_emitter(executor_ref e) noexcept : executor_(e) {}
  [[nodiscard]] net::cancellation_slot slot() noexcept { return signal_.slot(); }
  static void emit(std::shared_ptr<asio_emitter> const& self) noexcept {
    self->executor_.execute([self] {
      std::lock_guard const held(self->mutex_); // of several threads; emitting may call the handler
      if (!self->has_ended_) self->signal_.emit(net::cancellation_type_t::all);
    });
  }
  void end() noexcept {
    std::lock_guard const held(mutex_);
    has_ended_ = true;
  }

 private:
  asio_task_executor executor_;
  std::recursive_mutex mutex_;
  net::cancellation_signal signal_;
  bool has_ended_ = false;
};

/// What co_await of use_task yields for a signature.
template <class... T> struct asio_awaited_values {
  using type = std::tuple<T...>;
};
template <class T> struct asio_awaited_values<T> {
  using type = T;
};
template <> struct asio_awaited_values<> {
  using type = void;
};
template <class... T> struct asio_awaited {
  using type = typename asio_awaited_values<T...>::type;
  static type of(std::tuple<T...>&& v) {
    if constexpr (sizeof...(T) == 1) {
      return std::get<0>(std::move(v));
    } else if constexpr (sizeof...(T) > 1) {
      return std::move(v);
    }
  }
  [[noreturn]] static type canceled() { rethrow(canceled_exception()); }
};
template <class... T> struct asio_awaited<std::exception_ptr, T...> : asio_awaited<T...> {
  static typename asio_awaited<T...>::type of(std::tuple<std::exception_ptr, T...>&& v) {
    if (std::get<0>(v) != nullptr) rethrow(std::get<0>(std::move(v)));
    return std::apply(
        [](auto&, auto&... t) { return asio_awaited<T...>::of(std::tuple<T...>(std::move(t)...)); }, v);
  }
};
template <class... T> struct asio_awaited<asio_error_code, T...> {
  using type = result<typename asio_awaited_values<T...>::type>;
  static type of(std::tuple<asio_error_code, T...>&& v) {
    if (std::get<0>(v)) return std::error_code(std::get<0>(v));
    if constexpr (sizeof...(T) == 0) {
      return {};
    } else {
      return std::apply(
          [](auto&, auto&... t) { return type(asio_awaited<T...>::of(std::tuple<T...>(std::move(t)...))); },
          v);
    }
  }
  static type canceled() {
    return std::error_code(net::error::make_error_code(net::error::operation_aborted));
  }
};

/// An operation of Asio's that begins when it is awaited. `Initiate` is called with the handler.
template <class Initiate, class... T> class UNIO_TO_AWAIT asio_task_awaitable : away {
  using awaited = asio_awaited<T...>;

  struct emits {
    std::shared_ptr<asio_emitter> to;
    void operator()() const noexcept { asio_emitter::emit(to); }
  };

 public:
  class handler {
   public:
    using executor_type = asio_task_executor;
    using cancellation_slot_type = net::cancellation_slot;
    handler(asio_task_awaitable* a, executor_ref e, std::shared_ptr<asio_emitter> emitter) noexcept
        : awaitable_(a), executor_(e), emitter_(std::move(emitter)) {}
    handler(handler&& other) noexcept
        : awaitable_(std::exchange(other.awaitable_, nullptr)),
          executor_(other.executor_),
          emitter_(std::move(other.emitter_)) {}
    handler& operator=(handler&&) = delete;
    ~handler() {
      if (awaitable_ != nullptr) end();
    }
    [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
    [[nodiscard]] cancellation_slot_type get_cancellation_slot() const noexcept {
      return emitter_ != nullptr ? emitter_->slot() : cancellation_slot_type();
    }
    template <class... Arguments> void operator()(Arguments&&... arguments) {
      try {
        awaitable_->values_.emplace(static_cast<Arguments&&>(arguments)...);
      } catch (...) { // of a copy, say
        awaitable_->error_ = std::current_exception();
      }
      end();
    }

   private:
    void end() noexcept {
      if (emitter_ != nullptr) emitter_->end();
      std::exchange(awaitable_, nullptr)->completed();
    }
    asio_task_awaitable* awaitable_;
    asio_task_executor executor_;
    std::shared_ptr<asio_emitter> emitter_;
  };

  explicit asio_task_awaitable(Initiate initiate) : initiate_(std::move(initiate)) {}
  asio_task_awaitable(asio_task_awaitable&& other) : away(), initiate_(std::move(other.initiate_)) {}
  ~asio_task_awaitable() { call_back(); }

  static constexpr bool await_ready() noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) {
    std::shared_ptr<asio_emitter> emitter;
    if (e.stop.stop_possible()) emitter = std::make_shared<asio_emitter>(e.executor);
    executor_ref const executor = e.executor;
    with_ = &e;
    leave(h, e);
    try {
      handler own(this, executor, emitter); // destroyed uncalled, it ends the wait
      std::move(initiate_)(std::move(own));
      // Now that the slot has a handler: a stop may have come before.
      if (emitter != nullptr) on_stop_.emplace(stop_.get_token(), emits{emitter});
    } catch (...) {
      error_ = std::current_exception();
    }
    return state_.has_left();
  }
  typename awaited::type await_resume() {
    state_.resumed();
    on_stop_.reset();
    if (error_ != nullptr) rethrow(std::move(error_));
    if (!values_.has_value()) return awaited::canceled();
    return awaited::of(*std::move(values_));
  }

 private:
  void completed() noexcept { resume(arrive()); }

  Initiate initiate_;
  std::optional<std::tuple<std::decay_t<T>...>> values_;
  std::exception_ptr error_;
  std::optional<stop_callback<emits>> on_stop_;
};

/// Begins an operation. Its type depends on nothing else, because adapters of tokens name it beforehand.
template <class Initiation, class... Arguments> class asio_beginning {
 public:
  template <class I, class... A>
  explicit asio_beginning(std::in_place_t, I&& initiation, A&&... arguments)
      : initiation_(static_cast<I&&>(initiation)), arguments_(static_cast<A&&>(arguments)...) {}
  template <class Handler> void operator()(Handler&& h) && {
    std::apply([&](auto&... each) { std::move(initiation_)(static_cast<Handler&&>(h), std::move(each)...); },
               arguments_);
  }

 private:
  Initiation initiation_;
  std::tuple<Arguments...> arguments_;
};

/// See the top of the file.
template <class Initiation> struct asio_redirected {
  template <class Handler> struct handler : Handler {
    handler(Handler&& h, asio_error_code& e) noexcept : Handler(std::move(h)), to(&e) {}
    template <class... Values> void operator()(asio_error_code const& e, Values&&... values) {
      *to = e;
      Handler::operator()(static_cast<Values&&>(values)...);
    }
    asio_error_code* to;
  };
  template <class Handler, class... Arguments> void operator()(Handler&& h, Arguments&&... arguments) && {
    std::move(initiation)(handler<std::decay_t<Handler>>(static_cast<Handler&&>(h), *to),
                          static_cast<Arguments&&>(arguments)...);
  }
  Initiation initiation;
  asio_error_code* to;
};

} // namespace unio::detail

namespace UNIO_ASIO_NAMESPACE {

/// How Asio makes an awaitable of an operation with use_task.
template <class R, class... T> class async_result<unio::UNIO_ASIO_TAG::use_task_t, R(T...)> {
 public:
  template <class Initiation, class Token, class... Arguments>
  static auto initiate(Initiation&& initiation, Token&&, Arguments&&... arguments) {
    using begins = unio::detail::asio_beginning<std::decay_t<Initiation>, std::decay_t<Arguments>...>;
    return unio::detail::asio_task_awaitable<begins, std::decay_t<T>...>(
        begins(std::in_place, static_cast<Initiation&&>(initiation), static_cast<Arguments&&>(arguments)...));
  }
};

/// The same with redirect_error(use_task, e). Of an older Asio it names an awaitable before the operation.
template <class R, class... T>
class async_result<redirect_error_t<unio::UNIO_ASIO_TAG::use_task_t>, R(unio::asio_error_code, T...)> {
 public:
  template <class Initiation, class Token, class... Arguments>
  static auto initiate(Initiation&& initiation, Token&& token, Arguments&&... arguments) {
    using redirected = unio::detail::asio_redirected<std::decay_t<Initiation>>;
    return async_result<unio::UNIO_ASIO_TAG::use_task_t, R(T...)>::initiate(
        redirected{static_cast<Initiation&&>(initiation), &token.ec_}, unio::UNIO_ASIO_TAG::use_task,
        static_cast<Arguments&&>(arguments)...);
  }
};

} // namespace UNIO_ASIO_NAMESPACE
