// unio/detail/passed_handles.hpp: passing handles, as operations, and their spellings.

#pragma once

#include <unio/passed_handles.hpp>

#include <utility>

namespace unio::inline v0_1 {

class UNIO_API async_send_handles : public io_operation, public detail::standard_sender<async_send_handles> {
 public:
  using result_type = io_result<const_buffers>;
  async_send_handles() = default;
  async_send_handles(handle& socket, const_buffers bytes, std::span<handle const* const> handles,
                     unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) [[unlikely]]
      return failed();
    return detail::transferred(outcome_value(), bytes_);
  }

 private:
  friend struct detail::datagram_access;
  const_buffers bytes_;
  int count_ = -1; // of descriptors; < 0: they cannot be sent
  int fds_[passed_handles::capacity] = {};
  detail::message_memory<144> memory_;
};

class UNIO_API async_receive_handles : public io_operation,
                                       public detail::standard_sender<async_receive_handles> {
 public:
  using result_type = io_result<passed_message>;
  async_receive_handles() = default;
  async_receive_handles(handle& socket, mutable_buffers into, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() noexcept;

 private:
  friend struct detail::datagram_access;
  mutable_buffers into_;
  passed_handles got_;
  detail::message_memory<256> memory_;
};

UNIO_SENDER_FORMS(async_send_handles, (handle&, socket), (const_buffers, bytes),
                  (std::span<handle const* const>, handles))
UNIO_SENDER_FORMS(async_receive_handles, (handle&, socket), (mutable_buffers, into))

inline passed_handles::passed_handles(passed_handles&& other) noexcept { *this = std::move(other); }
inline passed_handles& passed_handles::operator=(passed_handles&& other) noexcept {
  if (this == &other) return *this;
  close_all();
  count_ = std::exchange(other.count_, std::int16_t{0});
  truncated_ = std::exchange(other.truncated_, false);
  for (std::size_t i = 0; i < size(); ++i) fds_[i] = other.fds_[i];
  return *this;
}

inline async_send_handles::async_send_handles(handle& socket, const_buffers bytes,
                                              std::span<handle const* const> handles,
                                              unio::deadline d) noexcept
    : io_operation(detail::send_handles_faces, socket.kind(), socket.native_handle(),
                   socket.own_multiplexer(), d),
      bytes_(bytes) {
  bool const is_stream = socket.kind() == handle_kind::stream_socket;
  if (handles.size() > passed_handles::capacity || (is_stream && bytes.bytes() == 0)) return;
  count_ = 0;
  for (handle const* const h : handles) {
    if (!h->is_open()) {
      count_ = -1;
      return;
    }
    fds_[count_++] = h->native_handle();
  }
}
inline async_receive_handles::async_receive_handles(handle& socket, mutable_buffers into,
                                                    unio::deadline d) noexcept
    : io_operation(detail::receive_handles_faces, socket.kind(), socket.native_handle(),
                   socket.own_multiplexer(), d),
      into_(into) {}
inline async_receive_handles::result_type async_receive_handles::result() noexcept {
  int const n = outcome_value();
  if (n < 0) return failed();
  auto const bytes = static_cast<std::size_t>(n);
  return {passed_message{into_.first(bytes), std::move(got_)}, bytes};
}

inline io_result<const_buffers> send_handles(handle& socket, const_buffers bytes,
                                             std::span<handle const* const> handles, deadline d) noexcept {
  return detail::blocking_on<async_send_handles>(socket, bytes, handles, d);
}
inline io_awaitable<async_send_handles> co_send_handles(handle& socket, const_buffers bytes,
                                                        std::span<handle const* const> handles,
                                                        deadline d) noexcept {
  return io_awaitable<async_send_handles>(std::in_place, socket, bytes, handles, d);
}
inline io_result<passed_message> receive_handles(handle& socket, mutable_buffers into, deadline d) noexcept {
  return detail::blocking_on<async_receive_handles>(socket, into, d);
}
inline io_awaitable<async_receive_handles> co_receive_handles(handle& socket, mutable_buffers into,
                                                              deadline d) noexcept {
  return io_awaitable<async_receive_handles>(std::in_place, socket, into, d);
}

} // namespace unio
