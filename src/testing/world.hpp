// src/testing/world.hpp: the objects of a simulated system, its clock, and what its system calls answer.
//
// The world knows nothing of operations and multiplexers: the table of system calls (table.cpp) asks it, and
// the simulated kernel (kernel.cpp) performs operations by making the same calls.

#pragma once

#include "testing/random.hpp"

#include <unio/testing.hpp>

#include <array>
#include <cerrno>
#include <deque>
#include <vector>

struct iovec;
struct mmsghdr;
struct msghdr;
struct sockaddr;
struct stat;

namespace unio::testing {

/// The first simulated number. Above 2^28; and its low 20 bits, by which tables of descriptors are indexed,
/// are above what most processes may open, so that real descriptors share no entries with simulated ones, and
/// low enough that going through a table takes little time.
inline constexpr int first_descriptor = (1 << 28) | (1 << 11);

/// A pipe no smaller than this takes up to so many bytes at once or not at all (pipe(7), PIPE_BUF).
inline constexpr std::size_t pipe_atomic_bytes = 4096;

// The calls that are simulated: those that read, those that write, all others.
// clang-format off
#define UNIO_SIMULATED_CALLS(X) \
  X(read) X(readv) X(preadv2) X(recv) X(recvmsg) X(recvmmsg) \
  X(write) X(writev) X(pwritev2) X(send) X(sendmsg) X(sendmmsg) \
  X(splice) X(fsync) X(fdatasync) X(sync_file_range) X(accept4) X(connect) X(shutdown) X(getsockopt) \
  X(setsockopt) X(poll) X(fcntl) X(fstat) X(ftruncate) X(fallocate) X(close)
// clang-format on

#define UNIO_ENUMERATOR(name) name,
enum class call : std::uint8_t { UNIO_SIMULATED_CALLS(UNIO_ENUMERATOR) count };
#undef UNIO_ENUMERATOR

/// Bytes on their way in one direction.
class channel {
 public:
  channel(std::size_t capacity, std::size_t atomic_bytes) noexcept
      : capacity_(capacity), atomic_(atomic_bytes) {}

  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() - begin_; }
  [[nodiscard]] std::size_t room() const noexcept { return size() < capacity_ ? capacity_ - size() : 0; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  void set_capacity(std::size_t n) noexcept { capacity_ = n; }
  /// So many bytes are taken together or not at all.
  [[nodiscard]] std::size_t atomic() const noexcept { return atomic_ < capacity_ ? atomic_ : capacity_; }
  void put(std::byte const* from, std::size_t n) { bytes_.insert(bytes_.end(), from, from + n); }
  void take(std::byte* to, std::size_t n) noexcept;

  int readers = 1;
  int writers = 1;
  bool reset = false; ///< the next read reports once that the peer closed without having read everything

 private:
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;
  std::size_t capacity_;
  std::size_t atomic_;
};

struct file_data {
  std::vector<std::byte> bytes;
  std::uint64_t inode = 0;
};

enum class thing : std::uint8_t { none, pipe, socket, listener, file, datagrams };

/// A datagram that has arrived.
struct datagram {
  std::vector<std::byte> bytes;
  endpoint from;
  endpoint to;
  std::uint8_t mark = 0; ///< the ECN bits
  std::int64_t at = 0;
};

/// What one or more descriptors stand for.
struct description {
  thing kind = thing::none;
  std::shared_ptr<channel> in;  ///< what can be read
  std::shared_ptr<channel> out; ///< where what is written goes
  std::shared_ptr<file_data> file;
  std::uint64_t position = 0;
  std::deque<std::shared_ptr<description>> waiting; ///< a listener's connections that were not accepted yet
  endpoint name;                                    ///< of a datagram socket
  endpoint peer;                                    ///< that it is connected to; of no family: none
  std::vector<datagram> arrived;                    ///< in the order in which they are received

  description() = default;
  description(description const&) = delete;
  description& operator=(description const&) = delete;
  ~description();
};

class world {
 public:
  explicit world(simulation_options const& o) noexcept;
  world(world const&) = delete;
  world& operator=(world const&) = delete;
  ~world();

  simulation_options const options;
  random_source random;

  // ---- objects ----

  int open_pipe(int& writer);
  int open_pair(int& second);
  int open_file(std::span<std::byte const> contents);
  int open_listener();
  int open_connection(int listener);
  int open_datagrams(endpoint const& at);
  [[nodiscard]] bool is_taken(endpoint const& at) const noexcept;
  [[nodiscard]] bool owns(int fd) const noexcept { return fd >= first_descriptor; }
  [[nodiscard]] std::size_t open_descriptors() const noexcept;
  /// Whether a call of that direction would not have to wait. Draws nothing.
  [[nodiscard]] bool is_ready(int fd, readiness what) const noexcept;

  // ---- time ----

