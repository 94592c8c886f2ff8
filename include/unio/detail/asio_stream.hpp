// unio/detail/asio_stream.hpp: implements async_start, asio_stream, the acceptor, the datagram socket and the
// timer, and what Beast looks for.

#pragma once

#include <unio/asio.hpp>
#include <unio/detail/asio_operation.hpp>
#include <unio/detail/asio_task.hpp>

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

/// The executor of the asio_context whose run() the calling thread is in.
[[nodiscard]] inline asio_executor asio_here() noexcept {
  UNIO_EXPECTS(asio_frame::innermost != nullptr, "async_start() without an executor, outside of run()");
  return static_cast<asio_context const&>(asio_frame::innermost->service().owner()).get_executor();
}

/// Calls a handler later, on its executor, with arguments that are known.
template <class Handler, class Executor, class... Arguments>
void asio_post(Handler&& h, Executor const& e, Arguments... known) {
  using handler = std::decay_t<Handler>;
  struct call {
    using allocator_type = net::associated_allocator_t<handler>;
    handler h;
    std::tuple<Arguments...> known;
    [[nodiscard]] allocator_type get_allocator() const noexcept { return net::get_associated_allocator(h); }
    void operator()() {
      std::apply([this](auto&... a) { std::move(h)(std::move(a)...); }, known);
    }
  };
  auto const to = net::get_associated_executor(h, e);
  auto const post_to = asio_posts_to(h, to);
  net::dispatch(post_to, call{static_cast<Handler&&>(h), {std::move(known)...}});
}

template <class S>
inline constexpr bool is_io_handle = std::derived_from<std::remove_reference_t<S>, io_handle>;

/// A buffer of Asio's sequence.
template <class Buffers> bool asio_has_bytes(Buffers const& b) noexcept { return net::buffer_size(b) != 0; }

} // namespace unio::detail

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

template <class Executor, class Sender, class Token>
  requires std::derived_from<std::remove_cvref_t<Sender>, io_operation>
auto async_start(Executor const& executor, Sender&& sender, Token&& token) {
  using signature =
      typename detail::asio_result<typename std::remove_cvref_t<Sender>::result_type>::signature;
  if constexpr (std::derived_from<Executor, detail::net::execution_context>) {
    return async_start(const_cast<Executor&>(executor).get_executor(), static_cast<Sender&&>(sender),
                       static_cast<Token&&>(token));
  } else {
    return detail::net::async_initiate<Token, signature>(detail::asio_initiates<Executor>{executor}, token,
                                                         static_cast<Sender&&>(sender));
  }
}
template <class Sender, class Token>
  requires std::derived_from<std::remove_cvref_t<Sender>, io_operation>
auto async_start(Sender&& sender, Token&& token) {
  return async_start(detail::asio_here(), static_cast<Sender&&>(sender), static_cast<Token&&>(token));
}
template <class Executor, class T, class Token>
auto async_start(Executor const& executor, task<T> t, Token&& token) {
  using signature = typename detail::asio_value_of_task::of<T>::signature;
  if constexpr (std::derived_from<Executor, detail::net::execution_context>) {
    return async_start(const_cast<Executor&>(executor).get_executor(), std::move(t),
                       static_cast<Token&&>(token));
  } else {
    return detail::net::async_initiate<Token, signature>(detail::asio_initiates_task<Executor>{executor},
                                                         token, std::move(t));
  }
}
template <class T, class Token> auto async_start(task<T> t, Token&& token) {
  return async_start(detail::asio_here(), std::move(t), static_cast<Token&&>(token));
}

template <class S, class Executor> void asio_stream<S, Executor>::set_multiplexer() noexcept {
  if constexpr (requires { wrapped().has_multiplexer(); }) detail::asio_give_multiplexer(wrapped(), pending_);
}

