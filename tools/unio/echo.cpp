// unio echo: the same server, in several ways.
//
// Each thread has a multiplexer, a listening socket (SO_REUSEPORT: the kernel spreads the connections) and
// the connections that it accepted; nothing is shared. A signal handler signals an event of each thread,
// which then stops accepting, shuts its connections down, so that their reads and writes end, and leaves
// after the last one.
//
// With --shared all threads run one multiplexer. The first accepts, and ends the connections; a connection is
// served by the thread that had least to do when it came. The others only run the multiplexer, until the
// first has ended.
//
// An error of accepting does not end the server: it reports it, pauses and accepts again. If it cannot
// continue (the listening socket is gone, a thread cannot start, nothing can be waited for) the process ends
// with status 1.

#include "echo.hpp"

#include "checks.hpp"
#include "complain.hpp"
#include "numbers.hpp"

#include <unio/link.hpp>
#include <unio/splice.hpp>
#include <unio/unio.hpp>
#ifdef UNIO_TOOL_TLS
#include <unio/tls.hpp>
#endif

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

namespace echo {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t buffer_size = 8192;
constexpr std::size_t lent_buffers = 8192; // for all connections
constexpr std::chrono::milliseconds pause_after_error = 100ms;

void say(std::string_view what, std::error_code why) {
  complain(fmt::format("unio: {}: {}\n", what, why.message()));
}

/// Where a server runs.
struct place {
  unio::io_multiplexer& here;
  bool is_shared = false; ///< by several threads
};

template <class Handle> Handle on(place const& p, Handle h) {
  h.set_multiplexer(&p.here);
  return h;
}

class connection;

/// The open connections of a server. Any thread may open and close one.
class connections {
 public:
  /// One will be added, or given up.
  void expect() noexcept { ++expected_; }
  void give_up() noexcept { --expected_; }
  void add(connection& c);
  void remove(connection& c) noexcept;
  /// Shuts all down, those that are added later as well.
  void end() noexcept;
  [[nodiscard]] bool none() const noexcept {
    std::lock_guard const lock(mutex_);
    return expected_ == 0 && first_ == nullptr;
  }

 private:
  mutable std::mutex mutex_;
  connection* first_ = nullptr;
  bool has_ended_ = false;
  std::atomic<int> expected_ = 0;
};

/// An open connection, in the list of its server.
class connection {
 public:
  connection(unio::socket_handle s, connections& all) : socket(std::move(s)), all_(all) { all_.add(*this); }
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection() { all_.remove(*this); }

  unio::socket_handle socket;

 private:
  friend class connections;
  // By the system call: a blocking form runs the multiplexer, which may end connections, and the lock is
  // held.
  void end() noexcept { ::shutdown(socket.native_handle(), SHUT_RDWR); }

  connections& all_;
  connection* next_ = nullptr;
  connection* previous_ = nullptr;
};

void connections::add(connection& c) {
  std::lock_guard const lock(mutex_);
  give_up();
  if (has_ended_) c.end();
  c.next_ = first_;
  if (first_ != nullptr) first_->previous_ = &c;
  first_ = &c;
}
void connections::remove(connection& c) noexcept {
  std::lock_guard const lock(mutex_);
  (c.previous_ != nullptr ? c.previous_->next_ : first_) = c.next_;
  if (c.next_ != nullptr) c.next_->previous_ = c.previous_;
}
void connections::end() noexcept {
  std::lock_guard const lock(mutex_);
  has_ended_ = true;
  for (connection* c = first_; c != nullptr; c = c->next_) c->end();
}

// True for errors that concern the listening socket or the system call itself: every later attempt would fail
// too.
bool is_lasting(std::error_code e) noexcept {
  for (std::errc const lasting : {std::errc::bad_file_descriptor, std::errc::not_a_socket,
                                  std::errc::invalid_argument, std::errc::function_not_supported})
    if (e == lasting) return true;
  return false;
}

/// Accepts; each mode serves connections in its own way.
class server {
 public:
  server(unio::listening_socket_handle l, place const& p)
      : place_(p),
        listening_(on(p, std::move(l))),
        pause_timer_(on(p, unio::timer_handle(pause_after_error))),
        accept_(unio::connect(unio::async_accept_many(listening_), acceptor{this})),
        pause_(unio::connect(unio::async_wait(pause_timer_), after_pause{this})) {}
  server(server const&) = delete;
  server& operator=(server const&) = delete;
  virtual ~server() = default;

