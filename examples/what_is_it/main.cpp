// Shows     taking over descriptors that something else has opened, without being told what they are: each
//           becomes the handle of its kind. One that has to be of a kind is an error if it is not.
// Run       build/release/examples/example_what_is_it
// Read next <unio/adopt.hpp>, ../socket_activation/main.cpp

#include <unio/adopt.hpp>
#include <unio/unio.hpp>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <variant>

namespace {

struct name_of {
  char const* operator()(unio::socket_handle const&) const { return "a connection"; }
  char const* operator()(unio::listening_socket_handle const&) const { return "a socket that listens"; }
  char const* operator()(unio::datagram_handle const&) const { return "a socket of datagrams"; }
  char const* operator()(unio::file_handle const&) const { return "a file"; }
  char const* operator()(unio::pipe_handle const&) const { return "a pipe"; }
  char const* operator()(unio::directory_handle const&) const { return "a directory"; }
  char const* operator()(unio::event_handle const&) const { return "an event"; }
  char const* operator()(auto const&) const { return "something else"; }
};

} // namespace

int main() {
  int ends[2];
  if (::pipe(ends) != 0) return 1;
  int const opened[] = {ends[0],
                        ends[1],
                        ::socket(AF_UNIX, SOCK_STREAM, 0),
                        ::socket(AF_UNIX, SOCK_DGRAM, 0),
                        ::open(".", O_RDONLY | O_DIRECTORY),
                        ::open("/proc/self/exe", O_RDONLY),
                        ::eventfd(0, 0),
                        ::open("/dev/null", O_RDWR)};
  for (int const fd : opened) {
    unio::result<unio::adopted> const handle = unio::adopt(fd); // which closes it at the end of this round
    if (!handle) return std::fprintf(stderr, "%d: %s\n", fd, handle.error().message().c_str()), 1;
    std::printf("%d: %s\n", fd, std::visit(name_of(), *handle));
  }

  int const no_socket = ::open("/dev/null", O_RDWR);
  auto const socket = unio::adopt<unio::socket_handle>(no_socket);
  std::printf("/dev/null as a socket: %s\n", socket.error().message().c_str());
  ::close(no_socket); // it was not taken over
  return 0;
}
