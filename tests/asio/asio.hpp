// tests/asio/asio.hpp: Asio as a test sees it: standalone or Boost's, by one macro.

#pragma once

#if UNIO_TESTS_BOOST_ASIO
#include <boost/asio.hpp>
namespace asio = boost::asio;
#define ASIO_TEST_HINT(name) BOOST_ASIO_CONCURRENCY_HINT_##name
namespace test {
using failure = boost::system::error_code;
}
#else
#include <asio.hpp>
#define ASIO_TEST_HINT(name) ASIO_CONCURRENCY_HINT_##name
namespace test {
using failure = asio::error_code;
}
#endif

#include <unio/extend/foreign_reactor.hpp>

#include <sys/socket.h>

#include <chrono>
#include <string>
#include <type_traits>
#include <vector>

namespace test {

// Whatever passes below says nothing if Asio's own reactor was compiled.
#if defined(ASIO_HAS_IO_URING_AS_DEFAULT) || defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)
#define UNIO_TESTS_COMPLETIONS 1
static_assert(std::is_base_of_v<unio::foreign_watch, asio::detail::io_uring_service::io_object>);
#else
#define UNIO_TESTS_COMPLETIONS 0
static_assert(std::is_base_of_v<unio::foreign_watch, asio::detail::epoll_reactor::watched>);
#endif

using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
using asio::ip::tcp;

inline constexpr auto aborted = asio::error::operation_aborted;

/// Two connected sockets.
struct connection {
  explicit connection(asio::io_context& c) : here(c), there(c) {
    tcp::acceptor acceptor(c, {asio::ip::address_v4::loopback(), 0});
    here.connect(acceptor.local_endpoint());
    acceptor.accept(there);
    here.set_option(tcp::no_delay(true));
    there.set_option(tcp::no_delay(true));
  }
  tcp::socket here;
  tcp::socket there;
};

/// A listener that has no room: what connects to it waits until it has.
struct full_listener {
  explicit full_listener(asio::io_context& c) : acceptor(c) {
    acceptor.open(tcp::v4());
    acceptor.bind({asio::ip::address_v4::loopback(), 0});
    acceptor.listen(0);
    acceptor.non_blocking(true);
    for (int i = 0; i != 3; ++i) {
      waiting.emplace_back(c, tcp::v4());
      waiting.back().native_non_blocking(true);
      auto const to = acceptor.local_endpoint();
      ::connect(waiting.back().native_handle(), to.data(), static_cast<socklen_t>(to.size()));
    }
  }
  void accept_all() {
    for (failure e; !e;) acceptor.accept(e);
  }
  tcp::acceptor acceptor;
  std::vector<tcp::socket> waiting;
};

inline std::chrono::milliseconds since(clock::time_point t) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(clock::now() - t);
}

} // namespace test