template <class S, class Executor> struct asio_stream<S, Executor>::initiates_read {
  using executor_type = Executor;
  asio_stream* self;
  [[nodiscard]] executor_type get_executor() const noexcept { return self->executor_; }
  template <class Handler, class Sequence> void operator()(Handler&& h, Sequence const& sequence) const {
    asio_stream& s = *self;
    using buffers = detail::asio_buffers_of<mutable_buffer, Sequence>;
    if (!detail::asio_has_bytes(sequence))
      return detail::asio_post(static_cast<Handler&&>(h), s.executor_, asio_error_code(), std::size_t{0});
    if constexpr (detail::is_io_handle<S>) {
      detail::asio_begin<async_read, buffers>(
          s.pending_, static_cast<Handler&&>(h), s.executor_,
          [&s](buffers& b) { return async_read(s.wrapped(), b.list()); }, sequence);
    } else {
      detail::asio_begin_task<detail::asio_transfer_of_task, buffers>(
          s.pending_, static_cast<Handler&&>(h), s.executor_,
          [&s](buffers& b) { return detail::await_read(s.wrapped(), b.list(), {}); }, sequence);
    }
  }
};
template <class S, class Executor> struct asio_stream<S, Executor>::initiates_write {
  using executor_type = Executor;
  asio_stream* self;
  [[nodiscard]] executor_type get_executor() const noexcept { return self->executor_; }
  template <class Handler, class Sequence> void operator()(Handler&& h, Sequence const& sequence) const {
    asio_stream& s = *self;
    using buffers = detail::asio_buffers_of<const_buffer, Sequence>;
    if (!detail::asio_has_bytes(sequence))
      return detail::asio_post(static_cast<Handler&&>(h), s.executor_, asio_error_code(), std::size_t{0});
    if constexpr (detail::is_io_handle<S>) {
      detail::asio_begin<async_write, buffers>(
          s.pending_, static_cast<Handler&&>(h), s.executor_,
          [&s](buffers& b) { return async_write(s.wrapped(), b.list()); }, sequence);
    } else {
      detail::asio_begin_task<detail::asio_transfer_of_task, buffers>(
          s.pending_, static_cast<Handler&&>(h), s.executor_,
          [&s](buffers& b) { return detail::await_write(s.wrapped(), b.list(), {}); }, sequence);
    }
  }
};

template <class S, class Executor>
template <class Buffers, class Token>
auto asio_stream<S, Executor>::async_read_some(Buffers const& buffers, Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code, std::size_t)>(initiates_read{this}, token,
                                                                                buffers);
}
template <class S, class Executor>
template <class Buffers, class Token>
auto asio_stream<S, Executor>::async_write_some(Buffers const& buffers, Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code, std::size_t)>(initiates_write{this}, token,
                                                                                buffers);
}
template <class S, class Executor>
template <class Buffers>
std::size_t asio_stream<S, Executor>::read_some(Buffers const& buffers, asio_error_code& ec) {
  detail::asio_buffers_of<mutable_buffer, Buffers> const b(buffers);
  io_request<mutable_buffers> const request(b.list());
  io_result<mutable_buffers> r = [&]() -> io_result<mutable_buffers> {
    if constexpr (detail::is_io_handle<S>) {
      return wrapped().read(request);
    } else {
      return run(*pending_.service().multiplexer(), detail::await_read(wrapped(), request, {}));
    }
  }();
  if (r.has_value()) detail::asio_settle(request.buffers, *r);
  bool const was_asked = !request.buffers.empty();
  auto const [error, bytes] = detail::asio_result<io_result<mutable_buffers>>::arguments(r, was_asked);
  ec = error;
  return bytes;
}
template <class S, class Executor>
template <class Buffers>
std::size_t asio_stream<S, Executor>::write_some(Buffers const& buffers, asio_error_code& ec) {
  detail::asio_buffers_of<const_buffer, Buffers> const b(buffers);
  io_request<const_buffers> const request(b.list());
  io_result<const_buffers> const r = [&]() -> io_result<const_buffers> {
    if constexpr (detail::is_io_handle<S>) {
      return wrapped().write(request);
    } else {
      return run(*pending_.service().multiplexer(), detail::await_write(wrapped(), request, {}));
    }
  }();
  auto const [error, bytes] = detail::asio_result<io_result<const_buffers>>::arguments(r, false);
  ec = error;
  return bytes;
}
template <class S, class Executor>
template <class Token>
  requires std::derived_from<std::remove_reference_t<S>, socket_handle>
auto asio_stream<S, Executor>::async_connect(endpoint const& to, Token&& token) {
  auto initiate = [self = this]<class Handler>(Handler&& h, endpoint const& where) {
    detail::asio_begin<unio::async_connect>(
        self->pending_, static_cast<Handler&&>(h), self->executor_,
        [&](detail::asio_no_buffers&) { return unio::async_connect(self->wrapped(), where); });
  };
  return detail::net::async_initiate<Token, void(asio_error_code)>(std::move(initiate), token, to);
}
template <class S, class Executor>
asio_error_code asio_stream<S, Executor>::close(asio_error_code& ec) noexcept
  requires std::derived_from<std::remove_reference_t<S>, handle>
{
  result<void> const r = wrapped().close();
  return ec = detail::asio_error(r.error());
}

