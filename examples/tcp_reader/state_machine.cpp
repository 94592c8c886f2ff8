// What the compiler makes of coroutine.cpp, by hand: one function, a number that says where it continues, and
// everything that lives across a wait in the object. All waits have one receiver, which calls that function.

#include "tcp_reader.hpp"

#include <unio/unio.hpp>

#include <array>
#include <utility>

namespace {

class machine {
 public:
  machine(unio::endpoint const& from, std::int64_t total, callback done)
      : from_(from), left_(total), done_(done) {}

  void resume() {
    for (;;) switch (state_) {
        case state::begun: {
          auto socket = unio::socket_handle::create(from_.family());
          if (!socket) return end(socket.error());
          socket_ = std::move(*socket);
          connect_ = unio::connect(unio::async_connect(socket_, from_), goes_on{this});
          state_ = state::connecting;
          return connect_.start(); // may resume and end it before it returns
        }
        case state::connecting:
          if (auto const connected = connect_.result(); !connected) return end(connected.error());
          state_ = state::connected;
          break;
        case state::connected:
          read_ = unio::connect(unio::async_read(socket_, room_), goes_on{this});
          state_ = state::reading;
          return read_.start();
        case state::reading: {
          auto const got = read_.result();
          if (!got) return end(got.error());
          left_ -= static_cast<std::int64_t>(got.bytes_transferred());
          if (got->empty() || left_ <= 0) return end(left_);
          state_ = state::connected;
          break;
        }
      }
  }

 private:
  enum class state { begun, connecting, connected, reading };
  struct goes_on {
    machine* m = nullptr;
    template <class Result> void set_value(Result&&) {} // the operation keeps it
    void set_done() { m->resume(); }
  };
  void end(outcome o) {
    callback const done = done_;
    delete this;
    done(std::move(o));
  }

  state state_ = state::begun;
  unio::endpoint from_;
  std::int64_t left_;
  callback done_;
  unio::socket_handle socket_;
  std::array<char, room_bytes> room_;
  unio::io_operation_connection<unio::async_connect, goes_on> connect_;
  unio::io_operation_connection<unio::async_read, goes_on> read_;
};

} // namespace

void read_with_states(unio::endpoint const& from, std::int64_t total, callback done) {
  (new machine(from, total, done))->resume();
}
