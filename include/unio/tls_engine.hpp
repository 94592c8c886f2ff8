// unio/tls_engine.hpp: one side of a TLS connection without any I/O.
//
//   tls_engine   bytes of the network in and out, bytes of the program in and out
//
//   while (engine.handshake().what == tls_engine::outcome::wants_input) {
//     send(engine.output()); engine.output_taken(n);
//     n = receive(engine.input_room()); engine.input_arrived(n);
//   }
//
// tls_stream (tls.hpp) is this over a stream. The engine is for those who move the bytes themselves.

#pragma once

#include <unio/detail/tls_engine.hpp>
#include <unio/tls_context.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct ssl_st; // of OpenSSL

namespace unio::inline v0_1 {

/// One side of a TLS connection. Never blocks, never calls the system, knows no descriptor.
///
/// Output may be there after any call, and is to be sent in order. Input
/// and output are independent: output that is not taken makes write() stop at output_limit, and read() a
/// little above, so that a peer that only asks for answers has bounded memory; nothing else stops them.
///
/// Returns        what a call came to: an outcome, and how many bytes read() or write() have moved
/// Errors         what a call with `failed` met, and a sentence about it: error(), why(). After an error of
///                the protocol all calls fail with it; there may be an alert in the output
/// Thread safety  none: one call at a time. Any thread: nothing is kept in thread-local variables
/// Lifetime       does not move. Keeps what it needs of its context
/// Cost           blocks of the frame pool, only while there are bytes in them; what OpenSSL allocates. Two
///                copies of each byte, and OpenSSL's own
/// Size           below 400 bytes
/// Source         RFC 8446, RFC 5246; SSL_read(3), BIO_meth_new(3)
class UNIO_API tls_engine {
 public:
  enum class outcome : std::uint8_t {
    done,         ///< what was asked for: read() and write() have moved `bytes` bytes, at least one
    wants_input,  ///< bytes of the peer are needed first
    wants_output, ///< output() must be taken first
    ended,        ///< the peer has said that it sends no more (close_notify)
    failed,       ///< see error()
  };
  struct [[nodiscard]] progress {
    outcome what = outcome::done;
    std::size_t bytes = 0;
  };

  static constexpr std::size_t output_limit = 64 * 1024; ///< bytes queued, above which write() does not go
  static constexpr std::size_t record_bytes = 16 * 1024; ///< the most that one write() takes

  /// The side that the context is for. Clients give the name of the server, which its certificate must bear
  /// as a subjectAltName (a common name is not looked at: RFC 9525 §6.3): a host name, sent to the server
  /// (SNI), or an IP address, which is not. International names are written as in queries (xn--…).
  ///
  /// Errors  the first call reports them: no memory, no context, EINVAL for a name that no server can have,
  ///         and for a client without one, unless it verifies nothing
  explicit tls_engine(tls_context const& context, std::string_view server_name = {}) noexcept;
  tls_engine(tls_engine const&) = delete;
  tls_engine& operator=(tls_engine const&) = delete;
  ~tls_engine();

  // ---- the program's side

  /// Begins or continues the handshake. done: both sides are who they should be; there may be output.
  ///
  /// Errors  codes of tls_verification_category() and tls_category(); condition::truncated
  progress handshake() noexcept;
  /// Yields what the peer has sent. Errors: not_connected before the handshake is done; condition::truncated
  /// if the input ended without close_notify; codes of tls_category(). Preconditions: there is room.
  progress read(mutable_buffer room) noexcept;
  /// Makes a record of at most record_bytes. Errors: not_connected before the handshake is done; EPIPE after
  /// shutdown(); condition::truncated if the peer has ended in the middle of a message; codes of
  /// tls_category(). Preconditions: there are bytes.
  progress write(const_buffer bytes) noexcept;
  /// Says that there is no more to write. Reading continues. A second call does nothing.
  progress shutdown() noexcept;
  /// New keys for what is written from here on; of the peer too, if wanted. Errors: EOPNOTSUPP in TLS 1.2.
  progress update_keys(bool of_the_peer_too) noexcept;

