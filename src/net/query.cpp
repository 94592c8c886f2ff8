// Each name is asked for on a socket of its own, which is connected to the server: the kernel chooses another
// port each time and drops what comes from elsewhere (RFC 5452 §9). What arrives nevertheless must have the
// id and the question. Both questions of a name (A, AAAA) go at once and are answered in any order.
//
// c-ares writes the questions and reads the records of the answers (wire.cpp). Its channels are not used: a
// channel belongs to one thread, has timers of its own, cancels all of its queries or none, and waits for
// both families. Deadlines, stops, drivers, the simulation and threads come from the floors below.

#include "net/query.hpp"

#include <unio/datagram_handle.hpp>
#include <unio/detail/time_limit.hpp>
#include <unio/socket_handle.hpp>
#include <unio/stream.hpp>

#include <algorithm>
#include <array>
#include <cerrno>

namespace unio::inline v0_1::net {
namespace {

const_buffer buffer_of(std::span<std::byte const> bytes) noexcept { return {bytes.data(), bytes.size()}; }

bool is_open(asked const& q) noexcept { return !is_final(q.known); }

// What concerns this host and not a server: no server could be asked.
bool is_local(std::error_code e) noexcept {
  return e == std::errc::too_many_files_open || e == std::errc::too_many_files_open_in_system ||
         e == std::errc::no_buffer_space || e == std::errc::not_enough_memory ||
         (e.category() == error_category() && e != condition::truncated && e != condition::end_of_stream);
}

// Whether an exchange ended because all of it is to end.
bool ends_all(std::error_code e) noexcept { return e == condition::canceled || is_local(e); }

bool has_passed(deadline d) noexcept {
  return !d.is_none() && (d.is_zero() || detail::time_limit(d).has_passed());
}

// Ends a loop that a server feeds. A read of what is there already looks at no clock, so a server that keeps
// sending would keep the loop going.
std::error_code too_late() noexcept { return {ETIMEDOUT, std::system_category()}; }

void take(asked& q, std::span<std::byte const> answer, verdict v) {
  if (v == verdict::answered) v = q.read(q, answer);
  q.known = v;
}

// ── TCP (RFC 7766): a length of two bytes, then the message ────────────────────────────────────────────────

task<std::error_code> ask_by_tcp(endpoint const& server, asked& q, deadline until) {
  result<socket_handle> s = socket_handle::create(server.family());
  if (!s.has_value()) co_return s.error();
  if (auto const connected = co_await s->co_connect(server, until); !connected.has_value())
    co_return connected.error();
  std::vector<std::byte> message(2 + q.q.bytes().size());
  message[0] = static_cast<std::byte>(q.q.bytes().size() >> 8);
  message[1] = static_cast<std::byte>(q.q.bytes().size() & 0xff);
  std::ranges::copy(q.q.bytes(), message.begin() + 2);
  auto const sent = co_await co_write(*s, buffer_of(message), until);
  if (!sent.has_value()) co_return sent.error();
  std::array<std::byte, 2> length;
  while (!has_passed(until)) {
    auto got = co_await co_read(*s, mutable_buffer(length.data(), length.size()), until);
    if (!got.has_value()) co_return got.error();
    message.resize((std::to_integer<std::size_t>(length[0]) << 8) | std::to_integer<std::size_t>(length[1]));
    got = co_await co_read(*s, mutable_buffer(message.data(), message.size()), until);
    if (!got.has_value()) co_return got.error();
    verdict const v = q.q.judge(message);
    if (v == verdict::of_another) continue;
    if (v == verdict::not_implemented && q.q.is_extended()) {
      q.q.shorten(); // the next server, or the next round, is asked without
    }
    take(q, message, v == verdict::truncated ? verdict::malformed : v);
    co_return std::error_code();
  }
  co_return too_late();
}

// ── UDP ────────────────────────────────────────────────────────────────────────────────────────────────────

bool someone_waits(std::span<asked const> all) noexcept { return std::ranges::any_of(all, &asked::waits); }
bool some_are_answered(std::span<asked const> all) noexcept {
  return std::ranges::any_of(all, [](asked const& q) { return q.known == verdict::answered; });
}

// `grace` is set when the first answer comes that has records, or that has more of them than fit.
task<std::error_code> ask_by_udp(endpoint const& server, std::span<asked> questions, deadline until,
                                 deadline& grace, std::chrono::milliseconds span) {
  result<datagram_handle> s = datagram_handle::connected_to(server);
  if (!s.has_value()) co_return s.error();
  std::array<datagram_to_send, 2> batch;
  std::size_t n = 0;
  for (asked& q : questions) {
    q.waits = is_open(q);
    if (q.waits) batch[n++].bytes = buffer_of(q.q.bytes());
  }
  auto const out = co_await s->co_send_batch(std::span(batch).first(n), until);
  if (!out.has_value()) co_return out.error(); // that only some were sent is as if the others had been lost
  std::array<std::byte, question::udp_size + 1> room; // what fills it was cut
  datagram_info info;
  while (someone_waits(questions)) {
    deadline const bound = earlier(until, grace);
    if (has_passed(bound)) co_return too_late();
    auto const got = co_await s->co_receive_from(room, info, bound);
    if (!got.has_value()) co_return got.error();
    std::span<std::byte const> const answer(room.data(), got.bytes_transferred());
    for (asked& q : questions) {
      if (!q.waits) continue;
      verdict v = q.q.judge(answer);
      if (v == verdict::of_another) continue;
      if (v == verdict::answered && (info.truncated || answer.size() == room.size())) v = verdict::truncated;
      if (v == verdict::not_implemented && q.q.is_extended()) {
        q.q.shorten();
        auto const sent = co_await s->co_send_to({}, buffer_of(q.q.bytes()), until);
        if (!sent.has_value()) co_return sent.error();
        break;
      }
      q.waits = false;
      if (v == verdict::truncated) {
        q.known = v;
      } else {
        take(q, answer, v);
      }
      if ((q.known == verdict::answered || q.known == verdict::truncated) && grace.is_none())
        grace = from_now(span);
      break;
    }
  }
  co_return std::error_code();
}

task<std::error_code> ask_one(asking const& a, endpoint const& server, deadline& grace) {
  std::error_code e;
  if (!a.how.conf.use_tcp) {
    std::size_t const at_once = a.how.conf.single_request ? 1 : a.questions.size();
    for (std::size_t i = 0; i < a.questions.size(); i += at_once) {
      deadline const until = earlier(a.limit, from_now(a.how.conf.timeout));
      e = co_await ask_by_udp(server, a.questions.subspan(i, at_once), until, grace, a.grace);
      if (e && ends_all(e)) co_return e;
    }
  }
  for (asked& q : a.questions) {
    if (!is_open(q) || !(a.how.conf.use_tcp || q.known == verdict::truncated)) continue;
    bool const is_awaited = !some_are_answered(a.questions);
    deadline const bound = from_now(is_awaited ? a.how.conf.timeout : a.grace);
    e = co_await ask_by_tcp(server, q, earlier(a.limit, bound));
    if (e && ends_all(e)) co_return e;
    if (q.known == verdict::answered && grace.is_none()) grace = from_now(a.grace);
  }
  if (!some_are_answered(a.questions)) grace = {}; // what was to come by TCP did not
  co_return e;
}

} // namespace

deadline earlier(deadline a, deadline b) noexcept {
  if (a.is_none() || b.is_zero()) return b;
  if (b.is_none() || a.is_zero()) return a;
  return a.nanoseconds() <= b.nanoseconds() ? a : b;
}

deadline from_now(std::chrono::milliseconds span) noexcept {
  // The least that counts as a moment: a span of zero would mean not to wait, for what has just been sent.
  return detail::time_limit(std::max(span, std::chrono::milliseconds(1))).next();
}

task<std::error_code> ask(asking a) {
  if (a.limit.is_zero()) co_return std::error_code(EAGAIN, std::system_category());
  deadline grace;
  std::error_code local;
  for (unsigned round = 0; round != a.how.conf.attempts; ++round) {
    for (std::size_t i = 0; i != a.how.conf.servers.size(); ++i) {
      endpoint const& server = a.how.conf.servers[(i + a.first_server) % a.how.conf.servers.size()];
      std::error_code const e = co_await ask_one(a, server, grace);
      if (e == condition::canceled) co_return e;
      if (e && ends_all(e)) local = e;
      if (std::ranges::none_of(a.questions, is_open)) co_return std::error_code();
      if (some_are_answered(a.questions) && (e || has_passed(grace))) co_return std::error_code();
      if (has_passed(a.limit)) co_return std::make_error_code(std::errc::timed_out);
    }
  }
  if (local &&
      std::ranges::all_of(a.questions, [](asked const& q) { return q.known == verdict::unanswered; }))
    co_return local;
  co_return std::error_code();
}

} // namespace unio::net
