// Shows     operations with handlers, for programs written in callbacks: an echo session whose reads and
//           writes start each other, ended by a stop token. No coroutine, no connection object to keep.
// Run       build/release/examples/example_callbacks
// Read next ../d2052_4_3_connect_start/main.cpp, <unio/callback.hpp>

#include <unio/callback.hpp>
#include <unio/unio.hpp>

#include <array>
#include <cstdio>
#include <string_view>

namespace {

class echo_session {
 public:
  echo_session(unio::socket_handle socket, unio::stop_token stop) : socket_(std::move(socket)), stop_(stop) {}

  void read() {
    unio::start(
        unio::async_read(socket_, room_),
        [this](unio::io_result<unio::mutable_buffers> got) {
          if (!got || got->empty()) {
            std::printf("session: %s\n", got ? "the peer has left" : got.error().message().c_str());
            ended_ = true;
          } else {
            write({room_.data(), got.bytes_transferred()});
          }
        },
        stop_);
  }
  [[nodiscard]] bool has_ended() const { return ended_; }

 private:
  void write(std::string_view rest) {
    unio::start(unio::async_write(socket_, rest), [this, rest](unio::io_result<unio::const_buffers> put) {
      if (!put) {
        ended_ = true;
      } else if (put.bytes_transferred() != rest.size()) {
        write(rest.substr(put.bytes_transferred()));
      } else {
        read(); // reuses the block that this write has just freed
      }
    });
  }

  unio::socket_handle socket_;
  unio::stop_token stop_;
  std::array<char, 64> room_{};
  bool ended_ = false;
};

} // namespace

int main() {
  auto [near, far] = unio::socket_handle::pair().value();
  unio::stop_source stop;
  echo_session session(std::move(far), stop.get_token());
  session.read();

  std::array<char, 64> room;
  std::string_view answer;
  near.write(std::string_view("hello")).value();
  unio::start(unio::async_read(near, room), [&](unio::io_result<unio::mutable_buffers> got) {
    answer = {room.data(), got.bytes_transferred()};
    stop.request_stop();
  });
  while (!session.has_ended()) unio::this_thread::multiplexer().run().value();

  auto [leaver, served] = unio::socket_handle::pair().value();
  echo_session other(std::move(served), {});
  other.read();
  leaver.close().value();
  while (!other.has_ended()) unio::this_thread::multiplexer().run().value();

  std::printf("answer: %.*s\n", static_cast<int>(answer.size()), answer.data());
  return answer == "hello" ? 0 : 1;
}
