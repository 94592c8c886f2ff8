// unio/splice.hpp: moving bytes between two handles without bringing them into the program.

#pragma once

#include <unio/handle.hpp>

namespace unio {

/// What to move. At least one of the two handles is a pipe; the offsets are for the other one, if it can
/// seek.
struct splice_request {
  std::size_t bytes = 0;
  extent_type from_offset = no_offset;
  extent_type to_offset = no_offset;
};

/// Moves up to `bytes` from one handle to another inside the kernel, as soon as at least one byte can be
/// moved.
///
/// Returns       how many bytes moved; 0 at the end of the source
/// Errors        condition::timed_out, would_block, canceled (then nothing moved); EINVAL if neither is a
///               pipe; EPIPE
/// Cancellation  bytes that moved are reported
/// Cost          no copy; one system call when both are ready
/// Runs as       io_uring POLL_ADD, then splice(2) (the ring's own SPLICE always takes a kernel thread, and
///               so is used for regular files only) · splice(2) on readiness, for a regular file on a thread
///               that may block · the same with poll(2)
/// Source        splice(2)
class UNIO_API async_splice : public io_operation, public detail::standard_sender<async_splice> {
 public:
  using result_type = io_result<std::size_t>;
  async_splice() = default;
  async_splice(io_handle& from, io_handle& to, splice_request request, unio::deadline d = {}) noexcept
      : io_operation(detail::splice_faces, is_file(to) ? to.kind() : from.kind(), from.native_handle(),
                     from.own_multiplexer() != nullptr ? from.own_multiplexer() : to.own_multiplexer(), d),
        request_(request),
        from_(from.native_handle()),
        to_(to.native_handle()) {}
  [[nodiscard]] result_type result() const noexcept {
    int const n = outcome_value();
    if (n < 0) return detail::to_error_code(n);
    return {static_cast<std::size_t>(n), static_cast<std::size_t>(n)};
  }
  [[nodiscard]] splice_request const& request() const noexcept { return request_; }
  /// The descriptors.
  [[nodiscard]] int from() const noexcept { return from_; }
  [[nodiscard]] int to() const noexcept { return to_; }

 private:
  friend struct detail::operation_access;
  static bool is_file(io_handle const& h) noexcept {
    return h.kind() == handle_kind::file || h.kind() == handle_kind::mapped_file;
  }
  splice_request request_;
  int from_ = -1;
  int to_ = -1;
  readiness waits_for_ = readiness::readable;
};
UNIO_SENDER_FORMS(async_splice, (io_handle & from, io_handle& to, splice_request request), from, to, request)

/// async_splice in the other two spellings.
inline io_result<std::size_t> splice(io_handle& from, io_handle& to, splice_request request,
                                     deadline d = {}) noexcept {
  return detail::blocking(async_splice(from, to, request, d));
}
inline io_result<std::size_t> try_splice(io_handle& from, io_handle& to, splice_request request) noexcept {
  return splice(from, to, request, deadline::zero());
}
[[nodiscard]] inline io_awaitable<async_splice> co_splice(io_handle& from, io_handle& to,
                                                          splice_request request, deadline d = {}) noexcept {
  return io_awaitable<async_splice>(async_splice(from, to, request, d));
}

} // namespace unio
