// Shows     a service whose socket the service manager has opened: it exists before the service runs, so that
//           no connection is refused while that starts or is replaced. Started by hand, it opens its own. It
//           asks who its peer is, and answers only its own user.
// Run       build/release/examples/example_socket_activation
//           systemd-socket-activate -l @unio-demo build/release/examples/example_socket_activation
//           and then, elsewhere: socat - ABSTRACT-CONNECT:unio-demo
// Read next <unio/inherited_handles.hpp>, <unio/passed_handles.hpp> (credentials_of_peer)

#include <unio/unio.hpp>

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace {

std::string answer(unio::peer_credentials const& who) {
  if (who.user != ::geteuid()) return "I do not know user " + std::to_string(who.user) + "\n";
  return "hello, process " + std::to_string(who.process) + "\n";
}

// Without a service manager, a client of its own.
void ask(unio::endpoint const& at) {
  auto socket = unio::socket_handle::connected_to(at, 5s).value();
  std::array<char, 64> room;
  auto const got = socket.read(room, 5s).value();
  std::printf("%.*s", static_cast<int>(got.bytes()), room.data());
}

} // namespace

int main() {
  std::string why;
  auto inherited = unio::inherited_handles::take_over(unio::inherited_handles::environment::remove, &why);
  if (!inherited) return std::fprintf(stderr, "%s\n", why.c_str()), 1;

  bool const activated = !inherited->empty();
  auto listener = activated ? inherited->take_listener(0)
                            : unio::listening_socket_handle::listen(unio::endpoint::unix_unnamed());
  if (!listener)
    return std::fprintf(stderr, "no socket that listens: %s\n", listener.error().message().c_str()), 1;
  unio::endpoint const at = listener->local_endpoint().value();
  std::printf("%s: %s\n", activated ? "activated" : "on its own", to_string(at).c_str());

  std::jthread client;
  if (!activated) client = std::jthread([&] { ask(at); });
  auto connection = listener->accept(30s).value();
  auto const who = unio::credentials_of_peer(connection);
  if (!who) return std::fprintf(stderr, "the peer: %s\n", who.error().message().c_str()), 1;
  connection.write(answer(*who), 5s).value();
  connection.shutdown(unio::socket_handle::side::send, 5s).value();
  return 0;
}
