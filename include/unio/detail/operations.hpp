// unio/detail/operations.hpp: the operations of handles as classes. The headers of the handles say what they
// do.

#pragma once

#include <unio/buffer_pool.hpp>
#include <unio/connect.hpp>
#include <unio/detail/forms.hpp>
#include <unio/detail/pool_waiter.hpp>
#include <unio/endpoint.hpp>
#include <unio/io_request.hpp>

#include <limits>

namespace unio::inline v0_1 {

class handle;
class io_handle;
class socket_handle;
class listening_socket_handle;
class event_handle;
class timer_handle;
namespace testing {
struct handle_maker; // makes handles of simulated descriptors (unio/testing.hpp)
}

namespace detail {

/// The table of each operation (src/op).
extern UNIO_API driver::operation_faces const read_faces, receive_faces, receive_many_faces, write_faces,
    barrier_faces, poll_faces, close_faces, connect_faces, shutdown_faces, accept_faces, accept_many_faces,
    send_zero_copy_faces, wait_event_faces, wait_faces, no_op_faces, splice_faces, lock_range_faces,
    lock_file_faces, link_faces, receive_from_faces, send_to_faces, receive_error_faces, receive_batch_faces,
    send_batch_faces, send_handles_faces, receive_handles_faces;

struct operation_access; // the operations' access to their private state (src/op/access.hpp)

/// The result of an operation that has moved bytes: the buffers that were filled or drained.
// Between two system calls of a loop over short reads: a call more would count.
template <class Buffers>
[[gnu::always_inline]] inline io_result<Buffers> transferred(int outcome, Buffers const& buffers) noexcept {
  auto const bytes = static_cast<std::size_t>(outcome);
  return {buffers.first(bytes), bytes};
}

template <class Sender> typename Sender::result_type blocking(Sender sender) noexcept {
  sender.run_blocking();
  return sender.result();
}

template <class Request> auto const& buffers_of(Request const& request, deadline const&) noexcept {
  return request.buffers;
}

/// The same for an operation on a handle, which may be done without constructing it.
template <class Sender, class Handle, class... Arguments>
typename Sender::result_type blocking_on(Handle& h, Arguments&&... arguments) noexcept {
  if constexpr (requires { Sender::at_once(h, arguments...); })
    if (int const outcome = Sender::at_once(h, arguments...); outcome != Sender::not_at_once) [[likely]] {
      if (outcome < 0) [[unlikely]]
        return Sender::failed_at_once(h, outcome);
      return transferred(outcome, buffers_of(arguments...));
    }
  Sender sender(h, arguments...);
  sender.run_blocking();
  return sender.result();
}

/// The form of a sender whose state several threads may touch. Only this one has the link by which requests
/// of other threads are queued: most operations do not need it.
template <class Sender> class atomic_form : message_link<atomic_form<Sender>>, public Sender {
  using link = message_link<atomic_form>;

 public:
  atomic_form() = default;
  template <class... Arguments>
    requires std::constructible_from<Sender, Arguments...>
  explicit atomic_form(Arguments&&... arguments) : Sender(static_cast<Arguments&&>(arguments)...) {
    this->set_atomic(link::next_message_);
    this->set_common();
  }
  // Being atomic is not moved with the sender, which may become one that is not.
  atomic_form(atomic_form&& other) noexcept : link(), Sender(static_cast<Sender&&>(other)) {
    this->set_atomic(link::next_message_);
    this->set_common();
  }
  atomic_form& operator=(atomic_form&& other) noexcept {
    Sender::operator=(static_cast<Sender&&>(other));
    this->set_atomic(link::next_message_);
    this->set_common();
    return *this;
  }
};

/// An operation that yields nothing but success.
class UNIO_API void_operation : public io_operation {
 public:
  using result_type = io_result<void>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return {};
  }

