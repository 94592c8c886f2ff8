// unio/asio.hpp: unio's operations in a program of Asio's, and the other way round.
//
//   async_start(sender, token)       any operation or task of unio's, with any completion token of Asio's
//   asio_context, asio_executor      an execution context whose loop is a multiplexer of unio's
//   asio_stream<S>                   a stream of unio's, as Asio, its ssl::stream and Beast want one
//   asio_acceptor, asio_datagram_socket, asio_timer
//   use_task                         a completion token: an operation of Asio's, awaited by a task of unio's
//
//   unio::asio_context context;
//   asio::co_spawn(context, session(unio::asio_stream(context, std::move(socket))), asio::detached);
//   context.run();
//
// Standalone Asio from 1.22.1 on; with UNIO_ASIO_BOOST defined, Boost.Asio from 1.79 on. Of Asio only what
// its documentation describes is used. What names Asio's own sockets (beast::tcp_stream, say) does not become
// unio's by this. unio/unio.hpp does not include this header. It needs exceptions.
//
// Handlers. As with Asio: a handler is called once, on its associated executor (without one, on that of the
// object or context), never inside of the function that starts its operation, unless its associated immediate
// executor says otherwise. Memory for the operation comes from its associated allocator and is freed before
// it is called; its cancellation slot is cleared before. It need not be copyable, and its move may throw.
// What it throws leaves run(). Handlers of an asio_context are called inside of its run() alone: a blocking
// call, or unio::run(), that runs its multiplexer calls none.
//
// Errors. Asio's codes: asio::error::eof where a stream has ended, operation_aborted where unio says
// condition::canceled, timed_out, the system's; what is unio's own keeps unio's category.
//
// Thread safety  as Asio's objects: distinct ones from any thread, shared ones one thread at a time. Those of
//                a context whose multiplexer is for one thread: on that thread; async_start() and executors
//                from any
// Lifetime       the context outlives its objects and executors; buffers are the caller's until the handler
//                is called. A context that ends waits for its operations, and destroys their handlers
//                uncalled

#pragma once

#include <unio/callback.hpp>
#include <unio/datagram_handle.hpp>
#include <unio/detail/asio_support.hpp>
#include <unio/socket_handle.hpp>
#include <unio/stream.hpp>
#include <unio/task.hpp>
#include <unio/timer_handle.hpp>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
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

/// Starts an operation of unio's with a completion token of Asio's: use_awaitable, use_future, deferred,
/// detached, a handler with whatever is associated with it, …
///
/// Completes      with what the result says: (error_code) where it has no value, (error_code, std::size_t)
///                where it moves bytes, else (error_code, T), with a T() beside an error. A stream that has
///                ended: eof
/// Effects        starts `sender` on its handle's multiplexer; where that has none, on that of the executor's
///                asio_context, or else the calling thread's own. `executor` is the I/O executor: of handlers
///                that have none, and told of outstanding work. Without one: the asio_context whose run() the
///                calling thread is in
/// Returns        what the token says
/// Errors         in the handler's error code
/// Throws         std::bad_alloc; what moving the handler throws
/// Preconditions  not an operation that yields many values. Without an executor: inside of run()
/// Buffers        the caller's, an array of buffers included, until the handler is called
/// Concurrency    any thread
/// Cancellation   by the associated slot, whatever the type: bytes that have moved are reported as success.
///                Emit where the handler's executor is, as with Asio
/// Cost           one block, from the associated allocator or the frame pool
template <class Executor, class Sender, class Token>
  requires std::derived_from<std::remove_cvref_t<Sender>, io_operation>
auto async_start(Executor const& executor, Sender&& sender, Token&& token);
template <class Sender, class Token>
  requires std::derived_from<std::remove_cvref_t<Sender>, io_operation>
auto async_start(Sender&& sender, Token&& token);
/// Starts a task of unio's, likewise. It runs on the multiplexer.
///
/// Completes      with (std::exception_ptr, T), as co_spawn(); T has a default
/// Effects        as the other, but that it always begins in a later turn
/// Cancellation   the associated slot requests a stop of the task
/// Cost           two blocks: one from the associated allocator or the frame pool, one from the pool
template <class Executor, class T, class Token>
auto async_start(Executor const& executor, task<T> t, Token&& token);
template <class T, class Token> auto async_start(task<T> t, Token&& token);

