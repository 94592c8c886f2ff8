// The engine: OpenSSL between two queues of bytes.
//
//   network ──input_room()──► in_ ──BIO──► SSL ──read()──► program
//   network ◄──output()── front_ ◄─ back_ ◄──BIO── SSL ◄──write()── program
//
// The BIO takes all that it is given: if it had OpenSSL wait for room, a read could end up waiting for a
// write (openssl#8677, odyssey#1459). Bounds are kept before OpenSSL is called. An empty in_ is "not yet",
// never the end, so that OpenSSL does not fail for good where the input has ended and writing may continue.

#include "core/escaped.hpp"
#include "core/failed_with.hpp"
#include "core/host_name.hpp"
#include "tls/openssl.hpp"

#include <unio/frames.hpp>
#include <unio/tls_engine.hpp>

#include <openssl/pem.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace unio::inline v0_1 {

static_assert(sizeof(tls_engine) < 400 && sizeof(tls_context) == 16);

namespace {

// In addition to the bytes of a record: its header, number, tag and padding. RFC 5246 §6.2.3 allows 2,048 and
// a header; what OpenSSL makes is below 512 with an empty record before it
// (SSL_OP_DONT_INSERT_EMPTY_FRAGMENTS).
constexpr std::size_t record_overhead = 512;
// What reads may make the protocol answer above output_limit: some hundred updates of keys.
constexpr std::size_t answer_bytes = 8 * 1024;

constexpr std::uint32_t least_room = 1024;
constexpr std::uint32_t most_room = 32 * 1024;

std::error_code system_error(int code) noexcept { return {code, std::system_category()}; }

std::string_view without_dot(std::string_view name) noexcept {
  if (name.ends_with('.')) name.remove_suffix(1); // the root of the domain names: RFC 6066 §3 leaves it out
  return name;
}

} // namespace

// ---- blocks -----------------------------------------------------------------------------------------------

namespace detail {

bool tls_bytes::reserve(std::size_t n) noexcept {
  if (capacity_ - end_ >= n) return true;
  std::size_t const size = this->size();
  if (begin_ != 0 && capacity_ - size >= n && size <= begin_) { // cheaper than a block
    std::memcpy(data_, data_ + begin_, size);
  } else {
    std::size_t const capacity = std::bit_ceil(std::max(size + n, 2 * size)); // few sizes: each is pooled
    std::byte* bytes = nullptr;
    if (!with_memory([&] { bytes = static_cast<std::byte*>(frame_pool::allocate(capacity)); })) return false;
    if (size != 0) std::memcpy(bytes, data_ + begin_, size);
    release();
    data_ = bytes;
    capacity_ = capacity;
  }
  begin_ = 0;
  end_ = size;
  return true;
}

void tls_bytes::swap(tls_bytes& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  std::swap(begin_, other.begin_);
  std::swap(end_, other.end_);
}

void tls_bytes::release() noexcept {
  if (data_ != nullptr) frame_pool::deallocate(data_, capacity_);
  data_ = nullptr;
  capacity_ = begin_ = end_ = 0;
}

} // namespace detail

// ---- beginning and end ------------------------------------------------------------------------------------

tls_engine::tls_engine(tls_context const& context, std::string_view server_name) noexcept
    : state_(context.state_) {
  if (state_ == nullptr) {
    (void)fails("tls create", system_error(EINVAL), "TLS without a context");
    broken_ = true;
    return;
  }
  is_server_ = state_->is_server;
  if (!prepare(server_name)) broken_ = true;
}

