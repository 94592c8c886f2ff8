// memory_asio, memory_asio_uring: Boost.Asio, as one thread uses it (BOOST_ASIO_CONCURRENCY_HINT_UNSAFE:
// nothing is locked).
//
//   asio callbacks            an object per connection, shared with its callbacks
//   asio coroutines           a coroutine per connection: any_io_executor, use_awaitable
//   asio coroutines, tuned    the io_context's own executor, deferred
//
// Which of both drivers a file is compiled for: BOOST_ASIO_HAS_IO_URING and BOOST_ASIO_DISABLE_EPOLL, or
// neither (https://www.boost.org/doc/libs/1_81_0/doc/html/boost_asio/overview/implementation.html).

#include "memory/memory.hpp"

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <utility>

namespace asio = boost::asio;
using protocol = asio::local::stream_protocol;
using boost::system::error_code;

namespace {

#ifdef BOOST_ASIO_HAS_EPOLL
const std::string on = "";
constexpr bool is_epoll = true;
#else
const std::string on = ", io_uring";
constexpr bool is_epoll = false;
#endif

protocol::endpoint endpoint_of(std::string const& address) {
  return protocol::endpoint(std::string(1, '\0') + address);
}

auto shared_room() { return asio::buffer(memory::shared_buffer, memory::shared_buffer_size); }

void end_program(std::exception_ptr e) {
  if (e) std::rethrow_exception(e);
}

// ── callbacks ──────────────────────────────────────────────────────────────────────────────────────────────

template <std::size_t Size> class session : public std::enable_shared_from_this<session<Size>> {
 public:
  explicit session(protocol::socket s) : socket_(std::move(s)) {}

  void read() {
    if constexpr (Size == 0) {
      socket_.async_wait(protocol::socket::wait_read, [self = this->shared_from_this()](error_code e) {
        if (!e) self->answer();
      });
    } else {
      socket_.async_read_some(asio::buffer(buffer_),
                              [self = this->shared_from_this()](error_code e, std::size_t n) {
                                if (!e) self->write(n);
                              });
    }
  }

 private:
  void answer() {
    error_code e;
    const std::size_t n = socket_.read_some(shared_room(), e);
    if (!e) asio::write(socket_, asio::buffer(memory::shared_buffer, n), e);
    if (!e) read();
  }
  void write(std::size_t n) {
    asio::async_write(socket_, asio::buffer(buffer_, n),
                      [self = this->shared_from_this()](error_code e, std::size_t) {
                        if (!e) self->read();
                      });
  }

  protocol::socket socket_;
  [[no_unique_address]] std::array<char, Size> buffer_;
};

template <std::size_t Size> void accept_callback(protocol::acceptor& listening) {
  listening.async_accept([&listening](error_code e, protocol::socket s) {
    if (e) throw boost::system::system_error(e);
    std::make_shared<session<Size>>(std::move(s))->read();
    accept_callback<Size>(listening);
  });
}

void serve_callbacks(std::string const& address, std::size_t buffer) {
  asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
  protocol::acceptor listening(context, endpoint_of(address));
  memory::with_buffer(buffer, [&](auto size) { accept_callback<size()>(listening); });
  context.run();
}

// ── coroutines ─────────────────────────────────────────────────────────────────────────────────────────────

struct as_documented {
  using executor = asio::any_io_executor;
  static constexpr asio::use_awaitable_t<> token = asio::use_awaitable;
};
struct tuned {
  using executor = asio::io_context::executor_type;
  static constexpr asio::deferred_t token = asio::deferred;
};

template <class Form> struct coroutines {
  using executor = typename Form::executor;
  using awaitable = asio::awaitable<void, executor>;
  using socket = protocol::socket::rebind_executor<executor>::other;
  using acceptor = protocol::acceptor::rebind_executor<executor>::other;

  template <std::size_t Size> static awaitable echo(socket s) try {
    if constexpr (Size == 0) {
      for (;;) {
        co_await s.async_wait(socket::wait_read, Form::token);
        const std::size_t n = s.read_some(shared_room());
        asio::write(s, asio::buffer(memory::shared_buffer, n));
      }
    } else {
      std::array<char, Size> buffer;
      for (;;) {
        const std::size_t n = co_await s.async_read_some(asio::buffer(buffer), Form::token);
        co_await asio::async_write(s, asio::buffer(buffer, n), Form::token);
      }
    }
  } catch (boost::system::system_error const&) { // the end of the stream
  }

  template <std::size_t Size> static awaitable accept(acceptor& listening) {
    for (;;) {
      socket s = co_await listening.async_accept(Form::token);
      asio::co_spawn(listening.get_executor(), echo<Size>(std::move(s)), asio::detached);
    }
  }

  static void serve(std::string const& address, std::size_t buffer) {
    asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
    acceptor listening(context, endpoint_of(address));
    memory::with_buffer(buffer, [&](auto size) {
      asio::co_spawn(context.get_executor(), accept<size()>(listening), end_program);
    });
    context.run();
  }
};

// ── coroutines that wait ───────────────────────────────────────────────────────────────────────────────────

template <class Form> class waiting : public memory::waiting {
 public:
  [[nodiscard]] std::uint64_t count() const override { return count_; }
  void start(std::uint64_t n) override {
    for (; n != 0; --n) asio::co_spawn(context_.get_executor(), one(), asio::detached);
    context_.restart();
    context_.poll();
  }

 protected:
  using awaitable = asio::awaitable<void, typename Form::executor>;
  using timer =
      asio::basic_waitable_timer<std::chrono::steady_clock, asio::wait_traits<std::chrono::steady_clock>,
                                 typename Form::executor>;
  virtual awaitable one() = 0;

  asio::io_context context_{BOOST_ASIO_CONCURRENCY_HINT_UNSAFE};
  std::uint64_t count_ = 0;
};

// The event of Asio's examples: a timer that never expires, which is cancelled
// (https://www.boost.org/doc/libs/1_81_0/doc/html/boost_asio/example/cpp20/coroutines/chat_server.cpp).
template <class Form> class on_event final : public waiting<Form> {
  typename waiting<Form>::awaitable one() override {
    ++this->count_;
    co_await event_.async_wait(Form::token);
  }
  typename waiting<Form>::timer event_{this->context_, std::chrono::steady_clock::time_point::max()};
};

template <class Form> class on_timer final : public waiting<Form> {
  typename waiting<Form>::awaitable one() override {
    ++this->count_;
    typename waiting<Form>::timer t(this->context_, std::chrono::hours(1));
    co_await t.async_wait(Form::token);
  }
};

template <class W> std::unique_ptr<memory::waiting> make() { return std::make_unique<W>(); }

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmarks::benchmark_case> cases;
  memory::idle_connections(cases, "asio callbacks" + on, serve_callbacks);
  memory::idle_connections(cases, "asio coroutines" + on, coroutines<as_documented>::serve);
  memory::idle_connections(cases, "asio coroutines, tuned" + on, coroutines<tuned>::serve);
  if (is_epoll) { // the driver has no part in these
    memory::suspended(cases, "asio coroutines", "event", make<on_event<as_documented>>);
    memory::suspended(cases, "asio coroutines, tuned", "event", make<on_event<tuned>>);
    memory::suspended(cases, "asio coroutines", "timer", make<on_timer<as_documented>>);
    memory::suspended(cases, "asio coroutines, tuned", "timer", make<on_timer<tuned>>);
  }
  return benchmarks::subject_main(argc, argv, cases);
}
