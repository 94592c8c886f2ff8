// The table of operations: every operation, on every driver, in every style, by the same scripts, with the
// same result.
//
// A test plays one script with one operation in all styles on io_uring and on epoll (and in none, for the
// blocking calls), and compares what came of it with what has to and with each other. What rows, scripts and
// styles are stands in support/operation_table.hpp. A new operation is a new row here.

#include "op/datagram_rows.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/operation_table.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"

#include <unio/unio.hpp>

#include <gtest/gtest.h>

#include <fcntl.h>
#include <linux/tcp.h> // what <netinet/tcp.h> has of tcp_info is older
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace std::chrono_literals;
using test::ending;
using test::is_ready;
using test::pipe_ends;
using test::put;
using test::reduced;
using test::script;
using test::take;
using test::tcp_ends;
using test::tcp_ipv6_ends;
using test::unix_ends;
using unio::deadline;
using unio::io_multiplexer;

constexpr std::string_view text = "hello";

// ---- two ends --------------------------------------------------------------------------------------------

struct named_pipe_ends {
  test::temporary_directory directory;
  unio::pipe_handle source, sink;
  named_pipe_ends() {
    source = unio::pipe_handle::create(directory.handle(), "fifo").value();
    sink = unio::pipe_handle::open(directory.handle(), "fifo", unio::handle::mode::write).value();
  }
};

// Writes until there is no room and none will appear unless the peer reads. Returns how many bytes that was.
//
// TCP keeps what is under way until that is acknowledged, and sends when a timer says so what the other side
// (`reader`) has still room for. So it is full when nothing is under way and the window is shut. Single bytes
// it would keep in far more memory than it had promised to have, and then drop them, again and again.
std::size_t fill(unio::handle const& h, unio::handle const& reader) {
  int const fd = h.native_handle();
  std::string const block(16384, 'x');
  std::size_t n = 0;
  auto const write_all = [&](std::size_t bytes) {
    for (ssize_t r; (r = ::write(fd, block.data(), bytes)) > 0;) n += static_cast<std::size_t>(r);
  };
  for (int round = 0; round != 400; ++round) {
    write_all(block.size());
    tcp_info now = {};
    socklen_t size = sizeof now;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &now, &size) != 0) {
      write_all(1);
      return n;
    }
    if (now.tcpi_unacked == 0 && now.tcpi_snd_wnd == 0 && !is_ready(h, POLLOUT, 0)) return n;
    int const on = 1;
    (void)::setsockopt(reader.native_handle(), IPPROTO_TCP, TCP_QUICKACK, &on,
                       sizeof on); // puts no acknowledgement off: tcp(7)
    (void)is_ready(h, POLLOUT, 5);
  }
  ADD_FAILURE() << "a TCP connection does not get full";
  return n;
}

// ---- reading ---------------------------------------------------------------------------------------------

template <class Ends> struct read_from : test::fixture {
  static ending value() { return {std::string(text), text.size()}; }
  static ending at_end() { return {}; }
  Ends ends;
  char memory[16];

  read_from(io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  UNIO_SPELLINGS(async_read, ends.source, read, unio::mutable_buffer(memory))
  void make_ready() { put(ends.sink, text); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(ends.source.close()); }
};

// Into several buffers, the last of which is not filled.
template <class Ends> struct scatter_from : read_from<Ends> {
  using base = read_from<Ends>;
  using base::base;
  unio::mutable_buffer parts[3] = {{this->memory, 2}, {this->memory + 2, 1}, {this->memory + 3, 13}};
  UNIO_SPELLINGS(async_read, this->ends.source, read, std::span<unio::mutable_buffer const>(parts))
};

struct read_nothing : read_from<pipe_ends> {
  static constexpr bool can_wait = false;
  static ending value() { return {}; }
  static ending at_end() { return {}; }
  using read_from::read_from;
  UNIO_SPELLINGS(async_read, ends.source, read, unio::mutable_buffer(memory, 0))
  void make_ready() {}
};

// Into buffers of a pool, which has one; it goes home when the bytes were looked at.
template <class Ends> struct receive_from : test::fixture {
  static ending value() { return {std::string(text), text.size()}; }
  static ending at_end() { return {}; }
  unio::buffer_pool pool{1, 16};
  Ends ends;

  receive_from(io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  ~receive_from() { EXPECT_EQ(pool.lent(), 0u); }
  UNIO_SPELLINGS(async_receive, ends.source, receive, pool)
  void make_ready() { put(ends.sink, text); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(ends.source.close()); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    return {std::string(reinterpret_cast<char const*>(r->data()), r->size()), r.bytes_transferred()};
  }
};

template <class Ends> struct receive_many_from : receive_from<Ends> {
  static constexpr bool many = true;
  static constexpr bool has_verbs = false; // a call returns once
  using sender = unio::async_receive_many;
  template <class S = sender> S describe(deadline d) { return S(this->ends.source, this->pool, d); }
  using receive_from<Ends>::receive_from;
};

// The bytes are there, and the buffer is lent: it comes back from another thread.
template <class Receive> struct while_all_are_lent : Receive {
  unio::lent_buffer kept = this->pool.try_take();
  while_all_are_lent(io_multiplexer* m, script s) : Receive(m, s) { Receive::make_ready(); }
  void make_ready() { kept.reset(); }
  void end() = delete; // the bytes are there all the same
};

// The directory is shared by all rows: making one for each cell takes longer than the cell.
test::temporary_directory& directory() {
  static test::temporary_directory d;
  return d;
}

struct read_file : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return {std::string(text), text.size()}; }
  unio::file_handle file;
  char memory[16];

  read_file(io_multiplexer* m, script) {
    directory().write("read", "say hello");
    file = unio::file_handle::file(directory().handle(), "read").value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::mutable_buffers> request() { return {unio::mutable_buffer(memory), 4}; }
  UNIO_SPELLINGS(async_read, file, read, request())
};

struct read_beyond_the_end : read_file {
  static ending value() { return {}; }
  using read_file::read_file;
  unio::io_request<unio::mutable_buffers> request() { return {unio::mutable_buffer(memory), 4096}; }
  UNIO_SPELLINGS(async_read, file, read, request())
};

struct read_mapped_file : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return {std::string(text) + " in the map", text.size()}; }
  unio::mapped_file_handle file;
  char memory[16];

  read_mapped_file(io_multiplexer* m, script) {
    directory().write("mapped", "say hello");
    file = unio::mapped_file_handle::mapped_file(directory().handle(), "mapped").value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::mutable_buffers> request() { return {unio::mutable_buffer(memory), 4}; }
  UNIO_SPELLINGS(async_read, file, read, request())
  ending reduce(sender::result_type r) {
    ending e = reduced(r);
    if (r.has_value() && !r->empty() && r->front().data() == file.address() + 4) e.text += " in the map";
    return e;
  }
};

