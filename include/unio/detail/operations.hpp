// unio/detail/operations.hpp: the operations that are not made by UNIO_OPERATION, as classes. The headers of
// the handles say what they do.
//
//   async_close                           owns a descriptor until it is started
//   async_read                            may be done without an operation
//   async_receive, async_receive_many     wait in the queue of a pool
//   async_connect                         is async_connected as well
//   async_wait                            has no descriptor, and says when it is due
//   async_no_op                           has nothing, so that its default constructor describes it
//
// Others are in the headers of what they are done on: async_splice, async_tee and async_clone_extents have
// two handles; async_wait_on is in the queue of its word; async_wait_ready names a number that is not its own
// when it fails; async_connected owns its socket; async_raw_ring and async_link are templates.

#pragma once

#include <unio/buffer_pool.hpp>
#include <unio/connect.hpp>
#include <unio/detail/forms.hpp>
#include <unio/detail/operation_with.hpp>
#include <unio/detail/pool_waiter.hpp>
#include <unio/endpoint.hpp>
#include <unio/io_request.hpp>

#include <limits>

namespace unio::inline v0_1 {

class handle;
class file_handle;
class io_handle;
class socket_handle;
class timer_handle;
namespace testing {
struct handle_maker; // makes handles of simulated descriptors (unio/testing.hpp)
}

namespace detail {

/// The table of each operation (src/op).
extern UNIO_API driver::operation_faces const read_faces, receive_faces, receive_many_faces, close_faces,
    connect_faces, wait_faces, no_op_faces, splice_faces, link_faces;

struct operation_access; // the operations' access to their private state (src/op/access.hpp)

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

} // namespace detail

class UNIO_API async_close : public detail::operation_with<async_close, void> {
 public:
  async_close() = default;
  explicit async_close(handle&& h, unio::deadline = {}) noexcept;
  /// Does at once what file_handle::close does before: see file_handle::co_close.
  explicit async_close(file_handle&& h, unio::deadline = {}) noexcept;
  async_close(async_close&&) = default;
  async_close& operator=(async_close&& other) noexcept;
  ~async_close();

 private:
  friend struct detail::operation_access;
  async_close(failure const& before, handle&& h, unio::deadline d) noexcept;
  void close_if_still_open() noexcept;
  bool closed_ = false;
  int failed_before_ = 0; // what went wrong before it was started: the first error
};

class UNIO_API async_read : public detail::operation_with<async_read, detail::requested<mutable_buffers>> {
 public:
  async_read() = default;
  async_read(io_handle& h, io_request<mutable_buffers> request, unio::deadline d = {}) noexcept;
  /// The request. After reading a mapped file its buffer is the view.
  [[nodiscard]] io_request<mutable_buffers> const& request() const noexcept { return request_; }

 private:
  friend struct detail::operation_access;
  template <class, class> friend class detail::operation_with;
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

  io_request<mutable_buffers> request_;
  io_handle* source_ = nullptr;
};

class UNIO_API async_receive : public detail::operation_on,
                               public detail::standard_sender<async_receive>,
                               private detail::pool_waiter {
 public:
  using result_type = io_result<lent_buffer>;
  async_receive() noexcept = default;
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

class UNIO_API async_wait : public detail::operation_with<async_wait, void> {
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

class UNIO_API async_no_op : public detail::operation_with<async_no_op, void> {
 public:
  explicit async_no_op(io_multiplexer* m = nullptr, unio::deadline d = {}) noexcept
      : operation_with(detail::no_op_faces, m, d) {}
};

// A receiver that lacks something: an error that says what.
template <class Sender, class Receiver>
  requires(std::derived_from<std::remove_cvref_t<Sender>, io_operation> &&
           !receiver_of<std::remove_cvref_t<Receiver>, std::remove_cvref_t<Sender>> &&
           !requires { typename std::remove_cvref_t<Receiver>::receiver_concept; }) // the standard's
inline std::remove_cvref_t<Sender> connect(Sender&& sender, Receiver&&) {
  static_assert(receiver_of<std::remove_cvref_t<Receiver>, std::remove_cvref_t<Sender>>,
                "a receiver has set_value(r), which takes this operation's result, and set_done()");
  return static_cast<Sender&&>(sender);
}

} // namespace unio
