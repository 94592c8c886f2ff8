// The threads of a pool. What they share is in driver/shared/shared.cpp, how they sleep in
// driver/shared/wake_gate.hpp.
//
//   open ── join(), and nothing to do ──┐
//     │                                 ├──► over: each thread cancels all of its engine and ends;
//     └── stop() ───────────────────────┘    then the joining thread ends what none of them runs, and calls
//                                            the queued work with `run` false
//
// In this order, because a coroutine may be destroyed only when no thread resumes another part of it.

#include "core/failed_with.hpp"
#include "driver/shared.hpp"
#include "sys/fork.hpp"
#include "sys/threads.hpp"

#include <unio/run.hpp>
#include <unio/thread_pool.hpp>

#include <algorithm>

namespace unio::inline v0_1 {

class thread_pool::state {
 public:
  state(std::unique_ptr<driver::pool_multiplexer> m, int threads)
      : multiplexer_(std::move(m)),
        threads_(std::make_unique<pthread_t[]>(static_cast<std::size_t>(threads))) {}
  ~state() {
    stop();
    join();
  }

  driver::pool_multiplexer& multiplexer() noexcept { return *multiplexer_; }

  /// Starts one more, which is ready when this returns.
  failure add_thread() noexcept {
    begun_.store(false, std::memory_order_relaxed);
    auto const run = [](void* self) -> void* {
      static_cast<state*>(self)->work();
      return nullptr;
    };
    if (int const e = sys::start_thread(run, this, &threads_[started_]); e != 0)
      return detail::failed(-e, "thread_pool");
    ++started_;
    begun_.wait(false, std::memory_order_acquire); // pairs with the release in work()
    return why_not_;
  }
  void stop() noexcept {
    if (!is_copy()) multiplexer_->end();
  }
  void join() noexcept {
    if (is_copy()) return;
    UNIO_EXPECTS(!is_one_of_its_threads(), "a thread of a pool was asked to wait for its own end");
    if (started_ == 0) return;
    multiplexer_->end_when_quiet();
    for (; started_ != 0; --started_) pthread_join(threads_[started_ - 1], nullptr);
    multiplexer_->drop_what_waits();
  }

 private:
  void work() noexcept {
    result<void> const entered = multiplexer_->enter();
    result<int> const ran = entered.has_value() ? multiplexer_->try_run() : result<int>(entered.error());
    if (!ran.has_value()) why_not_ = ran.error();
    bool const fine = ran.has_value();
    begun_.store(true, std::memory_order_release);
    begun_.notify_one();
    while (fine && !multiplexer_->is_over()) {
      result<int> const r = multiplexer_->run();
      if (!r.has_value() && r.error() != std::errc::not_enough_memory)
        detail::throw_error(r.error()); // out of a function that does not throw: ends the program;
    }
    multiplexer_->leave();
  }

  [[nodiscard]] bool is_one_of_its_threads() const noexcept {
    return std::any_of(threads_.get(), threads_.get() + started_,
                       [](pthread_t t) { return pthread_equal(t, pthread_self()) != 0; });
  }
  /// In a child of fork, which has none of the threads, and finds locks of theirs as they were.
  [[nodiscard]] bool is_copy() const noexcept { return fork_generation_ != sys::fork_generation(); }

  unsigned const fork_generation_ = sys::fork_generation();
  std::unique_ptr<driver::pool_multiplexer> multiplexer_;
  std::unique_ptr<pthread_t[]> threads_;
  std::size_t started_ = 0;
  std::atomic<bool> begun_{false};
  failure why_not_; // of the thread started last
};

namespace {
[[noreturn, gnu::cold]] void throw_named(failure const& why) {
  detail::throw_error(detail::failed_with(why, "thread_pool", detail::failed_object()));
}
} // namespace

thread_pool::thread_pool(int threads) : size_(threads) {
  UNIO_EXPECTS(threads >= 1, "a thread pool has at least one thread");
  result<std::unique_ptr<driver::pool_multiplexer>> m = driver::make_pool_multiplexer(threads);
  if (!m.has_value()) throw_named(m.error());
  auto made = std::make_unique<state>(std::move(*m), threads);
  for (int i = 0; i != threads; ++i)
    if (failure const e = made->add_thread(); e) throw_named(e);
  multiplexer_ = &made->multiplexer();
  state_ = made.release();
}

thread_pool::~thread_pool() { delete state_; }

void thread_pool::stop() noexcept { state_->stop(); }

void thread_pool::join() noexcept { state_->join(); }

} // namespace unio