// ---- writing ---------------------------------------------------------------------------------------------

template <class Ends> struct write_to : test::fixture {
  static ending value() { return {std::string(text), text.size()}; }
  static ending at_end() { return test::failure(EPIPE); }
  Ends ends;
  std::size_t filled;

  write_to(io_multiplexer* m, script) {
    ends.sink.set_multiplexer(m);
    filled = fill(ends.sink, ends.source);
  }
  UNIO_SPELLINGS(async_write, ends.sink, write, unio::const_buffer(text))
  void make_ready() {
    EXPECT_EQ(take(ends.source, filled).size(), filled);
    is_ready(ends.sink, POLLOUT, 10'000); // a TCP peer says so a little later
    filled = 0;
  }
  void end() { ASSERT_TRUE(ends.source.close()); }
  void close() { ASSERT_TRUE(ends.sink.close()); }
  ending reduce(unio::io_result<unio::const_buffers> r) {
    ending e = reduced(r);
    if (r.has_value()) {
      EXPECT_EQ(take(ends.source, r.bytes_transferred()), e.text) << "what arrived";
    }
    return e;
  }
};

template <class Ends> struct write_to_tcp : write_to<Ends> {
  static ending at_end() { return test::failure(ECONNRESET); } // for there was something that it had not read
  using write_to<Ends>::write_to;
};

template <class Ends> struct gather_to : write_to<Ends> {
  using write_to<Ends>::write_to;
  unio::const_buffer parts[3] = {{text.data(), 2}, {text.data(), 0}, {text.data() + 2, 3}};
  UNIO_SPELLINGS(async_write, this->ends.sink, write, std::span<unio::const_buffer const>(parts))
};

// Without copying; a Unix socket cannot do that, and copies.
template <class Write> struct zero_copy : Write {
  using Write::Write;
  UNIO_SPELLINGS(async_send_zero_copy, this->ends.sink, send_zero_copy, unio::const_buffer(text))
};

template <class Write> struct gather_zero_copy : Write {
  using Write::Write;
  unio::const_buffer parts[3] = {{text.data(), 2}, {text.data(), 0}, {text.data() + 2, 3}};
  UNIO_SPELLINGS(async_send_zero_copy, this->ends.sink, send_zero_copy,
                 std::span<unio::const_buffer const>(parts))
};

struct write_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // not every filesystem can say that a write would not wait
  static ending value() { return {std::string(text), text.size()}; }
  unio::file_handle file;

  write_file(io_multiplexer* m, script) {
    directory().write("written", "say nothing");
    file = unio::file_handle::file(directory().handle(), "written", unio::handle::mode::write).value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::const_buffers> request() { return {unio::const_buffer(text), 4}; }
  UNIO_SPELLINGS(async_write, file, write, request())
  ending reduce(sender::result_type r) {
    if (r.has_value()) {
      EXPECT_EQ(directory().read("written"), "say hellong");
    }
    return reduced(r);
  }
};

struct write_mapped_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false;
  static ending value() { return {std::string(text), text.size()}; }
  unio::mapped_file_handle file;

  write_mapped_file(io_multiplexer* m, script) {
    directory().write("map", "say nothing");
    file =
        unio::mapped_file_handle::mapped_file(directory().handle(), "map", unio::handle::mode::write).value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::const_buffers> request() { return {unio::const_buffer(text), 4}; }
  UNIO_SPELLINGS(async_write, file, write, request())
  ending reduce(sender::result_type r) {
    if (r.has_value()) {
      EXPECT_EQ(std::string_view(reinterpret_cast<char const*>(file.address()), file.length()),
                "say hellong");
    }
    return reduced(r);
  }
};

// ---- barriers --------------------------------------------------------------------------------------------

template <unio::barrier_kind Kind> struct barrier_on_file : test::fixture {
  static constexpr bool can_wait = false;
  unio::file_handle file;

  barrier_on_file(io_multiplexer* m, script) {
    file = unio::file_handle::file(directory().handle(), "durable", unio::handle::mode::write,
                                   unio::handle::creation::if_needed)
               .value();
    (void)file.write(unio::const_buffer(text));
    file.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_barrier, file, barrier, Kind)
};

// Nothing that could be made durable.
struct barrier_on_pipe : test::fixture {
  static constexpr bool can_wait = false;
  pipe_ends ends;
  static constexpr auto kind = unio::barrier_kind::wait_all;

  barrier_on_pipe(io_multiplexer* m, script) { ends.sink.set_multiplexer(m); }
  UNIO_SPELLINGS(async_barrier, ends.sink, barrier, kind)
};

// ---- connections -----------------------------------------------------------------------------------------

// A fresh name for each cell: a connection that an earlier one left must not be found.
unio::endpoint fresh_name() {
  static std::atomic<int> last = 0;
  return unio::endpoint::unix_path("@unio-table-" + std::to_string(::getpid()) + "-" + std::to_string(++last))
      .value();
}

struct unix_name {
  static unio::endpoint get() { return fresh_name(); }
};
template <class Ends> struct tcp_address {
  static unio::endpoint get() { return Ends::any(); }
};

template <class Address> struct accept_on : test::fixture {
  static ending value() { return {"connection"}; }
  unio::listening_socket_handle listener;
  unio::endpoint at;
  unio::socket_handle peer;

  accept_on(io_multiplexer* m, script)
      : listener(unio::listening_socket_handle::listen(Address::get()).value()),
        at(listener.local_endpoint().value()) {
    listener.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_accept, listener, accept)
  void make_ready() { peer = unio::socket_handle::connected_to(at).value(); }
  void again() { peer = {}; }
  void close() { ASSERT_TRUE(listener.close()); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    int const fd = r->native_handle();
    EXPECT_GT(fd, 2);
    EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    put(peer, text);
    EXPECT_EQ(take(*r, text.size()), text);
    return {"connection"};
  }
};

// Only a listener of TCP can be ended from outside: shutting a Unix one down wakes no waiter.
template <class Ends> struct accept_on_tcp : accept_on<tcp_address<Ends>> {
  using accept_on<tcp_address<Ends>>::accept_on;
  void end() { ::shutdown(this->listener.native_handle(), SHUT_RDWR); }
  static ending at_end() { return test::failure(EINVAL); }
};

template <class Accept> struct accept_many_on : Accept {
  static constexpr bool many = true;
  static constexpr bool has_verbs = false; // a call returns once
  using sender = unio::async_accept_many;
  using Accept::Accept;
};

// To wait, a connection needs a listener whose queue is full.
struct connect_unix : test::fixture {
  static constexpr bool repeatable = false; // a socket that was connecting is to be closed
  static ending at_end() { return test::failure(ECONNREFUSED); }
  unio::endpoint at = fresh_name();
  unio::listening_socket_handle listener = unio::listening_socket_handle::listen(at, {.backlog = 1}).value();
  std::vector<unio::socket_handle> queued;
  unio::socket_handle socket = unio::socket_handle::create(unio::address_family::unix_path).value();

  connect_unix(io_multiplexer* m, script) {
    socket.set_multiplexer(m);
    for (;;) {
      auto next = unio::socket_handle::create(unio::address_family::unix_path).value();
      if (!next.connect(at, deadline::zero())) break;
      queued.push_back(std::move(next));
    }
  }
  UNIO_SPELLINGS(async_connect, socket, connect, at)
  void make_ready() {
    for (std::size_t i = 0; i < queued.size(); ++i) (void)listener.accept().value();
  }
  void end() { ASSERT_TRUE(listener.close()); }
  void close() { ASSERT_TRUE(socket.close()); }
  ending reduce(sender::result_type r) {
    if (r.has_value()) {
      put(socket, text);
      EXPECT_EQ(take(listener.accept().value(), text.size()), text);
    }
    return reduced(r);
  }
};

template <class Ends> struct connect_on : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // a handshake takes a moment
  static constexpr bool repeatable = false;
  unio::listening_socket_handle listener = unio::listening_socket_handle::listen(Ends::any()).value();
  unio::endpoint at = listener.local_endpoint().value();
  unio::socket_handle socket = unio::socket_handle::create(at.family()).value();

  connect_on(io_multiplexer* m, script) { socket.set_multiplexer(m); }
  UNIO_SPELLINGS(async_connect, socket, connect, at)
  ending reduce(sender::result_type r) {
    if (r.has_value()) {
      put(socket, text);
      EXPECT_EQ(take(listener.accept().value(), text.size()), text);
    }
    return reduced(r);
  }
};

