// unio/asio_context.hpp: an execution context of Asio's whose loop is a multiplexer of unio's.
//
//   asio_context                         runs handlers, Asio's coroutines, receivers and tasks
//   asio_executor, basic_asio_executor   calls functions in it
//
// Part of unio/asio.hpp, which says what holds for handlers, errors, threads and lifetimes.

#pragma once

#include <unio/detail/asio_support.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

template <class Allocator, bool Tracks> class basic_asio_executor;

/// The executor of an asio_context.
using asio_executor = basic_asio_executor<std::allocator<void>, false>;

/// An execution context of Asio's whose loop is a multiplexer of unio's: handlers, Asio's coroutines,
/// receivers and tasks run in it side by side.
///
/// Handlers       in run() and its like
/// Lifetime       the multiplexer outlives it, unless it is its own
/// Destruction    on the thread that runs the multiplexer (if several may, on any): as Asio's shutdown() and
///                destroy(); cancels its operations, waits for them and destroys all handlers uncalled
/// Thread safety  post(), stop(), executors and services from any thread; run() on that of the multiplexer
/// Cost           posting: one block, from the associated allocator or the frame pool
class asio_context : public detail::net::execution_context {
 public:
  using executor_type = asio_executor;

  /// On the calling thread's own multiplexer. Throws std::bad_alloc.
  asio_context() : asio_context(this_thread::multiplexer()) {}
  /// On `m`. Throws std::bad_alloc.
  explicit asio_context(io_multiplexer& m);
  /// On a multiplexer of its own, which any number of threads may run; see io_multiplexer::best_available().
  ///
  /// Throws  std::system_error with the errors of best_available()
  explicit asio_context(int threads);
  ~asio_context();

  /// The executor that calls in it.
  [[nodiscard]] executor_type get_executor() const noexcept;
  /// The multiplexer that it runs.
  [[nodiscard]] io_multiplexer& multiplexer() const noexcept { return *service_->multiplexer(); }

  /// Runs the multiplexer until there is nothing left to do: no work that Asio counts, and nothing pending on
  /// the multiplexer; or until stop().
  ///
  /// Returns  how many handlers were called
  /// Throws   what leaves a handler, after which it may be called again: nothing is lost; Asio's system_error
  ///          with the errors of io_multiplexer::run()
  /// Cost     that of io_multiplexer::run()
  std::size_t run() { return run_turns(no_limit, time_point::max()); }
  /// The same, until one handler was called.
  std::size_t run_one() { return run_turns(1, time_point::max()); }
  /// The same, of handlers that are ready: it does not wait.
  std::size_t poll() { return run_turns(no_limit, time_point::min()); }
  std::size_t poll_one() { return run_turns(1, time_point::min()); }
  /// The same as run() and run_one(), for so long at most. Throws as run().
  template <class Rep, class Period> std::size_t run_for(std::chrono::duration<Rep, Period> d) {
    return run_until(std::chrono::steady_clock::now() + d);
  }
  /// The same, until then.
  template <class Clock, class Duration> std::size_t run_until(std::chrono::time_point<Clock, Duration> t) {
    return run_turns(no_limit, steady(t));
  }
  /// The same, of one handler.
  template <class Rep, class Period> std::size_t run_one_for(std::chrono::duration<Rep, Period> d) {
    return run_one_until(std::chrono::steady_clock::now() + d);
  }
  /// The same, until then.
  template <class Clock, class Duration>
  std::size_t run_one_until(std::chrono::time_point<Clock, Duration> t) {
    return run_turns(1, steady(t));
  }
  /// Makes run() and its like return soon, on all threads, and at once until restart().
  void stop() noexcept;
  [[nodiscard]] bool stopped() const noexcept { return service_->is_stopped(); }
  void restart() noexcept { service_->set_stopped(false); }

