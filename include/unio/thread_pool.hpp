// unio/thread_pool.hpp: threads that run coroutines and their I/O.
//
//   thread_pool   n threads that run one multiplexer
//
//   unio::thread_pool pool(4);
//   unio::async_run(pool.executor(), serve(connection));

#pragma once

#include <unio/frames.hpp>
#include <unio/multiplexer.hpp>

namespace unio::inline v0_1 {

/// Threads that share one multiplexer. An operation that a coroutine awaits starts and ends on the engine of
/// the thread that the coroutine runs on. Two coroutines may run at once: those that share data belong on a
/// strand.
///
/// Order         each thread runs what resumes on it first come, first served, and of what it starts itself
///               (post(), co_fork; async_run, while it has no operation in flight) the newest first, so that
///               a tree of tasks is walked depth first. A thread that is idle takes half of what another one
///               has, of what that has started the oldest. In each 64th turn of a thread the oldest has its
///               turn. Other tasks that async_run starts begin, first come, first served, on the thread that
///               has least to do (io_multiplexer::spawn())
/// Effects       its threads live from the constructor to join(), sleep while there is nothing to do, and
///               take no signals but for their own faults
/// Concurrency   everything from any thread, but join() and the destructor: from one thread at a time, and
///               not from a thread of the pool, which is checked
/// Lifetime      must outlive the threads that post to it. For handles and executors that are used after it,
///               see io_multiplexer
/// Destruction   as stop() and join(): operations in flight end with condition::canceled, and their
///               coroutines continue with that. Queued work is called with `run` false, which destroys the
///               tasks that async_run has started. Other waiting tasks must be resumed by what they wait for
/// Cost          a thread and its engine each (see io_multiplexer::best_available)
/// Source        *Coroutine-first asynchronous I/O* §4.2
class UNIO_API thread_pool {
 public:
  using executor_type = multiplexer_executor;

  /// Starts the threads, and returns once each of them is ready.
  ///
  /// Throws         std::system_error: what pthread_create(3) or io_multiplexer::best_available said
  /// Preconditions  threads >= 1
  explicit thread_pool(int threads);
  thread_pool(thread_pool const&) = delete;
  thread_pool& operator=(thread_pool const&) = delete;
  ~thread_pool();

  /// Runs coroutines and work on any of its threads, on one of which dispatch() does not post. Cheap to copy;
  /// all executors of a pool are equal.
  [[nodiscard]] executor_type executor() const noexcept { return executor_type(*multiplexer_); }
  /// The multiplexer that runs the I/O of its coroutines, for handle::set_multiplexer().
  [[nodiscard]] io_multiplexer& multiplexer() const noexcept { return *multiplexer_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Whether the calling thread is one of its threads.
  [[nodiscard]] bool running_in_this_thread() const noexcept {
    return multiplexer_->run_by() == io_multiplexer::runner::this_thread;
  }

  /// Runs `w` later on one of its threads; as a part of what runs: see io_multiplexer::fork(). From any
  /// thread; allocates nothing.
  void post(work& w) noexcept { multiplexer_->fork(w); }
  /// Calls `f()` later on one of its threads. It must not throw.
  ///
  /// Errors  std::bad_alloc; then `f` was not taken
  /// Cost    a block from the frame pool
  template <class F>
    requires(std::invocable<std::decay_t<F>&> && !std::derived_from<std::decay_t<F>, work>)
  void post(F&& f) {
    post(*new posted<std::decay_t<F>>(static_cast<F&&>(f)));
  }

  /// Asks its threads to end soon, and returns. Each finishes its current work and cancels its operations.
  /// What is queued, or posted from then on, is dropped by join() or the destructor: what waits for it, as
  /// run_on() does, waits until then.
  void stop() noexcept;
  /// Waits until nothing is queued, running or in flight, or until stop() is called; then until the threads
  /// have ended. Work posted afterwards does not run; the destructor calls it with `run` false. A thread that
  /// has made a blocking call on its multiplexer runs that until then, as in such a call.
  void join() noexcept;

 private:
  /// A function as work, in a block of the frame pool.
  template <class F> struct posted final : work, detail::pooled_frames {
    template <class G> explicit posted(G&& g) : work(&invoke), f(static_cast<G&&>(g)) {}
    static void invoke(work& w, bool run) noexcept {
      auto& self = static_cast<posted&>(w);
      F f(static_cast<F&&>(self.f));
      delete &self; // so that what `f` posts can reuse the block
      if (run) f();
    }
    F f;
  };
  class state;
  state* state_;
  io_multiplexer* multiplexer_;
  int size_;
};

} // namespace unio