// ---- acceptor ---------------------------------------------------------------------------------------------

template <class Executor> struct basic_asio_acceptor<Executor>::initiates {
  using executor_type = Executor;
  basic_asio_acceptor* self;
  [[nodiscard]] executor_type get_executor() const noexcept { return self->executor_; }
  /// An accept whose result is a stream.
  struct accepts : unio::async_accept {
    using result_type = std::tuple<asio_error_code, stream_type>;
    accepts(listening_socket_handle& h, Executor const& e) : unio::async_accept(h), executor(e) {}
    result_type result() {
      auto r = unio::async_accept::result();
      return {detail::asio_error(r.error()),
              stream_type(executor, r.has_value() ? *std::move(r) : socket_handle())};
    }
    Executor executor;
  };
  template <class Handler> void operator()(Handler&& h) const {
    detail::asio_begin<accepts>(
        self->pending_, static_cast<Handler&&>(h), self->executor_,
        [this](detail::asio_no_buffers&) { return accepts(self->handle_, self->executor_); });
  }
};
template <class Executor>
template <class Token>
auto basic_asio_acceptor<Executor>::async_accept(Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code, stream_type)>(initiates{this}, token);
}
template <class Executor>
typename basic_asio_acceptor<Executor>::stream_type basic_asio_acceptor<Executor>::accept(
    asio_error_code& ec) {
  auto r = handle_.accept();
  ec = detail::asio_error(r.error());
  return stream_type(executor_, r.has_value() ? *std::move(r) : socket_handle());
}

// ---- datagrams --------------------------------------------------------------------------------------------

template <class Executor> struct basic_asio_datagram_socket<Executor>::initiates_receive {
  using executor_type = Executor;
  basic_asio_datagram_socket* self;
  endpoint* from;
  [[nodiscard]] executor_type get_executor() const noexcept { return self->executor_; }
  /// The room for what is known of a datagram besides its bytes.
  template <class Sequence> struct room : detail::asio_buffers_of<mutable_buffer, Sequence> {
    using detail::asio_buffers_of<mutable_buffer, Sequence>::asio_buffers_of;
    explicit room(Sequence const& s) : detail::asio_buffers_of<mutable_buffer, Sequence>(s) {}
    datagram_info info;
  };
  struct receives : unio::async_receive_from {
    receives(datagram_handle& h, mutable_buffers into, datagram_info& info, endpoint* sender)
        : unio::async_receive_from(h, into, info), known(&info), from(sender) {}
    result_type result() noexcept {
      if (from != nullptr) *from = known->from;
      return unio::async_receive_from::result();
    }
    datagram_info* known;
    endpoint* from;
  };
  template <class Handler, class Sequence> void operator()(Handler&& h, Sequence const& sequence) const {
    detail::asio_begin<receives, room<Sequence>>(
        self->pending_, static_cast<Handler&&>(h), self->executor_,
        [this](room<Sequence>& r) { return receives(self->handle_, r.list(), r.info, from); }, sequence);
  }
};
template <class Executor> struct basic_asio_datagram_socket<Executor>::initiates_send {
  using executor_type = Executor;
  basic_asio_datagram_socket* self;
  [[nodiscard]] executor_type get_executor() const noexcept { return self->executor_; }
  template <class Handler, class Sequence>
  void operator()(Handler&& h, Sequence const& sequence, endpoint const& to) const {
    using buffers = detail::asio_buffers_of<const_buffer, Sequence>;
    detail::asio_begin<unio::async_send_to, buffers>(
        self->pending_, static_cast<Handler&&>(h), self->executor_,
        [this, &to](buffers& b) {
          return unio::async_send_to(self->handle_, send_description{.to = to}, b.list());
        },
        sequence);
  }
};
template <class Executor>
template <class Buffers, class Token>
auto basic_asio_datagram_socket<Executor>::async_receive_from(Buffers const& buffers, endpoint& from,
                                                              Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code, std::size_t)>(
      initiates_receive{this, &from}, token, buffers);
}
template <class Executor>
template <class Buffers, class Token>
auto basic_asio_datagram_socket<Executor>::async_receive(Buffers const& buffers, Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code, std::size_t)>(
      initiates_receive{this, nullptr}, token, buffers);
}
template <class Executor>
template <class Buffers, class Token>
auto basic_asio_datagram_socket<Executor>::async_send_to(Buffers const& buffers, endpoint const& to,
                                                         Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code, std::size_t)>(initiates_send{this}, token,
                                                                                buffers, to);
}
template <class Executor>
template <class Buffers>
std::size_t basic_asio_datagram_socket<Executor>::receive_from(Buffers const& buffers, endpoint& from,
                                                               asio_error_code& ec) {
  detail::asio_buffers_of<mutable_buffer, Buffers> const b(buffers);
  datagram_info info;
  auto const r = handle_.receive_from(b.list(), info);
  ec = detail::asio_error(r.error());
  from = info.from;
  return r.bytes_transferred();
}
template <class Executor>
template <class Buffers>
std::size_t basic_asio_datagram_socket<Executor>::send_to(Buffers const& buffers, endpoint const& to,
                                                          asio_error_code& ec) {
  detail::asio_buffers_of<const_buffer, Buffers> const b(buffers);
  auto const r = handle_.send_to({.to = to}, b.list());
  ec = detail::asio_error(r.error());
  return r.bytes_transferred();
}

