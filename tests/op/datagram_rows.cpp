// The rows of the table of operations that are about datagrams and passed handles.

#include "op/rows.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"

#include <unio/listening_datagram_handle.hpp>

namespace {

using namespace test;
using test::failure;

// ---- two ends: `sink` sends, `source` receives -----------------------------------------------------------

template <bool IsIpv6> struct udp_ends {
  static endpoint any() { return IsIpv6 ? endpoint::ipv6_loopback(0) : endpoint::ipv4_loopback(0); }
  datagram_handle source = datagram_handle::bind(any()).value();
  datagram_handle sink = datagram_handle::bind(any()).value();
  endpoint to = source.local_endpoint().value();
  endpoint from = sink.local_endpoint().value();
};

template <bool IsSequenced> struct unix_datagram_ends {
  datagram_handle source, sink;
  endpoint to, from;
  unix_datagram_ends() {
    auto both = datagram_handle::pair({.sequenced = IsSequenced}).value();
    source = std::move(both.first);
    sink = std::move(both.second);
  }
};

void send_raw(int fd, endpoint const& to, std::string_view what) {
  bool const named = to.family() != unio::address_family::unspecified;
  ASSERT_EQ(::sendto(fd, what.data(), what.size(), MSG_NOSIGNAL,
                     named ? static_cast<sockaddr const*>(to.data()) : nullptr, named ? to.size() : 0),
            static_cast<ssize_t>(what.size()));
}

/// The next datagram, or "nothing".
std::string take_one(int fd) {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  if (::poll(&p, 1, 10'000) != 1) return "nothing";
  char memory[65536];
  ssize_t const n = ::recv(fd, memory, sizeof memory, MSG_DONTWAIT);
  return n < 0 ? "nothing" : std::string(memory, static_cast<std::size_t>(n));
}

/// Sends until there is no room. Returns how many datagrams that took.
int fill_queue(int fd) {
  int n = 0;
  while (::send(fd, "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) ++n;
  return n;
}

// ---- receiving -------------------------------------------------------------------------------------------

template <class Ends> struct receive_from : fixture {
  using sender = unio::async_receive_from;
  static ending value() { return {std::string(text), text.size()}; }
  Ends ends;
  char memory[16];
  unio::datagram_info info;

  receive_from(io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  template <class S> S describe(deadline d) { return S(ends.source, unio::mutable_buffer(memory), info, d); }
  auto block(deadline d) { return ends.source.receive_from(unio::mutable_buffer(memory), info, d); }
  auto await(deadline d) { return ends.source.co_receive_from(unio::mutable_buffer(memory), info, d); }
  void make_ready() { send_raw(ends.sink.native_handle(), ends.to, text); }
  void close() { ASSERT_TRUE(ends.source.close()); }
  ending brought(sender::result_type r) {
    if (ends.from.family() != unio::address_family::unspecified && r.bytes_transferred() != 0) {
      EXPECT_EQ(info.from, ends.from);
    }
    ending e{"", r.bytes_transferred()};
    for (auto const& b : *r) e.text.append(reinterpret_cast<char const*>(b.data()), b.size());
    return e;
  }
};

struct receive_from_sequenced : receive_from<unix_datagram_ends<true>> {
  static ending at_end() { return {}; }
  using receive_from::receive_from;
  void end() { ASSERT_TRUE(ends.sink.close()); }
};

struct receive_nothing : receive_from<udp_ends<false>> {
  static ending value() { return {}; }
  using receive_from::receive_from;
  void make_ready() { send_raw(ends.sink.native_handle(), ends.to, ""); }
};

template <class Ends> struct receive_scattered : receive_from<Ends> {
  using receive_from<Ends>::receive_from;
  unio::mutable_buffer parts[3] = {{this->memory, 2}, {this->memory + 2, 0}, {this->memory + 2, 13}};
  std::span<unio::mutable_buffer const> list() { return parts; }
  template <class S> S describe(deadline d) { return S(this->ends.source, list(), this->info, d); }
  auto block(deadline d) { return this->ends.source.receive_from(list(), this->info, d); }
  auto await(deadline d) { return this->ends.source.co_receive_from(list(), this->info, d); }
};

template <class Ends> struct receive_batch : fixture {
  using sender = unio::async_receive_batch;
  static ending value() { return {"1: hello", text.size()}; }
  Ends ends;
  char memory[3][16];
  std::array<unio::received_datagram, 3> batch;

  receive_batch(io_multiplexer* m, script) {
    ends.source.set_multiplexer(m);
    for (std::size_t i = 0; i < batch.size(); ++i) batch[i].room = unio::mutable_buffer(memory[i]);
  }
  template <class S> S describe(deadline d) { return S(ends.source, std::span(batch), d); }
  auto block(deadline d) { return ends.source.receive_batch(batch, d); }
  auto await(deadline d) { return ends.source.co_receive_batch(batch, d); }
  void make_ready() { send_raw(ends.sink.native_handle(), ends.to, text); }
  void close() { ASSERT_TRUE(ends.source.close()); }
  ending brought(sender::result_type r) {
    ending e{std::to_string(*r) + ":", r.bytes_transferred()};
    for (std::size_t i = 0; i < *r; ++i)
      e.text.append(" ").append(reinterpret_cast<char const*>(batch[i].room.data()), batch[i].size);
    return e;
  }
};

// ---- sending ---------------------------------------------------------------------------------------------

// There is always room.
template <class Ends> struct send_to : fixture {
  static constexpr bool can_wait = false;
  using sender = unio::async_send_to;
  static ending value() { return {std::string(text), text.size()}; }
  Ends ends;
  unio::send_description how{.to = ends.to};

  send_to(io_multiplexer* m, script) { ends.sink.set_multiplexer(m); }
  template <class S> S describe(deadline d) { return S(ends.sink, how, unio::const_buffer(text), d); }
  auto block(deadline d) { return ends.sink.send_to(how, unio::const_buffer(text), d); }
  auto await(deadline d) { return ends.sink.co_send_to(how, unio::const_buffer(text), d); }
  void make_ready() {}
  void again() { // what was destroyed may have been sent
    char memory[16];
    (void)::recv(ends.source.native_handle(), memory, sizeof memory, MSG_DONTWAIT);
  }
  ending brought(unio::io_result<unio::const_buffers> r) {
    EXPECT_EQ(take_one(ends.source.native_handle()), text) << "what arrived";
    ending e{"", r.bytes_transferred()};
    for (auto const& b : *r) e.text.append(reinterpret_cast<char const*>(b.data()), b.size());
    return e;
  }
};

// The peer's queue is full.
template <bool IsSequenced> struct send_to_full : send_to<unix_datagram_ends<IsSequenced>> {
  static constexpr bool can_wait = true;
  int filled;
  send_to_full(io_multiplexer* m, script s) : send_to<unix_datagram_ends<IsSequenced>>(m, s) {
    filled = fill_queue(this->ends.sink.native_handle());
  }
  void make_ready() {
    for (; filled > 0; --filled) EXPECT_EQ(take_one(this->ends.source.native_handle()), "x");
  }
  void again() {}
  void close() { ASSERT_TRUE(this->ends.sink.close()); }
};

struct send_to_sequenced_full : send_to_full<true> {
  static ending at_end() { return failure(ECONNRESET); } // for there was something that it had not read
  using send_to_full::send_to_full;
  void end() { ASSERT_TRUE(ends.source.close()); }
};

// As several datagrams, which arrive one by one.
template <class Ends> struct send_segments : send_to<Ends> {
  static ending value() { return {"hello, hello, hel", 13}; }
  unio::send_description segmented{.to = this->ends.to, .segment = 5};
  using send_to<Ends>::send_to;
  static constexpr std::string_view joined = "hellohellohel";
  template <class S> S describe(deadline d) {
    return S(this->ends.sink, segmented, unio::const_buffer(joined), d);
  }
  auto block(deadline d) { return this->ends.sink.send_to(segmented, unio::const_buffer(joined), d); }
  auto await(deadline d) { return this->ends.sink.co_send_to(segmented, unio::const_buffer(joined), d); }
  void again() {
    for (int i = 0; i < 3; ++i) send_to<Ends>::again();
  }
  ending brought(unio::io_result<unio::const_buffers> r) {
    ending e{"", r.bytes_transferred()};
    for (int i = 0; i < 3; ++i) {
      if (i != 0) e.text.append(", ");
      e.text.append(take_one(this->ends.source.native_handle()));
    }
    return e;
  }
};

struct send_too_much : send_to<udp_ends<false>> {
  static ending value() { return failure(EMSGSIZE); }
  std::string const large = std::string(65'508, 'x');
  using send_to::send_to;
  template <class S> S describe(deadline d) { return S(ends.sink, how, unio::const_buffer(large), d); }
  auto block(deadline d) { return ends.sink.send_to(how, unio::const_buffer(large), d); }
  auto await(deadline d) { return ends.sink.co_send_to(how, unio::const_buffer(large), d); }
};

template <class Ends> struct send_batch : fixture {
  static constexpr bool can_wait = false;
  using sender = unio::async_send_batch;
  static ending value() { return {"2: hello, hel, lo", 10}; }
  Ends ends;
  std::array<unio::datagram_to_send, 2> batch{
      {{.how = {.to = ends.to}, .bytes = unio::const_buffer(text)},
       {.how = {.to = ends.to, .segment = 3}, .bytes = unio::const_buffer(text)}}};

  send_batch(io_multiplexer* m, script) { ends.sink.set_multiplexer(m); }
  template <class S> S describe(deadline d) { return S(ends.sink, std::span(batch), d); }
  auto block(deadline d) { return ends.sink.send_batch(batch, d); }
  auto await(deadline d) { return ends.sink.co_send_batch(batch, d); }
  void make_ready() {}
  void again() {
    char memory[16];
    while (::recv(ends.source.native_handle(), memory, sizeof memory, MSG_DONTWAIT) >= 0) continue;
    for (unio::datagram_to_send& d : batch) d.sent = 0;
  }
  ending brought(sender::result_type r) {
    ending e{std::to_string(*r) + ": ", r.bytes_transferred()};
    for (int i = 0; i < 3; ++i) {
      if (i != 0) e.text.append(", ");
      e.text.append(take_one(ends.source.native_handle()));
    }
    return e;
  }
};

// ---- errors of the transport -----------------------------------------------------------------------------

// Nobody listens where it sends to.
struct receive_error : fixture {
  using sender = unio::async_receive_error;
  static ending value() { return {"unreachable: " + std::to_string(ECONNREFUSED)}; }
  datagram_handle socket = datagram_handle::bind(endpoint::ipv4_loopback(0), {.errors = true}).value();
  endpoint nobody;

  receive_error(io_multiplexer* m, script) {
    socket.set_multiplexer(m);
    auto gone = datagram_handle::bind(endpoint::ipv4_loopback(0)).value();
    nobody = gone.local_endpoint().value();
  }
  template <class S> S describe(deadline d) { return S(socket, d); }
  auto block(deadline d) { return socket.receive_error(d); }
  auto await(deadline d) { return socket.co_receive_error(d); }
  void make_ready() { send_raw(socket.native_handle(), nobody, text); }
  void close() { ASSERT_TRUE(socket.close()); }
  ending brought(sender::result_type r) {
    EXPECT_EQ(r->to, nobody);
    return {(r->what == unio::datagram_error::kind::unreachable ? "unreachable: " : "other: ") +
            std::to_string(r->why.value())};
  }
};

// ---- passing handles -------------------------------------------------------------------------------------

struct stream_ends {
  unio::socket_handle source, sink;
  stream_ends() {
    auto both = unio::socket_handle::pair().value();
    source = std::move(both.first);
    sink = std::move(both.second);
  }
};

void send_raw_handles(int socket, std::size_t bytes, std::vector<int> const& fds) {
  std::string text(bytes, 'h');
  iovec v{.iov_base = text.data(), .iov_len = bytes};
  std::size_t const size = fds.size() * sizeof(int);
  std::vector<char> control(CMSG_SPACE(size));
  msghdr m{};
  m.msg_iov = &v;
  m.msg_iovlen = 1;
  m.msg_control = control.data();
  m.msg_controllen = control.size();
  cmsghdr* const c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(c), fds.data(), size);
  ASSERT_EQ(::sendmsg(socket, &m, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

/// Whether what is written to `writer` can be read from `reader`.
bool leads_to(unio::io_handle& writer, unio::io_handle& reader) {
  char c = 0;
  return writer.write(unio::const_buffer("!", 1)).has_value() &&
         reader.try_read(unio::mutable_buffer(&c, 1)).has_value() && c == '!';
}

template <class Ends> struct receive_handles : fixture {
  using sender = unio::async_receive_handles;
  static ending value() { return {"one that leads here", 1}; }
  Ends ends;
  unio::anonymous_pipe pipe = unio::pipe_handle::anonymous().value();
  char memory[16];

  receive_handles(io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  template <class S> S describe(deadline d) { return S(ends.source, unio::mutable_buffer(memory), d); }
  auto block(deadline d) { return unio::receive_handles(ends.source, unio::mutable_buffer(memory), d); }
  auto await(deadline d) { return unio::co_receive_handles(ends.source, unio::mutable_buffer(memory), d); }
  void make_ready() { send_raw_handles(ends.sink.native_handle(), 1, {pipe.writer.native_handle()}); }
  void close() { ASSERT_TRUE(ends.source.close()); }
  ending brought(sender::result_type r) {
    if (r->handles.size() != 1) return {"no handle", r.bytes_transferred()};
    unio::io_handle writer = r->handles.take(0).value();
    EXPECT_NE(::fcntl(writer.native_handle(), F_GETFD) & FD_CLOEXEC, 0);
    return {leads_to(writer, pipe.reader) ? "one that leads here" : "another", r.bytes_transferred()};
  }
};

// More bytes than there is room for, with more handles than one message may bring here.
template <class Ends> struct receive_what_is_cut : receive_handles<Ends> {
  using receive_handles<Ends>::receive_handles;
  static ending value() { return {"cut, and said so", sizeof(receive_handles<Ends>::memory)}; }
  void make_ready() {
    send_raw_handles(this->ends.sink.native_handle(), sizeof(this->memory) + 1,
                     std::vector<int>(unio::passed_handles::capacity + 1, this->pipe.writer.native_handle()));
  }
  ending brought(unio::async_receive_handles::result_type r) {
    bool const is_full = r->handles.size() == unio::passed_handles::capacity;
    bool const says_so = r->truncated && r->handles.truncated();
    return {is_full && says_so ? "cut, and said so" : "whole", r.bytes_transferred()};
  }
};

template <class Ends> struct send_handles : fixture {
  static constexpr bool can_wait = false;
  using sender = unio::async_send_handles;
  static ending value() { return {"one that leads here", 1}; }
  Ends ends;
  unio::anonymous_pipe pipe = unio::pipe_handle::anonymous().value();
  unio::handle const* list[1] = {&pipe.writer};

  send_handles(io_multiplexer* m, script) { ends.sink.set_multiplexer(m); }
  template <class S> S describe(deadline d) {
    return S(ends.sink, unio::const_buffer("h", 1), std::span<unio::handle const* const>(list), d);
  }
  auto block(deadline d) { return unio::send_handles(ends.sink, unio::const_buffer("h", 1), list, d); }
  auto await(deadline d) { return unio::co_send_handles(ends.sink, unio::const_buffer("h", 1), list, d); }
  void make_ready() {}
  ending brought(sender::result_type r) {
    char memory[16];
    auto got = unio::receive_handles(ends.source, unio::mutable_buffer(memory), std::chrono::seconds(10));
    if (!got.has_value() || got->handles.size() != 1) return {"no handle", r.bytes_transferred()};
    unio::io_handle writer = got->handles.take(0).value();
    return {leads_to(writer, pipe.reader) ? "one that leads here" : "another", r.bytes_transferred()};
  }
};

struct send_handles_to_full : send_handles<stream_ends> {
  static constexpr bool can_wait = true;
  static ending at_end() { return failure(EPIPE); }
  std::size_t filled;

  send_handles_to_full(io_multiplexer* m, script s)
      : send_handles(m, s), filled(test::fill(ends.sink, ends.source)) {}
  void make_ready() {
    EXPECT_EQ(test::take(ends.source, filled).size(), filled);
    filled = 0;
  }
  void end() { ASSERT_TRUE(ends.source.close()); }
  void close() { ASSERT_TRUE(ends.sink.close()); }
};

// ---- accepting sequenced connections ---------------------------------------------------------------------

struct accept_sequenced : fixture {
  static ending value() { return {"connection"}; }
  // A fresh name for each cell.
  static endpoint fresh() {
    static std::atomic<int> last = 0;
    return endpoint::unix_path("@unio-sequenced-" + std::to_string(::getpid()) + "-" + std::to_string(++last))
        .value();
  }
  endpoint at = fresh();
  unio::listening_datagram_handle listener = unio::listening_datagram_handle::listen(at).value();
  datagram_handle peer;

  accept_sequenced(io_multiplexer* m, script) { listener.set_multiplexer(m); }
  UNIO_SPELLINGS(async_accept_sequenced, listener, accept)
  void make_ready() { peer = datagram_handle::connected_to(at, {.sequenced = true}).value(); }
  void again() { peer = {}; }
  void close() { ASSERT_TRUE(listener.close()); }
  ending brought(sender::result_type r) {
    int const fd = r->native_handle();
    EXPECT_GT(fd, 2);
    EXPECT_EQ(::fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    EXPECT_EQ(::fcntl(fd, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    send_raw(peer.native_handle(), {}, text);
    send_raw(peer.native_handle(), {}, "and more");
    EXPECT_EQ(take_one(fd), text);
    return {"connection"};
  }
};

std::vector<row> datagrams() {
  return {
      row_of<receive_from<udp_ends<false>>>("receive_from_udp"),
      row_of<receive_from<udp_ends<true>>>("receive_from_udp_on_ipv6"),
      row_of<receive_from<unix_datagram_ends<false>>>("receive_from_unix_datagram"),
      row_of<receive_from_sequenced>("receive_from_unix_sequenced"),
      row_of<receive_nothing>("receive_an_empty_datagram"),
      row_of<receive_scattered<udp_ends<false>>>("receive_scattered_from_udp"),
      row_of<receive_batch<udp_ends<false>>>("receive_batch_udp"),
      row_of<receive_batch<unix_datagram_ends<false>>>("receive_batch_unix_datagram"),
      row_of<send_to<udp_ends<false>>>("send_to_udp"),
      row_of<send_to<udp_ends<true>>>("send_to_udp_on_ipv6"),
      row_of<send_to<unix_datagram_ends<false>>>("send_to_unix_datagram"),
      row_of<send_to_full<false>>("send_to_full_unix_datagram"),
      row_of<send_to_sequenced_full>("send_to_full_unix_sequenced"),
      row_of<send_segments<udp_ends<false>>>("send_segments_udp"),
      row_of<send_segments<udp_ends<true>>>("send_segments_udp_on_ipv6"),
      row_of<send_too_much>("send_too_much_udp"),
      row_of<send_batch<udp_ends<false>>>("send_batch_udp"),
      row_of<receive_error>("receive_error"),
      row_of<receive_handles<stream_ends>>("receive_handles_on_stream"),
      row_of<receive_handles<unix_datagram_ends<false>>>("receive_handles_on_datagrams"),
      row_of<receive_handles<unix_datagram_ends<true>>>("receive_handles_sequenced"),
      row_of<receive_what_is_cut<unix_datagram_ends<false>>>("receive_handles_cut_on_datagrams"),
      row_of<receive_what_is_cut<unix_datagram_ends<true>>>("receive_handles_cut_sequenced"),
      row_of<send_handles<stream_ends>>("send_handles_on_stream"),
      row_of<send_handles<unix_datagram_ends<false>>>("send_handles_on_datagrams"),
      row_of<send_handles_to_full>("send_handles_to_full_stream"),
      row_of<accept_sequenced>("accept_sequenced"),
  };
}

} // namespace

std::vector<test::row> test::datagram_rows() { return datagrams(); }