 protected:
  using io_operation::io_operation;
};

/// struct msghdr, while the kernel has it: filled when it is given to the kernel, so never copied. Its size
/// is checked in src/op/send_zero_copy.cpp.
struct message_header {
  message_header() noexcept {}
  message_header(message_header const&) noexcept {}
  message_header& operator=(message_header const&) noexcept { return *this; }
  alignas(8) std::byte bytes[56];
};

/// An operation that moves the bytes of a request.
template <class Buffers> class transfer_operation : public io_operation {
 public:
  using result_type = io_result<Buffers>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) [[unlikely]]
      return failed();
    return transferred(outcome_value(), request_.buffers);
  }
  /// The request. After reading a mapped file its buffer is the view.
  [[nodiscard]] io_request<Buffers> const& request() const noexcept { return request_; }
  using io_operation::reset;
  /// Makes it startable again with another request.
  void reset(io_request<Buffers> next) noexcept {
    io_operation::reset();
    request_ = next;
  }

 protected:
  transfer_operation() = default;
  template <class Handle>
  transfer_operation(driver::operation_faces const& faces, Handle const& h, io_request<Buffers> request,
                     unio::deadline d) noexcept
      : io_operation(faces, h.kind(), h.native_handle(), h.own_multiplexer(), d), request_(request) {}

 private:
  friend struct operation_access;
  io_request<Buffers> request_;
};

} // namespace detail

class UNIO_API async_poll : public detail::void_operation, public detail::standard_sender<async_poll> {
 public:
  async_poll() = default;
  async_poll(handle& h, readiness what, unio::deadline d = {}) noexcept;
  [[nodiscard]] readiness what() const noexcept { return what_; }

 private:
  readiness what_ = readiness::readable;
};

class UNIO_API async_close : public detail::void_operation, public detail::standard_sender<async_close> {
 public:
  async_close() = default;
  explicit async_close(handle&& h, unio::deadline = {}) noexcept;
  async_close(async_close&&) = default;
  async_close& operator=(async_close&& other) noexcept;
  ~async_close();

 private:
  friend struct detail::operation_access;
  void close_if_still_open() noexcept;
  bool closed_ = false;
};

class UNIO_API async_read : public detail::transfer_operation<mutable_buffers>,
                            public detail::standard_sender<async_read> {
 public:
  async_read() = default;
  async_read(io_handle& h, io_request<mutable_buffers> request, unio::deadline d = {}) noexcept;

 private:
  friend struct detail::operation_access;
  template <class Sender, class Handle, class... Arguments>
  friend typename Sender::result_type detail::blocking_on(Handle&, Arguments&&...) noexcept;
  // Reads without constructing an operation, if a plain system call suffices; if not, returns not_at_once.
  static int at_once(io_handle& h, io_request<mutable_buffers> const& request,
                     unio::deadline const& d) noexcept;
  static int read_at_once(int fd, handle_kind kind, mutable_buffer into, extent_type offset,
                          bool only_try) noexcept;
  static failure failed_at_once(io_handle const& h, int native_code) noexcept;
  [[gnu::cold]] static failure failed_reading(int fd, int native_code) noexcept;
  static constexpr int not_at_once = std::numeric_limits<int>::min();

  io_handle* source_ = nullptr;
};

class UNIO_API async_write : public detail::transfer_operation<const_buffers>,
                             public detail::standard_sender<async_write> {
 public:
  async_write() = default;
  async_write(io_handle& h, io_request<const_buffers> request, unio::deadline d = {}) noexcept;
};

class UNIO_API async_receive : public io_operation,
                               public detail::standard_sender<async_receive>,
                               private detail::pool_waiter {
 public:
  using result_type = io_result<lent_buffer>;
  async_receive() noexcept : pool_waiter(&was_granted) {}
  async_receive(io_handle& h, buffer_pool& pool, unio::deadline d = {}) noexcept;
  async_receive(async_receive&& other) noexcept;
  async_receive& operator=(async_receive&& other) noexcept;
  ~async_receive() { drop_filled(); }
  /// Once: the buffer is the caller's from then on.
  [[nodiscard]] result_type result() noexcept;

 protected:
  async_receive(driver::operation_faces const& faces, io_handle& h, buffer_pool& pool,
                unio::deadline d) noexcept;

 private:
  friend struct detail::operation_access;
  friend class detail::pool_state;
  static void was_granted(work& w, bool run) noexcept;
  void drop_filled() noexcept;

  detail::pool_state* pool_ = nullptr;
  std::byte* filled_ = nullptr; // a buffer, as far as the outcome says, until result() takes it
};