bool tls_engine::prepare(std::string_view server_name) noexcept {
  ERR_clear_error();
  ssl_ = SSL_new(state_->context);
  if (ssl_ == nullptr || !detail::set_hooks(ssl_, *this, state_->verify_mode))
    return fails("tls create", system_error(ENOMEM), "OpenSSL has no memory"), false;
  if (is_server_) {
    SSL_set_accept_state(ssl_);
    return true;
  }
  SSL_set_connect_state(ssl_);
  if (!detail::with_memory([&] { name_ = without_dot(server_name); }))
    return fails("tls create", system_error(ENOMEM), "no memory"), false;
  if (name_.empty()) {
    if (state_->verify_mode == SSL_VERIFY_NONE) return true;
    return fails("tls create", system_error(EINVAL),
                 "a client needs the name of its server, to compare with its certificate"),
           false;
  }
  X509_VERIFY_PARAM* const wanted = SSL_get0_param(ssl_);
  X509_VERIFY_PARAM_set_hostflags(wanted,
                                  X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  bool const is_text = name_.find('\0') == name_.npos;
  if (!is_text || X509_VERIFY_PARAM_set1_ip_asc(wanted, name_.c_str()) != 1) {
    ERR_clear_error();
    // OpenSSL would take a dot in front as "any name below it" (X509_check_host(3)).
    if (char const* const wrong = detail::what_is_wrong_with(server_name)) {
      (void)fails("tls create", system_error(EINVAL), {});
      (void)detail::with_memory(
          [&] { why_ = detail::in_quotes(name_) + ": no name that a server can have: " + wrong; });
      return false;
    }
    if (SSL_set1_host(ssl_, name_.c_str()) != 1 || SSL_set_tlsext_host_name(ssl_, name_.c_str()) != 1)
      return fails("tls create", system_error(ENOMEM), "OpenSSL has no memory"), false;
  }
  if (detail::session_owner const earlier = state_->take_session(name_)) SSL_set_session(ssl_, earlier.get());
  ERR_clear_error();
  return true;
}

tls_engine::~tls_engine() {
  if (ssl_ == nullptr) return;
  // Otherwise its tickets could no longer be used if close_notify was not exchanged
  // (SSL_CTX_remove_session). RFC 5246 §7.2.1 no longer asks for that.
  if (connected_ && !broken_) SSL_set_shutdown(ssl_, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
  SSL_free(ssl_);
}

// ---- calls ------------------------------------------------------------------------------------------------

tls_engine::outcome tls_engine::fails(char const* operation, std::error_code why,
                                      std::string_view text) noexcept {
  // A name that a client has sent may be anything.
  error_ = detail::failed_with(why, operation, is_server_ ? std::string_view() : std::string_view(name_));
  if (!detail::with_memory([&] { why_ = text; })) why_.clear(); // of no other failure
  return outcome::failed;
}

tls_engine::outcome tls_engine::breaks(char const* operation) noexcept {
  unsigned long const last = ERR_peek_last_error();
  bool const refused =
      ERR_GET_LIB(last) == ERR_LIB_SSL && ERR_GET_REASON(last) == SSL_R_CERTIFICATE_VERIFY_FAILED;
  std::error_code e = detail::take_error();
  long const verified = SSL_get_verify_result(ssl_);
  if (refused && verified != X509_V_OK) e = {static_cast<int>(verified), tls_verification_category()};
  if (no_memory_) e = system_error(ENOMEM);
  broken_ = true;
  (void)fails(operation, e, {});
  (void)detail::with_memory([&] {
    std::string text =
        name_.empty() ? std::string(is_server_ ? "client" : "server") : detail::in_quotes(name_);
    text += (refused ? ": its certificate was refused: " : ": ") + e.message();
    if (refused && !refused_.empty()) text += " (" + refused_ + ")";
    why_ = std::move(text);
  });
  return outcome::failed;
}

// OpenSSL's errors are the thread's, and SSL_get_error() looks at them: it follows its call at once. To clear
// them costs some hundred instructions, also where there are none.
template <class Call> tls_engine::outcome tls_engine::ask(char const* operation, Call call) noexcept {
  if (ERR_peek_error() != 0) ERR_clear_error();
  int const r = call();
  if (r > 0) return outcome::done;
  switch (SSL_get_error(ssl_, r)) {
    case SSL_ERROR_WANT_READ:
      return outcome::wants_input;
    case SSL_ERROR_ZERO_RETURN:
      return outcome::ended;
    default:
      return breaks(operation);
  }
}

// Without SSL_MODE_AUTO_RETRY OpenSSL says that it wants input after each record without data, and at times
// when it has only finished what it did before. So it is believed if it has looked for input and found none.
template <class Call>
tls_engine::outcome tls_engine::ask_until_input(char const* operation, Call call) noexcept {
  for (int idle = 0;;) {
    std::size_t const before = in_.size();
    found_none_ = false;
    outcome const o = ask(operation, call);
    if (o != outcome::wants_input) return o;
    if (found_none_) break;
    idle = in_.size() == before ? idle + 1 : 0;
    if (idle == 100) { // it wants what it does not take
      broken_ = true;
      return fails(operation, system_error(EPROTO), "OpenSSL takes no input");
    }
    if (queued() >= output_limit + answer_bytes) return outcome::wants_output;
  }
  if (!input_ended_) return outcome::wants_input;
  return fails(operation, make_error_code(error::truncated),
               connected_ ? "the connection ended without close_notify"
                          : "the connection ended in the middle of the handshake");
}

tls_engine::progress tls_engine::handshake() noexcept {
  if (broken_) return {outcome::failed};
  if (connected_) return {};
  if (queued() >= output_limit) return {outcome::wants_output};
  outcome const o = ask_until_input("tls handshake", [&] { return SSL_do_handshake(ssl_); });
  if (o == outcome::done) {
    connected_ = true;
    // From now on it may wait for long with nothing in its buffers; in a handshake each message would take
    // them anew.
    SSL_set_mode(ssl_, SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_free_buffers(ssl_);
  }
  if (o == outcome::ended)
    return {fails("tls handshake", make_error_code(error::truncated), "the peer ended the handshake")};
  return {o};
}

// Whether calls that need a connection may be made. Inlined: its name costs a call nothing unless it fails.
[[gnu::always_inline]] inline bool tls_engine::is_usable(char const* operation, bool for_writing) noexcept {
  if (broken_) return false;
  if (!connected_) return fails(operation, system_error(ENOTCONN), "the handshake is not done"), false;
  if (for_writing && shut_down_)
    return fails(operation, system_error(EPIPE), "written after shutdown"), false;
  return true;
}

// OpenSSL says nothing of its own while it has the first half of a message, as of a ticket in two records.
// After the end of the peer there is no other half.
template <class Call> tls_engine::outcome tls_engine::ask_to_say(char const* operation, Call call) noexcept {
  outcome const o = ask_until_input(operation, call);
  if (o != outcome::ended) return o;
  broken_ = true;
  return fails(operation, make_error_code(error::truncated), "the peer ended in the middle of a message");
}

tls_engine::outcome tls_engine::finish_message(char const* operation) noexcept {
  if (SSL_in_init(ssl_) == 0) return outcome::done;
  return ask_to_say(operation, [&] { return SSL_do_handshake(ssl_); });
}

tls_engine::progress tls_engine::read(mutable_buffer room) noexcept {
  UNIO_EXPECTS(!room.empty(), "a read without room");
  if (!is_usable("tls read", false)) return {outcome::failed};
  if (queued() >= output_limit + answer_bytes) return {outcome::wants_output};
  std::size_t n = 0;
  outcome const o =
      ask_until_input("tls read", [&] { return SSL_read_ex(ssl_, room.data(), room.size(), &n); });
  return {o, n};
}

tls_engine::progress tls_engine::write(const_buffer bytes) noexcept {
  UNIO_EXPECTS(!bytes.empty(), "a write without bytes");
  if (!is_usable("tls write", true)) return {outcome::failed};
  std::size_t const size = std::min(bytes.size(), record_bytes);
  if (queued() != 0 && queued() + size + record_overhead > output_limit) return {outcome::wants_output};
  std::size_t const whole = std::min(bytes.size(), output_limit - 2 * record_overhead);
  if (!back_.reserve(whole + record_overhead)) return {fails("tls write", system_error(ENOMEM), "no memory")};
  std::size_t n = 0;
  outcome const o = ask_to_say("tls write", [&] { return SSL_write_ex(ssl_, bytes.data(), size, &n); });
  return {o, n};
}

tls_engine::progress tls_engine::shutdown() noexcept {
  if (shut_down_) return {};
  if (!is_usable("tls shutdown", false)) return {outcome::failed};
  if (outcome const o = finish_message("tls shutdown"); o != outcome::done) return {o};
  // 0: it is sent, and there is no answer yet.
  outcome const o = ask_until_input("tls shutdown", [&] { return SSL_shutdown(ssl_) < 0 ? -1 : 1; });
  if (o == outcome::done) shut_down_ = true;
  return {o};
}

tls_engine::progress tls_engine::update_keys(bool of_the_peer_too) noexcept {
  if (!is_usable("tls update_keys", true)) return {outcome::failed};
  if (version() != tls_version::tls_1_3)
    return {fails("tls update_keys", system_error(EOPNOTSUPP), "TLS 1.2 keeps its keys")};
  if (queued() >= output_limit) return {outcome::wants_output};
  if (outcome const o = finish_message("tls update_keys"); o != outcome::done) return {o};
  int const kind = of_the_peer_too ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED;
  return {ask_until_input("tls update_keys",
                          [&] { return SSL_key_update(ssl_, kind) == 1 ? SSL_do_handshake(ssl_) : -1; })};
}

// ---- the network's side -----------------------------------------------------------------------------------

mutable_buffer tls_engine::input_room() noexcept {
  if (!in_.reserve(in_.size() == 0 && in_.capacity() == 0 ? wanted_room_ : least_room)) return {};
  filling_ = true;
  return in_.room();
}

void tls_engine::input_arrived(std::size_t n) noexcept {
  std::size_t const room = in_.room().size();
  UNIO_EXPECTS(n <= room, "more has arrived than there was room for");
  filling_ = false;
  in_.filled(n);
  input_count_ += n != 0;
  if (n == room) {
    wanted_room_ = most_room;
  } else if (n != 0 && n < room / 8) {
    wanted_room_ = std::max(least_room, wanted_room_ / 4);
  }
  in_.release_if_empty();
}

const_buffer tls_engine::output() noexcept {
  if (front_.size() == 0) {
    front_.release_if_empty();
    front_.swap(back_);
  }
  return {front_.data(), front_.size()};
}

void tls_engine::output_taken(std::size_t n) noexcept {
  UNIO_EXPECTS(n <= front_.size(), "more was sent than there was");
  front_.taken(n);
  front_.release_if_empty();
}

// ---- what was agreed on -----------------------------------------------------------------------------------

tls_version tls_engine::version() const noexcept {
  return connected_ ? static_cast<tls_version>(SSL_version(ssl_)) : tls_version::none;
}
std::string_view tls_engine::cipher() const noexcept {
  return connected_ ? std::string_view(SSL_get_cipher_name(ssl_)) : std::string_view();
}
std::string_view tls_engine::protocol() const noexcept {
  if (ssl_ == nullptr) return {};
  unsigned char const* name = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl_, &name, &size);
  return {reinterpret_cast<char const*>(name), size};
}
bool tls_engine::is_resumed() const noexcept { return connected_ && SSL_session_reused(ssl_) == 1; }

std::string tls_engine::peer_certificate() const {
  X509* const certificate = ssl_ == nullptr ? nullptr : SSL_get0_peer_certificate(ssl_);
  detail::bio_owner const text(BIO_new(BIO_s_mem()));
  if (certificate == nullptr || text == nullptr || PEM_write_bio_X509(text.get(), certificate) != 1)
    return {};
  char* data = nullptr;
  long const size = BIO_get_mem_data(text.get(), &data);
  return {data, static_cast<std::size_t>(size)};
}
std::string tls_engine::peer_subject() const {
  X509* const certificate = ssl_ == nullptr ? nullptr : SSL_get0_peer_certificate(ssl_);
  return certificate == nullptr ? std::string() : detail::subject_of(certificate);
}

} // namespace unio
