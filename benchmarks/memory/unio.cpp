// memory_unio: unio, on both drivers.
//
//   unio awaited        a coroutine per connection
//   unio multiplexed    an object per connection, with receivers; reading and writing by turns, their
//                       operations share room
//   unio callbacks      an object per connection, shared with its callbacks
//   unio lent           a coroutine per connection, which borrows a buffer when there is something to read
//   unio lent, callbacks  an object per connection, with one operation that receives into borrowed buffers
//                       again and again

#include "memory/memory.hpp"

#include <unio/buffer_pool.hpp>
#include <unio/callback.hpp>
#include <unio/multiplexer.hpp>
#include <unio/run.hpp>
#include <unio/socket_handle.hpp>
#include <unio/stream.hpp>
#include <unio/sync.hpp>
#include <unio/timer_handle.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>

namespace {

struct uring {
  static constexpr char const* name = "io_uring";
  static constexpr char const* variable = "uring";
};
struct epoll {
  static constexpr char const* name = "epoll";
  static constexpr char const* variable = "epoll";
};

/// The thread's own multiplexer, on the driver that the case is about. Its process is new and has none yet.
template <class Driver> unio::io_multiplexer& multiplexer() {
  ::setenv("UNIO_DRIVER", Driver::variable, 1);
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  if (m.capabilities().driver != Driver::name)
    throw std::runtime_error(std::string("there is no ") + Driver::name);
  return m;
}

unio::listening_socket_handle listen_at(std::string const& address) {
  return unio::listening_socket_handle::listen(unio::endpoint::unix_path("@" + address).value()).value();
}

/// What a readable socket has, back to it. False: it ended.
bool answer(unio::socket_handle& s) {
  const auto got = s.try_read(memory::shared_buffer);
  if (!got) return got.error() == unio::condition::would_block;
  const std::size_t n = got.bytes_transferred();
  return n != 0 && s.write(std::string_view(memory::shared_buffer, n)).bytes_transferred() == n;
}

// ── awaited ────────────────────────────────────────────────────────────────────────────────────────────────

template <std::size_t Size> unio::task<> echo(unio::socket_handle s) {
  if constexpr (Size == 0) {
    for (;;) {
      const auto ready = co_await s.co_poll(unio::readiness::readable);
      if (!ready || !answer(s)) co_return;
    }
  } else {
    std::array<char, Size> buffer;
    for (;;) {
      const auto got = co_await s.co_read(buffer);
      if (!got || got->empty()) co_return;
      const auto sent = co_await unio::co_write(s, std::string_view(buffer.data(), got.bytes_transferred()));
      if (!sent) co_return;
    }
  }
}

template <std::size_t Size> unio::task<> accept(unio::listening_socket_handle listening) {
  for (;;) {
    auto s = co_await listening.co_accept();
    unio::async_run(unio::this_thread::multiplexer(), echo<Size>(std::move(s).value()));
  }
}

template <class Driver> void serve_awaited(std::string const& address, std::size_t buffer) {
  unio::io_multiplexer& m = multiplexer<Driver>();
  memory::with_buffer(buffer, [&](auto size) { unio::run(m, accept<size()>(listen_at(address))); });
}

// ── lent ───────────────────────────────────────────────────────────────────────────────────────────────────

unio::task<> echo_lent(unio::socket_handle s, unio::buffer_pool& pool) {
  for (;;) {
    const auto got = co_await s.co_receive(pool);
    if (!got || !*got) co_return;
    auto sending = unio::co_write(s, unio::const_buffer(got->data(), got->size()));
    if (!co_await std::move(sending)) co_return;
  }
}

unio::task<> accept_lent(unio::listening_socket_handle listening, unio::buffer_pool& pool) {
  for (;;) {
    auto s = co_await listening.co_accept();
    unio::async_run(unio::this_thread::multiplexer(), echo_lent(std::move(s).value(), pool));
  }
}

template <class Driver> void serve_lent(std::string const& address, std::size_t) {
  unio::io_multiplexer& m = multiplexer<Driver>();
  unio::buffer_pool pool(64, memory::shared_buffer_size);
  unio::run(m, accept_lent(listen_at(address), pool));
}

// ── lent, callbacks ────────────────────────────────────────────────────────────────────────────────────────

class lent_peer {
 public:
  lent_peer(unio::socket_handle s, unio::buffer_pool& pool)
      : socket_(std::move(s)),
        receive_(unio::connect(unio::async_receive_many(socket_, pool), receiver{this})) {
    receive_.start();
  }

