// unio/detail/asio_stream.hpp: implements asio_stream, and what Beast looks for.

#pragma once

#include <unio/asio_stream.hpp>
#include <unio/detail/asio_operation.hpp>
#include <unio/detail/asio_task.hpp>
#include <unio/run.hpp>

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

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

template <class S, class Executor> void asio_stream<S, Executor>::set_multiplexer() noexcept {
  if constexpr (requires { wrapped().has_multiplexer(); }) detail::asio_give_multiplexer(wrapped(), pending_);
}

/// Of mutable_buffer it reads, of const_buffer it writes.
template <class S, class Executor> template <class Buffer> struct asio_stream<S, Executor>::initiates {
  using executor_type = Executor;
  static constexpr bool reads = std::same_as<Buffer, mutable_buffer>;
  using sender = std::conditional_t<reads, async_read, async_write>;
  asio_stream* self;
  [[nodiscard]] executor_type get_executor() const noexcept { return self->executor_; }
  template <class Handler, class Sequence> void operator()(Handler&& h, Sequence const& sequence) const {
    asio_stream& s = *self;
    using buffers = detail::asio_buffers_of<Buffer, Sequence>;
    if (!detail::asio_has_bytes(sequence))
      return detail::asio_post(static_cast<Handler&&>(h), s.executor_, asio_error_code(), std::size_t{0});
    if constexpr (detail::is_io_handle<S>) {
      detail::asio_begin<sender, buffers>(
          s.pending_, static_cast<Handler&&>(h), s.executor_,
          [&s](buffers& b) { return sender(s.wrapped(), b.list()); }, sequence);
    } else {
      detail::asio_begin_task<detail::asio_transfer_of_task, buffers>(
          s.pending_, static_cast<Handler&&>(h), s.executor_,
          [&s](buffers& b) {
            if constexpr (reads) {
              return detail::await_read(s.wrapped(), b.list(), {});
            } else {
              return detail::await_write(s.wrapped(), b.list(), {});
            }
          },
          sequence);
    }
  }
};

template <class S, class Executor>
template <class Buffers, class Token>
auto asio_stream<S, Executor>::async_read_some(Buffers const& buffers, Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code, std::size_t)>(
      initiates<mutable_buffer>{this}, token, buffers);
}
template <class S, class Executor>
template <class Buffers, class Token>
auto asio_stream<S, Executor>::async_write_some(Buffers const& buffers, Token&& token) {
  return detail::net::async_initiate<Token, void(asio_error_code, std::size_t)>(initiates<const_buffer>{this},
                                                                                token, buffers);
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
      return run(pending_.service().of_tasks(), detail::await_read(wrapped(), request, {}));
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
      return run(pending_.service().of_tasks(), detail::await_write(wrapped(), request, {}));
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
