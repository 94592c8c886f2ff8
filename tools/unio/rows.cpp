#include "rows.hpp"

#include "allocations.hpp"
#include "example_identity.hpp"
#include "tools/support/system_calls.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>

namespace tour {

char const* name(handle_choice h) noexcept {
  switch (h) {
    case handle_choice::file:
      return "file";
    case handle_choice::mapped_file:
      return "mapped file";
    case handle_choice::pipe:
      return "pipe";
    case handle_choice::unix_socket:
      return "Unix socket";
    case handle_choice::tcp:
      return "TCP";
    case handle_choice::udp:
      return "UDP";
    case handle_choice::tls:
      return "TLS";
  }
  return "";
}

char const* name(style s) noexcept {
  switch (s) {
    case style::blocking:
      return "blocking";
    case style::polled:
      return "polled";
    case style::multiplexed:
      return "multiplexed";
    case style::awaited:
      return "awaited";
  }
  return "";
}

char const* name(driver d) noexcept { return d == driver::uring ? "io_uring" : "epoll"; }
char const* setting(driver d) noexcept { return d == driver::uring ? "uring" : "epoll"; }

std::vector<row_kind> all_rows(std::vector<driver> const& drivers) {
  std::vector<row_kind> rows;
  for (handle_choice const h : {handle_choice::file, handle_choice::mapped_file, handle_choice::pipe,
                                handle_choice::unix_socket, handle_choice::tcp, handle_choice::udp}) {
    rows.push_back({h, style::blocking, {}});
    for (style const s : {style::polled, style::multiplexed, style::awaited}) {
      for (driver const d : drivers) rows.push_back({h, s, d});
    }
  }
#ifdef UNIO_TOOL_TLS
  for (driver const d : drivers) rows.push_back({handle_choice::tls, style::awaited, d});
#endif
  return rows;
}

namespace {

// ── the handles of a row ──────────────────────────────────────────────────────────────────────────────────

// Reads and writes are those of io_handle, whatever kind was opened. Only a mapped file must keep its type.
struct channel {
  unio::io_handle reader;
  unio::io_handle writer;
  unio::mapped_file_handle map;

  [[nodiscard]] unio::io_handle& from() noexcept { return map.is_open() ? map : reader; }
};

unio::result<channel> open_copy(source const& from) {
  auto file = unio::file_handle::file({}, from.path);
  if (!file) return file.error();
  auto copy = unio::file_handle::temp_inode();
  if (!copy) return copy.error();
  return channel{std::move(*file), std::move(*copy), {}};
}

unio::result<channel> open_map(source const& from) {
  auto map = unio::mapped_file_handle::mapped_file({}, from.path);
  if (!map) return map.error();
  return channel{{}, {}, std::move(*map)};
}

unio::result<channel> open_pipe() {
  auto ends = unio::pipe_handle::anonymous();
  if (!ends) return ends.error();
  return channel{std::move(ends->reader), std::move(ends->writer), {}};
}

unio::result<channel> open_unix_sockets() {
  auto ends = unio::socket_handle::pair();
  if (!ends) return ends.error();
  return channel{std::move(ends->first), std::move(ends->second), {}};
}

unio::result<channel> open_tcp() {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0));
  if (!listening) return listening.error();
  auto const at = listening->local_endpoint();
  if (!at) return at.error();
  auto writer = unio::socket_handle::connected_to(*at, std::chrono::seconds(1));
  if (!writer) return writer.error();
  auto reader = listening->accept(std::chrono::seconds(1));
  if (!reader) return reader.error();
  return channel{std::move(*reader), std::move(*writer), {}};
}

unio::result<channel> open_channel(handle_choice h, source const& from) {
  switch (h) {
    case handle_choice::file:
      return open_copy(from);
    case handle_choice::mapped_file:
      return open_map(from);
    case handle_choice::pipe:
      return open_pipe();
    case handle_choice::unix_socket:
      return open_unix_sockets();
    case handle_choice::tcp:
      return open_tcp();
    default: // has a way of its own
      return std::make_error_code(std::errc::invalid_argument);
  }
}

