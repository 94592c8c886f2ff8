// tls_stream: an engine over a transport. Each direction of the transport has a mutex; its holder moves bytes
// for all.
//
//   reads     wait for input. What they make the engine say is sent by a write that is under way, or
//             else by the read itself as far as that needs no waiting: RFC 8446 §4.6.3 asks for an answer
//             only before the next data
//   writes    wait for output to be taken. They need input only where the peer has sent a half of a message
//             that OpenSSL wants whole (a ticket in two records)
//
// A peer can make messages without data (HelloRequests, tickets) last for ever, so each loop asks its limits
// before it waits again, and not before it has looked at what has come.

#include "coro/stream.hpp"

#include "core/failed_with.hpp"
#include "coro/rounds.hpp"

#include <unio/tls.hpp>
#include <unio/when.hpp>

#include <algorithm>
#include <new>
#include <utility>

namespace unio::inline v0_1 {

using detail::bytes_moved;
using detail::rounds;
using detail::system_error;
using detail::time_limit;
using detail::unmoved;
using outcome = tls_engine::outcome;

static_assert(stream<tls_stream>);

namespace {

// Errors after which the same transfer may go on. The kernel has the one of a deadline for a connection that
// is lost.
bool may_continue(std::error_code e, time_limit limit) noexcept {
  return e == condition::canceled || e == condition::would_block ||
         (e == condition::timed_out && limit.has_passed());
}

// Marks a direction as aborted while a transfer is under way: if its coroutine is destroyed, or the transport
// throws, it is not known how much it moved.
class under_way {
 public:
  explicit under_way(bool& aborted) noexcept : aborted_(aborted) { aborted_ = true; }
  under_way(under_way const&) = delete;
  under_way& operator=(under_way const&) = delete;
  void has_ended() const noexcept { aborted_ = false; }

