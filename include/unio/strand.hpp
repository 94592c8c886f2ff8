// unio/strand.hpp: one at a time.
//
//   strand<Executor>   runs on any executor, but never two of its coroutines or works at once
//
//   unio::strand s{pool.executor()};
//   unio::async_run(s, first());
//   unio::async_run(s, second()); // what they share needs no lock

#pragma once

#include <unio/executor.hpp>
#include <unio/frames.hpp>

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <new>
#include <utility>

namespace unio {

namespace detail {

/// What the copies of a strand share. In no template: its queue, and whose turn it is (src/coro/strand.cpp).
class strand_state : private work {
 public:
  strand_state(strand_state const&) = delete;
  strand_state& operator=(strand_state const&) = delete;

  UNIO_API void push(work& w) noexcept;
  UNIO_API bool remove(work& w) noexcept;
  /// Whether the calling thread is running it just now.
  [[nodiscard]] UNIO_API bool runs_here() const noexcept;
  [[nodiscard]] executor_ref runs_on() const noexcept { return inner_; }
  void share() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy_(*this);
  }

 protected:
  explicit UNIO_API strand_state(void (*destroy)(strand_state&) noexcept) noexcept;
  ~strand_state() = default;
  void set_inner(executor_ref e) noexcept { inner_ = e; }

 private:
  class turn;
  static void drain(work& w, bool run) noexcept;
  void drop() noexcept;
  void post_turn() noexcept;
  bool end_if_empty() noexcept;
  work* pop() noexcept;
  work* behind(work& w) noexcept;

  work placeholder_;
  std::atomic<work*> last_{nullptr}; // null: idle
  work* first_ = nullptr;            // the runner's
  executor_ref inner_;
  void (*destroy_)(strand_state&) noexcept;
  std::atomic<std::uint32_t> owners_{1};
};

} // namespace detail

/// Runs its coroutines and works on another executor: one after the other, in the order in which they were
/// posted, on whatever thread that executor runs them. What only they use needs no lock.
///
///   dispatch(r)   goes on at once if the calling thread is running this strand, otherwise posts
///   post(w)       one atomic exchange; if the strand was idle, a post to the inner executor as well
///
/// Thread safety  distinct and shared: safe. withdraw() inside of the strand, or while nobody posts to it
/// Fairness       after 64 in a row the inner executor is given its turn
/// Lifetime       copies share one state, which lives until the last of them has gone and its queue is empty.
///                The inner executor is copied; what that stands for must outlive it. If the inner executor
///                ends first, so do the coroutines that wait for their turn
/// Cost           one block from the frame pool for all copies; no allocation afterwards, no lock
/// Size           8 bytes
/// Source         *Coroutine-first asynchronous I/O* §4.2
template <is_executor Executor> class strand {
 public:
  /// A new one. (`strand(s)` of a strand is a copy; one inside another is a `strand<strand<…>>`.)
  ///
  /// Errors  std::bad_alloc
  explicit strand(Executor inner)
      : state_(::new(frame_pool::allocate(sizeof(block))) block(std::move(inner))) {}
  strand(strand const& other) noexcept : state_(other.state_) { state_->share(); }
  strand& operator=(strand const& other) noexcept {
    other.state_->share();
    std::exchange(state_, other.state_)->release();
    return *this;
  }
  ~strand() { state_->release(); }

  [[nodiscard]] std::coroutine_handle<> dispatch(resumption& r) const noexcept {
    if (state_->runs_here()) return r.handle();
    state_->push(r);
    return std::noop_coroutine();
  }
  void post(work& w) const noexcept { state_->push(w); }
  [[nodiscard]] bool withdraw(work& w) const noexcept { return state_->remove(w); }
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept { return state_->runs_on().multiplexer(); }
  /// Whether the calling thread is inside of it: then dispatch() does not post.
  [[nodiscard]] bool running_in_this_thread() const noexcept { return state_->runs_here(); }
  [[nodiscard]] Executor const& inner_executor() const noexcept { return state_->inner; }
  bool operator==(strand const& other) const noexcept { return state_ == other.state_; }

 private:
  struct block final : detail::strand_state {
    explicit block(Executor e) noexcept : strand_state(&destroy), inner(std::move(e)) { set_inner(inner); }
    static void destroy(detail::strand_state& s) noexcept {
      auto& self = static_cast<block&>(s);
      self.~block();
      frame_pool::deallocate(&self, sizeof(block));
    }
    Executor inner;
  };
  block* state_;
};

} // namespace unio