coupling coupling_of(handle_choice h) noexcept {
  switch (h) {
    case handle_choice::file:
      return coupling::relay;
    case handle_choice::mapped_file:
      return coupling::one_end;
    default:
      return coupling::stream;
  }
}

// ── one row ───────────────────────────────────────────────────────────────────────────────────────────────

class measurement final : public section {
 public:
  explicit measurement(row_result& into) : into_(into) {}
  void begin() noexcept override {
    tools::mark_system_calls();
    allocations_before_ = allocations();
    began_ = std::chrono::steady_clock::now();
  }
  void end() noexcept override {
    into_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count();
    into_.allocations = allocations() - allocations_before_;
    tools::mark_system_calls();
  }

 private:
  row_result& into_;
  std::uint64_t allocations_before_ = 0;
  std::chrono::steady_clock::time_point began_;
};

// Empty if what was written to a file is what was read.
std::string check_copy(unio::io_handle& copy, std::span<std::byte> buffer, std::uint64_t sum) {
  copy.set_multiplexer(nullptr);
  reading_end<handle_port> again(copy, buffer, unio::no_offset, nullptr);
  while (!again.is_ended()) again.take(again.perform());
  if (again.why()) return "reading the copy: " + again.why().message();
  return again.sum() == sum ? "" : "the copy differs";
}

template <class Port>
void move(coupling coupled, reading_end<Port>& reading, writing_end<Port>& writing, unio::io_multiplexer* m,
          source const& from, row_result& row) {
  measurement measured(row);
  std::error_code const why = transfer(row.kind.how, coupled, reading, writing, m, measured);
  row.bytes = reading.bytes();
  for (std::error_code const e : {why, writing.why(), reading.why()}) {
    if (e) row.failure = e.message();
  }
  if (row.failure.empty() && reading.sum() != from.sum) row.failure = "what arrived differs";
}

void move_through(channel& c, unio::io_multiplexer* m, source const& from, std::span<std::byte> room,
                  row_result& row) {
  using writer = writing_end<handle_port>;
  coupling const coupled = coupling_of(row.kind.handle);
  for (unio::io_handle* const h : {&c.from(), &c.writer}) h->set_multiplexer(m);

  bool const is_stream = coupled == coupling::stream;
  writer writing(c.writer, is_stream ? writer::at_end::close : writer::at_end::stay_open);
  if (is_stream) writing.give_all(from.bytes);
  std::uint64_t const limit = is_stream ? unio::no_offset : from.bytes.size();
  bool const is_relay = coupled == coupling::relay;
  reading_end<handle_port> reading(c.from(), room, limit, is_relay ? &writing : nullptr);
  move(coupled, reading, writing, m, from, row);
  if (row.failure.empty() && is_relay) row.failure = check_copy(c.writer, room, from.sum);
}

// ── datagrams ─────────────────────────────────────────────────────────────────────────────────────────────

std::error_code move_datagrams(unio::io_multiplexer* m, source const& from, std::span<std::byte> room,
                               row_result& row) {
  auto reader = unio::datagram_handle::bind(unio::endpoint::ipv4_loopback(0), {.gro = true});
  if (!reader) return reader.error();
  auto const at = reader->local_endpoint();
  if (!at) return at.error();
  auto writer = unio::datagram_handle::connected_to(*at);
  if (!writer) return writer.error();
  for (unio::datagram_handle* const h : {&*reader, &*writer}) h->set_multiplexer(m);

  using writes = writing_end<datagram_port>;
  writes writing(datagram_port(*writer), writes::at_end::stay_open);
  writing.give_all(from.bytes);
  reading_end<datagram_port> reading(datagram_port(*reader), room, from.bytes.size(), nullptr);
  move(coupling::lock_step, reading, writing, m, from, row);
  return {};
}

// ── TLS ───────────────────────────────────────────────────────────────────────────────────────────────────

#ifdef UNIO_TOOL_TLS
unio::task<std::error_code> meet(unio::tls_stream& client, unio::tls_stream& server) {
  auto const [here, there] = co_await unio::when_all(client.co_handshake(), server.co_handshake());
  co_return here ? there.error() : here.error();
}