  /// What the last call that failed met ("tls handshake example.org: certificate has expired"), and a
  /// sentence about it; no error and empty if none has. The sentence is fit for a log: names that a peer has
  /// sent are escaped. Without memory for it, it is empty.
  [[nodiscard]] failure error() const noexcept { return error_; }
  [[nodiscard]] std::string const& why() const noexcept { return why_; }

  // ---- the network's side

  /// Where bytes of the peer go, 1 KiB … 32 KiB, more if the last were many. Valid until input_arrived(). No
  /// room: there is no memory.
  mutable_buffer input_room() noexcept;
  /// `n` bytes have arrived in input_room(), perhaps none.
  void input_arrived(std::size_t n) noexcept;
  /// No more will arrive.
  void input_ended() noexcept { input_ended_ = true; }
  /// How often bytes have arrived.
  [[nodiscard]] std::uint64_t input_count() const noexcept { return input_count_; }

  [[nodiscard]] bool has_output() const noexcept { return front_.size() + back_.size() != 0; }
  /// What is to be sent next. Stays where it is until it was taken, whatever else is called.
  const_buffer output() noexcept;
  /// The first `n` bytes of output() were sent.
  void output_taken(std::size_t n) noexcept;
  /// All bytes that wait to be sent.
  [[nodiscard]] std::size_t queued() const noexcept { return front_.size() + back_.size(); }

  // ---- what was agreed on, after the handshake

  [[nodiscard]] bool is_connected() const noexcept { return connected_; }
  [[nodiscard]] bool is_server() const noexcept { return is_server_; }
  /// The version of the protocol; none before the handshake.
  [[nodiscard]] tls_version version() const noexcept;
  /// As OpenSSL calls it, for example TLS_AES_256_GCM_SHA384.
  [[nodiscard]] std::string_view cipher() const noexcept;
  /// The application protocol; empty if there is none in common.
  [[nodiscard]] std::string_view protocol() const noexcept;
  /// The name that the client gave. On a server any bytes: what the peer has sent.
  [[nodiscard]] std::string_view server_name() const noexcept { return name_; }
  /// Whether an earlier connection was resumed.
  [[nodiscard]] bool is_resumed() const noexcept;
  /// The other side's certificate as PEM; empty if it has shown none.
  [[nodiscard]] std::string peer_certificate() const;
  /// Whom it was issued to, for example "CN=example.org,O=Example"; empty if there is none.
  [[nodiscard]] std::string peer_subject() const;

 private:
  friend struct detail::tls_hooks; // what OpenSSL calls
  template <class Call> outcome ask(char const* operation, Call call) noexcept;
  outcome fails(char const* operation, std::error_code why, std::string_view text) noexcept;
  outcome breaks(char const* operation) noexcept; // OpenSSL has failed: for good
  template <class Call> outcome ask_until_input(char const* operation, Call call) noexcept;
  template <class Call> outcome ask_to_say(char const* operation, Call call) noexcept;
  bool is_usable(char const* operation, bool for_writing) noexcept;
  outcome finish_message(char const* operation) noexcept;
  bool prepare(std::string_view server_name) noexcept;

  std::shared_ptr<detail::tls_state> state_;
  ssl_st* ssl_ = nullptr;
  std::string name_;
  failure error_;
  std::string why_;
  std::string refused_; // whose certificate was refused
  detail::tls_bytes in_;
  detail::tls_bytes front_; // being sent
  detail::tls_bytes back_;  // to be sent after that
  std::uint64_t input_count_ = 0;
  std::uint32_t wanted_room_ = 4096;
  bool is_server_ = false;
  bool connected_ = false;
  bool broken_ = false; // error_ stays
  bool shut_down_ = false;
  bool input_ended_ = false;
  bool greeted_ = false;    // the client has said by which name it knows this server
  bool filling_ = false;    // input_room() is in use
  bool found_none_ = false; // OpenSSL has looked for input where there was none
  bool no_memory_ = false;  // for what OpenSSL has called
};

} // namespace unio