/// The type of use_task.
struct use_task_t {
  /// An executor whose operations have use_task as their default token.
  template <class Executor> struct executor_with_default : Executor {
    using default_completion_token_type = use_task_t;
    executor_with_default(Executor const& e) noexcept : Executor(e) {} // NOLINT: implicit
    template <class Other>
      requires(!std::same_as<Other, executor_with_default> && std::convertible_to<Other, Executor>)
    executor_with_default(Other const& e) noexcept : Executor(e) {} // NOLINT: implicit
  };
  /// An object of Asio's with such an executor.
  template <class T>
  using as_default_on_t =
      typename T::template rebind_executor<executor_with_default<typename T::executor_type>>::other;
};

/// A completion token: `co_await timer.async_wait(unio::use_task)` in a task of unio's.
///
/// Returns       an awaitable. Of (error_code, …): a result<…>, of several values with a std::tuple. Of
///               (exception_ptr, …): the values; the exception is thrown. Of others: the values
/// Resumes       on the task's executor, which is also the handler's associated executor
/// Lifetime      what the operation refers to, until it has resumed
/// Cancellation  the task's stop token emits cancellation_type::all on that executor
/// Destruction   of the suspended coroutine cancels the operation and waits until it has ended. If the
///               operation is destroyed uncalled, because its context ends, the result is operation_aborted
/// Cost          a block from the frame pool for each hop of Asio's; none of its own, unless a stop is
///               possible
inline constexpr use_task_t use_task{};