  [[nodiscard]] std::int64_t now() const noexcept { return now_; }
  /// Moves to `until`, or to the first event if that is earlier. True if an event is due.
  bool sleep_until(std::int64_t until) noexcept;
  void add_event(std::int64_t due, std::function<void()> f);
  [[nodiscard]] bool has_event() const noexcept { return !events_.empty(); }
  /// The first event that is due, or nothing.
  std::function<void()> take_event();

  /// What the kernel does by itself while a program sleeps. Returns false if nothing can happen but by time
  /// and others.
  using kernel_turn = bool (*)(void*) noexcept;
  void set_kernel(kernel_turn turn, void* backend) noexcept { turn_ = turn, backend_ = backend; }

  // ---- faults and records ----

  bool add_fault(std::string_view name, int nth, int error);
  [[nodiscard]] bool count_of(std::string_view name, std::uint64_t& n) const noexcept;
  void note(char const* what, std::int64_t a, std::int64_t b) noexcept;
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  [[nodiscard]] std::string const& trace() const noexcept { return trace_; }

  // ---- system calls: >= 0 or -errno ----

  std::int64_t read(call c, int fd, iovec const* v, std::size_t n, std::int64_t at, bool no_wait) noexcept;
  std::int64_t write(call c, int fd, iovec const* v, std::size_t n, std::int64_t at, bool no_wait) noexcept;
  std::int64_t receive_messages(call c, int fd, mmsghdr* messages, unsigned n) noexcept;
  std::int64_t send_messages(call c, int fd, mmsghdr* messages, unsigned n) noexcept;
  std::int64_t connect(int fd, sockaddr const* to, unsigned size) noexcept;
  /// getsockname(2), getpeername(2).
  std::int64_t name_of(int fd, bool peer, sockaddr* name, unsigned* size) const noexcept;
  [[nodiscard]] bool is_datagrams(int fd) const noexcept;
  std::int64_t accept(int fd) noexcept;
  std::int64_t close(int fd) noexcept;
  std::int64_t shutdown(int fd, int how) noexcept;
  std::int64_t sync(call c, int fd) noexcept;
  std::int64_t fcntl(int fd, int command, long argument) noexcept;
  std::int64_t stat(int fd, struct stat* s) noexcept;
  std::int64_t truncate(int fd, std::int64_t size) noexcept;
  std::int64_t zero(int fd, int mode, std::int64_t at, std::int64_t n) noexcept;
  std::int64_t get_option(int fd, int level, int name, void* v, unsigned* size) noexcept;
  std::int64_t set_option(int fd) noexcept;
  /// Sleeps `timeout_ns` (negative: for ever) or until `ready()` says how many are ready.
  template <class Ready> std::int64_t poll(std::int64_t timeout_ns, Ready ready) noexcept {
    if (int const e = enter(call::poll, 0); e != 0) return e;
    std::int64_t const until =
        timeout_ns < 0 || timeout_ns > deadline::forever - now_ ? deadline::forever : now_ + timeout_ns;
    for (;;) {
      if (std::int64_t const n = ready(); n != 0) return n;
      if (now_ >= until) return 0;
      if (!pass(until)) return -EDEADLK;
    }
  }

 private:
  struct fault {
    call which;
    bool any_of_direction; // "read*", "write*"
    int left;
    int error;
  };
  struct event {
    std::int64_t due;
    std::uint64_t number;
    std::function<void()> f;
  };

  int install(std::shared_ptr<description> d);
  [[nodiscard]] description* find(int fd) const noexcept;
  /// Counts a call and says how it is to fail, or 0.
  int enter(call c, int fd) noexcept;
  int leave(call c, int fd, std::int64_t r) noexcept;
  template <class F> std::int64_t on(call c, int fd, F f, bool waits = false) noexcept;
  /// One step of a blocking call. False: nothing will ever happen.
  bool pass(std::int64_t until) noexcept;
  [[nodiscard]] std::size_t bounded(std::size_t n) noexcept;
  std::int64_t read_channel(channel& c, iovec const* v, std::size_t n) noexcept;
  std::int64_t write_channel(channel& c, iovec const* v, std::size_t n) noexcept;
  std::int64_t send_message(description& d, msghdr const& m) noexcept;
  void deliver(datagram&& g) noexcept;
  [[nodiscard]] bool one_in(bool allowed, unsigned n) noexcept { return allowed && random.one_in(n); }

  std::vector<std::shared_ptr<description>> table_;
  std::vector<event> events_; // the earliest last
  std::uint64_t events_made_ = 0;
  std::int64_t now_ = 1'000'000'000;
  std::uint64_t inodes_ = 0;
  kernel_turn turn_ = nullptr;
  void* backend_ = nullptr;
  std::vector<fault> faults_;
  std::array<std::uint64_t, static_cast<std::size_t>(call::count)> counts_{};
  std::uint64_t fingerprint_ = 0xcbf29ce484222325;
  std::string trace_;
};

/// Has the table of system calls ask `w` about simulated descriptors, and about time on this thread; null: no
/// longer.
void answer_system_calls(world* w) noexcept;

} // namespace unio::testing
