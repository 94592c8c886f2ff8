// tcp_reader_unio: every style, on both drivers.

#include "cases.hpp"
#include "futures.hpp"
#include "support/unio_driver.hpp"

#include <unio/callback.hpp>
#include <unio/unio.hpp>

#include <system_error>

namespace {

using namespace benchmarks;

unio::io_handle adopt(sender& from) {
  unio::io_handle h = unio::io_handle::adopt(from.socket()).value();
  from.release_socket();
  return h;
}

unio::mutable_buffer room_of(receiving& to) { return {to.room(), to.room_bytes()}; }

sample run_blocking(sender& from, receiving& to) {
  unio::io_handle socket = adopt(from);
  return measure_reading(from, to, [&] {
    while (to.took(socket.read(room_of(to)).value().bytes())) {
    }
  });
}

struct told_nothing {
  void set_value(unio::io_result<unio::mutable_buffers>&&) noexcept {}
  void set_done() noexcept {}
};

// Looks until it is there, and never waits.
sample run_polled(std::string const& driver, sender& from, receiving& to) {
  const auto m = multiplexer_on(driver);
  unio::io_handle socket = adopt(from);
  socket.set_multiplexer(m.get());
  auto read = unio::connect(unio::async_read(socket, room_of(to)), told_nothing());
  return measure_reading(from, to, [&] {
    for (;;) {
      read.start();
      while (read.poll() == unio::io_status::pending) {
      }
      if (!to.took(read.result().value().bytes())) break;
      read.reset();
    }
  });
}

// By hand what the compiler makes of read_all below.
class machine {
 public:
  machine(unio::io_handle& socket, receiving& to)
      : to_(&to), read_(unio::connect(unio::async_read(socket, room_of(to)), goes_on{this})) {}

  void resume() {
    for (;;) switch (state_) {
        case state::begun:
          read_.reset();
          state_ = state::reading;
          return read_.start();
        case state::reading: {
          auto const got = read_.result();
          if (!got) {
            error_ = got.error();
            state_ = state::ended;
          } else {
            state_ = to_->took(got->bytes()) ? state::begun : state::ended;
          }
          break;
        }
        case state::ended:
          return;
      }
  }
  [[nodiscard]] bool has_ended() const noexcept { return state_ == state::ended; }
  [[nodiscard]] std::error_code error() const noexcept { return error_; }

 private:
  enum class state { begun, reading, ended };
  struct goes_on {
    machine* m = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers>&&) noexcept {}
    void set_done() { m->resume(); }
  };

  state state_ = state::begun;
  receiving* to_;
  std::error_code error_;
  unio::io_operation_connection<unio::async_read, goes_on> read_;
};

sample run_multiplexed(std::string const& driver, sender& from, receiving& to) {
  const auto m = multiplexer_on(driver);
  unio::io_handle socket = adopt(from);
  socket.set_multiplexer(m.get());
  machine reader(socket, to);
  return measure_reading(from, to, [&] {
    reader.resume();
    while (!reader.has_ended()) (void)m->run().value();
    if (reader.error()) throw std::system_error(reader.error(), "read");
  });
}

struct callback_reader {
  unio::io_handle socket;
  receiving* to;
  std::error_code error = {};
  bool has_ended = false;

  void read_next() {
    unio::start(unio::async_read(socket, room_of(*to)), [this](unio::io_result<unio::mutable_buffers> got) {
      if (got && to->took(got->bytes())) return read_next();
      error = got.error();
      has_ended = true;
    });
  }
};

sample run_callbacks(std::string const& driver, sender& from, receiving& to) {
  const auto m = multiplexer_on(driver);
  callback_reader reader{.socket = adopt(from), .to = &to};
  reader.socket.set_multiplexer(m.get());
  return measure_reading(from, to, [&] {
    reader.read_next();
    while (!reader.has_ended) (void)m->run().value();
    if (reader.error) throw std::system_error(reader.error, "read");
  });
}

struct future_reader {
  unio::io_handle socket;
  receiving* to;
  std::error_code error = {};
  bool has_ended = false;

  futures::future<std::size_t> read() {
    futures::promise<std::size_t> got;
    futures::future<std::size_t> result = got.get_future();
    unio::start(unio::async_read(socket, room_of(*to)),
                [this, got](unio::io_result<unio::mutable_buffers> moved) {
                  error = moved.error();
                  got.set_value(moved.bytes_transferred());
                });
    return result;
  }
  void read_all() {
    futures::do_while([this] {
      return read().then([this](std::size_t n) { return to->took(n); });
    }).finally([this](bool) { has_ended = true; });
  }
};

sample run_futures(std::string const& driver, sender& from, receiving& to) {
  const auto m = multiplexer_on(driver);
  future_reader reader{.socket = adopt(from), .to = &to};
  reader.socket.set_multiplexer(m.get());
  return measure_reading(from, to, [&] {
    reader.read_all();
    while (!reader.has_ended) (void)m->run().value();
    if (reader.error) throw std::system_error(reader.error, "read");
  });
}

unio::task<> read_all(unio::io_handle& socket, receiving& to) {
  for (bool more = true; more;) {
    auto const got = co_await socket.co_read(room_of(to));
    more = to.took(got.value().bytes());
  }
}

sample run_awaited(std::string const& driver, sender& from, receiving& to) {
  const auto m = multiplexer_on(driver);
  unio::io_handle socket = adopt(from);
  return measure_reading(from, to, [&] { unio::run(*m, read_all(socket, to)); });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "unio blocking", run_blocking);
  const auto add = [&](std::string const& style, sample (*run)(std::string const&, sender&, receiving&)) {
    for (std::string const driver : both_drivers)
      add_cases(cases, style + ", " + driver,
                [=](sender& from, receiving& to) { return run(driver, from, to); });
  };
  add("unio polled", run_polled);
  add("unio multiplexed", run_multiplexed);
  add("unio callbacks", run_callbacks);
  add("unio futures, then", run_futures);
  add("unio awaited", run_awaited);
  return subject_main(argc, argv, cases);
}