  void start() { accept_.start(); }
  void stop() {
    is_ending_ = true;
    accept_.cancel();
    pause_.cancel();
    open_.end();
  }
  [[nodiscard]] bool has_ended() const noexcept {
    return !accept_.in_flight() && !pause_.in_flight() && open_.none();
  }
  /// Why nothing will be accepted any more; no error: it continues.
  [[nodiscard]] std::error_code failure() const noexcept {
    return has_failed_ ? failure_ : std::error_code();
  }

 protected:
  /// Begins to serve a connection, or throws std::bad_alloc. `open()` expects it.
  virtual void serve(unio::socket_handle socket) = 0;
  connections& open() noexcept { return open_; }
  [[nodiscard]] place const& where() const noexcept { return place_; }

 private:
  struct acceptor {
    server* self = nullptr;
    void set_value(unio::io_result<unio::socket_handle>&& got) {
      self->note(got.error());
      if (!got) return;
      (void)got->no_delay(true);
      if (self->place_.is_shared) got->set_multiplexer(&self->place_.here);
      self->open_.expect();
      try {
        self->serve(std::move(*got));
      } catch (std::bad_alloc const&) { // its socket is closed; the others continue
        self->open_.give_up();
        self->note(std::make_error_code(std::errc::not_enough_memory));
      }
    }
    void set_done() { self->accept_has_ended(); }
  };
  struct after_pause {
    server* self = nullptr;
    void set_value(unio::io_result<void>&& r) {
      if (!r && !self->is_ending_) self->fail(r.error());
    }
    void set_done() {
      if (self->is_ending_ || self->has_failed_) return;
      self->accept_.reset();
      self->accept_.start();
    }
  };

  // Reports an error once, until a connection is accepted or the error changes.
  void note(std::error_code e) {
    bool const is_news = e && e != error_ && !is_ending_;
    error_ = e;
    if (is_news) say("a connection could not be accepted", e);
  }
  void accept_has_ended() noexcept {
    if (is_ending_) return;
    if (is_lasting(error_)) {
      fail(error_);
    } else {
      pause_.reset();
      pause_.start();
    }
  }

  void fail(std::error_code why) noexcept {
    failure_ = why;
    has_failed_ = true;
  }

  place place_;
  unio::listening_socket_handle listening_;
  unio::timer_handle pause_timer_;
  connections open_;
  std::error_code error_; // the last one of accepting
  std::error_code failure_;
  std::atomic<bool> has_failed_ = false; // failure_ is set
  std::atomic<bool> is_ending_ = false;
  unio::io_operation_connection<unio::async_accept_many, acceptor> accept_;
  unio::io_operation_connection<unio::async_wait, after_pause> pause_;
};

// ---- operations and their receivers -----------------------------------------------------------------------

/// Reads, writes back what it read, reads again. It ends, and destroys itself, when the stream does. Where
/// threads share the multiplexer both are atomic forms: another thread goes on with what one that computes
/// has.
template <class Read, class Write> class peer : connection {
 public:
  peer(unio::socket_handle s, connections& all) : connection(std::move(s), all) {
    read_ = unio::connect(Read(socket, room_), after_read{this});
    write_ = unio::connect(Write(socket, unio::const_buffer()), after_write{this});
    read_.start();
  }

 private:
  void write_rest() {
    write_.reset(rest_);
    write_.start();
  }

  // Both keep the value until set_done, when the operation may be used again.
  struct after_read {
    peer* self = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers>&& got) {
      self->rest_ = {self->room_.data(), got.bytes_transferred()};
    }
    // Nothing: the end of the stream, or an error.
    void set_done() {
      if (self->rest_.empty()) {
        delete self;
      } else {
        self->write_rest();
      }
    }
  };
  struct after_write {
    peer* self = nullptr;
    void set_value(unio::io_result<unio::const_buffers>&& r) {
      self->is_broken_ = !r;
      self->rest_.remove_prefix(r.bytes_transferred());
    }
    void set_done() {
      if (self->is_broken_) {
        delete self;
      } else if (!self->rest_.empty()) {
        self->write_rest();
      } else {
        self->read_.reset();
        self->read_.start();
      }
    }
  };

