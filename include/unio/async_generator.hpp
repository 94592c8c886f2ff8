// unio/async_generator.hpp: a sequence whose coroutine may wait.
//
//   async_generator<T>   a coroutine that yields and awaits
//   next()               the next item, awaited
//
//   while (std::string* line = co_await lines.next()) …

#pragma once

#include <unio/generator.hpp>

#include <coroutine>
#include <utility>

namespace unio {

template <class T> class async_generator;

namespace detail {
struct async_generator_state;
template <class T, bool Tail> class async_generator_promise;
template <class T> class next_awaitable;
} // namespace detail

/// A coroutine that yields items to the coroutine that asks for them, and may await in between. It begins
/// when it is asked for the first item, and computes nothing ahead.
///
/// Items          as those of generator: of async_generator<T> the consumer may move, of async_generator<T
///                const&> it sees what is yielded. An item lives until the next one is asked for
/// Resumes        where the asking coroutine runs, with that coroutine's environment and stop token, until
///                the item is there. Another coroutine, elsewhere, may ask for the next item
/// Errors         an exception that leaves it is thrown by next(), and ends the sequence
/// Destruction    on the thread that it runs on: before the first item, after an item, or while it waits for
///                an operation, which is cancelled and its multiplexer driven until it has finished.
///                Destroying a coroutine that waits in next() destroys the generator's coroutine too, and
///                leaves the generator empty
/// Thread safety  distinct: safe; shared: no
/// Moved-from     empty: may be assigned to and destroyed. Not to be moved while next() is awaited
/// Cost           one frame from the pool; an item costs two transfers, and nothing on the heap
/// Size           8 bytes
/// Source         cppcoro's async_generator; *Coroutine-first asynchronous I/O* §6
template <class T> class [[nodiscard]] async_generator {
  using handle = std::coroutine_handle<detail::async_generator_state>;

 public:
  using promise_type = detail::async_generator_promise<T, UNIO_TAIL_CALLS>;

  async_generator() = default;
  async_generator(async_generator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  async_generator& operator=(async_generator&& other) noexcept {
    if (this != &other) {
      destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~async_generator() { destroy(); }

  explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

  /// The next item: `co_await g.next()` is its address, null at the end, and again null if it is asked after
  /// that.
  ///
  /// Throws         what leaves the coroutine, once
  /// Preconditions  not empty; one coroutine at a time asks; it has an environment, as a task has
  /// Cancellation   the coroutine sees the stop token of the coroutine that asks, and decides what to do:
  ///                end, yield what it has, or continue
  [[nodiscard]] detail::next_awaitable<T> next() noexcept { return detail::next_awaitable<T>(handle_); }

 private:
  template <class, bool> friend class detail::async_generator_promise;
  explicit async_generator(handle h) noexcept : handle_(h) {}
  void destroy() noexcept;
  handle handle_;
};

} // namespace unio

#include <unio/detail/async_generator.hpp>
