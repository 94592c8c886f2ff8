// unio/multiplexer.hpp: where operations wait together.
//
//   io_multiplexer   complete_io · timeout_io · invoke_posted_items · run · post · wake
//   capabilities     which driver, what of it is used, and why
//   counters         what it did
//   multiplexer_executor         runs coroutines where a multiplexer is run
//   this_thread::multiplexer()   the calling thread's own, made on first use
//
// Three prices of asking: io_operation_connection::poll() looks at one operation; complete_io() completes
// what is ready; run() sleeps until something is.

#pragma once

#include <unio/operation.hpp>
#include <unio/result.hpp>

#include <concepts>
#include <new>
#include <string>

namespace unio::inline v0_1 {

/// What the running driver is and uses. Printed by `unio capabilities`.
struct capabilities {
  char const* driver = "";   ///< "io_uring", "epoll", "simulated"
  unsigned threads = 1;      ///< how many threads it was made for: 1, or a hint
  unsigned ring_entries = 0; ///< submission entries; 0 without a ring
  bool single_issuer = false;
  bool defer_taskrun = false;
  bool no_sqarray = false;
  bool registered_ring = false; ///< known once its thread has used it
  bool no_iowait = false;       ///< waiting for the network is not accounted as waiting for a disk
  bool multishot_accept = false;
  bool zero_copy_send = false;
  bool pipe_write_without_signal = false; ///< RWF_NOSIGNAL
  std::size_t registered_bytes = 0;       ///< memory of pools that is registered with the ring now
  std::string why; ///< why this driver and not io_uring, in one line; empty when nothing was refused
};

/// One line per field, `name: value`. Throws std::bad_alloc. Concurrency: any thread. Cost: the text.
UNIO_API std::string to_string(capabilities const& c);

/// What a multiplexer did since it was made. Reading costs nothing; counting costs one addition.
struct counters {
  std::uint64_t started = 0;          ///< operations started
  std::uint64_t finished = 0;         ///< operations that ended; equal to `started` when nothing is in flight
  std::uint64_t inline_hits = 0;      ///< completed inside start(), without a driver
  std::uint64_t inline_misses = 0;    ///< tried inside start(), without success
  std::uint64_t turns = 0;            ///< times the kernel was asked
  std::uint64_t submissions = 0;      ///< entries given to the ring, waits registered, direct reads begun
  std::uint64_t completions = 0;      ///< completions taken from the ring, or events from epoll
  std::uint64_t overflows = 0;        ///< turns that found the completion queue overflown
  std::uint64_t late_completions = 0; ///< completions of operations that no longer exist; ignored
  std::uint64_t cancels = 0;          ///< cancel requests
  std::uint64_t timeouts = 0;         ///< deadlines that passed
  std::uint64_t worker_jobs = 0;      ///< operations given to the library's threads that may block
  std::uint64_t kernel_jobs = 0;      ///< … to a ring, whose kernel has threads for what it cannot do at once
  std::uint64_t worker_queue_full = 0; ///< times so many jobs waited for the library's that one had to retry
  std::uint64_t resource_waits = 0;    ///< times an operation had to wait for a buffer of a pool
  std::uint64_t abandoned = 0;         ///< operations destroyed in flight, which had to be waited for
  std::uint64_t registered_uses = 0;   ///< entries given to the ring with memory that is registered with it
  std::uint64_t registrations_refused = 0; ///< pieces of pools that it could not register: used as any memory
};

class multiplexer_executor;

/// Runs operations. Abstract: a third party can write one; unio's are made by best_available().
///
/// Cost           where nothing else is said: no allocation, no system call of its own; no lock, unless it is
///                one of several threads
/// Thread safety  post(), spawn(), wake(), executor(), run_by() and forget() from any thread, and of atomic
///                forms start(), poll(), cancel() and abandon(); everything else from the thread that runs
///                it. If it was made for several: all from any thread, whose operations and turns are then
///                its own (see best_available)
/// Lifetime       outlives what its handles and its executor are used for. Destroying it cancels and awaits
///                what is in flight; no other thread may be inside any of its functions. Of those that unio
///                makes, a thread's own and a pool's included: what is started later on a handle that still
///                refers to it yields error::multiplexer_destroyed, work posted to its executor is called
///                with `run` false, and such a handle is closed as any other. So it stays while fewer than 64
///                others are destroyed; then a new one may use its memory
class UNIO_API io_multiplexer {
 public:
  io_multiplexer() = default;
  io_multiplexer(io_multiplexer const&) = delete;
  io_multiplexer& operator=(io_multiplexer const&) = delete;
  virtual ~io_multiplexer();