 private:
  struct receiver {
    lent_peer* self;
    void set_value(unio::io_result<unio::lent_buffer>&& got) {
      if (!got || !*got) return;
      const unio::const_buffer bytes(got->data(), got->size());
      if (self->socket_.write(bytes).bytes_transferred() != bytes.size()) self->receive_.cancel();
    }
    void set_done() { delete self; }
  };

  unio::socket_handle socket_;
  unio::io_operation_connection<unio::async_receive_many, receiver> receive_;
};

template <class Driver> void serve_lent_callbacks(std::string const& address, std::size_t) {
  unio::io_multiplexer& m = multiplexer<Driver>();
  unio::buffer_pool pool(64, memory::shared_buffer_size);
  struct acceptor {
    unio::buffer_pool* pool;
    void set_value(unio::io_result<unio::socket_handle>&& s) { new lent_peer(std::move(s).value(), *pool); }
    void set_done() {}
  };
  unio::listening_socket_handle listening = listen_at(address);
  auto accepting = unio::connect(unio::async_accept_many(listening), acceptor{&pool});
  accepting.start();
  for (;;) m.run().value();
}

// ── multiplexed ────────────────────────────────────────────────────────────────────────────────────────────

template <std::size_t Size> class peer {
 public:
  explicit peer(unio::socket_handle s) : socket_(std::move(s)) {}
  void read() { start(unio::connect(unio::async_read(socket_, buffer_), after_read{this})); }

 private:
  void write() { start(unio::connect(unio::async_write(socket_, rest_), after_write{this})); }

  struct after_read {
    peer* self = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers>&& got) {
      self->rest_ = {self->buffer_.data(), got.bytes_transferred()};
    }
    void set_done() {
      self->rest_.empty() ? delete self : self->write();
    } // the end of the stream, or an error
  };
  struct after_write {
    peer* self = nullptr;
    void set_value(unio::io_result<unio::const_buffers>&& sent) {
      self->is_broken_ = !sent;
      self->rest_.remove_prefix(sent.bytes_transferred());
    }
    void set_done() { self->is_broken_ ? delete self : self->rest_.empty() ? self->read() : self->write(); }
  };
  using reading = unio::io_operation_connection<unio::async_read, after_read>;
  using writing = unio::io_operation_connection<unio::async_write, after_write>;

  template <class Operation> void start(Operation o) {
    now_.template emplace<Operation>(std::move(o)).start();
  }

  unio::socket_handle socket_;
  std::string_view rest_;
  std::variant<std::monostate, reading, writing> now_;
  bool is_broken_ = false;
  std::array<char, Size> buffer_;
};

template <> class peer<0> {
 public:
  explicit peer(unio::socket_handle s)
      : socket_(std::move(s)),
        now_(unio::connect(unio::async_poll(socket_, unio::readiness::readable), when_ready{this})) {}
  void read() { now_.start(); }

 private:
  struct when_ready {
    peer* self = nullptr;
    bool goes_on = false;
    void set_value(unio::io_result<void>&& ready) { goes_on = ready && answer(self->socket_); }
    void set_done() {
      if (!goes_on) return delete self;
      self->now_.reset();
      self->now_.start();
    }
  };

  unio::socket_handle socket_;
  unio::io_operation_connection<unio::async_poll, when_ready> now_;
};

template <std::size_t Size> struct acceptor {
  void set_value(unio::io_result<unio::socket_handle>&& s) { (new peer<Size>(std::move(s).value()))->read(); }
  void set_done() {}
};

template <class Driver> void serve_multiplexed(std::string const& address, std::size_t buffer) {
  unio::io_multiplexer& m = multiplexer<Driver>();
  unio::listening_socket_handle listening = listen_at(address);
  memory::with_buffer(buffer, [&](auto size) {
    auto accepting = unio::connect(unio::async_accept_many(listening), acceptor<size()>());
    accepting.start();
    for (;;) m.run().value();
  });
}

// ── callbacks ──────────────────────────────────────────────────────────────────────────────────────────────

