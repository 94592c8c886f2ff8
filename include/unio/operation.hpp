// unio/operation.hpp: the state of one operation, on every driver.
//
// The life of an operation:
//
//    described ──start──► started ─────────► completed ─────────► finished
//    (a value, movable)   (pinned)  set_value (result known; the   set_done
//                                   1 … n     kernel may still     (may be destroyed, moved, reset)
//                                             hold the buffers)
//
// Programs use the operations that the handles' headers declare (async_read, async_accept, …) through
// unio::connect or co_await. This header is for those who write an operation or a multiplexer.

#pragma once

#include <unio/deadline.hpp>
#include <unio/detail/standard_sender.hpp>
#include <unio/detail/tracking.hpp>
#include <unio/error.hpp>
#include <unio/executor.hpp>
#include <unio/extend/operation_faces.hpp>

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1 {

class io_operation;

namespace detail {
class awaiting;
class calling_back;
class chain;
struct poll_access;
/// The link through which the requests of other threads for an atomic form are queued, as a base of `Owner`
/// that comes before the operation.
template <class Owner> struct message_link {
  io_operation* next_message_ = nullptr;
};
} // namespace detail

class io_multiplexer;
class handle;

/// What io_operation::poll() says.
enum class io_status : std::uint8_t {
  not_started, ///< start() was not called yet
  pending,     ///< no result yet
  completed,   ///< the result is known: set_value was called (and set_done, unless finished() is false)
};

/// The state of an operation. Contains no type of the operating system, allocates nothing, throws nothing.
///
/// Thread safety  one thread at a time: from its start to its end the one that runs it (multiplexer()). The
///                atomic_ forms may be started, polled, cancelled and destroyed from any thread
/// Lifetime       pinned from start() until finished(); see io_operation_connection about destruction
/// Cost           no allocation; system calls are those of the operation and of its multiplexer's turns
class UNIO_API io_operation : public detail::tracked_operation<UNIO_TRACKS_PENDING> {
 public:
  /// What a receiver is notified of.
  enum stage : unsigned { value = 1, done = 2 };

  /// Starts it on its handle's multiplexer; where that has none, on `m` or, null, the calling thread's own.
  /// May complete and finish before returning. Preconditions: described (not started, or reset).
  void start(io_multiplexer* m = nullptr) noexcept;
  /// Looks whether it has completed, doing as little as possible; delivers the result if so. Never waits.
  /// Returns where it is.
  io_status poll() noexcept;
  /// Asks it to end soon. Bytes that have moved are still reported as success. Does nothing once it has
  /// completed.
  void cancel() noexcept;
  /// Makes it startable again with the same arguments. Preconditions: not started, or finished.
  void reset() noexcept;

  /// Runs it here and now, with blocking system calls or by driving a multiplexer (see handle, "Blocking").
  /// Afterwards it has finished, and its receiver was not called: ask for its result.
  void run_blocking() noexcept;

  [[nodiscard]] bool started() const noexcept { return (load() & bit_started) != 0; }
  [[nodiscard]] bool completed() const noexcept { return (load() & bit_completed) != 0; }
  /// True inside set_done, for the thread that calls it; for others once it has returned.
  [[nodiscard]] bool finished() const noexcept {
    std::uint32_t const s = load();
    return (s & bit_finished) != 0 || ((s & bit_ending) != 0 && ends_here());
  }
  [[nodiscard]] bool in_flight() const noexcept { return is_in_flight(load()) && !finished(); }

  // For multiplexers, operations and what awaits them.

  /// Calls `f` with each descriptor that it may still use. Throws what `f` throws.
  template <class F> void for_each_descriptor(F f) const {
    if (faces_->for_each_descriptor == nullptr) return f(fd_);
    faces_->for_each_descriptor(*this, [](int fd, void* context) { (*static_cast<F*>(context))(fd); }, &f);
  }

  /// Who will run it: its handle's multiplexer; otherwise `m` or, null, the calling thread's own.
  [[nodiscard]] io_multiplexer& chosen(io_multiplexer* m) const noexcept;
  /// Ends it before it has begun, with a negative native code, and calls no receiver. Preconditions:
  /// described.
  void refuse(int native_code) noexcept;

  [[nodiscard]] driver::operation_faces const& faces() const noexcept { return *faces_; }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  [[nodiscard]] handle_kind kind() const noexcept { return kind_; }
  [[nodiscard]] unio::deadline const& deadline() const noexcept { return deadline_; }
  /// Who runs it: known from start() on. Another thread may see it change while the operation is handed over.
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept {
    return runner().load(std::memory_order_acquire); // pairs with the release in io_multiplexer::adopt
  }
  /// True for the forms whose state several threads may touch.
  [[nodiscard]] bool is_atomic() const noexcept { return message_link_ != 0; }
  /// The last that the thread that has started it does with it: from here on another thread that runs its
  /// multiplexer may take it over, while this one computes. Preconditions: is_atomic(), started.
  void let_be_taken() noexcept { state().fetch_or(bit_takeable, std::memory_order_acq_rel); }
  /// The same where no other thread can have asked anything of it yet.
  void let_be_taken_unasked() noexcept { add(bit_takeable); }
  /// Acquire; pairs with the release in let_be_taken().
  [[nodiscard]] bool may_be_taken() const noexcept { return (load() & bit_takeable) != 0; }
  /// True when an inline completion calls no receiver, because the caller looks for it itself (co_await).
  [[nodiscard]] bool is_quiet() const noexcept { return quiet_; }
  /// True for an operation that yields many values (multishot).
  [[nodiscard]] bool is_multishot() const noexcept { return multishot_; }

  /// Whether its last system call got some bytes of a stream socket, and fewer than it asked for. Noted where
  /// one piece of memory is read into; what else perform() does leaves it as it was.
  [[nodiscard]] bool fell_short() const noexcept { return fell_short_; }
  void set_fell_short(bool on) noexcept { fell_short_ = on; }

  /// The value, or a negative native code. Written by complete().
  [[nodiscard]] int outcome_value() const noexcept { return result_; }
  void set_outcome(int value_or_native_error) noexcept { result_ = value_or_native_error; }
  /// What result() returns for a negative outcome: it names the operation and its object.
  /// Preconditions: has one, and its arguments still live.
  [[nodiscard, gnu::cold]] failure failed() const noexcept;
  /// What a native code of -ECANCELED means for this operation: timed out, if its deadline was what stopped
  /// it.
  [[nodiscard]] int canceled_code() const noexcept;

  /// Tells the receiver: `value`, `done` or both. After `done` the operation may no longer exist.
  void deliver(unsigned stages) noexcept;
  /// The same of one that is not atomic.
  void deliver_plainly(unsigned stages) noexcept {
    if ((stages & value) != 0) add(bit_completed);
    notify_(*this, stages);
  }
  /// For the receiver's side of deliver(): from here on state and buffers belong to the caller again.
  /// Called once nothing that another thread asks of it has an effect any more, or before another thread
  /// knows it.
  void mark_finished() noexcept { add(bit_completed | bit_finished); }
  /// The same around `f`, which may destroy, move or reset it: inside `f` it has finished for this thread.
  /// For other threads an atomic form finishes when `f` has returned, because they may then destroy what `f`
  /// uses.
  template <class F> void finish_with(F f) noexcept {
    if (!is_atomic()) {
      mark_finished();
      return f();
    }
    ending const here(*this);
    f();
  }

  // Requests of other threads to an atomic form. The one that finds no request outstanding queues the
  // operation with its multiplexer; the multiplexer delivers `done` only once no request is outstanding, so
  // that none can outlive it.

  enum request : std::uint32_t { request_start = 16, request_cancel = 32 };
  /// From any thread. True: the caller must queue it.
  bool ask(request r) noexcept;
  /// For that queue. Preconditions: is_atomic().
  io_operation*& next_message() noexcept { return reinterpret_cast<io_operation**>(this)[message_link_]; }
  /// By the multiplexer, which has taken it off the queue: what was asked.
  std::uint32_t take_requests() noexcept;
  /// By the multiplexer: what was asked of one that it has not begun is asked together with its start, which
  /// is on its way. Preconditions: is_atomic(); `r` was taken.
  void keep_request(request r) noexcept { state().fetch_or(r, std::memory_order_acq_rel); }
  /// Whether that was asked and not yet taken.
  [[nodiscard]] bool has_request(request r) const noexcept { return (load() & r) != 0; }
  /// By the multiplexer before it delivers `done`, with all `stages` that it is about to deliver. False: a
  /// request is outstanding; deliver `done` after take_requests().
  bool close_to_requests(unsigned stages) noexcept;

  driver::operation_links links;

 protected:
  io_operation() = default;
  io_operation(driver::operation_faces const& faces, handle_kind kind, int fd, io_multiplexer* multiplexer,
               unio::deadline d) noexcept
      : faces_(&faces), own_multiplexer_(multiplexer), deadline_(d), kind_(kind), fd_(fd) {}
  io_operation(io_operation&& other) noexcept;
  io_operation& operator=(io_operation&& other) noexcept;
  ~io_operation();

  using notification = void (*)(io_operation&, unsigned events) noexcept;
  void set_notification(notification f) noexcept { notify_ = f; }
  void set_quiet(bool on = true) noexcept { quiet_ = on; }
  /// `link`, a member of a class derived from this one, is for next_message(). It lies at most a kilobyte
  /// away: in a base that comes before this one (detail::message_link), so that the size of what follows does
  /// not matter.
  void set_atomic(io_operation*& link) noexcept;
  /// Of an atomic form: let_be_taken() is a part of start().
  void set_common() noexcept { common_ = true; }
  void set_multishot() noexcept { multishot_ = true; }

  void set_fd(int fd) noexcept { fd_ = fd; }

  /// True while a coroutine with an environment waits for it, and until that has been resumed.
  [[nodiscard]] bool is_awaited() const noexcept { return awaited_; }
  void set_awaited(bool on) noexcept { awaited_ = on; }

  /// Cancels an operation that is in flight, waits until the kernel has given it back, and closes what it had
  /// obtained. Calls no receiver; of files and names, and of pages that are being sent, those of others: a
  /// worker, a device or a peer decides how long these take. Called by the destructors of what holds an
  /// operation.
  void abandon() noexcept {
    if (is_in_flight(load())) [[unlikely]]
      abandon_in_flight();
  }
  /// finished(), for what is never notified through finish_with().
  [[nodiscard]] bool is_marked_finished() const noexcept { return (load() & bit_finished) != 0; }

 private:
  friend class io_multiplexer;
  friend class detail::awaiting;
  friend class detail::calling_back;
  friend class detail::chain;
  friend struct detail::poll_access;

  static constexpr std::uint32_t bit_started = 1, bit_completed = 2, bit_finished = 4, bit_closing = 8,
                                 bit_asked = 64, bit_abandoned = 128, bit_ending = 256, bit_takeable = 512;

  /// While finish_with() is under way: between bit_ending and bit_finished.
  class UNIO_API ending {
   public:
    explicit ending(io_operation& op) noexcept;
    ~ending();
    ending(ending const&) = delete;
    ending& operator=(ending const&) = delete;

   private:
    friend class io_operation;
    /// This thread's, linked by outer_.
    static ending*& innermost() noexcept;
    io_operation* op_; ///< null once it was destroyed, moved or reset
    ending* const outer_;
  };
  /// start() on the one that was chosen.
  void start_on(io_multiplexer& m) noexcept;
  /// poll() of one that was started and has not completed.
  io_status look() noexcept;
  UNIO_LAYOUT void abandon_in_flight() noexcept;
  /// Whether this thread is inside finish_with() of it.
  [[nodiscard]] bool ends_here() const noexcept;
  /// Of one that is not marked finished. If finish_with() is under way: ends that on this thread, waits for
  /// another one's. False: it is in flight.
  bool leave_ending() noexcept;
  /// The state, of one that may be moved or reset.
  [[nodiscard]] std::uint32_t state_at_rest(char const* misused) noexcept {
    std::uint32_t const s = is_atomic() ? load() : state_; // which copies of a description are left out for
    if (is_in_flight(s)) [[unlikely]]
      return state_after_ending(misused);
    return s;
  }
  UNIO_LAYOUT std::uint32_t state_after_ending(char const* misused) noexcept;
  [[noreturn]] UNIO_LAYOUT static void misused_in_flight(char const* message) noexcept;
  // Stands in for the receiver of an operation that is being destroyed.
  static void told_after_abandon(io_operation& op, unsigned events) noexcept;
  static constexpr bool is_in_flight(std::uint32_t state) noexcept {
    return (state & (bit_started | bit_finished)) == bit_started;
  }
  // A single thread needs no read-modify-write; the atomic forms must not lose another thread's request.
  void set(std::uint32_t bits) noexcept;
  // What another thread adds at the same time may be lost.
  void add(std::uint32_t bits) noexcept {
    state().store(state().load(std::memory_order_relaxed) | bits, std::memory_order_release);
  }
  [[nodiscard]] std::atomic_ref<std::uint32_t> state() const noexcept { return std::atomic_ref(state_); }
  [[nodiscard]] std::uint32_t load() const noexcept { return state().load(std::memory_order_acquire); }
  [[nodiscard]] std::atomic_ref<io_multiplexer*> runner() const noexcept {
    return std::atomic_ref(multiplexer_);
  }

  driver::operation_faces const* faces_ = nullptr;
  mutable io_multiplexer* multiplexer_ = nullptr; // who runs it, from start() on; touched through runner()
  io_multiplexer* own_multiplexer_ = nullptr;     // the handle's, or null for the thread's own
  notification notify_ = nullptr;
  [[no_unique_address]] unio::deadline deadline_; // what follows lies in its padding
  handle_kind kind_ = handle_kind::none;
  bool quiet_ : 1 = false;
  bool awaited_ : 1 = false;
  bool multishot_ : 1 = false;
  bool common_ : 1 = false;
  bool fell_short_ : 1 = false;
  std::int8_t message_link_ = 0; // where the link of an atomic form is, in pointers from here; 0: not atomic
  int fd_ = -1;
  int result_ = 0;
  // Others touch it through state(). Not a std::atomic, because a description that is passed on belongs to
  // one thread, and compilers leave no atomic out of a copy that they could do without.
  mutable std::uint32_t state_ = 0;
};

// ---- short functions --------------------------------------------------------------------------------------

inline io_status io_operation::poll() noexcept {
  std::uint32_t const s = load();
  if ((s & bit_completed) != 0) [[likely]]
    return io_status::completed;
  return (s & bit_started) != 0 ? look() : io_status::not_started;
}

inline void io_operation::reset() noexcept {
  (void)state_at_rest("an operation in flight cannot be reset");
  state().store(0, std::memory_order_relaxed);
}

inline void io_operation::deliver(unsigned stages) noexcept {
  if (!is_atomic()) [[likely]]
    return deliver_plainly(stages);
  if ((stages & value) != 0 && !completed()) state().fetch_or(bit_completed, std::memory_order_acq_rel);
  if ((load() & bit_abandoned) != 0) [[unlikely]]
    return told_after_abandon(*this, stages);
  notify_(*this, stages);
}

inline bool io_operation::ask(request r) noexcept {
  std::uint32_t const before = state().fetch_or(r | bit_asked, std::memory_order_acq_rel);
  return (before & (bit_asked | bit_closing | bit_finished)) == 0;
}

inline std::uint32_t io_operation::take_requests() noexcept {
  return state().fetch_and(~(bit_asked | request_start | request_cancel), std::memory_order_acq_rel);
}

// One step with that of deliver().
inline bool io_operation::close_to_requests(unsigned stages) noexcept {
  if (!is_atomic()) return true;
  std::uint32_t const completed = (stages & value) != 0 ? bit_completed : 0U;
  std::uint32_t const before = state().fetch_or(bit_closing | completed, std::memory_order_acq_rel);
  if ((before & bit_asked) == 0) return true;
  state().fetch_and(~bit_closing, std::memory_order_acq_rel);
  return false;
}

inline io_operation::io_operation(io_operation&& other) noexcept
    : faces_(other.faces_),
      own_multiplexer_(other.own_multiplexer_),
      notify_(other.notify_),
      deadline_(other.deadline_),
      kind_(other.kind_),
      quiet_(other.quiet_),
      multishot_(other.multishot_), // message_link_ is about an object's own members
      fd_(other.fd_),
      result_(other.result_),
      state_(other.state_at_rest("an operation in flight cannot be moved")) {
  other.fd_ = -1;
}

inline io_operation::~io_operation() {
  if (is_in_flight(state_)) [[unlikely]]
    misused_in_flight("an operation in flight was destroyed");
}

inline void io_operation::set_atomic(io_operation*& link) noexcept {
  auto const bytes = reinterpret_cast<std::intptr_t>(&link) - reinterpret_cast<std::intptr_t>(this);
  auto const pointers = bytes / static_cast<std::intptr_t>(sizeof(io_operation*));
  message_link_ = static_cast<std::int8_t>(pointers);
  UNIO_EXPECTS(message_link_ == pointers, "the link of an atomic form is too far from its operation");
}

inline void io_operation::set(std::uint32_t bits) noexcept {
  if (!is_atomic()) return add(bits);
  state().fetch_or(bits, std::memory_order_acq_rel);
}

} // namespace unio