  /// Makes the best multiplexer that this system offers: io_uring, or epoll where io_uring is missing or
  /// forbidden (capabilities().why says so). With `threads` 1 it is for one thread, the first that uses it.
  /// With more it is for any number: how many is a hint.
  ///
  /// Several threads. A thread runs it from its first run() (or other function of the loop, or blocking call,
  /// or poll of an operation that no thread runs) until the thread ends. Any thread may start operations:
  ///   * those of a thread that runs it stay with that thread, which notifies their receivers, unless it is
  ///     away: in a receiver or work that takes long, or outside of run(). After about a millisecond another
  ///     thread, if one has nothing to do, takes what there is to go on with: awaited operations, atomic
  ///     forms, senders and those with a handler, if they read or write bytes of a pipe or stream or are
  ///     timers. All else waits until the thread comes back or ends: plain forms, accepts, files, datagrams,
  ///     what reads into a buffer of a pool, chains
  ///   * those of another thread go to one that runs it, or to the first that will. They count as pending,
  ///     and their deadlines run, from their start. Two of them may go to different threads, those of one
  ///     handle too. Until its receiver is notified such an operation is the multiplexer's: a thread that is
  ///     to cancel, poll or destroy it uses its atomic form
  ///   * what is new (spawned work, a task that async_run starts) begins on the thread that has least to do
  ///   * when a thread ends, what it has in flight goes on with another, all of it with the same one, or
  ///     waits for one. Its receivers notice nothing; no bytes are lost. Exceptions, which are cancelled:
  ///     chains (async_link), and zero-copy sends
  /// Closing a handle ends, on the closing thread, what no thread runs yet.
  ///
  /// Errors         error::unknown_driver if UNIO_DRIVER is set to neither uring nor epoll; with
  ///                UNIO_DRIVER=uring that of io_uring_setup(2); error::bad_ring_entries if
  ///                UNIO_RING_ENTRIES is not in 1 … 32768; EMFILE, ENFILE, ENOMEM
  /// Preconditions  threads >= 1
  /// Cost           a few system calls, a few hundred KiB of memory for the ring of each thread. Several
  ///                threads: these for each that begins to run it
  static result<std::unique_ptr<io_multiplexer>> best_available(int threads = 1) noexcept;

  /// Completes operations that are ready, never waiting. Does not look at deadlines.
  ///
  /// Effects      submits what was started since the last turn, takes all that is ready, calls receivers. One
  ///              io_uring_enter(2) or epoll_pwait2(2), and another one while the kernel has more than that
  ///              brings: some twenty completions of a ring, 128 descriptors
  /// Returns      > 0: how many values were delivered since the last such call, those delivered inside
  ///              start() included; < 0: operations are pending, none is ready; 0: nothing is pending. Of
  ///              several threads: > 0 on the calling one, < 0 on any, 0 on none
  /// Errors       error::inherited_by_fork; permanent ones of io_uring_enter(2), epoll_pwait2(2)
  /// Concurrency  the thread that runs this multiplexer; if several may, any thread, which then does
  /// Cost         O(ready); no allocation, no lock
  /// Source       D2052R0 §4.3.1
  result<int> complete_io(int max_items = -1) noexcept {
    return do_complete_io(max_items, deadline::forever);
  }
  /// The same, not starting another delivery once `bound` (a duration or a time point) has passed; one that
  /// is ready is delivered in any case.
  result<int> complete_io_within(deadline bound, int max_items = -1) noexcept {
    return do_complete_io(max_items, due(bound));
  }