class unmeasured final : public section {
 public:
  void begin() noexcept override {}
  void end() noexcept override {}
};

std::error_code move_encrypted(unio::io_multiplexer& m, source const& from, std::span<std::byte> room,
                               row_result& row) {
  auto ends = unio::socket_handle::pair();
  if (!ends) return ends.error();
  for (unio::socket_handle* const h : {&ends->first, &ends->second}) h->set_multiplexer(&m);
  auto const pem = [](std::string_view text) { return unio::tls_pem::text(std::string(text)); };
  auto const trust = unio::tls_context::client({.roots = pem(example_certificate)});
  if (!trust) return trust.error();
  auto const identity = unio::tls_context::server({pem(example_certificate), pem(example_key)});
  if (!identity) return identity.error();
  unio::tls_stream reader(ends->first, *trust, example_name);
  unio::tls_stream writer(ends->second, *identity);
  if (auto const failed = unio::run(m, meet(reader, writer))) return failed;

  // A little first: afterwards the frames, and the queues in each of their few sizes, have their memory.
  using writes = writing_end<tls_port>;
  unmeasured warm_up;
  bytes_view const little = from.bytes.first(std::min(from.bytes.size(), 4 * room.size()));
  for (int i = 0; i < 8; ++i) {
    writes writing(tls_port(writer, ends->second), writes::at_end::stay_open);
    writing.give_all(little);
    reading_end<tls_port> reading(tls_port(reader, ends->first), room, little.size(), nullptr);
    auto const why = transfer(row.kind.how, coupling::stream, reading, writing, &m, warm_up);
    if (why) return why;
  }
  writes writing(tls_port(writer, ends->second), writes::at_end::stay_open);
  writing.give_all(from.bytes);
  reading_end<tls_port> reading(tls_port(reader, ends->first), room, from.bytes.size(), nullptr);
  move(coupling::stream, reading, writing, &m, from, row);
  return {};
}
#endif

std::error_code move_by(row_kind kind, unio::io_multiplexer* m, source const& from, row_result& row) {
  auto const buffer = std::make_unique<std::byte[]>(handle_port::chunk_bytes);
  std::span<std::byte> const room(buffer.get(), handle_port::chunk_bytes);
  if (kind.handle == handle_choice::udp) return move_datagrams(m, from, room, row);
#ifdef UNIO_TOOL_TLS
  if (kind.handle == handle_choice::tls) return move_encrypted(*m, from, room, row);
#endif
  auto c = open_channel(kind.handle, from);
  if (!c) return c.error();
  move_through(*c, m, from, room, row);
  return {};
}

} // namespace

unio::result<std::unique_ptr<unio::io_multiplexer>> make_multiplexer(driver d) {
  ::setenv("UNIO_DRIVER", setting(d), 1);
  return unio::io_multiplexer::best_available(1);
}

row_result run_row(row_kind kind, source const& from) {
  row_result row{.kind = kind};
  std::unique_ptr<unio::io_multiplexer> m; // outlives the handles that use it
  if (kind.on) {
    auto made = make_multiplexer(*kind.on);
    if (!made) return row.failure = made.error().message(), row;
    m = std::move(*made);
  }
  if (auto const why = move_by(kind, m.get(), from, row)) row.failure = why.message();
  return row;
}

std::optional<double> count_system_calls(row_kind kind, source const& from) {
  constexpr std::size_t part_bytes = 4 * 1024 * 1024;
  source part = from;
  if (from.bytes.size() > part_bytes) {
    part.bytes = from.bytes.first(part_bytes);
    checksum sum;
    sum.add(part.bytes);
    part.sum = sum.value();
  }
  if (part.bytes.empty()) return {};
  auto const calls = tools::system_calls_of([&] { return run_row(kind, part).failure.empty(); });
  if (!calls) return {};
  return static_cast<double>(*calls) / (static_cast<double>(part.bytes.size()) / 1e6);
}

} // namespace tour
