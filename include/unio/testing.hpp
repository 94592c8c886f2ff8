// unio/testing.hpp: a simulated system, whose I/O can go wrong in every order that a real one allows.
//
//   simulation_options   the seed, and what may happen
//   simulation           pipes, sockets and files of its own, a network, multiplexers, and a virtual clock
//   route                how what is sent to an address fares
//
// One seed decides everything random: the order of completions, how much a call moves, when the kernel gets
// to it, whether a cancel comes too late. A failing test prints its seed, which replays the failure exactly.
//
//   for (std::uint64_t seed = 0; seed != 1000; ++seed) {
//     unio::testing::simulation s(unio::testing::simulation_options::from_seed(seed));
//     unio::run(the_program());                // what it opens is simulated, and what it waits for as well
//   }
//
// Link with unio::testing. With unio::testing_libc, too, where the program calls the C library: its functions
// then ask the simulation, on its thread. The command `unio simulate` runs any program so.

#pragma once

#include <unio/datagram_handle.hpp>
#include <unio/multiplexer.hpp>
#include <unio/pipe_handle.hpp>
#include <unio/socket_handle.hpp>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <system_error>
#include <vector>

namespace unio::inline v0_1::testing {

/// What a simulation may do. Everything is allowed by default.
///
/// Thread safety  distinct: safe; shared: any number of readers
/// Cost           none
struct simulation_options {
  std::uint64_t seed = 0;

  bool reorder = true;           ///< ready operations complete in any order
  bool delays = true;            ///< the kernel gets to an operation some turns later; so does its result
  bool short_transfers = true;   ///< a call moves fewer bytes than it could, at least one
  bool late_cancels = true;      ///< a cancel may find that the operation has transferred, or is transferring
  bool spurious_wakeups = true;  ///< -EAGAIN although it was ready; readiness reported although it is not
  bool interruptions = true;     ///< -EINTR from system calls
  bool readiness = true;         ///< some operations wait for readiness and are then performed, as with epoll
  bool inline_attempts = true;   ///< start() tries some operations at once
  bool stray_completions = true; ///< completions that come twice, or after their operation has ended
  bool tiny_queue = true;        ///< a turn submits one to four operations, unless queue_entries is set
  bool lost_datagrams = true;    ///< one in eight does not arrive
  bool double_datagrams = true;  ///< one in eight arrives twice
  bool reordered_datagrams = true; ///< one in four overtakes others that have arrived
  bool congestion = true;          ///< one in eight that may be marked is
  bool latency = true; ///< what is sent over the network takes min_latency to max_latency to arrive
  bool resets = true;  ///< one in eight connections over the network is reset at some moment

  unsigned queue_entries = 0;         ///< operations and cancels that a turn submits; 0: any number
  unsigned max_delay_turns = 4;       ///< the longest delay, in turns
  std::size_t max_transfer_bytes = 0; ///< no call on a pipe or a socket moves more; 0: any number
  std::size_t pipe_capacity = 65536;  ///< bytes that a pipe holds
  std::size_t stream_capacity =
      212992;                    ///< bytes that each direction of a connection, a datagram socket holds
  unsigned failing_files = 0;    ///< one in so many calls on a file with a name fails with EIO; 0: none
  std::size_t disk_capacity = 0; ///< bytes of all files with a name, ENOSPC beyond; 0: any number
  std::chrono::nanoseconds min_latency{};                              ///< one way
  std::chrono::nanoseconds max_latency = std::chrono::milliseconds(5); ///< one way
  bool other_threads = false; ///< other threads may open what they like of the real system
  bool record = false;        ///< trace() keeps a line for each thing that happened

