// src/op/access.hpp: the operations of all handles, and the access of their files to their private state.

#pragma once

#include <unio/file_handle.hpp>
#include <unio/mapped_file_handle.hpp>
#include <unio/socket_handle.hpp>
#include <unio/splice.hpp>
#include <unio/timer_handle.hpp>

namespace unio::inline v0_1::detail {

/// Private state of operations. Each function takes the operation in its comment, as an io_operation.
struct operation_access {
  template <class To, class From> static auto& as(From& op) noexcept {
    return static_cast<std::conditional_t<std::is_const_v<From>, To const, To>&>(op);
  }

  // async_close: its descriptor is closed; what failed before it was started, or 0.
  template <class O> static auto& closed(O& op) noexcept { return as<async_close>(op).closed_; }
  static int failed_before_close(io_operation const& op) noexcept {
    return as<async_close>(op).failed_before_;
  }

  // async_read: its handle; and where its bytes are, if it does not fill the request's memory. The number of
  // bytes asked for stays the same, so that it can be restarted.
  static mapped_file_handle& mapped_file(io_operation& op) noexcept {
    return static_cast<mapped_file_handle&>(*as<async_read>(op).source_);
  }
  static void set_view(io_operation& op, std::byte* at) noexcept {
    mutable_buffers& buffers = as<async_read>(op).request_.buffers;
    buffers = mutable_buffer(at, buffers.bytes());
  }

  // async_receive: its pool; the buffer that was filled, which holds as many bytes as the outcome says; its
  // place in the queue for one.
  template <class O> static pool_state& pool(O& op) noexcept { return *as<async_receive>(op).pool_; }
  static void set_filled(io_operation& op, std::byte* buffer) noexcept {
    auto& r = as<async_receive>(op);
    r.drop_filled();
    if (buffer != nullptr) r.fill(buffer);
  }
  static pool_waiter& waiter(io_operation& op) noexcept { return as<async_receive>(op); }
  static pool_waiter const& waiter(io_operation const& op) noexcept { return as<async_receive>(op); }

  // async_connect, async_connected: the kernel is connecting; why there is no socket, or 0.
  template <class O> static auto& begun(O& op) noexcept { return as<connect_operation>(op).begun_; }
  template <class O> static int refused_connect(O& op) noexcept { return as<connect_operation>(op).refused_; }

  // async_splice: the side that it waits for: readable the source, writable the destination, worker neither.
  template <class O> static readiness waits_for(O& op) noexcept { return as<async_splice>(op).waits_for_; }
  static void wait_for(io_operation& op, readiness side) noexcept {
    auto& s = as<async_splice>(op);
    s.waits_for_ = side;
    s.set_fd(side == readiness::writable ? s.to_ : s.from_);
  }

  // async_wait: its moment on the steady clock, in ns, once started.
  template <class O> static auto& due(O& op) noexcept { return as<async_wait>(op).due_; }

  // Takes a lock; 0 or a negative code, -EAGAIN if it is held.
  static int take_lock(file_lock& l, int fd, extent_type first, extent_type last, lock_kind kind,
                       bool sleeps) noexcept {
    return l.take(fd, first, last, kind, sleeps);
  }
};

} // namespace unio::detail

namespace unio::inline v0_1::op {
using access = detail::operation_access;
}