  /// Ends operations whose deadline has passed. Otherwise as complete_io(). One that the kernel holds (a
  /// ring's) is only asked to end: complete_io() reports its result, as bytes that moved beat the deadline.
  ///
  /// Cost    O(log pending) for each deadline that has passed; no system call but the clock
  /// Source  D2052R0 §4.3.1
  result<int> timeout_io(int max_items = -1) noexcept { return do_timeout_io(max_items, deadline::forever); }
  result<int> timeout_io_within(deadline bound, int max_items = -1) noexcept {
    return do_timeout_io(max_items, due(bound));
  }

  /// Runs what was posted. Returns how many ran. Work that these post runs in a later call.
  ///
  /// Errors  as complete_io()
  /// Source  D2052R0 §4.3.2
  result<int> invoke_posted_items(int max_items = -1) noexcept {
    return do_invoke_posted(max_items, deadline::forever);
  }
  result<int> invoke_posted_items_within(deadline bound, int max_items = -1) noexcept {
    return do_invoke_posted(max_items, due(bound));
  }

  /// All three in a loop, until one of them did something; sleeps while nothing is ready.
  ///
  /// Fairness everything that is ready is served once before anything is served twice: first come, first
  ///          served. While others wait, a resumed coroutine may complete one operation without suspending;
  ///          alone, 64. After 64 completions timers and posted work have their turn
  /// Returns  > 0: how many were called, values delivered inside start() since the last call included; 0:
  ///          nothing pending and nothing posted; < 0: woken by wake(), an operation ended whose value was
  ///          delivered before, or (bounded forms) the time is over. Of several threads: 0 if that is so on
  ///          all, and no other is just running a receiver or posted work, which may start more. To run
  ///          until something has ended, see unio::run()
  /// Errors   as complete_io()
  /// Cost     as complete_io()
  /// Source   D2052R0 §4.3.2
  result<int> run(int max_items = -1) noexcept { return do_run(max_items, deadline::forever); }
  /// The same, never sleeping, or for so long at most.
  result<int> try_run(int max_items = -1) noexcept { return do_run(max_items, 0); }
  template <class Rep, class Period>
  result<int> try_run_for(std::chrono::duration<Rep, Period> d, int max_items = -1) noexcept {
    return do_run(max_items, due(d));
  }
  template <class Clock, class Duration>
  result<int> try_run_until(std::chrono::time_point<Clock, Duration> t, int max_items = -1) noexcept {
    return do_run(max_items, due(t));
  }

  /// Runs `w` later on a thread that runs this multiplexer. From any thread; allocates nothing. The
  /// multiplexer must live until post() has returned, even if `w` ends it. Cost: one system call if the
  /// thread sleeps.
  virtual void post(work& w) noexcept = 0;
  /// Runs `w` likewise, as a part of the task that runs. If several threads run this, and the calling one is
  /// among them, it runs its newest first, and an idle one takes the older half: a tree of tasks is walked
  /// depth first. Otherwise as post().
  virtual void fork(work& w) noexcept;
  /// Runs `w` likewise, as a task of its own, the session of a connection, say: what that starts stays on the
  /// thread on which it begins. If several threads run this, it begins on the one that has least to do: the
  /// fewest operations in flight and pieces of work that wait. One that keeps it waiting for a millisecond
  /// gets nothing new until it comes round. If the calling thread has nothing in flight: as fork(). Otherwise
  /// as post().
  virtual void spawn(work& w) noexcept;
  /// Runs `f()` later, likewise. One allocation.
  ///
  /// Errors  ENOMEM (std::errc::not_enough_memory); then `f` was not taken
  template <class F>
    requires(std::invocable<std::decay_t<F>&> && !std::derived_from<std::decay_t<F>, work>)
  result<void> post(F&& f) noexcept {
    return queue(static_cast<F&&>(f), [this](work& w) { post(w); });
  }
  template <class F>
    requires(std::invocable<std::decay_t<F>&> && !std::derived_from<std::decay_t<F>, work>)
  result<void> spawn(F&& f) noexcept {
    return queue(static_cast<F&&>(f), [this](work& w) { spawn(w); });
  }