  /// A random half of the options, chosen by the seed: this finds faults that the other options would hide.
  [[nodiscard]] static simulation_options from_seed(std::uint64_t seed) noexcept;
  /// Nothing random: every operation is done as soon as possible, in the order in which it came.
  [[nodiscard]] static simulation_options orderly(std::uint64_t seed = 0) noexcept;
};

/// How what is sent to an address fares.
struct route {
  bool is_lost = false; ///< no datagram and no request for a connection arrives, nor a report of that
  std::errc error{};    ///< connecting and sending fail with it, as host_unreachable
  std::chrono::nanoseconds latency{-1}; ///< one way; negative: the seed draws it
};

/// A simulated system. While it exists, what its thread opens is simulated, and so is its thread's clock. A
/// program that is run there needs no change: it opens its own sockets, makes its own multiplexers, and uses
/// them in every style. Simulated descriptors are numbers from 2^28 upwards; those that were open before stay
/// the system's. The lowest free number is reused first, to expose code that uses a closed one.
///
/// What is simulated: stream sockets (IPv4, IPv6, Unix), datagram sockets (IPv4, IPv6), pipes, eventfds, and
/// a filesystem in memory, without links, of files up to 1 GiB; on them reading and writing in all forms,
/// close, connect, bind, listen, accept, shutdown, poll, zero-copy send, barriers, the length of files,
/// opening, renaming, removing and asking by name, locks, dup, fcntl; random numbers. The options of
/// socket(7), tcp(7), ip(7), ipv6(7) and udp(7) are accepted and told, and have no effect but SO_REUSEADDR,
/// SO_REUSEPORT and IPV6_V6ONLY. Locks on files are sometimes held by an imaginary process too, unless
/// simulation_options::delays is false.
///
/// Everything else is refused with ENOSYS (an option with ENOPROTOOPT, a command or a mode with EINVAL or
/// EOPNOTSUPP), and one line on the standard error and in refused() says which call it was: nothing reaches
/// the real system silently. A multiplexer of several threads, or a thread pool, cannot be made
/// (std::errc::operation_not_supported). What other threads open, and names that only the C library can look
/// up, are refused too, unless simulation_options::other_threads is set.
///
/// Pipes and connections behave as Linux's pipes and connected Unix sockets: end of stream, EPIPE, and
/// ECONNRESET once where the peer closed without having read everything. A connection over the network
/// (IPv4, IPv6) takes time, may be reset, and its end is known to the peer only after some time: what is
/// written to an end that has closed is lost, and writing fails when the answer to the first of it has
/// come back. The machine has all addresses: a socket that is bound to the wildcard is reached by every
/// one, and what connects speaks from the address that it connects to. set_route() says which are far
/// away, unreachable or silent.
///
/// Datagrams travel between the simulated sockets by their addresses. What is sent to one whose memory is
/// full is lost without a report, and so is what is sent to no socket, but where the sender is connected
/// there: it is told once (ECONNREFUSED). They are told where they came from and, as far as options ask for
/// it, went to, with marks and the virtual time; are cut into segments, and are never joined. Descriptors
/// are not carried.
///
/// Time           moves only while the simulation sleeps, to the next deadline, event, arrival or completion,
///                with advance(), and by a microsecond with each look that finds nothing while something is
///                on its way over the network. A loop that only polls for anything else waits for ever.
///                Deadlines that are spans just work; make a point in time from unio::now(), not from the
///                standard clocks
/// Thread safety  one thread makes it, uses it and ends it. At most one exists in a process (checked)
/// Errors         none but where a function says so: a mistake of the test ends the program with a message.
///                std::bad_alloc
/// Lifetime       outlives its handles and the operations on them. What functions return by reference is its
/// Cost           it allocates as it likes; no system call, but to say what was refused
/// Size           one pointer
class UNIO_API simulation {
 public:
  /// Preconditions: no other simulation exists, and nothing else replaces system calls while it does.
  explicit simulation(simulation_options options = {});
  simulation(simulation const&) = delete;
  simulation& operator=(simulation const&) = delete;
  /// Ends the operations in flight, and restores the system calls. Preconditions: its handles are closed.
  ~simulation();

  /// The thread's own (this_thread::multiplexer()) while the simulation exists; what best_available() makes
  /// then is of the same kind. capabilities().driver is "simulated". A run() that
  /// could never return, because nothing is due and nothing can become ready, fails with
  /// std::errc::resource_deadlock_would_occur instead; such a blocking call does too, or ends the program.
  [[nodiscard]] io_multiplexer& multiplexer() noexcept;

  /// Both ends of a pipe.
  [[nodiscard]] anonymous_pipe pipe();
  /// Two sockets connected to each other.
  [[nodiscard]] socket_pair stream_pair();
  /// A file with these contents, opened for reading and writing, its position at the beginning.
  [[nodiscard]] file_handle file(std::span<std::byte const> contents = {});
  /// The contents of a file by its absolute path; made with the directories above it if they are not there.
  /// "/etc", "/run", "/tmp" and "/var/tmp" are; relative paths begin at "/".
  void put_file(path_view path, std::span<std::byte const> contents = {});
  /// What it contains. Errors: ENOENT, ENOTDIR, EISDIR
  [[nodiscard]] result<std::vector<std::byte>> file_contents(path_view path) const;
  /// A socket that accepts what connect_to() makes.
  [[nodiscard]] listening_socket_handle listener();
  /// A connection that waits to be accepted.
  [[nodiscard]] socket_handle connect_to(listening_socket_handle const& l);

  /// A datagram socket that is bound to `at`, an IPv4 or IPv6 address that no other simulated one has.
  [[nodiscard]] datagram_handle datagrams(endpoint const& at);

  /// From now on, for an address with any port.
  void set_route(endpoint const& host, route r);

  /// The virtual clock. Begins at the same moment in every simulation.
  [[nodiscard]] std::chrono::steady_clock::time_point now() const noexcept;
  /// Lets time pass, at most to the last moment of the clock, 292 years later. Events that became due happen
  /// when the multiplexer is run.
  void advance(std::chrono::nanoseconds d);
  /// Runs `f` after the time `d`: as work posted to the multiplexer, or inside a blocking call; never, if the
  /// clock never shows that moment.
  void after(std::chrono::nanoseconds d, std::function<void()> f);

  /// The n-th call from now (1: the next) named `call` on simulated descriptors fails with `error`, an errno.
  /// The names are those of the system calls; "read*" and "write*" stand for all that read and write bytes.
  /// If several are to fail at one call, that fails as was asked for first, and the next calls as the others.
  void fail(std::string_view call, int nth, int error);
  /// How many calls of that name there were on simulated descriptors.
  [[nodiscard]] std::uint64_t calls(std::string_view call) const noexcept;
  /// How many simulated descriptors are open: 0 after a test that leaked none.
  [[nodiscard]] std::size_t open_descriptors() const noexcept;
  /// What was refused because it is not simulated, a line each.
  [[nodiscard]] std::string const& refused() const noexcept;
  /// What it was made with.
  [[nodiscard]] std::uint64_t seed() const noexcept;
  [[nodiscard]] simulation_options const& options() const noexcept;
  /// A hash of all that has happened: equal after two runs of the same program with the same seed.
  [[nodiscard]] std::uint64_t fingerprint() const noexcept;
  /// What has happened, a line each, if options().record.
  [[nodiscard]] std::string const& trace() const noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

} // namespace unio::testing
