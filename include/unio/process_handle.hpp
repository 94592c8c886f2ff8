// unio/process_handle.hpp: other processes: starting them, waiting for their end, sending them signals.
//
//   exit_status       how a process ended
//   process_resources what it used
//   child_stream      where a standard stream of a child leads
//   launch_options    what else a child gets
//   launch_step       what failed
//   process_handle    a process; async_wait_exit waits for its end
//   launched_process  a child, and this process's ends of its pipes
//
//   auto child = process_handle::launch("sort", {"-n"}, {.input = child_stream::pipe()}).value();
//   child.input.write(…); child.input.close();
//   exit_status how = child.process.wait(10s).value();

#pragma once

#include <unio/detail/standard.hpp>
#include <unio/pipe_handle.hpp>

#include <span>
#include <string>
#include <vector>

namespace unio::inline v0_1 {

class process_handle;
namespace detail {
struct process_state;
struct process_reference {
  process_reference() = default;
  explicit process_reference(process_handle const& h) noexcept;
  process_state* process = nullptr; // the handle's, which is not closed before the operation has ended
};
} // namespace detail

/// How a process ended: by itself with a code, or killed by a signal.
///
/// Thread safety  distinct: safe; shared: any number of readers
class exit_status {
 public:
  constexpr exit_status() = default;
  static constexpr exit_status exited(int code) noexcept { return {code, 0, false}; }
  static constexpr exit_status killed(int signal, bool dumped_core = false) noexcept {
    return {0, signal, dumped_core};
  }

  [[nodiscard]] constexpr bool is_success() const noexcept { return signal_ == 0 && code_ == 0; }
  [[nodiscard]] constexpr bool was_killed() const noexcept { return signal_ != 0; }
  /// What it returned from main or gave to exit(3): 0 … 255. 0 if it was killed.
  [[nodiscard]] constexpr int code() const noexcept { return code_; }
  /// What killed it, or 0.
  [[nodiscard]] constexpr int signal() const noexcept { return signal_; }
  [[nodiscard]] constexpr bool dumped_core() const noexcept { return dumped_core_; }
  /// As a shell says it: the code, or 128 and the signal.
  [[nodiscard]] constexpr int as_shell() const noexcept { return was_killed() ? 128 + signal_ : code_; }
  friend constexpr bool operator==(exit_status const&, exit_status const&) = default;

 private:
  constexpr exit_status(int code, int signal, bool dumped_core) noexcept
      : code_(static_cast<std::uint8_t>(code)),
        signal_(static_cast<std::uint8_t>(signal)),
        dumped_core_(dumped_core) {}
  std::uint8_t code_ = 0;
  std::uint8_t signal_ = 0;
  bool dumped_core_ = false;
};

/// What a process that has ended used, together with those of its children that it waited for.
struct process_resources {
  std::chrono::microseconds user{};   ///< of processors, for the program itself
  std::chrono::microseconds system{}; ///< of processors, for what the kernel did for it
  std::uint64_t peak_memory = 0;      ///< bytes in memory at once, of the largest of these processes
  std::uint64_t page_faults = 0;      ///< that had to wait for a device
  std::uint64_t waits = 0;            ///< how often it gave up its processor
  std::uint64_t preemptions = 0;      ///< how often its processor was taken from it
};

/// Where a standard stream of a child leads.
///
/// Thread safety  distinct: safe; shared: any number of readers
class child_stream {
 public:
  enum class leads : std::uint8_t { inherited, pipe, null, merged, handle };

  /// Where this process's leads; to /dev/null if this process has closed it.
  constexpr child_stream() = default;
  /// To this process, through a new pipe. The child's end is blocking, as programs expect.
  static constexpr child_stream pipe() noexcept { return child_stream(leads::pipe); }
  /// To /dev/null.
  static constexpr child_stream null() noexcept { return child_stream(leads::null); }
  /// The standard error where the standard output leads (2>&1). EINVAL for the others.
  static constexpr child_stream merged() noexcept { return child_stream(leads::merged); }
  /// Where `h` leads, which has to stay open until launch() returns. A pipe of unio's, which does not block,
  /// is opened anew for the child where that is permitted, so that the child's does; a socket cannot be, and
  /// the child has to expect EAGAIN.
  static constexpr child_stream to(handle const& h) noexcept { return child_stream(leads::handle, &h); }

  [[nodiscard]] constexpr leads where() const noexcept { return where_; }
  [[nodiscard]] constexpr handle const* target() const noexcept { return target_; }

