#include "sender.hpp"

#include "stream.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

namespace benchmarks {
namespace {

constexpr std::size_t block_bytes = 256 * 1024;

// In the child. Its end ends the stream, early if something fails; who receives looks at how much there was.
void send_all(sockaddr_in const& to, int start, std::uint64_t left, std::vector<unsigned char> const& block) {
  const int s = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  char told;
  if (::connect(s, reinterpret_cast<sockaddr const*>(&to), sizeof to) != 0 || ::read(start, &told, 1) != 1)
    return;
  while (left > 0) {
    const std::size_t n = static_cast<std::size_t>(std::min<std::uint64_t>(left, block.size()));
    for (std::size_t sent = 0; sent < n;) {
      const ssize_t r = ::send(s, block.data() + sent, n - sent, MSG_NOSIGNAL);
      if (r < 0) return;
      sent += static_cast<std::size_t>(r);
    }
    left -= n;
  }
}

} // namespace

sender::sender(std::uint64_t bytes) {
  std::vector<unsigned char> block(block_bytes);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = byte_at(i);

  const int listening = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here{};
  here.sin_family = AF_INET;
  here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof here;
  int start[2] = {-1, -1};
  if (::bind(listening, reinterpret_cast<sockaddr const*>(&here), sizeof here) == 0 &&
      ::listen(listening, 1) == 0 &&
      ::getsockname(listening, reinterpret_cast<sockaddr*>(&here), &size) == 0 &&
      ::pipe2(start, O_CLOEXEC) == 0) {
    process_.emplace([&] {
      ::close(start[1]);
      send_all(here, start[0], bytes, block);
    });
    socket_ = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
  }
  const int error = errno;
  ::close(listening);
  ::close(start[0]);
  start_ = start[1];
  if (socket_ >= 0) return;
  ::close(start_);
  throw std::system_error(error, std::generic_category(), "a sender");
}

sender::~sender() {
  ::close(start_);
  if (socket_ >= 0) ::close(socket_);
}

void sender::go() {
  if (::write(start_, "", 1) != 1)
    throw std::system_error(errno, std::generic_category(), "the sender's pipe");
}

} // namespace benchmarks
