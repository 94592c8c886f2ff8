// src/testing/world.hpp: the objects of a simulated system, its clock, and what its system calls answer.
//
// The world knows nothing of operations and multiplexers: the table of system calls (table.cpp) asks it, and
// the simulated kernel (kernel.cpp) performs operations by making the same calls.
//
// * Every entry of the table is decided. A call on a descriptor is the world's if the number is, else the
//   system's; a call that opens or names something is the world's on its thread; what nothing has answered,
//   a new entry of the table too, is refused with a line that names it. Nothing reaches the kernel by
//   omission.
// * There is one machine, which has every address. Latency, loss and errors belong to routes. A stream's
//   bytes are `under_way` until an arrival, which is the world's own event and no work of the program's,
//   puts them where they are read. The ends of a connection learn of each other's end by the same way.
// * Time moves when nothing else can: when each kernel of the world has nothing to do, to the next deadline,
//   event or arrival. A look that finds nothing takes a microsecond while something is under way.

#pragma once

#include "testing/random.hpp"
#include "testing/thread_hooks.hpp"

#include <unio/testing.hpp>

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <vector>

struct iovec;
struct mmsghdr;
struct msghdr;
struct sockaddr;
struct flock;
struct stat;
struct statx;

namespace unio::inline v0_1::testing {

/// The first simulated number. Above 2^28; and its low 20 bits, by which tables of descriptors are indexed,
/// are above what most processes may open, so that real descriptors share no entries with simulated ones, and
/// low enough that going through a table takes little time.
inline constexpr int first_descriptor = (1 << 28) | (1 << 11);
inline constexpr std::uint64_t largest_file = std::uint64_t{1} << 30; // bytes, which are all in memory

/// A pipe no smaller than this takes up to so many bytes at once or not at all (pipe(7), PIPE_BUF).
inline constexpr std::size_t pipe_atomic_bytes = 4096;

// The calls that are simulated: those that read, those that write, all others.
// clang-format off
#define UNIO_SIMULATED_CALLS(X) \
  X(read) X(readv) X(preadv2) X(recv) X(recvmsg) X(recvmmsg) \
  X(write) X(writev) X(pwritev2) X(send) X(sendmsg) X(sendmmsg) \
  X(splice) X(fsync) X(fdatasync) X(sync_file_range) X(accept4) X(connect) X(shutdown) X(getsockopt) \
  X(setsockopt) X(poll) X(fcntl) X(fstat) X(ftruncate) X(fallocate) X(close) \
  X(socket) X(socketpair) X(bind) X(listen) X(getsockname) X(getpeername) X(eventfd) X(pipe) X(unlinkat) \
  X(openat) X(renameat) X(readlinkat) X(fstatat) X(lseek) X(fchmod) X(mkdirat) X(getdents64)
// clang-format on

#define UNIO_ENUMERATOR(name) name,
enum class call : std::uint8_t { UNIO_SIMULATED_CALLS(UNIO_ENUMERATOR) count };
#undef UNIO_ENUMERATOR

constexpr bool reads(call c) noexcept { return c <= call::recvmmsg; }
constexpr bool writes(call c) noexcept { return c > call::recvmmsg && c <= call::sendmmsg; }

/// Bytes on their way in one direction.
class channel {
 public:
  channel(std::size_t capacity, std::size_t atomic_bytes) noexcept
      : capacity_(capacity), atomic_(atomic_bytes) {}

  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size() - begin_; }
  [[nodiscard]] std::size_t room() const noexcept {
    std::size_t const held = size() + under_way;
    return held < capacity_ ? capacity_ - held : 0;
  }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  void set_capacity(std::size_t n) noexcept { capacity_ = n; }
  /// So many bytes are taken together or not at all.
  [[nodiscard]] std::size_t atomic() const noexcept { return atomic_ < capacity_ ? atomic_ : capacity_; }
  void put(std::byte const* from, std::size_t n) {
    bytes_.insert(bytes_.end(), from, from + n);
    arrived += n;
  }
  void take(std::byte* to, std::size_t n) noexcept;
  /// Copies the first bytes and leaves them there.
  void look(std::byte* to, std::size_t n) const noexcept;

