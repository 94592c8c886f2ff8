// unio/detail/datagram_handle.hpp: how the operations of datagram sockets are described.

#pragma once

#include <unio/datagram_handle.hpp>

namespace unio::inline v0_1 {

inline async_receive_from::async_receive_from(datagram_handle& h, mutable_buffers into, datagram_info& info,
                                              unio::deadline d) noexcept
    : io_operation(detail::receive_from_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      into_(into),
      info_(&info),
      family_(h.family_) {}
inline async_send_to::async_send_to(datagram_handle& h, send_description const& how, const_buffers bytes,
                                    unio::deadline d) noexcept
    : io_operation(detail::send_to_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      how_(how),
      bytes_(bytes),
      family_(h.family_) {}
inline async_receive_batch::async_receive_batch(datagram_handle& h, std::span<received_datagram> batch,
                                                unio::deadline d) noexcept
    : io_operation(detail::receive_batch_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      batch_(batch),
      family_(h.family_) {}
inline async_send_batch::async_send_batch(datagram_handle& h, std::span<datagram_to_send> batch,
                                          unio::deadline d) noexcept
    : io_operation(detail::send_batch_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
      batch_(batch),
      family_(h.family_) {}
inline async_receive_error::async_receive_error(datagram_handle& h, unio::deadline d) noexcept
    : io_operation(detail::receive_error_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d) {}

inline async_receive_batch::result_type async_receive_batch::result() const noexcept {
  int const n = outcome_value();
  if (n < 0) return failed();
  return {static_cast<std::size_t>(n), moved_};
}
inline async_send_batch::result_type async_send_batch::result() const noexcept {
  int const n = outcome_value();
  if (n < 0) return failed();
  return {static_cast<std::size_t>(n), moved_};
}
inline async_receive_error::result_type async_receive_error::result() const noexcept {
  int const n = outcome_value();
  if (n < 0) return failed();
  return error_;
}

} // namespace unio
