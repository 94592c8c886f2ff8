// unio/tls.hpp: TLS over any stream.
//
//   tls_stream   a stream over a stream: client or server, as its context is
//
//   unio::tls_context const trust = unio::tls_context::client().value();
//   unio::tls_stream secure(socket, trust, "example.org");
//   auto const met = co_await secure.co_handshake(10s);
//   auto const got = co_await secure.co_read(room);             // empty: close_notify
//   auto const ended = co_await secure.co_shutdown(unio::tls_stream::send);
//
// Link with unio::tls, which needs OpenSSL 3.0. For programs that wait in other ways: tls_engine.hpp.

#pragma once

#include <unio/detail/time_limit.hpp>
#include <unio/detail/tls.hpp>
#include <unio/stream.hpp>
#include <unio/sync.hpp>
#include <unio/tls_engine.hpp>

namespace unio::inline v0_1 {

/// A TLS connection over any stream, itself a stream: any_stream, buffered_stream, co_read(), co_write()
/// and co_copy() take it.
///
/// Reads and writes are independent. A read waits only for the peer; what the protocol answers goes
/// with the next write, or at once if it can go without waiting. A write waits only until its bytes are
/// taken. A peer that reads nothing stops writes, not reads; one that also asks for answers (new keys)
/// without end stops the reads as well. Memory is bounded in both cases.
///
/// Errors         a connection that ends without close_notify: condition::truncated. The protocol's: codes of
///                tls_category(); why() is a sentence. They name the server: "tls read example.org: …". Then
///                both directions are over. The transport's as they come; one of writing ends all writing.
///                Before the handshake: not_connected
/// Deadlines      bound each call as a whole
/// Cancellation   at any point, by the environment's stop token: no bytes are lost or sent twice. What has
///                arrived stays for the next read. A write that had taken bytes when it was stopped is a
///                success: its record is finished first by the next write, co_flush() or co_shutdown()
/// Destruction    of a coroutine in the middle of a transfer leaves unknown how much moved: that direction
///                then fails with connection_aborted
/// Concurrency    one read and one write at a time, which may both wait; not in parallel: on an executor of
///                one thread, or on a strand. A handshake is alone
/// Lifetime       the transport outlives it; it outlives its operations; it does not move
/// Cost           no allocation of ours after warm-up; a frame from the pool for a call that waits. A read
///                that waits holds 1 to 4 KiB, or 32 KiB while much arrives; nothing while idle
/// Source         RFC 8446 §4.6.3, §6.1; SSL_read(3), SSL_shutdown(3)
class UNIO_API tls_stream {
 public:
  enum side : std::uint8_t { send }; // the only one that can be ended

  /// See tls_engine for the name.
  tls_stream(any_stream transport, tls_context const& context, std::string_view server_name = {}) noexcept
      : transport_(transport), engine_(context, server_name) {}

  /// Meets the peer: keys, certificates, protocols. Called again after a stop or a deadline it continues.
  ///
  /// Effects  sends an alert that says what was wrong, if it was this side that refused
  /// Errors   codes of tls_verification_category(), of which why() says the name and the reason; of
  ///          tls_category(); condition::truncated if the peer ended it; timed_out, canceled; the transport's
  task<result<void>> co_handshake(deadline d = {});

  /// See read_stream. No byte and no error: the peer has sent close_notify.
  [[nodiscard]] detail::buffered_awaitable<detail::tls_read> co_read(io_request<mutable_buffers> request,
                                                                     deadline d = {}) noexcept {
    return detail::buffered_awaitable<detail::tls_read>({this, request, d});
  }
  /// See write_stream. Takes up to 64 KiB at a time, in records of 16 KiB; small buffers of a list share one.
  task<io_result<const_buffers>> co_write(io_request<const_buffers> request, deadline d = {});
  /// Sends what a write that was stopped has left. Errors: as co_write().
  task<result<void>> co_flush(deadline d = {});

  /// Sends close_notify: the peer reads the end of the stream. Waits for no answer; reading continues. The
  /// transport stays open. Errors: as co_write().
  task<result<void>> co_shutdown(side which = send, deadline d = {});
  /// New keys for what is sent; the peer is asked for new ones of its own, if wanted. Errors: EOPNOTSUPP in
  /// TLS 1.2; as co_write().
  task<result<void>> co_update_keys(bool of_the_peer_too = false, deadline d = {});

  /// Why the last call that failed in TLS did so, in words; empty if none has.
  [[nodiscard]] std::string const& why() const noexcept { return engine_.why(); }
  /// The connection: version, cipher, certificate, protocol.
  [[nodiscard]] tls_engine const& connection() const noexcept { return engine_; }

 private:
  friend struct detail::tls_read;
  enum class attempt : std::uint8_t { answered, wants_input, wants_output };
  attempt try_read(io_request<mutable_buffers> const& request, io_result<mutable_buffers>& answer) noexcept;
  task<io_result<mutable_buffers>> read_slowly(io_request<mutable_buffers> request, deadline d);
  template <class Step> task<result<void>> say(char const* operation, Step step, deadline d);
  failure named(failure const& why, char const* operation) const noexcept;
  // What the engine wants, if it has not had it since it has seen so many inputs.
  task<result<void>> fill(std::uint64_t seen, detail::time_limit limit);
  task<result<void>> lock_and_send(detail::time_limit limit);
  task<result<void>> send_all(detail::time_limit limit); // called by the one that holds writing_
  task<> send_if_possible();

  any_stream transport_;
  tls_engine engine_;
  async_mutex reading_; // the transport
  async_mutex writing_;
  failure input_failed_;  // came together with bytes
  failure output_failed_; // what was taken before it never arrives: its writer was told so
  bool read_aborted_ = false;
  bool write_aborted_ = false;
};

} // namespace unio
