// Boost.Asio's coroutines: every level is an asio::awaitable, in a client that runs in an asio::io_context.
//
// The leaf is chosen in Asio's favour: an operation on the mock queue, not asio::post. Its state lies in the
// socket, so it allocates nothing, and it calls its completion handler at once: the mock loop runs inside
// io_context::run(), where a dispatch to the handler's executor would do the same after looking. There Asio
// finds its cache of coroutine frames too.
//
// Two subjects: as the documentation writes it (any_io_executor, use_awaitable), and tuned (the io_context's
// own executor; asio::deferred, which is awaited without a coroutine of its own in between).

#include "mock/context.hpp"
#include "mock/subjects.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <new>
#include <utility>

namespace mock {
namespace {

namespace asio = boost::asio;

class socket {
 public:
  explicit socket(io_context& context) : context_(context) {}

  template <class Token> auto async_io(Token&& token) {
    return asio::async_initiate<Token, void()>(initiation{this}, token);
  }

 private:
  template <class Handler> class io_operation final : public work {
   public:
    explicit io_operation(Handler handler) : handler_(std::move(handler)) {}

    // Ends before its handler is called, which can then start the next in its place.
    void operator()() override {
      Handler handler = std::move(handler_);
      this->~io_operation();
      std::move(handler)();
    }

   private:
    Handler handler_;
  };

  struct initiation {
    socket* self;

    template <class Handler> void operator()(Handler handler) const {
      static_assert(sizeof(io_operation<Handler>) <= sizeof(self->state_));
      self->context_.post(::new (static_cast<void*>(self->state_)) io_operation<Handler>(std::move(handler)));
    }
  };

  io_context& context_;
  alignas(std::max_align_t) std::byte state_[64];
};

struct as_documented {
  template <class T> using awaitable = asio::awaitable<T>;
  static constexpr asio::use_awaitable_t<> token = asio::use_awaitable;
};

struct tuned {
  template <class T> using awaitable = asio::awaitable<T, asio::io_context::executor_type>;
  static constexpr asio::deferred_t token = asio::deferred;
};

template <class Form> struct operations {
  using awaitable = typename Form::template awaitable<void>;

  static awaitable async_read_some(socket& s) { co_await s.async_io(Form::token); }

  static awaitable async_read(socket& s) {
    for (int i = 0; i < pieces_per_read; ++i) co_await async_read_some(s);
  }

  static awaitable async_request(socket& s) {
    for (int i = 0; i < reads_per_request; ++i) co_await async_read(s);
  }

  // One loop per depth: nothing is chosen while it runs.
  static awaitable client(socket& s, depth d, std::uint64_t requests) {
    switch (d) {
      case depth::async_io:
        for (; requests != 0; --requests) co_await s.async_io(Form::token);
        break;
      case depth::async_read_some:
        for (; requests != 0; --requests) co_await async_read_some(s);
        break;
      case depth::async_read:
        for (; requests != 0; --requests) co_await async_read(s);
        break;
      case depth::async_request:
        for (; requests != 0; --requests) co_await async_request(s);
        break;
    }
  }
};

template <class Form> benchmarks::sample run(depth d, std::uint64_t requests) {
  asio::io_context outer(1);
  io_context context;
  socket s(context);
  std::uint64_t completed = 0;
  asio::co_spawn(outer, operations<Form>::client(s, d, requests), asio::detached);
  asio::post(outer, [&] { completed = context.run(); }); // after the client has begun its first operation
  const benchmarks::sample result = benchmarks::measure(requests, [&] { outer.run(); });
  check_completed(d, requests, completed);
  return result;
}

} // namespace

subject asio_awaitable() { return {.name = "asio awaitable", .run = run<as_documented>}; }
subject asio_awaitable_tuned() { return {.name = "asio awaitable, tuned", .run = run<tuned>}; }

} // namespace mock