using connect_tcp = connect_on<tcp_ends>;

// The listener's queue is full, so that the handshake is never answered.
struct connect_tcp_unanswered : connect_tcp {
  static constexpr bool can_wait = true;
  static constexpr bool completes = false; // TCP would try again after a second
  unio::socket_handle queued[2];
  connect_tcp_unanswered(io_multiplexer* m, script s) : connect_tcp(nullptr, s) {
    socket.set_multiplexer(m);
    if (s == script::ready) return;
    listener =
        unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0), {.backlog = 0}).value();
    at = listener.local_endpoint().value();
    for (unio::socket_handle& q : queued) {
      q = unio::socket_handle::create(unio::address_family::ipv4).value();
      (void)q.connect(at, 5ms);
    }
  }
  void close() { ASSERT_TRUE(socket.close()); }
};

// Made, bound and connected in one.
template <class Connect> struct connected : Connect {
  using sender = unio::async_connected;
  static ending value() { return {"connection"}; }
  unio::connect_options options;

  connected(io_multiplexer* m, script s) : Connect(nullptr, s) {
    options.multiplexer = m;
    options.from = this->at.family() == unio::address_family::ipv4   ? tcp_ends::any()
                   : this->at.family() == unio::address_family::ipv6 ? tcp_ipv6_ends::any()
                                                                     : fresh_name();
  }
  template <class S = sender> S describe(deadline d) { return S(this->at, options, d); }
  unio::io_result<unio::socket_handle> block(deadline d) {
    return unio::socket_handle::connected_to(this->at, options, d);
  }
  auto await(deadline d) { return unio::socket_handle::co_connected_to(this->at, options, d); }
  void close() = delete; // there is no handle yet
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    put(*r, text);
    auto const accepted = this->listener.accept().value();
    EXPECT_EQ(accepted.remote_endpoint().value(), r->local_endpoint().value());
    EXPECT_EQ(take(accepted, text.size()), text);
    return {"connection"};
  }
};

