// unio/detail/socket_operations.hpp: the operations of sockets; unio/socket_handle.hpp says what they do.

#pragma once

#include <unio/endpoint.hpp>
#include <unio/handle.hpp>

namespace unio {

class socket_handle;
class listening_socket_handle;

class UNIO_API async_connect : public io_operation, public detail::standard_sender<async_connect> {
 public:
  using result_type = io_result<void>;
  async_connect() = default;
  async_connect(socket_handle& h, endpoint const& to, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept { return detail::void_result(*this); }
  [[nodiscard]] endpoint const& to() const noexcept { return to_; }

 private:
  friend struct detail::operation_access;
  endpoint to_;
  [[maybe_unused]] bool begun_ = false; // the kernel is connecting (src/op/connect.cpp)
};

class UNIO_API async_accept : public io_operation, public detail::standard_sender<async_accept> {
 public:
  using result_type = io_result<socket_handle>;
  async_accept() = default;
  explicit async_accept(listening_socket_handle& h, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() noexcept;
  /// Whether to accept again after a pause: true for EMFILE, ENFILE, ENOBUFS, ENOMEM, and EPERM, by which a
  /// firewall refuses one connection.
  [[nodiscard]] static bool may_go_on(std::error_code why) noexcept;

 protected:
  async_accept(operation_faces const& faces, listening_socket_handle& h, unio::deadline d) noexcept;
};

class UNIO_API async_accept_many : public async_accept {
 public:
  async_accept_many() = default;
  explicit async_accept_many(listening_socket_handle& h, unio::deadline d = {}) noexcept;
};

class UNIO_API async_send_zero_copy : public io_operation,
                                      public detail::standard_sender<async_send_zero_copy> {
 public:
  using result_type = io_result<const_buffers>;
  async_send_zero_copy() = default;
  async_send_zero_copy(socket_handle& h, io_request<const_buffers> request, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept;
  [[nodiscard]] io_request<const_buffers> const& request() const noexcept { return request_; }

 private:
  friend struct detail::operation_access;
  io_request<const_buffers> request_;
  [[maybe_unused]] bool copies_ = false;
};

} // namespace unio
