// Shows     a small server: one thread, one multiplexer, a loop of operations per connection, and an orderly
//           end. Without arguments it is its own client.
// Run       build/release/examples/example_echo_server [ADDRESS], such as 127.0.0.1:7777 or unix:/tmp/echo
// Read next ../own_multiplexer_per_thread/main.cpp, <unio/multiplexer.hpp>

#include <unio/unio.hpp>

#include <array>
#include <cstdio>
#include <list>
#include <string>
#include <string_view>
#include <thread>

namespace {

class server;

// Reads, writes back what it read, reads again. It ends when the stream does.
class peer {
 public:
  peer(server& owner, unio::socket_handle s) : owner_(owner), socket_(std::move(s)) {}
  void read_next() {
    read_ = unio::connect(unio::async_read(socket_, room_), after_read{this});
    read_.start();
  }
  std::list<peer>::iterator self;

 private:
  void write_rest() {
    write_ = unio::connect(unio::async_write(socket_, rest_), after_write{this});
    write_.start();
  }
  void end();

  // Both keep the value until set_done, when the operation may be used again.
  struct after_read {
    peer* s = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers>&& got) {
      s->rest_ = {s->room_.data(), got.bytes_transferred()};
    }
    // Nothing: the end of the stream, or an error.
    void set_done() { s->rest_.empty() ? s->end() : s->write_rest(); }
  };
  struct after_write {
    peer* s = nullptr;
    void set_value(unio::io_result<unio::const_buffers>&& r) {
      s->is_broken_ = !r;
      s->rest_.remove_prefix(r.bytes_transferred());
    }
    void set_done() { s->is_broken_ ? s->end() : s->rest_.empty() ? s->read_next() : s->write_rest(); }
  };

  server& owner_;
  unio::socket_handle socket_;
  std::array<char, 4096> room_;
  std::string_view rest_;
  bool is_broken_ = false;
  unio::io_operation_connection<unio::async_read, after_read> read_;
  unio::io_operation_connection<unio::async_write, after_write> write_;
};

class server {
 public:
  explicit server(unio::listening_socket_handle l)
      : listening_(std::move(l)),
        accept_(unio::connect(unio::async_accept_many(listening_), acceptor{this})) {
    accept_.start();
  }
  void run_until_idle() {
    while (served_ == 0 || !peers_.empty()) listening_.multiplexer()->run().value();
  }
  void end(peer& s) {
    ++served_;
    peers_.erase(s.self);
  }

 private:
  struct acceptor {
    server* s = nullptr;
    void set_value(unio::io_result<unio::socket_handle>&& got) {
      if (!got) return; // out of descriptors: accepting continues by itself; or cancelled
      peer& added = s->peers_.emplace_back(*s, std::move(*got));
      added.self = std::prev(s->peers_.end());
      added.read_next();
    }
    void set_done() {}
  };

  unio::listening_socket_handle listening_;
  std::list<peer> peers_;
  int served_ = 0;
  unio::io_operation_connection<unio::async_accept_many, acceptor> accept_; // its destructor cancels it
};

void peer::end() { owner_.end(*this); }

void talk_to(unio::endpoint const& there) {
  auto socket = unio::socket_handle::connected_to(there).value();
  std::array<char, 64> room;
  for (std::string_view const line : {"one", "two", "three"}) {
    socket.write(line).value();
    auto const got = socket.read(room).value();
    std::printf("%.*s\n", static_cast<int>(got.bytes()), room.data());
  }
}

} // namespace

int main(int argc, char** argv) {
  std::string why;
  auto const at = unio::parse_endpoint(argc > 1 ? argv[1] : "127.0.0.1:0", &why);
  if (!at) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  auto listening = unio::listening_socket_handle::listen(*at).value();
  auto const here = listening.local_endpoint().value();
  server s(std::move(listening));
  std::jthread const client = argc > 1 ? std::jthread() : std::jthread(talk_to, here);
  s.run_until_idle(); // one client, or as many as overlap
}