struct connect_to_nobody : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false;
  static constexpr bool repeatable = false;
  static ending value() { return test::failure(ECONNREFUSED); }
  unio::endpoint at;
  unio::socket_handle socket = unio::socket_handle::create(unio::address_family::ipv4).value();

  connect_to_nobody(io_multiplexer* m, script) {
    socket.set_multiplexer(m);
    auto taken = unio::socket_handle::create(unio::address_family::ipv4).value(); // bound, but not listening
    (void)taken.bind(unio::endpoint::ipv4_loopback(0));
    at = taken.local_endpoint().value();
  }
  UNIO_SPELLINGS(async_connect, socket, connect, at)
};

// ---- shutting down ---------------------------------------------------------------------------------------

template <class Ends> struct shutdown_on : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return {"done, and the end behind hello"}; }
  Ends ends;
  static constexpr auto side = unio::socket_side::send;

  shutdown_on(io_multiplexer* m, script) {
    ends.sink.set_multiplexer(m);
    put(ends.sink, text);
  }
  UNIO_SPELLINGS(async_shutdown, ends.sink, shutdown, side)
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    if (test::is_ready(ends.source, POLLIN, 10'000)) seen += take(ends.source, text.size() + 1);
    return {"done, and the end behind " + seen};
  }
  std::string seen;
};

struct shutdown_unconnected : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return test::failure(ENOTCONN); }
  unio::socket_handle socket = unio::socket_handle::create(unio::address_family::ipv4).value();
  static constexpr auto side = unio::socket_side::both;

  shutdown_unconnected(io_multiplexer* m, script) { socket.set_multiplexer(m); }
  UNIO_SPELLINGS(async_shutdown, socket, shutdown, side)
};

// ---- waiting ---------------------------------------------------------------------------------------------

struct wait_for_timer : test::fixture {
  unio::timer_handle timer;
  bool comes;

  wait_for_timer(io_multiplexer* m, script s)
      : comes(s == script::waits || s == script::cancel_races_completion) {
    timer.set_multiplexer(m);
    timer.expires_at(comes ? deadline(15ms) : deadline(1h));
  }
  UNIO_SPELLINGS(async_wait, timer, wait)
  void make_ready() {
    if (!comes) timer.expires_at(std::chrono::steady_clock::now() - 1s);
  }
};

struct wait_for_event : test::fixture {
  static ending value() { return {"signalled 3 times"}; }
  unio::event_handle event = unio::event_handle::create().value();

  wait_for_event(io_multiplexer* m, script) { event.set_multiplexer(m); }
  UNIO_SPELLINGS(async_wait_event, event, wait)
  void make_ready() { ASSERT_TRUE(event.signal(3)); }
  void close() { ASSERT_TRUE(event.close()); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    return {"signalled " + std::to_string(*r) + " times", r.bytes_transferred()};
  }
};

template <class Ends> struct poll_readable : test::fixture {
  static ending at_end() { return {"done"}; } // a read would not wait
  Ends ends;
  static constexpr auto what = unio::readiness::readable;

  poll_readable(io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  UNIO_SPELLINGS(async_poll, ends.source, poll, what)
  void make_ready() { put(ends.sink, text); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(ends.source.close()); }
};

template <class Ends> struct poll_writable : test::fixture {
  static ending at_end() { return {"done"}; }
  Ends ends;
  std::size_t filled = 0;
  static constexpr auto what = unio::readiness::writable;

  poll_writable(io_multiplexer* m, script) {
    ends.sink.set_multiplexer(m);
    filled = fill(ends.sink, ends.source);
  }
  UNIO_SPELLINGS(async_poll, ends.sink, poll, what)
  void make_ready() {
    EXPECT_EQ(take(ends.source, filled).size(), filled);
    filled = 0;
  }
  void end() { ASSERT_TRUE(ends.source.close()); }
  void close() { ASSERT_TRUE(ends.sink.close()); }
};

// Urgent data of TCP.
struct poll_exceptional : test::fixture {
  tcp_ends ends;
  static constexpr auto what = unio::readiness::exceptional;

  poll_exceptional(io_multiplexer* m, script) {
    ends.source.set_multiplexer(m);
    put(ends.sink, text); // which is not urgent
  }
  UNIO_SPELLINGS(async_poll, ends.source, poll, what)
  void make_ready() { ASSERT_EQ(::send(ends.sink.native_handle(), "!", 1, MSG_OOB), 1); }
  void close() { ASSERT_TRUE(ends.source.close()); }
};

struct no_op : test::fixture {
  static constexpr bool can_wait = false;
  using sender = unio::async_no_op;
  io_multiplexer* multiplexer;

  no_op(io_multiplexer* m, script) : multiplexer(m) {}
  template <class S> S describe(deadline d) { return S(multiplexer, d); }
  auto block(deadline d) {
    return multiplexer == nullptr ? unio::no_op() : unio::detail::blocking(unio::async_no_op(multiplexer, d));
  }
  auto await(deadline) { return unio::co_no_op(multiplexer); }
};

// ---- moving, opening, closing ----------------------------------------------------------------------------

// From one to another: at first there is nothing to move.
template <class From, class To> struct splice_between : test::fixture {
  static ending value() { return {"moved", text.size()}; }
  static ending at_end() { return {"moved", 0}; }
  From from;
  To to;
  unio::splice_request request{.bytes = 100};

  splice_between(io_multiplexer* m, script) { from.source.set_multiplexer(m); }
  UNIO_FREE_SPELLINGS(async_splice, splice, from.source, to.sink, request)
  void make_ready() { put(from.sink, text); }
  void end() { ASSERT_TRUE(from.sink.close()); }
  void close() { ASSERT_TRUE(to.sink.close()); } // the one that it does not wait for
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    EXPECT_EQ(take(to.source, *r), text.substr(0, *r));
    return {"moved", r.bytes_transferred()};
  }
};

