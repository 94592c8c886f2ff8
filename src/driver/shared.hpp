// src/driver/shared.hpp: a multiplexer that several threads run.

#pragma once

#include <unio/multiplexer.hpp>

namespace unio::inline v0_1::driver {

class shared_state;

/// An engine on the best backend; `shared`: what it shares with others, or null.
result<std::unique_ptr<io_multiplexer>> make_engine(shared_state* shared) noexcept;

/// For n > 1 threads: an engine for each thread that uses it, made on its first use and ended with the
/// thread.
result<std::unique_ptr<io_multiplexer>> make_shared_multiplexer(int threads) noexcept;

/// The same for the threads of a pool, which enter it, run it until it is over, and leave it. While nothing
/// is pending, run() sleeps.
class pool_multiplexer : public io_multiplexer {
 public:
  pool_multiplexer() noexcept : io_multiplexer(true) {}
  /// Makes the calling thread's engine.
  virtual result<void> enter() noexcept = 0;
  /// Cancels what is in flight on the calling thread's engine, and waits for it. What was posted stays.
  virtual void leave() noexcept = 0;
  /// Whether the threads are to leave.
  [[nodiscard]] virtual bool is_over() const noexcept = 0;
  /// Makes it so. From any thread.
  virtual void end() noexcept = 0;
  /// Makes it so once nothing is posted, running or in flight; waits for that, or for another thread's end().
  virtual void end_when_quiet() noexcept = 0;
  /// When all threads have left: ends what none of them runs, and tells what is still posted that it will
  /// not run.
  virtual void drop_what_waits() noexcept = 0;
};

/// For n >= 1 threads.
result<std::unique_ptr<pool_multiplexer>> make_pool_multiplexer(int threads) noexcept;

} // namespace unio::driver