  /// What has arrived is lost, and what is under way never arrives.
  void cut() noexcept;
  /// The writer's end breaks the connection off.
  void break_off() noexcept { reset = was_reset = true; }

  int readers = 1;
  int writers = 1;
  bool reset = false;     ///< the next read reports once that the peer closed without having read everything
  bool was_reset = false; ///< that was reported, or is to be

  // Of a connection over the network.
  std::size_t under_way = 0;   ///< bytes that were sent and have not arrived
  std::int64_t arrives_at = 0; ///< the last of them
  std::int64_t ends_at = 0;    ///< when an end that was made becomes known to the reader
  /// And to the writer: until then what is written is lost in silence. deadline::forever: not before
  /// something was written, which the reader's system answers with a reset.
  std::int64_t breaks_at = 0;
  bool refused = false; ///< such an answer has come, and was not told yet
  bool is_cut = false;

  std::uint64_t arrived = 0; ///< bytes since it was made

 private:
  std::vector<std::byte> bytes_;
  std::size_t begin_ = 0;
  std::size_t capacity_;
  std::size_t atomic_;
};

struct description;

struct file_data {
  std::vector<std::byte> bytes;
  bool is_random = false; ///< its bytes are drawn, and have no end
  std::uint64_t inode = 0;
  struct lock {
    description const* owner;
    std::int64_t first;
    std::int64_t end;
    bool is_exclusive;
  };
  std::vector<lock> locks;
};

enum class node_kind : std::uint8_t { file, directory, socket };

/// What a name in the filesystem leads to.
struct node {
  node_kind kind = node_kind::file;
  unsigned permissions = 0;
  std::uint64_t inode = 0;
  std::weak_ptr<node> parent;
  std::string name; ///< in its parent; after the name was removed, what it was
  std::shared_ptr<file_data> file;
  std::map<std::string, std::shared_ptr<node>> entries;
  std::weak_ptr<description> socket;
};

/// `name`: a directory, or a descriptor that names a file only (O_PATH).
enum class thing : std::uint8_t { none, pipe, socket, listener, file, datagrams, event, name };

class world;

/// What the two ends of a connection over the network share.
struct line {
  world* in = nullptr;
  std::shared_ptr<channel> ways[2];
  std::int64_t latency = 0;
  std::int64_t bytes_until_reset = -1; ///< negative: never
};

/// A datagram that has arrived.
struct datagram {
  std::vector<std::byte> bytes;
  endpoint from;
  endpoint to;
  std::uint8_t mark = 0; ///< the ECN bits
  std::int64_t at = 0;
};

/// What one or more descriptors stand for. A socket that is not connected has neither `in` nor `out`.
struct description {
  thing kind = thing::none;
  std::shared_ptr<channel> in;  ///< what can be read
  std::shared_ptr<channel> out; ///< where what is written goes
  std::shared_ptr<file_data> file;
  std::shared_ptr<node> file_node; ///< of what was opened by its name
  int status = 2;                  ///< flags of open(2): O_RDWR
  std::uint64_t position = 0;      ///< of a directory: how many names were read, "." and ".." first
  std::string last_read;           ///< of a directory: the last of them, behind which reading goes on
  std::deque<std::shared_ptr<description>> waiting; ///< a listener's connections that were not accepted yet
  endpoint name;                                    ///< of a socket; IPv4 in IPv6 is stored as IPv4
  endpoint peer;                                    ///< that it is connected to; of no family: none
  std::vector<datagram> arrived;                    ///< in the order in which they are received

  // Of a socket.
  int family = 0;            ///< AF_INET, …; 0: of a pair
  bool is_networked = false; ///< what it sends takes time
  bool is_connecting = false;
  bool awaits_outcome = false; ///< connect(2) has not told yet what became of it
  bool was_refused = false;    ///< it could not connect, and connect(2) was not called again
  bool reads_no_more = false;  ///< SHUT_RD
  bool chose_address = false;  ///< bind(2) gave it its address
  bool chose_port = false;     ///< and its port
  int failure = 0;             ///< why it could not connect or send, until that is asked for
  std::size_t backlog = ~std::size_t{0};
  std::shared_ptr<testing::line> line;
  std::map<std::pair<int, int>, std::vector<std::byte>> options;