  std::array<char, buffer_size> room_;
  std::string_view rest_;
  bool is_broken_ = false;
  unio::io_operation_connection<Read, after_read> read_;
  unio::io_operation_connection<Write, after_write> write_;
};

/// Connections are objects. Where threads share the multiplexer each begins on the thread that serves it.
class object_server : public server {
 public:
  using server::server;

 private:
  virtual void make(unio::socket_handle socket) = 0;

  void serve(unio::socket_handle socket) override {
    if (!where().is_shared) return make(std::move(socket));
    struct later {
      object_server* self;
      unio::socket_handle socket;
      void operator()() {
        try {
          self->make(std::move(socket));
        } catch (std::bad_alloc const&) { // its socket is closed; the others continue
          self->open().give_up();
        }
      }
    };
    if (!where().here.spawn(later{this, std::move(socket)})) throw std::bad_alloc();
  }
};

class multiplexed_server final : public object_server {
 public:
  using object_server::object_server;

 private:
  void make(unio::socket_handle socket) override {
    if (where().is_shared) {
      new peer<unio::atomic_async_read, unio::atomic_async_write>(std::move(socket), open());
    } else {
      new peer<unio::async_read, unio::async_write>(std::move(socket), open());
    }
  }
};

// ---- lent buffers -----------------------------------------------------------------------------------------

/// One operation receives, again and again, into buffers that are borrowed when there is something to put
/// into them. Each is sent back as it is, one after the other. What the other end does not take holds up what
/// is received from it. It destroys itself when the stream has ended and all is answered.
class lent_peer : connection {
 public:
  lent_peer(unio::socket_handle s, unio::buffer_pool& pool, connections& all)
      : connection(std::move(s), all),
        receive_(unio::connect(unio::async_receive_many(socket, pool), after_receive{this})),
        write_(unio::connect(unio::async_write(socket, {}), after_write{this})) {
    receive_.start();
  }

 private:
  static constexpr std::size_t most_waiting = 8;

  struct after_receive {
    lent_peer* self = nullptr;
    void set_value(unio::io_result<unio::lent_buffer>&& got) { self->take(std::move(got)); }
    void set_done() { self->go_on(); }
  };
  struct after_write {
    lent_peer* self = nullptr;
    void set_value(unio::io_result<unio::const_buffers>&& r) {
      self->rest_.remove_prefix(r.bytes_transferred());
      if (!r) self->break_off();
    }
    void set_done() { self->go_on(); }
  };

  void take(unio::io_result<unio::lent_buffer>&& got) {
    if (!got || !*got) {
      bool const is_pause = is_pausing_ && got.error() == unio::condition::canceled;
      has_ended_ = !is_pause;
    } else if (is_broken_) { // nobody wants it
    } else if (!answer_) {
      send(std::move(*got));
    } else {
      keep(std::move(*got));
    }
  }
  void keep(unio::lent_buffer&& b) noexcept {
    try {
      waiting_.push_back(std::move(b));
    } catch (std::bad_alloc const&) {
      return break_off();
    }
    if (waiting_.size() < most_waiting || is_pausing_) return;
    is_pausing_ = true;
    receive_.cancel();
  }
  void send(unio::lent_buffer b) {
    answer_ = std::move(b);
    rest_ = {reinterpret_cast<char const*>(answer_.data()), answer_.size()};
    write_.reset(rest_);
    write_.start();
  }
  // So that the operations end.
  void break_off() noexcept {
    is_broken_ = true;
    (void)socket.shutdown(unio::socket_handle::side::both);
  }

  // One of the operations has finished.
  void go_on() {
    if (write_.in_flight()) return;
    if (is_broken_) {
      waiting_.clear();
    } else if (!rest_.empty()) {
      write_.reset(rest_);
      return write_.start();
    }
    answer_.reset();
    if (!waiting_.empty()) {
      unio::lent_buffer next = std::move(waiting_.front());
      waiting_.erase(waiting_.begin());
      return send(std::move(next));
    }
    if (receive_.in_flight()) return;
    if (has_ended_ || is_broken_) {
      delete this;
    } else {
      is_pausing_ = false;
      receive_.reset();
      receive_.start();
    }
  }

