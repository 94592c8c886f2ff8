// Shows     passing a connected socket to another process: one process accepts, the other one answers. The
//           first has closed its descriptor when the second writes.
// Run       build/release/examples/example_passing_a_socket
// Read next <unio/passed_handles.hpp>

#include <unio/unio.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>
#include <utility>

using namespace std::chrono_literals;

namespace {

// The other process: it gets a connection, and whatever its peer had asked.
int answer(unio::socket_handle from_first) {
  std::array<char, 64> question;
  auto got = unio::receive_handles(from_first, question, 5s);
  if (!got || got->handles.size() != 1) return 1;
  unio::io_handle connection = got->handles.take(0).value();
  return connection.write(std::string_view("another process")).has_value() ? 0 : 1;
}

} // namespace

int main() {
  auto [mine, others] = unio::socket_handle::pair().value();
  ::pid_t const second = ::fork();
  if (second == 0) {
    (void)mine.close();
    ::_exit(answer(std::move(others)));
  }
  (void)others.close();

  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto client = unio::socket_handle::connected_to(listening.local_endpoint().value(), 5s).value();
  unio::socket_handle accepted = listening.accept(5s).value();
  std::printf("process %d asks process %d to answer\n", ::getpid(),
              unio::credentials_of_peer(mine)->process == ::getpid() ? second : 0);
  unio::handle const* const passed[] = {&accepted};
  unio::send_handles(mine, std::string_view("who answers?"), passed, 5s).value();
  (void)accepted.close();

  std::array<char, 64> room;
  auto const answered = client.read(room, 5s).value();
  std::printf("it was %.*s\n", static_cast<int>(answered.bytes()), room.data());
  int status = 0;
  ::waitpid(second, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 && answered.bytes() != 0 ? 0 : 1;
}
