// unio/strand.hpp: runs coroutines one at a time.
//
//   strand<Executor>   runs on any executor, but never two of its coroutines or works at once
//
//   unio::strand s{pool.executor()};
//   unio::async_run(s, first());
//   unio::async_run(s, second()); // what they share needs no lock

#pragma once

#include <unio/detail/strand.hpp>

namespace unio::inline v0_1 {

/// Runs its coroutines and works on another executor, one after the other in the order in which they were
/// posted, on any thread of that executor. Data that only they use needs no lock.
///
///   dispatch(r)   runs at once if the calling thread is running this strand, otherwise posts
///   post(w)       one atomic exchange; if the strand was idle, a post to the inner executor as well
///
/// Thread safety  distinct and shared: safe. withdraw() inside it, or while no thread posts to it
/// Fairness       after 64 in a row the strand yields to the inner executor. A coroutine that comes back from
///                a run_on() here is posted to its own executor: it does not keep the strand
/// Lifetime       copies share one state, which lives until the last copy is gone and its queue is empty. The
///                inner executor is copied; what it refers to must outlive the strand. If the inner executor
///                ends first, so do the coroutines that are queued
/// Cost           one block from the frame pool for all copies; no allocation afterwards, no lock
/// Size           8 bytes
/// Source         *Coroutine-first asynchronous I/O* §4.2
template <is_executor Executor> class strand {
 public:
  /// A new one. (`strand(s)` of a strand is a copy; one inside another is a `strand<strand<…>>`.)
  ///
  /// Throws  std::bad_alloc
  // Not for a strand: whether that is an executor_ref, say, is not to depend on whether it can be copied.
  template <class E>
    requires(!std::same_as<std::remove_cvref_t<E>, strand>) && std::convertible_to<E, Executor>
  explicit strand(E&& inner) : state_(new block(std::forward<E>(inner))) {}
  strand(strand const& other) noexcept : state_(other.state_) { state_->share(); }
  strand& operator=(strand const& other) noexcept {
    other.state_->share();
    std::exchange(state_, other.state_)->release();
    return *this;
  }
  ~strand() { state_->release(); }

  [[nodiscard]] std::coroutine_handle<> dispatch(resumption& r) const noexcept { return state_->dispatch(r); }
  void post(work& w) const noexcept { state_->push(w); }
  [[nodiscard]] bool withdraw(work& w) const noexcept { return state_->remove(w); }
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept { return state_->runs_on().multiplexer(); }
  /// Whether the calling thread is running it: then dispatch() does not post.
  [[nodiscard]] bool running_in_this_thread() const noexcept { return state_->runs_here(); }
  [[nodiscard]] Executor const& inner_executor() const noexcept { return state_->inner; }
  bool operator==(strand const& other) const noexcept { return state_ == other.state_; }

 private:
  using block = detail::strand_block<Executor>;
  block* state_;
};

template <is_executor Executor> strand(Executor) -> strand<Executor>;

} // namespace unio