// ---- timer ------------------------------------------------------------------------------------------------

template <class Executor> struct basic_asio_timer<Executor>::initiates {
  using executor_type = Executor;
  basic_asio_timer* self;
  [[nodiscard]] executor_type get_executor() const noexcept { return self->executor_; }
  template <class Handler> void operator()(Handler&& h) const {
    detail::asio_begin<unio::async_wait>(
        self->pending_, static_cast<Handler&&>(h), self->executor_,
        [this](detail::asio_no_buffers&) { return unio::async_wait(self->timer_); });
  }
};
template <class Executor> template <class Token> auto basic_asio_timer<Executor>::async_wait(Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code)>(initiates{this}, token);
}
template <class Executor>
basic_asio_timer<Executor>& basic_asio_timer<Executor>::operator=(basic_asio_timer&& other) noexcept {
  if (this == &other) return *this;
  pending_.cancel();
  executor_ = std::move(other.executor_);
  pending_ = std::move(other.pending_);
  timer_ = other.timer_;
  return *this;
}

// ---- Beast ------------------------------------------------------------------------------------------------

/// Closes the stream of a websocket: Beast finds it by its argument. Errors: in `ec`. Cost: system calls that
/// wait for the peer.
template <class S, class Executor>
void teardown(detail::asio_role, asio_stream<S, Executor>& stream, asio_error_code& ec) {
  if constexpr (requires { stream.wrapped().shutdown(socket_side::send); })
    (void)stream.wrapped().shutdown(socket_side::send);
  char rest[512];
  do stream.read_some(detail::net::buffer(rest), ec);
  while (!ec);
  if (ec == detail::net::error::eof) ec = {};
  if constexpr (requires { stream.close(); }) stream.close();
}
/// The same, completing with (error_code).
template <class S, class Executor, class Token>
auto async_teardown(detail::asio_role, asio_stream<S, Executor>& stream, Token&& token) {
  return detail::net::async_compose<Token, void(asio_error_code)>(
      [&stream, rest = std::unique_ptr<char[]>()](auto& self, asio_error_code ec = {},
                                                  std::size_t = 0) mutable {
        if (rest == nullptr) {
          rest = std::make_unique<char[]>(512);
          if constexpr (requires { stream.wrapped().shutdown(socket_side::send); })
            (void)stream.wrapped().shutdown(socket_side::send);
        }
        if (!ec) {
          auto const room = detail::net::buffer(rest.get(), 512);
          return stream.async_read_some(room, std::move(self));
        }
        if constexpr (requires { stream.close(); }) stream.close();
        self.complete(ec == detail::net::error::eof ? asio_error_code() : ec);
      },
      token, stream);
}
/// Closes the lowest layer of a stream of Beast's. Errors: ignored. Cost: one system call.
template <class S, class Executor> void beast_close_socket(asio_stream<S, Executor>& stream) {
  if constexpr (requires { stream.close(); }) stream.close();
}

} // namespace unio
