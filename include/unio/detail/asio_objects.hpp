// unio/detail/asio_objects.hpp: implements the acceptor, the datagram socket and the timer.

#pragma once

#include <unio/asio_objects.hpp>
#include <unio/detail/asio_operation.hpp>

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

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
  /// The room for what is known of a datagram apart from its bytes.
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

} // namespace unio
