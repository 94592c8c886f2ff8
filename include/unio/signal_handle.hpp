// unio/signal_handle.hpp: signals to this process as something to wait for.
//
//   signal_set      which signals
//   signal_info     one signal: its number, and who sent it
//   signal_handle   waits for signals of a set; async_wait_signal is its operation
//   block_signals   for main, before there are threads
//   ignore_sigpipe  ignores SIGPIPE for good, so that splicing need not block it each time
//
//   auto signals = signal_handle::create({SIGTERM, SIGINT}).value();
//   signal_info const s = (co_await signals.co_wait()).value();

#pragma once

#include <unio/handle.hpp>

#include <initializer_list>

namespace unio::inline v0_1 {

class signal_handle;
namespace detail {
struct signal_subscription;
struct signal_source {
  signal_source() = default;
  explicit signal_source(signal_handle const& h) noexcept;
  signal_subscription* place = nullptr; // null: they come by signalfd(2)
};
/// After one was read: what had no room comes once more.
void put_missed(signal_subscription& place) noexcept;
} // namespace detail

/// Signals by their numbers, 1 to 64, as <csignal> names them.
///
/// Thread safety  any number of readers
/// Cost           none
class signal_set {
 public:
  constexpr signal_set() = default;
  constexpr signal_set(std::initializer_list<int> numbers) noexcept { // NOLINT: implicit
    for (int const n : numbers) add(n);
  }
  /// A number that no signal has makes the set invalid: what takes it says EINVAL.
  constexpr void add(int number) noexcept {
    if (number >= 1 && number <= 64) {
      bits_ |= std::uint64_t{1} << (number - 1);
    } else {
      is_valid_ = false;
    }
  }
  [[nodiscard]] constexpr bool contains(int number) const noexcept {
    return number >= 1 && number <= 64 && (bits_ >> (number - 1) & 1) != 0;
  }
  [[nodiscard]] constexpr bool is_valid() const noexcept { return is_valid_; }
  /// The signal n as the bit n - 1, as the kernel has it.
  [[nodiscard]] constexpr std::uint64_t bits() const noexcept { return bits_; }

 private:
  std::uint64_t bits_ = 0;
  bool is_valid_ = true;
};

/// A signal that has come. Source: sigaction(2), siginfo_t.
struct signal_info {
  int number = 0;
  int code = 0;           ///< si_code: 0 or less from a process (SI_USER, SI_QUEUE), above from the kernel
  int process = 0;        ///< who sent it; of SIGCHLD, who it is about
  unsigned user = 0;      ///< the sender's real user
  std::int64_t value = 0; ///< what sigqueue(3) was given, as a pointer holds it; of SIGCHLD, the status
};

/// Waits for the next signal of a signal_handle.
///
/// Returns       the signal
/// Errors        condition::timed_out, would_block, canceled
/// Cancellation  a signal that came first is returned
/// Order         as the signals came, with delivery::handler; by number, with delivery::mask
/// Cost          no allocation; one system call when there is one
/// Runs as       read(2) on readiness, which io_uring learns by POLL_ADD
UNIO_OPERATION(wait_signal, detail::with<detail::signal_source>::yields<signal_info>, (signal_handle&, h))

/// How signals come to a signal_handle.
enum class delivery : std::uint8_t {
  /// By a handler, which writes each signal into a pipe of each handle that waits for it. No mask is touched:
  /// some thread has to have the signal unblocked. What handled the signal before is called afterwards, and
  /// is back when the last such handle for it has ended, unless somebody has installed another handler since;
  /// that one has to call ours. System calls are restarted (SA_RESTART). A child of fork(2) without a handle
  /// of its own treats the signal as if there were none.
  handler,
  /// By signalfd(2), without a handler. create() blocks the signals in the calling thread, for good; all
  /// other threads have to block them as well (block_signals in main, before there are any), or the signal
  /// goes to one that does not. Several handles for one signal share what comes.
  mask,
};

/// Signals of a set, in every style.
///
/// Coalescing     a signal that is pending already is not sent again (signal(7)), real-time signals excepted;
///                so a signal means "at least one". With delivery::handler a handle that is not read from
///                keeps 1000 signals or more; 300 where the user's pipes have more memory than
///                /proc/sys/fs/pipe-user-pages-soft allows (pipe(7)). Of what comes then it keeps only which
///                signals: each comes once, after the others, with its number alone
/// Thread safety  distinct: safe, also for the same signals; shared: one wait at a time
/// Moved-from     closed
/// Simulation     refused by name
/// Size           24 bytes, and a pipe of three descriptors with delivery::handler
class UNIO_API signal_handle : public handle {
 public:
  signal_handle() = default;
  signal_handle(signal_handle&& other) noexcept;
  signal_handle& operator=(signal_handle&& other) noexcept;
  ~signal_handle();

  /// Begins to take signals.
  ///
  /// Errors   EINVAL for SIGKILL and SIGSTOP, which no process can take, for faults (SIGSEGV, SIGBUS, SIGFPE,
  ///          SIGILL), from which a handler must not return, for those of the C library, and for an invalid
  ///          set or an empty one; EMFILE, ENFILE, ENOMEM. Nothing is changed then
  /// Cost     with delivery::handler a pipe, a place in a list that is kept, and some two system calls for
  ///          each signal; with delivery::mask two system calls
  static result<signal_handle> create(signal_set signals, delivery how = delivery::handler) noexcept;

  /// wait, try_wait, …, co_wait, …: see async_wait_signal.
  UNIO_VERB_FORMS(wait, async_wait_signal)

  /// As handle::close; signals that came and were not read are dropped.
  result<void> close() noexcept;

 private:
  friend struct detail::signal_source;
  explicit signal_handle(int fd, detail::signal_subscription* s) noexcept
      : handle(fd, handle_kind::signal), subscription_(s) {}
  detail::signal_subscription* subscription_ = nullptr; // null: by signalfd
};

/// Blocks signals in the calling thread, and in the threads that it starts from then on. Errors: EINVAL.
/// Concurrency: any thread, for itself. Cost: one system call.
UNIO_API result<void> block_signals(signal_set signals) noexcept;

inline detail::signal_source::signal_source(signal_handle const& h) noexcept : place(h.subscription_) {}
inline signal_handle::signal_handle(signal_handle&& other) noexcept
    : handle(static_cast<handle&&>(other)), subscription_(std::exchange(other.subscription_, nullptr)) {}
inline signal_handle::~signal_handle() {
  if (subscription_ != nullptr) (void)close();
}

/// Ignores SIGPIPE in this process, and records that it stays ignored.
///
/// The library never raises SIGPIPE, with or without this call. But splice(2) has no flag against it, nor has
/// writing to a pipe before Linux 6.18: there the calling thread blocks the signal during each call.
///
/// Preconditions  nothing changes the disposition of SIGPIPE afterwards; otherwise such a call may raise it
/// Errors         none that Linux is known to give
/// Concurrency    from any thread, at any time; best at the start of the program
/// Cost           one system call; saves two for each splice and for each write to such a pipe, and a third
///                where a splice moves fewer bytes than it was asked to
/// Source         signal(7), pipe(7)
UNIO_API result<void> ignore_sigpipe() noexcept;

} // namespace unio