  unio::lent_buffer answer_; // on its way
  std::string_view rest_;    // of it
  std::vector<unio::lent_buffer> waiting_;
  bool is_pausing_ = false;
  bool has_ended_ = false;
  bool is_broken_ = false;
  unio::io_operation_connection<unio::async_receive_many, after_receive> receive_;
  unio::io_operation_connection<unio::async_write, after_write> write_;
};

class lent_server final : public object_server {
 public:
  using object_server::object_server;

 private:
  void make(unio::socket_handle socket) override { new lent_peer(std::move(socket), pool_, open()); }

  unio::buffer_pool pool_{lent_buffers, buffer_size};
};

// ---- tasks ------------------------------------------------------------------------------------------------

unio::task<> awaited(unio::socket_handle s, connections& all) {
  connection c(std::move(s), all);
  std::array<char, buffer_size> room;
  for (;;) {
    auto const got = co_await c.socket.co_read(room);
    if (!got || got->empty()) co_return;
    for (std::string_view rest(room.data(), got.bytes_transferred()); !rest.empty();) {
      auto const sent = co_await c.socket.co_write(rest);
      if (!sent) co_return;
      rest.remove_prefix(sent.bytes_transferred());
    }
  }
}

// Waits until there is something to read, then reads it.
unio::task<> poll_first(unio::socket_handle s, connections& all) {
  connection c(std::move(s), all);
  std::array<char, buffer_size> room;
  for (;;) {
    if (!co_await c.socket.co_poll(unio::readiness::readable)) co_return;
    auto const got = co_await c.socket.co_read(room);
    if (!got || got->empty()) co_return;
    for (std::string_view rest(room.data(), got.bytes_transferred()); !rest.empty();) {
      auto const sent = co_await c.socket.co_write(rest);
      if (!sent) co_return;
      rest.remove_prefix(sent.bytes_transferred());
    }
  }
}

