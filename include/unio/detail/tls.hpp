// unio/detail/tls.hpp: a read of a TLS stream, which memory can often answer at once.

#pragma once

#include <unio/detail/buffered_stream.hpp>

namespace unio::inline v0_1 {
class tls_stream;
}

namespace unio::inline v0_1::detail {

/// The question of a buffered_awaitable: answered at once by what has been decrypted or has arrived.
struct tls_read {
  using answer_type = io_result<mutable_buffers>;
  tls_stream* from;
  io_request<mutable_buffers> request;
  deadline until;
  [[nodiscard]] UNIO_API bool at_once(answer_type& a) const noexcept;
  [[nodiscard]] UNIO_API task<answer_type> slowly(bool yields) const;
};

} // namespace unio::detail