  static constexpr std::uint64_t most_counted = ~std::uint64_t{0} - 1;
  std::uint64_t count = 0;   ///< an eventfd's
  std::uint64_t news = 0;    ///< connections, datagrams and events that have arrived since it was made
  std::uint64_t changes = 0; ///< connections made with it, or not
  bool is_timer = false;     ///< a timerfd: an event that time counts
  std::int64_t due = 0;      ///< of a timer: when it expires, or has; 0: it is not armed
  std::int64_t interval = 0;
  std::uint64_t armed = 0; ///< how often it was
  bool is_semaphore = false;
  bool is_doorbell = false; ///< a multiplexer's: no call on it goes wrong

  description() = default;
  description(description const&) = delete;
  description& operator=(description const&) = delete;
  ~description();
};

/// The number that a socket's option has; 0 if it was not set.
int option_of(description const& d, int level, int name) noexcept;
/// Whether an IPv6 socket takes no IPv4.
bool takes_ipv6_only(description const& d) noexcept;

/// Whether closing it resets the connection: SO_LINGER with 0 seconds.
bool resets_when_closed(description const& d) noexcept;

/// Makes them the two ends of a connection.
void connect_ends(description& a, description& b, std::size_t capacity, std::size_t atomic_bytes);

class world {
 public:
  explicit world(simulation_options const& o) noexcept;
  world(world const&) = delete;
  world& operator=(world const&) = delete;
  ~world();

  simulation_options const options;
  random_source random;

  // ---- objects ----

  /// By which a simulated thread wakes another one's multiplexer; -1: there is one thread.
  int open_doorbell() noexcept;
  /// Whether it was rung since the last time.
  bool was_rung(int doorbell) noexcept;
  int open_pipe(int& writer);
  int open_pair(int& second);
  int open_file(std::span<std::byte const> contents);
  int open_listener();
  int open_connection(int listener);
  int open_datagrams(endpoint const& at);
  [[nodiscard]] bool is_taken(endpoint const& at) const noexcept;
  void set_route(endpoint const& host, route r);
  /// A directory, made with those above it if it is not there.
  std::shared_ptr<node> directory(std::string_view path);
  std::shared_ptr<node> make_node(node_kind kind, unsigned permissions);
  /// As a program makes it: without what the process's umask(2) takes away.
  std::shared_ptr<node> create_node(node_kind kind, unsigned permissions);
  static void put(std::shared_ptr<node> const& in, std::string const& name, std::shared_ptr<node> const& n);
  /// Where a path leads.
  struct place {
    std::shared_ptr<testing::node> in; ///< null: the root, or a path that ends in "." or ".."
    std::string name;
    std::shared_ptr<testing::node> node; ///< null: nothing has that name
    bool wants_directory = false;        ///< the path ends in a slash
  };
  /// 0, or why there can be no such place.
  std::int64_t locate(int dir, char const* path, place& found) const noexcept;
  /// Whether a socket has been bound to it, and was not unlinked.
  [[nodiscard]] bool is_socket(char const* path) const noexcept {
    place p;
    return locate(AT_FDCWD, path, p) >= 0 && p.node != nullptr && p.node->kind == node_kind::socket;
  }
  [[nodiscard]] bool owns(int fd) const noexcept { return fd >= first_descriptor; }
  [[nodiscard]] std::size_t open_descriptors() const noexcept;
  /// Whether a call of that direction would not have to wait. Draws nothing.
  [[nodiscard]] bool is_ready(int fd, readiness what) const noexcept;

  // ---- time ----

  [[nodiscard]] std::int64_t now() const noexcept { return now_; }
  /// The moment that comes so much later; deadline::forever if the clock never shows it.
  [[nodiscard]] std::int64_t moment(std::int64_t later_ns) const noexcept {
    return later_ns < deadline::forever - now_ ? now_ + later_ns : deadline::forever;
  }
  /// Moves to `until`, or to the first event if that is earlier. True if an event is due.
  bool sleep_until(std::int64_t until) noexcept;
  void add_event(std::int64_t due, std::function<void()> f);
  /// Something will happen by itself: an event, or an arrival.
  [[nodiscard]] bool has_event() const noexcept { return !events_.empty() || !arrivals_.empty(); }
  /// The first event that is due, or nothing.
  std::function<void()> take_event();
  /// The system's own: happens as soon as time has come so far, without the program.
  void later(std::int64_t due, std::function<void()> f);
  /// A look that found nothing takes a moment while something is on its way, so that a loop which only looks
  /// ends.
  void pass_moment() noexcept;