// The destination is full.
struct splice_to_full_pipe : splice_between<pipe_ends, pipe_ends> {
  static ending at_end() { return test::failure(EPIPE); }
  std::size_t filled;
  splice_to_full_pipe(io_multiplexer* m, script s) : splice_between(m, s) {
    filled = fill(to.sink, to.source);
    put(from.sink, text);
  }
  void make_ready() {
    EXPECT_EQ(take(to.source, filled).size(), filled);
    filled = 0;
  }
  void end() { ASSERT_TRUE(to.source.close()); }
  void close() { ASSERT_TRUE(from.source.close()); }
};

struct splice_from_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // a file has to be read first
  static ending value() { return {"moved", text.size()}; }
  unio::file_handle file;
  pipe_ends to;
  unio::splice_request request{.bytes = 100, .from_offset = 4};

  splice_from_file(io_multiplexer* m, script) {
    directory().write("spliced", "say hello");
    file = unio::file_handle::file(directory().handle(), "spliced").value();
    file.set_multiplexer(m);
  }
  UNIO_FREE_SPELLINGS(async_splice, splice, file, to.sink, request)
  void again() { // what was abandoned may have moved its bytes
    if (is_ready(to.source, POLLIN, 0)) take(to.source, text.size());
  }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    EXPECT_EQ(take(to.source, *r), text.substr(0, *r));
    return {"moved", r.bytes_transferred()};
  }
};

struct splice_between_sockets : splice_between<unix_ends, unix_ends> {
  static constexpr bool can_wait = false;
  static ending value() { return test::failure(EINVAL); }
  static ending at_end() { return test::failure(EINVAL); }
  using splice_between::splice_between;
};

template <bool Exists> struct open_file : test::fixture {
  static constexpr bool can_wait = false;
  using sender = unio::async_open;
  static ending value() { return Exists ? ending{"a file of 9 bytes"} : test::failure(ENOENT); }
  unio::path_handle base = unio::path_handle::path(directory().path()).value();
  static constexpr char const* name = Exists ? "opened" : "missing";

  open_file(io_multiplexer* m, script) {
    directory().write("opened", "say hello");
    base.set_multiplexer(m);
  }
  template <class S> S describe(deadline d) {
    return S(base, name, unio::handle::mode::read, unio::handle::creation::open_existing,
             unio::handle::caching::all, unio::handle::flag::none, d);
  }
  sender::result_type block(deadline d) {
    if (base.has_multiplexer()) return unio::detail::blocking(describe<sender>(d));
    return unio::file(base, name);
  }
  auto await(deadline d) {
    return unio::co_open(base, name, unio::handle::mode::read, unio::handle::creation::open_existing,
                         unio::handle::caching::all, unio::handle::flag::none, d);
  }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    return {"a file of " + std::to_string(r->maximum_extent().value()) + " bytes"};
  }
};

// Somebody else has locked the same bytes.
struct lock_range_of_file : test::fixture {
  static ending value() { return {"locked"}; }
  unio::file_handle file, theirs;
  unio::file_lock their_lock;
  static constexpr auto kind = unio::lock_kind::exclusive;

  lock_range_of_file(io_multiplexer* m, script) {
    directory().write("locked", "say hello");
    auto const open = [] {
      return unio::file_handle::file(directory().handle(), "locked", unio::handle::mode::write).value();
    };
    file = open();
    theirs = open();
    their_lock = theirs.lock_range(4, 8, kind).value();
    file.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_lock_range, file, lock_range, 4, 5, kind)
  void make_ready() { ASSERT_TRUE(their_lock.unlock()); }
  void close() { ASSERT_TRUE(file.close()); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    EXPECT_EQ(theirs.try_lock_range(8, 1, kind).error(), unio::condition::would_block);
    EXPECT_TRUE(r->unlock());
    EXPECT_TRUE(theirs.try_lock_range(8, 1, kind).has_value());
    return {"locked"};
  }
};

struct lock_whole_file : lock_range_of_file {
  using lock_range_of_file::lock_range_of_file;
  UNIO_SPELLINGS(async_lock_file, file, lock_file, kind)
};

// Both read: they are not in each other's way.
struct lock_range_shared : lock_range_of_file {
  static constexpr bool can_wait = false;
  static constexpr auto shared = unio::lock_kind::shared;
  lock_range_shared(io_multiplexer* m, script s) : lock_range_of_file(m, s) {
    EXPECT_TRUE(their_lock.unlock());
    their_lock = theirs.lock_range(0, 100, shared).value();
  }
  UNIO_SPELLINGS(async_lock_range, file, lock_range, 4, 5, shared)
  void make_ready() {}
  ending reduce(sender::result_type r) { return r.has_value() ? ending{"locked"} : test::failure(r.error()); }
};

template <class Ends> struct close_one : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool repeatable = false;
  using sender = unio::async_close;
  static ending value() { return {"closed"}; }
  Ends ends;
  int fd;

  close_one(io_multiplexer* m, script) : fd(ends.sink.native_handle()) { ends.sink.set_multiplexer(m); }
  template <class S> S describe(deadline d) { return S(std::move(ends.sink), d); }
  unio::io_result<void> block(deadline) { return ends.sink.close(); }
  auto await(deadline) { return std::move(ends.sink).co_close(); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    return {::fcntl(fd, F_GETFD) == -1 && errno == EBADF ? "closed" : "still open"};
  }
};