 private:
  constexpr explicit child_stream(leads where, handle const* target = nullptr) noexcept
      : where_(where), target_(target) {}
  leads where_ = leads::inherited;
  handle const* target_ = nullptr;
};

/// To which group of processes and which session a child belongs: what a terminal's signals go to.
enum class process_group : std::uint8_t {
  inherited,   ///< this process's
  own,         ///< its own, of which it is the leader
  own_session, ///< its own, in a session of its own, without a terminal
};

/// What a child gets with its program and arguments. What it refers to has to live until launch() returns.
struct launch_options {
  child_stream input{};
  child_stream output{};
  child_stream error{};
  /// What it sees as its own name (argv[0]). Empty: the program as it was given.
  std::string name{};
  /// Whether it gets this process's environment; and what is changed in it or, without, all of it.
  /// "NAME=value" sets a variable, "NAME" removes it; the last of one name counts.
  bool inherits_environment = true;
  std::vector<std::string> environment{};
  /// Where it starts: a directory, relative to `working_base` (null: to this process's). Both left out: where
  /// this process is.
  path_view working_directory{};
  path_handle const* working_base = nullptr;
  process_group group = process_group::inherited;
  /// Handles that it gets as descriptors 3, 4, …, in their order; at most 64.
  std::span<handle const* const> passed{};
  /// False: no signal is blocked or ignored in it. True: those that are in the calling thread.
  bool inherits_signals = false;
  /// What the kernel sends it when the *thread* that launched it ends, also if its process lives on; 0:
  /// nothing. Lost where it executes a set-user-ID program (PR_SET_PDEATHSIG(2const)).
  int signal_at_parents_death = 0;
};

/// What launch() was doing when it failed.
enum class launch_step : std::uint8_t {
  none,
  arguments,         ///< putting arguments and environment together
  pipes,             ///< making pipes
  process,           ///< making the process
  group,             ///< giving it a group or a session
  parents_death,     ///< signal_at_parents_death
  working_directory, ///< changing to it
  input,             ///< leading its standard input where it should
  output,            ///< its standard output
  error,             ///< its standard error
  passed,            ///< passing handles
  others,            ///< keeping all other descriptors from it
  program,           ///< executing the program
};
/// Its name as a word or two of English, for messages. Lifetime: static. Concurrency: any thread. Cost: none.
UNIO_API char const* to_string(launch_step s) noexcept;

/// Waits until a process has ended. Any number may wait for one process, also on several threads; each gets
/// its status.
///
/// Returns       how it ended
/// Errors        condition::timed_out, would_block, canceled; std::errc::no_child_process (ECHILD) once it
///               has ended where nothing tells how: before Linux 6.15 if SIGCHLD is ignored (SIG_IGN,
///               SA_NOCLDWAIT) or somebody else has waited for it (wait(2) for any child); and for a process
///               that is not a child of this one, unless its parent has waited for it already
/// Cancellation  a status that is known is returned
/// Cost          no allocation; one system call once it has ended, two more for a wait
/// Runs as       waitid(2) by its pidfd, on readiness, which io_uring learns by POLL_ADD
/// Source        docs/features.md H-11; pidfd_open(2), waitid(2)
UNIO_OPERATION(wait_exit, detail::with<detail::process_reference>::yields<exit_status>, (process_handle&, h))

struct launched_process;

/// A process, by a descriptor that means this one process for ever (pidfd), whatever becomes of its number.
///
/// Thread safety  distinct: safe; shared: waiting and kill() from any thread; closing while no other uses it
/// No zombie      a child that was waited for is gone from the table of processes. The handle of one that was
///                not neither waits nor kills when it ends: if the child has ended it is removed then, else
///                it lives on, and a thread of the library removes it when it has ended. That thread exists
///                while there are such children; if it cannot be started, the next such handle tries again
/// Moved-from     closed. A wait that is described but not started refers to the handle
/// SIGCHLD        is sent as ever, and nothing here needs it: it may be handled, blocked or ignored
/// Fork           a forked child of this process may close the handle, and nothing else
/// Simulation     launching, adopting and signals are refused by name
/// Size           24 bytes, and one allocation
class UNIO_API process_handle : public handle {
 public:
  process_handle() = default;
  process_handle(process_handle&& other) noexcept;
  process_handle& operator=(process_handle&& other) noexcept;
  ~process_handle();

