// unio/generator.hpp: a sequence that is computed item by item.
//
//   generator<T>   a coroutine that yields; an input range
//
// For coroutines that await see unio/async_generator.hpp.

#pragma once

#include <unio/frames.hpp>

#include <coroutine>
#include <iterator>
#include <utility>

namespace unio::inline v0_1 {

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
/// Items          of generator<T> are T&&, as of std::generator: they may be moved from, and a yielded lvalue
///                is copied first. generator<T&> and generator<T const&> refer to what is yielded and copy
///                nothing. An item lives until the iterator is incremented
/// Errors         an exception that leaves the coroutine is thrown by begin() or ++, and ends the sequence
/// Destruction    at any time: destroys what the coroutine holds
/// Thread safety  distinct: safe; shared: no. Another thread may continue it
/// Moved-from     empty: may be assigned to and destroyed
/// Cost           one frame from the pool or from a parameter's allocator (frames.hpp)
/// Size           8 bytes
/// Source         CppCon 2015, *Coroutines*; std::generator
template <class T> class [[nodiscard]] generator {
  using handle = std::coroutine_handle<detail::generator_promise<T>>;

 public:
  using promise_type = detail::generator_promise<T>;
  class iterator; ///< an input iterator, which is moved and not copied

  generator() = default;
  generator(generator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  generator& operator=(generator&& other) noexcept;
  ~generator();

  /// Runs the coroutine to its first item, and returns where that is; end() if there is none. Preconditions:
  /// once, and not of an empty generator.
  iterator begin();
  [[nodiscard]] static std::default_sentinel_t end() noexcept { return {}; }

 private:
  friend promise_type;
  explicit generator(handle h) noexcept : handle_(h) {}
  handle handle_;
};

} // namespace unio

#include <unio/detail/generator.hpp>
