// unio/generator.hpp: a sequence that is computed item by item.
//
//   generator<T>   a coroutine that yields; an input range
//
// For coroutines that await something see unio/async_generator.hpp.

#pragma once

#include <unio/frames.hpp>

#include <coroutine>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace unio {

template <class T> class generator;

namespace detail {
template <class T> struct yielding;
template <class T> class generator_promise;
} // namespace detail

/// A coroutine that yields items to the loop that iterates over it, on the loop's thread. It starts at
/// begin(), computes each item when it is needed, and may be endless.
///
///   unio::generator<int> below(int n) { for (int i = 0; i < n; ++i) co_yield i; }
///   for (int i : below(10)) …
///
/// Items          of generator<T> are T&&, as of std::generator: they may be moved from, and an lvalue that
///                is yielded is copied first. generator<T&> and generator<T const&> refer to what is yielded
///                and copy nothing. An item lives until the iterator moves on
/// Errors         an exception that leaves the coroutine is thrown by begin() or ++, and ends the sequence
/// Destruction    at any time: destroys what the coroutine holds
/// Thread safety  distinct: safe; shared: no. Another thread may continue it
/// Moved-from     empty: may be assigned to and destroyed
/// Cost           one frame from the pool, or from the allocator of one of its first two parameters
///                (unio/frames.hpp)
/// Size           8 bytes
/// Source         CppCon 2015, *Coroutines*; std::generator
template <class T> class [[nodiscard]] generator {
  using handle = std::coroutine_handle<detail::generator_promise<T>>;

 public:
  using promise_type = detail::generator_promise<T>;

  /// An input iterator, which is moved and not copied.
  class iterator {
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

  generator() = default;
  generator(generator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  generator& operator=(generator&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~generator() {
    if (handle_) handle_.destroy();
  }

  /// Runs the coroutine to its first item. Preconditions: once, and not of an empty generator.
  iterator begin() {
    UNIO_EXPECTS(handle_ != nullptr, "an empty generator was iterated over");
    UNIO_EXPECTS(!handle_.done() && handle_.promise().item() == nullptr,
                 "a generator can be iterated over once");
    handle_.promise().advance(handle_);
    return iterator(handle_);
  }
  [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

 private:
  friend promise_type;
  explicit generator(handle h) noexcept : handle_(h) {}
  handle handle_;
};

} // namespace unio

#include <unio/detail/generator.hpp>
