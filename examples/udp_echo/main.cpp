// Shows     a UDP server in twenty lines: what comes joined (GRO) goes back in one call and is cut again by
//           the kernel (GSO), from the address that it was sent to, with its congestion mark. Without
//           arguments it is its own client.
// Run       build/release/examples/example_udp_echo [ADDRESS], such as 127.0.0.1:7777 or [::1]:7777
// Read next ../passing_a_socket/main.cpp, <unio/datagram_handle.hpp>

#include <unio/unio.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <tuple>
#include <vector>

using namespace std::chrono_literals;

namespace {

constexpr unio::datagram_options everything{.destination = true, .ecn = true, .gro = true};

// Ends when nothing has come for so long, or when it is asked to stop.
unio::task<int> serve(unio::datagram_handle socket, unio::deadline idle) {
  std::vector<char> room(65'535);
  unio::datagram_info info;
  for (int datagrams = 0;;) {
    auto const got = co_await socket.co_receive_from(room, info, idle);
    if (got.error() == unio::condition::timed_out || got.error() == unio::condition::canceled)
      co_return datagrams;
    if (!got) continue; // the error of one datagram
    for (unio::const_buffer rest = got->front();;) {
      unio::send_description const back{
          .to = info.from, .from = info.to, .segment = info.segment, .ecn = info.ecn};
      auto const sent = co_await socket.co_send_to(back, rest);
      if (!sent || sent.bytes_transferred() == rest.size()) break;
      rest = {rest.data() + sent.bytes_transferred(), rest.size() - sent.bytes_transferred()};
    }
    datagrams += static_cast<int>(unio::segments(got->front(), info).size());
  }
}

unio::task<bool> talk_to(unio::endpoint there) {
  auto socket = unio::datagram_handle::connected_to(there, {.gro = true}).value();
  std::string const bytes(12'000, 'x');
  auto const sent = co_await socket.co_send_to({.segment = 1200}, unio::const_buffer(bytes));
  std::vector<char> room(65'535);
  unio::datagram_info info;
  std::size_t datagrams = 0;
  for (std::size_t n = 0; n < sent.bytes_transferred();) {
    auto const got = co_await socket.co_receive_from(room, info, 5s);
    if (!got) co_return false;
    n += got.bytes_transferred();
    datagrams += unio::segments(got->front(), info).size();
  }
  std::printf("%zu datagrams came back\n", datagrams);
  co_return datagrams == 10;
}

unio::task<bool> both(unio::datagram_handle server) {
  auto const here = server.local_endpoint().value();
  // The first that ends is the client; the server is asked to stop then.
  auto const ended = co_await unio::when_any(serve(std::move(server), 10s), talk_to(here));
  int const served = std::get<0>(ended.outcomes).value();
  std::printf("%d datagrams served\n", served);
  co_return served == 10 && std::get<1>(ended.outcomes).value();
}

} // namespace

int main(int argc, char** argv) {
  std::string why;
  auto const at = unio::parse_endpoint(argc > 1 ? argv[1] : "127.0.0.1:0", &why);
  if (!at) return std::fprintf(stderr, "%s\n", why.c_str()), 1;
  auto socket = unio::datagram_handle::bind(*at, everything).value();
  if (argc > 1) return unio::run(serve(std::move(socket), {})), 0;
  return unio::run(both(std::move(socket))) ? 0 : 1;
}