// True if the peer has closed the connection and left no bytes to answer, or if we have shut it down.
bool is_over(unio::socket_handle const& s) noexcept {
  pollfd p{.fd = s.native_handle(), .events = 0, .revents = 0};
  if (::poll(&p, 1, 0) > 0) return true; // POLLHUP, POLLERR
  char byte;
  return ::recv(s.native_handle(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

bool is_shortage(std::error_code e) noexcept {
  return e == std::errc::too_many_files_open || e == std::errc::too_many_files_open_in_system ||
         e == std::errc::not_enough_memory || e == std::errc::no_buffer_space;
}

thread_local std::error_code pipe_error; // reported once, until a pipe is made or the error changes

// The bytes stay in the kernel: from the socket into a pipe, and from there into the socket. If there is no
// descriptor left for a pipe the connection waits until others have ended.
unio::task<> spliced(unio::socket_handle s, connections& all) {
  connection c(std::move(s), all);
  auto pipe = unio::pipe_handle::anonymous();
  while (!pipe) {
    bool const is_news = pipe.error() != pipe_error;
    pipe_error = pipe.error();
    if (is_news) say("no pipe for a connection", pipe_error);
    if (!is_shortage(pipe_error) || is_over(c.socket)) co_return;
    unio::timer_handle pause(pause_after_error);
    if (!co_await pause.co_wait()) co_return;
    pipe = unio::pipe_handle::anonymous();
  }
  pipe_error.clear();
  for (;;) {
    auto const got = co_await unio::co_splice(c.socket, pipe->writer, {.bytes = buffer_size});
    if (!got || *got == 0) co_return;
    for (std::size_t left = *got; left != 0;) {
      auto const sent = co_await unio::co_splice(pipe->reader, c.socket, {.bytes = left});
      if (!sent) co_return;
      left -= *sent;
    }
  }
}

// The answer and the next read are one operation. (A read and its answer cannot be: its length is not known
// before, and a short transfer ends a chain.)
unio::task<> linked(unio::socket_handle s, connections& all) {
  connection c(std::move(s), all);
  std::array<char, buffer_size> room;
  auto got = co_await c.socket.co_read(room);
  while (got && !got->empty()) {
    std::string_view rest(room.data(), got.bytes_transferred());
    auto both = co_await unio::co_link(unio::async_write(c.socket, rest), unio::async_read(c.socket, room));
    while (both.completed() == 0) { // the answer was sent only in part
      auto const& sent = both.get<0>();
      if (!sent) co_return;
      rest.remove_prefix(sent.bytes_transferred());
      both = co_await unio::co_link(unio::async_write(c.socket, rest), unio::async_read(c.socket, room));
    }
    got = both.get<1>();
  }
}

#ifdef UNIO_TOOL_TLS
unio::tls_context identity; // set before the first connection

// A client that does not say who it is, or what it wants, is not waited for.
constexpr auto handshake_bound = 10s;

unio::task<> encrypted(unio::socket_handle s, connections& all) {
  connection c(std::move(s), all);
  unio::tls_stream secure(c.socket, identity);
  if (auto const met = co_await secure.co_handshake(handshake_bound); !met) {
    if (!secure.why().empty()) complain(fmt::format("unio: {}\n", secure.why()));
    co_return;
  }
  std::array<char, buffer_size> room;
  for (;;) {
    auto const got = co_await secure.co_read(room);
    if (!got || got->empty()) break;
    auto const sent =
        co_await unio::co_write(secure, unio::const_buffer(room.data(), got.bytes_transferred()));
    if (!sent) co_return;
  }
  (void)co_await secure.co_shutdown();
}
#endif

using service = unio::task<> (*)(unio::socket_handle, connections&);

class task_server final : public server {
 public:
  task_server(unio::listening_socket_handle l, place const& p, service of_one)
      : server(std::move(l), p), of_one_(of_one) {}

 private:
  void serve(unio::socket_handle socket) override {
    unio::async_run(where().here, of_one_(std::move(socket), open()));
  }

  service of_one_;
};

// ---- the modes --------------------------------------------------------------------------------------------

struct mode {
  std::string_view name;
  std::string_view what;
  std::unique_ptr<server> (*make)(unio::listening_socket_handle, place const&);
};

template <service of_one>
std::unique_ptr<server> make_task_server(unio::listening_socket_handle l, place const& p) {
  return std::make_unique<task_server>(std::move(l), p, of_one);
}
template <class Server> std::unique_ptr<server> make_server(unio::listening_socket_handle l, place const& p) {
  return std::make_unique<Server>(std::move(l), p);
}

constexpr mode modes[] = {
    {"awaited", "a task for each connection, which reads and writes", make_task_server<awaited>},
    {"multiplexed", "operations and their receivers, no coroutine", make_server<multiplexed_server>},
    {"lent", "one operation that receives again and again, into buffers that it borrows",
     make_server<lent_server>},
    {"poll-first", "a task that waits until there is something before it reads",
     make_task_server<poll_first>},
    {"linked", "a task whose answer and next read are one operation", make_task_server<linked>},
    {"spliced", "a task that moves the bytes through a pipe", make_task_server<spliced>},
};

#ifdef UNIO_TOOL_TLS
constexpr mode over_tls = {"tls", "", make_task_server<encrypted>};
#endif

// What serves: the mode, or TLS.
mode const& choose(options const& o) {
  if (o.identity.empty()) return *std::ranges::find(modes, o.mode, &mode::name);
#ifdef UNIO_TOOL_TLS
  std::string why;
  auto const made = unio::tls_context::server(
      {unio::tls_pem::file(o.identity.at(0)), unio::tls_pem::file(o.identity.at(1))}, {}, &why);
  if (!made) throw std::runtime_error(why);
  identity = *made;
  return over_tls;
#else
  throw std::runtime_error("--tls: this unio was built without OpenSSL");
#endif
}

// ---- the timer --------------------------------------------------------------------------------------------

struct closing {
  void operator()(std::FILE* f) const noexcept { std::fclose(f); }
};
using log_file = std::unique_ptr<std::FILE, closing>;

log_file open_log(std::string const& name) {
  log_file f(std::fopen(name.c_str(), "ae"));
  if (f == nullptr) throw std::system_error(errno, std::generic_category(), escaped(name));
  std::setvbuf(f.get(), nullptr, _IOLBF, 0); // readers see whole lines only
  return f;
}

/// A timer beside the connections, restarted each time it has fired.
class ticking {
 public:
  using clock = std::chrono::steady_clock;

  ticking(clock::duration period, place const& p)
      : period_(period), timer_(on(p, unio::timer_handle(period))) {
    wait_ = unio::connect(unio::async_wait(timer_), fired{this});
    arm();
  }
  ticking(ticking const&) = delete;
  ticking& operator=(ticking const&) = delete;
  virtual ~ticking() = default;

  void stop() {
    is_stopped_ = true;
    wait_.cancel();
  }
  [[nodiscard]] bool has_ended() const noexcept { return wait_.finished(); }

 private:
  virtual void has_fired(clock::time_point due) noexcept = 0;

  void arm() {
    due_ = clock::now() + period_;
    wait_.reset();
    wait_.start();
  }

  struct fired {
    ticking* self = nullptr;
    void set_value(unio::io_result<void>&& r) {
      if (r) self->has_fired(self->due_);
    }
    void set_done() {
      if (!self->is_stopped_) self->arm();
    }
  };

  clock::duration period_;
  unio::timer_handle timer_;
  clock::time_point due_;
  std::atomic<bool> is_stopped_ = false;
  unio::io_operation_connection<unio::async_wait, fired> wait_;
};

/// Fires every millisecond, and writes a line each time: when it was due and how late it fired, both in ns of
/// the steady clock.
class lateness_log final : public ticking {
 public:
  lateness_log(std::FILE* to, place const& p) : ticking(1ms, p), to_(to) {}

 private:
  void has_fired(clock::time_point due) noexcept override {
    clock::time_point const now = clock::now();
    auto const ns = [](clock::duration d) -> long long { return std::chrono::nanoseconds(d).count(); };
    // Does not throw: the file remembers an error.
    std::fprintf(to_, "%lld %lld\n", ns(due.time_since_epoch()), ns(std::max(now - due, clock::duration())));
  }

  std::FILE* to_;
};

/// Keeps the thread on which it fires busy, as long as it has waited.
class computing final : public ticking {
 public:
  computing(clock::duration span, place const& p) : ticking(span, p), span_(span) {}

 private:
  void has_fired(clock::time_point) noexcept override {
    for (clock::time_point const end = clock::now() + span_; clock::now() < end;) {
    }
  }

  clock::duration span_;
};

// ---- threads and signals ----------------------------------------------------------------------------------

// One for each thread. Written by the signal handler, awaited by the threads.
std::span<unio::event_handle> ends_wanted;

void end_all() {
  for (unio::event_handle& e : ends_wanted) (void)e.signal();
}

void on_signal(int) {
  int const error = errno;
  end_all();
  errno = error;
}

// While it exists SIGINT and SIGTERM ask the threads to end. Their events outlive it.
class signals {
 public:
  explicit signals(std::span<unio::event_handle> events) {
    ends_wanted = events;
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &action, &before_[i]);
  }
  signals(signals const&) = delete;
  signals& operator=(signals const&) = delete;
  ~signals() {
    for (std::size_t i = 0; i < numbers.size(); ++i) ::sigaction(numbers[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array numbers{SIGINT, SIGTERM};
  struct sigaction before_[numbers.size()];
};

template <class T> T value_or_throw(unio::result<T> r, std::string_view what) {
  if (!r) throw std::runtime_error(fmt::format("{}: {}", what, r.error().code().message()));
  return std::move(*r);
}

struct wanted {
  std::error_code failure;
  void set_value(unio::io_result<std::uint64_t>&& r) { failure = r.error(); }
  void set_done() {}
};

// The calling thread's, made here, so that a failure is an error.
unio::io_multiplexer& own_multiplexer() {
  unio::io_multiplexer& here = unio::this_thread::multiplexer();
  if (unio::capabilities const c = here.capabilities(); std::string_view(c.driver) == "none")
    throw std::runtime_error("no multiplexer: " + c.why);
  return here;
}

// A turn of the loop. Without turns nothing in flight could be ended either, so a failure ends the process,
// and with it the sockets of all threads. Where threads share the multiplexer another one may do what this
// one waits for: it looks from time to time.
void run_once(place const& p) {
  auto const r = p.is_shared ? p.here.try_run_for(20ms) : p.here.run();
  if (r) return;
  say("waiting", r.error());
  std::_Exit(1);
}

/// Waits for the signal that ends this thread's work.
class waiting_for_the_end {
 public:
  waiting_for_the_end(unio::event_handle& end, place const& p) {
    end.set_multiplexer(&p.here);
    wait_ = unio::connect(unio::async_wait_event(end), wanted());
    wait_.start();
  }
  [[nodiscard]] bool goes_on() const noexcept { return wait_.in_flight(); }
  void stop() { wait_.cancel(); }
  void throw_failure() {
    if (std::error_code const e = wait_.receiver().failure)
      throw std::system_error(e, "waiting for a signal");
  }

 private:
  unio::io_operation_connection<unio::async_wait_event, wanted> wait_;
};

/// What a thread does beside its connections.
struct beside {
  std::FILE* log = nullptr; ///< null: no timer
  std::chrono::milliseconds busy{0};
};

void serve(place const& p, unio::listening_socket_handle listening, unio::event_handle& end, mode const& m,
           beside const& b) {
  std::unique_ptr<server> const s = m.make(std::move(listening), p);
  s->start();
  std::vector<std::unique_ptr<ticking>> timers;
  if (b.log != nullptr) timers.push_back(std::make_unique<lateness_log>(b.log, p));
  if (b.busy != 0ms) timers.push_back(std::make_unique<computing>(b.busy, p));
  waiting_for_the_end wait(end, p);
  while (wait.goes_on() && !s->failure()) run_once(p);
  s->stop();
  wait.stop();
  for (auto const& t : timers) t->stop();
  auto const is_ticking = [](auto const& t) { return !t->has_ended(); };
  while (wait.goes_on() || !s->has_ended() || std::ranges::any_of(timers, is_ticking)) run_once(p);
  if (s->failure()) throw std::system_error(s->failure(), "nothing can be accepted any more");
  wait.throw_failure();
}

// Runs what others have started, until `has_ended`.
void help(place const& p, unio::event_handle& end, std::atomic<bool> const& has_ended) {
  waiting_for_the_end wait(end, p);
  while (wait.goes_on() || !has_ended) run_once(p);
  wait.throw_failure();
}

/// The threads beside the first one.
struct helpers {
  std::latch are_ready;
  std::atomic<bool> has_failed = false; // to start
  std::atomic<bool> has_ended = false;  // what they help with
};

// In a thread of its own: an error there ends all of them. `work` is called once the thread is known to be
// ready, with where it runs.
template <class Where, class Work>
void work_beside(Where where, Work work, std::exception_ptr& failure, helpers& h) noexcept {
  bool is_ready = false;
  try {
    place const p = where();
    is_ready = true;
    h.are_ready.count_down();
    work(p);
  } catch (...) {
    failure = std::current_exception();
    end_all();
    if (is_ready) return;
    h.has_failed = true;
    h.are_ready.count_down();
  }
}

template <class Function> std::jthread start_thread(Function f) {
  try {
    return std::jthread(std::move(f));
  } catch (std::system_error const& e) {
    throw std::system_error(e.code(), "a thread cannot be started");
  }
}

std::optional<unio::endpoint> address_of(options const& o, std::string& why) {
  bool const is_ipv6 = o.address.find(':') != std::string::npos;
  std::string const text =
      fmt::format("{}{}{}:{}", is_ipv6 ? "[" : "", o.address, is_ipv6 ? "]" : "", o.port);
  auto const at = unio::parse_endpoint(text, &why);
  return at ? std::optional(*at) : std::nullopt;
}

// The first picks the port, if any will do. It listens before it allows others (SO_REUSEPORT), which only
// this process then adds: a second server finds the address in use.
std::vector<unio::listening_socket_handle> listen(options const& o, unio::endpoint at) {
  std::string const what = "cannot listen on " + unio::to_string(at);
  std::vector<unio::listening_socket_handle> all;
  all.push_back(value_or_throw(unio::listening_socket_handle::listen(at, {.wait_for_address = 500ms}), what));
  if (o.is_shared) return all;
  at = value_or_throw(all[0].local_endpoint(), what);
  int const yes = 1;
  if (o.threads > 1 && ::setsockopt(all[0].native_handle(), SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) != 0)
    throw std::system_error(errno, std::system_category(), what);
  for (int i = 1; i < o.threads; ++i)
    all.push_back(value_or_throw(unio::listening_socket_handle::listen(at, {.reuse_port = true}), what));
  return all;
}

void announce(unio::listening_socket_handle const& listening) {
  fmt::print("listening on {}\n", unio::to_string(value_or_throw(listening.local_endpoint(), "its address")));
  if (std::fflush(stdout) != 0) throw std::system_error(errno, std::system_category(), "standard output");
}

void serve_all(options const& o, unio::endpoint const& at) {
  mode const& m = choose(o);
  if (!o.driver.empty()) ::setenv("UNIO_DRIVER", o.driver.c_str(), 1);
  std::unique_ptr<unio::io_multiplexer> shared;
  if (o.is_shared) shared = value_or_throw(unio::io_multiplexer::best_available(o.threads), "no multiplexer");
  auto const where = [&]() -> place { return shared ? place{*shared, true} : place{own_multiplexer()}; };
  place const here = where();
  log_file const log = o.timer.empty() ? nullptr : open_log(o.timer);
  std::vector<unio::listening_socket_handle> listening = listen(o, at);
  std::vector<unio::event_handle> ends;
  for (int i = 0; i < o.threads; ++i)
    ends.push_back(value_or_throw(unio::event_handle::create(), "an event"));
  signals const handled(ends);

  std::vector<std::exception_ptr> failures(ends.size());
  {
    helpers h{.are_ready = std::latch(o.threads - 1)};
    auto const work = [&](std::size_t i) {
      return [&, i](place const& p) {
        if (p.is_shared) return help(p, ends[i], h.has_ended);
        serve(p, std::move(listening[i]), ends[i], m, {});
      };
    };
    std::vector<std::jthread> others;
    others.reserve(ends.size());
    try {
      for (std::size_t i = 1; i < ends.size(); ++i)
        others.push_back(start_thread([&, i] { work_beside(where, work(i), failures[i], h); }));
      h.are_ready.wait();
      if (!h.has_failed) {
        announce(listening[0]);
        serve(here, std::move(listening[0]), ends[0], m, {.log = log.get(), .busy = o.busy});
      }
    } catch (...) {
      failures[0] = std::current_exception();
      end_all();
    }
    h.has_ended = true;
  }
  for (std::exception_ptr const& failure : failures)
    if (failure != nullptr) std::rethrow_exception(failure);
  if (log != nullptr && std::ferror(log.get()) != 0)
    throw std::runtime_error(escaped(o.timer) + " could not be written");
}

} // namespace

void describe(CLI::App& app, options& o) {
  std::vector<std::string> names;
  std::string what = "How connections are served:";
  for (mode const& m : modes) {
    names.emplace_back(m.name);
    what += fmt::format("\n  {}: {}", m.name, m.what);
  }
  app.add_option("--port", o.port, "The port, 0 for any (default 7777)")
      ->type_name("N")
      ->check(whole_number(0, 65535));
  app.add_option("--address", o.address, "The address to listen on (default 127.0.0.1)")
      ->type_name("A")
      ->check(not_empty);
  app.add_option("--mode", o.mode, what)
      ->type_name(fmt::format("{}", fmt::join(names, "|")))
      ->check(one_of(names));
  app.add_option("--tls", o.identity,
                 "Serve over TLS, with the certificates and the private key in these PEM files")
      ->type_name("CERTIFICATES KEY")
      ->expected(2)
      ->excludes("--mode");
  app.add_option("--driver", o.driver, "What waits (default: the best there is)")
      ->type_name("uring|epoll")
      ->check(one_of({"uring", "epoll"}));
  app.add_option("--threads", o.threads,
                 "How many threads, each with a multiplexer and a socket of its own (default 1)")
      ->type_name("N")
      ->check(whole_number(1, 1024));
  app.add_flag("--shared", o.is_shared, "One multiplexer and one socket, which all threads share");
  app.add_option_function<int>(
         "--busy", [&o](int ms) { o.busy = std::chrono::milliseconds(ms); },
         "Let a thread compute for so many milliseconds of each twice as many: to see what others\n"
         "feel of it")
      ->type_name("MS")
      ->check(whole_number(1, 10'000));
  app.add_option("--timer", o.timer,
                 "Let a timer of 1 ms fire in the first thread, too, and append to FILE when it was due\n"
                 "and how late it fired, in ns")
      ->type_name("FILE")
      ->check(not_empty);
}

int run(options const& o) {
  try {
    std::string why;
    auto const at = address_of(o, why);
    if (!at) {
      complain(fmt::format("unio: {}\n", why));
      return 2;
    }
    if (auto const ignored = unio::ignore_sigpipe(); !ignored)
      throw std::system_error(ignored.error(), "SIGPIPE");
    serve_all(o, *at);
    return 0;
  } catch (std::exception const& e) {
    complain(fmt::format("unio: {}\n", e.what()));
    return 1;
  }
}

} // namespace echo
