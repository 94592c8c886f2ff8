// An echo server of unio's: callbacks, and an object per connection that they share.

#include <unio/callback.hpp>
#include <unio/socket_handle.hpp>

#include <array>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

namespace {

class session : public std::enable_shared_from_this<session> {
 public:
  explicit session(unio::socket_handle s) : socket_(std::move(s)) {}

  void read() {
    unio::start(unio::async_read(socket_, room_),
                [self = shared_from_this()](unio::io_result<unio::mutable_buffers> got) {
                  if (!got || got->empty()) return;
                  self->rest_ = {self->room_.data(), got.bytes_transferred()};
                  self->write();
                });
  }

 private:
  void write() {
    unio::start(unio::async_write(socket_, rest_),
                [self = shared_from_this()](unio::io_result<unio::const_buffers> sent) {
                  if (!sent) return;
                  self->rest_.remove_prefix(sent.bytes_transferred());
                  self->rest_.empty() ? self->read() : self->write();
                });
  }

  unio::socket_handle socket_;
  std::array<char, 4096> room_;
  std::string_view rest_;
};

void accept(unio::listening_socket_handle& listening) {
  unio::start(unio::async_accept(listening), [&listening](unio::io_result<unio::socket_handle> connection) {
    std::make_shared<session>(std::move(connection).value())->read();
    accept(listening);
  });
}

} // namespace

int main(int argc, char** argv) {
  auto const port = static_cast<unsigned short>(argc > 1 ? std::atoi(argv[1]) : 7777);
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(port)).value();
  accept(listening);
  for (;;) unio::this_thread::multiplexer().run().value();
}