 private:
  bool& aborted_;
};

task<result<async_mutex::guard>> lock(async_mutex& m, time_limit limit) {
  if (async_mutex::guard held = m.try_lock()) co_return std::move(held);
  if (limit.next().is_zero()) co_return system_error(EAGAIN);
  co_return co_await timeout(limit.next(), m.co_lock());
}

} // namespace

// ---- the transport ----------------------------------------------------------------------------------------

task<result<void>> tls_stream::fill(std::uint64_t seen, time_limit limit) {
  result<async_mutex::guard> const held = co_await lock(reading_, limit);
  if (!held.has_value()) co_return held.error();
  if (engine_.input_count() != seen) co_return {}; // another has brought some
  if (read_aborted_) co_return system_error(ECONNABORTED);
  if (input_failed_) co_return input_failed_;
  mutable_buffer const room = engine_.input_room();
  if (room.empty()) co_return system_error(ENOMEM);
  under_way const reading(read_aborted_);
  mutable_buffers const wanted(room);
  io_result<mutable_buffers> const got =
      co_await transport_.co_read(io_request<mutable_buffers>(wanted), limit.next());
  std::size_t const n = bytes_moved(got, room.size());
  if (got.has_value()) detail::bring(*got, wanted);
  reading.has_ended();
  engine_.input_arrived(n);
  if (got.has_value()) {
    if (n == 0) engine_.input_ended();
  } else if (n == 0) {
    co_return got.error();
  } else if (!may_continue(got.error(), limit)) {
    input_failed_ = got.error();
  }
  co_return {};
}

task<result<void>> tls_stream::send_all(time_limit until) {
  rounds limit(until);
  for (bool first = true; engine_.has_output(); first = false) {
    if (write_aborted_) co_return system_error(ECONNABORTED);
    if (output_failed_) co_return output_failed_;
    if (!first)
      if (std::error_code const over = co_await limit.another()) co_return over;
    const_buffer const next = engine_.output();
    under_way const writing(write_aborted_);
    io_result<const_buffers> const taken =
        co_await transport_.co_write(io_request<const_buffers>(const_buffers(next)), limit.next());
    std::size_t const n = bytes_moved(taken, next.size());
    writing.has_ended();
    engine_.output_taken(n);
    if (taken.has_value() && n != 0) continue;
    failure const why = taken.has_value() ? failure(system_error(EIO)) : taken.error();
    if (!may_continue(why, limit)) output_failed_ = why;
    co_return why;
  }
  co_return {};
}

task<result<void>> tls_stream::lock_and_send(time_limit limit) {
  result<async_mutex::guard> const held = co_await lock(writing_, limit);
  if (!held.has_value()) co_return held.error();
  co_return co_await send_all(limit);
}

// Other streams than handles may know no deadline: there it goes with the next write.
task<> tls_stream::send_if_possible() {
  if (!engine_.has_output() || transport_.handle() == nullptr) co_return;
  async_mutex::guard const held = writing_.try_lock();
  if (held) (void)co_await send_all(time_limit(deadline::zero()));
}

// The transport's failures know where they come from.
failure tls_stream::named(failure const& why, char const* operation) const noexcept {
  return detail::failed_with(why, operation,
                             engine_.is_server() ? std::string_view() : engine_.server_name());
}

// ---- the program ------------------------------------------------------------------------------------------

task<result<void>> tls_stream::co_handshake(deadline d) {
  rounds limit(d);
  for (bool first = true;; first = false) {
    std::uint64_t const seen = engine_.input_count();
    outcome const o = engine_.handshake().what;
    if (o == outcome::failed) {
      failure const why = engine_.error();
      if (transport_.handle() != nullptr) {
        co_await send_if_possible();
      } else {
        (void)co_await lock_and_send(limit);
      }
      co_return why;
    }
    // What a server says last in TLS 1.3 is tickets. No peer waits for them, and if the peer writes before it
    // reads, waiting for it could take for ever.
    if (o == outcome::done && engine_.is_server() && engine_.version() == tls_version::tls_1_3) {
      co_await send_if_possible();
      co_return {};
    }
    if (!first && o != outcome::done)
      if (std::error_code const over = co_await limit.another()) co_return named(over, "tls handshake");
    if (engine_.has_output()) {
      if (auto const sent = co_await lock_and_send(limit); !sent.has_value())
        co_return named(sent.error(), "tls handshake");
    }
    if (o == outcome::done) co_return {};
    if (o == outcome::wants_input) {
      if (auto const got = co_await fill(seen, limit); !got.has_value())
        co_return named(got.error(), "tls handshake");
    }
  }
}

tls_stream::attempt tls_stream::try_read(io_request<mutable_buffers> const& request,
                                         io_result<mutable_buffers>& answer) noexcept {
  std::size_t n = 0;
  outcome last = outcome::done;
  for (mutable_buffer b : request.buffers) {
    while (!b.empty() && last == outcome::done) {
      tls_engine::progress const p = engine_.read(b);
      last = p.what;
      n += p.bytes;
      b = mutable_buffer(b.data() + p.bytes, b.size() - p.bytes);
    }
  }
  if (n != 0 || last == outcome::done || last == outcome::ended) {
    answer = io_result<mutable_buffers>(result<mutable_buffers>(request.buffers.first(n)), n);
    return attempt::answered;
  }
  if (last == outcome::failed) {
    answer = io_result<mutable_buffers>(engine_.error(), 0);
    return attempt::answered;
  }
  return last == outcome::wants_input ? attempt::wants_input : attempt::wants_output;
}

bool detail::tls_read::at_once(answer_type& a) const noexcept {
  if (from->try_read(request, a) != tls_stream::attempt::answered) return false;
  return a.has_value() || !from->engine_.has_output(); // else there is an alert to send, and the error stays
}
task<io_result<mutable_buffers>> detail::tls_read::slowly(bool yields) const {
  return yields ? give_a_turn(*this) : from->read_slowly(request, until);
}

task<io_result<mutable_buffers>> tls_stream::read_slowly(io_request<mutable_buffers> request, deadline d) {
  rounds limit(d);
  io_result<mutable_buffers> answer;
  for (bool first = true;; first = false) {
    std::uint64_t const seen = engine_.input_count();
    attempt const a = try_read(request, answer);
    if (engine_.has_output()) {
#if UNIO_HAS_EXCEPTIONS
      try {
        co_await send_if_possible();
      } catch (...) { // of no memory for a frame, say. It goes with the next write
      }
#else
      co_await send_if_possible();
#endif
    }
    if (a == attempt::answered) co_return answer;
    if (!first)
      if (std::error_code const over = co_await limit.another())
        co_return io_result<mutable_buffers>(named(over, "tls read"), 0);
    task<result<void>> next = a == attempt::wants_input ? fill(seen, limit) : lock_and_send(limit);
    result<void> const moved = co_await std::move(next);
    if (!moved.has_value()) co_return io_result<mutable_buffers>(named(moved.error(), "tls read"), 0);
  }
}

namespace {

tls_engine::progress write_together(tls_engine& engine, const_buffers const& shared) {
  std::size_t const bytes = shared.bytes();
  detail::block const together(bytes);
  std::byte* to = together.first(bytes).data();
  for (const_buffer const b : shared) {
    if (!b.empty()) std::memcpy(to, b.data(), b.size());
    to += b.size();
  }
  return engine.write(together.first(bytes));
}

// Small buffers of a list share a record, if there is memory to put them together.
tls_engine::progress write_next(tls_engine& engine, unmoved<const_buffer> const& rest) {
  const_buffers const next = rest.next();
  const_buffer const first = next.front();
  if (next.size() == 1 || first.size() >= tls_engine::record_bytes) return engine.write(first);
  const_buffers const shared = next.first(std::min(next.bytes(), tls_engine::record_bytes));
#if UNIO_HAS_EXCEPTIONS
  try {
    return write_together(engine, shared);
  } catch (std::bad_alloc const&) {
    return engine.write(first);
  }
#else
  return write_together(engine, shared);
#endif
}

} // namespace

task<io_result<const_buffers>> tls_stream::co_write(io_request<const_buffers> request, deadline d) {
  unmoved<const_buffer> rest(request.buffers);
  if (rest.empty()) co_return io_result<const_buffers>(result<const_buffers>(request.buffers.first(0)), 0);
  rounds limit(d);
  // Bytes that are taken count as written, so nothing is taken after a stop.
  if (stop_token const stop = co_await this_coro::stop_token; stop.stop_requested())
    co_return io_result<const_buffers>(named(system_error(ECANCELED), "tls write"), 0);
  result<async_mutex::guard> const held = co_await lock(writing_, limit);
  if (!held.has_value()) co_return io_result<const_buffers>(named(held.error(), "tls write"), 0);
  // Made first: once bytes are taken, std::bad_alloc would have the caller write them again.
  task<result<void>> sending = send_all(limit);
  for (bool first = true; rest.moved() == 0; first = false) {
    std::uint64_t const seen = engine_.input_count();
    outcome last = outcome::done;
    while (!rest.empty() && last == outcome::done) {
      tls_engine::progress const p = write_next(engine_, rest);
      last = p.what;
      rest.advance(p.bytes);
    }
    if (rest.moved() != 0) break;
    if (last == outcome::failed) co_return io_result<const_buffers>(engine_.error(), 0);
    if (!first)
      if (std::error_code const over = co_await limit.another())
        co_return io_result<const_buffers>(named(over, "tls write"), 0);
    task<result<void>> next = last == outcome::wants_input ? fill(seen, limit) : send_all(limit);
    result<void> const sent = co_await std::move(next);
    if (!sent.has_value()) co_return io_result<const_buffers>(named(sent.error(), "tls write"), 0);
  }
  result<void> const sent = co_await std::move(sending);
  if (!sent.has_value() && !may_continue(sent.error(), limit)) // it will never arrive
    co_return io_result<const_buffers>(named(sent.error(), "tls write"), 0);
  co_return io_result<const_buffers>(result<const_buffers>(request.buffers.first(rest.moved())),
                                     rest.moved());
}

task<result<void>> tls_stream::co_flush(deadline d) {
  result<void> const sent = co_await lock_and_send(time_limit(d));
  if (!sent.has_value()) co_return named(sent.error(), "tls flush");
  co_return {};
}

template <class Step> task<result<void>> tls_stream::say(char const* operation, Step step, deadline d) {
  rounds limit(d);
  result<async_mutex::guard> const held = co_await lock(writing_, limit);
  if (!held.has_value()) co_return named(held.error(), operation);
  for (bool first = true;; first = false) {
    std::uint64_t const seen = engine_.input_count();
    outcome const o = step(engine_).what;
    if (o == outcome::failed) co_return engine_.error();
    if (!first && o != outcome::done)
      if (std::error_code const over = co_await limit.another()) co_return named(over, operation);
    task<result<void>> next = o == outcome::wants_input ? fill(seen, limit) : send_all(limit);
    result<void> const moved = co_await std::move(next);
    if (!moved.has_value()) co_return named(moved.error(), operation);
    if (o == outcome::done) co_return {};
  }
}

task<result<void>> tls_stream::co_shutdown(side, deadline d) {
  return say("tls shutdown", [](tls_engine& e) { return e.shutdown(); }, d);
}

task<result<void>> tls_stream::co_update_keys(bool of_the_peer_too, deadline d) {
  return say(
      "tls update_keys", [of_the_peer_too](tls_engine& e) { return e.update_keys(of_the_peer_too); }, d);
}

} // namespace unio
