// connect_any() allocates nothing and locks nothing once warm: its attempts' frames come from the pool.

#include "alloc/counting.hpp"
#include "support/test.hpp"

#include <unio/connect_any.hpp>

namespace {

using namespace test;

TEST(alloc_connect_any, costs_nothing_once_warm) {
  endpoint const nobody =
      listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value().local_endpoint().value();
  auto listener = listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
  endpoint const at[] = {nobody, listener.local_endpoint().value()};
  test::costs const spent =
      run([](std::span<endpoint const> to, listening_socket_handle& l) -> task<test::costs> {
        test::costs before;
        for (int i = -100; i != 100; ++i) {
          if (i == 0) before = test::costs_so_far();
          result<socket_handle> const s = co_await co_connect_any(to, 10s);
          if (!s.has_value() || !l.accept().has_value()) co_return test::costs{1'000'000, 0};
        }
        co_return test::costs_so_far() - before;
      }(at, listener));
  EXPECT_EQ(spent, test::costs{});
}

} // namespace