/// A stream of unio's as Asio wants one: AsyncReadStream, AsyncWriteStream, SyncReadStream, SyncWriteStream.
/// asio::async_read(), ssl::stream, Beast's HTTP and websockets work on it.
///
/// `S` is a handle (a socket, a pipe), any other stream of unio's (a tls_stream), or a reference to one.
///
/// Completes      as Asio's streams: (error_code, std::size_t); operations on no bytes at once, without an
///                error; one with more than 64 buffers takes the first 64
/// Errors         asio::error::eof at the end of the stream; the stream's own, as async_start()
/// Throws         functions without an error code: Asio's system_error
/// Blocking       functions without a token, as those of handles; on a stream that is none, the thread runs
///                the multiplexer meanwhile
/// Cancellation   by the associated slot, by cancel(), and by closing or destroying the stream
/// Buffers        the caller's until the handler is called
/// Thread safety  one read and one write at a time; see the top of this header
/// Lifetime       neither moved nor destroyed while a read or write of a stream that is no handle is pending
/// Moved-from     as S
/// Cost           as async_start()
template <class S, class Executor = asio_executor> class asio_stream {
 public:
  using executor_type = Executor;
  using wrapped_type = std::remove_reference_t<S>;
  using lowest_layer_type = asio_stream;
  template <class Other> struct rebind_executor {
    using other = asio_stream<S, Other>;
  };

  /// Makes the stream of `arguments`. A handle without a multiplexer gets that of the context. Throws what
  /// making S throws.
  template <class... Arguments>
    requires std::constructible_from<S, Arguments...>
  explicit asio_stream(Executor const& executor, Arguments&&... arguments)
      : executor_(executor),
        pending_(detail::asio_group_of(executor)),
        stream_(static_cast<Arguments&&>(arguments)...) {
    set_multiplexer();
  }
  template <class... Arguments>
    requires std::constructible_from<S, Arguments...>
  explicit asio_stream(asio_context& c, Arguments&&... arguments)
      : asio_stream(Executor(c.get_executor()), static_cast<Arguments&&>(arguments)...) {}
  /// The same stream with another type of executor.
  template <class Other>
    requires(!std::same_as<Other, Executor> && std::convertible_to<Other, Executor>)
  explicit asio_stream(asio_stream<S, Other>&& other)
      : executor_(other.executor_),
        pending_(std::move(other.pending_)),
        stream_(static_cast<S&&>(other.stream_)) {}
  asio_stream(asio_stream&&) = default;
  asio_stream& operator=(asio_stream&&) = default;
  ~asio_stream() = default;

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] wrapped_type& wrapped() noexcept { return stream_; }
  [[nodiscard]] wrapped_type const& wrapped() const noexcept { return stream_; }
  [[nodiscard]] lowest_layer_type& lowest_layer() noexcept { return *this; }
  [[nodiscard]] lowest_layer_type const& lowest_layer() const noexcept { return *this; }

  /// Reads at least one byte. Returns what the token says; without a token the number of bytes. See the
  /// class.
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_read_some(Buffers const& buffers, Token&& token = Token());
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers> std::size_t read_some(Buffers const& buffers, asio_error_code& ec);
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers> std::size_t read_some(Buffers const& buffers) {
    return detail::asio_thrown([&](asio_error_code& ec) { return read_some(buffers, ec); });
  }
  /// Writes at least one byte. Returns as async_read_some(). See the class.
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_write_some(Buffers const& buffers, Token&& token = Token());
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers> std::size_t write_some(Buffers const& buffers, asio_error_code& ec);
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers> std::size_t write_some(Buffers const& buffers) {
    return detail::asio_thrown([&](asio_error_code& ec) { return write_some(buffers, ec); });
  }
  /// Connects a socket. Completes with (error_code). Returns what the token says.
  template <class Token = detail::asio_default_token<Executor>>
    requires std::derived_from<wrapped_type, socket_handle>
  auto async_connect(endpoint const& to, Token&& token = Token());

  /// Cancels what is pending. Returns how many operations that are.
  std::size_t cancel() noexcept { return pending_.cancel(); }
  [[nodiscard]] bool is_open() const noexcept
    requires requires(wrapped_type const& s) { s.is_open(); }
  {
    return wrapped().is_open();
  }
  /// Closes the handle; what is pending ends with operation_aborted. Returns the error.
  asio_error_code close(asio_error_code& ec) noexcept
    requires std::derived_from<wrapped_type, handle>;
  void close() noexcept
    requires std::derived_from<wrapped_type, handle>
  {
    asio_error_code ignored;
    close(ignored);
  }

 private:
  template <class, class> friend class asio_stream;
  struct initiates_read;
  struct initiates_write;
  void set_multiplexer() noexcept;

  Executor executor_;
  detail::asio_group pending_; // outlives the stream, whose end ends what is pending
  S stream_;
};

template <class S> asio_stream(asio_context&, S&&) -> asio_stream<std::remove_cvref_t<S>>;
template <class Executor, class S>
  requires(!std::derived_from<Executor, detail::net::execution_context>)
asio_stream(Executor const&, S&&) -> asio_stream<std::remove_cvref_t<S>, Executor>;

