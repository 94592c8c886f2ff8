// timer_handle.hpp, event_handle: a counter that one thread signals and another waits for.

#include "support/calls.hpp"
#include "support/test.hpp"

#include <unistd.h>

namespace {

using namespace test;

std::uint64_t take(event_handle const& e) {
  std::uint64_t n = 0;
  return ::read(e.native_handle(), &n, sizeof(n)) == sizeof(n) ? n : 0;
}

TEST(event, counts_signals) {
  event_handle e = event_handle::create().value();
  EXPECT_EQ(e.kind(), unio::handle_kind::event);
  EXPECT_EQ(take(e), 0U);
  ASSERT_TRUE(e.signal());
  ASSERT_TRUE(e.signal(4));
  ASSERT_TRUE(e.signal(0));
  EXPECT_EQ(take(e), 5U);
}

TEST(event, that_is_full_stays_full_without_waiting) {
  event_handle e = event_handle::create().value();
  constexpr std::uint64_t full = std::numeric_limits<std::uint64_t>::max() - 1;
  ASSERT_TRUE(e.signal(full));
  ASSERT_TRUE(e.signal());
  EXPECT_EQ(take(e), full);
}

TEST(event, signalled_from_a_handler_leaves_errno_alone) {
  event_handle e = event_handle::create().value();
  ASSERT_TRUE(e.signal(std::numeric_limits<std::uint64_t>::max() - 1));
  errno = ERANGE;
  EXPECT_TRUE(e.signal());
  EXPECT_EQ(errno, ERANGE);
  event_handle closed;
  EXPECT_EQ(closed.signal().error().value(), EBADF);
  EXPECT_EQ(errno, ERANGE);
}

TEST(event, reports_that_no_descriptor_is_left) {
  test::replaced_calls calls;
  calls->eventfd = [](unsigned, int) noexcept -> std::int64_t { return -EMFILE; };
  EXPECT_EQ(event_handle::create().error().value(), EMFILE);
}

TEST(event, is_waited_for_until_it_is_signalled) {
  event_handle e = event_handle::create().value();
  EXPECT_EQ(e.try_wait().error(), unio::condition::would_block);
  EXPECT_EQ(e.try_wait_for(5ms).error(), unio::condition::timed_out);
  std::thread other([&] { (void)e.signal(3); });
  EXPECT_EQ(e.wait(10s).value(), 3U);
  other.join();
}

} // namespace
