// Shows     operations of io_uring that unio has none of its own for, as operations like any other, awaited
//           and with a deadline: how many bytes wait in a socket (URING_CMD), and what an epoll set of
//           somebody else's has to report (EPOLL_WAIT), on the ring that serves everything else.
// Run       build/release/examples/example_raw_ring
// Read next include/unio/extend/raw_ring.hpp: what is refused, and why; `unio capabilities --operations`

#include <unio/extend/raw_ring.hpp>
#include <unio/unio.hpp>

#include <linux/io_uring.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>

namespace {

using namespace std::chrono_literals;
using answer = unio::io_result<unio::ring_completion>;

constexpr std::uint32_t socket_bytes_waiting = 0; // SOCKET_URING_OP_SIOCINQ, Linux 6.7
constexpr std::uint8_t epoll_wait_entry = 59;     // IORING_OP_EPOLL_WAIT, Linux 6.15

// True unless it is wrong: a kernel may not have it, and without a ring there is none.
bool report(char const* what, answer const& r, int expected) {
  if (r.has_value()) {
    std::printf("%s: %d\n", what, r->res);
  } else {
    std::printf("%s: %s\n", what, r.error().message().c_str());
  }
  return r.has_value() ? r->res == expected
                       : r.error() == std::errc::function_not_supported ||
                             r.error() == std::errc::operation_not_supported;
}

unio::task<bool> ask() {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  unio::socket_handle client =
      (co_await unio::socket_handle::co_connected_to(listening.local_endpoint().value())).value();
  unio::socket_handle server = (co_await listening.co_accept()).value();
  (void)co_await client.co_write(unio::const_buffer("hello", 5));
  (void)co_await server.co_poll(unio::readiness::readable);
  answer const waiting = co_await unio::co_raw_ring(server, [](io_uring_sqe& e) {
    e.opcode = IORING_OP_URING_CMD;
    e.cmd_op = socket_bytes_waiting;
  });
  co_return report("bytes that wait in the socket", waiting, 5);
}

unio::task<bool> wait_for_others() {
  int const set = ::epoll_create1(EPOLL_CLOEXEC);
  auto event = unio::event_handle::create().value();
  epoll_event wanted{.events = EPOLLIN, .data = {.u64 = 0}};
  (void)::epoll_ctl(set, EPOLL_CTL_ADD, event.native_handle(), &wanted);
  // What `came` says stays the kernel's until the operation has finished, as any buffer.
  epoll_event came[8];
  auto const entry = [&came, set](io_uring_sqe& e) {
    e.opcode = epoll_wait_entry;
    e.fd = set;
    e.addr = reinterpret_cast<std::uintptr_t>(came);
    e.len = 8;
  };
  answer const none = co_await unio::co_raw_ring(entry, 20ms);
  bool const fine = none.error() == unio::condition::timed_out || report("an epoll set", none, -1);
  (void)event.signal();
  answer const one = co_await unio::co_raw_ring(entry, 10s);
  ::close(set);
  co_return report("events of an epoll set", one, 1) && fine;
}

} // namespace

int main() {
  std::printf("driver: %s\n", unio::this_thread::multiplexer().capabilities().driver);
  bool const socket_is_right = unio::run(ask());
  return unio::run(wait_for_others()) && socket_is_right ? 0 : 1;
}
