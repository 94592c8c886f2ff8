// unio/detail/generator.hpp: the promise of a generator.

#pragma once

#include <unio/generator.hpp>

#include <exception>

namespace unio::inline v0_1::detail {

[[noreturn]] UNIO_API void rethrow(std::exception_ptr e);

/// What `co_yield` of a generator of T takes, and how: the yielded object lies in the coroutine's frame, and
/// its address is passed on. An lvalue yielded by a sequence of values is copied, so that the consumer cannot
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
  template <class A> void await_transform(A&&) = delete; // nothing would resume it: see async_generator

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

namespace unio::inline v0_1 {

template <class T> class generator<T>::iterator {
 public:
  using value_type = std::remove_cvref_t<T>;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::input_iterator_tag;

  iterator(iterator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  iterator& operator=(iterator&& other) noexcept {
    handle_ = std::exchange(other.handle_, nullptr);
    return *this;
  }
  ~iterator() = default;
  typename detail::yielding<T>::reference operator*() const noexcept {
    return static_cast<typename detail::yielding<T>::reference>(*handle_.promise().item());
  }
  iterator& operator++() {
    handle_.promise().advance(handle_);
    return *this;
  }
  void operator++(int) { ++*this; }
  friend bool operator==(iterator const& i, std::default_sentinel_t) noexcept { return i.handle_.done(); }

 private:
  friend class generator;
  explicit iterator(handle h) noexcept : handle_(h) {}
  handle handle_;
};

template <class T> inline generator<T>& generator<T>::operator=(generator&& other) noexcept {
  if (this != &other) {
    if (handle_) handle_.destroy();
    handle_ = std::exchange(other.handle_, nullptr);
  }
  return *this;
}
template <class T> inline generator<T>::~generator() {
  if (handle_) handle_.destroy();
}

template <class T> inline typename generator<T>::iterator generator<T>::begin() {
  UNIO_EXPECTS(static_cast<bool>(handle_), "an empty generator was iterated over");
  UNIO_EXPECTS(!handle_.done() && handle_.promise().item() == nullptr,
               "a generator can be iterated over once");
  handle_.promise().advance(handle_);
  return iterator(handle_);
}

} // namespace unio