  /// Takes back posted work, before it is destroyed. On the thread that runs it; if several may, on any.
  /// Returns false if it has run, or is about to. Cost: O(posted).
  virtual bool withdraw(work& w) noexcept;

  /// Makes one run() return: one that sleeps, or else the next that would. Of several threads that sleep it
  /// is one, in turns; calls that no run() has answered yet count as one. From any thread and from signal
  /// handlers. The multiplexer must live until wake() has returned. Cost: one system call if it sleeps.
  virtual void wake() noexcept = 0;

  /// The executor that runs coroutines and work on the thread that runs this multiplexer.
  [[nodiscard]] inline multiplexer_executor executor() noexcept;
  /// Which thread runs it, as the calling one sees it. If several do: `this_thread` if the calling one does.
  enum class runner : std::uint8_t { this_thread, none_yet, another_thread };
  [[nodiscard]] virtual runner run_by() const noexcept { return runner::this_thread; }
  /// Whether another thread runs what the calling one starts here, or may: at once, and notify its receiver.
  [[nodiscard]] bool runs_elsewhere() const noexcept {
    runner const r = run_by();
    return r == runner::another_thread || (r == runner::none_yet && is_shared());
  }

  /// What its driver is and uses; of a multiplexer of several threads, on the calling one. Throws
  /// std::bad_alloc.
  [[nodiscard]] virtual unio::capabilities capabilities() const = 0;
  /// What it did; of a multiplexer of several threads, on the calling one.
  [[nodiscard]] virtual unio::counters counters() const noexcept = 0;

  // What a multiplexer implements for operations and handles.

  /// Takes a described operation; may deliver it before returning. Cost: the operation's.
  virtual void start(io_operation& op) noexcept = 0;
  /// See io_operation::poll. Cost: that of looking at one operation.
  virtual io_status poll(io_operation& op) noexcept = 0;
  /// See io_operation::cancel.
  virtual void cancel(io_operation& op) noexcept = 0;
  /// Cancels all that is in flight on a descriptor, waits until it has finished, and forgets the descriptor,
  /// which is about to be closed. From any thread. Cost: turns of the loop, if there is anything in flight.
  virtual void forget(int fd) noexcept = 0;
  /// Drives `op` until it has finished. The thread that runs this multiplexer. Cost: turns of the loop.
  virtual void finish(io_operation& op) noexcept = 0;
  /// Cancels `op` and drives it until it has finished, because it is being destroyed. Cost: turns of the
  /// loop.
  virtual void abandon(io_operation& op) noexcept;
  /// A member of `chain` (see async_link) has ended, on the thread that runs this multiplexer: perform() says
  /// whether it was the last. A multiplexer without this performs the chain from time to time.
  virtual void member_ended(io_operation& chain) noexcept;
  /// Where this thread's operations are started, if several threads run this and it is one of them: known
  /// before an atomic form counts as started, because other threads may cancel it from then on. Cost: none.
  virtual io_multiplexer& of_this_thread() noexcept;
  /// Whether any number of threads may run this.
  [[nodiscard]] bool is_shared() const noexcept { return is_shared_; }
  /// If so: makes the calling thread one of them, as its first run() would. Cost: then that of
  /// best_available().
  virtual void join_in() noexcept {}
  /// What the calling thread starts may wait until it has started more: see held_starts, which calls both.
  /// Returns false if that is for nothing: then release_starts() is not called. Cost: none.
  virtual bool hold_starts() noexcept;
  /// As often as hold_starts() has returned true, by the same thread. With the last: all that waits goes to
  /// the kernel, unless a receiver or posted work is running, behind which the turn has it go. Calls no
  /// receiver. Cost: one system call, if there is anything.
  virtual void release_starts() noexcept;

