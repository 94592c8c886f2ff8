// unio/detail/splice.hpp: how splicing is described, and its spellings.

#pragma once

#include <unio/splice.hpp>

namespace unio::inline v0_1 {

namespace detail {
extern UNIO_API driver::operation_faces const tee_faces;
}

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

 protected:
  async_splice(driver::operation_faces const& faces, io_handle& from, io_handle& to, splice_request request,
               unio::deadline d) noexcept;

 private:
  friend struct detail::operation_access;
  splice_request request_;
  int from_ = -1;
  int to_ = -1;
  readiness waits_for_ = readiness::readable;
};
UNIO_SENDER_FORMS(async_splice, (io_handle&, from), (io_handle&, to), (splice_request, request))

class UNIO_API async_tee : public async_splice {
 public:
  async_tee() = default;
  async_tee(io_handle& from, io_handle& to, std::size_t bytes, unio::deadline d = {}) noexcept
      : async_splice(detail::tee_faces, from, to, {.bytes = bytes}, d) {}
};
UNIO_SENDER_FORMS(async_tee, (io_handle&, from), (io_handle&, to), (std::size_t, bytes))

inline async_splice::async_splice(io_handle& from, io_handle& to, splice_request request,
                                  unio::deadline d) noexcept
    : async_splice(detail::splice_faces, from, to, request, d) {}
inline async_splice::async_splice(driver::operation_faces const& faces, io_handle& from, io_handle& to,
                                  splice_request request, unio::deadline d) noexcept
    : io_operation(faces, is_file(to.kind()) ? to.kind() : from.kind(), from.native_handle(),
                   from.own_multiplexer() != nullptr ? from.own_multiplexer() : to.own_multiplexer(), d),
      request_(request),
      from_(from.native_handle()),
      to_(to.native_handle()) {}
inline async_splice::result_type async_splice::result() const noexcept {
  int const n = outcome_value();
  if (n < 0) return failed();
  return {static_cast<std::size_t>(n), static_cast<std::size_t>(n)};
}

UNIO_FREE_VERB_FORMS(splice, async_splice, (io_handle&, from), (io_handle&, to), (splice_request, request))
UNIO_FREE_VERB_FORMS(tee, async_tee, (io_handle&, from), (io_handle&, to), (std::size_t, bytes))

} // namespace unio
