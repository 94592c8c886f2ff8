// The sockets of a name server that a test makes without unio.

#pragma once

#include <unio/endpoint.hpp>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace test {

/// A listening socket and one for datagrams, bound to the same port of 127.0.0.1.
class sockets_of_one_port {
 public:
  sockets_of_one_port() {
    for (;;) {
      tcp_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      udp_ = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
      sockaddr_in a{};
      a.sin_family = AF_INET;
      a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      unsigned size = sizeof(a);
      auto* const name = reinterpret_cast<sockaddr*>(&a);
      if (::bind(tcp_, name, size) == 0 && ::listen(tcp_, 16) == 0 && ::getsockname(tcp_, name, &size) == 0 &&
          ::bind(udp_, name, size) == 0) {
        at = unio::endpoint::ipv4_loopback(ntohs(a.sin_port));
        return;
      }
      close();
    }
  }
  sockets_of_one_port(sockets_of_one_port const&) = delete;
  sockets_of_one_port& operator=(sockets_of_one_port const&) = delete;
  ~sockets_of_one_port() { close(); }
  unio::endpoint at;

 protected:
  int tcp_ = -1, udp_ = -1;

 private:
  void close() const {
    ::close(tcp_);
    ::close(udp_);
  }
};

} // namespace test