struct file_end {
  unio::file_handle sink = unio::file_handle::temp_inode().value();
};

// ---- chains ----------------------------------------------------------------------------------------------

// What both members came to.
template <class Result> ending both(Result r) {
  if (r.error() && r.error() != unio::error::truncated) return test::failure(r.error());
  ending e = reduced(r.template get<0>());
  ending const second = reduced(r.template get<1>());
  e.text += "+" + second.text;
  e.bytes += second.bytes;
  return e;
}

// A read that may wait, and a write that follows it.
template <class From, class To> struct link_read_to_write : test::fixture {
  using sender = unio::async_link<unio::async_read, unio::async_write>;
  static ending value() { return {"hello+hello", 2 * text.size()}; }
  static ending at_end() { return {"+" + test::failure(unio::condition::canceled).text, 0}; }
  From from;
  To to;
  char memory[text.size()];

  link_read_to_write(io_multiplexer* m, script) {
    from.source.set_multiplexer(m);
    to.sink.set_multiplexer(m);
  }
  unio::async_read read() { return {from.source, unio::mutable_buffer(memory)}; }
  unio::async_write write() { return {to.sink, unio::const_buffer(memory, text.size())}; }
  UNIO_CHAIN_SPELLINGS(read(), write())
  void make_ready() { put(from.sink, text); }
  void end() { ASSERT_TRUE(from.sink.close()); }
  void close() { ASSERT_TRUE(from.source.close()); }
  ending reduce(sender::result_type r) { return both(std::move(r)); }
};

// One that need not wait, and one that may; and the handle that is closed is that of the second.
struct link_write_to_read : test::fixture {
  using sender = unio::async_link<unio::async_write, unio::async_read>;
  static ending value() { return {"ping+hello", 4 + text.size()}; }
  static ending at_end() { return {"ping+", 4}; }
  unix_ends to;
  tcp_ends from;
  char memory[text.size()];

  link_write_to_read(io_multiplexer* m, script) {
    from.source.set_multiplexer(m);
    to.sink.set_multiplexer(m);
  }
  unio::async_write write() { return {to.sink, unio::const_buffer("ping", 4)}; }
  unio::async_read read() { return {from.source, unio::mutable_buffer(memory)}; }
  UNIO_CHAIN_SPELLINGS(write(), read())
  void make_ready() { put(from.sink, text); }
  void end() { ASSERT_TRUE(from.sink.close()); }
  void close() { ASSERT_TRUE(from.source.close()); }
  ending reduce(sender::result_type r) {
    EXPECT_EQ(r.get<0>().bytes_transferred(), 4U) << "bytes of a member are hidden by the stop of the next";
    return both(std::move(r));
  }
};

struct link_file_to_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // some filesystems cannot say whether writing would wait
  using sender = unio::async_link<unio::async_read, unio::async_write>;
  static ending value() { return {"hello+hello", 2 * text.size()}; }
  unio::file_handle from, to = unio::file_handle::temp_inode().value();
  char memory[text.size()];

  link_file_to_file(io_multiplexer* m, script) {
    directory().write("linked", "say hello");
    from = unio::file_handle::file(directory().handle(), "linked").value();
    from.set_multiplexer(m);
    to.set_multiplexer(m);
  }
  unio::async_read read() { return {from, {unio::mutable_buffer(memory), 4}}; }
  unio::async_write write() { return {to, {unio::const_buffer(memory, text.size()), 0}}; }
  UNIO_CHAIN_SPELLINGS(read(), write())
  ending reduce(sender::result_type r) { return both(std::move(r)); }
};

// The first moves less than it is asked to.
struct link_beyond_the_end : link_file_to_file {
  static ending value() { return {"lo+" + test::failure(unio::condition::canceled).text, 2}; }
  using link_file_to_file::link_file_to_file;
  unio::async_read read() { return {from, {unio::mutable_buffer(memory), 7}}; }
  UNIO_CHAIN_SPELLINGS(read(), write())
};

// A failure between two that would succeed.
struct link_that_fails : test::fixture {
  static constexpr bool can_wait = false;
  using sender = unio::async_link<unio::async_no_op, unio::async_write, unio::async_no_op>;
  static ending value() {
    return {"done, " + test::failure(EPIPE).text + ", " + test::failure(unio::condition::canceled).text};
  }
  pipe_ends ends;
  io_multiplexer* const m;

  link_that_fails(io_multiplexer* on, script) : m(on) {
    ends.sink.set_multiplexer(m);
    EXPECT_TRUE(ends.source.close());
  }
  unio::async_write write() { return {ends.sink, unio::const_buffer(text)}; }
  UNIO_CHAIN_SPELLINGS(unio::async_no_op(m), write(), unio::async_no_op(m))
  ending reduce(sender::result_type r) {
    EXPECT_EQ(r.completed(), 1U);
    auto const& [first, second, third] = r;
    return {reduced(first).text + ", " + reduced(second).text + ", " + reduced(third).text};
  }
};

// ---- the table -------------------------------------------------------------------------------------------

