// unio/detail/executor.hpp: what an executor_ref refers to.

#pragma once

#include <unio/executor.hpp>

namespace unio::inline v0_1 {

template <is_executor Executor> class strand;

namespace detail {

template <class E> void spawn(E const& executor, work& w) noexcept {
  if constexpr (requires { executor.spawn(w); }) {
    executor.spawn(w);
  } else {
    executor.post(w);
  }
}

template <class E> void fork(E const& executor, work& w) noexcept {
  if constexpr (requires { executor.fork(w); }) {
    executor.fork(w);
  } else {
    executor.post(w);
  }
}

template <class E> inline constexpr bool is_strand = false;
template <class E> inline constexpr bool is_strand<strand<E>> = true;

/// The functions of a type-erased executor.
template <class E> struct erased_executor {
  static std::coroutine_handle<> dispatch(void const* e, resumption& r) noexcept {
    return static_cast<E const*>(e)->dispatch(r);
  }
  static void post(void const* e, work& w) noexcept { static_cast<E const*>(e)->post(w); }
  static void spawn(void const* e, work& w) noexcept { detail::spawn(*static_cast<E const*>(e), w); }
  static void fork(void const* e, work& w) noexcept { detail::fork(*static_cast<E const*>(e), w); }
  static bool withdraw(void const* e, work& w) noexcept {
    if constexpr (requires(E const& ex) { ex.withdraw(w); }) {
      return static_cast<E const*>(e)->withdraw(w);
    } else {
      UNIO_EXPECTS(
          false, "a coroutine was destroyed that its executor is about to resume, and cannot be told not to");
    }
  }
  static bool equal(void const* a, void const* b) noexcept {
    return *static_cast<E const*>(a) == *static_cast<E const*>(b);
  }
  static io_multiplexer* multiplexer(void const* e) noexcept {
    if constexpr (requires(E const& ex) { ex.multiplexer(); }) {
      return static_cast<E const*>(e)->multiplexer();
    } else {
      return nullptr;
    }
  }
  static constexpr executor_ref::operations operations{
      &dispatch,   &post, &withdraw, &equal, &multiplexer, &spawn, &fork, !std::same_as<E, inline_executor>,
      is_strand<E>};
};

} // namespace detail
} // namespace unio

inline bool unio::executor_ref::operator==(executor_ref const& other) const noexcept {
  return operations_ == other.operations_ &&
         (executor_ == other.executor_ || operations_->equals(executor_, other.executor_));
}
