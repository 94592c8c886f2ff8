// unio/detail/datagram_operations.hpp: the operations of datagram sockets as classes; datagram_handle.hpp
// says what they do.

#pragma once

#include <unio/datagram.hpp>
#include <unio/detail/operations.hpp>

#include <span>

namespace unio::inline v0_1 {

class datagram_handle;

namespace detail {

struct datagram_access; // the operations' access to their private state (src/op/datagram.hpp)

/// What the kernel sees of a message while an operation has it: struct msghdr, the buffers as struct iovec,
/// and control messages. It is filled when it is given to the kernel, so moving an operation moves none of
/// it. The sizes are checked in src/op/datagram.hpp.
template <std::size_t ControlBytes> struct message_memory {
  static constexpr std::size_t own_vectors = 8;
  message_memory() noexcept {}
  message_memory(message_memory const&) noexcept {}
  message_memory& operator=(message_memory const&) noexcept { return *this; }

  alignas(8) std::byte header[56];
  alignas(8) std::byte vectors[own_vectors * 16];
  alignas(8) std::byte control[ControlBytes];
};

} // namespace detail

class UNIO_API async_receive_from : public io_operation, public detail::standard_sender<async_receive_from> {
 public:
  using result_type = io_result<mutable_buffers>;
  async_receive_from() = default;
  async_receive_from(datagram_handle& h, mutable_buffers into, datagram_info& info,
                     unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) [[unlikely]]
      return failed();
    return detail::transferred(outcome_value(), into_);
  }

 private:
  friend struct detail::datagram_access;
  mutable_buffers into_;
  [[maybe_unused]] datagram_info* info_ = nullptr;
  [[maybe_unused]] address_family family_ = address_family::unspecified;
  [[maybe_unused]] bool errors_wait_ = false; // errors that nobody has taken would end each wait at once
  detail::message_memory<256> memory_;
};

class UNIO_API async_send_to : public io_operation, public detail::standard_sender<async_send_to> {
 public:
  using result_type = io_result<const_buffers>;
  async_send_to() = default;
  async_send_to(datagram_handle& h, send_description const& how, const_buffers bytes,
                unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) [[unlikely]]
      return failed();
    return detail::transferred(outcome_value(), bytes_);
  }

 private:
  friend struct detail::datagram_access;
  send_description how_;
  const_buffers bytes_;
  [[maybe_unused]] address_family family_ = address_family::unspecified;
  [[maybe_unused]] bool errors_wait_ = false;
  [[maybe_unused]] bool falls_back_ = false; // what the kernel may refuse is left out where it does
  detail::message_memory<128> memory_;
};

class UNIO_API async_receive_batch : public io_operation,
                                     public detail::standard_sender<async_receive_batch> {
 public:
  using result_type = io_result<std::size_t>;
  async_receive_batch() = default;
  async_receive_batch(datagram_handle& h, std::span<received_datagram> batch, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept;

 private:
  friend struct detail::datagram_access;
  std::span<received_datagram> batch_;
  std::size_t moved_ = 0;
  [[maybe_unused]] address_family family_ = address_family::unspecified;
  [[maybe_unused]] bool errors_wait_ = false;
};

class UNIO_API async_send_batch : public io_operation, public detail::standard_sender<async_send_batch> {
 public:
  using result_type = io_result<std::size_t>;
  async_send_batch() = default;
  async_send_batch(datagram_handle& h, std::span<datagram_to_send> batch, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept;

 private:
  friend struct detail::datagram_access;
  std::span<datagram_to_send> batch_;
  std::size_t moved_ = 0;
  [[maybe_unused]] address_family family_ = address_family::unspecified;
  [[maybe_unused]] bool errors_wait_ = false;
};

class UNIO_API async_receive_error : public io_operation,
                                     public detail::standard_sender<async_receive_error> {
 public:
  using result_type = io_result<datagram_error>;
  async_receive_error() = default;
  explicit async_receive_error(datagram_handle& h, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept;

 private:
  friend struct detail::datagram_access;
  datagram_error error_;
};

} // namespace unio