class UNIO_API async_receive_many : public async_receive {
 public:
  async_receive_many() = default;
  async_receive_many(io_handle& h, buffer_pool& pool, unio::deadline d = {}) noexcept;
};

namespace detail {

/// Connecting, of a socket that there is or of one that it makes.
class UNIO_API connect_operation : public void_operation {
 public:
  [[nodiscard]] endpoint const& to() const noexcept { return to_; }

 protected:
  connect_operation() = default;
  connect_operation(int fd, io_multiplexer* m, endpoint const& to, unio::deadline d) noexcept
      : void_operation(connect_faces, handle_kind::stream_socket, fd, m, d), to_(to) {}
  void refuse_with(int native_code) noexcept { refused_ = native_code; }

 private:
  friend struct operation_access;
  endpoint to_;
  int refused_ = 0;                     // why there is no socket: a negative code
  [[maybe_unused]] bool begun_ = false; // the kernel is connecting (src/op/connect.cpp)
};

} // namespace detail

class UNIO_API async_connect : public detail::connect_operation,
                               public detail::standard_sender<async_connect> {
 public:
  async_connect() = default;
  async_connect(socket_handle& h, endpoint const& to, unio::deadline d = {}) noexcept;
};

/// A direction of a connection, or both.
enum class socket_side : std::uint8_t { receive, send, both };

class UNIO_API async_shutdown : public detail::void_operation,
                                public detail::standard_sender<async_shutdown> {
 public:
  async_shutdown() = default;
  async_shutdown(handle& h, socket_side which, unio::deadline d = {}) noexcept;
  [[nodiscard]] socket_side which() const noexcept { return which_; }

 private:
  socket_side which_ = socket_side::both;
};

class UNIO_API async_accept : public io_operation, public detail::standard_sender<async_accept> {
 public:
  using result_type = io_result<socket_handle>;
  async_accept() = default;
  explicit async_accept(listening_socket_handle& h, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() noexcept;
  [[nodiscard]] static bool may_go_on(std::error_code why) noexcept;

 protected:
  async_accept(driver::operation_faces const& faces, listening_socket_handle& h, unio::deadline d) noexcept;
};

class UNIO_API async_accept_many : public async_accept {
 public:
  async_accept_many() = default;
  explicit async_accept_many(listening_socket_handle& h, unio::deadline d = {}) noexcept;
};

class UNIO_API async_send_zero_copy : public detail::transfer_operation<const_buffers>,
                                      public detail::standard_sender<async_send_zero_copy> {
 public:
  async_send_zero_copy() = default;
  async_send_zero_copy(socket_handle& h, io_request<const_buffers> request, unio::deadline d = {}) noexcept;

 private:
  friend struct detail::operation_access;
  [[maybe_unused]] bool copies_ = false;
  detail::message_header message_;
};

class UNIO_API async_wait_event : public io_operation, public detail::standard_sender<async_wait_event> {
 public:
  using result_type = io_result<std::uint64_t>;
  async_wait_event() = default;
  explicit async_wait_event(event_handle& h, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    int const r = outcome_value();
    if (r < 0) return failed();
    return count_;
  }

 private:
  friend struct detail::operation_access;
  std::uint64_t count_ = 0;
};

class UNIO_API async_wait : public detail::void_operation, public detail::standard_sender<async_wait> {
 public:
  async_wait() = default;
  explicit async_wait(timer_handle& t, unio::deadline d = {}) noexcept;
  [[nodiscard]] unio::deadline moment() const noexcept { return moment_; }
  /// The same on the steady clock, in ns: known once started.
  [[nodiscard]] std::int64_t due() const noexcept { return due_; }

 private:
  friend struct detail::operation_access;
  unio::deadline moment_;
  std::int64_t due_ = -1;
};

class UNIO_API async_no_op : public detail::void_operation, public detail::standard_sender<async_no_op> {
 public:
  explicit async_no_op(io_multiplexer* m = nullptr, unio::deadline d = {}) noexcept
      : void_operation(detail::no_op_faces, handle_kind::none, -1, m, d) {}
};

} // namespace unio
