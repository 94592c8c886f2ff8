// resolve_cares: c-ares alone, as its documentation shows: a channel, ares_getaddrinfo, poll(2).

#include "resolve/server.hpp"

#define CARES_NO_DEPRECATED // as in src/net/wire.cpp
#include <ares.h>
#include <poll.h>

#include <string>

namespace resolve_bench {
namespace {

struct found {
  bool is_done = false;
  int status = 0;
  int addresses = 0;
};

void take(void* argument, int status, int, ares_addrinfo* result) {
  found& f = *static_cast<found*>(argument);
  f = {true, status, 0};
  if (result == nullptr) return;
  for (ares_addrinfo_node const* n = result->nodes; n != nullptr; n = n->ai_next) ++f.addresses;
  ares_freeaddrinfo(result);
}

void wait(ares_channel channel) {
  ares_socket_t sockets[ARES_GETSOCK_MAXNUM];
  int const bits = ares_getsock(channel, sockets, ARES_GETSOCK_MAXNUM);
  pollfd polled[ARES_GETSOCK_MAXNUM];
  nfds_t n = 0;
  for (int i = 0; i != ARES_GETSOCK_MAXNUM; ++i) {
    short events = 0;
    if (ARES_GETSOCK_READABLE(bits, i)) events |= POLLIN;
    if (ARES_GETSOCK_WRITABLE(bits, i)) events |= POLLOUT;
    if (events != 0) polled[n++] = {sockets[i], events, 0};
  }
  timeval room{};
  timeval const* const until = ares_timeout(channel, nullptr, &room);
  int const ms = until != nullptr ? static_cast<int>(until->tv_sec * 1000 + until->tv_usec / 1000 + 1) : -1;
  (void)::poll(polled, n, ms);
  for (nfds_t i = 0; i != n; ++i)
    ares_process_fd(channel,
                    (polled[i].revents & (POLLIN | POLLERR | POLLHUP)) != 0 ? polled[i].fd : ARES_SOCKET_BAD,
                    (polled[i].revents & POLLOUT) != 0 ? polled[i].fd : ARES_SOCKET_BAD);
}

benchmarks::sample run(int flags, std::uint64_t operations) {
  name_server const server;
  ares_channel channel = nullptr;
  ares_options options{};
  options.flags = flags;
  char lookups[] = "b"; // no hosts file: it would be read for each name
  options.lookups = lookups;
  if (ares_init_options(&channel, &options, ARES_OPT_FLAGS | ARES_OPT_LOOKUPS) != ARES_SUCCESS)
    throw std::runtime_error("no channel");
  std::string const at = "127.0.0.1:" + std::to_string(server.port());
  if (ares_set_servers_ports_csv(channel, at.c_str()) != ARES_SUCCESS) throw std::runtime_error(at);
  ares_addrinfo_hints hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  auto const result = benchmarks::measure(operations, [&] {
    for (std::uint64_t i = 0; i != operations; ++i) {
      found f;
      ares_getaddrinfo(channel, the_name, nullptr, &hints, &take, &f);
      while (!f.is_done) wait(channel);
      if (f.status != ARES_SUCCESS) throw std::runtime_error(ares_strerror(f.status));
      expect_found(f.addresses);
    }
  });
  ares_destroy(channel);
  return result;
}

} // namespace
} // namespace resolve_bench

int main(int argc, char** argv) {
  using namespace resolve_bench;
  return benchmarks::subject_main(
      argc, argv,
      {{.subject = "c-ares", .run = [](std::uint64_t n) { return run(0, n); }},
       {.subject = "c-ares, one socket", .run = [](std::uint64_t n) { return run(ARES_FLAG_STAYOPEN, n); }}});
}
