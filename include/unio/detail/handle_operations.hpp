// unio/detail/handle_operations.hpp: the operations of every handle; unio/handle.hpp says what they do.

#pragma once

#include <unio/connect.hpp>
#include <unio/detail/verbs.hpp>
#include <unio/io_request.hpp>
#include <unio/operation.hpp>

#include <limits>

namespace unio {

class handle;
class io_handle;
namespace testing {
struct handle_maker; // makes handles of simulated descriptors (unio/testing.hpp)
}

class UNIO_API async_poll : public io_operation, public detail::standard_sender<async_poll> {
 public:
  using result_type = io_result<void>;
  async_poll() = default;
  async_poll(handle& h, readiness what, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept { return detail::void_result(*this); }
  [[nodiscard]] readiness what() const noexcept { return what_; }

 private:
  readiness what_ = readiness::readable;
};

class UNIO_API async_close : public io_operation, public detail::standard_sender<async_close> {
 public:
  using result_type = io_result<void>;
  async_close() = default;
  explicit async_close(handle&& h, unio::deadline = {}) noexcept;
  async_close(async_close&&) = default;
  async_close& operator=(async_close&& other) noexcept;
  ~async_close();
  [[nodiscard]] result_type result() const noexcept { return detail::void_result(*this); }

 private:
  friend struct detail::operation_access;
  void close_if_still_open() noexcept;
  bool closed_ = false;
};

class UNIO_API async_read : public io_operation, public detail::standard_sender<async_read> {
 public:
  using result_type = io_result<mutable_buffers>;
  async_read() = default;
  async_read(io_handle& h, io_request<mutable_buffers> request, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept;

  /// The request. After reading a mapped file its buffer is the view.
  [[nodiscard]] io_request<mutable_buffers> const& request() const noexcept { return request_; }
  using io_operation::reset;
  /// Makes it startable again with another request.
  void reset(io_request<mutable_buffers> next) noexcept;

 private:
  friend struct detail::operation_access;
  template <class Sender, class Handle, class... Arguments>
  friend typename Sender::result_type detail::blocking_on(Handle&, Arguments const&...) noexcept;
  // Reads without constructing an operation, if a plain system call suffices; if not, returns not_at_once.
  static int at_once(io_handle& h, io_request<mutable_buffers> const& request,
                     unio::deadline const& d) noexcept;
  static int read_at_once(int fd, handle_kind kind, mutable_buffer into, bool only_try) noexcept;
  static constexpr int not_at_once = std::numeric_limits<int>::min();

  io_request<mutable_buffers> request_;
  io_handle* source_ = nullptr;
};

class UNIO_API async_write : public io_operation, public detail::standard_sender<async_write> {
 public:
  using result_type = io_result<const_buffers>;
  async_write() = default;
  async_write(io_handle& h, io_request<const_buffers> request, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept;

  [[nodiscard]] io_request<const_buffers> const& request() const noexcept { return request_; }
  using io_operation::reset;
  /// Makes it startable again with another request.
  void reset(io_request<const_buffers> next) noexcept;

 private:
  io_request<const_buffers> request_;
};

} // namespace unio