/// Accepts connections as streams.
///
/// Everything that is not said here, as asio_stream.
///
/// Errors         as async_accept
/// Thread safety  one accept at a time; see the top of this header
/// Cancellation   by the associated slot, by cancel(), and by closing or destroying it
/// Cost           as async_start()
template <class Executor = asio_executor> class basic_asio_acceptor {
 public:
  using executor_type = Executor;
  using stream_type = asio_stream<socket_handle, Executor>;
  template <class Other> struct rebind_executor {
    using other = basic_asio_acceptor<Other>;
  };

  basic_asio_acceptor(Executor const& executor, listening_socket_handle h)
      : executor_(executor), pending_(detail::asio_group_of(executor)), handle_(std::move(h)) {
    detail::asio_give_multiplexer(handle_, pending_);
  }
  basic_asio_acceptor(asio_context& c, listening_socket_handle h)
      : basic_asio_acceptor(Executor(c.get_executor()), std::move(h)) {}
  /// Listens at `at`. Throws Asio's system_error with the errors of listening_socket_handle::listen().
  basic_asio_acceptor(asio_context& c, endpoint const& at, listen_options options = {})
      : basic_asio_acceptor(c, detail::asio_value(listening_socket_handle::listen(at, options))) {}
  /// The same with another type of executor.
  template <class Other>
    requires(!std::same_as<Other, Executor> && std::convertible_to<Other, Executor>)
  explicit basic_asio_acceptor(basic_asio_acceptor<Other>&& other)
      : executor_(other.executor_), pending_(std::move(other.pending_)), handle_(std::move(other.handle_)) {}

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] listening_socket_handle& wrapped() noexcept { return handle_; }
  /// Where it listens. Throws Asio's system_error.
  [[nodiscard]] endpoint local_endpoint() const { return detail::asio_value(handle_.local_endpoint()); }

  /// Accepts one connection. Completes with (error_code, stream_type). Returns what the token says.
  template <class Token = detail::asio_default_token<Executor>> auto async_accept(Token&& token = Token());
  /// The same, waiting. Returns a closed stream beside an error.
  stream_type accept(asio_error_code& ec);
  stream_type accept() {
    return detail::asio_thrown([&](asio_error_code& ec) { return accept(ec); });
  }
  /// Cancels what is pending. Returns how many operations that are.
  std::size_t cancel() noexcept { return pending_.cancel(); }
  [[nodiscard]] bool is_open() const noexcept { return handle_.is_open(); }
  /// Closes it.
  void close() noexcept { (void)handle_.close(); }

 private:
  template <class> friend class basic_asio_acceptor;
  struct initiates;
  Executor executor_;
  detail::asio_group pending_;
  listening_socket_handle handle_;
};
using asio_acceptor = basic_asio_acceptor<>;

/// Exchanges datagrams.
///
/// Everything that is not said here, as asio_stream; a datagram may be empty.
///
/// Completes      with (error_code, std::size_t)
/// Errors         as async_receive_from, async_send_to
/// Thread safety  see the top of this header
/// Cancellation   by the associated slot, by cancel(), and by closing or destroying it
/// Buffers        the caller's, and so is `from`, until the handler is called
/// Cost           as async_start()
template <class Executor = asio_executor> class basic_asio_datagram_socket {
 public:
  using executor_type = Executor;
  template <class Other> struct rebind_executor {
    using other = basic_asio_datagram_socket<Other>;
  };

  basic_asio_datagram_socket(Executor const& executor, datagram_handle h)
      : executor_(executor), pending_(detail::asio_group_of(executor)), handle_(std::move(h)) {
    detail::asio_give_multiplexer(handle_, pending_);
  }
  basic_asio_datagram_socket(asio_context& c, datagram_handle h)
      : basic_asio_datagram_socket(Executor(c.get_executor()), std::move(h)) {}
  /// Bound to `at`. Throws Asio's system_error with the errors of datagram_handle::bind().
  basic_asio_datagram_socket(asio_context& c, endpoint const& at, datagram_options options = {})
      : basic_asio_datagram_socket(c, detail::asio_value(datagram_handle::bind(at, options))) {}
  /// The same with another type of executor.
  template <class Other>
    requires(!std::same_as<Other, Executor> && std::convertible_to<Other, Executor>)
  explicit basic_asio_datagram_socket(basic_asio_datagram_socket<Other>&& other)
      : executor_(other.executor_), pending_(std::move(other.pending_)), handle_(std::move(other.handle_)) {}

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  [[nodiscard]] datagram_handle& wrapped() noexcept { return handle_; }
  /// The address that it is bound to. Throws Asio's system_error.
  [[nodiscard]] endpoint local_endpoint() const { return detail::asio_value(handle_.local_endpoint()); }

  /// Receives one datagram; what does not fit the buffers is lost. Returns what the token says; without a
  /// token the number of bytes.
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_receive_from(Buffers const& buffers, endpoint& from, Token&& token = Token());
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_receive(Buffers const& buffers, Token&& token = Token());
  /// The same, waiting. Returns the number of bytes.
  template <class Buffers>
  std::size_t receive_from(Buffers const& buffers, endpoint& from, asio_error_code& ec);
  /// Sends one datagram. Returns as async_receive_from().
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_send_to(Buffers const& buffers, endpoint const& to, Token&& token = Token());
  /// The same, to the peer that it is connected to.
  template <class Buffers, class Token = detail::asio_default_token<Executor>>
  auto async_send(Buffers const& buffers, Token&& token = Token()) {
    return async_send_to(buffers, endpoint(), static_cast<Token&&>(token));
  }
  template <class Buffers>
  std::size_t send_to(Buffers const& buffers, endpoint const& to, asio_error_code& ec);
  /// Cancels what is pending. Returns how many operations that are.
  std::size_t cancel() noexcept { return pending_.cancel(); }
  [[nodiscard]] bool is_open() const noexcept { return handle_.is_open(); }
  /// Closes it.
  void close() noexcept { (void)handle_.close(); }

 private:
  template <class> friend class basic_asio_datagram_socket;
  struct initiates_receive;
  struct initiates_send;
  Executor executor_;
  detail::asio_group pending_;
  datagram_handle handle_;
};
using asio_datagram_socket = basic_asio_datagram_socket<>;

