// unio/async_generator.hpp: a sequence whose coroutine may await.
//
//   async_generator<T>   a coroutine that yields and awaits
//   co_next()            the next item, awaited
//
//   while (std::string* line = co_await lines.co_next()) …

#pragma once

#include <unio/generator.hpp>

namespace unio::inline v0_1 {

template <class T> class async_generator;

namespace detail {
struct async_generator_state;
template <class T, bool Tail> class async_generator_promise;
template <class T> class next_awaitable;
} // namespace detail

/// A coroutine that yields items to the coroutine that asks for them, and may await in between. It begins
/// with the first co_next(), and computes nothing ahead.
///
/// Items          as of generator<T> and generator<T const&>: the consumer may move from the former. An item
///                lives until the next one is asked for
/// Resumes        where the asking coroutine runs, with its environment and stop token, until the item is
///                there. Another coroutine, on another executor, may ask for the next item
/// Environment    what `co_await this_coro::environment` and `this_coro::stop_token` yield stays valid from
///                item to item, so a task_group may be held over a co_yield. It says that a stop was
///                requested if the coroutine that asks, or asked last, was asked to stop. A group's executor
///                is that of the coroutine that asked when the group was made: its root (run, async_run) has
///                to outlive the group
/// Errors         co_next() throws an exception that leaves the coroutine; the sequence has then ended
/// Destruction    on the thread it runs on: before the first item, after an item, or while it awaits an
///                operation, which is cancelled and its multiplexer driven until it has finished. Destroying
///                a coroutine suspended in co_next() also destroys the generator's coroutine and leaves it
///                empty
/// Thread safety  distinct: safe; shared: no
/// Moved-from     empty: may be assigned to and destroyed. Must not be moved while co_next() is awaited
/// Cost           one frame from the pool, and a block once it asks for its environment or stop token; two
///                transfers and no heap allocation per item
/// Size           8 bytes
/// Source         cppcoro's async_generator; *Coroutine-first asynchronous I/O* §6
template <class T> class [[nodiscard]] async_generator {
  using handle = std::coroutine_handle<detail::async_generator_state>;

 public:
  using promise_type = detail::async_generator_promise<T, UNIO_TAIL_CALLS>;

  async_generator() = default;
  async_generator(async_generator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  async_generator& operator=(async_generator&& other) noexcept;
  ~async_generator() { destroy(); }

  explicit operator bool() const noexcept { return static_cast<bool>(handle_); }

  /// `co_await g.co_next()` is the address of the next item, or null at the end and ever after.
  ///
  /// Throws         what leaves the coroutine, once
  /// Preconditions  not empty; one coroutine at a time asks; it has an environment, as a task has
  /// Cancellation   the coroutine sees the stop token of the asking one and decides: end, yield, or continue
  [[nodiscard]] detail::next_awaitable<T> co_next() noexcept { return detail::next_awaitable<T>(handle_); }
  /// As co_next(), of which it is the old name.
  [[deprecated("use co_next"), nodiscard]] detail::next_awaitable<T> next() noexcept { return co_next(); }

 private:
  template <class, bool> friend class detail::async_generator_promise;
  explicit async_generator(handle h) noexcept : handle_(h) {}
  void destroy() noexcept;
  handle handle_;
};

} // namespace unio

#include <unio/detail/async_generator.hpp>