  /// What a kernel does by itself while a program sleeps. Returns false if nothing can happen but by time and
  /// others.
  using kernel_turn = bool (*)(void*) noexcept;
  void add_kernel(kernel_turn turn, void* backend) { kernels_.emplace_back(turn, backend); }
  void remove_kernel(void* backend) noexcept;
  /// Turns all but one.
  bool turn_kernels(void* but) noexcept;

  // ---- faults and records ----

  bool add_fault(std::string_view name, int nth, int error);
  [[nodiscard]] bool count_of(std::string_view name, std::uint64_t& n) const noexcept;
  void note(char const* what, std::int64_t a, std::int64_t b) noexcept;
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return fingerprint_; }
  /// Keeps it there as well, where another process sees it.
  void mirror_fingerprint(std::uint64_t* where) noexcept { mirror_ = where; }
  /// Up to so many bytes go through a pipe whole, and a pipe with room takes what is written: many loops that
  /// hand a number to themselves rely on it, and Linux does so.
  void keep_whole_in_pipes(std::size_t bytes) noexcept { whole_ = bytes; }
  [[nodiscard]] std::string const& trace() const noexcept { return trace_; }

  // ---- system calls: >= 0 or -errno ----

  std::int64_t read(call c, int fd, iovec const* v, std::size_t n, std::int64_t at, bool no_wait) noexcept;
  std::int64_t write(call c, int fd, iovec const* v, std::size_t n, std::int64_t at, bool no_wait) noexcept;
  std::int64_t receive_messages(call c, int fd, mmsghdr* messages, unsigned n) noexcept;
  std::int64_t send_messages(call c, int fd, mmsghdr* messages, unsigned n) noexcept;
  std::int64_t connect(int fd, sockaddr const* to, unsigned size) noexcept;
  /// getsockname(2), getpeername(2).
  std::int64_t name_of(int fd, bool peer, sockaddr* name, unsigned* size) noexcept;
  [[nodiscard]] bool is_datagrams(int fd) const noexcept;
  std::int64_t accept(int fd, sockaddr* from, unsigned* size) noexcept;
  std::int64_t close(int fd) noexcept;
  std::int64_t shutdown(int fd, int how) noexcept;
  std::int64_t sync(call c, int fd) noexcept;
  /// Refused, unless it is to fail.
  std::int64_t splice(int fd) noexcept;
  std::int64_t fcntl(int fd, int command, long argument) noexcept;
  std::int64_t stat(int fd, struct stat* s) noexcept;
  std::int64_t truncate(int fd, std::int64_t size) noexcept;
  std::int64_t zero(int fd, int mode, std::int64_t at, std::int64_t n) noexcept;
  std::int64_t get_option(int fd, int level, int name, void* v, unsigned* size) noexcept;
  std::int64_t set_option(int fd, int level, int name, void const* v, unsigned size) noexcept;
  std::int64_t socket(int family, int type, int protocol) noexcept;
  std::int64_t socket_pair(int family, int type, int* fds) noexcept;
  std::int64_t bind(int fd, sockaddr const* at, unsigned size) noexcept;
  std::int64_t listen(int fd, int backlog) noexcept;
  std::int64_t make_event(unsigned initial, bool is_semaphore) noexcept;
  // What programs ask that are not unio's (src/testing/libc).
  /// An eventfd whose count are the expirations since it was read.
  std::int64_t make_timer() noexcept;
  /// From now on it expires at `due` (0: never), and after each `interval` (0: once).
  std::int64_t arm_timer(int fd, std::int64_t due, std::int64_t interval) noexcept;
  [[nodiscard]] bool is_timer(int fd) const noexcept;
  /// When it expires next (0: never), and its interval.
  void timer_of(int fd, std::int64_t& due, std::int64_t& interval) const noexcept;
  /// MSG_PEEK.
  std::int64_t peek(int fd, msghdr& m) noexcept;
  /// FIONREAD.
  [[nodiscard]] std::int64_t waiting_bytes(int fd) const noexcept;
  /// All that poll(2) would report of it. Draws nothing.
  [[nodiscard]] short poll_events(int fd) const noexcept;
  /// A number that grows with all that arrives there: an edge of epoll(7). Its upper bits count what changes
  /// both directions.
  [[nodiscard]] std::uint64_t edges(int fd) const noexcept;
  /// "TCP 127.0.0.1:80 to 127.0.0.1:4711": for messages.
  [[nodiscard]] std::string name_for_people(int fd) const;
  std::int64_t pipe(int* fds) noexcept;
  std::int64_t open(int dir, char const* path, int flags, unsigned permissions) noexcept;
  /// openat2(2); `resolve` as there.
  std::int64_t open_resolved(int dir, char const* path, int flags, unsigned permissions,
                             std::uint64_t resolve) noexcept;
  std::int64_t make_directory(int dir, char const* path, unsigned permissions) noexcept;
  std::int64_t list(int fd, void* entries, std::size_t n) noexcept;
  std::int64_t unlink(int dir, char const* path, int flags) noexcept;
  std::int64_t rename(int from_dir, char const* from, int to_dir, char const* to, unsigned flags) noexcept;
  std::int64_t read_link(char const* path, char* out, std::size_t n) noexcept;
  std::int64_t stat_at(int dir, char const* path, struct stat* s, int flags) noexcept;
  std::int64_t stat_more(int dir, char const* path, int flags, struct statx* s) noexcept;
  std::int64_t seek(int fd, std::int64_t at, int whence) noexcept;
  std::int64_t change_mode(int fd, unsigned permissions) noexcept;
  std::int64_t fill_random(void* data, std::size_t n) noexcept;
  /// A call that is not simulated: says so. Returns -ENOSYS.
  std::int64_t refuse(std::string_view what) noexcept;
  /// The same on another thread, in a line of its own.
  std::int64_t refuse_elsewhere(std::string_view line) noexcept;
  [[nodiscard]] std::string const& refused() noexcept;

  /// A socket has been closed that was connected over the network.
  void tell_peer(line& l, channel& in, channel& out) noexcept;
  /// Sleeps `timeout_ns` (negative: for ever) or until `ready()` says how many are ready.
  template <class Ready> std::int64_t poll(std::int64_t timeout_ns, Ready ready) noexcept {
    if (int const e = enter(call::poll, 0); e != 0) return e;
    std::int64_t const until = timeout_ns < 0 ? deadline::forever : moment(timeout_ns);
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

  struct known_route {
    endpoint host;
    route how;
  };

  int install(std::shared_ptr<description> d);
  [[nodiscard]] description* find(int fd) const noexcept;
  [[nodiscard]] std::shared_ptr<description> share(int fd) const noexcept;
  [[nodiscard]] std::shared_ptr<description> share(description const* d) const noexcept;
  void settle() noexcept;
  void narrate(int fd, char const* what) const noexcept;
  /// Counts a call and says how it is to fail, or 0.
  int enter(call c, int fd) noexcept;
  std::int64_t leave(call c, int fd, std::int64_t r) noexcept;
  /// Performs a call on what `fd` stands for: f(description) returns its result. `waits`: a file never
  /// reports -EAGAIN. Nor does an eventfd that has room: its writers give up then.
  template <class F> std::int64_t on(call c, int fd, F f, bool waits = false) noexcept;
  /// One step of a blocking call. False: nothing will ever happen.
  bool pass(std::int64_t until) noexcept;
  [[nodiscard]] std::size_t bounded(std::size_t n) noexcept;
  [[nodiscard]] std::size_t bounded(channel const& c, std::size_t n) noexcept {
    return c.atomic() > 1 && n <= whole_ ? n : bounded(n);
  }
  std::int64_t read_channel(channel& c, iovec const* v, std::size_t n) noexcept;
  std::int64_t write_channel(description& d, iovec const* v, std::size_t n) noexcept;
  void send_over(line& l, channel& c, iovec const* v, std::size_t bytes) noexcept;
  void refuse_bytes(line const& l, std::shared_ptr<channel> const& way) noexcept;
  std::int64_t send_message(description& d, msghdr const& m) noexcept;
  void deliver(datagram&& g) noexcept;
  void report_lost(datagram const& g) noexcept;
  void expect_timer(std::shared_ptr<description> const& d) noexcept;
  std::int64_t connect_datagrams(description& d, sockaddr const* to, unsigned size) noexcept;
  std::int64_t connect_stream(std::shared_ptr<description> const& d, sockaddr const* to,
                              unsigned size) noexcept;
  std::int64_t connect_unix(description& d, sockaddr const* to, unsigned size) noexcept;
  void arrive(std::shared_ptr<description> const& client, int attempt) noexcept;
  void reset(line& l) noexcept;
  [[nodiscard]] std::shared_ptr<description> find_listener(endpoint const& to) noexcept;
  [[nodiscard]] bool is_in_use(description const& d, endpoint const& at) const noexcept;
  /// A free port for `d` at this address, or 0.
  [[nodiscard]] std::uint16_t draw_port(description const& d, endpoint const& at) noexcept;
  /// Gives a socket that has no name one, as the kernel does. False: there is none.
  [[nodiscard]] bool name_itself(description& d, endpoint const& towards) noexcept;
  [[nodiscard]] route const* find_route(endpoint const& to) const noexcept;
  [[nodiscard]] std::int64_t latency_to(endpoint const& to) noexcept;
  std::int64_t open_now(int dir, char const* path, int flags, unsigned permissions) noexcept;
  [[nodiscard]] bool is_failing(node const& n) noexcept;
  [[nodiscard]] std::size_t disk_room() const noexcept;
  static std::int64_t refuse_lock(description const& d, struct flock const& l) noexcept;
  std::int64_t lock(description& d, struct flock const& l, bool may_wait) noexcept;
  std::int64_t read_event(description& d, iovec const* v, std::size_t n) noexcept;
  std::int64_t write_event(description& d, iovec const* v, std::size_t n) noexcept;
  [[nodiscard]] bool one_in(bool allowed, unsigned n) noexcept { return allowed && random.one_in(n); }

  std::vector<std::shared_ptr<description>> table_;
  std::vector<event> events_;   // the earliest last
  std::vector<event> arrivals_; // likewise
  std::uint64_t events_made_ = 0;
  std::int64_t own_now_ = 1'000'000'000;
  std::int64_t& now_ = simulated_threads != nullptr ? *simulated_threads->clock : own_now_;
  std::uint64_t inodes_ = 0;
  std::vector<std::pair<kernel_turn, void*>> kernels_;
  std::vector<known_route> routes_;
  std::map<std::string, std::weak_ptr<description>> abstract_names_; // of Unix sockets
  std::shared_ptr<node> root_;
  std::string refused_;
  std::mutex elsewhere_mutex_;
  std::string refused_elsewhere_; // guarded by it
  std::size_t told_ = 0;          // of that, in refused_
  std::vector<fault> faults_;
  std::array<std::uint64_t, static_cast<std::size_t>(call::count)> counts_{};
  std::uint64_t fingerprint_ = 0xcbf29ce484222325;
  std::uint64_t* mirror_ = nullptr;
  std::size_t whole_ = 0;
  std::string trace_;
};

template <class F> std::int64_t world::on(call c, int fd, F f, bool waits) noexcept {
  description* const d = find(fd);
  if (d == nullptr) return leave(c, fd, -EBADF);
  bool const never_again =
      (waits && d->kind == thing::file) ||
      ((d->kind == thing::event || (d->kind == thing::pipe && whole_ != 0)) && writes(c));
  std::int64_t r = d->is_doorbell ? 0 : enter(c, fd);
  if (r == 0 || (r == -EAGAIN && never_again)) r = leave(c, fd, f(*d));
  if (r == -EAGAIN) pass_moment();
  return r;
}

/// Has the table of system calls ask `w` about simulated descriptors, and about time on this thread; null: no
/// longer.
void answer_system_calls(world* w) noexcept;
[[nodiscard]] bool this_thread_is_simulated() noexcept;
/// That answers them; null: none does. And how many have done so in this process.
[[nodiscard]] world* answering_world() noexcept;
[[nodiscard]] std::uint64_t worlds_so_far() noexcept;
/// Is told what is not simulated, in place of the standard error.
using refusal = void (*)(std::string_view what) noexcept;
extern constinit refusal on_refusal;

} // namespace unio::testing