 protected:
  explicit io_multiplexer(bool is_shared) noexcept : is_shared_(is_shared) {}
  /// `max_items` < 0: no limit. `until`: a moment on the steady clock in ns; for do_run the end of its sleep.
  virtual result<int> do_complete_io(int max_items, std::int64_t until) noexcept = 0;
  virtual result<int> do_timeout_io(int max_items, std::int64_t until) noexcept = 0;
  virtual result<int> do_invoke_posted(int max_items, std::int64_t until) noexcept = 0;
  virtual result<int> do_run(int max_items, std::int64_t until) noexcept = 0;
  /// A deadline as a moment on the steady clock, in ns.
  [[nodiscard]] std::int64_t due(deadline d) const noexcept;

  /// Makes `m` run an operation that was started on this one.
  static void adopt(io_operation& op, io_multiplexer& m) noexcept {
    op.runner().store(&m, std::memory_order_release); // pairs with the acquire in io_operation::multiplexer()
  }

 private:
  template <class F> struct posted final : work {
    template <class G> explicit posted(G&& g) : work(&invoke), f(static_cast<G&&>(g)) {}
    static void invoke(work& w, bool run) noexcept {
      std::unique_ptr<posted> self(static_cast<posted*>(&w));
      if (run) self->f();
    }
    F f;
  };
  template <class F, class To> static result<void> queue(F&& f, To to) noexcept {
    auto* item = new (std::nothrow) posted<std::decay_t<F>>(static_cast<F&&>(f));
    if (item == nullptr) return std::make_error_code(std::errc::not_enough_memory);
    to(static_cast<work&>(*item));
    return {};
  }

  bool const is_shared_ = false;
};

/// Runs coroutines and work where a multiplexer is run.
///
/// Thread safety  distinct and shared: safe
/// Lifetime       the multiplexer outlives it; what is posted to one that has ended does not run
/// Size           8 bytes
/// Cost           as post(); dispatching on its own thread: none
class multiplexer_executor {
 public:
  explicit multiplexer_executor(io_multiplexer& m) noexcept : multiplexer_(&m) {}
  /// Where to go on: see is_executor. Returns the coroutine of `r` on the thread that runs the multiplexer.
  [[nodiscard]] std::coroutine_handle<> dispatch(resumption& r) const noexcept {
    if (multiplexer_->run_by() == io_multiplexer::runner::this_thread) return r.handle();
    multiplexer_->post(r);
    return std::noop_coroutine();
  }
  void post(work& w) const noexcept { multiplexer_->post(w); }
  void spawn(work& w) const noexcept { multiplexer_->spawn(w); }
  void fork(work& w) const noexcept { multiplexer_->fork(w); }
  [[nodiscard]] bool withdraw(work& w) const noexcept { return multiplexer_->withdraw(w); }
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept { return multiplexer_; }
  bool operator==(multiplexer_executor const&) const = default;

 private:
  io_multiplexer* multiplexer_;
};

inline multiplexer_executor io_multiplexer::executor() noexcept { return multiplexer_executor(*this); }

namespace this_thread {

/// The calling thread's own multiplexer, made by best_available(1) on first use. If that fails (no
/// descriptors left), returns one on which every operation ends at once with that error; the next call
/// retries.
///
/// Concurrency  from any thread, each of which gets its own; what another thread may do with it: see
///              io_multiplexer
/// Lifetime     until the thread ends
/// Cost         the first call as best_available(); later ones a look at a thread-local variable
UNIO_API io_multiplexer& multiplexer() noexcept;

/// The same, but null if this thread has not made one. See multiplexer().
UNIO_API io_multiplexer* multiplexer_if_any() noexcept;

} // namespace this_thread
} // namespace unio
