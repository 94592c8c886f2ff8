// unio/executor.hpp: where coroutines and posted work run.
//
//   work              a node that can be queued without allocating
//   resumption        the node that resumes a coroutine
//   is_executor       dispatch · post · ==
//   executor_ref      any executor, in two words
//   inline_executor   here and now
//   environment       what a chain of coroutines inherits: executor, stop token, multiplexer, frame allocator
//
// A coroutine returns the result of dispatch() from await_suspend; other code resumes it:
// `ex.dispatch(r).resume()`.

#pragma once

#include <unio/config.hpp>
#include <unio/stop_token.hpp>

#include <concepts>
#include <coroutine>

namespace unio::inline v0_1 {

class io_multiplexer;
class executor_ref;
class inline_executor;
class frame_allocator;
struct environment;
namespace detail {
template <class E> struct erased_executor;
}

/// A node that an executor or a multiplexer runs later. Derive from it; it must live until it has run.
///
/// Thread safety  may be posted from any thread; is in at most one queue at a time
class work {
 public:
  using function = void (*)(work&, bool run) noexcept;
  /// `f(*this, true)` runs it; `f(*this, false)` is called instead if the multiplexer ends first.
  explicit work(function f) noexcept : function_(f) {}

  void operator()(bool run = true) noexcept { function_(*this, run); }

  work* next = nullptr; ///< for the queue that holds it

 private:
  function function_;
};

/// Work that resumes a coroutine. It lives in the coroutine's frame, in what it awaits. If its multiplexer
/// ends first, the chain of coroutines that it belongs to is destroyed.
class resumption : public work {
 public:
  explicit resumption(std::coroutine_handle<> h = {}, environment const* e = nullptr) noexcept
      : work(&invoke), handle_(h), environment_(e) {}
  [[nodiscard]] std::coroutine_handle<> handle() const noexcept { return handle_; }
  /// Takes it back from the queue, because its coroutine is being destroyed. Preconditions: it was given to
  /// dispatch() or post() of `e`, its coroutine has not been resumed; on the thread that `e` uses. Cost: of
  /// withdraw().
  UNIO_API void take_back(executor_ref e) noexcept;
  /// So that an executor whose dispatch() takes a coroutine handle qualifies too.
  operator std::coroutine_handle<>() const noexcept { return handle_; } // NOLINT: implicit on purpose

 private:
  UNIO_API static void invoke(work& w, bool run) noexcept;
  std::coroutine_handle<> handle_; // null: its multiplexer has ended
  environment const* environment_;
};

/// Where coroutines and work run. Cheap to copy; copies are equal and stand for the same place.
///
///   dispatch(r)   if `r` may run here and now: returns r.handle(), which the caller resumes or returns from
///                 await_suspend. Otherwise posts `r` and returns std::noop_coroutine()
///   post(w)       runs `w` later, never inside this call; from any thread; allocates nothing
///   ==            the same place: work of one may run on the other without dispatching
///
/// It may also offer `io_multiplexer* multiplexer() const`, which then runs the I/O of its coroutines;
/// `bool withdraw(work&) const`, which takes back posted work that has not run: without it a coroutine that
/// is about to be resumed cannot be destroyed. As post() for what is new, and need not wait for what was
/// posted before: `spawn(w)`, for a task of its own, and `fork(w)`, for a part of the one that runs. Without
/// them post() is called.
///
/// Source  *Coroutine-first asynchronous I/O* §4
template <class E>
concept is_executor = std::copy_constructible<E> && std::equality_comparable<E> &&
                      requires(E const& e, resumption& r, work& w) {
                        { e.dispatch(r) } -> std::convertible_to<std::coroutine_handle<>>;
                        e.post(w);
                      };

/// A reference to any executor. Default: none.
///
/// Lifetime       the executor outlives it; at the root of a chain of coroutines it is owned (async_run)
/// Thread safety  distinct and shared: safe
/// Size           16 bytes
class executor_ref {
 public:
  struct operations {
    std::coroutine_handle<> (*dispatch)(void const*, resumption&) noexcept;
    void (*post)(void const*, work&) noexcept;
    bool (*withdraw)(void const*, work&) noexcept;
    bool (*equals)(void const*, void const*) noexcept;
    io_multiplexer* (*multiplexer)(void const*) noexcept;
    void (*spawn)(void const*, work&) noexcept;
    void (*fork)(void const*, work&) noexcept;
    bool has_turns = true; ///< post() queues; false: it runs the work at once
    bool is_strand = false;
  };

  executor_ref() = default;
  template <class E>
    requires(!std::same_as<E, executor_ref> && is_executor<E>)
  executor_ref(E const& e) noexcept
      : operations_(&detail::erased_executor<E>::operations), executor_(&e) {} // NOLINT: implicit
  executor_ref(operations const& o, void const* executor) noexcept : operations_(&o), executor_(executor) {}

  explicit operator bool() const noexcept { return operations_ != nullptr; }
  [[nodiscard]] std::coroutine_handle<> dispatch(resumption& r) const noexcept {
    return operations_->dispatch(executor_, r);
  }
  void post(work& w) const noexcept { operations_->post(executor_, w); }
  void spawn(work& w) const noexcept { operations_->spawn(executor_, w); }
  void fork(work& w) const noexcept { operations_->fork(executor_, w); }
  /// Takes back posted, spawned or forked work. False: it has run, or is about to run on another thread.
  bool withdraw(work& w) const noexcept { return operations_->withdraw(executor_, w); }
  /// The multiplexer that runs the I/O of its coroutines; null: the thread's own.
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept { return operations_->multiplexer(executor_); }
  /// Whether other work runs before what is posted. False for inline_executor.
  [[nodiscard]] bool has_turns() const noexcept { return operations_->has_turns; }
  [[nodiscard]] bool is_strand() const noexcept { return operations_->is_strand; }
  bool operator==(executor_ref const& other) const noexcept;

 private:
  operations const* operations_ = nullptr;
  void const* executor_ = nullptr;
};

/// Runs everything at once, on the calling thread: for tests, and for coroutines that resume on the thread
/// that completes what they await.
///
/// Thread safety  distinct and shared: safe
class inline_executor {
 public:
  [[nodiscard]] std::coroutine_handle<> dispatch(resumption& r) const noexcept { return r.handle(); }
  void post(work& w) const noexcept { w(); }
  [[nodiscard]] bool withdraw(work&) const noexcept { return false; } // nothing ever waits
  bool operator==(inline_executor const&) const = default;
};

/// What a chain of coroutines runs with. Owned by the root of the chain, and by each coroutine that changes a
/// part of it for those below (run_on, timeout, when_all); the coroutines below refer to it.
///
/// Thread safety  distinct: safe; shared: any number of readers
struct environment {
  executor_ref executor;                 ///< where its coroutines run
  stop_token stop;                       ///< whether they were asked to end
  io_multiplexer* multiplexer = nullptr; ///< runs the I/O of handles that have none; null: the thread's own
  frame_allocator* frames = nullptr;     ///< for coroutines with this as a parameter; null: the pool
  /// Called without being run: destroys the chain from its root, once it can no longer be resumed. Null: it
  /// has no owner.
  work* root = nullptr;

  /// Coroutines with a parameter `environment const&` take their frames from `frames`.
  [[nodiscard]] frame_allocator* get_frame_allocator() const noexcept { return frames; }
};

} // namespace unio

#include <unio/detail/executor.hpp>
