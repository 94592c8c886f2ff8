// Nothing waits: each operation's end starts the next. Variables become members of an object that ends
// itself; the loop becomes two functions that call each other.

#include "tcp_reader.hpp"

#include <unio/unio.hpp>

#include <array>
#include <utility>

namespace {

class reader {
 public:
  reader(unio::socket_handle s, std::int64_t total, callback done)
      : socket_(std::move(s)), left_(total), done_(done) {}
  void begin(unio::endpoint const& from) {
    connect_ = unio::connect(unio::async_connect(socket_, from), after_connect{this});
    connect_.start();
  }

 private:
  // A receiver keeps the value until set_done, from when on operation and buffer may be used again.
  struct after_connect {
    reader* r = nullptr;
    std::error_code why = {};
    void set_value(unio::io_result<void>&& connected) { why = connected.error(); }
    void set_done() { why ? r->end(why) : r->read_next(); }
  };
  struct after_read {
    reader* r = nullptr;
    std::error_code why = {};
    std::size_t bytes = 0;
    void set_value(unio::io_result<unio::mutable_buffers>&& got) {
      why = got.error();
      bytes = got.bytes_transferred();
    }
    void set_done() {
      if (why) return r->end(why);
      r->left_ -= static_cast<std::int64_t>(bytes);
      bytes == 0 || r->left_ <= 0 ? r->end(r->left_) : r->read_next();
    }
  };

  void read_next() {
    read_ = unio::connect(unio::async_read(socket_, room_), after_read{this});
    read_.start();
  }
  void end(outcome o) {
    callback const done = done_;
    delete this;
    done(std::move(o));
  }

  unio::socket_handle socket_;
  std::int64_t left_;
  callback done_;
  std::array<char, room_bytes> room_;
  unio::io_operation_connection<unio::async_connect, after_connect> connect_;
  unio::io_operation_connection<unio::async_read, after_read> read_;
};

} // namespace

void read_with_callbacks(unio::endpoint const& from, std::int64_t total, callback done) {
  auto socket = unio::socket_handle::create(from.family());
  if (!socket) return done(socket.error());
  (new reader(std::move(*socket), total, done))->begin(from);
}
