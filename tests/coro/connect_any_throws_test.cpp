// unio/connect_any.hpp: an exception in an attempt ends all of them.

#include "support/test.hpp"

#include <unio/connect_any.hpp>

namespace {

using namespace test;

// What attempts meet that do not connect, but wait for a stop, and throw.
struct attempts {
  int first_that_throws = 0;
  bool suspends_before = false;
  int begun = 0;
  int ended = 0;
  static task<result<socket_handle>> connect(void* self, endpoint const&, deadline) {
    auto& all = *static_cast<attempts*>(self);
    bool const throws = all.begun++ >= all.first_that_throws;
    struct ending {
      int& n;
      ~ending() { ++n; }
    } const counted{all.ended};
    if (!throws) (void)co_await co_sleep(1h);
    if (throws && all.suspends_before) co_await co_yield_now();
    if (throws) throw std::runtime_error("no connection at all");
    co_return std::make_error_code(std::errc::operation_canceled);
  }
};

TEST(connect_any, ends_with_what_an_attempt_throws) {
  endpoint const to[] = {endpoint::ipv4_loopback(1), endpoint::ipv4_loopback(2), endpoint::ipv4_loopback(3)};
  for (int const first : {0, 1, 2}) {
    for (bool const suspends : {false, true}) {
      attempts all{.first_that_throws = first, .suspends_before = suspends};
      EXPECT_THROW(
          (void)run(detail::connect_first(to, 60s, {.attempt_delay = 1ms}, &attempts::connect, &all)),
          std::runtime_error);
      EXPECT_EQ(all.ended, all.begun);
      EXPECT_GE(all.begun, first + 1);
    }
  }
}

} // namespace