std::vector<test::row> const& table() {
  directory(); // before the first cell counts descriptors
  static std::vector<test::row> const rows = test::datagram_rows::added_to({
      test::row_of<read_from<pipe_ends>>("read_pipe"),
      test::row_of<read_from<named_pipe_ends>>("read_named_pipe"),
      test::row_of<read_from<unix_ends>>("read_unix_socket"),
      test::row_of<read_from<tcp_ends>>("read_tcp_socket"),
      test::row_of<scatter_from<pipe_ends>>("scatter_from_pipe"),
      test::row_of<scatter_from<tcp_ends>>("scatter_from_tcp_socket"),
      test::row_of<read_from<tcp_ipv6_ends>>("read_tcp_socket_on_ipv6"),
      test::row_of<scatter_from<tcp_ipv6_ends>>("scatter_from_tcp_socket_on_ipv6"),
      test::row_of<receive_from<tcp_ipv6_ends>>("receive_tcp_socket_on_ipv6"),
      test::row_of<write_to_tcp<tcp_ipv6_ends>>("write_tcp_socket_on_ipv6"),
      test::row_of<accept_on_tcp<tcp_ipv6_ends>>("accept_tcp_on_ipv6"),
      test::row_of<connect_on<tcp_ipv6_ends>>("connect_tcp_on_ipv6"),
      test::row_of<connected<connect_unix>>("connected_unix"),
      test::row_of<connected<connect_tcp>>("connected_tcp"),
      test::row_of<connected<connect_tcp_unanswered>>("connected_tcp_unanswered"),
      test::row_of<connected<connect_on<tcp_ipv6_ends>>>("connected_tcp_on_ipv6"),
      test::row_of<shutdown_on<unix_ends>>("shutdown_unix"),
      test::row_of<shutdown_on<tcp_ends>>("shutdown_tcp"),
      test::row_of<shutdown_on<tcp_ipv6_ends>>("shutdown_tcp_on_ipv6"),
      test::row_of<shutdown_unconnected>("shutdown_unconnected"),
      test::row_of<read_nothing>("read_nothing"),
      test::row_of<receive_from<pipe_ends>>("receive_pipe"),
      test::row_of<receive_from<named_pipe_ends>>("receive_named_pipe"),
      test::row_of<receive_from<unix_ends>>("receive_unix_socket"),
      test::row_of<receive_from<tcp_ends>>("receive_tcp_socket"),
      test::row_of<receive_many_from<pipe_ends>>("receive_many_pipe"),
      test::row_of<receive_many_from<tcp_ends>>("receive_many_tcp_socket"),
      test::row_of<while_all_are_lent<receive_from<pipe_ends>>>("receive_while_all_are_lent"),
      test::row_of<while_all_are_lent<receive_from<tcp_ends>>>("receive_tcp_while_all_are_lent"),
      test::row_of<while_all_are_lent<receive_many_from<unix_ends>>>("receive_many_while_all_are_lent"),
      test::row_of<read_file>("read_file"),
      test::row_of<read_beyond_the_end>("read_file_beyond_its_end"),
      test::row_of<read_mapped_file>("read_mapped_file"),
      test::row_of<write_to<pipe_ends>>("write_pipe"),
      test::row_of<write_to<named_pipe_ends>>("write_named_pipe"),
      test::row_of<write_to<unix_ends>>("write_unix_socket"),
      test::row_of<write_to_tcp<tcp_ends>>("write_tcp_socket"),
      test::row_of<gather_to<pipe_ends>>("gather_to_pipe"),
      test::row_of<gather_to<unix_ends>>("gather_to_unix_socket"),
      test::row_of<write_file>("write_file"),
      test::row_of<write_mapped_file>("write_mapped_file"),
      test::row_of<barrier_on_file<unio::barrier_kind::nowait_data_only>>("barrier_nowait_data_only"),
      test::row_of<barrier_on_file<unio::barrier_kind::wait_data_only>>("barrier_wait_data_only"),
      test::row_of<barrier_on_file<unio::barrier_kind::nowait_all>>("barrier_nowait_all"),
      test::row_of<barrier_on_file<unio::barrier_kind::wait_all>>("barrier_wait_all"),
      test::row_of<barrier_on_pipe>("barrier_on_pipe"),
      test::row_of<accept_on<unix_name>>("accept_unix"),
      test::row_of<accept_on_tcp<tcp_ends>>("accept_tcp"),
      test::row_of<accept_many_on<accept_on<unix_name>>>("accept_many_unix"),
      test::row_of<accept_many_on<accept_on_tcp<tcp_ends>>>("accept_many_tcp"),
      test::row_of<connect_unix>("connect_unix"),
      test::row_of<connect_tcp>("connect_tcp"),
      test::row_of<connect_tcp_unanswered>("connect_tcp_unanswered"),
      test::row_of<connect_to_nobody>("connect_to_nobody"),
      test::row_of<wait_for_timer>("wait"),
      test::row_of<wait_for_event>("wait_event"),
      test::row_of<poll_readable<pipe_ends>>("poll_readable_pipe"),
      test::row_of<poll_readable<tcp_ends>>("poll_readable_tcp_socket"),
      test::row_of<poll_writable<pipe_ends>>("poll_writable_pipe"),
      test::row_of<poll_writable<unix_ends>>("poll_writable_unix_socket"),
      test::row_of<poll_exceptional>("poll_exceptional"),
      test::row_of<no_op>("no_op"),
      test::row_of<splice_between<pipe_ends, pipe_ends>>("splice_pipe_to_pipe"),
      test::row_of<splice_between<unix_ends, pipe_ends>>("splice_socket_to_pipe"),
      test::row_of<splice_between<pipe_ends, tcp_ends>>("splice_pipe_to_tcp_socket"),
      test::row_of<splice_to_full_pipe>("splice_to_full_pipe"),
      test::row_of<splice_from_file>("splice_from_file"),
      test::row_of<splice_between_sockets>("splice_between_sockets"),
      test::row_of<open_file<true>>("open"),
      test::row_of<open_file<false>>("open_what_does_not_exist"),
      test::row_of<lock_range_of_file>("lock_range"),
      test::row_of<lock_range_shared>("lock_range_shared"),
      test::row_of<lock_whole_file>("lock_file"),
      test::row_of<close_one<pipe_ends>>("close_pipe"),
      test::row_of<close_one<tcp_ends>>("close_socket"),
      test::row_of<close_one<file_end>>("close_file"),
      test::row_of<zero_copy<write_to_tcp<tcp_ends>>>("send_zero_copy_tcp"),
      test::row_of<zero_copy<write_to<unix_ends>>>("send_zero_copy_unix"),
      test::row_of<gather_zero_copy<write_to_tcp<tcp_ends>>>("gather_zero_copy_tcp"),
      test::row_of<gather_zero_copy<write_to_tcp<tcp_ipv6_ends>>>("gather_zero_copy_tcp_on_ipv6"),
      test::row_of<gather_zero_copy<write_to<unix_ends>>>("gather_zero_copy_unix"),
      test::row_of<link_read_to_write<pipe_ends, unix_ends>>("link_pipe_to_socket"),
      test::row_of<link_read_to_write<tcp_ends, pipe_ends>>("link_socket_to_pipe"),
      test::row_of<link_write_to_read>("link_write_to_read"),
      test::row_of<link_file_to_file>("link_file_to_file"),
      test::row_of<link_beyond_the_end>("link_beyond_the_end_of_a_file"),
      test::row_of<link_that_fails>("link_that_fails"),
  });
  return rows;
}