/// Waits for a moment: no descriptor, no thread.
///
/// Completes      with (error_code): operation_aborted if it was cancelled, set anew or destroyed
/// Errors         none of its own
/// Thread safety  see the top of this header
/// Cancellation   by the associated slot, and as above
/// Cost           as async_start(), async_wait
template <class Executor = asio_executor> class basic_asio_timer {
 public:
  using executor_type = Executor;
  using clock_type = std::chrono::steady_clock;
  using duration = clock_type::duration;
  using time_point = clock_type::time_point;
  template <class Other> struct rebind_executor {
    using other = basic_asio_timer<Other>;
  };

  explicit basic_asio_timer(Executor const& executor)
      : executor_(executor), pending_(detail::asio_group_of(executor)) {
    timer_.set_multiplexer(pending_.service().multiplexer());
  }
  explicit basic_asio_timer(asio_context& c) : basic_asio_timer(Executor(c.get_executor())) {}
  basic_asio_timer(asio_context& c, duration from_now) : basic_asio_timer(c) { expires_after(from_now); }
  basic_asio_timer(asio_context& c, time_point at) : basic_asio_timer(c) { expires_at(at); }
  basic_asio_timer(basic_asio_timer&&) = default;
  basic_asio_timer& operator=(basic_asio_timer&& other) noexcept;
  ~basic_asio_timer() { pending_.cancel(); }
  /// The same with another type of executor.
  template <class Other>
    requires(!std::same_as<Other, Executor> && std::convertible_to<Other, Executor>)
  explicit basic_asio_timer(basic_asio_timer<Other>&& other)
      : executor_(other.executor_), pending_(std::move(other.pending_)), timer_(std::move(other.timer_)) {}

  [[nodiscard]] executor_type get_executor() const noexcept { return executor_; }
  /// The moment that was set.
  [[nodiscard]] time_point expiry() const noexcept {
    return time_point(std::chrono::nanoseconds(timer_.moment().nanoseconds()));
  }
  /// Sets the moment. Cancels what waits; returns how many waits that are.
  std::size_t expires_at(time_point at) noexcept {
    timer_.expires_at(at);
    return cancel();
  }
  std::size_t expires_after(duration from_now) noexcept {
    timer_.expires_after(from_now);
    return cancel();
  }
  /// Waits until the moment has come. Returns what the token says.
  template <class Token = detail::asio_default_token<Executor>> auto async_wait(Token&& token = Token());
  /// The same, waiting here.
  void wait() noexcept { (void)timer_.wait(); }
  /// Cancels what waits, or the first that does. Returns how many waits that are.
  std::size_t cancel() noexcept { return pending_.cancel(); }
  std::size_t cancel_one() noexcept { return pending_.cancel_one(); }

 private:
  template <class> friend class basic_asio_timer;
  struct initiates;
  Executor executor_;
  detail::asio_group pending_;
  timer_handle timer_{deadline(time_point())};
};
using asio_timer = basic_asio_timer<>;

} // namespace unio

#include <unio/detail/asio_context.hpp>
#include <unio/detail/asio_operation.hpp>
#include <unio/detail/asio_stream.hpp>
#include <unio/detail/asio_task.hpp>
