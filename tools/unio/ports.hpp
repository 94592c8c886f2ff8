// What the bytes of a tour move through. To its ends (ends.hpp) all of them look the same.
//
//   handle_port     any handle that reads and writes
//   datagram_port   a socket whose datagrams the kernel cuts (GSO) and joins (GRO)
//   tls_port        TLS over a socket, in coroutines only

#pragma once

#include <unio/unio.hpp>
#ifdef UNIO_TOOL_TLS
#include <unio/tls.hpp>
#endif

#include <cstddef>

namespace tour {

class handle_port {
 public:
  static constexpr std::size_t chunk_bytes = 256 * 1024; ///< the most that one operation is asked to move

  handle_port(unio::io_handle& h) noexcept : handle_(h) {} // NOLINT: implicit

  auto read(unio::io_request<unio::mutable_buffers> r) noexcept { return handle_.read(r); }
  auto co_read(unio::io_request<unio::mutable_buffers> r) noexcept { return handle_.co_read(r); }
  auto async_read(unio::io_request<unio::mutable_buffers> r) noexcept { return unio::async_read(handle_, r); }
  auto write(unio::io_request<unio::const_buffers> r) noexcept { return handle_.write(r); }
  auto co_write(unio::io_request<unio::const_buffers> r) noexcept { return handle_.co_write(r); }
  auto async_write(unio::io_request<unio::const_buffers> r) noexcept { return unio::async_write(handle_, r); }
  void close() noexcept { (void)handle_.close(); }

 private:
  unio::io_handle& handle_;
};

class datagram_port {
 public:
  static constexpr std::uint16_t datagram_bytes = 1200;                     ///< what QUIC sends at first
  static constexpr std::size_t chunk_bytes = 40ul * datagram_bytes;         ///< in one call
  static constexpr std::chrono::seconds patience = std::chrono::seconds(5); ///< for one that is lost

  explicit datagram_port(unio::datagram_handle& h) noexcept : handle_(h) {}

  auto read(unio::io_request<unio::mutable_buffers> r) noexcept {
    return handle_.receive_from(r.buffers, info_, patience);
  }
  auto co_read(unio::io_request<unio::mutable_buffers> r) noexcept {
    return handle_.co_receive_from(r.buffers, info_, patience);
  }
  auto async_read(unio::io_request<unio::mutable_buffers> r) noexcept {
    return unio::async_receive_from(handle_, r.buffers, info_, patience);
  }
  auto write(unio::io_request<unio::const_buffers> r) noexcept { return handle_.send_to(how, r.buffers); }
  auto co_write(unio::io_request<unio::const_buffers> r) noexcept {
    return handle_.co_send_to(how, r.buffers);
  }
  auto async_write(unio::io_request<unio::const_buffers> r) noexcept {
    return unio::async_send_to(handle_, how, r.buffers);
  }
  void close() noexcept { (void)handle_.close(); }

 private:
  static constexpr unio::send_description how{.segment = datagram_bytes};
  unio::datagram_handle& handle_;
  unio::datagram_info info_;
};

#ifdef UNIO_TOOL_TLS
class tls_port {
 public:
  static constexpr std::size_t chunk_bytes = 256 * 1024;

  tls_port(unio::tls_stream& s, unio::io_handle& under) noexcept : stream_(s), under_(under) {}

  auto co_read(unio::io_request<unio::mutable_buffers> r) noexcept { return stream_.co_read(r); }
  auto co_write(unio::io_request<unio::const_buffers> r) { return stream_.co_write(r); }
  void close() noexcept { (void)under_.close(); }

 private:
  unio::tls_stream& stream_;
  unio::io_handle& under_;
};
#endif

} // namespace tour