struct entry {
  test::row const* row;
  script what;
};

std::vector<entry> entries() {
  std::vector<entry> all;
  for (test::row const& r : table())
    test::for_each_script([&](script s) {
      if (r.expected(s).has_value()) all.push_back({&r, s});
    });
  return all;
}

void PrintTo(entry const& e, std::ostream* out) { *out << e.row->name << ", " << test::name_of(e.what); }

class operations : public testing::TestWithParam<entry> {};

std::vector<test::cell> play_everywhere(test::row const& r, script s,
                                        std::vector<std::string> const& drivers) {
  std::vector<test::cell> cells;
  auto const play = [&](std::string const& where, test::style how, io_multiplexer* m) {
    SCOPED_TRACE(where);
    cells.push_back({where, r.play(s, how, m)});
  };
  if (r.has(s, test::style::blocking)) play("blocking", test::style::blocking, nullptr);
  for (std::string const& driver : drivers) {
    auto const m = test::make_multiplexer(driver.c_str()).value();
    if (auto f = unio::file_handle::file({}, "/dev/null"); f.has_value()) {
      f->set_multiplexer(m.get()); // the first operation on a file has a ring open a pipe for itself
      (void)f->barrier();
    }
    test::for_each_style([&](test::style how) {
      if (how != test::style::blocking && r.has(s, how))
        play(driver + " " + test::name_of(how), how, m.get());
    });
  }
  return cells;
}

TEST_P(operations, end_the_same_on_every_driver_and_in_every_style) {
  if (GetParam().row->name.ends_with("_on_ipv6")) {
    static std::string const missing = test::no_ipv6();
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
  std::vector<test::cell> const cells =
      play_everywhere(*GetParam().row, GetParam().what, test::available_drivers());
  for (std::string const& d : test::differences(*GetParam().row->expected(GetParam().what), cells))
    ADD_FAILURE() << d;
}

INSTANTIATE_TEST_SUITE_P(table, operations, testing::ValuesIn(entries()), [](auto const& of) {
  return of.param.row->name + "__" + test::name_of(of.param.what);
});

TEST(operation_table, has_both_drivers) {
  std::string missing;
  if (test::available_drivers(&missing).size() < 2)
    GTEST_SKIP() << "the table has only one driver. " << missing;
}

// ---- canaries: what is wrong has to be noticed -----------------------------------------------------------

TEST(operation_table, finds_nothing_where_all_is_as_it_should_be) {
  ending const e{"hello", 5};
  EXPECT_TRUE(test::differences(e, {{"a", e}, {"b", e}}).empty());
}

TEST(operation_table, notices_lost_bytes_other_data_and_other_errors) {
  ending const e{"hello", 5};
  for (ending const& wrong : {ending{"hello", 4}, ending{"hellp", 5}, ending{},
                              test::failure(unio::condition::canceled), test::failure(EPIPE)}) {
    auto const found = test::differences(e, {{"first", e}, {"second", wrong}});
    ASSERT_EQ(found.size(), 2U) << to_string(wrong); // not as expected, and not as the other
    EXPECT_TRUE(found[0].starts_with("second: ")) << found[0];
    EXPECT_EQ(found[1], "second differs from first");
  }
  EXPECT_NE(test::failure(unio::condition::canceled), test::failure(unio::condition::timed_out));
}

TEST(operation_table, notices_that_nothing_was_played) { EXPECT_EQ(test::differences({}, {}).size(), 1U); }

// A row that claims what is not so.
struct read_that_expects_another_text : read_from<pipe_ends> {
  static ending value() { return {"hullo", 5}; }
  using read_from::read_from;
};

// A row whose operation loses the last byte when it is awaited.
struct read_that_loses_a_byte : read_from<pipe_ends> {
  using read_from::read_from;
  auto await(deadline d) { return ends.source.co_read(unio::mutable_buffer(memory, 4), d); }
};

TEST(operation_table, notices_a_broken_row) {
  std::vector<std::string> const drivers = test::available_drivers();
  test::row const wrong = test::row_of<read_that_expects_another_text>("wrong");
  EXPECT_GE(test::differences(*wrong.expected(script::ready), play_everywhere(wrong, script::ready, drivers))
                .size(),
            6U);
  test::row const lossy = test::row_of<read_that_loses_a_byte>("lossy");
  auto const found =
      test::differences(*lossy.expected(script::waits), play_everywhere(lossy, script::waits, drivers));
  EXPECT_EQ(found.size(), 2 * drivers.size());
  for (std::string const& d : found) EXPECT_NE(d.find("awaited"), std::string::npos) << d;
}

} // namespace
