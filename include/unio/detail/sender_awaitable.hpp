// unio/detail/sender_awaitable.hpp: a sender that a coroutine awaits.

#pragma once

#include <unio/detail/schedulers.hpp>
#include <unio/execution.hpp>

#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::detail {

/// The one set_value signature of a sender, as a value.
template <class Signatures> struct value_of_signatures;
template <template <class...> class List, class... Signatures>
struct value_of_signatures<List<Signatures...>> {
  template <class Signature> struct values {
    using type = std::tuple<>;
  };
  template <class... V> struct values<ex::set_value_t(V...)> {
    using type = std::tuple<std::tuple<std::decay_t<V>...>>;
  };
  using all = decltype(std::tuple_cat(std::declval<typename values<Signatures>::type>()...));
  static_assert(std::tuple_size_v<all> == 1, "a sender that is awaited has one way to succeed");
  using type = std::tuple_element_t<0, all>;
};

template <class Sender> class UNIO_TO_AWAIT sender_awaitable : sender_wait {
  struct env {
    sender_wait* wait;
    [[nodiscard]] standard_stop_token query(ex::get_stop_token_t) const noexcept { return wait->token(); }
    template <class Query>
      requires(std::same_as<Query, ex::get_scheduler_t> || std::same_as<Query, start_scheduler_t>)
    [[nodiscard]] executor_scheduler<executor_ref> query(Query) const noexcept {
      return executor_scheduler<executor_ref>(wait->executor());
    }
  };
  using values = typename value_of_signatures<ex::completion_signatures_of_t<Sender, env>>::type;

  struct receiver {
    using receiver_concept = ex::receiver_t;
    sender_awaitable* self;
    template <class... V> void set_value(V&&... v) && noexcept {
      self->error_ = exception_of([&] { self->values_.emplace(std::forward<V>(v)...); }); // of a copy, say
      self->completed();
    }
    template <class E> void set_error(E&& e) && noexcept {
      self->error_ = to_exception(std::forward<E>(e));
      self->completed();
    }
    void set_stopped() && noexcept {
      self->error_ = canceled_exception();
      self->completed();
    }
    [[nodiscard]] env get_env() const noexcept { return {self}; }
  };
  struct connected {
    ex::connect_result_t<Sender, receiver> operation;
    connected(Sender&& s, sender_awaitable* self) : operation(ex::connect(std::move(s), receiver{self})) {}
  };

 public:
  explicit sender_awaitable(Sender sender) : sender_(std::move(sender)) {}
  sender_awaitable(sender_awaitable&& other) : sender_(std::move(other.sender_)) {}
  ~sender_awaitable() { call_back(); }

  static constexpr bool await_ready() noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) {
    with_ = &e;
    operation_.emplace(std::move(sender_), this);
    leave(h, e);
    ex::start(operation_->operation);
    return state_.has_left();
  }
  auto await_resume() {
    state_.resumed();
    if (error_ != nullptr) rethrow(std::move(error_));
    if constexpr (std::tuple_size_v<values> == 1) {
      return std::get<0>(*std::move(values_));
    } else if constexpr (std::tuple_size_v<values> != 0) {
      return *std::move(values_);
    }
  }

 private:
  Sender sender_;
  std::optional<values> values_;
  std::exception_ptr error_;
  std::optional<connected> operation_; // destroyed first
};

template <ex::sender Sender> struct awaiter_in_place_of<Sender> {
  using type = sender_awaitable<Sender>;
};

template <class Sender>
using awaited_of = decltype(std::declval<sender_awaitable<std::remove_cvref_t<Sender>>&>().await_resume());
template <class Sender> task<awaited_of<Sender>> await_sender(Sender sender) {
  co_return co_await sender_awaitable<Sender>(std::move(sender));
}

} // namespace unio::detail

namespace unio::inline v0_1 {

template <class Sender>
inline detail::sender_awaitable<std::remove_cvref_t<Sender>> as_awaitable(Sender&& sender) {
  return detail::sender_awaitable<std::remove_cvref_t<Sender>>(std::forward<Sender>(sender));
}

template <class Sender>
  requires detail::only_a_sender<Sender>
auto sync_wait(Sender&& sender, run_options const& options) {
  using decayed = std::remove_cvref_t<Sender>;
  return run(detail::await_sender<decayed>(std::forward<Sender>(sender)), options);
}

} // namespace unio
