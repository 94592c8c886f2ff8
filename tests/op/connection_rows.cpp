// The rows of the table of operations about accepting, connecting and shutting down.

#include "op/rows.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/posix.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

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

struct make_socket : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return {"a socket"}; }
  io_multiplexer* multiplexer;
  make_socket(io_multiplexer* m, script) : multiplexer(m) {}
  UNIO_FREE_SPELLINGS(async_socket, socket, unio::address_family::ipv4, multiplexer)
  static ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    bool const is_one = r->kind() == unio::handle_kind::stream_socket && r->local_endpoint().has_value();
    return {is_one ? "a socket" : "something"};
  }
};

struct shutdown_unconnected : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return test::failure(ENOTCONN); }
  unio::socket_handle socket = unio::socket_handle::create(unio::address_family::ipv4).value();
  static constexpr auto side = unio::socket_side::both;

  shutdown_unconnected(io_multiplexer* m, script) { socket.set_multiplexer(m); }
  UNIO_SPELLINGS(async_shutdown, socket, shutdown, side)
};

} // namespace

std::vector<test::row> test::connection_rows() {
  return {
      row_of<accept_on_tcp<tcp_ipv6_ends>>("accept_tcp_on_ipv6"),
      row_of<connect_on<tcp_ipv6_ends>>("connect_tcp_on_ipv6"),
      row_of<connected<connect_unix>>("connected_unix"),
      row_of<connected<connect_tcp>>("connected_tcp"),
      row_of<connected<connect_tcp_unanswered>>("connected_tcp_unanswered"),
      row_of<connected<connect_on<tcp_ipv6_ends>>>("connected_tcp_on_ipv6"),
      row_of<shutdown_on<unix_ends>>("shutdown_unix"),
      row_of<shutdown_on<tcp_ends>>("shutdown_tcp"),
      row_of<shutdown_on<tcp_ipv6_ends>>("shutdown_tcp_on_ipv6"),
      row_of<shutdown_unconnected>("shutdown_unconnected"),
      row_of<make_socket>("socket"),
      row_of<accept_on<unix_name>>("accept_unix"),
      row_of<accept_on_tcp<tcp_ends>>("accept_tcp"),
      row_of<accept_many_on<accept_on<unix_name>>>("accept_many_unix"),
      row_of<accept_many_on<accept_on_tcp<tcp_ends>>>("accept_many_tcp"),
      row_of<connect_unix>("connect_unix"),
      row_of<connect_tcp>("connect_tcp"),
      row_of<connect_tcp_unanswered>("connect_tcp_unanswered"),
      row_of<connect_to_nobody>("connect_to_nobody"),
  };
}
