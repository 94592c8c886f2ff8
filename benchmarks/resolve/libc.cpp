// resolve_libc: getaddrinfo(3), whose thread asks the server that is set in its resolver's state.

#include "resolve/server.hpp"

#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <sys/socket.h>

namespace resolve_bench {
namespace {

benchmarks::sample run(std::uint64_t operations) {
  name_server const server;
  if (::res_init() != 0) throw std::runtime_error("res_init failed");
  _res.nscount = 1;
  _res.nsaddr_list[0].sin_family = AF_INET;
  _res.nsaddr_list[0].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  _res.nsaddr_list[0].sin_port = htons(server.port());
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  return benchmarks::measure(operations, [&] {
    for (std::uint64_t i = 0; i != operations; ++i) {
      addrinfo* all = nullptr;
      if (int const e = ::getaddrinfo(the_name, nullptr, &hints, &all); e != 0)
        throw std::runtime_error(::gai_strerror(e));
      int n = 0;
      for (addrinfo const* a = all; a != nullptr; a = a->ai_next) ++n;
      ::freeaddrinfo(all);
      expect_found(n);
    }
  });
}

} // namespace
} // namespace resolve_bench

int main(int argc, char** argv) {
  return benchmarks::subject_main(argc, argv, {{.subject = "getaddrinfo", .run = &resolve_bench::run}});
}