  /// Starts a program in a new process.
  ///
  /// Effects       the child has the descriptors 0, 1, 2 and those passed, and no others: all others are
  ///               close-on-exec in it, also those that foreign code has opened without O_CLOEXEC
  /// Program       a path, relative to `base` or, where that is closed, to this process's working directory,
  ///               whatever the child's will be. Without a slash, and without `base`: looked for in this
  ///               process's PATH, whose relative parts are relative to the same. No shell takes part; a
  ///               script needs its "#!" (ENOEXEC). A script that was found by a directory's descriptor (an
  ///               open `base`, or a relative path or part while the child starts elsewhere) gets that
  ///               descriptor as one more, because its interpreter opens it so
  /// Returns       the child, which executes the program already, and this process's ends of the pipes
  /// Errors        what the failing step was refused with, `*failed` says which that was, and no child is
  ///               left: ENOENT, EACCES, ENOEXEC, E2BIG, ENOTDIR, … as execve(2); EMFILE, ENFILE; EAGAIN
  ///               at a limit on processes; EINVAL for options that contradict each other;
  ///               error::embedded_nul; ENOMEM
  /// Concurrency   from any thread at any time. It reads the environment, as getenv(3) does
  /// Cost          the calling thread sleeps until the program is executed, as in vfork(2): this process's
  ///               memory is not copied. Where a filter of system calls refuses that, or under a sanitizer,
  ///               it is a fork(2), and handlers of pthread_atfork(3) run
  /// Source        docs/features.md H-11; clone(2), CLONE_VFORK, CLONE_PIDFD; execve(2); close_range(2)
  static result<launched_process> launch(path_view program, std::vector<std::string> const& arguments = {},
                                         launch_options const& options = {}, launch_step* failed = nullptr);
  static result<launched_process> launch(path_handle const& base, path_view program,
                                         std::vector<std::string> const& arguments = {},
                                         launch_options const& options = {}, launch_step* failed = nullptr);

  /// The process with this number. It is not this handle's to remove: its handle may be closed at any time.
  /// A child of this process that nothing else waits for should be waited for. Whether the number means the
  /// process that the caller has in mind, only the caller knows. Errors: ESRCH if there is none; EINVAL;
  /// EMFILE, ENFILE, ENOMEM.
  static result<process_handle> adopt(int id) noexcept;
  /// The process at the other end of a Unix socket, as it was when it connected, listened or made the pair;
  /// as adopt(), but there is no doubt which process is meant.
  ///
  /// Errors  as credentials_of_peer; ENOPROTOOPT where the kernel cannot tell (before Linux 6.5, or in a
  ///         simulation): there its number is all that there is. Of one that was waited for, before Linux
  ///         6.16: EINVAL, ESRCH
  /// Cost    three system calls
  /// Source  socket(7), SO_PEERPIDFD
  static result<process_handle> of_peer(handle const& socket) noexcept;
  /// This process. Waiting for it lasts until the deadline. Errors: EMFILE, ENFILE, ENOMEM.
  static result<process_handle> current() noexcept;

  /// Its number; 0 if it is closed, or a peer in a namespace of processes that this one does not see. After
  /// its end the system may give that to another process. Cost: none.
  [[nodiscard]] int id() const noexcept;

  /// wait, try_wait, try_wait_for, …, co_wait, …: see async_wait_exit.
  UNIO_VERB_FORMS(wait, async_wait_exit)

  /// What it used, once it has ended. Does not wait.
  ///
  /// Errors  condition::would_block (EAGAIN) before its end; ECHILD where nothing tells: it is no child of
  ///         this process, or SIGCHLD is ignored, or its status was taken without this handle; EBADF if it
  ///         is closed
  /// Cost    one system call; none after a wait
  /// Source  waitid(2), getrusage(2)
  [[nodiscard]] result<process_resources> resources() noexcept;

  /// Sends it a signal, never a process that has its number by now. 0 only asks whether it can be sent.
  /// Errors: ESRCH if it has ended and was waited for; EPERM; EINVAL.
  result<void> kill(int signal) noexcept;
  /// Ends it: SIGTERM; SIGKILL if it has not ended within `grace`. Blocks until it has ended, and returns how
  /// it did. Errors: as kill() and async_wait_exit. Cost: theirs, twice at most. Awaited: co_terminate, of
  /// terminate.hpp.
  result<exit_status> terminate(deadline grace) noexcept;

  /// As handle::close. See "No zombie".
  result<void> close() noexcept;
  /// Gives up the descriptor, and returns it; -1 if it is closed. A child that was not waited for is the
  /// caller's to wait for (waitid(2), P_PIDFD); so is one whose descriptor async_close has closed.
  [[nodiscard]] int release() noexcept;

 private:
  friend struct detail::process_reference;
  static result<process_handle> make(int pidfd, int id) noexcept;
  process_handle(int fd, detail::process_state* state) noexcept
      : handle(fd, handle_kind::process), state_(state) {}
  detail::process_state* state_ = nullptr;
};

/// A child that was launched. The handles of streams that are not pipes are closed. All of them are
/// non-blocking on this side.
struct launched_process {
  process_handle process;
  pipe_handle input;  ///< writes to its standard input; close it to end that
  pipe_handle output; ///< reads its standard output
  pipe_handle error;  ///< reads its standard error
};

inline detail::process_reference::process_reference(process_handle const& h) noexcept : process(h.state_) {}
inline process_handle::process_handle(process_handle&& other) noexcept
    : handle(static_cast<handle&&>(other)), state_(std::exchange(other.state_, nullptr)) {}
inline process_handle::~process_handle() {
  if (state_ != nullptr) (void)close();
}

} // namespace unio
