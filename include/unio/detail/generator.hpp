// unio/detail/generator.hpp: the promise of a generator.

#pragma once

#include <unio/generator.hpp>

#include <concepts>
#include <coroutine>
#include <exception>
#include <type_traits>
#include <utility>

namespace unio::detail {

[[noreturn]] UNIO_API void rethrow(std::exception_ptr e);

/// What `co_yield` of a generator of T takes, and how: what is yielded lies in the coroutine's frame, and its
/// address is handed on. An lvalue yielded by a sequence of values is copied, so that the consumer cannot
/// move from the coroutine's own object.
template <class T> struct yielding {
  using reference = std::conditional_t<std::is_reference_v<T>, T, T&&>;
  using value = std::remove_cvref_t<T>;
  using pointer = std::remove_reference_t<T>*;
  static constexpr bool copies_lvalues =
      std::is_rvalue_reference_v<reference> &&
      std::constructible_from<value, std::remove_reference_t<reference> const&>;
};

template <class T> class generator_promise : public frame_memory {
  using types = yielding<T>;
  using pointer = typename types::pointer;

 public:
  generator<T> get_return_object() noexcept;
  static std::suspend_always initial_suspend() noexcept { return {}; }
  static std::suspend_always final_suspend() noexcept { return {}; }

  std::suspend_always yield_value(typename types::reference item) noexcept {
    item_ = __builtin_addressof(item);
    return {};
  }
  auto yield_value(std::remove_reference_t<T> const& item)
    requires types::copies_lvalues
  {
    struct copied : std::suspend_always {
      explicit copied(std::remove_reference_t<T> const& from) : copy(from) {}
      void await_suspend(std::coroutine_handle<generator_promise> h) noexcept {
        h.promise().item_ = __builtin_addressof(copy);
      }
      typename types::value copy;
    };
    return copied(item);
  }
  static void return_void() noexcept {}
  void unhandled_exception() noexcept { exception_ = std::current_exception(); }
  template <class A> void await_transform(A&&) = delete; // nobody would resume it: see async_generator

  [[nodiscard]] pointer item() const noexcept { return item_; }
  /// Advances to the next item or the end; an exception is an end too.
  void advance(std::coroutine_handle<generator_promise> self) {
    self.resume();
    if (self.done() && exception_ != nullptr) [[unlikely]]
      rethrow(std::exchange(exception_, nullptr));
  }

 private:
  pointer item_ = nullptr;
  std::exception_ptr exception_;
};

template <class T> generator<T> generator_promise<T>::get_return_object() noexcept {
  return generator<T>(std::coroutine_handle<generator_promise>::from_promise(*this));
}

} // namespace unio::detail