 private:
  template <class, bool> friend class basic_asio_executor;
  using time_point = std::chrono::steady_clock::time_point;
  static constexpr std::size_t no_limit = static_cast<std::size_t>(-1);
  template <class Clock, class Duration>
  static time_point steady(std::chrono::time_point<Clock, Duration> t) {
    if constexpr (std::same_as<Clock, std::chrono::steady_clock>) {
      return std::chrono::time_point_cast<time_point::duration>(t);
    } else {
      return std::chrono::steady_clock::now() +
             std::chrono::duration_cast<time_point::duration>(t - Clock::now());
    }
  }
  // max(): waits for ever; min(): does not wait.
  std::size_t run_turns(std::size_t limit, time_point until);

  std::unique_ptr<io_multiplexer> own_;
  detail::asio_service* service_;
};

/// Calls functions in an asio_context. With the properties of Asio's own executors: blocking (possibly,
/// never), relationship, outstanding_work, allocator, context, mapping.
///
/// Lifetime       the context outlives it
/// Thread safety  distinct and shared: safe
/// Size           8 bytes, and the allocator if that is not empty
/// Cost           of a copy: none; if it tracks work, an atomic addition
template <class Allocator, bool Tracks> class basic_asio_executor {
 public:
  basic_asio_executor(basic_asio_executor const& other) noexcept
      : target_(other.target_), allocator_(other.allocator_) {
    started();
  }
  basic_asio_executor(basic_asio_executor&& other) noexcept
      : target_(other.target_), allocator_(std::move(other.allocator_)) {
    if constexpr (Tracks) other.target_ = 0;
  }
  basic_asio_executor& operator=(basic_asio_executor const& other) noexcept {
    basic_asio_executor copy(other);
    std::swap(target_, copy.target_);
    std::swap(allocator_, copy.allocator_);
    return *this;
  }
  basic_asio_executor& operator=(basic_asio_executor&& other) noexcept {
    std::swap(target_, other.target_);
    std::swap(allocator_, other.allocator_);
    return *this;
  }
  ~basic_asio_executor() { finished(); }

  /// Calls `f()` in the context: at once if the calling thread runs it and blocking is `possibly`, else
  /// later.
  ///
  /// Effects  what `f` throws leaves run()
  /// Throws   std::bad_alloc, and what moving `f` throws; then it was not taken
  /// Cost     a call, or one block and one post
  template <class F> void execute(F&& f) const;
  /// Whether the calling thread is inside of run() of the context.
  [[nodiscard]] bool running_in_this_thread() const noexcept {
    return detail::asio_frame::is_inside(*context().service_);
  }
  [[nodiscard]] asio_context& context() const noexcept {
    return *reinterpret_cast<asio_context*>(target_ & ~all_bits);
  }
  friend bool operator==(basic_asio_executor const& a, basic_asio_executor const& b) noexcept {
    return a.target_ == b.target_;
  }
  friend bool operator!=(basic_asio_executor const& a, basic_asio_executor const& b) noexcept {
    return a.target_ != b.target_;
  }

  // For Asio's query(), require() and prefer(): see the properties of that name. Cost: none.

  [[nodiscard]] basic_asio_executor require(detail::net::execution::blocking_t::possibly_t) const noexcept {
    return basic_asio_executor(target_ & ~bit_never, allocator_);
  }
  [[nodiscard]] basic_asio_executor require(detail::net::execution::blocking_t::never_t) const noexcept {
    return basic_asio_executor(target_ | bit_never, allocator_);
  }
  [[nodiscard]] basic_asio_executor require(detail::net::execution::relationship_t::fork_t) const noexcept {
    return basic_asio_executor(target_ & ~bit_continuation, allocator_);
  }
  [[nodiscard]] basic_asio_executor require(
      detail::net::execution::relationship_t::continuation_t) const noexcept {
    return basic_asio_executor(target_ | bit_continuation, allocator_);
  }
  [[nodiscard]] basic_asio_executor<Allocator, true> require(
      detail::net::execution::outstanding_work_t::tracked_t) const noexcept {
    return basic_asio_executor<Allocator, true>(target_, allocator_);
  }
  [[nodiscard]] basic_asio_executor<Allocator, false> require(
      detail::net::execution::outstanding_work_t::untracked_t) const noexcept {
    return basic_asio_executor<Allocator, false>(target_, allocator_);
  }
  template <class Other>
  [[nodiscard]] basic_asio_executor<Other, Tracks> require(
      detail::net::execution::allocator_t<Other> a) const noexcept {
    return basic_asio_executor<Other, Tracks>(target_, a.value());
  }
  [[nodiscard]] basic_asio_executor<std::allocator<void>, Tracks> require(
      detail::net::execution::allocator_t<void>) const noexcept {
    return basic_asio_executor<std::allocator<void>, Tracks>(target_, {});
  }
  /// The value of a property. Cost: none.
  [[nodiscard]] static constexpr detail::net::execution::mapping_t query(
      detail::net::execution::mapping_t) noexcept {
    return detail::net::execution::mapping.thread;
  }
  [[nodiscard]] asio_context& query(detail::net::execution::context_t) const noexcept { return context(); }
  [[nodiscard]] detail::net::execution::blocking_t query(detail::net::execution::blocking_t) const noexcept {
    if (is_never_blocking()) return detail::net::execution::blocking.never;
    return detail::net::execution::blocking.possibly;
  }
  [[nodiscard]] detail::net::execution::relationship_t query(
      detail::net::execution::relationship_t) const noexcept {
    if ((target_ & bit_continuation) != 0) return detail::net::execution::relationship.continuation;
    return detail::net::execution::relationship.fork;
  }
  [[nodiscard]] static constexpr detail::net::execution::outstanding_work_t query(
      detail::net::execution::outstanding_work_t) noexcept {
    if (Tracks) return detail::net::execution::outstanding_work.tracked;
    return detail::net::execution::outstanding_work.untracked;
  }
  template <class Other>
  [[nodiscard]] Allocator query(detail::net::execution::allocator_t<Other>) const noexcept {
    return allocator_;
  }
  // As executors were before they had properties: what Asio's strand asks for.

  /// Counts work, until on_work_finished().
  void on_work_started() const noexcept { service().work_started(); }
  void on_work_finished() const noexcept { service().work_finished(); }
  /// As execute(): at once if the calling thread runs the context; never at once.
  template <class F, class Other> void dispatch(F&& f, Other const& a) const {
    require(detail::net::execution::blocking.possibly)
        .require(detail::net::execution::allocator(a))
        .execute(static_cast<F&&>(f));
  }
  template <class F, class Other> void post(F&& f, Other const& a) const {
    require(detail::net::execution::blocking.never)
        .require(detail::net::execution::allocator(a))
        .execute(static_cast<F&&>(f));
  }
  template <class F, class Other> void defer(F&& f, Other const& a) const { post(static_cast<F&&>(f), a); }

  /// What the context has of the adapter.
  [[nodiscard]] detail::asio_service& service() const noexcept { return *context().service_; }
  [[nodiscard]] bool is_never_blocking() const noexcept { return (target_ & bit_never) != 0; }

 private:
  friend class asio_context;
  template <class, bool> friend class basic_asio_executor;
  static constexpr std::uintptr_t bit_never = 1, bit_continuation = 2, all_bits = 3;

  basic_asio_executor(std::uintptr_t target, Allocator const& a) noexcept : target_(target), allocator_(a) {
    started();
  }
  void started() const noexcept {
    if constexpr (Tracks)
      if (target_ != 0) context().service_->work_started();
  }
  void finished() const noexcept {
    if constexpr (Tracks)
      if (target_ != 0) context().service_->work_finished();
  }

  std::uintptr_t target_; // the context and two bits; 0: moved from
  [[no_unique_address]] Allocator allocator_;
};

} // namespace unio

#include <unio/detail/asio_context.hpp>