template <std::size_t Size> class session : public std::enable_shared_from_this<session<Size>> {
 public:
  explicit session(unio::socket_handle s) : socket_(std::move(s)) {}
  void read() {
    unio::start(unio::async_read(socket_, buffer_),
                [self = this->shared_from_this()](unio::io_result<unio::mutable_buffers> got) {
                  if (!got || got->empty()) return;
                  self->rest_ = {self->buffer_.data(), got.bytes_transferred()};
                  self->write();
                });
  }

 private:
  void write() {
    unio::start(unio::async_write(socket_, rest_),
                [self = this->shared_from_this()](unio::io_result<unio::const_buffers> sent) {
                  if (!sent) return;
                  self->rest_.remove_prefix(sent.bytes_transferred());
                  self->rest_.empty() ? self->read() : self->write();
                });
  }

  unio::socket_handle socket_;
  std::string_view rest_;
  std::array<char, Size> buffer_;
};

template <> class session<0> : public std::enable_shared_from_this<session<0>> {
 public:
  explicit session(unio::socket_handle s) : socket_(std::move(s)) {}
  void read() {
    unio::start(unio::async_poll(socket_, unio::readiness::readable),
                [self = shared_from_this()](unio::io_result<void> ready) {
                  if (ready && answer(self->socket_)) self->read();
                });
  }

 private:
  unio::socket_handle socket_;
};

template <std::size_t Size> void accept_callback(unio::listening_socket_handle& listening) {
  unio::start(unio::async_accept(listening), [&listening](unio::io_result<unio::socket_handle> s) {
    std::make_shared<session<Size>>(std::move(s).value())->read();
    accept_callback<Size>(listening);
  });
}

template <class Driver> void serve_callbacks(std::string const& address, std::size_t buffer) {
  unio::io_multiplexer& m = multiplexer<Driver>();
  unio::listening_socket_handle listening = listen_at(address);
  memory::with_buffer(buffer, [&](auto size) { accept_callback<size()>(listening); });
  for (;;) m.run().value();
}

// ── coroutines that wait ───────────────────────────────────────────────────────────────────────────────────

class waiting : public memory::waiting {
 public:
  [[nodiscard]] std::uint64_t count() const override { return count_; }
  void start(std::uint64_t n) override {
    const std::uint64_t wanted = count_ + n;
    for (; n != 0; --n) unio::async_run(multiplexer_, one());
    while (count_ < wanted) multiplexer_.run().value();
  }

 protected:
  virtual unio::task<> one() = 0;

  unio::io_multiplexer& multiplexer_ = unio::this_thread::multiplexer();
  std::uint64_t count_ = 0;
};

class on_event final : public waiting {
  unio::task<> one() override {
    ++count_;
    (void)co_await event_.co_wait();
  }
  unio::event event_;
};

class on_timer final : public waiting {
  unio::task<> one() override {
    ++count_;
    unio::timer_handle t(std::chrono::hours(1));
    (void)co_await t.co_wait();
  }
};

template <class W> std::unique_ptr<memory::waiting> make() { return std::make_unique<W>(); }

template <class Driver> void add_servers(std::vector<benchmarks::benchmark_case>& to) {
  const std::string on = std::string(", ") + Driver::name;
  memory::idle_connections(to, "unio awaited" + on, serve_awaited<Driver>);
  memory::idle_connections(to, "unio multiplexed" + on, serve_multiplexed<Driver>);
  memory::idle_connections(to, "unio callbacks" + on, serve_callbacks<Driver>);
  std::vector<benchmarks::benchmark_case> lent;
  memory::idle_connections(lent, "unio lent" + on, serve_lent<Driver>);
  memory::idle_connections(lent, "unio lent, callbacks" + on, serve_lent_callbacks<Driver>);
  for (benchmarks::benchmark_case& c : lent) // none has a buffer of its own
    if (std::ranges::count(c.parameters, benchmarks::parameter{"buffer", "0"}) != 0)
      to.push_back(std::move(c));
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmarks::benchmark_case> cases;
  add_servers<uring>(cases);
  add_servers<epoll>(cases);
  memory::suspended(cases, "unio awaited", "event", make<on_event>); // the driver has no part in these
  memory::suspended(cases, "unio awaited", "timer", make<on_timer>);
  return benchmarks::subject_main(argc, argv, cases);
}
