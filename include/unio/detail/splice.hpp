// unio/detail/splice.hpp: how splicing is described, and its spellings.

#pragma once

#include <unio/splice.hpp>

namespace unio {

class UNIO_API async_splice : public io_operation, public detail::standard_sender<async_splice> {
 public:
  using result_type = io_result<std::size_t>;
  async_splice() = default;
  async_splice(io_handle& from, io_handle& to, splice_request request, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept;
  [[nodiscard]] splice_request const& request() const noexcept { return request_; }
  /// The descriptors.
  [[nodiscard]] int from() const noexcept { return from_; }
  [[nodiscard]] int to() const noexcept { return to_; }

 private:
  friend struct detail::operation_access;
  splice_request request_;
  int from_ = -1;
  int to_ = -1;
  readiness waits_for_ = readiness::readable;
};
UNIO_SENDER_FORMS(async_splice, (io_handle & from, io_handle& to, splice_request request), from, to, request)

inline async_splice::async_splice(io_handle& from, io_handle& to, splice_request request,
                                  unio::deadline d) noexcept
    : io_operation(detail::splice_faces, is_file(to.kind()) ? to.kind() : from.kind(), from.native_handle(),
                   from.own_multiplexer() != nullptr ? from.own_multiplexer() : to.own_multiplexer(), d),
      request_(request),
      from_(from.native_handle()),
      to_(to.native_handle()) {}
inline async_splice::result_type async_splice::result() const noexcept {
  int const n = outcome_value();
  if (n < 0) return detail::to_error_code(n);
  return {static_cast<std::size_t>(n), static_cast<std::size_t>(n)};
}

inline io_result<std::size_t> splice(io_handle& from, io_handle& to, splice_request request,
                                     deadline d) noexcept {
  return detail::blocking(async_splice(from, to, request, d));
}
inline io_result<std::size_t> try_splice(io_handle& from, io_handle& to, splice_request request) noexcept {
  return splice(from, to, request, deadline::zero());
}
inline io_awaitable<async_splice> co_splice(io_handle& from, io_handle& to, splice_request request,
                                            deadline d) noexcept {
  return io_awaitable<async_splice>(async_splice(from, to, request, d));
}

} // namespace unio
