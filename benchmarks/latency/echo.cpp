#include "latency/echo.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>

#include <array>

namespace latency {
namespace {

[[noreturn]] void fail(char const* what) {
  throw std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

bool change_blocking(int fd, bool blocks) noexcept {
  int const flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, blocks ? flags & ~O_NONBLOCK : flags | O_NONBLOCK) == 0;
}

// So many attempts in vain take longer than any subject needs to answer: then it, or its processor, is taken
// by something else.
constexpr unsigned patience = 1000;

void echo_for_ever(int in, int out, bool spins) noexcept {
  std::array<unsigned char, 4096> room;
  if (!change_blocking(in, !spins)) return;
  for (unsigned in_vain = 0;;) {
    ssize_t const n = ::read(in, room.data(), room.size());
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
    if (n < 0) {
      if (++in_vain % patience == 0) ::sched_yield();
      continue;
    }
    in_vain = 0;
    // A write of so little is taken whole: pipe(7), PIPE_BUF; a socket that is empty has room.
    if (::write(out, room.data(), static_cast<std::size_t>(n)) != n) return;
  }
}

} // namespace

echo::echo(transport over) {
  std::array<int, 2> request;
  std::array<int, 2> reply;
  if (over == transport::pipes) {
    if (::pipe2(request.data(), O_CLOEXEC) != 0) fail("pipe2");
    if (::pipe2(reply.data(), O_CLOEXEC) != 0) fail("pipe2");
  } else {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, request.data()) != 0) fail("socketpair");
    reply = {request[1], request[0]};
  }
  in_ = reply[0];
  out_ = request[1];
  cpu_set_t subject;
  if (::sched_getaffinity(0, sizeof subject, &subject) != 0) CPU_ZERO(&subject);
  peer_.emplace([&] {
    ::close(in_); // so that the conversation ends when the subject closes its end
    if (out_ != in_) ::close(out_);
    cpu_set_t here;
    bool const known = ::sched_getaffinity(0, sizeof here, &here) == 0;
    if (known) CPU_OR(&here, &here, &subject);
    echo_for_ever(request[0], reply[1], known && CPU_COUNT(&here) > 1);
  });
  ::close(request[0]);
  if (reply[1] != request[0]) ::close(reply[1]);
}

echo::~echo() {
  if (in_ >= 0) ::close(in_);
  if (out_ >= 0 && out_ != in_) ::close(out_);
}

void echo::make_non_blocking() const {
  if (!change_blocking(in_, false) || !change_blocking(out_, false)) fail("fcntl");
}

} // namespace latency
